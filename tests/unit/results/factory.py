# SPDX-License-Identifier: Apache-2.0
"""Run records as a benchmark would leave them."""

import copy
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from hvstack.model.configuration import Configuration, parse
from hvstack.model.target import BARE_METAL, parse_target
from hvstack.results import record as records
from hvstack.results import record_data
from hvstack.results.benchmark import RECORD_BYTES
from hvstack.results.record_data import RunRecord, compute_rate
from hvstack.results.run_id import RunId
from hvstack.results.run_store import RunStore

#: A host, and the tasks of a job.
CPUS, MEMORY_MIB, TASKS = 64, 131072, 6
TIME = '%Y-%m-%dT%H:%M:%SZ'

PHASES = (
    ('HSGen', 0.25),
    ('HSDataCheck', 0.02),
    ('HSSort', 0.5),
    ('HSDataCheck', 0.02),
    ('HSValidate', 0.21),
)


def run(
    configuration: str,
    index: int,
    seconds: float,
    *,
    size: int = 10**9,
    sweep: str = 'quick',
    started: str = '2026-11-21T05:45:00Z',
    reason: str = '',
    observations: dict[str, Any] | None = None,
    **environment: Any,
) -> RunRecord:
    """Return a record; with a reason it is of a failed run.

    :param configuration: name or label, or ``bare-metal``.
    """
    is_baseline = configuration == BARE_METAL
    facts: dict[str, Any] = {
        'cpu_model': 'Xeon',
        'hosts': ['hv-host1', 'hv-host2', 'hv-host3'],
        'worker_hosts': 2,
        'scale_model': True,
    }
    observed = {
        'cluster': f'CID-{sweep}-{configuration}-{index}',
        'pass': index,
        'position': 0,
    } | dict(observations or {})
    if not is_baseline:
        shape = parse(configuration)
        facts |= {'backend': 'lxc', 'nova': '34.0.0'}
        if 'flavor' not in observed:
            observed |= placement(shape)
    ended = datetime.fromisoformat(started) + timedelta(seconds=seconds)
    return record_data.create(
        RunId(sweep, parse_target(configuration), index),
        {
            'started': started,
            'ended': ended.strftime(TIME),
            'valid': not reason,
            'size_bytes': size,
            'replication': 2,
            'maps': TASKS,
            'reduces': TASKS,
            'reason': reason,
            'phases': phases(size, seconds),
            'total_seconds': seconds,
            'rate': 0.0 if reason else compute_rate(size, seconds),
            'environment': facts | environment,
            'seen': observed,
        },
    )


def edit(record: RunRecord, path: str, value: Any) -> RunRecord:
    """Return a record with another value of a key, without a signature.

    :param path: keys and indices, with slashes between them.
    :param value: new value; ``...`` removes the key.
    """
    data: Any = copy.deepcopy(record.document)
    *parents, last = path.split('/')
    parent = data
    for key in parents:
        parent = parent[int(key) if isinstance(parent, list) else key]
    if value is ...:
        del parent[last]
    elif isinstance(parent, list):
        parent[int(last)] = value
    else:
        parent[last] = value
    return record_data.change(record, data)


def stored_phases(record: RunRecord) -> list[dict[str, Any]]:
    """Return a copy of the phases in a record's document."""
    return copy.deepcopy(list(record.document['phases']))


def tell(record: RunRecord, **observations: Any) -> RunRecord:
    """Return a record with further observations, without a signature."""
    return record_data.add_observations(record, observations)


def with_machine(record: RunRecord, foreign: float = 0.0) -> RunRecord:
    """Give each phase the CPU time of a lab's machine, in 10 seconds."""
    phases = stored_phases(record)
    for phase in phases:
        phase['machine_cpu'] = {
            'seconds': 10.0,
            'busy': 18.0 + foreign,
            'hosts': 16.0,
            'control_plane': 1.4,
            'hvstack': 0.6,
            'foreign': foreign,
        }
    return edit(record, 'phases', phases)


def with_digest(record: RunRecord) -> RunRecord:
    """Return a record with its digest, but without a signature."""
    digest = record.computed_digest()
    return replace(record, document={**record.document, 'digest': digest})


#: When the last run of a sweep in a directory ended.
_ENDS: dict[tuple[Path, str], datetime] = {}


def save(record: RunRecord, directory: Path) -> Path:
    """Save a record; its run follows those of its sweep saved before."""
    started, ended = map(
        datetime.fromisoformat, (record.started, record.ended)
    )
    start = max(started, _ENDS.get((directory, record.sweep), started))
    _ENDS[directory, record.sweep] = ended = ended + (start - started)
    times = {'started': start.strftime(TIME), 'ended': ended.strftime(TIME)}
    return records.save(record_data.change(record, times), directory)


def append_sweeps(store: RunStore, count: int) -> None:
    """Store sweeps of a run on bare metal each, one a minute."""
    for index in range(count):
        store.append(
            run(
                *(BARE_METAL, 0, 100),
                sweep=f'sweep-{index}',
                started=f'2026-11-21T05:{index:02d}:00Z',
            )
        )


def placement(configuration: Configuration) -> dict[str, Any]:
    """Return the facts of Nova and Placement for the workers."""
    vcpus = int(CPUS * configuration.cpu_ratio / configuration.instances)
    ram = int(MEMORY_MIB * configuration.ram_ratio / configuration.instances)
    dedicated = configuration.cpu_policy == 'dedicated'
    promises = {
        'PCPU' if dedicated else 'VCPU': (CPUS, configuration.cpu_ratio),
        'MEMORY_MB': (MEMORY_MIB, configuration.ram_ratio),
    }
    worker = {
        'name': f'hv-test-worker-{configuration.name}-v{vcpus}-m{ram}-d20',
        'vcpus': vcpus,
        'ram': ram,
        'disk': 20,
        'ephemeral': 0,
        'extra_specs': {'hw:cpu_policy': 'dedicated'} if dedicated else {},
    }
    inventory = {
        name: {'total': total, 'reserved': 0, 'allocation_ratio': ratio}
        for name, (total, ratio) in promises.items()
    }
    return {
        'flavor': {'worker': worker},
        'inventory': {'hv-host2': inventory, 'hv-host3': inventory},
    }


def phases(size: int, seconds: float) -> list[dict[str, Any]]:
    """Return the phases of a run, with the counters of its data set."""
    count = size // RECORD_BYTES
    check = {'bytes': size, 'files': TASKS, 'blocks': TASKS}
    check['blocks_on_one_host'] = 0
    counters = {
        'HSGen': {'MAP_OUTPUT_RECORDS': count},
        'HSSort': {'MAP_INPUT_RECORDS': count, 'REDUCE_OUTPUT_RECORDS': count},
        'HSValidate': {'MAP_INPUT_RECORDS': count},
    }
    return [
        {'name': name, 'seconds': seconds * share}
        | (
            {'job_id': f'job_1_{index}', 'counters': counters[name]}
            if name in counters
            else check
        )
        for index, (name, share) in enumerate(PHASES)
    ]
