#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a report of 1,000 runs takes, and how large its page is.

Uses run records as patterns, with all their counters, and makes a sweep of
1,000 runs of them. Each row has telemetry of an hour on 32 nodes with two
disks, made up: .venv/bin/python benchmarks/report.py [DIRECTORY]
"""

import argparse
import random
import sys
import tempfile
import time
import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hvstack import paths, processutils, seeded_random
from hvstack.model.configuration import Configuration, parse
from hvstack.model.target import BARE_METAL, parse_target
from hvstack.results import record, record_data, telemetry, telemetry_files
from hvstack.results.file_run_store import FileRunStore
from hvstack.results.run_id import RunId

RUNS = 1000
#: A host of the runs.
CPUS, MEMORY_MIB = 64, 262144
TIME = '%Y-%m-%dT%H:%M:%SZ'
#: Of a run whose telemetry is made up: nodes, samples, seconds between them.
NODES, SAMPLES, INTERVAL = 32, 720, 5.0
#: Goals: seconds, and bytes of the page.
GOAL_SECONDS, GOAL_BYTES = 5.0, 10_000_000
#: Goal: seconds to list the runs of a sweep before its next run.
GOAL_LIST_SECONDS = 0.5
HVSTACK = Path(sys.executable).with_name('hvstack')


def node(index: int, source: random.Random) -> telemetry.NodeTelemetry:
    """Return a worker whose series are noise, which packs badly."""

    def series(maximum: float) -> telemetry.Values:
        return [round(source.uniform(0, maximum), 2) for _ in range(SAMPLES)]

    return telemetry.NodeTelemetry(
        name=f'worker-{index}',
        role='worker',
        host=f'host-{index}',
        times=[INTERVAL * n for n in range(SAMPLES + 1)],
        rates={
            **{name: series(1e8) for name in ('rx', 'tx')},
            **{f'{name}_packets': series(1e5) for name in ('rx', 'tx')},
            **{name: series(40) for name in ('cpu', 'steal')},
            'swap': [0.0] * SAMPLES,
        },
        disks={
            disk: {name: series(1e8) for name in telemetry.DISK_RATES}
            for disk in ('vdb', 'vdc')
        },
        cpus=40,
    )


def scaled(phase: dict[str, Any], factor: float) -> dict[str, Any]:
    """Return a phase that takes another time."""
    changed = {
        name: value * factor
        if name == 'seconds' or name.endswith('_seconds')
        else value
        for name, value in phase.items()
    }
    changed.pop('began', None)
    return changed


def placement(configuration: Configuration) -> dict[str, Any]:
    """Return the flavor and the inventory of a configuration's workers."""
    totals = {
        'VCPU': (CPUS, configuration.cpu_ratio),
        'MEMORY_MB': (MEMORY_MIB, configuration.ram_ratio),
    }
    vcpus, ram = (
        int(total * ratio / configuration.instances)
        for total, ratio in totals.values()
    )
    return {
        'flavor': {
            'worker': {
                **{'name': 'benchmark', 'vcpus': vcpus, 'ram': ram},
                **{'disk': 20, 'ephemeral': 0, 'extra_specs': {}},
            }
        },
        'inventory': {
            'host': {
                name: {
                    **{'total': total, 'reserved': 0},
                    'allocation_ratio': ratio,
                }
                for name, (total, ratio) in totals.items()
            }
        },
    }


