# SPDX-License-Identifier: Apache-2.0
"""Definitions of studies: what they vary, and how their claims are judged.

A study is a YAML file. It is complete before the first run: the variants, the
number of passes, and the rule of each claim. The package contains the studies
of the papers, and a user can write others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from hvstack import errors, share, textfile, yamlfile
from hvstack.cluster.plan import CONTROLLERS
from hvstack.hadoop import job_settings, os_profiles, tuning_profiles
from hvstack.model.strict_mapping import Fields, SourceLocation
from hvstack.model.target import BareMetal, Target, parse_target
from hvstack.results import run_id
from hvstack.results.benchmark import RECORD_BYTES
from hvstack.study import paper_numbers, verdicts
from hvstack.study.paper_numbers import PaperNumber, PublishedTableReference
from hvstack.study.verdicts import Rule
from hvstack.sweep.node_setup import NodeSetup
from hvstack.tpcxhs.workload import parse_size

#: Phases that a claim can name.
PHASES = ('HSGen', 'HSSort', 'HSValidate')
#: Measures of claims: rate in percent of another variant; number of blocks
#: with two replicas on a host; number of blocks without a replica after the
#: loss of hosts; share of HSSort's maps whose data is on their node or host.
RATE, SHARED_BLOCKS, MISSING_BLOCKS, LOCAL_MAPS = (
    'rate',
    'blocks on one host',
    'missing blocks',
    'local maps',
)
MEASURES = (RATE, SHARED_BLOCKS, MISSING_BLOCKS, LOCAL_MAPS)
#: Start of the name of a property of Hadoop.
PROPERTY_PREFIX = 'hadoop.'
#: Fields of a study.
_STUDY_FIELDS = (
    *('question', 'paper', 'covers', 'passes', 'size', 'table', 'note'),
    *('base', 'varied', 'variants', 'claims'),
)
_CLAIM_FIELDS = (
    *('text', 'variant', 'against', 'phase', 'measure', 'rule'),
    'published',
)
#: Maximum number of passes.
MAX_PASSES = 1000
_MAX_VARIANTS = 100
_DEFAULT_PASSES = 4
#: Settings that are whole numbers, with their maximum.
_COUNTS = {'replication': 64, 'maps': 10**6, 'reduces': 10**6}
_SETUP_COUNTS = {
    'disks': 64,
    'copies': 64,
    'osd_groups': 64,
    'output_replication': 64,
    'deployment': 4,
    'lost_hosts': 64,
    'loss_rounds': 1000,
}
_VARIANT_FIELDS = (
    *('configuration', 'size_factor', 'tuning', 'os_profile', 'volume_type'),
    *('node_groups', 'controllers', *_COUNTS, *_SETUP_COUNTS),
)
_DEFAULT_SIZE = '100MB'


@dataclass(frozen=True)
class Variant:
    """Variant of a study: a target and the settings of its clusters and jobs.

    :param name: name that is unique in the study.
    :param target: configuration or bare metal.
    :param size_factor: factor of the size of the data.
    :param replication: number of replicas; None for the default.
    :param maps: number of map tasks; None for the default.
    :param reduces: number of reduce tasks; None for the default.
    :param row: row of the published table that measured the same.
    :param setup: settings of the nodes and jobs.
    """

    name: str
    target: Target
    size_factor: float = 1.0
    replication: int | None = None
    maps: int | None = None
    reduces: int | None = None
    row: str = ''
    setup: NodeSetup = field(default_factory=NodeSetup)

    def describe(self) -> str:
        """Return the target and the settings as human-readable text."""
        settings = {
            'size_factor': self.size_factor if self.size_factor != 1 else None,
            'replication': self.replication,
            'maps': self.maps,
            'reduces': self.reduces,
            **self.setup.to_mapping(),
        }
        settings |= settings.pop('hadoop', {})
        parts = [self.target.label] + [
            f'{name} {_format_value(value)}'
            for name, value in settings.items()
            if value is not None
        ]
        return ', '.join(parts)


@dataclass(frozen=True)
class Claim:
    """Claim about a measure of a variant.

    :param text: claim as a sentence.
    :param variant: name of the variant.
    :param against: name of the variant whose rate is 100 %; empty for the
        other measures.
    :param phase: one of :data:`PHASES`; empty for the whole run.
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


