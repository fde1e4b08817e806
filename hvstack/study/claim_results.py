# SPDX-License-Identifier: Apache-2.0
"""Verdicts on the claims of a study.

The intervals of all claims hold together with a probability of 95 %
(Bonferroni), because a study judges all of its claims.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hvstack.model import compute_backends
from hvstack.nouns import format_noun
from hvstack.results import comparability, quantiles, stats
from hvstack.results.estimator import SweepFit
from hvstack.results.record_data import RunRecord
from hvstack.results.stats import Percent
from hvstack.study import (
    later_counts,
    os_differences,
    paper_numbers,
    run_shares,
    verdicts,
)
from hvstack.study.claims import (
    AGENTS_RATE,
    LOCAL_MAPS,
    SHARED_BLOCKS,
    SHARES,
    Claim,
)
from hvstack.study.study_rows import Quantity, VariantRow, get_quantity
from hvstack.study.study_store import StartedStudy
from hvstack.study.variants import Variant

#: Facts of a record that a setting of a variant changes.
_FACTS_BY_SETTING = {
    'size_factor': ('size_bytes',),
    'replication': ('replication',),
    'files': ('files',),
    'file_bytes': ('files',),
    'maps': ('map_tasks',),
    'output_replication': ('output_replication',),
    'tuning': ('tuning', 'hadoop_profile', 'application_masters'),
    'os_profile': ('os_profile', 'thp'),
    'disks': ('data_disks', 'host_disks', 'storage'),
    'volume_type': ('data_disks', 'host_disks', 'storage', 'disk'),
    'copies': ('storage', 'disk'),
    'osd_groups': ('storage', 'disk'),
    'host_affinity': ('host_affinity', 'storage', 'disk'),
    'node_groups': ('node_groups', 'hadoop_profile'),
    'deployment': ('deployment',),
    # Separate controllers can have a host more, which workers cannot have.
    'controllers': ('controllers', 'hosts'),
    'vnic': ('vnic', 'mtu'),
    'stateless_security_group': ('stateless_security_group',),
    'hadoop': ('job_settings',),
    'daemons': ('daemon_options',),
}


@dataclass(frozen=True)
class ClaimResult:
    """Result of a claim.

    :param claim: the claim.
    :param verdict: one of :data:`hvstack.study.verdicts.VERDICTS`.
    :param percent: rate of the variant in percent of the other one; None
        without a comparison.
    :param reason: why a comparison is not possible; empty if it is.
    :param measured: value of another measure as text; empty without any.
    :param published: number of the paper as text; empty without any.
    :param published_percent: rate of the paper in percent of the other one;
        None without any.
    """

    claim: Claim
    verdict: str
    percent: Percent | None = None
    reason: str = ''
    published: str = ''
    measured: str = ''
    published_percent: float | None = None


def list_varied_facts(first: Variant, second: Variant) -> set[str]:
    """Return the names of the facts that the settings of two variants vary."""
    first_settings, second_settings = (
        {
            'size_factor': variant.size_factor,
            'replication': variant.replication,
            'files': variant.files,
            'maps': variant.maps,
            # The number of files grows with the data.
            'file_bytes': variant.file_bytes
            and (variant.file_bytes, variant.size_factor),
            **variant.setup.to_mapping(),
        }
        for variant in (first, second)
    )
    return {
        fact
        for setting, facts in _FACTS_BY_SETTING.items()
        if first_settings.get(setting) != second_settings.get(setting)
        for fact in facts
    }


def judge_claim(
    claim: Claim,
    rows: Mapping[str, VariantRow],
    fit: SweepFit | None,
    started: StartedStudy,
) -> ClaimResult:
    """Return the verdict on a claim.

    :param rows: rows by the names of the variants.
    :param fit: effects of the variants on the rate of the phase of the claim;
        None without a valid run.
    :param started: the started study.
    """
    number, paper = claim.published, started.study.paper
    if number is None:
        return _judge(claim, rows, fit, started, '')
    published = paper_numbers.format_number(paper, number) or ''
    return replace(
        _judge(claim, rows, fit, started, published),
        published_percent=paper_numbers.compute_rate(paper, number),
    )


def _judge(
    claim: Claim,
    rows: Mapping[str, VariantRow],
    fit: SweepFit | None,
    started: StartedStudy,
    published: str,
) -> ClaimResult:
    """Return the verdict on a claim, with the number of the paper as text."""
    names = filter(None, (claim.variant, claim.against))
    pair = tuple(rows[name] for name in names)
    skipped = {
        row.variant.name: reason.removesuffix('.')
        for row in pair
        if (reason := started.skipped.get(row.variant.name, ''))
    }
    if skipped:
        reasons = [
            # A report names the only variant of a claim anyway.
            f'{name}: {reason}' if claim.against else reason
            for name, reason in skipped.items()
        ]
        return ClaimResult(
            *(claim, verdicts.NOT_TESTABLE, None, '; '.join(reasons)),
            published,
        )
    reason = find_obstacle(*pair)
    if not reason and claim.measure == SHARED_BLOCKS:
        return _judge_blocks(claim, pair[0].valid, published)
    if not reason and claim.measure in later_counts.MEASURES:
        verdict, measured = later_counts.judge(claim, pair[0].valid)
        return ClaimResult(
            claim, verdict, published=published, measured=measured
        )
    if not reason and claim.measure in SHARES:
        return _judge_share(
            *(claim, pair[0], published),
            quantiles.compute_joint_level(len(started.study.claims)),
        )
    if not reason and claim.measure == LOCAL_MAPS:
        return _judge_maps(
            *(claim, pair[0], published),
            quantiles.compute_joint_level(len(started.study.claims)),
        )
    quantity = get_quantity(claim, pair[0].variant)
    if not reason and claim.measure == AGENTS_RATE:
        reason = _explain_unmeasured(claim, pair, quantity)
    if reason or fit is None:
        return ClaimResult(
            *(claim, verdicts.UNDECIDED, None, reason or 'no valid run'),
            published,
        )
    percent = compare_variants(
        *(fit, claim.variant, claim.against, rows),
        quantity,
        len(started.study.claims),
    )
    verdict = claim.rule.judge(percent)
    is_unreported = (
        verdict == verdicts.UNDECIDED and percent.reported_bounds is None
    )
    return ClaimResult(
        *(claim, verdict, percent),
        reason=stats.TOO_FEW_RUNS if is_unreported else '',
        published=published,
    )


def _explain_unmeasured(
    claim: Claim, pair: Sequence[VariantRow], quantity: Quantity
) -> str:
    """Return which runs lack the rate of a claim; empty if none does."""
    runs = [run for row in pair for run in row.valid]
    missing = sum(quantity.compute(run) == 0 for run in runs)
    return _describe_missing(claim, missing, len(runs))


def _describe_missing(claim: Claim, missing: int, runs: int) -> str:
    """Return in how many runs a measure is missing; empty if in none."""
    if not missing:
        return ''
    return f"'{claim.measure}' was not measured in {missing} of {runs} runs"


def _judge_blocks(
    claim: Claim, runs: Sequence[RunRecord], published: str
) -> ClaimResult:
    """Return the verdict on the number of blocks with replicas on one host."""
    checks = [
        phase.data_check
        for run in runs
        for phase in run.phases
        if phase.name == 'HSDataCheck'
    ]
    count = int(sum(check.blocks_on_one_host or 0 for check in checks))
    blocks = int(sum(check.blocks or 0 for check in checks))
    return ClaimResult(
        claim,
        verdicts.judge_count(claim.rule, count),
        published=published,
        measured=f'{count} of {blocks} blocks have two replicas on one host '
        f'({format_noun(len(runs), "cluster")})',
    )


def _judge_maps(
    claim: Claim, row: VariantRow, published: str, level: float
) -> ClaimResult:
    """Return the verdict on the share of local maps.

    :param row: row of the variant, each of whose runs has its own cluster.
    :param published: number of the paper as text.
    :param level: confidence level of the interval, from 0 to 1.
    """
    counts = []
    sorter = row.variant.workload.sorter
    for run in row.valid:
        for phase in run.phases:
            locality = phase.job.locality if phase.name == sorter else {}
            if total := sum(locality.values()):
                local = locality.get('node', 0) + locality.get('node_group', 0)
                counts.append((local, total))
    if len(counts) < 2:
        return ClaimResult(
            *(claim, verdicts.UNDECIDED, None),
            stats.TOO_FEW_RUNS,
            published,
        )
    mean, low, high = _compute_share(counts, level)
    return ClaimResult(
        claim,
        claim.rule.judge_interval(low, high),
        published=published,
        measured=f"{mean:.1f} % of {sorter}'s maps are local ({low:.1f} to "
        f'{high:.1f}, {format_noun(len(counts), "cluster")})',
    )


def _judge_share(
    claim: Claim, row: VariantRow, published: str, level: float
) -> ClaimResult:
    """Return the verdict on a share that each run has.

    :param row: row of the variant, each of whose runs has its own cluster.
    :param published: number of the paper as text.
    :param level: confidence level of the interval, from 0 to 1.
    """
    all_shares = [
        run_shares.compute_share(claim, row.variant.workload, run)
        for run in row.valid
    ]
    shares = [share for share in all_shares if share is not None]
    missing = len(row.valid) - len(shares)
    reason = _describe_missing(claim, missing, len(row.valid))
    reason = reason or run_shares.explain_unreliable(claim, row.valid)
    if not reason and len(shares) < 2:
        reason = stats.TOO_FEW_RUNS
    if reason:
        return ClaimResult(
            *(claim, verdicts.UNDECIDED, None, reason), published
        )
    mean = math.fsum(shares) / len(shares)
    error = statistics.stdev(shares) / math.sqrt(len(shares))
    half = error * quantiles.compute_t_quantile(len(shares) - 1, level)
    low, high = max(0.0, mean - half), mean + half
    return ClaimResult(
        claim,
        claim.rule.judge_interval(low, high),
        published=published,
        measured=f'{run_shares.describe(claim)} {mean:.1f} % of '
        f'{run_shares.describe_total(claim)} ({low:.1f} to {high:.1f}, '
        f'{format_noun(len(shares), "cluster")})',
    )


def _compute_share(
    counts: Sequence[tuple[int, int]], level: float
) -> tuple[float, float, float]:
    """Return a mean share over clusters in percent, and its interval.

    The interval covers that of Student's t, with the cluster as the unit, and
    that of the map tasks: clusters that all have the same share would have an
    interval without a width, however few tasks they had.

    :param counts: local and all map tasks of each cluster, two or more.
    :param level: confidence level of the interval, from 0 to 1.
    """
    shares = [100 * part / total for part, total in counts]
    mean = math.fsum(shares) / len(shares)
    error = statistics.stdev(shares) / math.sqrt(len(shares))
    half = error * quantiles.compute_t_quantile(len(shares) - 1, level)
    low, high = quantiles.compute_share_interval(
        sum(part for part, _ in counts),
        sum(total for _, total in counts),
        level,
    )
    return (
        mean,
        max(0.0, min(mean - half, 100 * low)),
        min(100.0, max(mean + half, 100 * high)),
    )


def find_obstacle(*pair: VariantRow) -> str:
    """Return why variants cannot be compared; empty if they can."""
    for row in pair:
        if row.reason:
            return f'{row.variant.name}: {row.reason}'
        if not row.valid:
            return f'{row.variant.name}: no valid run yet'
    if len(pair) == 1:
        return ''
    first, second = pair
    runs = first.valid[0], second.valid[0]
    emulated = [
        run.sut.backend
        for run in runs
        if compute_backends.is_emulated(run.sut.backend)
    ]
    if emulated:
        return f'backend {emulated[0]}: emulated CPUs are not compared'
    swept_facts = set().union(*map(comparability.list_swept_facts, runs))
    if swept_facts:
        swept_facts |= {'disk', 'host_disks'}
    varied_facts = list_varied_facts(first.variant, second.variant)
    lines = comparability.list_record_differences(
        *runs, swept_facts | varied_facts
    )
    if 'hosts' in varied_facts:
        lines += _list_worker_differences(*runs)
    if lines:
        return f'Not comparable: {"; ".join(lines)}'
    return os_differences.explain_equal(*runs)


def _list_worker_differences(first: RunRecord, second: RunRecord) -> list[str]:
    """Return a line if fewer hosts had workers in one of two runs.

    The hosts of workers count only where controllers have others. Elsewhere,
    the number of all hosts agrees, and a controller may fill one of them.
    """
    runs = first, second
    has_own = any(
        len({profile.name for profile in profiles.values()}) > 1
        for run in runs
        if (profiles := run.observations.cloud.host_profile)
    )
    hosts, worker_hosts = (
        [run.sut.facts.get(name) for run in runs]
        for name in ('hosts', 'worker_hosts')
    )
    if None in worker_hosts or (hosts[0] == hosts[1] and not has_own):
        return []
    return comparability.list_differences(
        *({'worker_hosts': count} for count in worker_hosts)
    )


def compare_variants(
    fit: SweepFit,
    name: str,
    other: str,
    rows: Mapping[str, VariantRow],
    quantity: Quantity,
    comparisons: int,
) -> Percent:
    """Return the rate of a variant in percent of another one.

    :param fit: effects of the variants.
    :param name: name of the variant.
    :param other: name of the other variant.
    :param rows: rows by the names of the variants.
    :param quantity: rate of which these are the effects.
    :param comparisons: number of comparisons whose intervals hold together.
    """
    difference = fit.compare(name, other)
    half = row_half = None
    if difference.error is not None:
        row_half = difference.error * quantiles.compute_t_quantile(
            difference.degrees
        )
        half = difference.error * quantiles.compute_t_quantile(
            difference.degrees, quantiles.compute_joint_level(comparisons)
        )
    return stats.build_percent(
        difference.log_ratio,
        half,
        difference.degrees,
        [quantity.compute(run) for run in rows[name].valid],
        [quantity.compute(run) for run in rows[other].valid],
        row_half,
    )
