# SPDX-License-Identifier: Apache-2.0
"""When the intervals of a sweep are narrow enough."""

from collections.abc import Collection
from dataclasses import dataclass

from hvstack.results.stats import CorrectedRates

#: Half width in points that every reported interval must reach.
DEFAULT_HALF_WIDTH = 5.0
#: Minimum number of passes with earlier sweeps of the same workload, with
#: them on a machine whose pace wanders, and without them. The variance of
#: few clusters is often much too small by chance, and a sweep that stops
#: then has intervals that are too narrow.
MIN_PASSES_WITH_HISTORY = 3
MIN_PASSES_WANDERING = 4
MIN_PASSES = 8
#: Minimum degrees of freedom of earlier sweeps that replace the passes. The
#: standard error of a variance with n degrees of freedom is sqrt(2 / n) of it:
#: 45 % with 10, but 141 % with a single one, which says next to nothing.
MIN_HISTORY_DEGREES = 10
#: Maximum number of passes: more would hardly narrow the intervals.
MAX_PASSES = 200


@dataclass(frozen=True)
class Goal:
    """Goal of a sweep that has no fixed number of passes.

    :param half_width: half width in points of the interval of each row.
    """

    half_width: float = DEFAULT_HALF_WIDTH

    def is_reached(
        self, rates: CorrectedRates, names: Collection[str] | None = None
    ) -> bool:
        """Return whether the sweep can end.

        :param rates: rates of the sweep so far.
        :param names: names of the rows that count; None uses all rows.
        """
        names = rates.rows if names is None else names
        passes = count_passes(rates, names)
        if passes >= MAX_PASSES:
            return True
        if passes < count_min_passes(rates):
            return False
        margins = (rates.compute_ratio(name).margin for name in names)
        return all(
            margin is not None and margin <= self.half_width
            for margin in margins
        )

    def count_passes(
        self, rates: CorrectedRates, names: Collection[str]
    ) -> int:
        """Return the number of passes after which to look again.

        :param rates: rates of the sweep so far.
        :param names: names of the rows that count.
        """
        passes = count_passes(rates, names)
        return passes + (not self.is_reached(rates, names))


def count_passes(
    rates: CorrectedRates, names: Collection[str] | None = None
) -> int:
    """Return the number of complete passes.

    :param rates: rates of the sweep so far.
    :param names: names of the rows that count; None uses all rows.
    """
    names = rates.rows if names is None else names
    if not names or not rates.base:
        return 0
    counts = [len(rates.rows.get(name, ())) for name in names]
    return min(*counts, len(rates.base))


def count_min_passes(rates: CorrectedRates) -> int:
    """Return the minimum number of passes of a sweep.

    :param rates: rates of the sweep so far.
    """
    fit = rates.fit
    if (
        fit is None
        or not fit.has_history
        or fit.history.total.degrees < MIN_HISTORY_DEGREES
    ):
        return MIN_PASSES
    return MIN_PASSES_WANDERING if fit.wanders else MIN_PASSES_WITH_HISTORY