@dataclass(frozen=True)
class Study:
    """Definition of a study.

    :param name: name of the study.
    :param question: question that the study answers.
    :param passes: number of passes, each with a run of every variant.
    :param size_bytes: size of the data in bytes before the factor of a
        variant.
    :param paper: short name of the paper; empty for a study of a user.
    :param covers: tables, figures and sections of the paper.
    :param note: limits of the study, as human-readable text.
    :param content: content of the file.
    """

    name: str
    question: str
    variants: tuple[Variant, ...]
    claims: tuple[Claim, ...]
    passes: int
    size_bytes: int
    paper: str = ''
    covers: tuple[str, ...] = ()
    note: str = ''
    table: PublishedTableReference | None = None
    content: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def get_size(self, variant: Variant) -> int:
        """Return the size of the data of a variant in bytes.

        It is a multiple of the size of a record of TeraGen.
        """
        records = round(self.size_bytes * variant.size_factor / RECORD_BYTES)
        return max(1, records) * RECORD_BYTES


def list_studies() -> list[Study]:
    """Return the studies of the package, sorted by name."""
    return [load(str(path)) for path in sorted(share.STUDIES.glob('*.yaml'))]


@dataclass(frozen=True)
class UncoveredSource:
    """Table or figure of a paper that no study covers.

    :param paper: short name of the paper.
    :param source: name of the table or figure.
    :param reason: why no study covers it.
    """

    paper: str
    source: str
    reason: str


def list_uncovered() -> list[UncoveredSource]:
    """Return the tables and figures of the papers that no study covers."""
    with resources.as_file(
        resources.files('hvstack.study') / 'coverage.yaml'
    ) as path:
        document = yamlfile.load(Path(path), packaged=True)
    return [UncoveredSource(**item) for item in document.data]


def load(name: str) -> Study:
    """Return the study of a name or of a file.

    :param name: name of a study of the package, or path of a YAML file.
    :raises hvstack.errors.InputError: the study does not exist or is not
        valid.
    """
    is_path = '/' in name or name.endswith(('.yaml', '.yml'))
    path = Path(name) if is_path else share.STUDIES / f'{name}.yaml'
    if not is_path and not textfile.is_regular(path):
        names = ', '.join(
            sorted(item.stem for item in share.STUDIES.glob('*.yaml'))
        )
        raise errors.InputError(
            f"Cannot find the study '{textfile.printable(name[:60])}': the "
            f'package does not contain it. Use one of {names}, or the path of '
            'a YAML file.'
        )
    if not run_id.is_sweep(path.stem):
        raise errors.InputError(
            f'Cannot use the study {path}: the name of its sweeps would begin '
            'with the name of the file. Rename the file: use letters, digits, '
            'dots and dashes.'
        )
    document = yamlfile.load(path, packaged=path.parent == share.STUDIES)
    return parse_study(path.stem, document.data, document.source_location())


def parse_study(name: str, data: Any, source: str | SourceLocation) -> Study:
    """Return the study of a mapping.

    :param name: name of the study.
    :param data: content of the file.
    :param source: name of the file, or a function from a dotted field name to
        the file and line.
    :raises hvstack.errors.InputError: a field is missing, unknown or not
        valid.
    """
    top = Fields(data, source, _STUDY_FIELDS)
    question = top.text('question')
    variants = _parse_variants(top)
    table = _parse_table(top)
    study = Study(
        name=name,
        question=question,
        variants=variants,
        claims=_parse_claims(top, variants),
        passes=top.integer('passes', 1, MAX_PASSES, _DEFAULT_PASSES),
        size_bytes=_parse_size(top),
        paper=_parse_text(top, 'paper'),
        covers=_list_texts(top, 'covers'),
        note=_parse_text(top, 'note'),
        table=table,
        content=data,
    )
    if (table or study.covers) and not study.paper:
        raise top.error(
            'paper', "is missing, and 'table' or 'covers' needs it. Add it"
        )
    _check_numbers(top, study)
    _check_losses(top, study)
    return study


def _check_losses(top: Fields, study: Study) -> None:
    """Check that hosts are lost where a claim needs it, and not elsewhere.

    :raises hvstack.errors.InputError: a variant or a claim is not valid.
    """
    losing = {
        variant.name for variant in study.variants if variant.setup.lost_hosts
    }
    for variant in study.variants:
        setup = variant.setup
        if setup.loss_rounds and not setup.lost_hosts:
            raise top.error(
                f'variants.{variant.name}.loss_rounds',
                "needs 'lost_hosts'. Add the number of hosts",
            )
        if setup.lost_hosts and isinstance(variant.target, BareMetal):
            raise top.error(
                f'variants.{variant.name}.lost_hosts',
                'does not apply to bare metal. Use a configuration',
            )
    for index, claim in enumerate(study.claims):
        if claim.measure == MISSING_BLOCKS and claim.variant not in losing:
            raise top.error(
                f'claims.{index}.measure',
                f"is '{MISSING_BLOCKS}', and the variant loses no hosts. Add "
                "'lost_hosts' to the variant",
            )


