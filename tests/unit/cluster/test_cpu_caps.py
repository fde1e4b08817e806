# SPDX-License-Identifier: Apache-2.0
"""Test the CPU caps of lab hosts while a sweep measures nothing."""

from pathlib import Path

import fixtures
import testtools

from hvstack import errors
from hvstack.cloud import journal
from hvstack.cluster import cpu_caps, cpu_weights, lab_groups
from hvstack.cluster.lab_groups import HostGroup
from hvstack.sweep import recovery
from tests.unit.cluster.lab_tree import (
    LabTree,
    SystemdScope,
    enter_in_child,
    kill,
)

#: Caps in cores by host while they are in force, and while they are lifted.
IN_FORCE = {'hv-host1': 0.65, 'hv-host2': 0.5}
LIFTED = dict.fromkeys(IN_FORCE)


class CpuCapsTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cloud.journal.DIRECTORY', directory)
        )

    def make(self, version: int) -> tuple[LabTree, list[HostGroup]]:
        lab = self.useFixture(LabTree(version, *IN_FORCE))
        lab.set_cap('hv-host2', 0.5)
        return lab, lab_groups.find_hosts(lab.names)

    def check(
        self, expected: dict[str, float] | dict[str, None], lab: LabTree
    ) -> None:
        caps = {
            group.name: cpu_caps.read_cap(group)
            for group in lab_groups.find_hosts(lab.names)
        }
        self.assertEqual(expected, caps)

    def test_a_run_has_its_caps(self) -> None:
        for version in (1, 2):
            lab, groups = self.make(version)
            with cpu_caps.lifted(groups):
                self.check(LIFTED, lab)
                with cpu_caps.in_force(groups), cpu_weights.raised(groups):
                    self.check(IN_FORCE, lab)
                self.check(LIFTED, lab)
            self.check(IN_FORCE, lab)
            self.assertEqual([], journal.entries())

    def test_caps_are_in_force_after_an_error(self) -> None:
        lab, groups = self.make(1)

        def interrupt() -> None:
            with cpu_caps.lifted(groups):
                raise KeyboardInterrupt

        self.assertRaises(KeyboardInterrupt, interrupt)
        self.check(IN_FORCE, lab)

    def test_the_next_start_puts_caps_into_force(self) -> None:
        lab, groups = self.make(2)
        kill(enter_in_child(cpu_caps.lifted(groups)))
        self.check(LIFTED, lab)
        self.assertEqual(
            ['CPU cap of hv-host1', 'CPU cap of hv-host2'],
            recovery.recover([]),
        )
        self.check(IN_FORCE, lab)

    def test_a_run_after_a_crash_keeps_its_caps(self) -> None:
        """The process that lifted them cannot restore them any more."""
        lab, groups = self.make(1)
        kill(enter_in_child(cpu_caps.lifted(groups)))
        with cpu_caps.in_force(groups):
            self.check(IN_FORCE, lab)
        self.check(IN_FORCE, lab)

    def test_a_sweep_that_is_killed_in_a_run(self) -> None:
        lab, groups = self.make(1)
        pid = enter_in_child(cpu_caps.lifted(groups))
        with cpu_caps.in_force(groups):
            kill(pid)
        self.check(IN_FORCE, lab)

    def test_caps_stay_while_another_process_measures(self) -> None:
        lab, groups = self.make(1)
        with cpu_weights.raised(groups), cpu_caps.lifted(groups):
            self.check(IN_FORCE, lab)
        with cpu_caps.lifted(groups):
            with cpu_caps.lifted(groups):
                self.check(LIFTED, lab)
            # The one that lifted them restores them.
            self.check(LIFTED, lab)
        self.check(IN_FORCE, lab)

    def test_a_run_without_its_caps_is_refused(self) -> None:
        _, groups = self.make(1)

        def refuse(path: Path, _: str) -> None:
            raise PermissionError(13, 'Permission denied', str(path))

        with cpu_caps.lifted(groups):
            self.useFixture(
                fixtures.MonkeyPatch(
                    'hvstack.cluster.cgroup_values.write', refuse
                )
            )
            context = cpu_caps.in_force(groups)
            error = self.assertRaises(errors.RunFailedError, context.__enter__)
            self.assertIn('hv-host1', str(error))

    def test_the_caps_of_the_kernel_are_compared(self) -> None:
        for version in (1, 2):
            lab, groups = self.make(version)
            self.assertEqual([], cpu_caps.list_differences(groups, IN_FORCE))
            lab.set_cap('hv-host2', 0.52)
            with cpu_caps.lifted(groups[:1]):
                self.assertEqual(
                    [
                        'hv-host1: none instead of 0.65',
                        'hv-host2: 0.52 cores instead of 0.5',
                    ],
                    cpu_caps.list_differences(groups, IN_FORCE),
                )
                self.assertEqual(
                    {
                        'cores': None,
                        'weight': 1024 if version == 1 else 100,
                    },
                    cpu_caps.describe(groups)['hv-host1'],
                )

    def test_systemd_writes_the_caps_of_units(self) -> None:
        systemd = self.useFixture(SystemdScope())
        (systemd.scope / 'cpu.max').write_text('65000 100000\n')
        with cpu_caps.lifted([systemd.group]):
            pass
        self.assertEqual(
            [
                ('hvstack-hv-host1.scope', 'CPUQuota='),
                ('hvstack-hv-host1.scope', 'CPUQuota=65.0%'),
            ],
            systemd.changes,
        )

    def test_other_clouds_have_no_caps_to_lift(self) -> None:
        with cpu_caps.lifted([]), cpu_caps.in_force([]):
            self.assertEqual([], journal.entries())
