# SPDX-License-Identifier: Apache-2.0
"""Imports point downwards only."""

import ast
from collections.abc import Iterator
from pathlib import Path

import testtools

import hvstack

ROOT = Path(hvstack.__file__).parent

#: From the bottom up; rooms of one level do not import each other.
LEVELS: tuple[tuple[str, ...], ...] = (
    (
        *('', 'errors', 'processutils', 'progress', 'paths', 'share'),
        *(
            'pid_files',
            'speed',
            'seeded_random',
            'conf',
            'conf_values',
            'yamlfile',
            'interrupts',
        ),
        *('extras', 'jsonfile', 'nouns', 'shell_scripts', 'textfile'),
    ),
    ('model',),
    ('results', 'host_profiles'),
    ('hadoop', 'cloud'),
    ('cluster',),
    ('burn_in',),
    ('tpcxhs',),
    ('sweep', 'report', 'lab', 'accept'),
    ('study',),
    ('cli', 'rally_plugins', 'tempest_plugin'),
)
LEVEL = {room: n for n, rooms in enumerate(LEVELS) for room in rooms}

#: Who may import the lab: what works on any cloud must not need it.
MAY_IMPORT_LAB = {'lab', 'cli'}


def imported(path: Path) -> Iterator[str]:
    """Yield the dotted names of hvstack that a module imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                yield f'hvstack.{room_of(path)}'
            elif node.module == 'hvstack':
                yield from (f'hvstack.{alias.name}' for alias in node.names)
            else:
                yield node.module or ''


def room_of(path: Path) -> str:
    """Return the room of a module: its directory, or its own name."""
    name = path.relative_to(ROOT).parts[0].removesuffix('.py')
    return '' if name == '__init__' else name


def is_forbidden(room: str, other: str) -> bool:
    """Tell whether one room must not import the other."""
    if room == other:
        return False
    if other == 'lab':
        return room not in MAY_IMPORT_LAB
    if room == 'model':
        return other not in ('errors', 'nouns')
    if LEVEL[room] == 0:
        return LEVEL[other] > 0
    return LEVEL[other] >= LEVEL[room]


class Imports(testtools.TestCase):
    """The direction that keeps every room testable without those above."""

    def test_direction(self) -> None:
        violations = [
            f'{path.relative_to(ROOT)} imports {name}'
            for path in sorted(ROOT.rglob('*.py'))
            # Programs that run inside guests and services, not our modules.
            if 'files' not in path.parts
            for name in imported(path)
            if name == 'hvstack' or name.startswith('hvstack.')
            if is_forbidden(room_of(path), ([*name.split('.'), ''])[1])
        ]
        self.assertEqual([], violations)

    def test_every_room_has_a_level(self) -> None:
        rooms = {room_of(path) for path in ROOT.rglob('*.py')}
        self.assertEqual(set(), rooms - set(LEVEL))

    def test_wrong(self) -> None:
        self.assertTrue(is_forbidden('model', 'processutils'))
        self.assertTrue(is_forbidden('cloud', 'hadoop'))
        self.assertTrue(is_forbidden('results', 'cloud'))
        self.assertTrue(is_forbidden('report', 'lab'))
        self.assertTrue(is_forbidden('processutils', 'model'))
        self.assertFalse(is_forbidden('cloud', 'results'))
        self.assertFalse(is_forbidden('cli', 'lab'))
        self.assertFalse(is_forbidden('lab', 'cloud'))
