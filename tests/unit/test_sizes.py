# SPDX-License-Identifier: Apache-2.0
"""Modules, functions and classes are small enough to be read as a whole."""

import ast
from collections.abc import Iterator
from functools import cache

import testtools

from tests.unit.test_language import TOP, parse_modules

#: Maximum number of lines of a module, with its docstring and comments.
MAX_MODULE_LINES = 500
#: Maximum number of lines of a function, with its docstring.
MAX_FUNCTION_LINES = 80
#: Maximum number of fields of a class.
MAX_FIELDS = 16
#: Functions and classes that may be larger, each with the reason.
ALLOWED = {
    'hvstack/hadoop/tuning_profiles.py: SizingRule': (
        'Its fields are those of the files of tuning profiles.'
    ),
    'hvstack/rally_plugins/scenario.py: TPCxHS.run': (
        'A Rally scenario has its arguments and their documentation here.'
    ),
    'hvstack/results/observations.py: Observations': (
        'Its fields are those of stored run records.'
    ),
}


def list_definitions(
    tree: ast.AST, prefix: str = ''
) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the functions and classes of a module by their dotted names."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                name = f'{prefix}{node.name}'
                yield name, node
                yield from list_definitions(node, f'{name}.')
            case ast.stmt() | ast.excepthandler() | ast.match_case():
                yield from list_definitions(node, prefix)


def list_large(path: str, text: str, tree: ast.Module) -> dict[str, str]:
    """Return the messages about large definitions, by their titles.

    :param path: path of the module.
    :param text: content of the module.
    :param tree: syntax tree of the module.
    """
    messages: dict[str, str] = {}
    count = len(text.splitlines())
    if count > MAX_MODULE_LINES:
        messages[path] = (
            f'{path} has {count} lines, and a module has at most '
            f'{MAX_MODULE_LINES}. Move the definitions of one responsibility '
            'to a new module.'
        )
    for name, node in list_definitions(tree):
        title = f'{path}: {name}'
        if isinstance(node, ast.ClassDef):
            count = sum(isinstance(part, ast.AnnAssign) for part in node.body)
            if count > MAX_FIELDS:
                messages[title] = (
                    f'{title} has {count} fields, and a class has at most '
                    f'{MAX_FIELDS}. Group fields in a class of their own.'
                )
            continue
        count = (node.end_lineno or node.lineno) - node.lineno + 1
        if count > MAX_FUNCTION_LINES:
            messages[title] = (
                f'{title} has {count} lines, and a function has at most '
                f'{MAX_FUNCTION_LINES}. Move a step of it to a function of '
                'its own.'
            )
    return messages


@cache
def list_in_package() -> dict[str, str]:
    """Return the messages about large definitions of the package."""
    messages: dict[str, str] = {}
    for path, tree in parse_modules('hvstack/**/*').items():
        text = (TOP / path).read_text('utf-8')
        messages |= list_large(str(path), text, tree)
    return messages


class SizesTest(testtools.TestCase):
    def test_package(self) -> None:
        self.assertEqual(
            [],
            [
                message
                for title, message in list_in_package().items()
                if title not in ALLOWED
            ],
        )

    def test_exceptions_are_needed(self) -> None:
        self.assertEqual(set(), set(ALLOWED) - set(list_in_package()))

    def list_in(self, text: str) -> list[str]:
        return list(list_large('x.py', text, ast.parse(text)))

    def test_modules(self) -> None:
        self.assertEqual([], self.list_in('# a comment\n' * 500))
        self.assertEqual(['x.py'], self.list_in('# a comment\n' * 501))

    def test_functions(self) -> None:
        for lines, expected in ((79, []), (80, ['x.py: A.f.g'])):
            text = (
                'class A:\n def f(self):\n  try:\n   async def g():\n'
                + '    x = 1\n' * (lines - 1)
                + '    x = 2\n  except X: pass\n'
            )
            self.assertEqual(
                expected,
                [name for name in self.list_in(text) if name.endswith('g')],
            )

    def test_classes(self) -> None:
        for count, expected in ((16, []), (17, ['x.py: A'])):
            fields = ''.join(f' x{index}: int\n' for index in range(count))
            self.assertEqual(expected, self.list_in(f'class A:\n{fields}'))
