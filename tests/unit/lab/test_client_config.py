# SPDX-License-Identifier: Apache-2.0
"""The lab is the cloud of hvstack only if no other file names a cloud."""

from pathlib import Path

import fixtures
import testtools

from hvstack import conf
from hvstack.lab import lifecycle


class ClientConfigTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.state = Path(self.useFixture(fixtures.TempDir()).path)
        self.lab = self.state / 'lab' / 'hvstack.conf'
        for name, value in (
            ('paths.STATE', self.state),
            ('conf.LAB_FILE', self.lab),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.{name}', value))

    def test_the_administrators_file_wins(self) -> None:
        lifecycle._configure_client()
        options = conf.load((self.lab,))
        self.assertEqual('hvstack-lab', options.cloud.os_cloud)
        own = self.state / 'own.conf'
        own.write_text('[cloud]\nos_cloud = mine\n')
        options = conf.load((self.lab, own))
        self.assertEqual('mine', options.cloud.os_cloud)

    def test_order_of_the_files(self) -> None:
        first, *others = (path.parent for path in conf.FILES)
        self.assertEqual('lab', first.name)
        self.assertNotIn(first, others)

    def test_the_file_of_an_older_release(self) -> None:
        """It would override the file of an administrator."""
        path = self.state / 'hvstack.conf'
        path.write_text('[cloud]\nos_cloud = hvstack-lab\n')
        lifecycle._configure_client()
        self.assertFalse(path.exists())
        self.assertTrue(self.lab.exists())
        path.write_text('[cloud]\nos_cloud = hvstack-lab\nimage = own\n')
        lifecycle._configure_client()
        self.assertTrue(path.exists())
