# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import fixtures
import testtools
import yaml

from hvstack import errors
from hvstack.lab import clouds

OURS = {'hvstack-lab': {'auth': {'password': 'new'}}}


class MergeTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        folder = Path(self.useFixture(fixtures.TempDir()).path)
        self.path = folder / 'openstack' / 'clouds.yaml'

    def have(self, text: str) -> None:
        self.path.parent.mkdir()
        self.path.write_text(text)

    def clouds(self) -> object:
        return yaml.safe_load(self.path.read_text())

    def test_new_file_is_private(self) -> None:
        clouds.merge(self.path, OURS)
        self.assertEqual({'clouds': OURS}, self.clouds())
        self.assertEqual(0o600, self.path.stat().st_mode & 0o777)

    def test_other_clouds_and_keys_stay(self) -> None:
        self.have('{cache: {x: 1}, clouds: {mine: {profile: vexxhost}}}')
        clouds.merge(self.path, OURS)
        self.assertEqual(
            {
                'cache': {'x': 1},
                'clouds': {'mine': {'profile': 'vexxhost'}, **OURS},
            },
            self.clouds(),
        )

    def test_older_entry_of_ours_is_replaced(self) -> None:
        self.have('clouds: {hvstack-lab: {auth: {password: old}}}')
        clouds.merge(self.path, OURS)
        self.assertEqual({'clouds': OURS}, self.clouds())

    def test_same_entry_leaves_the_file_alone(self) -> None:
        text = '# mine\nclouds: {hvstack-lab: {auth: {password: new}}}\n'
        self.have(text)
        clouds.merge(self.path, OURS)
        self.assertEqual(text, self.path.read_text())

    def test_link_stays_a_link(self) -> None:
        target = self.path.parent.parent / 'dotfile'
        target.write_text('clouds: {}')
        self.path.parent.mkdir()
        self.path.symlink_to(target)
        clouds.merge(self.path, OURS)
        self.assertTrue(self.path.is_symlink())
        self.assertEqual({'clouds': OURS}, self.clouds())

    def test_broken_file_is_refused_and_kept(self) -> None:
        self.have('clouds: [}')
        exc = self.assertRaises(
            errors.InputError, clouds.merge, self.path, OURS
        )
        self.assertIn(str(self.path), str(exc))
        self.assertEqual('clouds: [}', self.path.read_text())

    def test_remove_takes_ours_only(self) -> None:
        self.have('clouds: {mine: {a: 1}, hvstack-lab: {}}')
        clouds.remove(self.path)
        self.assertEqual({'clouds': {'mine': {'a': 1}}}, self.clouds())

    def test_remove_takes_a_file_that_held_ours_alone(self) -> None:
        self.have('clouds: {hvstack-lab: {}, hvstack-lab-member: {}}')
        clouds.remove(self.path)
        self.assertFalse(self.path.exists())

    def test_remove_without_file_or_entry(self) -> None:
        clouds.remove(self.path)
        self.have('clouds: {mine: {}}  # comment')
        clouds.remove(self.path)
        self.assertIn('# comment', self.path.read_text())
