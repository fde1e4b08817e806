#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renew the tables of the reference page on Hadoop's settings.

    tools/hadoopdoc.py doc/source/reference/hadoop.md

A test compares the page with them.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from hvstack.hadoop import os_profiles, sizing, tuning_profiles
from hvstack.hadoop.properties import describe_value
from hvstack.hadoop.tuning_profiles import HadoopProperty

BEGIN = '<!-- tools/hadoopdoc.py writes from here -->\n'
END = '<!-- to here -->\n'
PAPERS = ('vsphere6', 'vsan', 'amd')


def code(text: str) -> str:
    """Return a cell with a literal in it."""
    return f'`{text}`' if text else ''


def cell(text: str) -> str:
    """Return a cell with words in it."""
    return text.replace('<', '&lt;').replace('|', '\\|')


def value(row: HadoopProperty) -> str:
    """Return the value that a cluster gets."""
    text = describe_value(row)
    return text if row.formula else code(text)


def line(*cells: str) -> str:
    """Return a line of a table."""
    return f'| {" | ".join(cells)} |\n'


def head(*cells: str) -> str:
    """Return a table's first two lines."""
    return line(*cells) + line(*('---' for _ in cells))


def paper(rows: tuple[HadoopProperty, ...]) -> Iterator[str]:
    """Yield a paper's parameters."""
    yield head('section', 'property', 'paper', 'Hadoop 3.5', 'value', 'reason')
    for row in rows:
        yield line(
            row.source,
            code(row.paper_name),
            cell(row.paper_value),
            code(row.name) or 'removed',
            value(row),
            cell(row.reason),
        )


def own() -> Iterator[str]:
    """Yield what the default profile sets, and why."""
    yield head('property', 'value', 'source', 'reason')
    for row in tuning_profiles.load(sizing.DEFAULT).all_properties:
        yield line(code(row.name), value(row), row.source, cell(row.reason))


def systems() -> Iterator[str]:
    """Yield the OS profiles."""
    yield head('profile', 'kind', 'setting', 'value', 'source', 'reason')
    # A step of amd has only settings that amd has, too.
    for name in (*PAPERS, 'stock'):
        for setting in os_profiles.settings(name):
            yield line(
                name,
                setting.kind.value,
                code(setting.name),
                code(setting.value),
                setting.source,
                cell(setting.reason),
            )


def document() -> str:
    """Return the generated part of the document."""
    parts = ['\n## The default profile, `hvstack`\n\n', *own()]
    for name in PAPERS:
        rows = tuning_profiles.load(name).properties
        parts += [f'\n## {name}: {len(rows)} properties\n\n', *paper(rows)]
    parts += ['\n## OS profiles\n\n', *systems(), '\n']
    return ''.join(parts)


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
