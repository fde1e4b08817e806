# SPDX-License-Identifier: Apache-2.0
"""Each promise is broken once, and the right judgement says so."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import testtools

from hvstack import errors, host_profiles
from hvstack.accept import (
    check_result,
    cluster_checks,
    disk_checks,
    flavor_checks,
    guest_checks,
    libvirt_domain,
)
from hvstack.accept.check_result import CheckResult
from hvstack.cloud import catalogue_publisher, nova_flavors
from hvstack.hadoop.fsck import Block, HDFSFile
from hvstack.model import catalogue
from hvstack.model.configuration import parse
from hvstack.model.flavor import derive_flavor

XML = """
<domain type='qemu'>
  <name>instance-00000001</name>
  <memoryBacking><hugepages><page size='2048' unit='KiB'/></hugepages>
  </memoryBacking>
  <cputune>
    <vcpupin vcpu='0' cpuset='2'/><vcpupin vcpu='1' cpuset='3'/>
    <emulatorpin cpuset='2-3'/><iothreadpin iothread='1' cpuset='2'/>
  </cputune>
  <numatune><memory mode='strict' nodeset='0'/>
    <memnode cellid='0' mode='strict' nodeset='0'/></numatune>
  <devices><disk type='file'><source file='/instances/1/disk'/></disk>
  </devices>
