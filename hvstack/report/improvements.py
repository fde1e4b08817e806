# SPDX-License-Identifier: Apache-2.0
"""Gain of each step of a sweep over the step before.

The form is that of the Dell presentation ("Tests and Results"): +5, -2, -13,
-64, +22, +2, +15 %, each compared with the configuration retained before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hvstack.results.stats import TOO_FEW_RUNS, CorrectedRates, Percent


class ValueStep(Protocol):
    """Measured value of a parameter, with the names of both configurations."""

    @property
    def parameter(self) -> str:
        """Name of the changed parameter."""

    @property
    def value(self) -> str:
        """New value as human-readable text."""

    @property
    def configuration(self) -> str:
        """Full name of the measured configuration."""

    @property
    def before(self) -> str:
        """Full name of the configuration retained by the step before."""


@dataclass(frozen=True)
class Gain:
    """Gain of a value.

    :param percent: rate in percent of the rate of the step before.
    """

    parameter: str
    value: str
    percent: Percent

    @property
    def text(self) -> str:
        """Gain as text, such as +5 %."""
        return f'{_format_gain(self.percent.percent)} %'


def compute_gains(
    way: Sequence[ValueStep], corrected_rates: CorrectedRates
) -> list[Gain]:
    """Return the gain of each measured value, in order.

    :param corrected_rates: rates of the valid runs of the sweep.
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
    """Return one line of text for each gain."""
    texts = []
    for gain in gains:
        bounds = gain.percent.reported_bounds
        interval = (
            f'95 % interval {" to ".join(map(_format_gain, bounds))}'
            if bounds
            else TOO_FEW_RUNS
        )
        texts.append(
            f'{gain.parameter} {gain.value}'.ljust(24)
            + f'{gain.text:>7}  ({interval})'
        )
    return texts


def _format_gain(percent: float) -> str:
    """Return a percentage as a gain without decimals; never as -0."""
    return f'{round(percent - 100):+d}'