def make(patterns: list[record_data.RunRecord], directory: Path) -> None:
    """Save a sweep: 1 part of 10 on bare metal, the others of 45 rows."""
    source = seeded_random.build_generator(1)
    kinds = {run_record.kind: run_record for run_record in patterns}
    names = [
        Configuration(instances, cpu_ratio, ram_ratio).name
        for instances in (1, 2, 4, 8, 16)
        for cpu_ratio in (1.0, 1.5, 2.0)
        for ram_ratio in (1.0, 1.1, 1.2)
    ]
    counts: Counter[str] = Counter()
    start = datetime(2026, 1, 1, tzinfo=UTC)
    end = INTERVAL * SAMPLES
    node_telemetry = telemetry.Telemetry(
        source='sysstat',
        interval=INTERVAL,
        phases=[('HSGen', 0.0, end / 3), ('HSSort', end / 3, end)],
        nodes=[node(index, source) for index in range(NODES)],
    )
    for index in range(RUNS):
        is_baseline = index % 10 == 0
        pattern = kinds['baseline' if is_baseline else 'configuration']
        name = BARE_METAL if is_baseline else names[index % len(names)]
        factor = source.uniform(0.95, 1.05)
        seconds = pattern.total_seconds * factor
        ended = start + timedelta(seconds=seconds)
        phases: Any = pattern.document['phases']
        observations: dict[str, Any] = dict(pattern.observations.facts)
        if not is_baseline:
            observations |= placement(parse(name))
            observations.pop('allocations', None)
        record_id = str(uuid.UUID(int=index, version=4))
        # One run on each cluster: a table without intervals costs less.
        observations['cluster'] = record_id
        observations['pass'], observations['position'] = divmod(
            index, len(names) + 5
        )
        if not counts[name]:
            observations['telemetry'] = telemetry_files.save(
                node_telemetry, FileRunStore(directory), record_id
            )
        run_record = record_data.create(
            RunId('benchmark', parse_target(name), counts[name]),
            {
                **pattern.document,
                'started': start.strftime(TIME),
                'ended': ended.strftime(TIME),
                'phases': [scaled(phase, factor) for phase in phases],
                'total_seconds': seconds,
                'rate': record_data.compute_rate(pattern.size_bytes, seconds),
                'id': record_id,
                'seen': observations,
            },
        )
        start = ended + timedelta(seconds=60)
        counts[name] += 1
        record.save(run_record, directory)


def select_comparable(
    records: list[record_data.RunRecord],
) -> list[record_data.RunRecord]:
    """Return the valid runs with the most data that both kinds have.

    Without bare metal of the same size, a report would compute no percentages.
    """
    kinds: dict[int, set[str]] = {}
    for run_record in records:
        if run_record.valid:
            kinds.setdefault(run_record.size_bytes, set()).add(run_record.kind)
    sizes = [size for size in kinds if len(kinds[size]) == 2]
    return [
        run_record
        for run_record in records
        if run_record.valid and run_record.size_bytes == max(sizes, default=0)
    ]


def schedule(directory: Path) -> bool:
    """Measure how long the runs of a sweep take to list; True if too long.

    The first process builds the index, and each further one lists the runs
    without reading a record, as before the next run of a sweep.
    """
    for title in ('without an index', 'with the index'):
        begin = time.monotonic()
        store = FileRunStore(directory)
        runs = store.list_runs('benchmark')
        took = time.monotonic() - begin
        print(
            f'{len(runs)} runs listed {title}: {took:.3f} s, '
            f'{store.read_count} records read'
        )
    return took > GOAL_LIST_SECONDS or store.read_count > 0


def main() -> int:
    """Measure and print; status 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        'directory', nargs='?', type=Path, default=paths.STATE / 'records'
    )
    records_dir = parser.parse_args().directory
    every = record.load_all(records_dir, unsigned=True)
    patterns = select_comparable(every)
    if not patterns:
        print(
            f'{records_dir}: no valid runs of both kinds with the same data, '
            'run a sweep first'
        )
        return 2
    missed = False
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        make(patterns, directory)
        for form in ('table', 'json', 'html'):
            path = directory / f'report.{form}.txt'
            begin = time.monotonic()
            processutils.run(
                [
                    *(HVSTACK, 'report', '--records', directory),
                    *('-f', form, '-o', path),
                ],
                timeout=600,
            )
            took = time.monotonic() - begin
            size = path.stat().st_size
            missed |= took > GOAL_SECONDS
            missed |= form == 'html' and size > GOAL_BYTES
            print(f'{RUNS} runs, {form:5} {took:6.1f} s {size:10} bytes')
        missed |= schedule(directory)
    print(f'goals: {GOAL_SECONDS} s; of the page {GOAL_BYTES} bytes')
    return int(missed)


if __name__ == '__main__':
    sys.exit(main())
