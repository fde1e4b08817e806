# SPDX-License-Identifier: Apache-2.0
"""Estimate of the time of ``hvstack demo``, before it starts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hvstack import speed
from hvstack.hadoop.sizing import size_node
from hvstack.lab import hosts, images, stages
from hvstack.lab.hosts import sizes
from hvstack.lab.hosts.sizes import HostSize
from hvstack.lab.settings import LabSettings
from hvstack.model import compute_backends
from hvstack.nouns import format_noun
from hvstack.results import signing
from hvstack.results.record_data import RunRecord
from hvstack.results.run_store import iter_records
from hvstack.sweep import platform_slots, sweep_store
from hvstack.sweep.run_times import MAX_TIMED_RUNS, compute_median_times
from hvstack.sweep.sweep_store import Sweep
from hvstack.tpcxhs import task_counts

#: Measured on a lab of containers on 2 cores (:data:`_SOURCE`): a lab on a
#: machine without packages, a lab that was stopped, and a guest image.
_NEW_LAB_SECONDS = 134
_STOPPED_LAB_SECONDS = 32
_IMAGE_SECONDS = 59
#: Parts of a run with its cluster on this lab: what neither data nor tasks
#: change, and what the CPUs do for each task and for each GB.
_RUN_SECONDS = 92
_TASK_SECONDS = 6.5
_GB_SECONDS = 80
_CORES = 2
_SOURCE = 'doc/source/user/quickstart-lab.md'


@dataclass(frozen=True)
class DemoEstimate:
    """Estimate of the time of a demo.

    :param lab_seconds: seconds until the lab is up.
    :param image_seconds: seconds until the guest image is built; 0 if it is.
    :param runs: number of runs.
    :param run_seconds: seconds of a run with its cluster; None if unknown.
    :param tasks: number of map tasks of a run.
    :param is_recorded: whether runs on this machine took these seconds.
    :param factor: how many times slower than an ordinary server this machine
        is, which is contained in the seconds that were not recorded.
    """

    lab_seconds: float
    image_seconds: float
    runs: int
    run_seconds: float | None
    tasks: int
    is_recorded: bool
    factor: float

    def format_line(self) -> str:
        """Return the minutes, and what they consist of."""
        lab = f'lab {self.lab_seconds:.0f} s'
        if self.image_seconds:
            lab += f', guest image {self.image_seconds:.0f} s'
        times = f' times {self.factor:g}' if self.factor > 1 else ''
        source = f'measured on a lab with {_CORES} cores{times}: {_SOURCE}'
        runs = format_noun(self.runs, 'run')
        if self.run_seconds is None:
            return (
                f'how long the demo takes is not known: {lab} ({source}), '
                f'{runs} with emulated CPUs, of which this machine has no '
                'record'
            )
        minutes = math.fsum(
            (
                self.lab_seconds,
                self.image_seconds,
                self.runs * self.run_seconds,
            )
        )
        runs += (
            f' x {self.run_seconds:.0f} s with '
            f'{format_noun(self.tasks, "task")}'
        )
        parts = (
            f'{lab} ({source}), {runs} (recorded on this machine)'
            if self.is_recorded
            else f'{lab}, {runs} ({source})'
        )
        return f'the demo takes about {minutes / 60:.0f} minutes: {parts}'


def estimate_demo(
    sweep: Sweep, is_new: bool, lab_settings: LabSettings
) -> DemoEstimate:
    """Estimate the time of a demo.

    :param sweep: sweep of the demo; its remaining runs count.
    :param is_new: whether the sweep has no runs yet.
    :param lab_settings: settings of the lab.
    :raises hvstack.errors.HVStackError: the lab cannot have such hosts, or a
        record of the sweep is not valid.
    """
    host_sizes = hosts.planned(lab_settings, probing=False)
    steps = sweep.list_steps()
    if not is_new:
        steps = sweep_store.list_pending(sweep.id, steps)
    tasks = _count_tasks(sweep, host_sizes)
    factor = speed.estimate()
    # Without a try of KVM, "auto" is lxc here.
    backend = host_sizes[-1].backend.replace('auto', 'lxc')
    run_seconds = _find_recorded(sweep, host_sizes, tasks, backend)
    is_recorded = run_seconds is not None
    if run_seconds is None and not compute_backends.is_emulated(backend):
        run_seconds = factor * _compute_run_seconds(
            sweep.size_bytes, tasks, host_sizes[-1].cpus
        )
    # The last mark of a control plane that was up.
    is_known_lab = stages.marked('content') is not None
    return DemoEstimate(
        factor * (_STOPPED_LAB_SECONDS if is_known_lab else _NEW_LAB_SECONDS),
        0 if images.find('hadoop') else factor * _IMAGE_SECONDS,
        len(steps),
        run_seconds,
        tasks,
        is_recorded,
        factor,
    )


def _count_tasks(sweep: Sweep, host_sizes: Sequence[HostSize]) -> int:
    """Return the number of map tasks, which fills all configurations."""
    workers = [host for host in host_sizes if host.role == 'worker']
    bare_metal = size_node(
        min(host.cpus for host in workers),
        min(host.memory_mib for host in workers),
        tuning=sweep.tuning,
        native=True,
    )
    platforms = [
        task_counts.count_slots(bare_metal, len(workers)),
        *platform_slots.list_configurations(
            *(sizes.profile(workers[-1]), sweep.configurations),
            *(len(workers), sweep.tuning),
        ),
    ]
    return task_counts.count_tasks(
        sweep.size_bytes, platforms, len(workers), sweep.tuning
    )


def _compute_run_seconds(size_bytes: int, tasks: int, cores: int) -> float:
    """Return the seconds of a run with its cluster by the measured lab."""
    busy = _TASK_SECONDS * tasks + _GB_SECONDS * size_bytes / 1e9
    return _RUN_SECONDS + busy * _CORES / cores


def _find_recorded(
    sweep: Sweep, host_sizes: Sequence[HostSize], tasks: int, backend: str
) -> float | None:
    """Return the recorded seconds of a run with its cluster.

    :returns: None without two such runs on this machine, with the same hosts
        and the same number of tasks.
    """
    own_key = signing.own_public()
    caps = {host.name: host.cpu_cap for host in host_sizes}

    def is_alike(run_record: RunRecord) -> bool:
        return (
            own_key is not None
            and run_record.signature.get('key') == own_key.text
            and run_record.maps == tasks
            and {name: cap.cpu for name, cap in run_record.sut.caps.items()}
            == caps
        )

    run, setup = compute_median_times(
        filter(is_alike, iter_records(sweep_store.open_store())),
        sweep.size_bytes,
        MAX_TIMED_RUNS,
        backend=backend,
    )
    return None if run is None or setup is None else run + setup
