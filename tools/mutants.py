# SPDX-License-Identifier: Apache-2.0
"""Mutants of a module: its source without one of its statements."""

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A module without one of its statements.

    :param function: dotted name of the function or class; empty for the
        module.
    :param statement: statement, or the first line of a compound statement.
    :param occurrence: number of the statement among equal ones of the
        function, from 1.
    :param line: first line of the statement.
    :param last_line: last line that is always executed with the statement.
    :param span: first and last offset in bytes.
    :param replacement: replacement for the statement.
    """

    function: str
    statement: str
    occurrence: int
    line: int
    last_line: int
    span: tuple[int, int]
    replacement: str

    def apply(self, source: str) -> str:
        """Return the source without the statement; the lines keep numbers."""
        text = source.encode()
        start, end = self.span
        newlines = b'\n' * text[start:end].count(b'\n')
        inserted = self.replacement.encode() + newlines
        return (text[:start] + inserted + text[end:]).decode()


def list_mutants(source: str) -> list[Mutant]:
    """Return the mutants of a module in the order of its lines.

    Docstrings, imports, definitions, assertions, annotations without a value
    and what only type checkers read are no mutants.

    :param source: content of the module.
    """
    text = source.encode()
    offsets = [0]
    for line in text.split(b'\n'):
        offsets.append(offsets[-1] + len(line) + 1)
    counts: Counter[tuple[str, str]] = Counter()
    mutants = []
    for function, node in _list_statements(ast.parse(source), ''):
        statement = ast.unparse(node).partition('\n')[0]
        counts[function, statement] += 1
        start = offsets[node.lineno - 1] + node.col_offset
        end_line, end_column = node.end_lineno, node.end_col_offset
        assert end_line is not None and end_column is not None
        replacement = 'pass'
        if text[start : start + 4] == b'elif':
            replacement = ''
        elif _has_yield(node):
            # The function has to remain a generator.
            replacement = 'if False: yield'
        mutants.append(
            Mutant(
                function,
                statement,
                counts[function, statement],
                node.lineno,
                _find_last_line(node),
                (start, offsets[end_line - 1] + end_column),
                replacement,
            )
        )
    return mutants


def _list_statements(
    parent: ast.AST, function: str
) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the statements to delete, each with its function or class."""
    for node in ast.iter_child_nodes(parent):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                parts = {*node.decorator_list, *getattr(node, 'bases', ())}
                names = {
                    ast.unparse(part).rpartition('.')[2] for part in parts
                }
                if names.isdisjoint({'overload', 'Protocol', 'TypedDict'}):
                    dotted = f'{function}.{node.name}'.lstrip('.')
                    yield from _list_statements(node, dotted)
            case ast.If(test=ast.Name(id='TYPE_CHECKING')):
                pass
            case ast.stmt():
                if not _is_without_effect(node, parent):
                    yield function, node
                yield from _list_statements(node, function)
            case ast.excepthandler() | ast.match_case():
                yield from _list_statements(node, function)


def _is_without_effect(node: ast.stmt, parent: ast.AST) -> bool:
    """Return whether a statement is no part of what a module does."""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Assert():
            return True
        case ast.Global() | ast.Nonlocal() | ast.Expr(value=ast.Constant()):
            return True
        case ast.AnnAssign(value=None):
            return not isinstance(parent, ast.ClassDef)
        case ast.Return(value=None | ast.Constant(value=None)):
            # The end of a function returns None anyway.
            return isinstance(parent, ast.FunctionDef) and (
                parent.body[-1] is node
            )
    return False


def _has_yield(node: ast.AST) -> bool:
    """Return whether the function of a statement yields in the statement."""
    if isinstance(node, ast.Yield | ast.YieldFrom):
        return True
    return not isinstance(node, ast.FunctionDef | ast.Lambda) and any(
        map(_has_yield, ast.iter_child_nodes(node))
    )


def _find_last_line(node: ast.stmt) -> int:
    """Return the last line that is always executed with a statement."""
    match node:
        case ast.Try(body=[first, *_]):
            return first.lineno
        case ast.Match(subject=subject):
            return subject.end_lineno or node.lineno
        case (
            ast.If(body=[first, *_])
            | ast.For(body=[first, *_])
            | ast.While(body=[first, *_])
            | ast.With(body=[first, *_])
        ):
            return max(node.lineno, first.lineno - 1)
    return node.end_lineno or node.lineno
