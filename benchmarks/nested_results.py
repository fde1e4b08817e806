# SPDX-License-Identifier: Apache-2.0
"""Variance components of nested.py with their intervals: no input and output.

The design can show that stacks do not differ by more than 1 % only if runs
scatter little: doc/source/contributor/testing.md has the probabilities.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hvstack import seeded_random

#: Factors of the design, the outermost first.
LEVELS = ('blocks', 'stacks', 'restarts', 'runs')
#: Row of the sum of all components but that of the blocks.
NEW_CLUSTER = 'a run on a new cluster'
CONFIDENCE = 0.9
#: The stack's own component should be below this, in percent of the time.
LIMIT_PERCENT = 1.0
DRAWS, SEED = 10_000, 1
#: Logarithms of seconds by block, stack, restart and run.
Nested = float | Sequence['Nested']


@dataclass(frozen=True)
class MeanSquare:
    """Mean square of a factor.

    :param value: mean square.
    :param degrees: degrees of freedom.
    :param copies: number of runs of a unit of the factor.
    """

    value: float
    degrees: int
    copies: int


@dataclass(frozen=True)
class Component:
    """Standard deviation of a factor in percent, with its 90 % interval.

    :param degrees: degrees of freedom of its mean square; None for a sum.
    """

    name: str
    percent: float
    low: float
    high: float
    degrees: int | None = None


def compute_mean(data: Nested) -> float:
    """Return the mean of balanced data."""
    if isinstance(data, float):
        return data
    return statistics.fmean(map(compute_mean, data))


def count_runs(data: Nested) -> int:
    """Return the number of runs."""
    return 1 if isinstance(data, float) else sum(map(count_runs, data))


def compute_mean_squares(data: Sequence[Nested]) -> list[MeanSquare]:
    """Return the mean squares of the factors of a balanced nested design.

    :param data: two blocks or more.
    :returns: in the order of :data:`LEVELS`.
    """
    units: list[Nested] = [data]
    squares = []
    for _ in LEVELS:
        parts = [unit for unit in units if not isinstance(unit, float)]
        units = [child for unit in parts for child in unit]
        copies = count_runs(units[0])
        means = [list(map(compute_mean, unit)) for unit in parts]
        total = math.fsum(
            (mean - statistics.fmean(unit_means)) ** 2
            for unit_means in means
            for mean in unit_means
        )
        degrees = len(units) - len(parts)
        squares.append(MeanSquare(copies * total / degrees, degrees, copies))
    return squares


def split_variance(squares: Sequence[MeanSquare]) -> list[float]:
    """Return the variances of the factors, some perhaps negative.

    The last value is that of a run on a new cluster, whatever its block.

    :param squares: mean squares by :func:`compute_mean_squares`.
    """
    below = [*(square.value for square in squares[1:]), 0.0]
    variances = [
        (square.value - other) / square.copies
        for square, other in zip(squares, below, strict=True)
    ]
    return [*variances, math.fsum(variances[1:])]


def estimate_components(
    squares: Sequence[MeanSquare], draws: int = DRAWS, seed: int = SEED
) -> list[Component]:
    """Return the components with their generalized confidence intervals.

    :param squares: mean squares by :func:`compute_mean_squares`.
    :param draws: number of random draws.
    :param seed: seed of the draws.
    :returns: in the order of :data:`LEVELS`, then :data:`NEW_CLUSTER`.
    """
    source = seeded_random.build_generator(seed)
    drawn_variances = []
    for _ in range(draws):
        drawn_squares = [
            MeanSquare(
                # A chi-square variable is a gamma variable.
                square.value
                * square.degrees
                / source.gammavariate(square.degrees / 2, 2),
                square.degrees,
                square.copies,
            )
            for square in squares
        ]
        drawn_variances.append(split_variance(drawn_squares))
    degrees = [*(square.degrees for square in squares), None]
    components = []
    for index, variance in enumerate(split_variance(squares)):
        ordered = sorted(variances[index] for variances in drawn_variances)
        low, high = (
            ordered[min(draws - 1, round(draws * share))]
            for share in ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
        )
        components.append(
            Component(
                (*LEVELS, NEW_CLUSTER)[index],
                _to_percent(variance),
                _to_percent(low),
                _to_percent(high),
                degrees[index],
            )
        )
    return components


def _to_percent(variance: float) -> float:
    return 100 * math.sqrt(max(0.0, variance))


def describe_stacks(components: Sequence[Component]) -> str:
    """Return whether the component of the stacks is below the limit."""
    stacks = components[LEVELS.index('stacks')]
    is_below = stacks.high < LIMIT_PERCENT
    return (
        "The stack's own component is "
        f'{"" if is_below else "not shown to be "}below {LIMIT_PERCENT:g} %: '
        f'the upper limit of its 90 % interval is {stacks.high:.2f} %. '
        f'A restart of Hadoop {"can" if is_below else "cannot"} stand for a '
        'new cluster.'
    )


def format_components(components: Iterable[Component]) -> str:
    """Return the components as a table."""
    lines = [f'{"between":24}{"sd %":>8}{"90 % interval":>18}{"degrees":>9}']
    for component in components:
        interval = f'{component.low:.2f} to {component.high:.2f}'
        lines.append(
            f'{component.name:24}{component.percent:8.2f}{interval:>18}'
            f'{"" if component.degrees is None else component.degrees:>9}'
        )
    return '\n'.join(lines)
