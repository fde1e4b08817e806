#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often the intervals of simulated sweeps hold the truth.

A cluster differs from the next one of its configuration by 5 % within and by
0 to 10 % between clusters. The sweeps go in passes in random order, with bare
metal about as often as the square root of the number of configurations, and
stop as real sweeps do (hvstack/results/stopping.py). Rates, fit, history,
intervals and choice are those of the package. Every CPU simulates a cell at a
time. Run it with the Python of the virtual environment; it takes 2.5 hours of
CPU time:

    .venv/bin/python benchmarks/coverage.py [SWEEPS [SEEDS [CELL]]]

The exit status is 1 if a cell misses its limits.
"""

import argparse
import itertools
import math
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import NormalDist

from hvstack.model.target import BARE_METAL
from hvstack.results import percentages, stats, stopping
from hvstack.results.estimator import ClusterRate, History, Scatter
from hvstack.results.stats import CorrectedRates

SWEEPS, SEEDS = 4000, 3
#: Standard deviations of a cluster: of its runs, and of the cluster itself.
WITHIN = 0.05
BETWEEN = (0.0, 0.03, 0.06, 0.10)
#: Rates of the configurations against bare metal.
RATIOS = (0.97, 0.90, 0.88)
#: Hours from the start of a run to that of the next one.
HOURS = 170 / 3600
#: Change of the log rate in an hour, and wander of the machine.
DRIFT, WANDER = math.log(1 - 0.15), 0.04
WANDER_HOURS = 1.0
#: Degrees of freedom of the history, of which guests have three fifths.
HISTORY_DEGREES = 20


@dataclass(frozen=True)
class Cell:
    """A kind of sweep.

    :param name: name in the table.
    :param between: standard deviation between clusters.
    :param drift: change of the log rate in an hour.
    :param history: standard deviation of the history over the true one; 0
        without history.
    :param ratios: true rates of the configurations against bare metal.
    :param passes: fixed number of passes; None stops at the goal.
    :param wander: standard deviation of a machine whose pace wanders.
    :param sides: factors of the scatter of guests and of bare metal.
    :param limits: lowest and highest coverage of rows, of all rows together,
        and lowest coverage of the best row.
    """

    name: str
    between: float
    drift: float = 0.0
    history: float = 0.0
    ratios: Sequence[float] = RATIOS
    passes: int | None = None
    wander: float = 0.0
    sides: tuple[float, float] = (1.0, 1.0)
    limits: tuple[float, float, float] = (0.93, 0.97, 0.94)


@dataclass(frozen=True)
class SweepResult:
    """What the intervals of a sweep hold, each as a share of 1.

    :param rows: intervals of single rows that hold the true percentage.
    :param together: whether all printed intervals hold.
    :param best: whether the printed interval of the best row holds.
    :param differs: whether a row is called slower or faster than bare metal.
    :param slower: whether a row is called slower than the best one.
    :param passes: number of passes.
    """

    rows: float
    together: float
    best: float
    differs: float
    slower: float
    passes: float


def list_cells() -> list[Cell]:
    """Return all cells of the table."""
    cells = [
        Cell(
            f'{label}, between {between:.0%}, {moves}',
            between,
            drift,
            history,
        )
        for between in BETWEEN
        for drift, moves in ((0.0, 'steady'), (DRIFT, '15 %/h'))
        for history, label in (
            (0.0, 'no history'),
            (1.0, 'history right'),
            (0.75, 'history 25 % low'),
            (1.25, 'history 25 % high'),
        )
    ]
    for between in BETWEEN:
        cells.append(
            Cell(
                f'demo, 3 passes, between {between:.0%}',
                between,
                ratios=RATIOS[:2],
                passes=3,
            )
        )
    cells += [
        Cell(
            f'wanders 4 %, {label}, between 6%',
            0.06,
            history=history,
            wander=WANDER,
            limits=(0.90, 1.0, 0.90),
        )
        for history, label in ((0.0, 'no history'), (1.0, 'history right'))
    ]
    cells += [
        Cell(f'{label} scatters twice as much, between 3%', 0.03, sides=sides)
        for label, sides in (
            ('bare metal', (1.0, 2.0)),
            ('guests', (2.0, 1.0)),
        )
    ]
    for between in (0.0, 0.06):
        cells += [
            Cell(
                f'13 equal, {label}, between {between:.0%}',
                between,
                history=history,
                ratios=(1.0,) * 13,
            )
            for history, label in ((0.0, 'no history'), (1.0, 'history right'))
        ]
    return cells


def draw_normals(seed: str) -> Iterator[float]:
    """Yield repeatable random numbers of the standard normal distribution."""
    for block in itertools.count():
        yield from NormalDist().samples(4096, seed=f'{seed}:{block}')


class Simulation:
    """Sweeps of a cell.

    :param cell: kind of the sweeps.
    :param seed: seed of the random numbers.
    """

    def __init__(self, cell: Cell, seed: int) -> None:
        self.cell = cell
        self.normals = draw_normals(f'{seed}:{cell.name}')
        self.deviation = math.hypot(WITHIN, cell.between)
        self.truth = {
            f'row{index}': math.log(ratio)
            for index, ratio in enumerate(cell.ratios)
        }

    def run_sweep(self) -> SweepResult:
        """Simulate a sweep until it stops."""
        history = self._draw_history()
        clusters: list[ClusterRate] = []
        pace = self._draw(self.cell.wander)
        number = 0
        while True:
            for row in self._order_pass():
                clusters.append(self._run_cluster(row, number, clusters, pace))
                pace = self._move(pace)
            number += 1
            if self.cell.passes is not None and number < self.cell.passes:
                continue
            if not history.total.degrees and number < (
                self.cell.passes or stopping.MIN_PASSES
            ):
                continue
            if number < stopping.MIN_PASSES_WITH_HISTORY:
                continue
            rates, _ = percentages.correct_rates(clusters, history)
            if number == self.cell.passes or stopping.Goal().is_reached(rates):
                return self._judge(rates, number)

    def _draw(self, deviation: float) -> float:
        return deviation * next(self.normals)

    def _order_pass(self) -> list[str]:
        """Return the rows of a pass: bare metal evenly, others at random."""
        rows = list(self.truth)
        rows.sort(key=lambda _: next(self.normals))
        baselines = max(1, round(math.sqrt(len(rows))))
        between = max(1, round(len(rows) / baselines))
        order = []
        for index, row in enumerate(rows):
            order += [BARE_METAL] * (index % between == 0) + [row]
        return order

    def _run_cluster(
        self, row: str, number: int, clusters: list[ClusterRate], pace: float
    ) -> ClusterRate:
        hour = HOURS * len(clusters)
        guests, bare_metal = self.cell.sides
        factor = bare_metal if row == BARE_METAL else guests
        noise = self._draw(WITHIN) + self._draw(self.cell.between)
        log_rate = (
            self.truth.get(row, 0.0)
            + factor * noise
            + self.cell.drift * hour
            + pace
        )
        return ClusterRate(row, number, log_rate, hour)

    def _move(self, pace: float) -> float:
        """Return the pace of the machine at the next run."""
        if not self.cell.wander:
            return 0.0
        share = math.exp(-HOURS / WANDER_HOURS)
        step = self.cell.wander * math.sqrt(1 - share * share)
        return share * pace + self._draw(step)

    def _draw_history(self) -> History:
        if not self.cell.history:
            return History()
        deviation = self.deviation * self.cell.history
        squares = [self._draw(deviation) ** 2 for _ in range(HISTORY_DEGREES)]
        guests = HISTORY_DEGREES * 3 // 5
        return History(
            Scatter(math.fsum(squares), HISTORY_DEGREES),
            Scatter(math.fsum(squares[:guests]), guests),
        )

    def _judge(self, rates: CorrectedRates, passes: int) -> SweepResult:
        percents = {name: rates.compute_ratio(name) for name in self.truth}
        errors = {
            name: abs(math.log(percent.percent / 100) - self.truth[name])
            for name, percent in percents.items()
        }
        choice = stats.choose_winner(rates, rank_name, set(self.truth))
        assert choice
        inside = {
            name: errors[name] <= (percent.half_width or 0.0)
            for name, percent in percents.items()
        }
        single = [
            errors[name] <= (percent.row_half_width or 0.0)
            for name, percent in percents.items()
        ]
        return SweepResult(
            rows=sum(single) / len(single),
            together=all(inside.values()),
            best=inside[choice.best],
            differs=any(
                stats.classify(percent) in ('slower', 'faster')
                for percent in percents.values()
            ),
            slower=len(choice.tied) < len(self.truth) - 1,
            passes=passes,
        )


def rank_name(name: str) -> tuple[float, ...]:
    """Return a cost that no two configurations share."""
    return tuple(map(ord, name))


def simulate(cell: Cell, seed: int, sweeps: int) -> tuple[SweepResult, float]:
    """Return the means of all sweeps of a cell, and the CPU seconds of them.

    :param cell: kind of the sweeps.
    :param seed: seed of the random numbers.
    :param sweeps: number of sweeps.
    """
    begin = time.process_time()
    simulation = Simulation(cell, seed)
    results = [simulation.run_sweep() for _ in range(sweeps)]
    means = SweepResult(
        **{
            name: math.fsum(getattr(result, name) for result in results)
            / sweeps
            for name in SweepResult.__dataclass_fields__
        }
    )
    return means, time.process_time() - begin


def list_misses(cell: Cell, result: SweepResult) -> list[str]:
    """Return the names of the figures that miss the limits of a cell."""
    low, high, best = cell.limits
    misses = [
        name
        for name, value in (('rows', result.rows), ('all', result.together))
        if not low <= value <= high
    ]
    if result.best < best:
        misses.append('best')
    if len(set(cell.ratios)) == 1 and len(cell.ratios) > 1:
        misses += [
            name
            for name, value in (
                ('differs', result.differs),
                ('slower', result.slower),
            )
            if value > 0.06
        ]
    return misses


def main() -> int:
    """Print the table; status 1 if a cell misses its limits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        'sweeps',
        nargs='?',
        type=int,
        default=SWEEPS,
        help='Number of sweeps of a cell (default: %(default)s).',
    )
    parser.add_argument(
        'seeds',
        nargs='?',
        type=int,
        default=SEEDS,
        help='Number of seeds (default: %(default)s).',
    )
    parser.add_argument(
        'cell',
        nargs='?',
        default='',
        help='Part of the name of the cells to simulate (default: all cells).',
    )
    args = parser.parse_args()
    sweeps, seeds, part = args.sweeps, args.seeds, args.cell
    print(f'{sweeps} sweeps a cell, {seeds} seeds')
    head = ('rows', 'all', 'best', 'differs', 'slower', 'passes', 's')
    print(f'{"cell":44}{"".join(f"{title:>9}" for title in head)}')
    cells = [cell for cell in list_cells() if part in cell.name]
    jobs = [(cell, seed) for cell in cells for seed in range(1, seeds + 1)]
    missed = 0
    with ProcessPoolExecutor() as pool:
        results = pool.map(
            simulate,
            [cell for cell, _ in jobs],
            [seed for _, seed in jobs],
            itertools.repeat(sweeps),
        )
        for (cell, _), (result, seconds) in zip(jobs, results, strict=True):
            misses = list_misses(cell, result)
            missed += bool(misses)
            figures = ''.join(
                f'{100 * value:9.1f}'
                for value in (
                    *(result.rows, result.together, result.best),
                    *(result.differs, result.slower),
                )
            )
            print(
                f'{cell.name:44}{figures}{result.passes:9.1f}{seconds:9.1f}'
                + (f'  missed: {", ".join(misses)}' if misses else ''),
                flush=True,
            )
    print(f'{missed} lines miss their limits')
    return int(missed > 0)


if __name__ == '__main__':
    sys.exit(main())
