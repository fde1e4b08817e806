# SPDX-License-Identifier: Apache-2.0
"""Linear algebra of rows and passes, apart from the rates of a sweep."""

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Design:
    """Linear algebra of a sweep, which does not depend on the rates.

    A cell is a row in a pass. The effect of a row is its difference from the
    first row, which is that of bare metal if there is one.

    :param counts: number of clusters by row and pass.
    :param coefficients: for each row and cell, the factor of the log rate of
        a cluster of this cell in the effect of the row.
    :param baseline_share: part of the residual degrees of freedom that is
        that of the first row.
    :param degrees: residual degrees of freedom.
    """

    counts: tuple[tuple[int, ...], ...]
    coefficients: tuple[tuple[float, ...], ...]
    baseline_share: float
    degrees: int

    @functools.cached_property
    def _cell_counts(self) -> list[int]:
        """Number of clusters of each cell, row by row."""
        return [count for row in self.counts for count in row]

    @functools.cached_property
    def row_scales(self) -> tuple[float, float]:
        """Sum over all rows of :meth:`split_scale` against the first row."""
        scales = [
            self.split_scale(row, 0) for row in range(1, len(self.counts))
        ]
        return (
            math.fsum(scale[0] for scale in scales),
            math.fsum(scale[1] for scale in scales),
        )

    @functools.cached_property
    def sum_scales(self) -> tuple[float, float]:
        """Variance of the sum of all effects, as in :meth:`split_scale`."""
        return self._split(
            [sum(line) for line in zip(*self.coefficients, strict=True)]
        )

    def split_scale(self, row: int, other: int) -> tuple[float, float]:
        """Return the variance of a difference of two rows.

        :param row: index of a row.
        :param other: index of another row.
        :returns: multiples of the variance of a cluster of the other rows,
            and of a cluster of the first row.
        """
        pair = min(row, other), max(row, other)
        if pair not in self._scales:
            first, second = (self.coefficients[index] for index in pair)
            self._scales[pair] = self._split(
                list(map(operator.sub, first, second))
            )
        return self._scales[pair]

    @functools.cached_property
    def _scales(self) -> dict[tuple[int, int], tuple[float, float]]:
        return {}

    def _split(self, factors: Sequence[float]) -> tuple[float, float]:
        passes = len(self.counts[0])
        products = [
            count * factor**2
            for count, factor in zip(self._cell_counts, factors, strict=True)
        ]
        return math.fsum(products[passes:]), math.fsum(products[:passes])


# Each run of a sweep has another design, and one of 100 configurations takes
# megabytes.
@functools.lru_cache(maxsize=64)
def solve_design(counts: tuple[tuple[int, ...], ...]) -> Design | None:
    """Return the linear algebra of a design; None if it is not connected.

    :param counts: number of clusters by row and pass.
    """
    rows, passes = range(len(counts)), range(len(counts[0]))
    if not _is_connected(counts):
        return None
    sizes = [sum(counts[row][number] for row in rows) for number in passes]
    # Passes are eliminated, and the first row has no effect.
    matrix = [
        [
            (sum(counts[row]) if row == other else 0)
            - math.fsum(
                counts[row][n] * counts[other][n] / sizes[n] for n in passes
            )
            for other in rows[1:]
        ]
        for row in rows[1:]
    ]
    inverse = _invert(matrix)
    coefficients = [[0.0] * (len(rows) * len(passes))]
    for line in inverse:
        # Each cluster counts for its row, less the mean of its pass.
        shares = [
            math.fsum(
                line[other] * counts[other + 1][n]
                for other in range(len(line))
            )
            / sizes[n]
            for n in passes
        ]
        coefficients.append(
            [
                (line[row - 1] if row else 0.0) - shares[n]
                for row in rows
                for n in passes
            ]
        )
    # Clusters of the first row, less the diagonal of their hat matrix.
    baseline_share = math.fsum(
        counts[0][n]
        * (
            1
            - 1 / sizes[n]
            + math.fsum(
                counts[other][n] * coefficients[other][n] for other in rows
            )
            / sizes[n]
        )
        for n in passes
    )
    return Design(
        counts,
        tuple(map(tuple, coefficients)),
        baseline_share,
        sum(sizes) - len(rows) - len(passes) + 1,
    )


def _is_connected(counts: Sequence[Sequence[int]]) -> bool:
    """Return whether the effects of all rows and passes are comparable."""
    rows = {0}
    passes: set[int] = set()
    while True:
        reached = {
            n for row in rows for n, count in enumerate(counts[row]) if count
        }
        if reached == passes:
            return len(rows) == len(counts) and len(passes) == len(counts[0])
        passes = reached
        rows = {
            row
            for row, line in enumerate(counts)
            if any(line[n] for n in passes)
        }


def _invert(matrix: list[list[float]]) -> list[list[float]]:
    """Return the inverse of a positive definite matrix (Gauss-Jordan)."""
    size = len(matrix)
    work = [
        [*line, *(float(row == column) for column in range(size))]
        for row, line in enumerate(matrix)
    ]
    for pivot in range(size):
        scale = work[pivot][pivot]
        work[pivot] = [value / scale for value in work[pivot]]
        for row in range(size):
            factor = work[row][pivot]
            if row != pivot and factor:
                work[row] = [
                    value - factor * other
                    for value, other in zip(
                        work[row], work[pivot], strict=True
                    )
                ]
    return [line[size:] for line in work]