def _check_numbers(top: Fields, study: Study) -> None:
    """Check that the numbers that a study refers to exist.

    :raises hvstack.errors.InputError: a number, a table or a row does not
        exist.
    """
    remedy = (
        "is not in the numbers of the paper. Use a name of hvstack's "
        'reference of published results'
    )
    for index, claim in enumerate(study.claims):
        number = claim.published
        if number and paper_numbers.format_number(study.paper, number) is None:
            raise top.error(f'claims.{index}.published', remedy)
    if study.table is None:
        return
    table = paper_numbers.find_table(study.paper, study.table)
    if table is None:
        raise top.error('table', remedy)
    for variant in study.variants:
        cells = table.rows.get(variant.row)
        if variant.row and (cells is None or None in cells):
            raise top.error(f'variants.{variant.name}.row', remedy)


def _parse_size(top: Fields) -> int:
    text = top.text('size') if 'size' in top else _DEFAULT_SIZE
    try:
        return parse_size(text)
    except errors.InputError as exc:
        raise top.error('size', f'is not valid: {exc}') from None


def _list_texts(top: Fields, name: str) -> tuple[str, ...]:
    if name not in top:
        return ()
    items = top.raw(name)
    if not isinstance(items, list) or not all(
        isinstance(item, str) for item in items
    ):
        raise top.error(name, 'is not a list of texts. Use [text, text]')
    return tuple(items)


def _parse_table(top: Fields) -> PublishedTableReference | None:
    if 'table' not in top:
        return None
    names = ('source', 'columns', 'description', 'phase')
    table = Fields(top.raw('table'), top.source, names, 'table')
    columns = _list_texts(table, 'columns')
    if not columns:
        raise table.error('columns', 'is missing. Name the columns')
    return PublishedTableReference(
        table.text('source'),
        columns,
        _parse_text(table, 'description'),
        _parse_name(table, 'phase', PHASES) or '',
    )


def _parse_variants(top: Fields) -> tuple[Variant, ...]:
    """Return the variants of ``variants``, or the values of ``varied``.

    :raises hvstack.errors.InputError: both or none exist, or one is not
        valid.
    """
    if ('varied' in top) == ('variants' in top):
        raise top.error(
            'variants',
            "or 'varied' must exist, and not both. Use 'varied' for the "
            "values of one setting, and 'variants' for several settings",
        )
    base = _get_mapping(top, 'base') if 'base' in top else {}
    if 'base' in top:
        _parse_variant(top, 'base', 'base', {}, base)
    if 'varied' in top:
        return _parse_varied(top, base)
    mapping = _get_mapping(top, 'variants')
    _check_count(top, 'variants', len(mapping))
    return tuple(
        _parse_variant(
            top,
            f'variants.{name}',
            str(name),
            base,
            {} if settings is None else settings,
        )
        for name, settings in mapping.items()
    )


def _parse_varied(top: Fields, base: Mapping[str, Any]) -> tuple[Variant, ...]:
    mapping = _get_mapping(top, 'varied')
    if len(mapping) != 1:
        raise top.error(
            'varied',
            f"has {len(mapping)} settings. Use one, or 'variants' for "
            'combinations',
        )
    ((setting, values),) = mapping.items()
    name = f'varied.{setting}'
    if not isinstance(values, list):
        raise top.error(name, 'is not a list of values. Use [1, 2]')
    _check_count(top, name, len(values))
    texts = [_format_value(value) for value in values]
    if len(set(texts)) != len(texts):
        raise top.error(name, 'has a duplicate value. Delete it')
    return tuple(
        _parse_variant(top, name, text, base, {setting: value})
        for text, value in zip(texts, values, strict=True)
    )


def _check_count(top: Fields, name: str, count: int) -> None:
    if not 2 <= count <= _MAX_VARIANTS:
        raise top.error(
            name, f'has {count} variants. Use 2 to {_MAX_VARIANTS}'
        )


def _get_mapping(top: Fields, name: str) -> Mapping[str, Any]:
    value = top.raw(name)
    if not isinstance(value, Mapping) or not value:
        raise top.error(name, 'is not a mapping. Use setting: value')
    return value


