# SPDX-License-Identifier: Apache-2.0
"""Test who used the CPU time of a lab's machine."""

import json
import os
import resource
from pathlib import Path
from types import SimpleNamespace

import fixtures
import testtools

from hvstack.cluster import lab_groups, machine_cpu
from hvstack.cluster.machine_cpu import CpuTimes
from tests.unit.cluster.lab_tree import LabTree

TICKS = os.sysconf('SC_CLK_TCK')


class MachineCpuTest(testtools.TestCase):
    def set_proc(self, busy: float, processes: dict[int, float]) -> None:
        """Set the busy time of the machine and of processes."""
        proc = Path(self.useFixture(fixtures.TempDir()).path)
        ticks = [round(busy * TICKS / 5)] * 3
        idle = [10**6, 10**6]
        (proc / 'stat').write_text(
            f'cpu {" ".join(map(str, [*ticks, *idle, *ticks[:2], 10**6]))} 0\n'
            'cpu0 1 1 1 1\n'
        )
        for pid, seconds in processes.items():
            (proc / str(pid)).mkdir()
            quarter = round(seconds * TICKS / 4)
            fields = ['S', *['0'] * 10, *[str(quarter)] * 4, '20']
            (proc / str(pid) / 'stat').write_text(
                f'{pid} (a) b) {" ".join(fields)}\n'
            )
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cluster.machine_cpu._PROC', proc)
        )

    def test_foreign_time_is_the_remainder(self) -> None:
        for version in (1, 2):
            lab = self.useFixture(LabTree(version, 'hv-host1', 'hv-host2'))
            lab.set_control_plane(7, 8)
            meter = machine_cpu.create_meter(['hv-host1', 'hv-host2'])
            assert meter
            self.set_proc(100, {7: 4, 8: 0})
            before = meter.read()
            lab.set_usage('hv-host1', 3)
            lab.set_usage('hv-host2', 2.5)
            self.set_proc(110, {7: 5, 8: 0.4})
            after = meter.read()
            assert before and after
            spans = after.subtract(before)
            self.assertEqual((10, 5.5), (spans.busy, spans.hosts), version)
            self.assertAlmostEqual(1.4, spans.control_plane)
            self.assertAlmostEqual(
                10 - 5.5 - 1.4 - spans.hvstack, spans.foreign, 2
            )
            self.assertGreaterEqual(spans.seconds, 0)

    def test_children_in_the_hosts_do_not_count_twice(self) -> None:
        self.useFixture(LabTree(1, 'hv-host1'))
        meter = machine_cpu.create_meter(['hv-host1'])
        assert meter
        usages = {resource.RUSAGE_SELF: 3.0, resource.RUSAGE_CHILDREN: 50.0}
        self.useFixture(
            fixtures.MonkeyPatch(
                'resource.getrusage',
                lambda scope: SimpleNamespace(
                    ru_utime=usages[scope], ru_stime=1.0
                ),
            )
        )
        times = meter.read()
        assert times
        self.assertEqual(4, times.own)

    def test_ended_processes_and_rounding_are_not_negative(self) -> None:
        before = CpuTimes(0, 10, 5, 9, 1)
        spans = CpuTimes(2, 12, 7.01, 3, 1).subtract(before)
        self.assertEqual((0, 0), (spans.control_plane, spans.foreign))

    def test_hosts_of_other_clouds_have_no_meter(self) -> None:
        lab = self.useFixture(LabTree(1, 'hv-host1'))
        self.assertIsNone(machine_cpu.create_meter([]))
        self.assertIsNone(machine_cpu.create_meter(['hv-host1', 'compute1']))
        record = lab.records / 'hv-host1.json'
        content = json.loads(record.read_text())
        for changed in (
            # Another boot, and a group that was created since.
            {**content, 'boot': 'other'},
            {**content, 'inodes': dict.fromkeys(content['inodes'], 1)},
            {},
        ):
            record.write_text(json.dumps(changed))
            self.assertIsNone(machine_cpu.create_meter(['hv-host1']))

    def test_a_host_that_was_powered_off_has_no_time(self) -> None:
        lab = self.useFixture(LabTree(2, 'hv-host1'))
        meter = machine_cpu.create_meter(['hv-host1'])
        assert meter
        (lab.list_directories('hv-host1')[0] / 'cpu.stat').unlink()
        self.assertIsNone(meter.read())

    def test_unknown_control_plane(self) -> None:
        self.useFixture(LabTree(1))
        self.assertEqual(set(), lab_groups.list_control_plane())
