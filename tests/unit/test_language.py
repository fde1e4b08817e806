# SPDX-License-Identifier: Apache-2.0
"""Names and texts follow the style guide, which contains the words."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import testtools

TOP = Path(__file__).parents[2]
STYLE = TOP / 'doc' / 'source' / 'contributor' / 'style.md'
#: Methods of frameworks that a class without a docstring for them overrides.
OVERRIDES = {
    # cliff
    *('get_parser', 'take_action'),
    # Nova
    *('get_available_resource', 'update_provider_tree'),
}
#: Phrases of the style guide's table that texts for users do not contain.
#: The others of that table are left: they have uses that are correct, or are
#: still in texts.
PHRASES = (
    *('take one of', 'is there already', 'comes twice', 'is no list'),
    *('sort a little once', 'the way there', 'ended with status'),
    *('stands still', 'for want of memory', 'goes on', 'going on'),
    *('given back', 'looked at', 'anew', 'dell deck', 'power cut', 'put back'),
    *('puts back', 'make no sense', 'makes no sense', 'beside the figures'),
    *('in vain', 'cannot be:', 'of ours', 'a node more'),
    *('said beside', 'what to go over', 'one room per task', 'sitting'),
    *('the last one last', 'things of it', 'ends with status', 'stand-in'),
    *('there is no', 'tells', 'nobody', 'so many', 'the rest', 'beside the'),
    *('move it away', 'move them away', 'for a person', 'return what'),
)
#: Words that no text contains, even as a part of a name.
WORDS = ('folder',)
#: Texts that users read, which are not Python modules.
TEXTS = (
    *('README.md', 'CONTRIBUTING.rst', 'HACKING.rst', 'doc/source/**/*.md'),
    *('releasenotes/notes/*.yaml', 'hvstack/share/**/*.sh'),
    *('hvstack/share/**/*.yaml', 'hvstack/share/**/*.j2'),
    *('hvstack/report/*.j2', 'hvstack/lab/images/files/**/*'),
    *('hvstack/lab/**/*.sh', 'heat-templates/**/*', 'rally-tasks/**/*'),
    *('doc/source/**/*.rst', 'tools/*', 'hvstack/share/cephadm/*'),
    'hvstack/share/diskimage-builder/**/*',
)
#: Words that add nothing to the name of a function.
FILLER = {
    *('a', 'all', 'an', 'and', 'as', 'by', 'each', 'for', 'from', 'in', 'is'),
    *('it', 'its', 'of', 'on', 'return', 'returns', 'that', 'the', 'them'),
    *('this', 'those', 'to', 'whether', 'which', 'with', 'yield', 'yields'),
}


def read_banned() -> set[str]:
    """Return the names that the style guide bans."""
    text = STYLE.read_text('utf-8')
    block = re.search(r'```python\n(BANNED = .*?)```', text, re.DOTALL)
    assert block is not None
    return {
        name
        for node in ast.walk(ast.parse(block[1]))
        if isinstance(node, ast.Constant)
        for name in str(node.value).split()
    }


@cache
def parse_modules(pattern: str) -> dict[Path, ast.Module]:
    """Return the modules that match a pattern, such as ``tests/*``."""
    return {
        path.relative_to(TOP): ast.parse(path.read_text('utf-8'))
        for path in sorted(TOP.glob(f'{pattern}.py'))
    }


def bindings(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the names that a module binds, each with its node."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                yield name, node
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node
            case ast.arg(arg=name):
                yield name, node
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node
            case ast.AsyncFunctionDef(name=name):
                yield name, node
            case ast.alias(name=name, asname=asname):
                yield asname or name.partition('.')[0], node
            case ast.MatchMapping(rest=str(name)):
                yield name, node
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                yield name, node


def list_exceptions(path: Path, tree: ast.AST) -> set[ast.AST]:
    """Return the bindings that the style guide allows."""
    allowed: set[ast.AST] = set()
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module='hypothesis', names=names):
                allowed |= {alias for alias in names if alias.name == 'given'}
            case ast.arg(arg='left'):
                if path == Path('hvstack/report/text.py'):
                    allowed.add(node)
            # The values that a loop has already visited.
            case ast.AnnAssign(
                target=ast.Name(id='seen') as target, value=ast.Call()
            ) if ast.unparse(node).endswith(' = set()'):
                allowed.add(target)
    return allowed


def list_functions(
    tree: ast.Module | ast.ClassDef,
) -> Iterator[tuple[ast.FunctionDef, ast.ClassDef | None]]:
    """Yield the functions of a module or class, each with its class."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node, tree if isinstance(tree, ast.ClassDef) else None
        elif isinstance(node, ast.ClassDef):
            yield from list_functions(node)


@cache
def list_error_classes() -> set[str]:
    """Return the classes whose messages users read."""
    bases_by_name = {
        node.name: [
            ast.unparse(base).rpartition('.')[2] for base in node.bases
        ]
        for tree in parse_modules('hvstack/**/*').values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    names = {'HVStackError', 'ArgumentTypeError'}
    while added := {
        name
        for name, bases in bases_by_name.items()
        if name not in names and not names.isdisjoint(bases)
    }:
        names |= added
    return names


