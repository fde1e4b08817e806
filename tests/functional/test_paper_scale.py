# SPDX-License-Identifier: Apache-2.0
"""Plans of hvstack's programs for the clusters of the papers.

Each test runs the installed command as a process of its own, with neither a
lab, a cloud nor the hvstack.conf of this machine. It needs no root; all tests
together take about 6 s.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import processutils
from tests.unit.sweep.test_cluster_needs import TABLE_1

HVSTACK = str(Path(sys.executable).with_name('hvstack'))
INSTANCES = 'instances=1,2,4,10,20'
#: Heat's default of max_resources_per_stack.
HEAT_LIMIT = 1000
#: vsphere6, Table 2: TeraSort of 30 TB on bare metal and in one VM a host.
NATIVE_SECONDS, ONE_VM_SECONDS = 3825, 4292
#: vsan, Fig. 4: TeraSort of 3 TB.
VSAN_SECONDS = 84 * 60


class PaperScaleTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path

    def call(self, *argv: str) -> str:
        """Return the output of a command."""
        # A clean environment: no cloud, and no options of hvstack.conf.
        return processutils.run(
            [
                *('env', '-i', f'HOME={self.directory}'),
                f'PATH={os.defpath}',
                f'HVSTACK_ETC_DIR={self.directory}',
                f'HVSTACK_STATE_DIR={self.directory}',
                *(HVSTACK, *argv),
            ],
            timeout=120,
        ).stdout

    def plan(
        self, host: str, hosts: int, size: str, *values: str, tuning: str = ''
    ) -> dict[str, Any]:
        """Return the needs of the configurations of a plan by their names."""
        output = self.call(
            *('sweep', 'plan', '--host', host, '--hosts', str(hosts)),
            *('--size', size, '-f', 'json'),
            *(('--tuning', tuning) if tuning else ()),
            *('--values', *(values or (INSTANCES,))),
        )
        return {need['name']: need for need in json.loads(output)['clusters']}

    def test_table_1_of_vsphere6(self) -> None:
        """Workers, map tasks and heaps of 30 TB on 32 hosts."""
        needs = self.plan('vsphere6', 32, '30TB', tuning='vsphere6')
        self.assertEqual(
            TABLE_1,
            {
                name: (need['workers'], need['tasks'], need['sort_maps'])
                for name, need in needs.items()
            },
        )
        for name, need in needs.items():
            # Appendix A.
            heaps = need['heaps_mib']
            self.assertEqual(
                (1300, 800, 1200),
                (heaps['daemon'], heaps['map'], heaps['reduce']),
                name,
            )

    def test_plan_of_10_tb(self) -> None:
        """Quotas, Heat's limit and heaps of the default tuning profile."""
        needs = self.plan('vsphere6', 32, '10TB')
        self.assertEqual(
            ['bare-metal', 'i1', 'i2', 'i4', 'i10', 'i20'], list(needs)
        )
        for name, need in needs.items():
            # The lab's JVMs are smaller.
            self.assertGreaterEqual(need['heaps_mib']['daemon'], 1024, name)
            self.assertGreaterEqual(need['heaps_mib']['map'], 800, name)
            self.assertGreaterEqual(need['heaps_mib']['client'], 300, name)
            # Blocks of 256 MiB: each is a map task.
            self.assertGreaterEqual(need['sort_maps'], 10**13 // 2**28)
        servers = {
            name: need['quota']['instances']
            for name, need in needs.items()
            if need['quota']
        }
        self.assertEqual(
            {'i1': 32, 'i2': 64, 'i4': 128, 'i10': 320, 'i20': 638}, servers
        )
        self.assertEqual(
            ['i10', 'i20'],
            [
                name
                for name, need in needs.items()
                if need['heat_resources'] > HEAT_LIMIT
            ],
        )

    def test_deadlines(self) -> None:
        """No published phase would reach its deadline."""
        needs = self.plan('vsphere6', 32, '30TB', tuning='vsphere6')
        for name, seconds in (
            ('bare-metal', NATIVE_SECONDS),
            ('i1', ONE_VM_SECONDS),
        ):
            self.assertGreater(
                needs[name]['deadlines']['HSSort'], 2 * seconds, name
            )
        need = self.plan('vsan', 7, '3TB', 'instances=4', tuning='vsan')['i4']
        self.assertGreater(need['deadlines']['HSSort'], 2 * VSAN_SECONDS)

    def test_vsan(self) -> None:
        """vsan, Table 6: 377 tasks in 27 workers, whatever the data."""
        sort_maps = []
        for size in (1, 3, 5):
            need = self.plan(
                'vsan', 7, f'{size}TB', 'instances=4', tuning='vsan'
            )['i4']
            self.assertEqual((27, 377), (need['workers'], need['tasks']))
            self.assertGreaterEqual(need['sort_maps'], size * 10**12 // 2**28)
            sort_maps.append(need['sort_maps'])
        self.assertEqual(sorted(set(sort_maps)), sort_maps)

    def test_amd(self) -> None:
        """Guests have the tasks of bare metal."""
        needs = self.plan('amd', 5, '1TB', 'instances=1,2,4', tuning='amd')
        self.assertEqual(
            {'bare-metal': 4, 'i1': 4, 'i2': 9, 'i4': 19},
            {name: need['workers'] for name, need in needs.items()},
        )
        self.assertEqual(1, len({need['tasks'] for need in needs.values()}))

    def test_huge_pages(self) -> None:
        """nova.conf allocates what the dedicated flavors of a host use."""
        needs = self.plan(
            'vsphere6', 32, '10TB', INSTANCES, 'cpu_policy=dedicated'
        )
        settings = json.loads(
            self.call(
                *('host', 'nova-conf', 'vsphere6', '-f', 'json'),
                *('--cpu-policy', 'dedicated'),
            )
        )
        pages = sum(cell['count'] for cell in settings['huge_pages'])
        self.assertEqual(
            {
                'i1-dedicated': pages,
                'i2-dedicated': pages,
                'i4-dedicated': pages,
                'i10-dedicated': pages - 2,
                'i20-dedicated': pages - 12,
            },
            {
                name: need['pages']
                for name, need in needs.items()
                if name != 'bare-metal'
            },
        )
        self.assertIn(
            f'hugepages={pages}', settings['kernel_parameters'].split()
        )
        # The memory of the machine is that of the guests and of the host.
        self.assertEqual(
            settings['memory_mib'],
            settings['reserved_host_memory_mb'] + 2 * pages,
        )

    def test_duration(self) -> None:
        """A plan without recorded runs estimates the hours from the hosts."""
        output = self.call(
            *('sweep', 'plan', '--host', 'vsphere6', '--hosts', '32'),
            *('--size', '10TB', '--values', INSTANCES),
        )
        self.assertRegex(output, r'estimated at \d+ to \d+ hours')
        self.assertRegex(output, r'the search ends after about \d+ runs')
        self.assertIn('  deadlines: HSGen ', output)
