# SPDX-License-Identifier: Apache-2.0
"""Causes of the difference between the best configuration and bare metal.

:mod:`hvstack.results.time_account` defines the causes. A cause is named only
if the difference of the time is told apart from zero, the difference of the
cause too, and both have the same sign.
"""

from dataclasses import dataclass

from hvstack.model.target import BARE_METAL
from hvstack.report.sweep_report import SweepReport
from hvstack.report.sweep_rows import Row
from hvstack.results import stats
from hvstack.results.time_account import Cause
from hvstack.results.time_gap import (
    CauseDifference,
    SecondsDifference,
    TimeGap,
    estimate_gap,
)
from hvstack.results.typed_json import Json, JsonObject


@dataclass(frozen=True)
class CauseText:
    """Texts of a cause.

    :param title: name of the cause in a table and in the sentence.
    :param remedy: change that closes its share of the difference.
    """

    title: str
    remedy: str


#: Texts of the causes that :mod:`hvstack.results.time_account` defines.
CAUSE_TEXTS = {
    Cause.TASKS: CauseText(
        'CPU time of the tasks',
        'fewer CPU seconds per task: CPU model and NUMA topology of the '
        'host for the guests, pinned vCPUs, larger pages',
    ),
    Cause.JVMS: CauseText(
        'CPU time of JVM starts and daemons',
        'fewer or longer tasks, tasks of a small job in one JVM, and fewer '
        'workers per host',
    ),
    Cause.AGENTS: CauseText(
        'CPU time of host agents and switches',
        'cores for agents and switches outside the share of the workers, or '
        'a network path without them',
    ),
    Cause.THROTTLING: CauseText(
        'throttled CPU time',
        'a CPU quota of the guests and hosts as on bare metal',
    ),
    Cause.STEAL: CauseText(
        'stolen CPU time',
        'a CPU allocation ratio of 1, or dedicated vCPUs',
    ),
    Cause.DISK: CauseText(
        'busy disks',
        'the storage path of bare metal: local disks, pinned volumes or more '
        'disks per worker',
    ),
    Cause.NETWORK: CauseText(
        'timeouts of the network',
        'a network that drops no packets: queues, MTU and offloads of '
        'interfaces and switches',
    ),
    Cause.UNEVEN: CauseText(
        'uneven tasks',
        'as many tasks for each host and worker, and a number of tasks that '
        'is a multiple of the slots',
    ),
    Cause.STARTS: CauseText(
        'starts of jobs and data checks',
        'faster starts of clients, ApplicationMasters and containers: CPU '
        'time and class data sharing for JVMs, and fewer blocks to check',
    ),
    Cause.REMAINDER: CauseText(
        'not attributed', 'counters that the records do not have'
    ),
}