def is_error_class(node: ast.expr | None) -> bool:
    """Return whether an expression is a class of errors that users read."""
    if isinstance(node, ast.Tuple):
        return all(is_error_class(item) for item in node.elts)
    return node is not None and (
        ast.unparse(node).rpartition('.')[2] in list_error_classes()
    )


def read_messages(node: ast.expr, quoted: set[ast.AST]) -> list[str]:
    """Return the texts that an expression can have, ``{}`` for its fields.

    :param quoted: names of errors whose message is a whole sentence.
    """
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=values):
            return [''.join(read_messages(part, quoted)[0] for part in values)]
        case ast.FormattedValue(value=value) if value in quoted:
            return ['{}.']
        case ast.BinOp(left=head, op=ast.Add(), right=tail):
            return [
                first + last
                for first in read_messages(head, quoted)
                for last in read_messages(tail, quoted)
            ]
        case ast.IfExp(body=body, orelse=orelse):
            return read_messages(body, quoted) + read_messages(orelse, quoted)
    return ['{}']


def is_sentence(message: str) -> bool:
    """Return whether a message is a whole sentence."""
    # A quoted name and a field of the format may begin a sentence.
    return (
        message[:1].isupper() or message[:1] in ('{', "'", '"')
    ) and message.endswith('.')


def list_fragments(tree: ast.Module) -> list[tuple[int, str]]:
    """Return line and text of error messages that are no whole sentences.

    A function such as ``Fields.error`` composes a sentence from fragments.
    Its arguments do not count, but the message that it creates.
    """
    quoted: set[ast.AST] = {
        node
        for handler in ast.walk(tree)
        if isinstance(handler, ast.ExceptHandler)
        and is_error_class(handler.type)
        for node in ast.walk(handler)
        if isinstance(node, ast.Name) and node.id == handler.name
    }
    return [
        (call.lineno, message)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and call.args
        and is_error_class(call.func)
        for message in read_messages(call.args[0], quoted)
        if message != '{}' and not is_sentence(message)
    ]


def split_words(text: str) -> set[str]:
    """Return the words of a text or name in lower case, in the singular."""
    parts = re.findall(r'[A-Z]?[a-z]+|[A-Z]+', text)
    return {word.lower() for word in parts} - FILLER


def list_phrases(path: Path, text: str) -> list[str]:
    """Return the places of phrases that texts do not contain."""
    # A phrase may continue in the next line of a comment.
    pattern = '|'.join(
        r'[\s#]+'.join(map(re.escape, phrase.split())) for phrase in PHRASES
    )
    return [
        f'{path}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}'
        for match in re.finditer(
            rf'(?<![\w-])(?:{pattern})(?![\w-])|{"|".join(WORDS)}',
            text,
            re.IGNORECASE,
        )
    ]


