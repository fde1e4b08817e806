# SPDX-License-Identifier: Apache-2.0
"""Test the CPU weight of lab hosts during a run."""

from pathlib import Path

import fixtures
import testtools

from hvstack.cloud import journal
from hvstack.cluster import cpu_weights, lab_groups
from hvstack.cluster.lab_groups import HostGroup
from hvstack.sweep import recovery
from tests.unit.cluster.lab_tree import (
    LabTree,
    SystemdScope,
    enter_in_child,
    kill,
)


class CpuWeightsTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cloud.journal.DIRECTORY', directory)
        )

    def make(self, version: int) -> tuple[LabTree, list[HostGroup]]:
        lab = self.useFixture(LabTree(version, 'hv-host1', 'hv-host2'))
        return lab, lab_groups.find_hosts(lab.names)

    def read(self, lab: LabTree) -> list[str]:
        return [lab.weight(name).read_text().strip() for name in lab.names]

    def test_weights_are_raised_and_restored(self) -> None:
        for version, before, largest in (
            (1, '1024', '262144'),
            (2, '100', '10000'),
        ):
            lab, groups = self.make(version)
            lab.weight('hv-host1').write_text('7\n')
            with cpu_weights.raised(groups) as messages:
                self.assertEqual([largest] * 2, self.read(lab))
                self.assertEqual([], messages)
                (entry,) = journal.entries()
                self.assertEqual(cpu_weights.KIND, entry.kind)
                # This process still runs.
                self.assertEqual([], cpu_weights.recover())
                self.assertEqual([largest] * 2, self.read(lab))
            self.assertEqual(['7', before], self.read(lab))
            self.assertEqual([], journal.entries())

    def test_weights_are_restored_after_an_error(self) -> None:
        lab, groups = self.make(1)

        def interrupt() -> None:
            with cpu_weights.raised(groups):
                raise KeyboardInterrupt

        self.assertRaises(KeyboardInterrupt, interrupt)
        self.assertEqual(['1024'] * 2, self.read(lab))
        self.assertEqual([], journal.entries())

    def test_weights_are_restored_after_a_crash(self) -> None:
        lab, groups = self.make(1)
        kill(enter_in_child(cpu_weights.raised(groups)))
        self.assertEqual(['262144'] * 2, self.read(lab))
        lines = recovery.recover([])
        self.assertEqual(
            ['CPU weight of hv-host1', 'CPU weight of hv-host2'], lines
        )
        self.assertEqual(['1024'] * 2, self.read(lab))
        self.assertEqual([], journal.entries())
        self.assertEqual([], cpu_weights.recover())

    def test_the_next_run_restores_the_usual_weight(self) -> None:
        """Not the raised weight that it finds."""
        lab, groups = self.make(2)
        kill(enter_in_child(cpu_weights.raised(groups)))
        with cpu_weights.raised(groups):
            pass
        self.assertEqual(['100'] * 2, self.read(lab))

    def test_a_new_group_keeps_its_weight(self) -> None:
        lab, groups = self.make(1)
        kill(enter_in_child(cpu_weights.raised(groups)))
        weight = lab.weight('hv-host1')
        # Renamed, so that the inode cannot be used again.
        Path(weight).rename(weight.with_name('old'))
        weight.write_text('99')
        self.assertEqual(['CPU weight of hv-host2'], cpu_weights.recover())
        self.assertEqual(['99', '1024'], self.read(lab))

    def test_a_weight_that_cannot_be_written_is_reported(self) -> None:
        _, groups = self.make(1)

        def refuse(path: Path, _: str) -> None:
            raise PermissionError(13, 'Permission denied', str(path))

        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cluster.cgroup_values.write', refuse)
        )
        with cpu_weights.raised(groups) as messages:
            self.assertEqual(2, len(messages))
            self.assertIn('hv-host1', messages[0])

    def test_other_clouds_have_nothing_to_raise(self) -> None:
        with cpu_weights.raised([]) as messages:
            self.assertEqual([], messages)
            self.assertEqual([], journal.entries())

    def test_systemd_writes_the_weights_of_units(self) -> None:
        """Of hosts and of their slice, which competes with other slices."""
        systemd = self.useFixture(SystemdScope())
        for directory in (systemd.slice_dir, systemd.scope):
            (directory / 'cpu.weight').write_text('100\n')
        with cpu_weights.raised([systemd.group]):
            pass
        self.assertEqual(
            [
                ('hvstack-hv-host1.scope', 'CPUWeight=10000'),
                ('hvstack.slice', 'CPUWeight=10000'),
                ('hvstack-hv-host1.scope', 'CPUWeight=100'),
                ('hvstack.slice', 'CPUWeight=100'),
            ],
            systemd.changes,
        )
