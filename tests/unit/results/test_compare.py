# SPDX-License-Identifier: Apache-2.0
import testtools

from hvstack import errors
from hvstack.results.compare import differences, require_comparable
from tests.unit.results.factory import run


class Comparable(testtools.TestCase):
    """Only what was swept may differ."""

    def test_same(self) -> None:
        require_comparable(run('i1', 0, 90), run('i2', 0, 100))

    def test_bare_metal_has_no_nova(self) -> None:
        require_comparable(run('i1', 0, 90), run('bare-metal', 0, 100))

    def test_two_releases_of_nova_differ(self) -> None:
        exc = self.assertRaises(
            errors.NotComparable,
            require_comparable,
            run('i1', 0, 90, nova='33.0.0'),
            run('i2', 0, 90),
        )
        self.assertEqual(
            ['nova is 33.0.0 here and 34.0.0 there'], exc.differences
        )

    def test_each_difference_has_a_line(self) -> None:
        exc = self.assertRaises(
            errors.NotComparable,
            require_comparable,
            run('i1', 0, 90, cpu_model='Opteron', mtu=9000),
            run('bare-metal', 0, 90, size=2 * 10**9),
        )
        self.assertEqual(
            [
                'size_bytes is 1000000000 here and 2000000000 there',
                'cpu_model is Opteron here and Xeon there',
                'mtu is 9000 here and missing there',
            ],
            exc.differences,
        )

    def test_kit_and_stand_in_differ(self) -> None:
        kit = run('i1', 0, 90)
        kit.derived = False
        self.assertRaises(
            errors.NotComparable, require_comparable, kit, run('i1', 0, 90)
        )

    def test_swept_fields_may_differ(self) -> None:
        self.assertEqual([], differences({'a': 1}, {'a': 2}, {'a'}))
        self.assertEqual(
            ['a is 1 here and missing there'], differences({'a': 1}, {})
        )
