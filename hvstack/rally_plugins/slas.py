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


def list_figures(iteration: dict[str, Any], title: str) -> list[float]:
    """Return the figures that an iteration drew under a title."""
    charts = (iteration.get('output') or {}).get('additive') or []
    return [
        float(value)
        for chart in charts
        if chart['title'] == title
        for _, value in chart['data']
    ]


def is_skipped(iteration: dict[str, Any]) -> bool:
    """Tell whether an iteration's configuration cannot exist."""
    charts = (iteration.get('output') or {}).get('complete') or []
    return any(chart['title'] == SKIPPED for chart in charts)


class _FigureSLA(sla.SLA):
    """A bound on the figures of all iterations.

    Subclasses give ``TITLE`` and ``DESCRIPTION``, and say whether the bound
    holds.
    """

    TITLE = ''
    DESCRIPTION = ''
    CONFIG_SCHEMA: dict[str, Any] = {'type': 'number', 'minimum': 0}

    def __init__(self, criterion_value: float) -> None:
        super().__init__(criterion_value)
        self.figures: list[float] = []
        self.has_skipped = False

    @abc.abstractmethod
    def value(self) -> float | None:
        """Return the figure that is bounded; None without one."""

    @abc.abstractmethod
    def holds(self) -> bool:
        """Tell whether the bound holds now."""

    def add_iteration(self, iteration: Any) -> bool:
        """Take an iteration's figures in."""
        self.figures += list_figures(iteration, self.TITLE)
        self.has_skipped |= is_skipped(iteration)
        return self._update_success()

    def merge(self, other: Self) -> bool:
        """Take another process' figures in."""
        self.figures += other.figures
        self.has_skipped |= other.has_skipped
        return self._update_success()

    def _update_success(self) -> bool:
        self.success = self.holds()
        return bool(self.success)

    def details(self) -> str:
        """Say it in words, with the figure."""
        value = self.value()
        if value is not None:
            formatted = f'{value:.1f} %'
        else:
            formatted = 'skipped' if self.has_skipped else 'not available'
        return (
            f'{self.DESCRIPTION} {self.criterion_value:g} %: {formatted} - '
            f'{self.status()}'
        )


@sla.configure(name='percent_of_bare_metal')
class PercentOfBareMetal(_FigureSLA):
    """Percent of bare metal at least so much, over the runs so far."""

    TITLE = PERCENT
    DESCRIPTION = 'Percent of bare metal at least'

    def value(self) -> float | None:
        """Return the percentage over all runs."""
        return self.figures[-1] if self.figures else None

    def holds(self) -> bool:
        """Fail without a percentage: nothing was shown then."""
        value = self.value()
        if value is None:
            return self.has_skipped
        return value >= float(self.criterion_value)


class _UpperBoundSLA(_FigureSLA):
    """A figure that must not be larger; without one it holds."""

    def holds(self) -> bool:
        """Compare, where there is something to compare."""
        value = self.value()
        return value is None or value <= self.criterion_value


@sla.configure(name='spread_of_rates')
class SpreadOfRates(_UpperBoundSLA):
    """Fastest run over the slowest one at most so many percent more."""

    TITLE = RATE
    DESCRIPTION = 'Fastest run above the slowest at most'

    def value(self) -> float | None:
        """Return the percentage; None of a single run."""
        if len(self.figures) < 2:
            return None
        return 100 * (max(self.figures) / min(self.figures) - 1)


@sla.configure(name='cpu_steal')
class CPUSteal(_UpperBoundSLA):
    """Stolen CPU time at most so many percent, or not available."""

    TITLE = STEAL
    DESCRIPTION = 'Stolen CPU time at most'

    def value(self) -> float | None:
        """Return the largest of all runs."""
        return max(self.figures, default=None)
