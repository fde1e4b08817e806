# SPDX-License-Identifier: Apache-2.0
"""Memory of a job's client and ApplicationMaster, by its number of tasks.

Small jobs use the sizes of the tuning profile and of the guest image. The
numbers of bytes are upper estimates, and no measurements of hvstack.
"""

import re

from hvstack.hadoop import daemon_http, master_node, properties
from hvstack.hadoop.daemon_http import Runner

MIB = 1024 * 1024
#: Heap in MiB without tasks, of either JVM.
_BASE_MIB = 256
#: Bytes of heap for each task in the ApplicationMaster: task, attempt,
#: counters and events of both.
_MASTER_TASK_BYTES = 32 * 1024
#: Bytes of heap in the client for each split with its locations, and for each
#: key that TeraSort samples.
_SPLIT_BYTES = 2 * 1024
_KEY_BYTES = 256
#: Part of the ApplicationMaster's container that is its heap.
_HEAP = 0.8
#: Number of tasks that the ApplicationMaster and client of any tuning profile
#: have memory for.
SMALL_JOB = 8000
#: Property with the options of the JVM of an ApplicationMaster.
_MASTER_OPTIONS = 'yarn.app.mapreduce.am.command-opts'
#: Hadoop's limit of 10 MB is that of about 200,000 splits.
_LARGE_SPLITS = '-Dmapreduce.job.split.metainfo.maxsize=-1'
#: ApplicationMaster with container and heap of a task: otherwise Hadoop runs
#: no task in its JVM (MRAppMaster, "makeUberDecision"). Hadoop replaces the
#: names of properties by their values.
TASK_SIZE_OPTIONS = (
    '-Dyarn.app.mapreduce.am.resource.mb=${mapreduce.reduce.memory.mb}',
    '-Dyarn.app.mapreduce.am.command-opts=${mapreduce.reduce.java.opts}',
)


def client_mib(splits: int, keys: int) -> int:
    """Return the heap in MiB of the client of a job.

    :param splits: number of input splits, or of map tasks without input.
    :param keys: number of keys that the client samples.
    :returns: heap; 0 is that of the guest image, which a small job uses.
    """
    if splits <= SMALL_JOB:
        return 0
    return _BASE_MIB + (splits * _SPLIT_BYTES + keys * _KEY_BYTES) // MIB


def master_mib(
    tasks: int, node_mib: int, profile_heap_mib: int
) -> tuple[int, int] | None:
    """Return container and heap in MiB of the ApplicationMaster of a job.

    :param tasks: number of map and reduce tasks.
    :param node_mib: memory of a NodeManager that runs ApplicationMasters: no
        container is larger.
    :param profile_heap_mib: heap of the tuning profile; 0 if it is not known.
    :returns: None for a small job, and where the heap of the tuning profile
        is large enough: these jobs use the sizes of the tuning profile.
    """
    if tasks <= SMALL_JOB:
        return None
    heap = _BASE_MIB + tasks * _MASTER_TASK_BYTES // MIB
    if heap <= profile_heap_mib:
        return None
    container = min(int(heap / _HEAP), node_mib)
    return container, min(heap, int(container * _HEAP))


def _find_profile_heap(manager: Runner) -> int:
    """Return the heap in MiB of an ApplicationMaster of the tuning profile.

    :returns: heap by the files of the JobHistory server, which are those of
        the jobs; 0 if they do not have one in MiB.
    """
    answer = daemon_http.get_json(
        manager, 'historyserver', f'/conf?name={_MASTER_OPTIONS}'
    )
    value = str((answer.get('property') or {}).get('value', ''))
    heaps = re.findall(r'-Xmx(\d+)m\b', value)
    # Of two options of a JVM, the last one counts.
    return int(heaps[-1]) if heaps else 0


def master_options(manager: Runner, tasks: int, processors: int) -> list[str]:
    """Return options of ``hadoop jar`` for the ApplicationMaster of a job.

    :param manager: controller with the ResourceManager.
    :param tasks: number of map and reduce tasks.
    :param processors: number of processors of a worker's JVMs.
    :returns: properties; none for a small job, and no memory where the
        tuning profile has enough.
    :raises hvstack.errors.CommandError: the ResourceManager or the JobHistory
        server does not answer.
    """
    if tasks <= SMALL_JOB:
        return []
    sizes = master_mib(
        tasks, _find_node_mib(manager), _find_profile_heap(manager)
    )
    if sizes is None:
        return [_LARGE_SPLITS]
    container, heap = sizes
    return [
        f'-Dyarn.app.mapreduce.am.resource.mb={container}',
        # The option of the tuning profile has the heap of a small job.
        f'-D{_MASTER_OPTIONS}=-Xmx{heap}m '
        f'{properties.list_common_options(processors)} '
        f'{properties.ADD_OPENS}',
        _LARGE_SPLITS,
    ]


def _find_node_mib(manager: Runner) -> int:
    """Return the memory in MiB of a NodeManager for ApplicationMasters.

    It is the one with their label, or else the largest.
    """
    answer = daemon_http.get_json(
        manager, 'resourcemanager', '/ws/v1/cluster/nodes?states=RUNNING'
    )
    nodes = daemon_http.list_elements((answer.get('nodes') or {}).get('node'))
    labelled = [node for node in nodes if master_node.has_label(node)]
    return max(
        (
            int(node['usedMemoryMB']) + int(node['availMemoryMB'])
            for node in labelled or nodes
        ),
        default=0,
    )
