# SPDX-License-Identifier: Apache-2.0
"""Trials with clusters drawn from a pool, for pool.py: no input and output.

The intervals are those of the project's own estimator. The unit is the
cluster: a trial draws whole clusters, never runs. Clusters that are neighbors
in time are a pass, as in 'hvstack sweep trials run'. Passes of clusters that
lie far apart would contain what the machine did in between, and their
intervals would be too narrow: on a machine whose pace wanders by 3 % from
cluster to cluster, 91 % of them instead of 95 % contain the truth.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hvstack import errors, seeded_random
from hvstack.model.target import BARE_METAL
from hvstack.results import percentages, stats, stopping, time_counters
from hvstack.results.estimator import ClusterRate
from hvstack.results.observations import Phase
from hvstack.results.record_data import RunRecord
from hvstack.results.stats import CorrectedRates, Percent

SIDES = ('a', 'b')
RESAMPLED, SEED = 1000, 1
#: Half width at which a trial of A against B stops, as a part of the effect.
STOP_SHARE = 0.4
#: Smallest effect in points that a pool should have.
MIN_EFFECT = 8.0
#: Clusters of neighbors in time, one of each side.
Pair = tuple[ClusterRate, ClusterRate]


@dataclass(frozen=True)
class EffectBounds:
    """Bounds of the effect of smaller caps.

    :param min_share: part of the run in which caps bind at the least.
    :param max_share: part of the run in which they bind at the most.
    :param percent: caps of side B in percent of those of side A.
    """

    min_share: float
    max_share: float
    percent: float

    def compute_rate(self, share: float) -> float:
        """Return the rate of side B in percent of that of side A.

        Only the part in which caps bind takes longer.

        :param share: part of the run in which caps bind.
        """
        return 100 / (1 + share * (100 / self.percent - 1))

    @property
    def rates(self) -> tuple[float, float]:
        """Bounds of the rate of side B in percent of that of side A."""
        return (
            self.compute_rate(self.max_share),
            self.compute_rate(self.min_share),
        )

    @property
    def effect(self) -> float:
        """Smallest effect in points."""
        return 100 - self.rates[1]

    @property
    def half_width(self) -> float:
        """Half width in points at which a trial of A against B stops."""
        return STOP_SHARE * self.effect

    def choose_percent(self) -> int | None:
        """Return the largest caps with an effect that is large enough.

        :returns: caps of side B in percent, in steps of 5; None if even 10 %
            have a smaller effect.
        """
        return next(
            (
                percent
                for percent in range(95, 5, -5)
                if replace(self, percent=percent).effect >= MIN_EFFECT
            ),
            None,
        )

    def contains(self, percent: Percent) -> bool:
        """Return whether the interval of a trial overlaps the bounds."""
        if percent.low is None or percent.high is None:
            return False
        low, high = self.rates
        return percent.low <= high and percent.high >= low


@dataclass(frozen=True)
class Resampled:
    """Summary of resampled trials.

    :param contain: share of the intervals that contain 100 %.
    :param half_width: median half width of the intervals in points.
    :param slower: share of the trials whose interval is below 100 %.
    :param faster: share of the trials whose interval is above 100 %.
    :param percent: median percentage.
    :param clusters: median number of clusters of each side.
    """

    contain: float
    half_width: float
    slower: float
    faster: float
    percent: float
    clusters: float


def order_clusters(name: str, clusters: int) -> list[tuple[str, int]]:
    """Return side and index of all clusters of a pool, in order.

    :param name: name of the pool, which determines the order.
    :param clusters: number of clusters of each side.
    """
    sides = list(SIDES) * clusters
    seeded_random.build_generator(name).shuffle(sides)
    return [
        (side, sides[:position].count(side))
        for position, side in enumerate(sides)
    ]


def pair_neighbors(
    side_a: Sequence[ClusterRate], side_b: Sequence[ClusterRate]
) -> list[Pair]:
    """Return pairs of the clusters of both sides in order of time.

    Clusters that a side has more than the other are left out at the end.
    """
    ordered = (
        sorted(side, key=lambda cluster: cluster.hour)
        for side in (side_a, side_b)
    )
    return list(zip(*ordered, strict=False))


def fit_pairs(pairs: Sequence[Pair]) -> CorrectedRates:
    """Return the rates of a trial, each pair of which is a pass.

    :param pairs: clusters of side A, which is in the place of bare metal, and
        of side B.
    """
    clusters = [
        replace(cluster, row=row, pass_id=number)
        for number, pair in enumerate(pairs)
        for row, cluster in zip((BARE_METAL, 'b'), pair, strict=True)
    ]
    return percentages.correct_rates(clusters)[0]


def compare(pairs: Sequence[Pair]) -> Percent:
    """Return the rate of B in percent of that of A, as trials do."""
    return fit_pairs(pairs).compute_ratio('b')


def resample(
    side_a: Sequence[ClusterRate],
    size: int,
    count: int = RESAMPLED,
    seed: int = SEED,
) -> list[Percent]:
    """Return the percentages of trials of A against A.

    A trial draws clusters without repetition. In each pair of neighbors in
    time, chance decides which of them is on which side.

    :param side_a: clusters of side A.
    :param size: number of clusters of each side of a trial.
    :param count: number of trials.
    :param seed: seed of the draws.
    :raises hvstack.errors.InputError: the pool is too small.
    """
    if size < 2 or len(side_a) < 2 * size:
        raise errors.InputError(
            f'Cannot draw trials with {size} clusters a side from '
            f'{len(side_a)} clusters: each needs 2 or more, and a pool of '
            f'{2 * size}. Complete the pool, or use a smaller --runs.'
        )
    source = seeded_random.build_generator(seed)
    percents = []
    for _ in range(count):
        sample = sorted(
            source.sample(side_a, 2 * size), key=lambda cluster: cluster.hour
        )
        pairs = []
        for first, second in zip(sample[::2], sample[1::2], strict=True):
            is_reversed = source.random() < 0.5
            pairs.append((second, first) if is_reversed else (first, second))
        percents.append(compare(pairs))
    return percents


def resample_until(
    side_a: Sequence[ClusterRate],
    side_b: Sequence[ClusterRate],
    half_width: float,
    count: int = RESAMPLED,
    seed: int = SEED,
) -> list[Percent]:
    """Return the percentages of trials of A against B that stop by a goal.

    A trial draws one pair of neighbors in time after the other, without
    repetition, until the rule of a sweep with this goal ends it, or the pool.

    :param side_a: clusters of side A.
    :param side_b: clusters of side B.
    :param half_width: goal in points.
    :param count: number of trials.
    :param seed: seed of the draws.
    :raises hvstack.errors.InputError: the pool is too small.
    """
    pairs = pair_neighbors(side_a, side_b)
    if len(pairs) < stopping.MIN_PASSES:
        raise errors.InputError(
            f'Cannot draw trials from {len(pairs)} clusters of each side: a '
            f'trial has {stopping.MIN_PASSES} or more. Complete the pool.'
        )
    goal = stopping.Goal(half_width)
    source = seeded_random.build_generator(seed)
    percents = []
    for _ in range(count):
        sample = source.sample(pairs, len(pairs))
        size = stopping.MIN_PASSES
        rates = fit_pairs(sample[:size])
        while size < len(sample) and not goal.is_reached(rates):
            size += 1
            rates = fit_pairs(sample[:size])
        percents.append(rates.compute_ratio('b'))
    return percents


def summarize(percents: Sequence[Percent]) -> Resampled:
    """Return the summary of trials, which all have an interval."""
    verdicts = [stats.classify(percent) for percent in percents]
    count = len(percents)
    return Resampled(
        sum(map(stats.contains_100, percents)) / count,
        statistics.median(percent.margin or 0.0 for percent in percents),
        verdicts.count('slower') / count,
        verdicts.count('faster') / count,
        statistics.median(percent.percent for percent in percents),
        statistics.median(percent.clusters for percent in percents),
    )


def count_cpu_seconds(record: RunRecord, name: str, phase: Phase) -> float:
    """Return the CPU seconds of the hosts with workers in a phase.

    :param name: name of the phase in the telemetry.
    """
    nodes = time_counters.get_sums(record, name).get('cpu', 0.0)
    if phase.machine_cpu is None:
        return nodes
    controllers = time_counters.estimate_controller_cpu(record)
    agents = phase.machine_cpu.hosts - nodes - controllers * phase.seconds
    return nodes + max(0.0, agents) * (
        time_counters.compute_worker_share(record)
    )


def bound_effect(
    records: Sequence[RunRecord], percent: float, machine_cpus: int
) -> EffectBounds:
    """Return bounds of the effect of smaller caps from records of side A.

    While a cap binds, a host uses all of it, and its runnable tasks are
    throttled on at most all CPUs. The throttled seconds divided by the CPUs
    that the cap withholds are therefore the shortest time, and the CPU seconds
    divided by the cap the longest one. The latter also includes times in which
    only the smaller cap binds. Both are those of all hosts with workers.

    :param records: valid runs of side A, with telemetry.
    :param percent: caps of side B in percent of those of side A.
    :param machine_cpus: number of CPUs of a host whose kernel does not report
        its CPUs.
    :raises hvstack.errors.InputError: a record lacks the counters.
    """
    shares = []
    for record in records:
        cores = time_counters.count_cores(record)
        hosts = record.sut.worker_hosts
        sums = [
            time_counters.get_sums(record, name) for name in record.phase_names
        ]
        if not cores or not hosts or not any('throttled' in s for s in sums):
            raise errors.InputError(
                f'Cannot compute how long the caps bind (record {record.id}): '
                'the record has no caps or no throttled seconds. Set '
                '[telemetry] interval in hvstack.conf, and measure the pool '
                'again.'
            )
        workers = time_counters.list_workers(record)
        cpus = hosts * statistics.fmean(
            node.cpus or machine_cpus for node in workers
        )
        shortest = longest = 0.0
        for name, phase in zip(record.phase_names, record.phases, strict=True):
            throttled = time_counters.get_throttled_seconds(record, name)
            used = count_cpu_seconds(record, name, phase)
            limit = min(phase.seconds, used / cores)
            longest += limit
            if cpus > cores:
                shortest += min(limit, throttled / (cpus - cores))
        shares.append(
            (shortest / record.total_seconds, longest / record.total_seconds)
        )
    low, high = (
        statistics.fmean(values) for values in zip(*shares, strict=True)
    )
    return EffectBounds(low, high, percent)
