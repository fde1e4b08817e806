#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renew the list of the numbers that the papers print.

    tools/publisheddoc.py doc/source/reference/published.md

A test compares the page with it.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from hvstack.report import paper_figures
from hvstack.report.paper_figures import (
    Derivation,
    PaperFigures,
    PublishedTable,
)

BEGIN = '<!-- tools/publisheddoc.py writes from here -->\n'
END = '<!-- to here -->\n'


def cell(text: str) -> str:
    """Return a cell with words in it."""
    for character in '\\|*<':
        text = text.replace(character, f'\\{character}')
    return text


def line(*cells: str) -> str:
    """Return a line of a table."""
    return f'| {" | ".join(cells)} |\n'


def head(*cells: str) -> str:
    """Return a table's first two lines."""
    return line(*cells) + line(*('---' for _ in cells))


def describe_number(number: float | None) -> str:
    """Return a number with all its digits; a dash without any."""
    return '-' if number is None else str(number)


def describe_derivation(derivation: Derivation | None) -> str:
    """Return the derivation of a number; empty if it is measured."""
    if derivation is None:
        return ''
    text = f'{derivation.rule}: {"; ".join(map(str, derivation.of))}'
    if derivation.over:
        text += f' / {"; ".join(map(str, derivation.over))}'
    if derivation.scale != 1:
        text += f', x {derivation.scale:g}'
    if derivation.select != 'all':
        text += f' ({derivation.select})'
    return text


def list_table(table: PublishedTable) -> Iterator[str]:
    """Yield a table of a paper."""
    yield f'\n### {table.paper}, {table.source}: {cell(table.description)}\n\n'
    yield f'Unit: {table.unit}.\n\n'
    yield head('', *map(cell, table.columns))
    for name, row in table.rows.items():
        yield line(cell(name), *map(describe_number, row))
    if table.derived:
        yield '\n'
    for derivation in table.derived:
        names = filter(None, (derivation.row, derivation.column))
        yield cell(
            f'- {", ".join(names)}: {describe_derivation(derivation)}\n'
        )


def list_values(papers: PaperFigures, paper: str) -> Iterator[str]:
    """Yield the single values of a paper, by their source."""
    rows = [
        (
            gain.source,
            f'{gain.step}: gain over {gain.over}',
            f'{describe_number(gain.gain)} %',
            '',
        )
        for gain in papers.gains
        if gain.paper == paper
    ] + [
        (
            figure.source,
            figure.description,
            ' to '.join(map(describe_number, dict.fromkeys(figure.bounds)))
            + f' {figure.unit}',
            describe_derivation(figure.derived),
        )
        for figure in papers.all_figures
        if figure.paper == paper
    ]
    yield f'\n### {paper}: single values\n\n'
    yield head('source', 'number', 'value', 'follows from')
    for source in dict.fromkeys(row[0] for row in rows):
        for row in rows:
            if row[0] == source:
                yield line(*map(cell, row))


def list_paper(papers: PaperFigures, paper: str) -> Iterator[str]:
    """Yield everything of a paper."""
    facts = papers.papers[paper]
    yield f'\n## {paper}\n\n{facts["title"]}. '
    yield f'Statistic: {facts["statistic"]}. {facts["system"]}.\n'
    tables = [table for table in papers.all_tables if table.paper == paper]
    # Numbered tables first; no paper has more than nine.
    for table in sorted(
        tables,
        key=lambda t: t.source if t.source.startswith('Table') else '~',
    ):
        yield from list_table(table)
    yield from list_values(papers, paper)
    yield f'\n### {paper}: tables and figures without numbers\n\n'
    yield head('source', 'reason')
    for unread in papers.without_numbers:
        if unread.paper == paper:
            yield line(cell(unread.source), cell(unread.reason))
    yield f'\n### {paper}: words that do not fit the numbers\n\n'
    yield head('source', 'the paper says', 'its numbers')
    for contradiction in papers.all_contradictions:
        if contradiction.paper == paper:
            yield line(
                cell(contradiction.source),
                cell(contradiction.says),
                cell(contradiction.finds),
            )


def document() -> str:
    """Return the generated part of the document."""
    papers = paper_figures.load_figures()
    parts = [
        part for name in papers.papers for part in list_paper(papers, name)
    ]
    return ''.join([*parts, '\n'])


def renewed(text: str) -> str:
    """Return a document with its generated part written again."""
    before, _, remainder = text.partition(BEGIN)
    after = remainder.partition(END)[2]
    return f'{before}{BEGIN}{document()}{END}{after}'


if __name__ == '__main__':
    target = Path(sys.argv[1])
    target.write_text(
        renewed(target.read_text(encoding='utf-8')), encoding='utf-8'
    )
