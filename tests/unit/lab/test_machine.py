# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import fixtures
import testtools

from hvstack import errors, paths
from hvstack.lab import machine


class MachineTest(testtools.TestCase):
    def set(self, name: str, value: object) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(f'hvstack.lab.machine.{name}', value)
        )

    def test_full_disk_is_refused_with_folder_and_sizes(self) -> None:
        self.set('DISK_GIB', 10**9)
        exc = self.assertRaises(errors.MissingPrerequisite, machine.check_disk)
        self.assertIn(f'{paths.STATE} has ', str(exc))
        self.assertIn(f'needs {10**9}', str(exc))

    def test_room_enough_is_fine(self) -> None:
        self.set('DISK_GIB', 0)
        machine.check_disk()

    def test_folder_that_is_not_there_yet_counts_as_its_parent(self) -> None:
        folder = Path(self.useFixture(fixtures.TempDir()).path)
        self.assertAlmostEqual(
            machine.free_gib(folder),
            machine.free_gib(folder / 'not' / 'yet'),
            places=1,
        )

    def test_not_root_is_told_the_other_way(self) -> None:
        self.useFixture(fixtures.MonkeyPatch('os.geteuid', lambda: 1000))
        exc = self.assertRaises(errors.MissingPrerequisite, machine.check)
        self.assertIn('sudo', str(exc))
        self.assertIn('--os-cloud', str(exc))
        self.assertNotIn('\n', str(exc))

    def test_other_distribution_is_told_the_other_way(self) -> None:
        self.useFixture(fixtures.MonkeyPatch('os.geteuid', lambda: 0))
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.lab.packages.distribution', lambda: None
            )
        )
        exc = self.assertRaises(errors.MissingPrerequisite, machine.check)
        self.assertIn('Debian or Ubuntu', str(exc))
        self.assertIn('--os-cloud', str(exc))
