# SPDX-License-Identifier: Apache-2.0
"""Tests of hvstack.sweep.cluster_needs: sweeps at the scale of the papers."""

import dataclasses

import fixtures
import testtools

from hvstack import errors, host_profiles
from hvstack.hadoop import tuning_profiles
from hvstack.hadoop.sizing import size_node
from hvstack.lab.hosts import sizes
from hvstack.lab.hosts.sizes import HostSize
from hvstack.sweep import search_space
from hvstack.sweep.cluster_needs import ClusterNeeds, Hosts, compute_needs

TB = 10**12
#: vsphere6, Table 1: workers and tasks, with the map tasks of HSSort.
TABLE_1 = {
    'bare-metal': (31, 682, 111_848),
    'i1': (31, 620, 112_220),
    'i2': (62, 682, 111_848),
    'i4': (126, 756, 111_888),
    'i10': (318, 954, 112_572),
    'i20': (636, 636, 111_936),
}


def compute(
    host: str, count: int, size_bytes: int, *values: str, tuning: str = ''
) -> dict[str, ClusterNeeds]:
    """Return the needs by the short name of a configuration."""
    profile = host_profiles.load(host)
    tuning = tuning or host
    space = search_space.explore_space(
        search_space.parse_space(list(values), None),
        profile,
        'kvm',
        {},
        tuning,
    )
    needs = compute_needs(Hosts(profile, count, size_bytes, tuning), space)
    return {need.name: need for need in needs}


