# SPDX-License-Identifier: Apache-2.0
"""Difference of the time of a configuration and bare metal, by cause.

The unit is the cluster: the mean of the seconds of its runs is one value. The
effects of rows and passes are those of :mod:`hvstack.results.estimator`, which
is linear, so that the causes of a difference add up to it. The interval of the
difference is that of Student's t. Those of its causes hold together: they use
the quantile of Bonferroni's inequality for the causes with any seconds.
"""

import functools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from hvstack.model.target import BARE_METAL
from hvstack.results import estimator, percentages, time_account
from hvstack.results.estimator import ClusterRate
from hvstack.results.quantiles import CONFIDENCE, compute_t_quantile
from hvstack.results.record_data import RunRecord
from hvstack.results.time_account import Account, Cause, Reference

#: Differences of seconds that rounding alone can make.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class SecondsDifference:
    """Seconds that a configuration takes longer than bare metal.

    :param seconds: estimated difference; negative for a shorter time.
    :param half_width: half width of the 95 % interval; None without one.
    """

    seconds: float
    half_width: float | None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Lower and upper bound of the interval; None without one."""
        if self.half_width is None:
            return None
        return (
            self.seconds - self.half_width,
            self.seconds + self.half_width,
        )

    @property
    def is_told_apart(self) -> bool:
        """Whether the interval excludes zero."""
        return self.half_width is not None and abs(self.seconds) > max(
            self.half_width, _ROUNDING
        )


@dataclass(frozen=True)
class CauseDifference:
    """Difference of the seconds of a cause.

    :param cause: cause of the seconds.
    :param whole: difference over the whole run.
    :param phases: difference by phase.
    """

    cause: Cause
    whole: SecondsDifference
    phases: Mapping[str, SecondsDifference]


@dataclass(frozen=True)
class TimeGap:
    """Difference of the time of a configuration and bare metal.

    :param whole: difference over the whole run.
    :param phases: difference by phase.
    :param causes: differences of the observed causes and of the remainder,
        which add up to the whole difference.
    :param unobserved: causes without counters in all compared runs.
    """

    whole: SecondsDifference
    phases: Mapping[str, SecondsDifference]
    causes: tuple[CauseDifference, ...]
    unobserved: tuple[Cause, ...]

    def compute_share(self, seconds: float) -> float:
        """Return seconds of a cause in percent of the whole difference."""
        return 100 * seconds / self.whole.seconds


#: Accounts of a run by phase.
_Accounts = Mapping[str, Account]


@dataclass(frozen=True)
class _AccountedCluster:
    """Runs of a cluster.

    :param row: name of the configuration, or of bare metal.
    :param pass_id: pass of the cluster.
    :param accounts: accounts of its runs.
    """

    row: str
    pass_id: Hashable
    accounts: tuple[_Accounts, ...]

    def compute_seconds(self, name: str | None, cause: Cause | None) -> float:
        """Return the mean seconds of the runs."""
        values = [
            _sum_seconds(accounts, name, cause) for accounts in self.accounts
        ]
        return math.fsum(values) / len(values)


def estimate_gap(
    rows: Mapping[str, Sequence[RunRecord]],
    baseline: Sequence[RunRecord],
    configuration: str,
) -> TimeGap | None:
    """Return the difference of the time of a configuration and bare metal.

    :param rows: valid runs by configuration, all of them comparable with the
        baseline. The other configurations contribute to the variance.
    :param baseline: valid runs on bare metal.
    :param configuration: name of the configuration.
    :returns: None without runs on both sides.
    :raises hvstack.errors.InputError: a record does not contain its cluster
        and its pass.
    """
    if not baseline or not rows.get(configuration):
        return None
    reference = time_account.build_reference(rows[configuration], baseline)
    clusters = _list_clusters(
        {
            BARE_METAL: baseline,
            **{
                name: runs
                for name, runs in rows.items()
                if runs and _has_counters(runs, reference)
            },
        },
        reference,
    )
    phases = list(clusters[0].accounts[0])

    observed = {cause for _, cause in reference.observed} | {Cause.REMAINDER}
    confidence = 1 - (1 - CONFIDENCE) / max(1, _count_causes(clusters))

    # Many causes have no seconds in any phase.
    @functools.cache
    def compare_seconds(
        seconds: tuple[float, ...], coverage: float
    ) -> SecondsDifference:
        # The estimator is linear: seconds take the place of logarithms.
        rates = [
            ClusterRate(cluster.row, cluster.pass_id, value)
            for cluster, value in zip(clusters, seconds, strict=True)
        ]
        return _compare(rates, configuration, coverage)

    def compare(
        name: str | None = None, cause: Cause | None = None
    ) -> SecondsDifference:
        return compare_seconds(
            tuple(
                cluster.compute_seconds(name, cause) for cluster in clusters
            ),
            CONFIDENCE if cause is None else confidence,
        )

    return TimeGap(
        compare(),
        {name: compare(name) for name in phases},
        tuple(
            CauseDifference(
                cause,
                compare(None, cause),
                {name: compare(name, cause) for name in phases},
            )
            for cause in Cause
            if cause in observed
        ),
        tuple(cause for cause in Cause if cause not in observed),
    )


def _count_causes(clusters: Sequence[_AccountedCluster]) -> int:
    """Return the number of causes with any seconds, without the remainder."""
    return sum(
        any(
            _sum_seconds(accounts, None, cause)
            for cluster in clusters
            for accounts in cluster.accounts
        )
        for cause in Cause
        if cause != Cause.REMAINDER
    )


def _compare(
    clusters: Sequence[ClusterRate], configuration: str, confidence: float
) -> SecondsDifference:
    """Return the difference of a configuration from bare metal.

    :param clusters: clusters with seconds in place of logarithms of rates.
    :param configuration: name of the configuration.
    :param confidence: probability that the interval covers the difference.
    """
    fit = estimator.fit_sweep(clusters, BARE_METAL)
    difference = fit.compare(configuration)
    if difference.error is None:
        return SecondsDifference(difference.log_ratio, None)
    quantile = compute_t_quantile(difference.degrees, confidence)
    return SecondsDifference(difference.log_ratio, quantile * difference.error)


def _has_counters(runs: Sequence[RunRecord], reference: Reference) -> bool:
    """Return whether runs have the counters of all observed causes."""
    return all(
        reference.observed <= time_account.list_observed(run) for run in runs
    )


def _list_clusters(
    rows: Mapping[str, Sequence[RunRecord]], reference: Reference
) -> list[_AccountedCluster]:
    """Return the clusters of rows with the accounts of their runs."""
    return [
        _AccountedCluster(
            name,
            percentages.get_sweep_pass(group[0]),
            tuple(time_account.account_run(run, reference) for run in group),
        )
        for name, runs in rows.items()
        for group in percentages.group_by_cluster(runs)
    ]


def _sum_seconds(
    accounts: _Accounts, name: str | None, cause: Cause | None
) -> float:
    """Return the seconds of a run.

    :param name: name of a phase; None sums all phases.
    :param cause: cause of the seconds; None sums all causes.
    """
    if name is not None:
        account = accounts.get(name, {})
        if cause is not None:
            return account.get(cause, 0.0)
        return math.fsum(account.values())
    if cause is not None:
        return math.fsum(
            [account.get(cause, 0.0) for account in accounts.values()]
        )
    return math.fsum(
        seconds
        for account in accounts.values()
        for seconds in account.values()
    )
