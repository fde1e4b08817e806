# SPDX-License-Identifier: Apache-2.0
"""What each step of a sweep gained over the step before.

The form of the dell deck ("Tests and Results"): +5, -2, -13, -64, +22, +2,
+15 %, each against what was kept before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hvstack.results.stats import DriftCorrectedRates, Percent


class ValueStep(Protocol):
    """A value that was tried, and the full names of both configurations."""

    @property
    def parameter(self) -> str:
        """Which parameter was changed."""

    @property
    def value(self) -> str:
        """To which value, for a person."""

    @property
    def configuration(self) -> str:
        """What was tried."""

    @property
    def before(self) -> str:
        """What was kept of the step before."""


@dataclass(frozen=True)
class Gain:
    """What a value gained.

    :param percent: rates in percent of those of the step before.
    """

    parameter: str
    value: str
    percent: Percent

    @property
    def text(self) -> str:
        """The gain in the deck's form, such as +5 %."""
        return f'{_format_gain(self.percent.percent)} %'


def compute_gains(
    way: Sequence[ValueStep], corrected_rates: DriftCorrectedRates
) -> list[Gain]:
    """Return the gain of each value that was tried, in order.

    :param corrected_rates: rates of the sweep's valid runs.
    """
    return [
        Gain(
            step.parameter,
            step.value,
            corrected_rates.compute_ratio(step.configuration, step.before),
        )
        for step in way
        if step.configuration in corrected_rates.rows
        and step.before in corrected_rates.rows
    ]


def format_gains(gains: Sequence[Gain]) -> list[str]:
    """Return the gains for a terminal, a line each."""
    texts = []
    for gain in gains:
        low, high = gain.percent.low, gain.percent.high
        interval = (
            'no interval'
            if low is None or high is None
            else f'{_format_gain(low)} to {_format_gain(high)}'
        )
        texts.append(
            f'{gain.parameter} {gain.value}'.ljust(24)
            + f'{gain.text:>7}  (95 % interval {interval})'
        )
    return texts


def _format_gain(percent: float) -> str:
    """Return a percentage as a gain without decimals, and never as -0."""
    return f'{round(percent - 100):+d}'
