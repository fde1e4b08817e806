# SPDX-License-Identifier: Apache-2.0
"""Definitions of studies: what they vary, and how their claims are judged.

A study is a YAML file. It is complete before the first run: the variants, the
number of passes, and the rule of each claim. The package contains the studies
of the papers, and a user can write others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from hvstack import errors, share, textfile, yamlfile
from hvstack.model.plain_data import Json
from hvstack.model.strict_mapping import Fields, SourceLocation
from hvstack.model.target import BareMetal
from hvstack.results import run_id
from hvstack.results.benchmark import RECORD_BYTES
from hvstack.results.workload_types import TYPES, WorkloadType
from hvstack.study import paper_numbers
from hvstack.study.claims import (
    ADDED_TASKS,
    MISSING_BLOCKS,
    SECOND_TASKS,
    Claim,
    parse_claims,
)
from hvstack.study.paper_numbers import (
    PaperNumber,
    PublishedTableReference,
)
from hvstack.study.variants import Variant, parse_variants
from hvstack.tpcxhs.workload import parse_size

#: Phases that a claim or a table can name.
_PHASES = tuple(
    dict.fromkeys(name for item in TYPES.values() for name in item.jobs)
)
#: Fields of a study.
_STUDY_FIELDS = (
    *('question', 'paper', 'covers', 'passes', 'size', 'table', 'note'),
    *('base', 'varied', 'variants', 'claims'),
)
#: Maximum number of passes.
MAX_PASSES = 1000
_DEFAULT_PASSES = 4
_DEFAULT_SIZE = '100MB'


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
    content: Mapping[str, Json] = field(default_factory=dict, compare=False)

    @property
    def workloads(self) -> list[WorkloadType]:
        """Workloads of the variants, in their order."""
        names = dict.fromkeys(item.workload.name for item in self.variants)
        return [TYPES[name] for name in names]

    def get_size(self, variant: Variant) -> int:
        """Return the size of the data of a variant in bytes.

        It is a multiple of the size of a record of TeraGen, and a single one
        for workloads without data.
        """
        if not variant.workload.has_data:
            return RECORD_BYTES
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


def parse_study(name: str, data: Json, source: str | SourceLocation) -> Study:
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
    variants = parse_variants(top)
    table = _parse_table(top)
    study = Study(
        name=name,
        question=question,
        variants=variants,
        claims=parse_claims(top, variants),
        passes=top.integer('passes', 1, MAX_PASSES, _DEFAULT_PASSES),
        size_bytes=_parse_size(top),
        paper=top.optional_text('paper'),
        covers=_list_texts(top, 'covers'),
        note=top.optional_text('note'),
        table=table,
        content={key: top.raw(key) for key in top},
    )
    if (table or study.covers) and not study.paper:
        raise top.error(
            'paper', "is missing, and 'table' or 'covers' needs it. Add it"
        )
    _check_numbers(top, study)
    _check_losses(top, study)
    _check_rows(top, study)
    return study


def _check_rows(top: Fields, study: Study) -> None:
    """Check that the variants with a row of the table have its workload.

    :raises hvstack.errors.InputError: a variant has another workload.
    """
    if study.table is None:
        return
    with_row = [variant for variant in study.variants if variant.row]
    for variant in with_row:
        workload, phase = variant.workload, study.table.phase
        if phase and phase not in workload.jobs:
            raise top.error(
                'table.phase',
                f"is '{phase}', which the workload '{workload.name}' of the "
                f"variant '{variant.name}' does not have. Use one of "
                f'{", ".join(workload.jobs)}',
            )
        if workload is not with_row[0].workload:
            raise top.error(
                f'variants.{variant.name}.row',
                f"is that of a variant with the workload '{workload.name}', "
                f"and '{with_row[0].name}' has "
                f"'{with_row[0].workload.name}'. Delete it",
            )


def _check_losses(top: Fields, study: Study) -> None:
    """Check that hosts and workers go where a claim needs it.

    :raises hvstack.errors.InputError: a variant or a claim is not valid.
    """
    losing, scaling, sharing = (
        {
            item.name
            for item in study.variants
            if getattr(item.setup.later, name)
        }
        for name in ('lost_hosts', 'scaled_compute', 'second_cluster')
    )
    for variant in study.variants:
        setup = variant.setup
        if setup.later.loss_rounds and not setup.later.lost_hosts:
            raise top.error(
                f'variants.{variant.name}.loss_rounds',
                "needs 'lost_hosts'. Add the number of hosts",
            )
        if setup.later.lost_hosts and isinstance(variant.target, BareMetal):
            raise top.error(
                f'variants.{variant.name}.lost_hosts',
                'does not apply to bare metal. Use a configuration',
            )
        is_stack = not isinstance(variant.target, BareMetal)
        has_compute = is_stack and (setup.deployment or 0) > 2
        for name in ('scaled_compute', 'second_cluster'):
            if getattr(setup.later, name) and not has_compute:
                raise top.error(
                    f'variants.{variant.name}.{name}',
                    'needs compute workers. Add deployment 3 or 4, or delete '
                    'it',
                )
        if setup.later.scaled_compute and setup.later.second_cluster:
            raise top.error(
                f'variants.{variant.name}.second_cluster',
                "does not go with 'scaled_compute'. Delete one of them",
            )
    needs = {
        MISSING_BLOCKS: losing | scaling | sharing,
        ADDED_TASKS: scaling,
        SECOND_TASKS: sharing,
    }
    for index, claim in enumerate(study.claims):
        if claim.variant not in needs.get(claim.measure, {claim.variant}):
            settings = {
                ADDED_TASKS: "'scaled_compute'",
                SECOND_TASKS: "'second_cluster'",
            }.get(
                claim.measure,
                "'lost_hosts', 'scaled_compute' or 'second_cluster'",
            )
            raise top.error(
                f'claims.{index}.measure',
                f"is '{claim.measure}', and no host or worker of the variant "
                f'goes. Add {settings} to the variant',
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
        if number and number.change and not _has_rate(study, claim, number):
            raise top.error(
                f'claims.{index}.published.change',
                f"is '{number.change}', and the claim does not compare two "
                'rates, or the number is none of that kind. Delete it',
            )
    if study.table is None:
        return
    table = paper_numbers.find_table(study.paper, study.table)
    if table is None:
        raise top.error('table', remedy)
    for variant in study.variants:
        cells = table.rows.get(variant.row)
        if variant.row and (cells is None or None in cells):
            raise top.error(f'variants.{variant.name}.row', remedy)


def _has_rate(study: Study, claim: Claim, number: PaperNumber) -> bool:
    """Return whether a number is the rate that a claim is about."""
    rate = paper_numbers.compute_rate(study.paper, number)
    return bool(claim.against) and rate is not None


def _parse_size(top: Fields) -> int:
    text = top.text('size') if 'size' in top else _DEFAULT_SIZE
    try:
        return parse_size(text)
    except errors.InputError as exc:
        raise top.error('size', f'is not valid: {exc}') from None


def _list_texts(top: Fields, name: str) -> tuple[str, ...]:
    if name not in top:
        return ()
    texts = top.text_list(name)
    if texts is None:
        raise top.error(name, 'is not a list of texts. Use [text, text]')
    return tuple(texts)


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
        table.optional_text('description'),
        table.optional_choice('phase', _PHASES) or '',
    )
