# SPDX-License-Identifier: Apache-2.0
"""SLAs: percent of bare metal, spread of the runs, stolen CPU time.

An SLA sees iterations only: it reads the figures that the scenario draws,
which are those of the reports.
"""

import abc
from typing import Any, Self

from rally.task import sla

#: Titles of what the scenario draws.
PERCENT = 'Percent of bare metal, so far'
RATE = 'Rate'
STEAL = 'Stolen CPU time'
SKIPPED = 'Skipped'


def figures(iteration: dict[str, Any], title: str) -> list[float]:
    """Return the figures that an iteration drew under a title."""
    charts = (iteration.get('output') or {}).get('additive') or []
    return [
        float(value)
        for chart in charts
        if chart['title'] == title
        for _, value in chart['data']
    ]


def skipped(iteration: dict[str, Any]) -> bool:
    """Tell whether an iteration's configuration cannot exist."""
    charts = (iteration.get('output') or {}).get('complete') or []
    return any(chart['title'] == SKIPPED for chart in charts)


class _FigureSLA(sla.SLA):
    """A bound on the figures of all iterations.

    Subclasses give ``TITLE``, ``WHAT``, and say whether the bound holds.
    """

    TITLE = ''
    WHAT = ''
    CONFIG_SCHEMA: dict[str, Any] = {'type': 'number', 'minimum': 0}

    def __init__(self, criterion_value: float) -> None:
        super().__init__(criterion_value)
        self.found: list[float] = []
        self.skipped = False

    @abc.abstractmethod
    def value(self) -> float | None:
        """Return the figure that is bounded; None without one."""

    @abc.abstractmethod
    def holds(self) -> bool:
        """Tell whether the bound holds now."""

    def add_iteration(self, iteration: Any) -> bool:
        """Take an iteration's figures in."""
        self.found += figures(iteration, self.TITLE)
        self.skipped |= skipped(iteration)
        return self._judged()

    def merge(self, other: Self) -> bool:
        """Take another process' figures in."""
        self.found += other.found
        self.skipped |= other.skipped
        return self._judged()

    def _judged(self) -> bool:
        self.success = self.holds()
        return bool(self.success)

    def details(self) -> str:
        """Say it in words, with the figure."""
        value = self.value()
        if value is not None:
            formatted = f'{value:.1f} %'
        else:
            formatted = 'skipped' if self.skipped else 'not available'
        return (
            f'{self.WHAT} {self.criterion_value:g} %: {formatted} - '
            f'{self.status()}'
        )


@sla.configure(name='percent_of_bare_metal')
class PercentOfBareMetal(_FigureSLA):
    """Percent of bare metal at least so much, over the runs so far."""

    TITLE = PERCENT
    WHAT = 'Percent of bare metal at least'

    def value(self) -> float | None:
        """Return the percentage over all runs."""
        return self.found[-1] if self.found else None

    def holds(self) -> bool:
        """Fail without a percentage: nothing was shown then."""
        value = self.value()
        if value is None:
            return self.skipped
        return value >= float(self.criterion_value)


class _AtMost(_FigureSLA):
    """A figure that must not be larger; without one it holds."""

    def holds(self) -> bool:
        """Compare, where there is something to compare."""
        value = self.value()
        return value is None or value <= self.criterion_value


@sla.configure(name='spread_of_rates')
class SpreadOfRates(_AtMost):
    """Fastest run over the slowest one at most so many percent more."""

    TITLE = RATE
    WHAT = 'Fastest run above the slowest at most'

    def value(self) -> float | None:
        """Return the percentage; None of a single run."""
        if len(self.found) < 2:
            return None
        return 100 * (max(self.found) / min(self.found) - 1)


@sla.configure(name='cpu_steal')
class CPUSteal(_AtMost):
    """Stolen CPU time at most so many percent, or not available."""

    TITLE = STEAL
    WHAT = 'Stolen CPU time at most'

    def value(self) -> float | None:
        """Return the largest of all runs."""
        return max(self.found, default=None)