</domain>
"""
SPECS = {'hw:numa_nodes': '1', 'hw:mem_page_size': 'large'}
NODES = [{'host_node': 0, 'cpu_pinning': {'0': 2, '1': 3}}]
MEMORY = {'total': 262144, 'reserved': 8192, 'allocation_ratio': 1.0}
VCPU = {'total': 40, 'reserved': 0, 'allocation_ratio': 1.0}


def bad(check_results: Sequence[CheckResult]) -> list[str]:
    """Return the subjects of the failed checks."""
    return [check.subject for check in check_results if not check.good]


class FlavorsTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        data = catalogue.build_catalogue(
            host_profiles.load('vsan'), [parse('i4')]
        )
        self.catalogue = catalogue.from_mapping(data, lambda *_: 'x.yaml:1')
        self.nova: dict[str, dict[str, Any]] = {
            entry.flavor.name: {
                'vcpus': entry.flavor.vcpus,
                'ram': entry.flavor.ram,
                'disk': entry.flavor.disk,
                'OS-FLV-EXT-DATA:ephemeral': entry.flavor.ephemeral,
                'swap': '',
                'OS-FLV-DISABLED:disabled': False,
                'os-flavor-access:is_public': False,
                'description': catalogue_publisher.described(entry),
                'extra_specs': {
                    **entry.flavor.extra_specs,
                    **catalogue_publisher.labels(self.catalogue.host, entry),
                },
            }
            for entry in self.catalogue.entries
        }
        self.name = self.catalogue.entries[0].flavor.name

    def bad(self, candidates: bool = True) -> list[str]:
        return bad(
            flavor_checks.check_flavors(
                [self.catalogue],
                self.nova,
                candidates=candidates,
                public=False,
            )
        )

    def list_unmanaged_flavors(self) -> list[str]:
        return bad(
            flavor_checks.check_unmanaged_flavors([self.catalogue], self.nova)
        )

    def test_as_published(self) -> None:
        self.assertEqual([], self.bad())
        self.assertEqual([], self.list_unmanaged_flavors())

    def test_changed_spec(self) -> None:
        self.nova[self.name]['extra_specs']['hw:cpu_cores'] = '99'
        self.assertEqual([f'{self.name}: hw:cpu_cores'], self.bad())

    def test_added_and_lost_specs(self) -> None:
        specs = self.nova[self.name]['extra_specs']
        specs['hw:watchdog_action'] = 'reset'
        del specs['hw:cpu_cores']
        self.assertEqual(
            [f'{self.name}: hw:cpu_cores', f'{self.name}: hw:watchdog_action'],
            self.bad(),
        )

    def test_size_access_and_description(self) -> None:
        for name, value in (
            ('ram', 1),
            ('os-flavor-access:is_public', True),
            ('swap', 512),
            ('OS-FLV-DISABLED:disabled', True),
            ('description', 'another one'),
        ):
            before = self.nova[self.name][name]
            self.nova[self.name][name] = value
            self.assertEqual(1, len(self.bad()), name)
            self.nova[self.name][name] = before

    def test_evidence(self) -> None:
        evidence = {
            'percent': 97.0,
            'low': 95.0,
            'high': 99.0,
            'runs': 2,
            'backend': 'kvm',
            'date': '2026-01-01',
            'digest': '0' * 64,
        }
        for earned, prefixes in ((evidence, []), (None, [f'{self.name}: '])):
            entry = replace(
                self.catalogue.entries[0], status='approved', evidence=earned
            )
            self.nova[self.name] |= {
                'description': catalogue_publisher.described(entry),
                'extra_specs': {
                    **entry.flavor.extra_specs,
                    **catalogue_publisher.labels(self.catalogue.host, entry),
                },
            }
            failures = bad(
                flavor_checks.check_flavors(
                    [replace(self.catalogue, entries=(entry,))],
                    self.nova,
                    candidates=False,
                    public=False,
                )
            )
            self.assertEqual(
                [f'{prefix}evidence' for prefix in prefixes], failures
            )

    def test_missing(self) -> None:
        del self.nova[self.name]
        self.assertEqual([self.name], self.bad())
        self.assertEqual([], self.bad(candidates=False))

    def test_stranger(self) -> None:
        extra = {'extra_specs': {}, 'os-flavor-access:is_public': True}
        self.nova['m1.small'] = dict(extra)
        self.assertEqual([], self.list_unmanaged_flavors())
        self.nova['hv-vsan-worker-mine'] = dict(extra)
        self.assertEqual(
            ['hv-vsan-worker-mine'], self.list_unmanaged_flavors()
        )
        self.assertEqual([], self.bad())

    def test_label_on_a_stranger(self) -> None:
        self.nova['mine'] = {
            **self.nova[self.name],
            'os-flavor-access:is_public': True,
        }
        self.assertEqual(['mine'], self.list_unmanaged_flavors())
        for key in self.nova['mine']['extra_specs']:
            if key.startswith(nova_flavors.PREFIX):
                specs = {key: f'status={catalogue_publisher.RETIRED}'}
                self.nova['mine'] = {
                    'extra_specs': specs,
                    'os-flavor-access:is_public': False,
                }
        self.assertEqual([], self.list_unmanaged_flavors())


class HostsTest(testtools.TestCase):
    def test_ratio(self) -> None:
        profile = host_profiles.load('vsphere6')
        inventories = {'VCPU': VCPU, 'MEMORY_MB': MEMORY}
        self.assertEqual(
            [], bad(flavor_checks.check_inventory('h', inventories, profile))
        )
        inventories['VCPU'] = {**VCPU, 'allocation_ratio': 1.5}
        self.assertEqual(
            ['h: ratio of VCPU'],
            bad(flavor_checks.check_inventory('h', inventories, profile)),
        )

    def test_reserved(self) -> None:
        inventories = {
            'VCPU': VCPU,
            'MEMORY_MB': {**MEMORY, 'reserved': 65536},
        }
        self.assertEqual(
            ['h: memory for guests'],
            bad(
                flavor_checks.check_inventory(
                    'h', inventories, host_profiles.load('vsphere6')
                )
            ),
        )

    def test_too_little_reserved(self) -> None:
        # Large enough, but the host itself would have nothing.
        profile = host_profiles.load('vsan')
        memory = {**MEMORY, 'total': 600000, 'reserved': 65535}
        inventories = {'VCPU': VCPU, 'MEMORY_MB': memory}
        self.assertEqual(
            ['h: memory reserved'],
            bad(flavor_checks.check_inventory('h', inventories, profile)),
        )
        memory['reserved'] = 65536
        self.assertEqual(
            [], bad(flavor_checks.check_inventory('h', inventories, profile))
        )

    def test_more_taken_than_there_is(self) -> None:
        # A ratio makes room in Placement, not on the host.
        inventories = {'VCPU': {**VCPU, 'allocation_ratio': 2.0}}
        self.assertEqual(
            [],
            bad(flavor_checks.check_capacity('h', inventories, {'VCPU': 40})),
        )
        self.assertEqual(
            ['h: VCPU taken'],
            bad(flavor_checks.check_capacity('h', inventories, {'VCPU': 41})),
        )

    def test_hosts_that_are_large_enough(self) -> None:
        flavor = self.flavor('i4')
        needs = flavor_checks.required_resources(flavor)
        self.assertEqual({'VCPU': 10, 'MEMORY_MB': 61696}, needs)
        host = {'VCPU': VCPU, 'MEMORY_MB': MEMORY}
        self.assertTrue(flavor_checks.can_hold(host, needs))
        small = {**VCPU, 'total': 2, 'allocation_ratio': 16.0}
        self.assertFalse(
            flavor_checks.can_hold({**host, 'VCPU': small}, needs)
        )
        own = flavor_checks.required_resources(self.flavor('i4-dedicated'))
        self.assertFalse(flavor_checks.can_hold(host, own))

    def test_guest_that_fits_once(self) -> None:
        for total, cells, expected in ((40, 1, 21), (40, 2, 22), (1, 1, 1)):
            vcpus = flavor_checks.vcpus_above_half(total, cells)
            self.assertEqual(expected, vcpus)
            self.assertTrue(vcpus <= total < 2 * vcpus)

    @staticmethod
    def flavor(label: str) -> Any:
        return derive_flavor(host_profiles.load('vsphere6'), parse(label))

    def test_nova_conf(self) -> None:
        text = '[DEFAULT]\nram_allocation_ratio = 1.0\n[compute]\na=b\na=c\n'
        options = libvirt_domain.parse_nova_conf(text)
        self.assertEqual('c', options['compute.a'])
        self.assertEqual(
            ['h: ram_allocation_ratio'],
            bad(flavor_checks.check_nova_conf_ratios('h', options)),
        )


class PinsTest(testtools.TestCase):
    def bad(self, xml: str = XML, **change: Any) -> list[str]:
        kwargs: dict[str, Any] = {
            'dedicated': {2, 3, 4, 5},
            'cells': {0: {0, 1, 2, 3}, 1: {4, 5}},
            'threads': libvirt_domain.parse_threads(
                'qemu-system-x86\t2-3\nCPU 0/TCG\t2\nCPU 1/TCG\t3\n'
            ),
            'nodes': NODES,
            **change,
        }
        nodes, specs = kwargs.pop('nodes'), kwargs.pop('specs', SPECS)
        check_results = guest_checks.check_pins(
            libvirt_domain.parse_domain(xml), specs, nodes, **kwargs
        )
        return [subject.partition(': ')[2] for subject in bad(check_results)]

    def test_good(self) -> None:
        self.assertEqual([], self.bad())

    def test_moved_pin(self) -> None:
        moved = XML.replace("vcpu='1' cpuset='3'", "vcpu='1' cpuset='0'")
        self.assertEqual(['vcpupin', 'in cpu_dedicated_set'], self.bad(moved))

    def test_no_pins(self) -> None:
        without = XML.replace('vcpupin', 'other')
        self.assertIn('in cpu_dedicated_set', self.bad(without))

    def test_floating_emulator_and_iothread(self) -> None:
        floats = XML.replace("cpuset='2-3'", "cpuset='0-1'")
        self.assertEqual(['emulatorpin'], self.bad(floats))
        self.assertEqual([], self.bad(floats, shared={0, 1}))
        thread = XML.replace(
            "iothread='1' cpuset='2'", "iothread='1' cpuset='5'"
        )
        self.assertEqual(['iothreadpin 1'], self.bad(thread))

    def test_memory_elsewhere(self) -> None:
        other = XML.replace(
            "mode='strict' nodeset='0'/></numatune>",
            "mode='strict' nodeset='1'/></numatune>",
        )
        self.assertEqual(['memnode'], self.bad(other))

    def test_small_pages(self) -> None:
        self.assertEqual(
            ['large pages'], self.bad(XML.replace('<page ', '<other '))
        )

    def test_pages_of_a_size(self) -> None:
        for size, good in (
            ('2MB', True),
            ('2048', True),
            ('1GB', False),
            ('1048576', False),
        ):
            specs = {**SPECS, 'hw:mem_page_size': size}
            self.assertEqual(not good, bool(self.bad(specs=specs)), size)

    def test_emulator_and_iothread_elsewhere(self) -> None:
        for title in ('qemu-system-x86', 'IO iothread1'):
            threads = libvirt_domain.parse_threads(
                f'{title}\t0-5\nCPU 0/TCG\t2\nCPU 1/TCG\t3\n'
            )
            self.assertEqual(
                [f"thread '{title}' in /proc"], self.bad(threads=threads)
            )

    def test_two_cells(self) -> None:
        self.assertEqual(
            ['CPUs of cell 0'], self.bad(cells={0: {2}, 1: {3, 4}})
        )

    def test_thread_elsewhere(self) -> None:
        threads = libvirt_domain.parse_threads(
            'CPU 0/TCG\t0-5\nCPU 1/TCG\t3\n'
        )
        self.assertEqual(
            ['thread of vCPU 0 in /proc'], self.bad(threads=threads)
        )
        self.assertEqual(2, len(self.bad(threads={})))

    def test_shared_cpu(self) -> None:
        def guest(name: str, *cpus: int) -> libvirt_domain.Domain:
            pins = {index: {cpu} for index, cpu in enumerate(cpus)}
            return replace(
                libvirt_domain.parse_domain(XML), name=name, vcpus=pins
            )

        first, other = guest('a', 2, 3), guest('b', 3, 4)
        floating = replace(other, name='c', vcpus={0: {0, 1}})
        check_results = guest_checks.check_disjoint_cpus(
            'h', [first], [first, floating], {2, 3, 4}
        )
        self.assertEqual([], bad(check_results))
        self.assertEqual(
            '1: no other guest exists for a comparison',
            check_results[0].observed,
        )
        # Of another flavor, or of no flavor in Nova.
        check_results = guest_checks.check_disjoint_cpus(
            'h', [first], [floating, other, first], {2, 3, 4}
        )
        self.assertEqual(['a and b: CPUs of both'], bad(check_results))
        self.assertEqual(
            [],
            bad(
                guest_checks.check_disjoint_cpus(
                    'h', [first, guest('b', 4)], [], {2, 3, 4}
                )
            ),
        )
        # Nova pins no vCPU of a guest without dedicated CPUs.
        for cpuset, names in (
            ("cpuset='0-1'", []),
            ("cpuset='0-3'", ['a and s: CPUs of both']),
            ('', ['a and s: CPUs of both']),
        ):
            shared = libvirt_domain.parse_domain(
                '<domain><name>s</name>'
                f"<vcpu placement='static' {cpuset}>2</vcpu></domain>"
            )
            check_results = guest_checks.check_disjoint_cpus(
                'h', [first], [shared], {2, 3, 4}
            )
            self.assertEqual(names, bad(check_results))
        # Outside of the set, too.
        check_results = guest_checks.check_disjoint_cpus(
            'h', [first, guest('b', 3)], [], ()
        )
        self.assertEqual(['a and b: CPUs of both'], bad(check_results))

    def test_rebooted(self) -> None:
        check = guest_checks.check_rebooted
        self.assertTrue(check('id\n7\n', 'id\n8\n').good)
        self.assertFalse(check('id\n7\n', 'id\n7').good)
        self.assertFalse(check('', 'id\n8\n').good)
        silent = check('id\n7\n', '', 'Timed out: Connection refused.')
        self.assertFalse(silent.good)
        self.assertEqual(
            'no answer: Timed out: Connection refused.', silent.observed
        )

    def test_api_only(self) -> None:
        self.assertEqual(
            [], bad(guest_checks.check_numa_topology('g', SPECS, 2, NODES))
        )
        self.assertEqual(
            ['g: pinned vCPUs'],
            bad(guest_checks.check_numa_topology('g', SPECS, 3, NODES)),
        )
        twice = [{'host_node': 0, 'cpu_pinning': {'0': 2, '1': 2}}]
        self.assertEqual(
            ['g: CPUs used once'],
            bad(guest_checks.check_numa_topology('g', SPECS, 2, twice)),
        )

    def test_disks(self) -> None:
        path = '/instances/1/disk'
        guest = libvirt_domain.parse_domain(XML)
        for filesystem in ('ext4', 'device', 'fuseblk', 'overlay'):
            self.assertEqual(
                [],
                bad(disk_checks.check_local_disks(guest, {path: filesystem})),
                filesystem,
            )
        for filesystem in ('nfs4', 'fuse.glusterfs', 'ceph'):
            self.assertEqual(
                1,
                len(
                    bad(
                        disk_checks.check_local_disks(
                            guest, {path: filesystem}
                        )
                    )
                ),
            )
        self.assertEqual(1, len(bad(disk_checks.check_local_disks(guest, {}))))
        ceph = XML.replace(f"file='{path}'", "protocol='rbd' name='p/v'")
        self.assertEqual(
            1,
            len(
                bad(
                    disk_checks.check_local_disks(
                        libvirt_domain.parse_domain(ceph), {}
                    )
                )
            ),
        )

    def test_no_xml(self) -> None:
        for text in ('', 'error: no domain', '<capabilities/>'):
            error = self.assertRaises(
                errors.InputError, libvirt_domain.parse_domain, text
            )
            self.assertNotIn('\n', str(error))

    def test_cells(self) -> None:
        xml = (
            '<capabilities><host><topology><cells num="1"><cell id="0"><cpus '
            'num="2"><cpu id="0"/><cpu id="1"/></cpus></cell></cells>'
            '</topology></host></capabilities>'
        )
        self.assertEqual({0: {0, 1}}, libvirt_domain.parse_cells(xml))

    def test_numbers(self) -> None:
        self.assertEqual(
            {0, 1, 3, 8}, libvirt_domain.parse_cpu_list('0-3,8,^2')
        )
        self.assertEqual(set(), libvirt_domain.parse_cpu_list(''))
        self.assertRaises(
            errors.InputError, libvirt_domain.parse_cpu_list, 'all'
        )


class ClusterTest(testtools.TestCase):
    WORKERS = {'w1': 'a', 'w2': 'a', 'w3': 'b'}
    HOSTS = {'10.0.0.1': 'a', '10.0.0.2': 'a', '10.0.0.3': 'b'}
    NAMES = dict(zip(HOSTS, WORKERS, strict=True))

    def test_spread(self) -> None:
        def list_failures(
            controllers: dict[str, str], **overrides: Any
        ) -> list[str]:
            kwargs = {'per_host': 2, 'shared': False, **overrides}
            return bad(
                cluster_checks.check_placement(
                    self.WORKERS, controllers, **kwargs
                )
            )

        self.assertEqual([], list_failures({'c1': 'c'}))
        self.assertEqual(
            ['controllers beside workers'], list_failures({'c1': 'a'})
        )
        self.assertEqual(
            [], list_failures({'c1': 'a', 'c2': 'b'}, shared=True)
        )
        self.assertEqual(
            ['hosts of controllers'], list_failures({'c1': 'c', 'c2': 'c'})
        )
        self.assertIn(
            'workers on host a', list_failures({'c1': 'c'}, per_host=1)
        )

    def test_spread_with_free_slots(self) -> None:
        """Nova may spread workers that do not use every slot."""
        workers = {'w1': 'a', 'w2': 'b', 'w3': 'c'}
        for shared, expected in ((True, []), (False, ['hosts with workers'])):
            check_results = cluster_checks.check_placement(
                workers, {'c1': 'd'}, per_host=2, shared=shared
            )
            self.assertEqual(expected, bad(check_results))

    def test_server_without_host(self) -> None:
        check_results = cluster_checks.check_placement(
            {'w1': ''}, {}, per_host=1, shared=True
        )
        self.assertEqual(['workers on host (none)'], bad(check_results))

    def groups(self, text: str) -> list[str]:
        topology = cluster_checks.parse_topology_table(text)
        return bad(
            cluster_checks.check_node_groups(
                'table', topology, self.HOSTS, self.NAMES
            )
        )

    def test_topology_table(self) -> None:
        good = '10.0.0.1 /r/g1\n10.0.0.2 /r/g1\n10.0.0.3 /r/g2\nw1 /r/g1\n'
        self.assertEqual([], self.groups(good))
        mismatched = good.replace('10.0.0.2 /r/g1', '10.0.0.2 /r/g2')
        self.assertEqual(
            ['table: w1 and w2', 'table: w2 and w3'], self.groups(mismatched)
        )
        self.assertEqual(
            ['table: w3'], self.groups(good.replace('10.0.0.3', '10.9.9.9'))
        )

    def test_flat_topology(self) -> None:
        text = (
            'Rack: /default-rack\n   10.0.0.1:9866 (w1) In Service\n'
            '   10.0.0.2:9866 (w2)\n   10.0.0.3:9866 (w3)\n\n'
        )
        topology = cluster_checks.parse_print_topology(text)
        self.assertEqual(
            ['NameNode: w1 and w3', 'NameNode: w2 and w3'],
            bad(
                cluster_checks.check_node_groups(
                    'NameNode', topology, self.HOSTS, self.NAMES
                )
            ),
        )

    def test_replicas(self) -> None:
        def list_failures(*addresses: str) -> list[str]:
            block = Block('blk_1', 10, len(addresses), list(addresses))
            file = HDFSFile('/f', 10, 2, 1, [block])
            return bad(cluster_checks.check_replicas([file], self.HOSTS, 2, 1))

        self.assertEqual([], list_failures('10.0.0.1', '10.0.0.3'))
        self.assertEqual(
            ['blocks with two replicas on one host'],
            list_failures('10.0.0.1', '10.0.0.2'),
        )
        self.assertEqual(
            ['blocks with less than 2 replicas'], list_failures('10.0.0.1')
        )
        self.assertEqual(
            ['files with blocks'],
            bad(cluster_checks.check_replicas([], self.HOSTS, 2, 1)),
        )

    def test_node_groups(self) -> None:
        good = {
            'net.topology.impl': 'org.apache.hadoop.net'
            '.NetworkTopologyWithNodeGroup',
            'dfs.block.replicator.classname': 'org.apache.hadoop.hdfs.server'
            '.blockmanagement.BlockPlacementPolicyWithNodeGroup',
            'dfs.use.dfs.network.topology': 'false',
        }
        self.assertEqual([], bad(cluster_checks.check_hve_properties(good)))
        for name in good:
            without = {key: good[key] for key in good if key != name}
            self.assertEqual(
                [f'NameNode: {name}'],
                bad(cluster_checks.check_hve_properties(without)),
            )

    def test_worker_too_many(self) -> None:
        before = {'h1': {'PCPU': 4}}
        reason = 'worker: No valid host was found.'

        def list_failures(
            status: str, status_reason: str, used: int
        ) -> list[str]:
            after = {'h1': {'PCPU': used}}
            return bad(
                cluster_checks.check_full_cluster(
                    status, status_reason, before, after
                )
            )

        self.assertEqual([], list_failures('UPDATE_FAILED', reason, 4))
        first = 'stack of one worker more'
        self.assertEqual([first], list_failures('UPDATE_FAILED', 'Quota', 4))
        self.assertEqual([first], list_failures('UPDATE_COMPLETE', reason, 4))
        self.assertEqual(
            [first, 'h1: taken'], list_failures('UPDATE_COMPLETE', '', 5)
        )
        self.assertEqual(
            ['h1: taken'], list_failures('UPDATE_FAILED', reason, 5)
        )

    def test_volume_backend(self) -> None:
        pools = [
            {
                'name': f'h@{name}#p',
                'capabilities': {'volume_backend_name': name},
            }
            for name in ('slot1', 'slot2')
        ]

        def list_failures(spec: str, host: str) -> list[str]:
            specs = {'volume_backend_name': spec}
            return bad(
                disk_checks.check_volume_backend(
                    't', 'slot1', specs, host, pools
                )
            )

        self.assertEqual([], list_failures('slot1', 'h@slot1#p'))
        self.assertEqual(
            ['t: its backend'], list_failures('slot2', 'h@slot1#p')
        )
        self.assertEqual(
            ['t: backend of a volume'], list_failures('slot1', 'h@slot2#p')
        )
        self.assertEqual(
            ['t: backend of a volume'], list_failures('slot1', 'nowhere')
        )
        # Of a cluster of volume services, with its name in those of pools.
        self.assertEqual([], list_failures('slot1', 'h2@slot1#p'))
        self.assertEqual(
            ['t: backend of a volume'], list_failures('slot1', 'h2@slot2#p')
        )

    def test_disk_of_two(self) -> None:
        locations = [
            ('h@slot1#p', 's1'),
            ('h@slot1#p', 's1'),
            ('h@slot2#p', 's2'),
        ]
        self.assertEqual([], bad(disk_checks.check_own_disks(locations)))
        self.assertEqual(
            ['servers on h@slot2#p'],
            bad(
                disk_checks.check_own_disks([*locations, ('h@slot2#p', 's3')])
            ),
        )

    def test_refused(self) -> None:
        fault = 'No valid host was found. '
        self.assertEqual(
            [], bad(cluster_checks.check_refused('x', 'ERROR', fault, {}))
        )
        self.assertEqual(
            ['x'], bad(cluster_checks.check_refused('x', 'ACTIVE', '', {}))
        )
        self.assertEqual(
            ['x'], bad(cluster_checks.check_refused('x', 'ERROR', 'disk', {}))
        )
        self.assertEqual(
            ['x: allocations left'],
            bad(cluster_checks.check_refused('x', 'ERROR', fault, {'p': {}})),
        )

    def test_left_overs(self) -> None:
        check_results = cluster_checks.check_deleted(
            {'ports': ['p1'], 'servers': []}
        )
        self.assertEqual(['ports left'], bad(check_results))

    def test_text_form(self) -> None:
        check_results = [check_result.check_equal('a', 1, 2, 'excerpt')]
        self.assertEqual(
            check_results,
            check_result.load_results(
                check_result.dump_results(check_results)
            ),
        )
