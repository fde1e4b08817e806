#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much of a sweep's time is outside the benchmark's phases, and where.

From run records alone: what lies between two runs is a change of cluster
(to bare metal or to a configuration) or, on the same cluster, the clean-up
and the look at the nodes before a run. The set-up before the first run and
what comes after the last one are not recorded. A gap of an hour or more is
an interruption and does not count.

Run it with the Python of the virtual environment:
.venv/bin/python benchmarks/sweep_share.py DIRECTORY-OF-RECORDS [SWEEP]
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from hvstack.model.target import BARE_METAL
from hvstack.results import record
from hvstack.results.record_data import RunRecord

AIM = 0.25
LONGEST_GAP = 3600.0
STAGES = ('phases', 'to bare metal', 'to a configuration', 'between runs')


def stages(records: Sequence[RunRecord]) -> dict[str, list[float]]:
    """Return seconds by stage, of runs in the order in which they were."""
    seconds_by_stage: dict[str, list[float]] = {name: [] for name in STAGES}
    last: RunRecord | None = None
    for run_record in records:
        seconds_by_stage['phases'].append(
            run_record.total_seconds
            or sum(run_record.phase_seconds().values())
        )
        if last is not None:
            gap = record.compute_seconds_between(
                last.ended, run_record.started
            )
            if 0 <= gap < LONGEST_GAP:
                seconds_by_stage[_stage(last, run_record)].append(gap)
        last = run_record
    return seconds_by_stage


def _stage(last: RunRecord, run_record: RunRecord) -> str:
    if last.configuration == run_record.configuration:
        return 'between runs'
    is_baseline = run_record.configuration == BARE_METAL
    return 'to bare metal' if is_baseline else 'to a configuration'


def main() -> int:
    """Print each stage; status 1 if more than the aim is outside phases."""
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    records = record.load_all(
        Path(sys.argv[1]), sys.argv[2] if len(sys.argv) == 3 else None
    )
    sweeps = {run_record.sweep for run_record in records}
    if len(sweeps) != 1:
        print(f'name one of {len(sweeps)} sweeps: {", ".join(sorted(sweeps))}')
        return 2
    seconds_by_stage = stages(records)
    whole = sum(map(sum, seconds_by_stage.values()))
    print(f'{"stage":20}{"times":>7}{"mean s":>9}{"sum s":>9}{"share %":>9}')
    for name, seconds in seconds_by_stage.items():
        if seconds:
            mean = sum(seconds) / len(seconds)
            share = 100 * sum(seconds) / whole
            print(
                f'{name:20}{len(seconds):7}{mean:9.1f}{sum(seconds):9.0f}'
                f'{share:9.1f}'
            )
    outside = 1 - sum(seconds_by_stage['phases']) / whole
    print(f'outside phases: {100 * outside:.1f} % (aim {100 * AIM:.0f})')
    return int(outside > AIM)


if __name__ == '__main__':
    sys.exit(main())
