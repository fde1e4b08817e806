# SPDX-License-Identifier: Apache-2.0
"""Comparison of the variants of a study with the table of its paper.

The page, the text and the plain data of a report have the same rows.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from hvstack.report.formats import format_interval
from hvstack.report.paper_figures import PublishedTable
from hvstack.report.text import align_columns
from hvstack.results.estimator import SweepFit
from hvstack.results.stats import TOO_FEW_RUNS, Percent
from hvstack.results.typed_json import JsonObject
from hvstack.study import paper_numbers
from hvstack.study.claim_results import compare_variants, find_obstacle
from hvstack.study.claims import Claim
from hvstack.study.definition import Study
from hvstack.study.study_rows import Quantity, VariantRow

#: Names of the columns of :func:`list_cells`.
HEAD = ('Variant', 'Paper, %', 'Measured, %', 'Interval')


@dataclass(frozen=True)
class ComparedVariant:
    """Rate of a variant in percent of the reference.

    :param name: name of the variant.
    :param percent: measured rate; None without a comparison.
    :param published: rate of the paper in percent; None without any.
    :param reason: why the variant is not compared; empty if it is.
    """

    name: str
    percent: Percent | None = None
    published: float | None = None
    reason: str = ''


@dataclass(frozen=True)
class PaperComparison:
    """Rates of all comparable variants, and those of the paper.

    :param variants: variants with the workload of the reference; empty without
        a second one.
    :param reference: name of the variant that is 100 %.
    :param source: paper and table; empty without a table.
    :param columns: columns of the table whose sum is compared.
    :param phase: phase of a run that is compared; empty for the whole run.
    """

    variants: tuple[ComparedVariant, ...] = ()
    reference: str = ''
    source: str = ''
    columns: tuple[str, ...] = ()
    phase: str = ''

    @property
    def has_rates(self) -> bool:
        """Whether the paper has rates, or some were compared."""
        percents = [item.percent for item in self.variants]
        return bool(self.source) or any(percents)

    @property
    def title(self) -> str:
        """Title of the comparison."""
        part = f' of {self.phase}' if self.phase else ''
        title = f'Rates{part} in percent of {self.reference}'
        return f'{title}, with {self.source}' if self.source else title


def list_published(study: Study) -> PaperComparison:
    """Return the comparison of a study before its first run.

    The first variant that the table of the paper has is the reference. A
    study without a table compares all variants that have the workload of the
    first one.
    """
    reference = study.table
    table = reference and paper_numbers.find_table(study.paper, reference)
    named = [item for item in study.variants if item.row or not table]
    named = [item for item in named if item.workload is named[0].workload]
    if len(named) < 2 or not named[0].workload.has_rate:
        return PaperComparison()
    base = named[0]
    if not isinstance(table, PublishedTable) or reference is None:
        return PaperComparison(
            tuple(ComparedVariant(item.name) for item in named), base.name
        )
    return PaperComparison(
        tuple(
            ComparedVariant(
                item.name,
                published=paper_numbers.compute_percent(
                    table, reference, item.row, base.row
                ),
            )
            for item in named
        ),
        base.name,
        f'{study.paper}, {reference.source}',
        reference.columns,
        reference.phase,
    )


def compare(
    study: Study,
    rows: Mapping[str, VariantRow],
    find_fit: Callable[[Quantity], SweepFit | None],
) -> PaperComparison:
    """Return each variant in percent of the first one, as the paper has it.

    :param study: the study.
    :param rows: rows by the names of the variants.
    :param find_fit: function that returns the effects of the variants.
    """
    published = list_published(study)
    if not published.variants:
        return published
    base = rows[published.reference]
    quantity = Quantity(base.variant.workload, published.phase)
    fit = find_fit(quantity)

    def measure(item: ComparedVariant) -> ComparedVariant:
        row = rows[item.name]
        if row is base:
            return item
        reason = find_obstacle(row, base)
        percent = None
        if fit is not None and not reason:
            percent = compare_variants(
                *(fit, item.name, base.variant.name, rows, quantity),
                len(published.variants) - 1,
            )
        return ComparedVariant(item.name, percent, item.published, reason)

    return PaperComparison(
        tuple(map(measure, published.variants)),
        published.reference,
        published.source,
        published.columns,
        published.phase,
    )


def list_cells(
    comparison: PaperComparison, item: ComparedVariant
) -> tuple[str, ...]:
    """Return the cells of a variant, in the order of :data:`HEAD`."""
    published = '' if item.published is None else f'{item.published:.1f}'
    percent = item.percent
    if percent is None:
        is_reference = item.name == comparison.reference
        return item.name, published, '100' if is_reference else '', ''
    interval = format_interval(percent, missing=TOO_FEW_RUNS)
    return item.name, published, f'{percent.percent:.1f}', interval


def format_comparison(comparison: PaperComparison) -> list[str]:
    """Return the lines of a comparison for a terminal."""
    if not comparison.has_rates:
        return []
    return [
        f'{comparison.title}:',
        *align_columns(
            [
                tuple(name.lower() for name in HEAD),
                *(
                    tuple(cell or '-' for cell in list_cells(comparison, item))
                    for item in comparison.variants
                ),
            ],
            left=(0,),
        ),
    ]


def format_published(comparison: PaperComparison) -> str:
    """Return the rates of the paper as a line; empty without any."""
    if not comparison.source:
        return ''
    rates = ', '.join(
        f'{item.name} {round(item.published, 1):g}'
        for item in comparison.variants
        if item.published is not None
    )
    return f'{comparison.title}: {rates}'


def format_claim_number(study: Study, claim: Claim) -> str:
    """Return the number of the paper for a claim as a sentence.

    :returns: text with a leading space; empty without a number.
    """
    if claim.published is None:
        return ''
    number = paper_numbers.format_number(study.paper, claim.published)
    return f' Paper: {number}.'


def to_mapping(comparison: PaperComparison) -> JsonObject:
    """Return a comparison as plain data."""
    return {
        'reference': comparison.reference,
        'published': comparison.source,
        'columns': list(comparison.columns),
        'phase': comparison.phase or 'whole run',
        'variants': [
            {
                'variant': item.name,
                'published_percent': item.published,
                'percent': asdict(item.percent) if item.percent else None,
                'reason': item.reason,
            }
            for item in comparison.variants
        ],
    }
