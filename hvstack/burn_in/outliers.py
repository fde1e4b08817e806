# SPDX-License-Identifier: Apache-2.0
"""Comparison of equal parts of a cluster: which are slower than the others.

A part is compared with the median of the others, which a few slow parts do
not change. It is an outlier if it is worse by more than a threshold in
percent, and if its modified z-score exceeds 3.5 (Iglewicz and Hoaglin, "How
to Detect and Handle Outliers", 1993), among all others or among those of other
physical hosts. The median absolute deviation (MAD) of the score is at least
that of the rounds of a part: a few parts that agree by chance do not make an
outlier of another one.

The score is that of the logarithms. No rate is less than nothing: its
difference from the others is at most their median, and would never exceed a
MAD of a fifth of it by the factor of the score, however slow the part is.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

#: Modified z-score of an outlier, and the factor that makes the MAD of a
#: normal distribution its standard deviation.
MAX_Z_DEVIATION = 3.5
_NORMAL_MAD = 0.6745
#: Number of values that can be compared.
MIN_COMPARED = 3
#: Verdicts.
OK = 'ok'
OUTLIER = 'outlier'
NOT_COMPARED = f'not compared (fewer than {MIN_COMPARED})'


@dataclass(frozen=True)
class Subject:
    """The part of a cluster that a row of the burn-in is about.

    :param nodes: names of its node, or of the two nodes of a pair; empty for
        the whole cluster.
    :param hosts: their physical hosts, in the order of the nodes.
    :param where: the part of the node, such as the directory of a disk.
    :param group: parts with equal groups are compared.
    """

    nodes: tuple[str, ...]
    hosts: tuple[str, ...]
    where: str
    group: str


@dataclass(frozen=True)
class RowVerdict:
    """Result of the comparison of a part with the others.

    :param of_others: its value in percent of the median of the others; None
        if it was not compared.
    :param text: the verdict, one of the constants or the reason.
    :param host: physical host that is named instead of the part; empty if
        the part itself is named, or is no outlier.
    """

    of_others: float | None
    text: str
    host: str = ''

    @property
    def is_outlier(self) -> bool:
        """Whether the part, or its host, is slower than the others."""
        return self.text == OUTLIER


def compare(
    subjects: Sequence[Subject],
    rounds: Sequence[Sequence[float]],
    *,
    threshold: float,
    larger_is_better: bool = True,
    host_rows: int = 1,
) -> list[RowVerdict]:
    """Compare the parts of one measure, each with those of its group.

    :param subjects: the parts.
    :param rounds: values of the rounds of each part; a part without values
        is not compared.
    :param threshold: percent by which an outlier is worse than the others.
    :param larger_is_better: whether a smaller value is worse.
    :param host_rows: number of parts that a host must have to be named
        instead of them, if all of them are outliers.
    :returns: a verdict for each part, in their order.
    """
    scale = _Scale(threshold, larger_is_better)
    indexes = [index for index, values in enumerate(rounds) if values]
    compared_subjects = [subjects[index] for index in indexes]
    compared_rounds = [rounds[index] for index in indexes]
    if any(len(subject.hosts) > 1 for subject in compared_subjects):
        compared = _compare_pairs(compared_subjects, compared_rounds, scale)
    else:
        compared = _compare_parts(
            compared_subjects, compared_rounds, scale, host_rows
        )
    verdicts = dict(zip(indexes, compared, strict=True))
    return [
        verdicts.get(index, RowVerdict(None, NOT_COMPARED))
        for index in range(len(subjects))
    ]


@dataclass(frozen=True)
class _Scale:
    """What makes a value an outlier, see :func:`compare`."""

    threshold: float
    larger_is_better: bool

    def select_best(self, values: Iterable[float]) -> float:
        return (max if self.larger_is_better else min)(values)

    def compare(
        self,
        values: Sequence[float],
        round_deviation: float,
        hosts: Sequence[str] = (),
    ) -> list[RowVerdict]:
        """Compare each value with the median of the others.

        :param values: values of parts of one group.
        :param round_deviation: MAD of rounds, as a fraction of the value.
        :param hosts: physical host of each value. A slow host slows all of
            its parts, which increases their deviation: a value is an outlier
            also if it is one among the values of other hosts alone.
        """
        if len(values) < MIN_COMPARED:
            return [RowVerdict(None, NOT_COMPARED) for _ in values]
        verdicts = []
        for index, value in enumerate(values):
            others = [*values[:index], *values[index + 1 :]]
            verdict = self._judge(value, others, round_deviation)
            on_other_hosts = [
                other
                for other, host in zip(values, hosts, strict=bool(hosts))
                if host != hosts[index]
            ]
            if len(on_other_hosts) >= MIN_COMPARED - 1:
                alone = self._judge(value, on_other_hosts, round_deviation)
                if alone.is_outlier and not verdict.is_outlier:
                    verdict = alone
            verdicts.append(verdict)
        return verdicts

    def _judge(
        self, value: float, others: Sequence[float], round_deviation: float
    ) -> RowVerdict:
        """Compare a value with the median of others."""
        center = statistics.median(others)
        worse = center - value if self.larger_is_better else value - center
        is_outlier = 100 * worse > self.threshold * abs(
            center
        ) and _is_extreme(value, others, round_deviation)
        return RowVerdict(
            100 * value / center if center else None,
            OUTLIER if is_outlier else OK,
        )


def _is_extreme(
    value: float, others: Sequence[float], round_deviation: float
) -> bool:
    """Return whether the modified z-score of a value is that of an outlier.

    A value of 0 has no logarithm, and is always extreme.
    """
    logarithms = [math.log(other) for other in others if other > 0]
    if value <= 0 or not logarithms:
        return True
    center = statistics.median(logarithms)
    mad = max(
        statistics.median(abs(number - center) for number in logarithms),
        round_deviation,
    )
    distance = abs(math.log(value) - center)
    return _NORMAL_MAD * distance > MAX_Z_DEVIATION * mad


def compute_round_deviation(rounds: Sequence[Sequence[float]]) -> float:
    """Return the MAD of the rounds of a part, pooled over the parts.

    A single odd round of a part does not change it.

    :param rounds: values of each part.
    :returns: fraction of the value; 0 if each part has a single value.
    """
    deviations: list[float] = []
    for values in rounds:
        center = statistics.median(values)
        if center == 0 or len(values) < 2:
            continue
        relative = sorted(abs(value / center - 1) for value in values)
        # With an odd number of values, one is the median itself.
        deviations += relative[len(values) % 2 :]
    return statistics.median(deviations) if deviations else 0.0


def _list_groups(subjects: Sequence[Subject]) -> list[list[int]]:
    """Return the indexes of the parts of each group."""
    groups: dict[str, list[int]] = {}
    for index, subject in enumerate(subjects):
        groups.setdefault(subject.group, []).append(index)
    return list(groups.values())


def _compare_parts(
    subjects: Sequence[Subject],
    rounds: Sequence[Sequence[float]],
    scale: _Scale,
    host_rows: int,
) -> list[RowVerdict]:
    """Compare parts of nodes, and name a host whose parts are all slower."""
    verdicts: dict[int, RowVerdict] = {}
    for group in _list_groups(subjects):
        group_rounds = [rounds[index] for index in group]
        compared = scale.compare(
            [statistics.median(values) for values in group_rounds],
            compute_round_deviation(group_rounds),
            [next(iter(subjects[index].hosts), '') for index in group],
        )
        verdicts.update(zip(group, compared, strict=True))
        by_host: dict[str, list[int]] = {}
        for index in group:
            for host in subjects[index].hosts:
                by_host.setdefault(host, []).append(index)
        for host, indexes in by_host.items():
            if len(indexes) >= host_rows and all(
                verdicts[index].is_outlier for index in indexes
            ):
                for index in indexes:
                    verdicts[index] = RowVerdict(
                        verdicts[index].of_others, OUTLIER, host
                    )
    return [verdicts[index] for index in range(len(subjects))]


def _compare_pairs(
    subjects: Sequence[Subject],
    rounds: Sequence[Sequence[float]],
    scale: _Scale,
) -> list[RowVerdict]:
    """Compare pairs of hosts.

    All pairs of a slow host are slow, which could be half of all pairs.
    Hosts are therefore compared first, each by the best of its pairs, and
    then the pairs of the other hosts. A host that has only a controller is in
    all pairs of its group: hosts are compared by the pairs of all groups.
    """
    values = [statistics.median(series) for series in rounds]
    hosts = _find_slow_hosts(
        subjects, values, compute_round_deviation(rounds), scale
    )
    remaining = {
        index
        for index, subject in enumerate(subjects)
        if hosts.isdisjoint(subject.hosts)
    }
    verdicts: dict[int, RowVerdict] = {}
    for group in _list_groups(subjects):
        others = [index for index in group if index in remaining]
        compared = scale.compare(
            [values[index] for index in others],
            compute_round_deviation([rounds[index] for index in group]),
        )
        verdicts.update(zip(others, compared, strict=True))
        center_values = [values[index] for index in others or remaining]
        center = statistics.median(center_values) if center_values else 0
        for index in group:
            if index not in remaining:
                verdicts[index] = RowVerdict(
                    100 * values[index] / center if center else None,
                    OUTLIER,
                    next(
                        host for host in subjects[index].hosts if host in hosts
                    ),
                )
    return [verdicts[index] for index in range(len(subjects))]


def _find_slow_hosts(
    subjects: Sequence[Subject],
    values: Sequence[float],
    deviation: float,
    scale: _Scale,
) -> set[str]:
    """Return the hosts with at least two pairs, all of which are slow."""
    by_host: dict[str, list[float]] = {}
    for subject, value in zip(subjects, values, strict=True):
        for host in subject.hosts:
            by_host.setdefault(host, []).append(value)
    best = {
        host: scale.select_best(host_values)
        for host, host_values in by_host.items()
        # The only pair of a host can be slow because of the other host.
        if len(host_values) > 1
    }
    verdicts = scale.compare(list(best.values()), deviation)
    return {
        host
        for host, verdict in zip(best, verdicts, strict=True)
        if verdict.is_outlier
    }
