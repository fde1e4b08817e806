#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renew the tables of the reference page on Hadoop's settings.

    tools/hadoopdoc.py doc/source/reference/hadoop.md

A test compares the page with them.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from hvstack.hadoop import os_profiles, site_files, tuning_profiles
from hvstack.hadoop.properties import HadoopProperty, Table

BEGIN = '<!-- tools/hadoopdoc.py writes from here -->\n'
END = '<!-- to here -->\n'
PAPERS = {
    'vsphere6': tuning_profiles.VSPHERE6,
    'vsan': tuning_profiles.VSAN,
    'amd': tuning_profiles.AMD,
}


def code(text: str) -> str:
    """Return a cell with a literal in it."""
    return f'`{text}`' if text else ''


def cell(text: str) -> str:
    """Return a cell with words in it."""
    return text.replace('<', '&lt;').replace('|', '\\|')


def value(row: HadoopProperty) -> str:
    """Return what a cluster gets."""
    return (
        row.display_value if callable(row.value) else code(row.display_value)
    )


def line(*cells: str) -> str:
    """Return a line of a table."""
    return f'| {" | ".join(cells)} |\n'


def head(*cells: str) -> str:
    """Return a table's first two lines."""
    return line(*cells) + line(*('---' for _ in cells))


def paper(table: Table) -> Iterator[str]:
    """Yield a paper's parameters."""
    yield head('section', 'parameter', 'paper', 'Hadoop 3.5', 'value', 'why')
    for section, rows in table.items():
        for row in rows:
            yield line(
                section,
                code(row.paper_name),
                cell(row.paper_value),
                code(row.name) or 'gone',
                value(row),
                cell(row.reason),
            )


def own() -> Iterator[str]:
    """Yield what the default profile sets, and why."""
    yield head('parameter', 'value', 'source', 'why')
    for section, rows in tuning_profiles.TUNINGS[site_files.DEFAULT].items():
        for row in rows:
            yield line(code(row.name), value(row), section, cell(row.reason))


def systems() -> Iterator[str]:
    """Yield the OS profiles."""
    yield head('profile', 'kind', 'setting', 'value', 'source', 'why not')
    for name, settings in os_profiles.PROFILES.items():
        # A step has nothing that its profile has not.
        for setting in () if name in os_profiles.STEPS else settings:
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
    for name, table in PAPERS.items():
        count = sum(len(rows) for rows in table.values())
        parts += [f'\n## {name}: {count} parameters\n\n', *paper(table)]
    parts += ['\n## OS profiles\n\n', *systems(), '\n']
    return ''.join(parts)


def renewed(text: str) -> str:
    """Return a document with its generated part written anew."""
    before, _, remainder = text.partition(BEGIN)
    after = remainder.partition(END)[2]
    return f'{before}{BEGIN}{document()}{END}{after}'


if __name__ == '__main__':
    target = Path(sys.argv[1])
    target.write_text(
        renewed(target.read_text(encoding='utf-8')), encoding='utf-8'
    )