def _format_value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parse_variant(
    top: Fields,
    location: str,
    name: str,
    base: Mapping[str, Any],
    settings: Any,
) -> Variant:
    """Return a variant from its settings and those of all variants.

    :param location: dotted name of the settings in the file.
    :param name: name of the variant.
    :param base: settings of all variants.
    :param settings: settings of this variant.
    """
    if not isinstance(settings, Mapping):
        raise top.error(location, 'is not a mapping. Use setting: value')
    merged = {**base, **settings}
    properties = {
        key.removeprefix(PROPERTY_PREFIX): value
        for key, value in merged.items()
        if isinstance(key, str) and key.startswith(PROPERTY_PREFIX)
    }
    others = {
        key: value
        for key, value in merged.items()
        if not str(key).startswith(PROPERTY_PREFIX)
    }
    if not location.startswith('variants.'):
        allowed: Sequence[str] = _VARIANT_FIELDS
    else:
        allowed = (*_VARIANT_FIELDS, 'row')
    values = Fields(others, top.source, allowed, location)
    target_name = _parse_text(values, 'configuration') or 'i1'
    try:
        target = parse_target(target_name)
        hadoop = tuple(sorted(job_settings.check(properties).items()))
    except errors.InputError as exc:
        raise top.error(location, f'is not valid: {exc}') from None
    return Variant(
        name=name,
        target=target,
        size_factor=values.number('size_factor', 0.001, 10**6)
        if 'size_factor' in values
        else 1.0,
        row=_parse_text(values, 'row'),
        setup=NodeSetup(
            tuning=_parse_name(values, 'tuning', tuning_profiles.list_names()),
            os_profile=_parse_name(
                values, 'os_profile', os_profiles.list_names()
            ),
            volume_type=_parse_text(values, 'volume_type') or None,
            node_groups=values.flag('node_groups', True)
            if 'node_groups' in values
            else None,
            controllers=_parse_name(values, 'controllers', CONTROLLERS),
            hadoop=hadoop,
            **_parse_counts(values, _SETUP_COUNTS),
        ),
        **_parse_counts(values, _COUNTS),
    )


def _parse_counts(
    values: Fields, maximums: Mapping[str, int]
) -> dict[str, int]:
    """Return the settings that are whole numbers and exist.

    :param values: settings of a variant.
    :param maximums: maximum of each setting.
    """
    return {
        name: values.integer(name, 1, maximum)
        for name, maximum in maximums.items()
        if name in values
    }


def _parse_text(values: Fields, name: str) -> str:
    """Return an optional text; empty without the field."""
    return values.text(name) if name in values else ''


def _parse_name(values: Fields, name: str, names: Sequence[str]) -> str | None:
    return values.choice(name, names) if name in values else None


def _parse_claims(
    top: Fields, variants: Sequence[Variant]
) -> tuple[Claim, ...]:
    items = top.raw('claims')
    if not isinstance(items, list) or not items:
        raise top.error('claims', 'is not a list of claims. Add a claim')
    names = [variant.name for variant in variants]
    return tuple(
        _parse_claim(Fields(item, top.source, _CLAIM_FIELDS, name), names)
        for name, item in (
            (f'claims.{index}', item) for index, item in enumerate(items)
        )
    )


def _parse_claim(values: Fields, names: Sequence[str]) -> Claim:
    published = None
    if 'published' in values:
        reference = Fields(
            values.raw('published'),
            values.source,
            ('source', 'description'),
            values.name('published'),
        )
        published = PaperNumber(
            reference.text('source'), reference.text('description')
        )
    measure = values.choice('measure', MEASURES, RATE)
    variant = _parse_variant_name(values, 'variant', names)
    if measure != RATE:
        for name in ('against', 'phase'):
            if name in values:
                raise values.error(
                    name, f"does not apply to '{measure}'. Delete it"
                )
        parse_rule = (
            verdicts.parse_count_rule
            if measure in (SHARED_BLOCKS, MISSING_BLOCKS)
            else verdicts.parse_share_rule
        )
        return Claim(
            text=values.text('text'),
            variant=variant,
            against='',
            rule=parse_rule(values, 'rule'),
            measure=measure,
            published=published,
        )
    against = _parse_variant_name(values, 'against', names)
    if variant == against:
        raise values.error(
            'against', 'is the same variant. Name another variant'
        )
    return Claim(
        text=values.text('text'),
        variant=variant,
        against=against,
        phase=_parse_name(values, 'phase', PHASES) or '',
        rule=verdicts.parse_rule(values, 'rule'),
        published=published,
    )


def _parse_variant_name(values: Fields, key: str, names: Sequence[str]) -> str:
    name = _format_value(values.raw(key))
    if name not in names:
        raise values.error(
            key,
            f"is '{textfile.printable(name[:60])}'. Use one of "
            f'{", ".join(names)}',
        )
    return name
