# SPDX-License-Identifier: Apache-2.0
"""Comparison of stored output with today's, with the renames applied."""

import difflib
import fnmatch
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).parent
DATA = TOP / 'data'
RENAMES = TOP / 'renames.tsv'
#: Output in which a new line is no difference, only a missing one is.
GROWING = ('tests.txt', 'tempest-ids.txt')
#: Directory of the wording, which may change.
WORDS = 'words/'


@dataclass(frozen=True)
class Rename:
    """One line of the table of renames.

    :param old: name or phrase in the stored output.
    :param new: what it is today.
    :param scope: pattern of the files that it applies to.
    """

    old: str
    new: str
    scope: str


def read_renames(path: Path = RENAMES) -> list[Rename]:
    """Read the table of renames.

    :raises ValueError: a line does not have three fields, or an old name is
        there twice for one scope.
    """
    renames: dict[tuple[str, str], Rename] = {}
    lines = path.read_text(encoding='utf-8').splitlines()
    for line_number, line in enumerate(lines, 1):
        if not line or line.startswith('#'):
            continue
        fields = line.split('\t')
        if len(fields) != 3 or not all(fields):
            raise ValueError(f'{path}:{line_number}: expected old, new, scope')
        rename = Rename(*fields)
        if (rename.old, rename.scope) in renames:
            raise ValueError(
                f'{path}:{line_number}: duplicate of {rename.old!r}'
            )
        renames[rename.old, rename.scope] = rename
    return list(renames.values())


def apply_renames(text: str, name: str, renames: list[Rename]) -> str:
    """Return a stored text with today's names.

    All renames are applied at once, so that two names can be exchanged; the
    longest of several that match wins.

    :param name: name of the file that holds the text.
    """
    table = {
        rename.old: rename.new
        for rename in sorted(renames, key=lambda rename: rename.scope != '*')
        if fnmatch.fnmatch(name, rename.scope)
    }
    if not table:
        return text
    pattern = '|'.join(
        _bounded(old) for old in sorted(table, key=len, reverse=True)
    )
    return re.sub(pattern, lambda match: table[match[0]], text)


def _bounded(old: str) -> str:
    """Return a pattern that matches a name as a whole word."""
    left_boundary = r'(?<!\w)' if re.match(r'\w', old) else ''
    right_boundary = r'(?!\w)' if re.search(r'\w$', old) else ''
    return f'{left_boundary}{re.escape(old)}{right_boundary}'


def stored(directory: Path = DATA) -> dict[str, str]:
    """Return the stored output by file name."""
    return {
        str(path.relative_to(directory)): path.read_text(encoding='utf-8')
        for path in sorted(directory.rglob('*'))
        if path.is_file()
    }


def differences(
    before: Mapping[str, str],
    after: Mapping[str, str],
    renames: list[Rename],
    wording: bool = False,
) -> Iterator[str]:
    """Yield the lines of a difference, none if the output is the same.

    :param before: stored output by file name.
    :param after: today's output by file name.
    :param wording: compare the wording, and nothing else.
    """
    for name in sorted(before.keys() | after.keys()):
        if name.startswith(WORDS) != wording:
            continue
        old = apply_renames(before.get(name, ''), name, renames).splitlines()
        new = after.get(name, '').splitlines()
        if name in GROWING:
            # The first line is a count.
            missing = sorted(set(old[1:]) - set(new))
            yield from (f'{name}: missing: {line}' for line in missing)
            continue
        yield from difflib.unified_diff(
            old, new, f'stored/{name}', f'today/{name}', lineterm='', n=2
        )


def write(after: Mapping[str, str], directory: Path = DATA) -> None:
    """Store today's output in place of what is stored."""
    for path in directory.rglob('*'):
        if path.is_file() and str(path.relative_to(directory)) not in after:
            path.unlink()
    for name, text in after.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding='utf-8')
