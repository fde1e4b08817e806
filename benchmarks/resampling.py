# SPDX-License-Identifier: Apache-2.0
"""Trials with clusters drawn from a pool, for pool.py: no input and output.

The intervals are those of the project's own estimator. The unit is the
cluster: a trial draws whole clusters, never runs.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hvstack import errors, seeded_random
from hvstack.model.target import BARE_METAL
from hvstack.results import percentages, stats, time_counters
from hvstack.results.estimator import ClusterRate
from hvstack.results.observations import Phase
from hvstack.results.record_data import RunRecord
from hvstack.results.stats import Percent

SIDES = ('a', 'b')
RESAMPLED, SEED = 1000, 1


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


@dataclass(frozen=True)
class Resampled:
    """Summary of resampled trials.

    :param contain: share of the intervals that contain 100 %.
    :param half_width: median half width of the intervals in points.
    :param slower: share of the trials whose interval is below 100 %.
    :param faster: share of the trials whose interval is above 100 %.
    :param percent: median percentage.
    """

    contain: float
    half_width: float
    slower: float
    faster: float
    percent: float


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


def compare(
    side_a: Sequence[ClusterRate], side_b: Sequence[ClusterRate]
) -> Percent:
    """Return the rate of B in percent of that of A, as trials do.

    The first clusters of both sides are a pass, and so on: neighbours in time
    have the same drift.

    :param side_a: clusters of side A, which is in the place of bare metal.
    :param side_b: as many clusters of side B.
    """
    clusters = [
        replace(cluster, row=row, pass_id=number)
        for row, side in ((BARE_METAL, side_a), ('b', side_b))
        for number, cluster in enumerate(
            sorted(side, key=lambda cluster: cluster.hour)
        )
    ]
    return percentages.correct_rates(clusters)[0].compute_ratio('b')


def resample(
    side_a: Sequence[ClusterRate],
    side_b: Sequence[ClusterRate] | None,
    size: int,
    count: int = RESAMPLED,
    seed: int = SEED,
) -> list[Percent]:
    """Return the percentages of trials with clusters drawn from a pool.

    :param side_a: clusters of side A.
    :param side_b: clusters of side B; None compares A with A.
    :param size: number of clusters of each side of a trial.
    :param count: number of trials.
    :param seed: seed of the draws.
    :raises hvstack.errors.InputError: the pool is too small.
    """
    needed = 2 * size if side_b is None else size
    sides = (side_a, side_a if side_b is None else side_b)
    if size < 2 or any(len(side) < needed for side in sides):
        raise errors.InputError(
            f'Cannot draw trials with {size} clusters a side: each needs 2 '
            f'or more, and sides of {needed} clusters. Complete the pool, or '
            'use a smaller --runs.'
        )
    source = seeded_random.build_generator(seed)
    percents = []
    for _ in range(count):
        drawn_a = source.sample(side_a, needed)
        drawn_b = (
            drawn_a[size:] if side_b is None else source.sample(side_b, size)
        )
        percents.append(compare(drawn_a[:size], drawn_b))
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
