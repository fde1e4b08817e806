# SPDX-License-Identifier: Apache-2.0
"""Quick sweeps: a fixed number of runs of each configuration, in passes."""

from collections.abc import Sequence

from hvstack import errors
from hvstack.hadoop import os_profiles, sizing
from hvstack.model.configuration import Configuration
from hvstack.sweep import sweep_store, tuning_check
from hvstack.sweep.sweep_store import Sweep


def resume_or_begin(
    configurations: Sequence[Configuration],
    runs: int,
    size_bytes: int,
    *,
    tuning: str = sizing.DEFAULT,
    os_profile: str = os_profiles.DEFAULT,
    hosts: int | None = None,
    is_saved: bool = True,
) -> tuple[Sweep, bool]:
    """Return the last unfinished quick sweep with these arguments, or a new.

    A sweep that was measured with other settings of the tuning profile stays
    as it is: new runs would not be comparable with its runs.

    :param configurations: configurations in order.
    :param runs: number of runs of each configuration.
    :param size_bytes: size of the data in bytes.
    :param tuning: tuning profile of Hadoop.
    :param os_profile: OS profile of the nodes.
    :param hosts: number of hosts of resumed runs; None resumes any.
    :param is_saved: whether to write the marker of a new sweep.
    :raises hvstack.errors.InputError: a marker cannot be read, which may be
        that of the sweep to resume, or a record of that sweep.
    :returns: the sweep, and whether it is resumed.
    """
    sweeps, reasons = sweep_store.load_usable('quick-')
    if reasons:
        raise errors.InputError(reasons[0])
    for sweep in reversed(sweeps):
        if (
            not sweep.finished
            and sweep.spec is None
            and sweep.configurations == tuple(configurations)
            and (sweep.runs, sweep.size_bytes) == (runs, size_bytes)
            and (sweep.tuning, sweep.os_profile) == (tuning, os_profile)
            and hosts in (None, sweep_store.read_host_count(sweep.id) or hosts)
            and not tuning_check.find_change(
                sweep_store.load_records(sweep.id)
            )
        ):
            return sweep, True
    return (
        sweep_store.create_sweep(
            *(configurations, runs, size_bytes),
            tuning=tuning,
            os_profile=os_profile,
            is_saved=is_saved,
        ),
        False,
    )
