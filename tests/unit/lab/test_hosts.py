# SPDX-License-Identifier: Apache-2.0
"""Sizes, caps and files of lab hosts, without starting one."""

import json
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors
from hvstack.lab.hosts import cgroups, fake, host, sizes
from hvstack.lab.settings import LabSettings

GIB = 1024


def plan(**changes: Any) -> list[sizes.HostSize]:
    memory = changes.pop('memory', 24 * GIB)
    wanted = LabSettings(compute='lxc').change(**changes)
    return sizes.plan(wanted, cores=2, memory=memory)


class SizesTest(testtools.TestCase):
    def test_default_lab(self) -> None:
        first, second, third = plan()
        self.assertEqual(
            ('controller', 0.5, 4096),
            (first.role, first.cpu_cap, first.memory_mib),
        )
        for one in (second, third):
            self.assertEqual(
                ('worker', 0.65, 5120),
                (one.role, one.cpu_cap, one.memory_mib),
            )
        self.assertEqual('10.251.0.13', third.mgmt)
        self.assertEqual('10.253.0.13', third.tunnel)

    def test_caps_leave_the_control_plane_something(self) -> None:
        for count in range(1, 8):
            hosts = plan(hosts=count)
            self.assertLessEqual(sum(one.cpu_cap for one in hosts), 1.81)
            self.assertLessEqual(
                sum(one.memory_mib for one in hosts), 20 * GIB
            )

    def test_small_machine_is_refused(self) -> None:
        exc = self.assertRaises(
            errors.MissingPrerequisite, plan, memory=8 * GIB
        )
        self.assertIn('--hosts', str(exc))

    def test_racks_take_turns(self) -> None:
        zones = [one.zone for one in plan(hosts=5, racks=2)]
        self.assertEqual(['', 'rack1', 'rack2', 'rack1', 'rack2'], zones)

    def test_size_can_be_set(self) -> None:
        options = {'host_sizes': {'hv-host2': {'cpu_cap': 0.3}}}
        self.assertEqual(0.3, plan(options=options)[1].cpu_cap)

    def test_unknown_field_of_a_size(self) -> None:
        options = {'host_sizes': {'hv-host2': {'cores': 1}}}
        exc = self.assertRaises(errors.InputError, plan, options=options)
        self.assertIn('hv-host2', str(exc))

    def test_profile_keeps_the_agents_memory(self) -> None:
        worker = sizes.profile(plan()[1])
        self.assertEqual('lab-worker', worker.name)
        self.assertEqual(sizes.RESERVED_MIB, worker.reserved_memory_mib)
        self.assertEqual({'worker': sizes.WORKER_TRAIT}, worker.traits)
        self.assertTrue(worker.scale_model)


class DedicatedTest(testtools.TestCase):
    def test_rest_is_shared(self) -> None:
        self.assertEqual('0', sizes.rest_of('1', 2))
        self.assertEqual('0,4,5,7', sizes.rest_of('1-3,6', 8))
        self.assertEqual('', sizes.rest_of('', 2))

    def test_sets_that_cannot_be(self) -> None:
        for text in ('0-1', '2', 'one', '1-'):
            exc = self.assertRaises(errors.InputError, sizes.rest_of, text, 2)
            self.assertIn(repr(text), str(exc))


class FakeProfileTest(testtools.TestCase):
    def read(self, data: object) -> dict[str, Any]:
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'profile'
        path.write_text(data if isinstance(data, str) else json.dumps(data))
        return fake.read(path)

    def test_own_example_is_taken(self) -> None:
        self.assertEqual(fake.DEFAULT_PROFILE, self.read(fake.DEFAULT_PROFILE))

    def test_wrong_files_are_named_with_field(self) -> None:
        cell = dict(fake.DEFAULT_PROFILE['cells'][0])
        for data, word in (
            ('{', 'JSON'),
            ([], 'disk_gb'),
            ({'cells': [{}], 'disk_gb': 1}, 'dedicated'),
            ({'cells': [{**cell, 'x': 1}], 'disk_gb': 1}, "'x'"),
            (
                {'cells': [{**cell, 'memory_mib': '1'}], 'disk_gb': 1},
                'cells[0].memory_mib',
            ),
        ):
            exc = self.assertRaises(errors.InputError, self.read, data)
            self.assertIn(word, str(exc))


class CgroupsTest(testtools.TestCase):
    def test_every_controller_is_joined(self) -> None:
        if cgroups.version() != 1:
            self.skipTest('this machine has cgroup version 2')
        names = {path.parent.name for path in cgroups.folders('hv-host1')}
        self.assertEqual(set(cgroups.CONTROLLERS), names)


class DisksTest(testtools.TestCase):
    def test_lost_disk_is_recognised(self) -> None:
        lost = '/1fb2429f-f8ba-4de6-96b2-578f32f641e4/disk (deleted)'
        self.assertTrue(host._LOST_DISK.fullmatch(lost))
        self.assertIsNone(host._LOST_DISK.fullmatch('/home/me/disk'))
