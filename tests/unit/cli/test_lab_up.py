# SPDX-License-Identifier: Apache-2.0
"""Test which settings the options of 'lab up' change."""

from collections.abc import Callable

import fixtures
import testtools

from hvstack.lab.settings import LabSettings
from hvstack.progress import Progress
from tests.unit.cli.runner import run_command


class CephLayoutsTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.before = LabSettings(
            compute='qemu', ceph=True, ceph_layouts=('copies',)
        )
        self.after: LabSettings | None = None

        def up(
            change: Callable[[LabSettings], LabSettings], _: Progress
        ) -> None:
            self.after = change(self.before)

        self.useFixture(fixtures.MonkeyPatch('hvstack.lab.lifecycle.up', up))

    def get_layouts(self, *args: str) -> tuple[str, ...]:
        status, _, error = run_command('lab', 'up', *args)
        self.assertEqual(0, status, error)
        assert self.after is not None
        return self.after.ceph_layouts

    def test_layouts_remain_until_others_are_named(self) -> None:
        self.assertEqual(('copies',), self.get_layouts())
        self.assertEqual(
            ('groups', 'affinity'),
            self.get_layouts('--ceph-layouts', 'groups', 'affinity'),
        )
        self.assertEqual((), self.get_layouts('--ceph-layouts'))

    def test_lab_without_ceph(self) -> None:
        self.before = LabSettings()
        status, _, error = run_command('lab', 'up', '--ceph-layouts', 'copies')
        self.assertEqual(2, status)
        self.assertIn('Cannot use --ceph-layouts: the lab has no Ceph', error)
        self.assertEqual(
            ('copies',),
            self.get_layouts('--with', 'ceph', '--ceph-layouts', 'copies'),
        )
