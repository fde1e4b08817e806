# SPDX-License-Identifier: Apache-2.0
"""Objects that are read equal those that the class itself creates."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import testtools

from hvstack.results import typed_json
from hvstack.results.typed_json import FieldTypeError, Json


@dataclass(frozen=True)
class Inner:
    size: float = 0


@dataclass(frozen=True)
class Outer:
    name: str
    count: int | None = None
    state: str = 'new'
    texts: tuple[str, ...] = ()
    sizes: Mapping[str, float] = field(default_factory=dict)
    inner: Inner = field(default_factory=Inner)


class ReadTest(testtools.TestCase):
    def read(self, **data: Json) -> Outer:
        """Return an object from the keys of a JSON object."""
        return typed_json.read(Outer, dict(data))

    def test_all_fields(self) -> None:
        inner: Json = {'size': 2}
        self.assertEqual(
            Outer('x', 1, 'old', ('a', 'b'), {'c': 1.5}, Inner(2)),
            self.read(
                name='x',
                count=1,
                state='old',
                texts=['a', 'b'],
                sizes={'c': 1.5},
                inner=inner,
            ),
        )

    def test_defaults(self) -> None:
        outer = self.read(name='x', count=None, state=None)
        self.assertEqual(Outer('x'), outer)
        self.assertEqual(vars(Outer('x')), vars(outer))
        self.assertIsNot(self.read(name='y').sizes, outer.sizes)

    def test_wrong_types(self) -> None:
        for name, value in (
            ('name', 1),
            ('count', True),
            ('count', 1.5),
            ('state', ['new']),
            ('texts', 'ab'),
            ('sizes', {'c': '1'}),
            ('inner', {'size': 'large'}),
            ('inner', 1),
        ):
            error = self.assertRaises(
                FieldTypeError, self.read, **{'name': 'x', name: value}
            )
            self.assertTrue(error.name.startswith(name), error)

    def test_missing(self) -> None:
        error = self.assertRaises(FieldTypeError, self.read)
        self.assertEqual(('name', 'is missing'), (error.name, error.reason))