class PaperScaleTest(testtools.TestCase):
    def test_table_1_of_vsphere6(self) -> None:
        """Workers, slots and map tasks of 30 TB on 32 hosts."""
        needs = compute('vsphere6', 32, 30 * TB, 'instances=1,2,4,10,20')
        self.assertEqual(
            TABLE_1,
            {
                name: (need.workers, need.tasks, need.sort_maps)
                for name, need in needs.items()
            },
        )
        for name, need in needs.items():
            # Appendix A.
            heaps = need.heaps_mib
            self.assertEqual(
                (1300, 800, 1200),
                (heaps['daemon'], heaps['map'], heaps['reduce']),
                name,
            )
            self.assertGreater(heaps['client'], 512)
            self.assertGreater(heaps['master'], 2000)

    def test_quota_and_stack(self) -> None:
        needs = compute('vsphere6', 32, 10 * TB, 'instances=1,20')
        large = needs['i20']
        assert large.quota is not None
        self.assertEqual(638, large.quota.instances)
        self.assertEqual(1280, large.quota.cores)
        # Heat's default of max_resources_per_stack is 1000.
        self.assertGreater(large.heat_resources, 1000)
        self.assertLess(needs['i1'].heat_resources, 1000)
        self.assertIsNone(needs['bare-metal'].quota)

    def test_deadlines(self) -> None:
        """vsphere6, Table 2: 3825 s natively, and 4292 s with one VM."""
        needs = compute('vsphere6', 32, 30 * TB, 'instances=1,2,4,10,20')
        for name, need in needs.items():
            self.assertGreater(need.deadlines['HSSort'], 2 * 4292, name)
            self.assertEqual(
                {
                    phase: 900 + 2 * seconds
                    for phase, seconds in need.estimates.items()
                },
                need.deadlines,
            )
        ten, thirty = (
            compute('vsphere6', 32, size * TB, 'instances=4')['i4']
            for size in (10, 30)
        )
        self.assertAlmostEqual(
            3,
            (thirty.deadlines['HSSort'] - 900)
            / (ten.deadlines['HSSort'] - 900),
        )

    def test_space(self) -> None:
        """vsphere6, Table 1: 30 TB on 31 or 31.8 hosts with 12 TB each."""
        needs = compute('vsphere6', 32, 30 * TB, 'instances=1,20')
        self.assertEqual(
            {
                'bare-metal': (195 * TB, 372 * TB),
                'i1': (195 * TB, 372 * TB),
                'i20': (195 * TB, 381.6 * TB),
            },
            {
                name: (need.hdfs_bytes, need.disk_bytes)
                for name, need in needs.items()
            },
        )

    def test_vsan(self) -> None:
        """Table 6: 377 map and reduce tasks on 27 workers."""
        for size in (1, 3, 5):
            need = compute('vsan', 7, size * TB, 'instances=4')['i4']
            self.assertEqual((27, 377), (need.workers, need.tasks))
            self.assertGreaterEqual(need.sort_maps, size * TB // 2**28)
        need = compute('vsan', 7, 3 * TB, 'instances=4')['i4']
        # Fig. 4: 84 minutes for 3 TB.
        self.assertGreater(need.deadlines['HSSort'], 2 * 84 * 60)

    def test_amd(self) -> None:
        needs = compute('amd', 5, TB, 'instances=1,2,4')
        self.assertEqual(
            {'bare-metal': 4, 'i1': 4, 'i2': 9, 'i4': 19},
            {name: need.workers for name, need in needs.items()},
        )
        # Guests have the tasks of bare metal.
        self.assertEqual(1, len({need.tasks for need in needs.values()}))

    def test_whole_waves(self) -> None:
        """Configurations that no number of tasks fills are named."""
        for memory_mib, size_bytes, tasks, expected in (
            # Three containers each instead of two: three waves of the others.
            (5376, 8 * 10**8, 24, {'i2-c2': (12, True)}),
            # There is too little data for more than one wave.
            (5376, 10**8, 8, {'i2-c2': (12, False)}),
            (6144, 8 * 10**8, 16, {'i2-c2': (16, True)}),
        ):
            size = HostSize('h', 2, 'worker', 0.65, memory_mib, 2, 768, 'lxc')
            space = search_space.explore_space(
                search_space.parse_space(
                    ['instances=1,2,4', 'cpu_ratio=1,2'], None
                ),
                sizes.profile(size),
                'lxc',
                {},
                'lab',
            )
            hosts = Hosts(sizes.profile(size), 3, size_bytes, 'lab')
            needs = {need.name: need for need in compute_needs(hosts, space)}
            self.assertEqual({tasks}, {need.tasks for need in needs.values()})
            for name in ('bare-metal', 'i1', 'i2', 'i2-c2', 'i4-c2'):
                need = needs[name]
                self.assertEqual(
                    expected.get(name, (8, True)),
                    (need.slots, need.is_filled),
                    (memory_mib, name),
                )

    def test_large_pages(self) -> None:
        needs = compute(
            'vsphere6', 32, TB, 'instances=1,4', 'cpu_policy=dedicated,shared'
        )
        self.assertEqual(0, needs['i4'].pages)
        # 94 % of 256 GiB, in pages of 2 MiB.
        self.assertBetween(needs['i4-dedicated'].pages, 115_000, 124_000)
        self.assertBetween(needs['i1-dedicated'].pages, 115_000, 124_000)

    def assertBetween(self, value: int, low: int, high: int) -> None:
        self.assertTrue(low <= value <= high, value)

    def test_lab_limits_are_gone(self) -> None:
        """No tuning profile of large hosts has the JVMs of the lab."""
        for tuning in tuning_profiles.list_names():
            sizing = size_node(40, 262_144, tuning=tuning)
            self.assertEqual(tuning == 'lab', sizing.small_jvms, tuning)
            self.assertEqual(tuning == 'lab', sizing.daemon_mib is None)

    def test_heap_of_the_namenode(self) -> None:
        """Table 1: 32 hosts with 30 TB need no more than each daemon."""
        for tuning, heap in (('vsphere6', 1300), ('hvstack', 1024)):
            needs = compute(
                *('vsphere6', 32, 30 * TB, 'instances=1,4'), tuning=tuning
            )
            for name in ('bare-metal', 'i1', 'i4'):
                heaps = needs[name].heaps_mib
                self.assertEqual(
                    (heap, heap), (heaps['daemon'], heaps['namenode']), name
                )

    def test_heap_of_the_namenode_follows_from_the_disks(self) -> None:
        host = host_profiles.load('vsphere6')
        assert host.disks
        large = dataclasses.replace(
            host, disks=dataclasses.replace(host.disks, size_gb=8000)
        )
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.host_profiles.load', lambda _: large)
        )
        needs = compute(
            *('vsphere6', 32, 30 * TB, 'instances=1,4'), tuning='hvstack'
        )
        heap = needs['i1'].heaps_mib['namenode']
        # Of 31 workers, whose files have 3 replicas in blocks of 256 MiB.
        blocks = 31 * host.disks.count * 8000 * 10**9 // 3 // (256 << 20)
        self.assertBetween(
            heap * 1_000_000 // 1024, blocks * 9 // 10, blocks + 980
        )
        self.assertEqual(1024, needs['i1'].heaps_mib['daemon'])
        self.assertEqual(1024, needs['bare-metal'].heaps_mib['namenode'])

    def test_too_few_hosts(self) -> None:
        failure = self.assertRaises(
            errors.InputError, compute, 'vsphere6', 1, TB, 'instances=2'
        )
        self.assertIn('hosts: 1, slots', str(failure))
