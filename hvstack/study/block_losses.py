# SPDX-License-Identifier: Apache-2.0
"""Blocks of a study after losses of hosts, and those of the paper's fsck."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hvstack.report import paper_figures
from hvstack.report.chart_base import (
    COLOURS,
    Chart,
    build_paper_trace,
    build_rows_layout,
    escape_text,
)
from hvstack.report.text import align_columns
from hvstack.results.later_changes import HostLoss
from hvstack.results.typed_json import JsonObject
from hvstack.study.claims import MISSING_BLOCKS
from hvstack.study.definition import Study
from hvstack.study.study_rows import VariantNumbers, VariantRow

#: Numbers of blocks, as fsck and the paper name them.
_TOTAL = 'total blocks'
_STATES = ('minimally replicated', 'under-replicated', 'mis-replicated')
_HEAD = ('Variant', 'Losses', 'Blocks', *_STATES)


@dataclass(frozen=True)
class BlockCount:
    """Number of blocks over several losses.

    :param mean: mean of the losses.
    :param min: smallest number of a loss.
    :param max: largest number of a loss.
    """

    mean: float
    min: float
    max: float

    def __str__(self) -> str:
        if self.min == self.max:
            return f'{self.mean:.0f}'
        return f'{self.mean:.1f} ({self.min:.0f} to {self.max:.0f})'


@dataclass(frozen=True, kw_only=True)
class VariantBlocks(VariantNumbers):
    """Blocks of a variant after losses of hosts.

    :param losses: number of losses.
    :param counts: blocks of one loss by their names; the paper may lack some.
    """

    losses: int
    counts: dict[str, BlockCount]

    @property
    def cells(self) -> tuple[str, ...]:
        """Cells of the table; a dash without a number."""
        return (
            self.label,
            str(self.losses),
            *(str(self.counts.get(name, '-')) for name in (_TOTAL, *_STATES)),
        )


def list_blocks(
    study: Study, rows: Iterable[VariantRow]
) -> list[VariantBlocks]:
    """Return the blocks of the variants whose missing blocks are judged.

    The numbers of the paper follow the measured ones of the same variant.
    """
    variants = {
        claim.variant
        for claim in study.claims
        if claim.measure == MISSING_BLOCKS
    }
    result = []
    for row in rows:
        if row.variant.name not in variants:
            continue
        losses = [
            loss for run in row.valid for loss in run.observations.host_losses
        ]
        if losses:
            result.append(_count_blocks(row.variant.name, losses))
        result += _list_published(study.paper, row)
    return result


def _count_blocks(variant: str, losses: Sequence[HostLoss]) -> VariantBlocks:
    """Return the measured blocks of a variant."""
    numbers = {
        _TOTAL: [loss.blocks for loss in losses],
        'minimally replicated': [
            loss.blocks - loss.missing for loss in losses
        ],
        'under-replicated': [loss.under_replicated for loss in losses],
        'mis-replicated': [loss.misplaced for loss in losses],
    }
    return VariantBlocks(
        variant=variant,
        losses=len(losses),
        counts={
            name: BlockCount(statistics.mean(values), min(values), max(values))
            for name, values in numbers.items()
        },
    )


def _list_published(paper: str, row: VariantRow) -> list[VariantBlocks]:
    """Return the numbers of the paper's fsck, if they exist."""
    variant = row.variant
    return [
        VariantBlocks(
            variant=variant.name,
            source=f'{paper}, {table.source}',
            losses=1,
            counts={
                name: BlockCount(cell, cell, cell)
                for name in (_TOTAL, *_STATES)
                if (cell := table.rows[name][table.columns.index(variant.row)])
                is not None
            },
        )
        for table in paper_figures.load_figures().all_tables
        if table.paper == paper
        and variant.row in table.columns
        and {_TOTAL, *_STATES} <= set(table.rows)
    ]


def format_blocks(items: Sequence[VariantBlocks]) -> list[str]:
    """Return the lines of a table of blocks for a terminal."""
    return [
        'Blocks after a loss of hosts, mean (smallest to largest):',
        *align_columns(
            [
                tuple(map(str.lower, _HEAD)),
                *(item.cells for item in items),
            ],
            left=(0,),
        ),
    ]


def build_mappings(items: Sequence[VariantBlocks]) -> list[JsonObject]:
    """Return the blocks as plain data."""
    return [
        {
            'variant': item.variant,
            'published': item.source,
            'losses': item.losses,
            'blocks': {
                name: {
                    'mean': count.mean,
                    'min': count.min,
                    'max': count.max,
                }
                for name, count in item.counts.items()
            },
        }
        for item in items
    ]


def build_blocks_chart(items: Sequence[VariantBlocks]) -> Chart:
    """Return the chart of the blocks after a loss, with those of the paper."""
    measured = [item for item in items if not item.source]
    published = [item for item in items if item.source]
    traces: list[JsonObject] = []
    if measured:
        points = _list_points(measured)
        traces.append(
            {
                'type': 'scatter',
                'mode': 'markers',
                'name': 'Measured',
                'x': [count.mean for _, count in points],
                'y': [label for label, _ in points],
                'error_x': {
                    'type': 'data',
                    'symmetric': False,
                    'array': [count.max - count.mean for _, count in points],
                    'arrayminus': [
                        count.mean - count.min for _, count in points
                    ],
                },
                'marker': {'size': 10, 'color': COLOURS[0]},
                'hovertemplate': '%{y}: %{x:.1f} blocks<extra></extra>',
            }
        )
    if published:
        points = _list_points(published)
        traces.append(
            build_paper_trace(
                published[0].source,
                x=[count.mean for _, count in points],
                y=[label for label, _ in points],
            )
        )
    variants = list(dict.fromkeys(item.variant for item in items))
    return Chart(
        name='blocks',
        title='Blocks after a loss of hosts',
        caption='Blocks with a replica at least (minimally replicated), with '
        'too few replicas, and with replicas on too few racks or hosts, when '
        'the NameNode misses the hosts, before it copies blocks. Points are '
        'means over the losses, lines reach from the smallest to the largest '
        'number. Hollow diamonds are published, not measured here.',
        traces=traces,
        layout=build_rows_layout('Blocks', len(variants) * len(_STATES))
        | {'shapes': []},
        head=_HEAD,
        rows=[item.cells for item in items],
    )


def _list_points(
    items: Sequence[VariantBlocks],
) -> list[tuple[str, BlockCount]]:
    """Return the numbers of all states with the labels of their rows."""
    return [
        (escape_text(f'{item.variant}: {state}'), item.counts[state])
        for item in items
        for state in _STATES
        if state in item.counts
    ]
