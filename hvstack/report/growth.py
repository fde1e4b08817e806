# SPDX-License-Identifier: Apache-2.0
"""Growth of the time on bare metal with the size of the data."""

import math
from collections.abc import Collection
from dataclasses import dataclass

from hvstack.report.sweep_rows import compute_mean_seconds
from hvstack.results import comparability
from hvstack.results.record_data import RunRecord


@dataclass(frozen=True)
class Growth:
    """Growth of the time on bare metal with the size of the data.

    :param small: size of the smaller data in bytes.
    :param large: size of the larger data in bytes.
    :param seconds: mean seconds for the small and the large data by phase.
    """

    small: int
    large: int
    seconds: dict[str, tuple[float, float]]

    @property
    def factor(self) -> float:
        """Ratio of the two sizes of data."""
        return self.large / self.small

    def ratio(self, phase: str) -> float | None:
        """Return the ratio of the seconds; None if the phase took no time."""
        small, large = self.seconds[phase]
        return large / small if small else None

    def fixed_seconds(self, phase: str) -> float | None:
        """Return the seconds that do not grow: 2 t1 - t2 for doubled data.

        The model is a straight line: a constant part and a part in proportion
        to the data. The result is None if the line has a negative part,
        because the machine was not equally fast in all runs.
        """
        return self._compute_fixed(*self.seconds[phase])

    @property
    def total(self) -> tuple[float, float]:
        """Seconds of all phases for the small and the large data."""
        small, large = zip(*self.seconds.values(), strict=True)
        return math.fsum(small), math.fsum(large)

    @property
    def fixed_total(self) -> float | None:
        """Seconds of all phases that do not grow, as for one phase."""
        return self._compute_fixed(*self.total)

    def _compute_fixed(self, small: float, large: float) -> float | None:
        fixed = (self.factor * small - large) / (self.factor - 1)
        return fixed if 0 <= fixed <= small else None


def compute_growth(
    baseline: list[RunRecord],
    others: list[RunRecord],
    allow: Collection[str] = (),
) -> list[Growth]:
    """Compare the times on bare metal with those of other data.

    :param baseline: valid runs on bare metal with the data of the sweep.
    :param others: runs on bare metal with other data.
    :param allow: facts that may differ.
    :raises hvstack.errors.NotComparableError: runs differ in a fact other than
        the size of the data and the allowed ones.
    """
    growths = []
    for size in sorted({record.size_bytes for record in others}):
        measured = [r for r in others if r.valid and r.size_bytes == size]
        if not measured or not baseline:
            continue
        for record in measured:
            comparability.require_comparable(
                record, baseline[0], {'size_bytes', *allow}
            )
        smaller, larger = sorted(
            (baseline, measured), key=lambda records: records[0].size_bytes
        )
        small_seconds, large_seconds = map(
            compute_mean_seconds, (smaller, larger)
        )
        growths.append(
            Growth(
                smaller[0].size_bytes,
                larger[0].size_bytes,
                {
                    name: (small_seconds[name], large_seconds[name])
                    for name in small_seconds
                    if name in large_seconds
                },
            )
        )
    return growths
