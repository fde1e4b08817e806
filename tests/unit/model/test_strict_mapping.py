# SPDX-License-Identifier: Apache-2.0
"""Fields of files: the types of a dataclass are their schema."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import testtools

from hvstack import errors
from hvstack.model.plain_data import Json, JsonObject
from hvstack.model.strict_mapping import Fields, Signed, to_dataclass
from tests.unit.call_count import count_calls


@dataclass(frozen=True)
class Inner:
    name: str
    ratio: float = 1.0


@dataclass(frozen=True)
class Outer:
    count: int
    pair: tuple[str, str]
    names: tuple[str, ...] = ()
    inner: Inner | None = None
    inners: tuple[Inner, ...] = ()
    flag: bool = False
    content: JsonObject | None = None
    note: Json = None


@dataclass(frozen=True)
class Series:
    rates: list[float | None]
    times: list[Signed]
    counts: tuple[float, ...] = ()
    begin: Signed = 0.0


GOOD: dict[str, Any] = {'count': 1, 'pair': ['a', 'b']}


class DataclassTest(testtools.TestCase):
    def refused(self, field: str, **changes: Any) -> None:
        exc = self.assertRaises(
            *(errors.InputError, to_dataclass, Outer),
            *({**GOOD, **changes}, 'file'),
        )
        self.assertIn(f"file: '{field}' ", str(exc))

    def test_values(self) -> None:
        data = {
            **GOOD,
            'names': ['x'],
            'inner': {'name': 'n', 'ratio': 2},
            'inners': [{'name': 'm'}],
        }
        expected = Outer(1, ('a', 'b'), ('x',), Inner('n', 2), (Inner('m'),))
        self.assertEqual(expected, to_dataclass(Outer, data, 'file'))

    def test_types(self) -> None:
        for value in ('1', True, None, 1.5, [], {}, -1, 10**30):
            self.refused('count', count=value)
        for value in ('ab', ['a'], ['a', 'b', 'c'], None, {'a': 'b'}):
            self.refused('pair', pair=value)
        self.refused('names.1', names=['a', 1])
        self.refused('flag', flag=1)
        self.refused('content', content=[])

    def test_plain_data_is_not_checked(self) -> None:
        for value in (None, True, 1.5, 'a', [1, {'b': None}], {'c': [-1]}):
            read = to_dataclass(
                Outer, {**GOOD, 'content': {'a': value}, 'note': value}, 'file'
            )
            self.assertEqual(({'a': value}, value), (read.content, read.note))

    def test_fields_of_inner_ones(self) -> None:
        for value in ('1', True, float('nan'), float('inf'), -0.5):
            self.refused('inner.ratio', inner={'name': 'n', 'ratio': value})
        self.refused('inner.name', inner={})
        self.refused('inner.more', inner={'name': 'n', 'more': 1})
        self.refused('inner', inner=[])

    def test_lists_of_numbers(self) -> None:
        data = {
            **{'rates': [1, 0.5, None], 'times': [-0.5, 3]},
            **{'counts': [1, 2.5], 'begin': -1},
        }
        self.assertEqual(
            Series([1, 0.5, None], [-0.5, 3], (1, 2.5), -1),
            to_dataclass(Series, data, 'file'),
        )
        empty = to_dataclass(Series, {'rates': [], 'times': []}, 'file')
        self.assertEqual(Series([], []), empty)
        for field, value in (
            *(('rates.1', value) for value in (-0.5, True, '1', 10**400)),
            *(('rates.1', float(text)) for text in ('nan', 'inf')),
            *(('times.1', value) for value in (None, True, '1', -(10**400))),
            *(('times.1', float(text)) for text in ('nan', '-inf')),
            *(('counts.1', value) for value in (None, -1)),
        ):
            name, _ = field.split('.')
            exc = self.assertRaises(
                *(errors.InputError, to_dataclass, Series),
                *({**data, name: [1, value, 1]}, 'file'),
            )
            self.assertIn(f"file: '{field}' ", str(exc))
        exc = self.assertRaises(
            *(errors.InputError, to_dataclass, Series),
            *({**data, 'begin': 'x'}, 'file'),
        )
        self.assertIn("'begin' is 'x'. Use a number.", str(exc))

    def test_long_lists_have_no_call_for_each_number(self) -> None:
        """Telemetry of 640 nodes has six million numbers."""
        calls = []
        for count in (10, 1000):
            data = {'rates': [1.5] * count, 'times': [-1.0] * count}
            calls.append(
                count_calls(partial(to_dataclass, Series, data, 'file'))
            )
        self.assertEqual(calls[0], calls[1])

    def test_unknown_and_missing_fields(self) -> None:
        self.refused('more', more=1)
        exc = self.assertRaises(
            errors.InputError, to_dataclass, Outer, {'count': 1}, 'file'
        )
        self.assertIn("'pair' is missing", str(exc))


class NamesTest(testtools.TestCase):
    def check(self, method: str, good: str, bad: tuple[str, ...]) -> None:
        for text in good.split():
            fields = Fields({'a': text}, 'file', ('a',))
            self.assertEqual(text, getattr(fields, method)('a'))
        for text in ('$(id)', 'a\nb', '', '\u0663', 'a b', *bad):
            fields = Fields({'a': text}, 'file', ('a',))
            self.assertRaises(errors.InputError, getattr(fields, method), 'a')

    def test_host_names(self) -> None:
        bad = ('-a', 'a.', 'a..b', 'a_b', 'x' * 64, 'ü', '.'.join('x' * 200))
        self.check('host_name', 'a w1 a-b.example.org', bad)

    def test_addresses(self) -> None:
        bad = ('10.0.0', '10.0.0.256', 'fe80::1%$(id)', '1.2.3.4\n')
        self.check('address', '10.0.0.1 2001:db8::1', bad)

    def test_identifiers(self) -> None:
        bad = ('-a', '../a', 'a/b', 'x' * 129, 'a;b')
        self.check('identifier', 'a rack-1 h7.example_x', bad)


class OptionalFieldsTest(testtools.TestCase):
    """An optional field may be missing, but it must not be null."""

    def setUp(self) -> None:
        super().setUp()
        self.fields = Fields({'a': 'x', 'b': None}, 'file', None)

    def test_texts(self) -> None:
        self.assertEqual('x', self.fields.optional_text('a'))
        self.assertEqual('', self.fields.optional_text('c'))
        self.assertRaises(errors.InputError, self.fields.optional_text, 'b')

    def test_choices(self) -> None:
        choose = self.fields.optional_choice
        self.assertEqual('x', choose('a', ('x', 'y')))
        self.assertIsNone(choose('c', ('x', 'y')))
        for name in ('a', 'b'):
            self.assertRaises(errors.InputError, choose, name, ('y',))


class CollectionsTest(testtools.TestCase):
    """Lists and mappings of texts, and the names of fields."""

    def test_mappings(self) -> None:
        texts = {'x': 'a', 'y': ''}
        for value, expected in (
            (texts, texts),
            ({}, {}),
            ({'x': 1}, None),
            ({1: 'a'}, None),
            (['a'], None),
            (None, None),
        ):
            fields = Fields({'a': value}, 'file', None)
            self.assertEqual(expected, fields.text_mapping('a'), value)

    def test_lists(self) -> None:
        for value, expected in (
            (['a', ''], ['a', '']),
            ([], []),
            (['a', 1], None),
            ('ab', None),
            (None, None),
        ):
            fields = Fields({'a': value}, 'file', None)
            self.assertEqual(expected, fields.text_list('a'), value)

    def test_names(self) -> None:
        self.assertEqual(
            ['b', 'a'], list(Fields({'b': 1, 'a': None}, 'file', None))
        )
