# SPDX-License-Identifier: Apache-2.0
"""The program that reports the locations of nodes to Hadoop."""

from pathlib import Path

import fixtures
import testtools

from hvstack import processutils
from hvstack.lab.images import recipes

PLACE = recipes.FILES / 'hadoop/usr/lib/hvstack/place'


class PlaceTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.root = Path(self.useFixture(fixtures.TempDir()).path)
        self.table = self.root / 'etc/hadoop/topology.table'
        self.table.parent.mkdir(parents=True)
        self.table.write_text('10.0.0.1 /r1/ng-a\nw1 /r1/ng-a\nw2 /r2/ng-b\n')

    def run_program(self, *nodes: str) -> processutils.Result:
        """Run the program that Hadoop calls with the names of nodes."""
        return processutils.run(
            ['sh', PLACE, *nodes],
            check=False,
            env={'HVSTACK_ROOT': str(self.root)},
        )

    def test_a_line_for_each_in_order(self) -> None:
        result = self.run_program('w2', '10.0.0.1', 'w1')
        self.assertEqual('/r2/ng-b\n/r1/ng-a\n/r1/ng-a\n', result.stdout)
        self.assertEqual(0, result.returncode)

    def test_what_is_written_later_is_found(self) -> None:
        self.assertNotEqual(0, self.run_program('w3').returncode)
        with self.table.open('a') as stream:
            stream.write('w3 /r2/ng-b\n')
        self.assertEqual('/r2/ng-b\n', self.run_program('w3').stdout)

    def test_unknown(self) -> None:
        result = self.run_program('w1', 'w9')
        self.assertEqual(1, result.returncode)
        self.assertIn('w9 is not in', result.stderr)

    def test_no_table(self) -> None:
        self.table.unlink()
        self.assertEqual(1, self.run_program('w1').returncode)
