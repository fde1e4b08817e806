#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rehearsal of sweeps on several clouds at once, which share their records.

A simulation: no cloud and no Hadoop. Each cloud has a process of its own, with
its own state directory and key, and all write to one store of records and
trust each other's keys. All clouds are described by the same facts, and each
one scatters in its own way: the hardest case for a search that learns from
earlier sweeps. A process executes two sweeps of hvstack's own code, each with
its search and its confirmation; Rally alone is replaced, by a function that
stores records with simulated rates and times. Processes are killed in the
middle (SIGKILL) and started again. At the end, the search, the confirmation
and the report of each sweep must be those of a store with the records of
this cloud alone. With --without-cloud, the records do not name their clouds,
as those of older releases, so that the sweeps do disturb each other:
.venv/bin/python benchmarks/several_clouds.py [--clouds N] [--postgresql URL]
[--without-cloud]
"""

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import records

from hvstack import host_profiles, seeded_random
from hvstack.model.target import BARE_METAL
from hvstack.progress import Progress
from hvstack.results import passes, signing, stores
from hvstack.results.cloud_identity import parse_cloud
from hvstack.results.typed_json import JsonObject
from hvstack.sweep import executor, rallytask, search_space, sweep_store
from hvstack.sweep.sweep_store import Sweep, SweepSpec

HVSTACK = Path(sys.executable).with_name('hvstack')
VALUES = ('instances=1,2,4', 'cpu_ratio=1,2')
SWEEPS, PASSES, CLOUDS = 2, 4, 8
#: Standard deviations of the log rate on the first and on the last cloud.
SCATTERS = (0.01, 0.08)
#: Simulated seconds of a run with its new cluster, and real seconds of it.
RUN_SECONDS, PAUSE = 1500, 0.05
#: A record of the future is refused.
START = datetime(2025, 1, 1, tzinfo=UTC)
#: Real seconds after which every second process is killed.
KILL_SECONDS = 6.0


def draw_normal(*parts: object) -> float:
    """Return a standard normal number, the same one in each process."""
    generator = seeded_random.build_generator(records.draw(*parts))
    return generator.gauss(0, 1)


@dataclass(frozen=True)
class Cloud:
    """A simulated cloud.

    :param number: number of the cloud, from 0.
    :param scatter: standard deviation of the log rate of its clusters.
    """

    number: int
    scatter: float

    @property
    def url(self) -> str:
        """URL of its Keystone, and its region."""
        return f'https://cloud{self.number}.example.org:5000 RegionOne'

    def draw_rate(self, sweep: str, name: str, index: int) -> float:
        """Return the log rate of a cluster, against that of bare metal."""
        noise = draw_normal(self.number, sweep, name, index) * self.scatter
        if name == BARE_METAL:
            return noise
        return noise - 0.05 + 0.05 * draw_normal(self.number, name)


class Simulator:
    """Stands in for Rally, and stores a record for each run.

    :param cloud: cloud of the runs.
    :param clock: end of the last run in simulated time.
    :param is_named: whether records name the cloud.
    """

    def __init__(
        self, cloud: Cloud, clock: datetime, *, is_named: bool
    ) -> None:
        self.cloud = cloud
        self.is_named = is_named
        self.clock = clock
        self.longest_wait = 0.0

    def run_task(
        self,
        _task: str,
        arguments: Mapping[str, Any],
        _sweep: str,
        _progress: Progress,
        _options: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """Store a record for each run of a task."""
        for workload in arguments['workloads']:
            first = workload['first_index']
            for index in range(first, first + len(workload['sizes'])):
                self.store_run(
                    arguments['sweep'], workload['configuration'], index
                )

    def store_run(self, sweep: str, name: str, index: int) -> None:
        """Store the record of a run."""
        store = sweep_store.open_store()
        cluster = f'CID-{sweep}-{name}-{index}'
        location = passes.locate_run(
            store.load_records(sweep), name, records.SIZE_BYTES, cluster
        )
        observed: JsonObject = {
            'pass': location.pass_number,
            'position': location.position,
        }
        if name != BARE_METAL and self.is_named:
            observed['cloud'] = asdict(parse_cloud(self.cloud.url))
        rate = self.cloud.draw_rate(sweep, name, index)
        run_record = records.build_record(
            *(sweep, 0, name, index, self.clock),
            seconds=round(1000 * math.exp(-rate), 3),
            observed=observed,
        )
        self.clock += timedelta(seconds=RUN_SECONDS)
        time.sleep(PAUSE)
        began_at = time.monotonic()
        store.append(run_record)
        self.longest_wait = max(self.longest_wait, time.monotonic() - began_at)


def list_clouds(count: int) -> list[Cloud]:
    """Return clouds whose scatters lie between two limits."""
    low, high = SCATTERS
    return [
        Cloud(number, low + (high - low) * number / max(1, count - 1))
        for number in range(count)
    ]


def begin_sweep(cloud: Cloud, number: int) -> Sweep:
    """Return a sweep of this cloud; a new one if it does not exist."""
    for sweep in sweep_store.list_sweeps():
        if sweep.id.endswith(f'-{number}'):
            return sweep
    area = search_space.explore_space(
        search_space.parse_space(VALUES), host_profiles.load('vsphere6'), 'kvm'
    )
    sweep = executor.begin_sweep(
        area,
        SweepSpec(
            *('model-based', area.parameter_values, area.start),
            *('vsphere6', 'kvm'),
            cloud=cloud.url,
        ),
        PASSES,
        records.SIZE_BYTES,
    )
    # The seed of the search.
    sweep = replace(sweep, id=f'sweep-cloud{cloud.number}-{number}')
    sweep_store.save_sweep(sweep)
    return sweep


def find_clock(cloud: Cloud) -> datetime:
    """Return the end of the last run on a cloud in simulated time."""
    ends = [
        datetime.fromisoformat(run_record.ended)
        for number in range(SWEEPS)
        for run_record in sweep_store.load_all_records(
            f'sweep-cloud{cloud.number}-{number}'
        )
    ]
    return max(ends, default=START) + timedelta(seconds=1)


def execute_sweeps(cloud: Cloud, *, is_named: bool) -> None:
    """Execute the remaining runs of the sweeps of a cloud."""
    simulator = Simulator(cloud, find_clock(cloud), is_named=is_named)
    rallytask.run_task = simulator.run_task  # type: ignore[assignment]
    for number in range(SWEEPS):
        executor.run_sweep(begin_sweep(cloud, number), Progress())
    print(json.dumps(simulator.longest_wait))


def summarize(cloud: Cloud, location: str | None) -> list[Any]:
    """Return the decision of each sweep with the records of a store.

    :param location: URL of the store; None uses that of hvstack.conf.
    """
    store = stores.open_store(location)
    summary: list[Any] = []
    for number in range(SWEEPS):
        sweep = begin_sweep(cloud, number)
        status = executor.load_status(sweep, store)
        assert status.search
        summary.append(
            [
                status.search.winner.name,
                status.search.expected_loss,
                status.search.runs,
                len(status.workloads),
                [
                    [ratio.percent, ratio.margin]
                    for item in status.search.confirmed_configurations
                    for ratio in [
                        status.corrected_rates.compute_ratio(item.name)
                    ]
                ],
            ]
        )
    return summary


class Process:
    """Process of a cloud, with a state directory of its own.

    :param cloud: the cloud.
    :param top: directory of the state directories.
    :param connection: URL of the shared store.
    """

    def __init__(self, cloud: Cloud, top: Path, connection: str) -> None:
        self.cloud = cloud
        self.directory = top / f'cloud{cloud.number}'
        self.connection = connection
        self.is_killed = False

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start this program for the cloud."""
        return subprocess.Popen(
            [
                *(sys.executable, __file__, '--cloud', str(self.cloud.number)),
                *('--scatter', str(self.cloud.scatter), *arguments),
            ],
            env=self.build_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def build_environment(self) -> dict[str, str]:
        """Return the environment of commands of this cloud's operator."""
        return {
            **os.environ,
            'HVSTACK_STATE_DIR': str(self.directory),
            'OS_RECORDS__CONNECTION': self.connection,
        }

    def run_hvstack(self, *arguments: str) -> str:
        """Return the output of a command of hvstack."""
        return subprocess.run(
            [HVSTACK, *arguments],
            env=self.build_environment(),
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    def read(self, *arguments: str) -> Any:
        """Return the last line that this program prints for the cloud.

        :raises SystemExit: it failed.
        """
        return read_output(self.start(*arguments))


def read_output(process: subprocess.Popen[str]) -> Any:
    """Return the last line of a process as plain data.

    :raises SystemExit: it failed.
    """
    output, messages = process.communicate()
    if process.returncode:
        raise SystemExit(messages or f'status {process.returncode}')
    return json.loads(output.splitlines()[-1])


def execute_all(
    processes: Sequence[Process], options: Sequence[str]
) -> list[float]:
    """Execute the sweeps of all clouds at once; kill every second one.

    :param options: options of each process.
    :returns: the longest wait of each process for the store in seconds.
    """
    running = [(item, item.start(*options)) for item in processes]
    time.sleep(KILL_SECONDS)
    for index, (item, process) in enumerate(running):
        if index % 2 and process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            item.is_killed = True
            running[index] = item, item.start(*options)
    return [read_output(process) for _, process in running]


def check_cloud(item: Process, top: Path) -> tuple[bool, int]:
    """Compare what the shared store leads to with a store of its own.

    :returns: whether both agree, and the number of records.
    """
    own = f'sqlite:///{top}/cloud{item.cloud.number}.sqlite'
    for number in range(SWEEPS):
        item.run_hvstack(
            *('record', 'export', own),
            *('--sweep', f'sweep-cloud{item.cloud.number}-{number}'),
        )
    shared = item.read('--summarize')
    alone = item.read('--summarize', '--location', own)
    texts = {
        item.run_hvstack(
            *('report', f'sweep-cloud{item.cloud.number}-{SWEEPS - 1}'),
            *('--details', *arguments),
        )
        for arguments in ((), ('--records', own))
    }
    print(
        f'cloud {item.cloud.number}, scatter {100 * item.cloud.scatter:.1f} %'
        f'{", killed once" * item.is_killed}: '
        + '; '.join(
            f'{winner} after {runs} runs, '
            + ', '.join(
                f'{percent:.1f} +- {margin:.1f} %' for percent, margin in rows
            )
            for winner, _, runs, _, rows in shared
        ),
        flush=True,
    )
    is_finished = not any(pending for _, _, _, pending, _ in shared)
    count = len(stores.open_store(own, unsigned=True).list_all_runs())
    return is_finished and shared == alone and len(texts) == 1, count


def rehearse(
    processes: Sequence[Process], top: Path, options: Sequence[str]
) -> int:
    """Execute all sweeps, compare, and print; status 1 if they disagree.

    :param options: options of each process.
    """
    keys = []
    for item in processes:
        item.directory.mkdir(parents=True, mode=0o700)
        keys.append(top / f'cloud{item.cloud.number}.pub')
        keys[-1].write_text(item.run_hvstack('key', 'show'))
    for item in processes:
        item.read('--trust', *map(str, keys))
    began_at = time.monotonic()
    waits = execute_all(processes, options)
    seconds = time.monotonic() - began_at
    results = [check_cloud(item, top) for item in processes]
    count = sum(number for _, number in results)
    stored = len(
        stores.open_store(
            processes[0].connection, unsigned=True
        ).list_all_runs()
    )
    different = sum(not is_same for is_same, _ in results)
    print(
        f'{len(processes)} clouds, {SWEEPS * len(processes)} sweeps, '
        f'{stored} records in {seconds:.1f} s, longest wait for the store '
        f'{max(waits):.2f} s; {stored - count} records of no cloud; '
        f'{different} clouds decide otherwise with their own records alone'
    )
    return int(different > 0 or stored != count)


def main() -> int:
    """Rehearse; status 1 if a cloud is disturbed by another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--clouds', type=int, default=CLOUDS)
    parser.add_argument('--postgresql', metavar='URL')
    parser.add_argument(
        '--without-cloud', action='store_false', dest='is_named'
    )
    parser.add_argument('--cloud', type=int, help=argparse.SUPPRESS)
    parser.add_argument('--scatter', type=float, help=argparse.SUPPRESS)
    parser.add_argument('--location', help=argparse.SUPPRESS)
    parser.add_argument(
        '--summarize', action='store_true', help=argparse.SUPPRESS
    )
    parser.add_argument('--trust', nargs='*', help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.cloud is not None:
        cloud = Cloud(args.cloud, args.scatter)
        if args.trust:
            for path in args.trust:
                signing.trust(signing.parse(Path(path).read_text('utf-8')))
            print('{}')
        elif args.summarize:
            print(json.dumps(summarize(cloud, args.location)))
        else:
            execute_sweeps(cloud, is_named=args.is_named)
        return 0
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        connection = args.postgresql or f'sqlite:///{top}/records.sqlite'
        return rehearse(
            [
                Process(cloud, top, connection)
                for cloud in list_clouds(args.clouds)
            ],
            top,
            () if args.is_named else ('--without-cloud',),
        )


if __name__ == '__main__':
    sys.exit(main())
