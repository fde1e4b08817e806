# SPDX-License-Identifier: Apache-2.0
"""Test the record of the control plane's control group."""

from pathlib import Path

import fixtures
import testtools

from hvstack.cluster import lab_groups
from hvstack.lab import process_cgroup


class RecordTest(testtools.TestCase):
    def test_the_meter_finds_the_control_plane(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        group = directory / 'hvstack-control'
        group.mkdir()
        (group / 'cgroup.procs').write_text('11\n12\n')
        for name, target in (
            ('cluster.lab_groups.CONTROL_PLANE', directory / 'control.json'),
            # One hierarchy has no such group.
            (
                'lab.process_cgroup._groups',
                lambda: [directory / 'none', group],
            ),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.{name}', target))
        process_cgroup.record()
        self.assertEqual({11, 12}, lab_groups.list_control_plane())
        (group / 'cgroup.procs').unlink()
        process_cgroup.end()
        self.assertFalse(lab_groups.CONTROL_PLANE.exists())
