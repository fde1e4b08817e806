# SPDX-License-Identifier: Apache-2.0
"""Locality of the map tasks of a study, and that in the paper's table."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hvstack.report import paper_figures
from hvstack.report.chart_base import Chart, build_rows_layout
from hvstack.report.phase_charts import LOCALITY_NAMES, build_locality_traces
from hvstack.report.text import align_columns
from hvstack.study.claims import LOCAL_MAPS, Claim
from hvstack.study.definition import Study
from hvstack.study.study_rows import VariantNumbers, VariantRow


@dataclass(frozen=True, kw_only=True)
class VariantLocality(VariantNumbers):
    """Map tasks of a variant by the distance to their data.

    :param counts: numbers of map tasks of all valid runs by the names of
        :data:`~hvstack.report.phase_charts.LOCALITY_NAMES`; the paper may
        lack some.
    """

    counts: dict[str, int]


def list_localities(
    study: Study, rows: Iterable[VariantRow]
) -> list[VariantLocality]:
    """Return the localities of the variants whose local maps are judged.

    The numbers of the paper follow the measured ones of the same variant.
    """
    claims = {
        claim.variant: claim
        for claim in study.claims
        if claim.measure == LOCAL_MAPS
    }
    localities = []
    for row in rows:
        claim = claims.get(row.variant.name)
        if claim is None:
            continue
        counts = _count_maps(row)
        if sum(counts.values()):
            localities.append(
                VariantLocality(variant=row.variant.name, counts=counts)
            )
        localities += _list_published(study.paper, claim)
    return localities


def _count_maps(row: VariantRow) -> dict[str, int]:
    """Count the map tasks of the sorts by the distance to their data."""
    jobs = [
        phase.job
        for run in row.valid
        for phase in run.phases
        if phase.name == row.variant.workload.sorter
    ]
    return {
        name: sum(job.locality.get(key, 0) for job in jobs)
        for key, name in LOCALITY_NAMES.items()
    }


def _list_published(paper: str, claim: Claim) -> list[VariantLocality]:
    """Return the numbers of the paper's table of localities, if it exists."""
    number = claim.published
    return [
        VariantLocality(
            variant=claim.variant,
            source=f'{paper}, {table.source}',
            counts={
                name: int(cell)
                for name, cell in zip(
                    table.columns, table.rows[number.description], strict=True
                )
                if cell is not None
            },
        )
        for table in paper_figures.load_figures().all_tables
        if number is not None
        and (table.paper, table.source) == (paper, number.source)
        and number.description in table.rows
        and set(table.columns) <= set(LOCALITY_NAMES.values())
    ]


def format_localities(localities: Sequence[VariantLocality]) -> list[str]:
    """Return the lines of a table of map tasks for a terminal."""
    return [
        'Map tasks by locality:',
        *align_columns(
            [
                ('variant', *LOCALITY_NAMES.values()),
                *((item.label, *_list_cells(item)) for item in localities),
            ],
            left=(0,),
        ),
    ]


def _list_cells(locality: VariantLocality) -> list[str]:
    """Return the numbers of map tasks as text; a dash without a number."""
    counts = locality.counts
    return [
        str(counts[name]) if name in counts else '-'
        for name in LOCALITY_NAMES.values()
    ]


def build_locality_chart(localities: Sequence[VariantLocality]) -> Chart:
    """Return the chart of the shares of local map tasks."""
    return Chart(
        name='locality',
        title='Locality of the map tasks',
        caption='Percent of the map tasks: where each ran, next to the '
        "places of its data's replicas. Node-group-local is on the same "
        'physical host. Rows with the name of a paper are published, not '
        'measured here; the others are all valid runs of a variant.',
        traces=build_locality_traces(
            {
                item.label: [
                    item.counts.get(name, 0)
                    for name in LOCALITY_NAMES.values()
                ]
                for item in localities
            }
        ),
        layout=build_rows_layout('Percent of map tasks', len(localities))
        | {'barmode': 'stack', 'shapes': []},
        head=('Variant', *LOCALITY_NAMES.values()),
        rows=[(item.label, *_list_cells(item)) for item in localities],
    )
