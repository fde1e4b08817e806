# SPDX-License-Identifier: Apache-2.0
"""Cgroups on directories of the test's, which have the kernel's files."""

import os
import subprocess
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors
from hvstack.lab.hosts import cgroups

NAME = 'hv-host1'


class CgroupsCase(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.root = directory / 'cgroup'
        self.root.mkdir()
        self.records = directory / 'records'
        self.systemd = directory / 'systemd'
        self.swap('hvstack.lab.hosts.cgroups.ROOT', self.root)
        self.swap('hvstack.lab.hosts.cgroups._RECORDS', self.records)
        self.swap('hvstack.lab.systemd._CGROUPS', self.root)
        self.swap('hvstack.lab.systemd._RUNNING', self.systemd)

    def swap(self, name: str, value: Any) -> None:
        self.useFixture(fixtures.MonkeyPatch(name, value))

    def unify(self, **files: str) -> None:
        """Turn the tree into that of cgroup version 2."""
        for name, text in {
            'controllers': 'cpuset cpu io memory hugetlb pids rdma misc',
            'subtree_control': '',
            'procs': '1\n2\n',
            **files,
        }.items():
            (self.root / f'cgroup.{name}').write_text(text)


class VersionOneTest(CgroupsCase):
    def setUp(self) -> None:
        super().setUp()
        for controller in cgroups.CONTROLLERS:
            (self.root / controller).mkdir()
            (self.root / controller / 'tasks').touch()
        for file in ('cpuset.cpus', 'cpuset.mems'):
            (self.root / 'cpuset' / file).write_text('0-1\n')

    def test_caps(self) -> None:
        joined = cgroups.create(NAME, 0.65, 1024)
        quota = self.root / 'cpu' / NAME / 'cpu.cfs_quota_us'
        limit = self.root / 'memory' / NAME / 'memory.limit_in_bytes'
        self.assertEqual('65000', quota.read_text())
        self.assertEqual(str(2**30), limit.read_text())
        subprocess.run([*joined, 'true'], check=True)
        for controller in cgroups.CONTROLLERS:
            group = self.root / controller / NAME
            self.assertNotEqual('', (group / 'cgroup.procs').read_text())

    def test_missing_controller(self) -> None:
        cgroups.check()
        (self.root / 'memory' / 'tasks').unlink()
        exc = self.assertRaises(errors.MissingPrerequisiteError, cgroups.check)
        self.assertIn('memory', str(exc))
        self.assertIn('mount -t cgroup', str(exc))


class FilesTest(CgroupsCase):
    """Version 2 without systemd."""

    def setUp(self) -> None:
        super().setUp()
        self.unify()

    def test_caps(self) -> None:
        joined = cgroups.create(NAME, 0.65, 1024)
        group = self.root / NAME
        self.assertEqual('65000 100000', (group / 'cpu.max').read_text())
        self.assertEqual(str(2**30), (group / 'memory.max').read_text())
        self.assertEqual('0', (group / 'memory.swap.max').read_text())
        self.assertEqual([group / 'agents'], cgroups.entrances(NAME))
        self.assertTrue((group / 'agents').is_dir())
        self.assertIn(
            '+memory', (self.root / 'cgroup.subtree_control').read_text()
        )
        subprocess.run([*joined, 'true'], check=True)
        self.assertNotEqual('', (group / 'cgroup.procs').read_text())

    def test_foreign_group_is_refused_and_left_alone(self) -> None:
        group = self.root / NAME
        group.mkdir()
        exc = self.assertRaises(
            errors.BusyError, cgroups.create, NAME, 0.65, 1024
        )
        self.assertIn(str(group), str(exc))
        self.assertEqual([], cgroups.names())
        cgroups.remove(NAME)
        self.assertTrue(group.is_dir())

    def test_group_of_hvstack_is_removed(self) -> None:
        group = self.root / NAME
        (group / 'agents').mkdir(parents=True)
        cgroups.record(NAME)
        self.assertEqual([NAME], cgroups.names())
        cgroups.remove(NAME)
        self.assertFalse(group.exists())
        self.assertEqual([], cgroups.names())

    def test_other_group_in_the_place_of_hvstacks(self) -> None:
        group = self.root / NAME
        group.mkdir()
        cgroups.record(NAME)
        group.rename(self.root / 'other')
        group.mkdir()
        self.assertEqual([group], cgroups.foreign(NAME))
        self.assertEqual([], cgroups.names())

    def test_records_of_another_boot_do_not_count(self) -> None:
        (self.root / NAME).mkdir()
        cgroups.record(NAME)
        self.swap('hvstack.pid_files.boot', lambda: 'another')
        self.assertEqual([], cgroups.names())

    def test_crash_while_it_was_created(self) -> None:
        cgroups.create(NAME, 0.65, 1024)
        (self.records / f'{NAME}.json').write_text(
            (self.records / f'{NAME}.json')
            .read_text()
            .replace(str((self.root / NAME).stat().st_ino), '0')
        )
        self.assertEqual([NAME], cgroups.names())

    def test_oom_kills(self) -> None:
        (self.root / NAME).mkdir()
        (self.root / NAME / 'memory.events').write_text(
            'low 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 0\n'
        )
        self.assertEqual(2, cgroups.oom_kills(NAME))

    def test_fit_machine(self) -> None:
        cgroups.check()

    def test_missing_controllers(self) -> None:
        self.unify(controllers='cpuset cpu io pids')
        exc = self.assertRaises(errors.MissingPrerequisiteError, cgroups.check)
        self.assertIn('controllers memory are missing', str(exc))

    def test_container_with_processes_in_its_root(self) -> None:
        self.unify(type='domain')
        exc = self.assertRaises(errors.MissingPrerequisiteError, cgroups.check)
        self.assertIn('subtree_control', str(exc))
        self.unify(type='domain', procs='')
        cgroups.check()
        self.unify(type='domain', subtree_control='cpuset cpu io memory pids')
        cgroups.check()

    def test_tree_that_cannot_be_written(self) -> None:
        self.swap('os.access', lambda *args: False)
        exc = self.assertRaises(errors.MissingPrerequisiteError, cgroups.check)
        self.assertIn('read-only', str(exc))


class UnitsTest(CgroupsCase):
    """Version 2 where systemd is PID 1."""

    def setUp(self) -> None:
        super().setUp()
        self.unify()
        self.systemd.mkdir()

    def test_scope(self) -> None:
        joined = cgroups.create(NAME, 0.65, 1024)
        self.assertEqual('systemd-run', joined[0])
        self.assertEqual('--', joined[-1])
        self.assertTrue(
            {
                '--scope',
                'hvstack-hv-host1.scope',
                'hvstack.slice',
                '--property=Delegate=yes',
                '--property=CPUQuota=65.0%',
                f'--property=MemoryMax={2**30}',
                '--property=MemorySwapMax=0',
            }
            <= set(joined)
        )
        # systemd makes the group.
        self.assertEqual([], list(self.root.glob('hv*')))

    def test_leaf(self) -> None:
        scope = self.root / 'hvstack.slice' / 'hvstack-hv-host1.scope'
        self.assertEqual([scope / 'agents'], cgroups.entrances(NAME))
        cgroups.create(NAME, 0.65, 1024)
        scope.mkdir(parents=True)
        cgroups.admit(NAME, os.getpid())
        self.assertEqual(
            str(os.getpid()), (scope / 'agents' / 'cgroup.procs').read_text()
        )
        self.assertEqual([NAME], cgroups.names())