class PhrasesTest(testtools.TestCase):
    """Phrases of the style guide's table are in no text for users."""

    def test_modules(self) -> None:
        """Also docstrings and comments, and strings of several lines."""
        self.assertEqual([], self.list_in_modules('hvstack/**/*'))

    def test_other_modules(self) -> None:
        """Their table of phrases is the only exception."""
        for pattern in (
            *('tests/*', 'tests/[!u]*/**/*', 'tests/unit/**/*'),
            *('tools/**/*', 'benchmarks/**/*', 'doc/**/*'),
        ):
            self.assertEqual([], self.list_in_modules(pattern))

    def test_each_phrase(self) -> None:
        for phrase in PHRASES:
            for text in (
                f'x {phrase.upper()} y',
                phrase.replace(' ', '\n    '),
                '# ' + phrase.replace(' ', '\n    # '),
            ):
                self.assertEqual(1, len(list_phrases(Path(), text)), text)
        for word in WORDS:
            for text in (f'{word}s', f'_{word.upper()} = 1', f'x_{word}()'):
                self.assertEqual(1, len(list_phrases(Path(), text)), text)
        self.assertEqual(
            [], list_phrases(Path(), 'there is none, the restart')
        )

    def list_in_modules(self, pattern: str) -> list[str]:
        phrases = []
        modules = parse_modules(pattern)
        self.assertNotEqual({}, modules)
        for path, tree in modules.items():
            if path == Path('tests/unit/test_language.py'):
                continue
            phrases += list_phrases(path, (TOP / path).read_text('utf-8'))
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and isinstance(
                    node.value, str
                ):
                    phrases += list_phrases(path, node.value)
        return phrases

    def test_other_texts(self) -> None:
        phrases = []
        for pattern in TEXTS:
            paths = [
                path
                for path in TOP.glob(pattern)
                if path.is_file() and path != STYLE
            ]
            self.assertNotEqual([], paths, pattern)
            for path in paths:
                phrases += list_phrases(
                    path.relative_to(TOP),
                    path.read_bytes().decode('utf-8', 'replace'),
                )
        self.assertEqual([], phrases)


class NamesTest(testtools.TestCase):
    """Names that the style guide bans are not bound."""

    def list_banned(self, pattern: str) -> list[str]:
        banned = read_banned()
        self.assertLess({'one', 'found', 'places', 'Outcome'}, banned)
        modules = parse_modules(pattern)
        self.assertNotEqual({}, modules)
        names = []
        for path, tree in modules.items():
            candidates = [
                (name, node)
                for name, node in bindings(tree)
                if name.lstrip('_') in banned
            ]
            if candidates:
                allowed = list_exceptions(path, tree)
                names += [
                    f'{path}:{getattr(node, "lineno", 0)}: {name}'
                    for name, node in candidates
                    if node not in allowed
                ]
        return names

    def test_package(self) -> None:
        self.assertEqual([], self.list_banned('hvstack/**/*'))

    def test_unit_tests(self) -> None:
        self.assertEqual([], self.list_banned('tests/unit/**/*'))

    def test_other_tests(self) -> None:
        for pattern in ('tests/*', 'tests/[!u]*/**/*'):
            self.assertEqual([], self.list_banned(pattern))

    def test_tools(self) -> None:
        for pattern in ('tools/**/*', 'benchmarks/**/*', 'doc/**/*'):
            self.assertEqual([], self.list_banned(pattern))

    def test_every_kind_of_binding(self) -> None:
        for text in (
            'one = 1',
            'x, (y, *one) = z',
            'x = (one := 1)',
            'for one in x: pass',
            'x = [1 for one in y]',
            'x.one = 1',
            'x.one += 1',
            '_one: int = 1',
            'def f(one): pass',
            'def f(*one): pass',
            'def f(*, one=1): pass',
            'f = lambda one: 1',
            'def one(): pass',
            'async def one(): pass',
            'class one: pass',
            'import one',
            'import one.x',
            'import x as one',
            'from x import one',
            'with x as one: pass',
            'try: pass\nexcept X as one: pass',
            'match x:\n case [*one]: pass',
            'match x:\n case {**one}: pass',
            'match x:\n case y as one: pass',
        ):
            names = {name for name, _ in bindings(ast.parse(text))}
            self.assertTrue(names & {'one', '_one'}, text)

    def test_exceptions_are_narrow(self) -> None:
        for text in (
            'from pytest import given',
            'def f(left): pass',
            'seen = set()',
            'seen: list[str] = []',
            'class Row:\n seen: dict',
            'row.seen = {}',
        ):
            tree = ast.parse(text)
            self.assertEqual(set(), list_exceptions(Path('x.py'), tree), text)


