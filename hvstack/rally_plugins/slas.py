# SPDX-License-Identifier: Apache-2.0
"""SLAs: percent of bare metal, spread of the runs, stolen CPU time.

An SLA gets only iterations, so it reads the values in the charts of the
scenario, which are those of the reports.
"""

import abc
from typing import Any, Self

from rally.task import sla

from hvstack.results.stats import TOO_FEW_RUNS

#: Titles of the charts of the scenario.
PERCENT = 'Percent of bare metal, so far'
LOWER_BOUND = 'Percent of bare metal, lower bound of the interval'
RATE = 'Rate'
STEAL = 'Stolen CPU time'
SKIPPED = 'Skipped'


def list_figures(iteration: dict[str, Any], title: str) -> list[float]:
    """Return the values in the charts of an iteration with a title."""
    charts = (iteration.get('output') or {}).get('additive') or []
    return [
        float(value)
        for chart in charts
        if chart['title'] == title
        for _, value in chart['data']
    ]


def is_skipped(iteration: dict[str, Any]) -> bool:
    """Return whether the configuration of an iteration was skipped."""
    charts = (iteration.get('output') or {}).get('complete') or []
    return any(chart['title'] == SKIPPED for chart in charts)


class _FigureSLA(sla.SLA):
    """Limit for the values of all iterations.

    Subclasses define ``TITLE`` and ``DESCRIPTION``, and check the limit. The
    values of an iteration with a chart ``TOTAL_TITLE`` are those of all
    iterations so far, and replace earlier values, also if there are none.
    """

    TITLE = ''
    TOTAL_TITLE = ''
    DESCRIPTION = ''
    CONFIG_SCHEMA: dict[str, Any] = {'type': 'number', 'minimum': 0}

    def __init__(self, criterion_value: float) -> None:
        super().__init__(criterion_value)
        self.figures: list[float] = []
        self.has_skipped = False
        self.has_total = False

    @abc.abstractmethod
    def value(self) -> float | None:
        """Return the value to check; None without a value."""

    @abc.abstractmethod
    def holds(self) -> bool:
        """Return whether the value is within the limit."""

    def explain_missing(self) -> str:
        """Return why the value does not exist."""
        return 'skipped' if self.has_skipped else 'not available'

    def add_iteration(self, iteration: Any) -> bool:
        """Add the values of an iteration."""
        if self.TOTAL_TITLE and list_figures(iteration, self.TOTAL_TITLE):
            self.has_total = True
            self.figures.clear()
        self.figures += list_figures(iteration, self.TITLE)
        self.has_skipped |= is_skipped(iteration)
        return self._update_success()

    def merge(self, other: Self) -> bool:
        """Add the values of another process."""
        self.figures += other.figures
        self.has_skipped |= other.has_skipped
        self.has_total |= other.has_total
        return self._update_success()

    def _update_success(self) -> bool:
        self.success = self.holds()
        return bool(self.success)

    def details(self) -> str:
        """Return the result as human-readable text, with the value."""
        value = self.value()
        if value is not None:
            formatted = f'{value:.1f} %'
        else:
            formatted = self.explain_missing()
        return (
            f'{self.DESCRIPTION} {self.criterion_value:g} %: {formatted} - '
            f'{self.status()}'
        )


@sla.configure(name='percent_of_bare_metal')
class PercentOfBareMetal(_FigureSLA):
    """Minimum percent of bare metal, over the runs so far.

    The lower bound of the 95 % interval must reach it.
    """

    TITLE = LOWER_BOUND
    # The interval of all runs so far may be too wide to be reported.
    TOTAL_TITLE = PERCENT
    DESCRIPTION = 'Lower bound of percent of bare metal at least'

    def explain_missing(self) -> str:
        """Return why the interval does not exist."""
        if self.has_total:
            return TOO_FEW_RUNS
        return super().explain_missing()

    def value(self) -> float | None:
        """Return the lower bound over all runs; None without an interval."""
        return self.figures[-1] if self.figures else None

    def holds(self) -> bool:
        """Return whether the bound is high enough; no interval fails."""
        value = self.value()
        if value is None:
            return self.has_skipped
        return value >= float(self.criterion_value)


class _UpperBoundSLA(_FigureSLA):
    """Maximum value; an SLA without a value succeeds."""

    def holds(self) -> bool:
        """Return whether the value is at most the limit."""
        value = self.value()
        return value is None or value <= self.criterion_value


@sla.configure(name='spread_of_rates')
class SpreadOfRates(_UpperBoundSLA):
    """Maximum percentage by which the fastest run exceeds the slowest.

    The runs are those of the sweep so far.
    """

    TITLE = RATE
    DESCRIPTION = 'Fastest run above the slowest at most'

    def value(self) -> float | None:
        """Return the percentage; None for fewer than two runs."""
        if len(self.figures) < 2:
            return None
        return 100 * (max(self.figures) / min(self.figures) - 1)


@sla.configure(name='cpu_steal')
class CPUSteal(_UpperBoundSLA):
    """Maximum percentage of stolen CPU time, if it is available."""

    TITLE = STEAL
    DESCRIPTION = 'Stolen CPU time at most'

    def value(self) -> float | None:
        """Return the largest value of all runs."""
        return max(self.figures, default=None)
