# SPDX-License-Identifier: Apache-2.0
"""Plan, stored results and report of benchmarks/growth.py."""

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hvstack import paths

WORKERS_PER_HOST, CONTROLLERS = 20, 2
#: A controller has twice the CPUs and twice the memory of a worker.
CONTROLLER_SLOTS = 2 * CONTROLLERS
SIZES = (40, 160, 640)
#: The hosts are a requirement of the other stages, whose time counts.
STAGES = (
    *('hosts', 'boots', 'create', 'topology', 'replace', 'scale', 'delete'),
)
#: Stages that require a stack.
STACK_STAGES = STAGES[2:]
GOAL_EXPONENT, GOAL_RATIO = 1.1, 1.3
UNMEASURED = (
    'topology --refresh: not measured, because fake hosts run no guest; '
    '--check: see benchmarks/ssh_fan_out.py'
)
PACE = (
    'create: the Heat of a lab begins no other worker while its engine is '
    'busy; other clouds begin one a second (doc/source/user/clusters.md)'
)


@dataclass(frozen=True)
class Size:
    """A size of the cluster.

    :param workers: number of workers.
    """

    workers: int

    @property
    def servers(self) -> int:
        """Number of servers: workers and controllers."""
        return self.workers + CONTROLLERS

    @property
    def added(self) -> int:
        """Number of workers that the stage ``scale`` adds: one per host."""
        return math.ceil(self.workers / WORKERS_PER_HOST)

    @property
    def hosts(self) -> int:
        """Number of fake hosts, with slots for controllers and new workers."""
        slots = self.workers + self.added + CONTROLLER_SLOTS
        return math.ceil(slots / WORKERS_PER_HOST)


def estimate_boots(servers: int) -> float:
    """Return an upper guess of the seconds of plain boots."""
    return 3.3 * servers + 0.0005 * servers**2


def estimate(size: Size, stage: str) -> float:
    """Return a guess of the seconds of a stage, from that of plain boots."""
    boots = estimate_boots(size.servers)
    return {
        'hosts': 15.0 * size.hosts,
        # The servers are deleted afterwards.
        'boots': 1.5 * boots,
        'create': GOAL_RATIO * boots,
        'topology': 60.0,
        # Heat compares each member of the group with the new template.
        'replace': 60.0 + 0.2 * boots,
        'scale': 60.0 + 0.2 * boots + 3.3 * size.added,
        'delete': 0.7 * boots,
    }[stage]


def compute_timeout(size: Size) -> float:
    """Return the seconds after which a stage has failed."""
    return 900 + 3 * estimate_boots(size.servers + size.added)


def fit_exponent(points: Sequence[tuple[float, float]]) -> float | None:
    """Return the slope of a least-squares line through logarithms.

    :param points: numbers of servers with seconds.
    :returns: None for fewer than two numbers of servers.
    """
    logs = [(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0]
    if len({x for x, _ in logs}) < 2:
        return None
    mean_x = sum(x for x, _ in logs) / len(logs)
    mean_y = sum(y for _, y in logs) / len(logs)
    covariance = sum((x - mean_x) * (y - mean_y) for x, y in logs)
    return covariance / sum((x - mean_x) ** 2 for x, _ in logs)


@dataclass
class Results:
    """Results of all stages in a JSON file.

    :param path: the file; it is written after each stage.
    :param rows: results by number of workers and stage.
    """

    path: Path
    rows: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> 'Results':
        """Return the results of a file; none if it does not exist."""
        try:
            return cls(path, json.loads(path.read_text(encoding='utf-8')))
        except FileNotFoundError:
            return cls(path)

    def get(self, size: Size, stage: str) -> dict[str, Any] | None:
        """Return the result of a stage; None if it was not executed."""
        return self.rows.get(str(size.workers), {}).get(stage)

    def add(self, size: Size, stage: str, row: dict[str, Any]) -> None:
        """Store the result of a stage."""
        self.rows.setdefault(str(size.workers), {})[stage] = row
        paths.write_whole(self.path, json.dumps(self.rows, indent=1) + '\n')

    def forget(self, size: Size, stage: str) -> None:
        """Delete the result of a stage, which is then executed again."""
        self.rows.get(str(size.workers), {}).pop(stage, None)

    def list_pending(self, size: Size) -> list[str]:
        """Return the stages of a size that remain, in order."""
        return [stage for stage in STAGES if self.get(size, stage) is None]


def format_plan(results: Results, sizes: Sequence[Size]) -> list[str]:
    """Return the lines of --dry-run: stages with guesses of their minutes."""
    lines, total = [], 0.0
    for size in sizes:
        lines.append(
            f'{size.workers} workers and {CONTROLLERS} controllers on '
            f'{size.hosts} fake hosts'
        )
        for stage in STAGES:
            minutes = estimate(size, stage) / 60
            if results.get(size, stage) is None:
                total += minutes
                lines.append(f'  {stage:10} about {minutes:6.1f} min')
            else:
                lines.append(f'  {stage:10} stored in {results.path}')
    lines.append(f'in all about {total:.0f} min, by guesses')
    return [*lines, UNMEASURED]


def format_table(
    results: Results, sizes: Sequence[Size]
) -> tuple[list[str], bool]:
    """Return the lines of the report, and whether a goal is missed."""
    header = ''.join(f'{size.workers:>10}' for size in sizes)
    lines = [f'{"seconds":22}{header}  exponent, goal {GOAL_EXPONENT}']
    is_missed = False
    for stage in STAGES:
        rows = [results.get(size, stage) for size in sizes]
        exponent = fit_exponent(
            [(row['servers'], row['seconds']) for row in rows if row]
        )
        if exponent is not None and stage != 'hosts':
            is_missed |= exponent > GOAL_EXPONENT
        lines.append(
            f'{stage:22}{_format_cells(rows, "seconds")}'
            f'  {"-" if exponent is None else f"{exponent:.2f}"}'
        )
    ratios = []
    for size in sizes:
        create, boots = results.get(size, 'create'), results.get(size, 'boots')
        ratios.append(
            create['seconds'] / boots['seconds'] if create and boots else None
        )
    is_missed |= any(ratio and ratio > GOAL_RATIO for ratio in ratios)
    cells = ''.join(
        f'{"-" if ratio is None else f"{ratio:.2f}":>10}' for ratio in ratios
    )
    lines.append(f'{"create / boots":22}{cells}  goal {GOAL_RATIO}')
    lines.append(f'{"MiB at most (PSS)":22}{header}')
    for stage in STAGES:
        rows = [results.get(size, stage) for size in sizes]
        lines.append(f'{stage:22}{_format_cells(rows, "pss_mib")}')
    lines.append(f'{"MiB of databases":22}{header}')
    for stage in STAGES:
        rows = [results.get(size, stage) for size in sizes]
        sums = [
            row and {'sum': sum(row['databases_mib'].values())} for row in rows
        ]
        lines.append(f'{stage:22}{_format_cells(sums, "sum")}')
    return [*lines, PACE, UNMEASURED], is_missed


def _format_cells(rows: Sequence[Mapping[str, float] | None], key: str) -> str:
    return ''.join(
        f'{"-" if row is None else f"{row[key]:.1f}":>10}' for row in rows
    )


def parse_sizes(text: str) -> list[Size]:
    """Return the sizes of --workers, the smallest first."""
    try:
        counts = sorted({int(item) for item in text.split(',')})
    except ValueError:
        counts = []
    if not counts or counts[0] < 1:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a list of numbers such as 40,160,640"
        )
    return [Size(count) for count in counts]