class ClassesTest(testtools.TestCase):
    def test_no_public_classes_share_a_name(self) -> None:
        names = Counter(
            node.name
            for path, tree in parse_modules('hvstack/**/*').items()
            if path.parts[1] != 'cli'
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef) and not node.name.startswith('_')
        )
        self.assertLess(150, len(names))
        self.assertEqual([], [name for name, n in names.items() if n > 1])


class DocstringsTest(testtools.TestCase):
    def test_public_functions_have_a_docstring(self) -> None:
        missing = [
            f'{path}:{function.lineno}: {function.name}'
            for path, tree in parse_modules('hvstack/**/*').items()
            for function, owner in list_functions(tree)
            if ast.get_docstring(function) is None
            and not function.name.startswith('_')
            and not (owner is not None and owner.name.startswith('_'))
            and not (
                owner is not None
                and owner.bases
                and function.name in OVERRIDES
            )
        ]
        self.assertEqual([], missing)

    def list_empty(self, pattern: str) -> list[str]:
        return [
            f'{path}:{node.lineno}: {docstring}'
            for path, tree in parse_modules(pattern).items()
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            and (docstring := ast.get_docstring(node))
            and '\n' not in docstring
            and split_words(docstring) <= split_words(node.name)
        ]

    def test_no_docstring_only_repeats_the_name(self) -> None:
        self.assertEqual([], self.list_empty('hvstack/**/*'))
        for pattern in ('tools/**/*', 'benchmarks/**/*', 'doc/**/*'):
            self.assertEqual([], self.list_empty(pattern))

    def test_no_docstring_of_a_test_only_repeats_the_name(self) -> None:
        self.assertEqual([], self.list_empty('tests/unit/**/*'))
        for pattern in ('tests/*', 'tests/[!u]*/**/*'):
            self.assertEqual([], self.list_empty(pattern))


class MessagesTest(testtools.TestCase):
    """Messages of errors are whole sentences."""

    def test_package(self) -> None:
        self.assertEqual(
            [],
            [
                f'{path}:{line}: {message}'
                for path, tree in parse_modules('hvstack/**/*').items()
                for line, message in list_fragments(tree)
            ],
        )

    def test_classes(self) -> None:
        """Also those that modules derive, but no errors of the program."""
        names = list_error_classes()
        self.assertLess({'InputError', 'MissingFileError'}, names)
        self.assertNotIn('FieldTypeError', names)

    def list_in(self, statement: str) -> list[tuple[int, str]]:
        return list_fragments(ast.parse(f'def f():\n    {statement}'))

    def test_fragments(self) -> None:
        for message in (
            "'no host is up: start one.'",
            "'Cannot start a host: none is up'",
            "'--hosts is 0. Use 1 or more.'",
            "f'Cannot read {path}: {exc}'",
            "f'{host}: start it'",
            "'Cannot start: ' + reason",
            "'Delete it.' if x else 'Delete it'",
        ):
            for call in (f'errors.InputError({message})', f'X({message})'):
                expected = 1 if call.startswith('errors') else 0
                for statement in (f'raise {call}', f'return {call}'):
                    self.assertEqual(
                        expected, len(self.list_in(statement)), statement
                    )

    def test_sentences(self) -> None:
        for statement in (
            "raise errors.InputError('Cannot start a host. Use another one.')",
            "raise errors.InputError(f'{host} is off. Start it.')",
            'raise errors.InputError(f"\'{field}\' is empty. Set it.")',
            "raise errors.InputError('Delete ' + ('it.' if x else 'both.'))",
            'raise errors.InputError(message)',
            "raise errors.CommandError(['a b'], 1, 'no file')",
            "raise fields.error('name', 'is empty. Set it')",
            "raise ValueError('is not a key')",
        ):
            self.assertEqual([], self.list_in(statement), statement)

    def test_quoted_messages(self) -> None:
        """Only the message of another error of hvstack is a sentence."""
        statement = (
            'try: f()\n'
            '    except {} as exc:\n'
            "        raise errors.InputError(f'{{path}}: {{exc}}')"
        )
        for handled, expected in (
            ('errors.InputError', 0),
            ('(errors.CloudError, errors.BusyError)', 0),
            ('OSError', 1),
            ('(errors.CloudError, OSError)', 1),
        ):
            self.assertEqual(
                expected, len(self.list_in(statement.format(handled))), handled
            )