@dataclass(frozen=True)
class Explanation:
    """Causes of the difference of a configuration from bare metal.

    :param row: row of the configuration.
    :param gap: difference of the time with its causes.
    """

    row: Row
    gap: TimeGap

    @property
    def is_told_apart(self) -> bool:
        """Whether rates and seconds both differ from those of bare metal."""
        percent = self.row.percent
        return (
            percent is not None
            and percent.low is not None
            and not stats.contains_100(percent)
            and self.gap.whole.is_told_apart
            and (percent.percent < 100) == (self.gap.whole.seconds > 0)
        )

    @property
    def _has_interval(self) -> bool:
        """Whether the reports have intervals of the rate and the seconds."""
        percent = self.row.percent
        return (
            percent is not None
            and percent.reported_bounds is not None
            and self.gap.whole.half_width is not None
        )

    @property
    def named_causes(self) -> list[CauseDifference]:
        """Causes that the sentence names, the largest first."""
        if not self.is_told_apart:
            return []
        causes = [
            item
            for item in self.gap.causes
            if item.cause != Cause.REMAINDER
            and item.whole.is_told_apart
            and self.gap.compute_share(item.whole.seconds) > 0
        ]
        return sorted(
            causes, key=lambda item: abs(item.whole.seconds), reverse=True
        )

    @property
    def unattributed_percent(self) -> float:
        """Part of the difference that no named cause explains."""
        return 100 - sum(
            self.gap.compute_share(item.whole.seconds)
            for item in self.named_causes
        )

    @property
    def sentence(self) -> str:
        """The causes in one sentence."""
        title = self.row.title
        if not self._has_interval:
            return (
                'No cause of the difference is named: there are too few '
                'clusters for an interval.'
            )
        if not self.is_told_apart:
            return (
                f'{title} is not told apart from bare metal: no cause is '
                'named.'
            )
        seconds = self.gap.whole.seconds
        subject = (
            f'the {abs(seconds):.1f} s that {title} takes '
            f'{"longer" if seconds > 0 else "less"} than bare metal'
        )
        if not self.named_causes:
            return (
                f'No recorded cause explains {subject}: 100 % of the gap is '
                'not attributed.'
            )
        named = [
            f'{self.gap.compute_share(item.whole.seconds):.0f} % '
            f'({self._format_share_bounds(item.whole)}) is '
            f'{CAUSE_TEXTS[item.cause].title}'
            for item in self.named_causes
        ]
        percent = self.unattributed_percent
        end = (
            f'{max(0.0, percent):.0f} % of the gap is not attributed'
            if round(percent) >= 0
            else f'other differences offset {-percent:.0f} %'
        )
        return f'Of {subject}, {", ".join(named)}; {end}.'

    @property
    def remedies(self) -> list[str]:
        """Change that closes the share of each named cause.

        Nothing has to be closed if the configuration takes less time.
        """
        if self.gap.whole.seconds <= 0:
            return []
        return [
            f'{CAUSE_TEXTS[item.cause].title}: '
            f'{CAUSE_TEXTS[item.cause].remedy}'
            for item in self.named_causes
        ]

    @property
    def unobserved_titles(self) -> list[str]:
        """Names of the causes without counters in all runs."""
        return [CAUSE_TEXTS[cause].title for cause in self.gap.unobserved]

    def list_cells(self) -> list[tuple[str, ...]]:
        """Return the table with its header: causes, and seconds by phase."""
        header = (
            *('cause', 'seconds', '95 % interval', '% of the gap'),
            *self.gap.phases,
        )
        rows = [
            (
                CAUSE_TEXTS[item.cause].title,
                *self._format_difference(item.whole),
                *map(_format_seconds, item.phases.values()),
            )
            for item in self.gap.causes
        ]
        whole = (
            'whole gap',
            *self._format_difference(self.gap.whole),
            *map(_format_seconds, self.gap.phases.values()),
        )
        return [header, *rows, whole]

    def to_mapping(self) -> JsonObject:
        """Return the explanation as plain data."""
        named = {item.cause for item in self.named_causes}
        return {
            'configuration': self.row.configuration,
            'sentence': self.sentence,
            'told_apart': self.is_told_apart,
            'gap': _to_mapping(self.gap.whole),
            'phases': {
                name: _to_mapping(part)
                for name, part in self.gap.phases.items()
            },
            'causes': [
                {
                    'name': str(item.cause),
                    'title': CAUSE_TEXTS[item.cause].title,
                    'remedy': CAUSE_TEXTS[item.cause].remedy,
                    'named': item.cause in named,
                    **_to_mapping(item.whole),
                    'percent_of_gap': self._share(item.whole.seconds),
                    'percent_low': self._share_bounds(item.whole)[0],
                    'percent_high': self._share_bounds(item.whole)[1],
                    'phases': {
                        name: _to_mapping(part)
                        for name, part in item.phases.items()
                    },
                }
                for item in self.gap.causes
            ],
            'not_recorded': [str(cause) for cause in self.gap.unobserved],
        }

    def _share(self, seconds: float) -> float | None:
        """Return seconds in percent of a difference that is told apart."""
        if not self.is_told_apart:
            return None
        return self.gap.compute_share(seconds)

    def _share_bounds(
        self, difference: SecondsDifference
    ) -> tuple[float | None, float | None]:
        """Return the bounds of a share; the difference itself is fixed."""
        if not self.is_told_apart or difference.bounds is None:
            return None, None
        low, high = sorted(
            self.gap.compute_share(bound) for bound in difference.bounds
        )
        return low, high

    def _format_share_bounds(self, difference: SecondsDifference) -> str:
        low, high = self._share_bounds(difference)
        return '-' if low is None else f'{low:.0f} to {high:.0f}'

    def _format_difference(
        self, difference: SecondsDifference
    ) -> tuple[str, str, str]:
        bounds = difference.bounds if self._has_interval else None
        share = self._share(difference.seconds)
        return (
            _format_seconds(difference),
            '-' if bounds is None else f'{bounds[0]:.1f} to {bounds[1]:.1f}',
            '-' if share is None else str(round(share)),
        )


def build_explanation(report: SweepReport) -> Explanation | None:
    """Return the causes of the difference of the best configuration.

    :param report: report of the sweep.
    :returns: None if no configuration can be compared with bare metal.
    """
    row, bare_metal = report.leading_row, report.bare_metal
    if row is None or bare_metal is None:
        return None
    gap = estimate_gap(
        {
            other.configuration: other.valid
            for other in report.rows
            if other.status == 'ok' and other.configuration != BARE_METAL
        },
        bare_metal.valid,
        row.configuration,
    )
    return None if gap is None else Explanation(row, gap)


def to_mapping(report: SweepReport) -> Json:
    """Return the explanation of a report as plain data; None without one."""
    explanation = build_explanation(report)
    return None if explanation is None else explanation.to_mapping()


def _format_seconds(difference: SecondsDifference) -> str:
    """Return seconds with one digit, without the sign of a zero."""
    return f'{round(difference.seconds, 1) + 0.0:.1f}'


def _to_mapping(difference: SecondsDifference) -> JsonObject:
    bounds = difference.bounds
    return {
        'seconds': difference.seconds,
        'low': None if bounds is None else bounds[0],
        'high': None if bounds is None else bounds[1],
    }
