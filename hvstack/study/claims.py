# SPDX-License-Identifier: Apache-2.0
"""Claims of studies: what they are about, and when they hold."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from hvstack import textfile
from hvstack.model.strict_mapping import Fields
from hvstack.results.workload_types import TPCX_HS, TYPES, WorkloadType
from hvstack.study import verdicts
from hvstack.study.paper_numbers import CHANGES, PaperNumber
from hvstack.study.variants import Variant, format_value
from hvstack.study.verdicts import Rule

#: Measures of claims: rate in percent of another variant; number of blocks
#: with two replicas on a host; number of blocks without a replica after the
#: loss of hosts, or changes of the compute workers; tasks on compute workers
#: that were added while sorts ran; tasks of a second compute cluster on the
#: same HDFS; share of a sort's maps whose data is on their node or host.
RATE, SHARED_BLOCKS, MISSING_BLOCKS, ADDED_TASKS, SECOND_TASKS, LOCAL_MAPS = (
    'rate',
    'blocks on one host',
    'missing blocks',
    'tasks on added workers',
    'tasks of a second cluster',
    'local maps',
)
_COUNTS = (SHARED_BLOCKS, MISSING_BLOCKS, ADDED_TASKS, SECOND_TASKS)
#: Values that programs report, each in percent of another variant.
_REPORTED = tuple(
    value.measure for item in TYPES.values() for value in item.reported
)
#: Data of a run by the CPU time of the agents and switches of the compute
#: hosts, in percent of another variant.
AGENTS_RATE = 'data per CPU second of agents'
#: Bytes of a phase in percent of the data; records that the maps of a sort
#: spill, in percent of those that they emit; tasks of a sort that run in the
#: JVM of its ApplicationMaster, in percent.
RECEIVED_BYTES, WRITTEN_BYTES, SPILLED_RECORDS, TASKS_IN_ONE_JVM = (
    'received bytes',
    'written bytes',
    'spilled records',
    'tasks in one JVM',
)
BYTE_MEASURES = (RECEIVED_BYTES, WRITTEN_BYTES)
_JOB_SHARES = (SPILLED_RECORDS, TASKS_IN_ONE_JVM)
SHARES = (*BYTE_MEASURES, *_JOB_SHARES)
_RATES = (RATE, AGENTS_RATE, *_REPORTED)
MEASURES = (*_RATES, *_COUNTS, LOCAL_MAPS, *SHARES)
#: Parts of the sort, which telemetry separates.
_SORT_PARTS = ('map-shuffle', 'reduce-merge')
_CLAIM_FIELDS = (
    *('text', 'variant', 'against', 'phase', 'measure', 'rule'),
    'published',
)


@dataclass(frozen=True)
class Claim:
    """Claim about a measure of a variant.

    :param text: claim as a sentence.
    :param variant: name of the variant.
    :param against: name of the variant whose rate is 100 %; empty for
        measures of a single variant.
    :param phase: phase whose rate is compared, or whose bytes are counted;
        empty for the whole run.
    :param measure: one of :data:`MEASURES`.
    :param rule: condition under which the claim holds.
    :param published: number of the paper; None without any.
    """

    text: str
    variant: str
    against: str
    rule: Rule
    phase: str = ''
    measure: str = RATE
    published: PaperNumber | None = None

    @property
    def condition(self) -> str:
        """Condition under which the claim holds, as a sentence."""
        name, limit = f"'{self.variant}'", self.rule.describe()
        if self.measure in _COUNTS:
            runs = 'no run' if self.rule.name == 'none' else 'a run'
            return f'Holds if {runs} of {name} has {self.measure}.'
        if self.measure == LOCAL_MAPS:
            return f'Holds if {limit} of the maps of {name} are local.'
        if self.measure in SHARES:
            return {
                RECEIVED_BYTES: f'Holds if the workers of {name} receive '
                f'{limit} of the data in {self.phase}.',
                WRITTEN_BYTES: f'Holds if the workers of {name} write {limit} '
                f'of the data in {self.phase}.',
                SPILLED_RECORDS: f'Holds if the maps of {name} spill {limit} '
                'of their output records.',
                TASKS_IN_ONE_JVM: f'Holds if {limit} of the tasks of {name} '
                'run in the JVM of their ApplicationMaster.',
            }[self.measure]
        part = f'{self.phase} rate' if self.phase else 'rate'
        if self.measure != RATE:
            part = self.measure
        return (
            f"Holds if {name} has {limit} of the {part} of '{self.against}'."
        )


def parse_claims(
    top: Fields, variants: Sequence[Variant]
) -> tuple[Claim, ...]:
    """Return the claims of a study.

    :param top: fields of the study.
    :param variants: variants of the study.
    :raises hvstack.errors.InputError: a claim is not valid.
    """
    items = top.raw('claims')
    if not isinstance(items, list) or not items:
        raise top.error('claims', 'is not a list of claims. Add a claim')
    by_name = {variant.name: variant for variant in variants}
    return tuple(
        _parse_claim(Fields(item, top.source, _CLAIM_FIELDS, name), by_name)
        for name, item in (
            (f'claims.{index}', item) for index, item in enumerate(items)
        )
    )


def _parse_claim(values: Fields, variants: Mapping[str, Variant]) -> Claim:
    """Return a claim.

    :param variants: variants by name.
    """
    published = None
    if 'published' in values:
        reference = Fields(
            values.raw('published'),
            values.source,
            ('source', 'description', 'change'),
            values.name('published'),
        )
        published = PaperNumber(
            reference.text('source'),
            reference.text('description'),
            reference.optional_choice('change', CHANGES) or '',
        )
    measure = values.choice('measure', MEASURES, RATE)
    variant = _parse_variant_name(values, 'variant', variants)
    workload = variants[variant].workload
    _check_measure(values, measure, workload)
    if measure not in _RATES:
        return _parse_single_claim(
            values, measure, variant, workload, published
        )
    if measure != RATE and 'phase' in values:
        raise values.error(
            'phase', f"does not apply to '{measure}'. Delete it"
        )
    against = _parse_variant_name(values, 'against', variants)
    other = variants[against].workload
    if other is not workload:
        raise values.error(
            'against',
            f"is a variant with the workload '{other.name}', and '{variant}' "
            f"has '{workload.name}'. Name a variant with the same workload",
        )
    if variant == against:
        raise values.error(
            'against', 'is the same variant. Name another variant'
        )
    return Claim(
        text=values.text('text'),
        variant=variant,
        against=against,
        phase=values.optional_choice('phase', workload.jobs) or '',
        rule=verdicts.parse_rule(values, 'rule'),
        measure=measure,
        published=published,
    )


def _parse_single_claim(
    values: Fields,
    measure: str,
    variant: str,
    workload: WorkloadType,
    published: PaperNumber | None,
) -> Claim:
    """Return a claim about a measure of a single variant.

    :param workload: workload of the variant.
    """
    other_names = (
        ('against',) if measure in BYTE_MEASURES else ('against', 'phase')
    )
    for name in other_names:
        if name in values:
            raise values.error(
                name, f"does not apply to '{measure}'. Delete it"
            )
    phase = ''
    if measure in BYTE_MEASURES:
        parts = _SORT_PARTS if workload.sorter else ()
        phase = values.choice('phase', (*workload.jobs, *parts))
    if measure in _COUNTS:
        rule = verdicts.parse_count_rule(values, 'rule')
    elif measure in SHARES:
        rule = verdicts.parse_amount_rule(values, 'rule')
    else:
        rule = verdicts.parse_share_rule(values, 'rule')
    return Claim(
        text=values.text('text'),
        variant=variant,
        against='',
        rule=rule,
        phase=phase,
        measure=measure,
        published=published,
    )


def _check_measure(
    values: Fields, measure: str, workload: WorkloadType
) -> None:
    """Check that the workload of a variant has a measure.

    :raises hvstack.errors.InputError: the workload does not have it.
    """
    reported = [value.measure for value in workload.reported]
    measures = [MISSING_BLOCKS, *reported]
    if workload.is_on_nodes:
        measures = reported
    elif workload.has_data:
        measures = [RATE, AGENTS_RATE, *BYTE_MEASURES, *measures]
    if workload.sorter:
        measures += [LOCAL_MAPS, ADDED_TASKS, SECOND_TASKS, *_JOB_SHARES]
    if workload is TPCX_HS:
        measures.append(SHARED_BLOCKS)
    if measure not in measures:
        raise values.error(
            'measure',
            f"is '{measure}', which the workload '{workload.name}' does not "
            f'have. Use one of {", ".join(measures)}',
        )


def _parse_variant_name(
    values: Fields, key: str, names: Collection[str]
) -> str:
    name = format_value(values.raw(key))
    if name not in names:
        raise values.error(
            key,
            f"is '{textfile.printable(name[:60])}'. Use one of "
            f'{", ".join(names)}',
        )
    return name
