# SPDX-License-Identifier: Apache-2.0
"""Annotations are precise: few of them say Any or object, or need a cast."""

import ast
from collections import Counter
from collections.abc import Iterator

import testtools

from tests.unit.test_language import parse_modules

#: Categories that are counted: each name in an annotation or in an alias of
#: types, mappings of texts to Any or object, and calls of typing.cast().
ANY, OBJECT, MAPPING, CAST = 'Any', 'object', 'mapping', 'cast'
#: Numbers by package and category. A number may only decrease; a package or a
#: category that is not in the table has none.
LIMITS: dict[str, dict[str, int]] = {
    'hvstack': {ANY: 14, MAPPING: 5, OBJECT: 2},
    'hvstack/burn_in': {ANY: 1, MAPPING: 1},
    'hvstack/cli': {ANY: 9, MAPPING: 6, OBJECT: 1, CAST: 3},
    'hvstack/cloud': {ANY: 4, MAPPING: 5, OBJECT: 5},
    'hvstack/cluster': {ANY: 7, MAPPING: 7, OBJECT: 3},
    'hvstack/hadoop': {ANY: 13, MAPPING: 10, OBJECT: 3},
    'hvstack/lab': {ANY: 23, MAPPING: 15, OBJECT: 1},
    'hvstack/rally_plugins': {ANY: 22, MAPPING: 18},
    'hvstack/report': {ANY: 12, MAPPING: 10, OBJECT: 2},
    'hvstack/results': {OBJECT: 10},
    'hvstack/tempest_plugin': {ANY: 36, MAPPING: 31},
}
#: Nodes of an alias such as ``Values = Mapping[str, Json] | None``.
ALIASES = (ast.Subscript, ast.BinOp)


def list_annotations(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the annotations of a module, and its aliases of types."""
    for node in ast.walk(tree):
        match node:
            case ast.arg(annotation=ast.expr() as annotation):
                yield annotation
            case ast.FunctionDef(returns=ast.expr() as annotation):
                yield annotation
            case ast.AsyncFunctionDef(returns=ast.expr() as annotation):
                yield annotation
            case ast.AnnAssign(annotation=annotation):
                yield annotation
            case ast.Module(body=body):
                yield from (
                    statement.value
                    for statement in body
                    if isinstance(statement, ast.Assign)
                    and isinstance(statement.value, ALIASES)
                )


def list_vague_parts(annotation: ast.expr) -> Iterator[str]:
    """Yield the category of each part of an annotation that is counted."""
    for node in ast.walk(annotation):
        match node:
            case ast.Name(id='Any') | ast.Attribute(attr='Any'):
                yield ANY
            case ast.Name(id='object'):
                yield OBJECT
            case ast.Constant(value=str(text)) if text.isprintable():
                try:
                    quoted = ast.parse(text, mode='eval').body
                except SyntaxError:
                    continue
                if not isinstance(quoted, ast.Constant):
                    yield from list_vague_parts(quoted)
            case ast.Subscript(
                slice=ast.Tuple(
                    elts=[
                        ast.Name(id='str'),
                        ast.Name(id='Any' | 'object')
                        | ast.Attribute(attr='Any'),
                    ]
                )
            ):
                yield MAPPING


def count_vague_parts(tree: ast.AST) -> Counter[str]:
    """Return the numbers of a module by category."""
    counts = Counter(
        category
        for annotation in list_annotations(tree)
        for category in list_vague_parts(annotation)
    )
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Name(id='cast')
                | ast.Attribute(value=ast.Name(id='typing'), attr='cast')
            ):
                counts[CAST] += 1
    return counts


def count_by_package() -> dict[str, Counter[str]]:
    """Return the numbers by package; modules at the top are a package."""
    counts: dict[str, Counter[str]] = {}
    for path, tree in parse_modules('hvstack/**/*').items():
        package = '/'.join(path.parts[:2]) if path.parts[2:] else 'hvstack'
        counts.setdefault(package, Counter()).update(count_vague_parts(tree))
    return counts


class TypingTest(testtools.TestCase):
    def test_packages(self) -> None:
        """Use a dataclass, a union, or JsonObject of typed_json instead."""
        for package, counts in count_by_package().items():
            limits = LIMITS.get(package, {})
            for category, count in counts.items():
                self.assertLessEqual(
                    count, limits.get(category, 0), f'{package}: {category}'
                )

    def count(self, text: str) -> dict[str, int]:
        return dict(count_vague_parts(ast.parse(text)))

    def test_annotations(self) -> None:
        for text, expected in (
            ('def f(x: Any) -> object: ...', {ANY: 1, OBJECT: 1}),
            ('async def f(*x: Any) -> typing.Any: ...', {ANY: 2}),
            ('x: list[Any] | None = None', {ANY: 1}),
            ("def f(x: 'list[Any]') -> 'Any': ...", {ANY: 2}),
            ('x: dict[str, Any] = {}', {ANY: 1, MAPPING: 1}),
            ('x: Mapping[str, object]', {OBJECT: 1, MAPPING: 1}),
            ('Values = dict[str, Any] | None', {ANY: 1, MAPPING: 1}),
            ('x = cast(int, typing.cast(str, y))', {CAST: 2}),
        ):
            self.assertEqual(expected, self.count(text), text)

    def test_what_is_not_counted(self) -> None:
        for text in (
            'from typing import Any, cast',
            'def f(x: dict[str, int]) -> None: ...',
            "def f(x: Literal['a b']) -> None: ...",
            'x = object()',
            "def f():\n    y = x['object']",
            'x = array.cast("B")',
        ):
            self.assertEqual({}, self.count(text), text)
