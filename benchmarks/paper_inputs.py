# SPDX-License-Identifier: Apache-2.0
"""Generated input at the scale of the papers: what Hadoop and sysstat print.

``benchmarks/paper_scale.py`` measures hvstack with it. A number that looks
random is the same in each run.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hvstack import seeded_random

JOB = '1795264903056_0002'
#: Bytes of a block: 112,000 of them are the 30 TB of vsphere6.
BLOCK_BYTES = 267_857_100
#: Begin of the generated run, and of its sort, in seconds since 1970.
START = int(datetime(2025, 1, 1, tzinfo=UTC).timestamp())
SORT_START = START + 940
#: Nodes of a host (vsphere6: 20), reduces and slots of a node.
NODES_PER_HOST, REDUCES_PER_NODE, SLOTS = 20, 3, 8
#: Seconds of the map tasks and of the reduce tasks of the sort.
MAP_SECONDS, REDUCE_SECONDS = 1100.0, 700.0
#: Map tasks of which one fails once, and one has a speculative attempt.
FAILED_EVERY, SPECULATIVE_EVERY = 200, 100
#: Samples of a node, and seconds between them: an hour.
SAMPLES, INTERVAL = 720, 5
_EVENTS = 'org.apache.hadoop.mapreduce.jobhistory'
_GROUPS = 'org.apache.hadoop.mapreduce'
#: Counters of a map task and of a reduce task in Hadoop 3.4.
_FILE_COUNTERS = (
    *('FILE_BYTES_READ', 'FILE_BYTES_WRITTEN', 'FILE_READ_OPS'),
    *('FILE_LARGE_READ_OPS', 'FILE_WRITE_OPS', 'HDFS_BYTES_READ'),
    *('HDFS_BYTES_WRITTEN', 'HDFS_READ_OPS', 'HDFS_LARGE_READ_OPS'),
    *('HDFS_WRITE_OPS', 'HDFS_BYTES_READ_EC'),
)
_TASK_COUNTERS = {
    'MAP': (
        *('MAP_INPUT_RECORDS', 'MAP_OUTPUT_RECORDS', 'MAP_OUTPUT_BYTES'),
        *('MAP_OUTPUT_MATERIALIZED_BYTES', 'SPLIT_RAW_BYTES'),
        *('COMBINE_INPUT_RECORDS', 'SPILLED_RECORDS', 'FAILED_SHUFFLE'),
        *('MERGED_MAP_OUTPUTS', 'GC_TIME_MILLIS', 'CPU_MILLISECONDS'),
        *('PHYSICAL_MEMORY_BYTES', 'VIRTUAL_MEMORY_BYTES'),
        *('COMMITTED_HEAP_BYTES', 'MAP_PHYSICAL_MEMORY_BYTES_MAX'),
        'MAP_VIRTUAL_MEMORY_BYTES_MAX',
    ),
    'REDUCE': (
        *('COMBINE_INPUT_RECORDS', 'COMBINE_OUTPUT_RECORDS'),
        *('REDUCE_INPUT_GROUPS', 'REDUCE_SHUFFLE_BYTES'),
        *('REDUCE_INPUT_RECORDS', 'REDUCE_OUTPUT_RECORDS'),
        *('SPILLED_RECORDS', 'SHUFFLED_MAPS', 'FAILED_SHUFFLE'),
        *('MERGED_MAP_OUTPUTS', 'GC_TIME_MILLIS', 'CPU_MILLISECONDS'),
        *('PHYSICAL_MEMORY_BYTES', 'VIRTUAL_MEMORY_BYTES'),
        *('COMMITTED_HEAP_BYTES', 'REDUCE_PHYSICAL_MEMORY_BYTES_MAX'),
        'REDUCE_VIRTUAL_MEMORY_BYTES_MAX',
    ),
}
_SHUFFLE_ERRORS = (
    *('BAD_ID', 'CONNECTION', 'IO_ERROR'),
    *('WRONG_LENGTH', 'WRONG_MAP', 'WRONG_REDUCE'),
)
#: Counters of 64-bit sums, which a generated task does not have.
_SPLITS = ('clockSplits', 'cpuUsages', 'vMemKbytes', 'physMemKbytes')


@dataclass(frozen=True)
class Scale:
    """Size of a generated run.

    :param maps: number of map tasks of the sort.
    :param nodes: number of workers.
    """

    maps: int
    nodes: int

    @property
    def reduces(self) -> int:
        """Number of reduce tasks."""
        return self.nodes * REDUCES_PER_NODE

    @property
    def size_bytes(self) -> int:
        """Size of the data in bytes."""
        return self.maps * BLOCK_BYTES

    @property
    def workers(self) -> dict[str, str]:
        """Names of the workers by address."""
        return {address(n): f'worker-{n}' for n in range(self.nodes)}

    @property
    def hosts(self) -> dict[str, str]:
        """Hosts of the workers by name."""
        return {
            f'worker-{n}': f'host-{n // NODES_PER_HOST}'
            for n in range(self.nodes)
        }


def address(node: int) -> str:
    """Return the address of a node."""
    return f'10.252.{node // 200}.{10 + node % 200}'


def write_inputs(scale: Scale, directory: Path) -> None:
    """Write the history file, the answers of the daemons and the programs.

    :param directory: receives ``history.jhist``, ``fsck.txt``, the answers of
        the JobHistory server, and ``bin`` with programs that print them.
    """
    hosts = scale.hosts
    rows = [
        f'{key} /rack1/ng-{hosts[name]}\n'
        for own_address, name in scale.workers.items()
        for key in (own_address, name)
    ]
    (directory / 'topology.table').write_text(''.join(rows))
    with (directory / 'history.jhist').open('w') as stream:
        for line in list_events(scale):
            # MapReduce writes an empty line after each event.
            stream.write(f'{line}\n\n')
    with (directory / 'fsck.txt').open('w') as stream:
        stream.writelines(list_fsck_lines(scale))
    for name, answer in build_answers(scale).items():
        (directory / f'{name}.json').write_text(json.dumps(answer))
    programs = {
        'hdfs': f'case $1 in\ndfs) cat {directory}/history.jhist ;;\n'
        f'*) cat {directory}/fsck.txt ;;\nesac\n',
        'busybox': 'for url; do :; done\ncase $url in\n'
        + ''.join(
            f'*/{name}) cat {directory}/{name}.json ;;\n'
            for name in ('tasks', 'counters')
        )
        + f'*) cat {directory}/job.json ;;\nesac\n',
    }
    (directory / 'bin').mkdir()
    for name, program in programs.items():
        path = directory / 'bin' / name
        path.write_text(f'#!/bin/sh\n{program}')
        path.chmod(0o755)


def list_events(scale: Scale) -> Iterator[str]:
    """Yield the lines of a history file: its head and its events."""
    source = seeded_random.build_generator(1)
    yield 'Avro-Json'
    # The schema has 30 kB; its content does not matter here.
    yield json.dumps({'type': 'record', 'name': 'Event', 'doc': 'x' * 30_000})
    tasks = [('MAP', n) for n in range(scale.maps)]
    tasks += [('REDUCE', n) for n in range(scale.reduces)]
    for task_type, number in tasks:
        splits = [
            address((number + 7 * copy + (number % 50 == 1)) % scale.nodes)
            for copy in range(3)
        ]
        yield _event(
            'TASK_STARTED',
            'TaskStarted',
            {
                'taskid': f'task_{JOB}_{task_type[0].lower()}_{number:06}',
                'taskType': task_type,
                'startTime': SORT_START * 1000 + 5000,
                'splitLocations': ','.join(splits)
                if task_type == 'MAP'
                else '',
            },
        )
    for task_type, number in tasks:
        yield from _list_task_events(scale, task_type, number, source)


def _list_task_events(
    scale: Scale, task_type: str, number: int, source: random.Random
) -> Iterator[str]:
    """Yield the events of the attempts of a task."""
    started, seconds = _schedule(scale, task_type, number)
    finished = int(started + seconds * source.uniform(0.9, 1.0))
    is_map = task_type == 'MAP'
    task = f'{JOB}_{task_type[0].lower()}_{number:06}'
    counters = _build_counters(scale, task_type, source)
    statuses = ['SUCCEEDED']
    if is_map and number % FAILED_EVERY == 7:
        statuses.insert(0, 'FAILED')
    if is_map and number % SPECULATIVE_EVERY == 13:
        statuses.append('KILLED')
    for index, status in enumerate(statuses):
        node = (number + index) % scale.nodes
        ids: dict[str, Any] = {
            **{'taskid': f'task_{task}', 'taskType': task_type},
            'attemptId': f'attempt_{task}_{index}',
        }
        yield _event(
            f'{task_type}_ATTEMPT_STARTED',
            'TaskAttemptStarted',
            {
                **ids,
                'startTime': int(started),
                'trackerName': address(node),
                **{'httpPort': 8042, 'shufflePort': 13562},
                'containerId': f'container_{JOB}_01_{number:06}',
                'locality': {'string': 'NODE_LOCAL'},
                'avataar': {
                    'string': 'VIRGIN' if index == 0 else 'SPECULATIVE'
                },
            },
        )
        host = {
            **{'hostname': address(node), 'port': 40359},
            'rackname': f'/rack1/ng-host-{node // NODES_PER_HOST}',
        }
        splits = {
            name: [source.randrange(10**6) for _ in range(12)]
            for name in _SPLITS
        }
        if status == 'SUCCEEDED':
            times: tuple[str, ...] = ('mapFinishTime', 'finishTime')
            if not is_map:
                times = ('shuffleFinishTime', 'sortFinishTime', 'finishTime')
            end: dict[str, Any] = {
                **{
                    **ids,
                    'taskStatus': status,
                    **dict.fromkeys(times, finished),
                },
                **{**host, 'state': task_type.lower(), 'counters': counters},
                **splits,
            }
            name = f'{task_type.capitalize()}AttemptFinished'
            yield _event(f'{task_type}_ATTEMPT_FINISHED', name, end)
            continue
        end = {
            **{**ids, 'finishTime': finished, **host, 'status': status},
            'error': 'Container killed by the ApplicationMaster.\n'
            'Exit code is 143',
            'counters': {f'{_EVENTS}.JhCounters': counters},
            **splits,
        }
        yield _event(
            f'{task_type}_ATTEMPT_{status}',
            'TaskAttemptUnsuccessfulCompletion',
            end,
        )
    yield _event(
        'TASK_FINISHED',
        'TaskFinished',
        {
            **{'taskid': f'task_{task}', 'taskType': task_type},
            **{'finishTime': finished, 'status': 'SUCCEEDED'},
            'counters': counters,
            'successfulAttemptId': {
                'string': f'attempt_{task}_{statuses.index("SUCCEEDED")}'
            },
        },
    )


def _schedule(
    scale: Scale, task_type: str, number: int
) -> tuple[float, float]:
    """Return the start of a task and its maximum duration in milliseconds."""
    if task_type == 'REDUCE':
        begin = SORT_START + 10 + MAP_SECONDS
        return begin * 1000, REDUCE_SECONDS * 1000
    of_node = -(-scale.maps // scale.nodes)
    wave = number // scale.nodes // SLOTS
    seconds = MAP_SECONDS / -(-of_node // SLOTS)
    return (SORT_START + 10 + wave * seconds) * 1000, seconds * 1000


def _event(event_type: str, record: str, content: dict[str, Any]) -> str:
    return json.dumps(
        {'type': event_type, 'event': {f'{_EVENTS}.{record}': content}},
        separators=(',', ':'),
    )


def _build_counters(
    scale: Scale, task_type: str, source: random.Random
) -> dict[str, Any]:
    """Return the counters of an attempt as a history file has them."""
    records = BLOCK_BYTES // 100
    values = {
        'HDFS_BYTES_READ': BLOCK_BYTES + 120,
        'HDFS_BYTES_WRITTEN': 0,
        'MAP_INPUT_RECORDS': records,
        'MAP_OUTPUT_RECORDS': records,
    }
    if task_type == 'REDUCE':
        records = int(
            scale.size_bytes
            // (100 * scale.reduces)
            * source.uniform(0.95, 1.05)
        )
        values = {
            'HDFS_BYTES_READ': 0,
            'HDFS_BYTES_WRITTEN': 100 * records,
            'REDUCE_INPUT_RECORDS': records,
            'REDUCE_OUTPUT_RECORDS': records,
        }
    groups = {
        f'{_GROUPS}.FileSystemCounter': _FILE_COUNTERS,
        f'{_GROUPS}.TaskCounter': _TASK_COUNTERS[task_type],
    }
    if task_type == 'MAP':
        groups[f'{_GROUPS}.lib.input.FileInputFormatCounter'] = ('BYTES_READ',)
    else:
        groups['Shuffle Errors'] = _SHUFFLE_ERRORS
        groups[f'{_GROUPS}.lib.output.FileOutputFormatCounter'] = (
            'BYTES_WRITTEN',
        )
    return {
        'name': 'COUNTERS',
        'groups': [
            {
                'name': name,
                'displayName': name.rpartition('.')[2],
                'counts': [
                    {
                        'name': counter,
                        'displayName': counter.capitalize().replace('_', ' '),
                        'value': values.get(counter, source.randrange(10**9)),
                    }
                    for counter in counters
                ],
            }
            for name, counters in groups.items()
        ],
    }


def build_answers(scale: Scale) -> dict[str, Any]:
    """Return the answers of the JobHistory server about the sort."""
    tasks = []
    for task_type, count in (('MAP', scale.maps), ('REDUCE', scale.reduces)):
        for number in range(count):
            started, milliseconds = _schedule(scale, task_type, number)
            task = f'{JOB}_{task_type[0].lower()}_{number:06}'
            tasks.append(
                {
                    'startTime': int(started),
                    'finishTime': int(started + milliseconds),
                    'elapsedTime': int(milliseconds),
                    'progress': 100.0,
                    'id': f'task_{task}',
                    'state': 'SUCCEEDED',
                    'type': task_type,
                    'successfulAttempt': f'attempt_{task}_0',
                }
            )
    records = scale.size_bytes // 100
    totals = {
        **{'HDFS_BYTES_READ': scale.size_bytes, 'FILE_BYTES_READ': 10**12},
        'HDFS_BYTES_WRITTEN': scale.size_bytes,
        **dict.fromkeys(('MAP_INPUT_RECORDS', 'MAP_OUTPUT_RECORDS'), records),
        'REDUCE_INPUT_RECORDS': records,
        'REDUCE_OUTPUT_RECORDS': records,
    }
    names = {*_TASK_COUNTERS['MAP'], *_TASK_COUNTERS['REDUCE']}
    groups = [
        {
            'counterGroupName': f'{_GROUPS}.{name}',
            'counter': [
                {
                    'name': counter,
                    'totalCounterValue': totals.get(counter, 10**9),
                    'mapCounterValue': totals.get(counter, 10**9),
                    'reduceCounterValue': 0,
                }
                for counter in counters
            ],
        }
        for name, counters in (
            ('FileSystemCounter', _FILE_COUNTERS),
            ('TaskCounter', sorted(names)),
        )
    ]
    end = SORT_START + 20 + MAP_SECONDS + REDUCE_SECONDS
    return {
        'job': {
            'job': {
                **{'id': f'job_{JOB}', 'state': 'SUCCEEDED'},
                **{'startTime': SORT_START * 1000, 'finishTime': end * 1000},
                **{'mapsTotal': scale.maps, 'reducesTotal': scale.reduces},
                'failedMapAttempts': scale.maps // FAILED_EVERY,
                'killedMapAttempts': scale.maps // SPECULATIVE_EVERY,
            }
        },
        'tasks': {'tasks': {'task': tasks}},
        'counters': {
            'jobCounters': {'id': f'job_{JOB}', 'counterGroup': groups}
        },
    }


def list_fsck_lines(scale: Scale) -> Iterator[str]:
    """Yield the lines of hdfs fsck about the input, with a block per file."""
    for number in range(scale.maps):
        nodes = [(number + 21 * copy) % scale.nodes for copy in range(3)]
        replicas = ', '.join(
            f'DatanodeInfoWithStorage[{address(node)}:9866,'
            f'DS-{number:08}-{node},DISK]'
            for node in nodes
        )
        yield (
            f'/benchmarks/tpcx-hs/input/part-m-{number:05} {BLOCK_BYTES} '
            'bytes, replicated: replication=3, 1 block(s):  OK\n'
            f'0. BP-1-10.252.0.9-1795264903056:blk_{1073741825 + number}_'
            f'{1001 + number} len={BLOCK_BYTES} Live_repl=3  [{replicas}]\n\n'
        )
    yield 'Status: HEALTHY\n Mis-replicated blocks:\t0 (0.0 %)\n'


def format_sadf() -> str:
    """Return an hour of samples of a node as ``sadf -j`` prints them."""
    source = seeded_random.build_generator(2)

    def number(maximum: float) -> float:
        return round(source.uniform(0, maximum), 2)

    samples = []
    for index in range(SAMPLES):
        moment = datetime.fromtimestamp(START, UTC) + timedelta(
            seconds=INTERVAL * (index + 1)
        )
        user, steal = number(80), number(1)
        network = {
            **{'rxpck': number(1e5), 'txpck': number(1e5)},
            **{'rxkB': number(1e5), 'txkB': number(1e5), 'rxcmp': 0.0},
            **{'txcmp': 0.0, 'rxmcst': 0.0, 'ifutil-percent': 0.0},
        }
        disks = [
            {
                **{'disk-device': name, 'tps': number(500)},
                **{'rkB': number(1e5), 'wkB': number(1e5), 'dkB': 0.0},
                **{'areq-sz': number(500), 'aqu-sz': number(9)},
                **{'await': number(50), 'util-percent': number(100)},
            }
            for name in ('vda', 'vdb', 'vdc')
        ]
        load = {
            **{'cpu': 'all', 'user': user, 'nice': 0.0, 'system': 2.0},
            **{'iowait': 1.0, 'steal': steal},
            'idle': round(97 - user - steal, 2),
        }
        fields = {
            'timestamp': {
                'date': f'{moment:%Y-%m-%d}',
                'time': f'{moment:%H:%M:%S}',
                **{'utc': 1, 'interval': INTERVAL},
            },
            'cpu-load': [load],
            'swap-pages': {'pswpin': 0.0, 'pswpout': 0.0},
            'disk': disks,
            'network': {
                'net-dev': [
                    {'iface': name, **network} for name in ('lo', 'eth0')
                ]
            },
        }
        # sadf prints a line for each device.
        lines = ',\n\t\t'.join(
            f'"{name}": {json.dumps(value)}' for name, value in fields.items()
        ).replace('}, {', '},\n\t\t\t{')
        samples.append(f'{{\n\t\t{lines}\n\t}}')
    head = '{"nodename": "w", "number-of-cpus": 4, "statistics": [\n\t'
    return f'{{"sysstat": {{"hosts": [\n{head}{",".join(samples)}]}}]}}}}\n'
