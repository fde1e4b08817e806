# SPDX-License-Identifier: Apache-2.0
"""Test the derivation of flavors against the papers."""

import testtools

from hvstack import errors, host_profiles
from hvstack.model.configuration import Configuration, parse
from hvstack.model.flavor import Remainder, compute_remainder, derive_flavor
from hvstack.model.flavor_specs import join_worker_traits
from hvstack.model.host import HostProfile, from_mapping
from hvstack.model.host_share import (
    compute_guest_memory_mib,
    count_controller_slots,
)

GIB = 1024


def profile(**changes: object) -> HostProfile:
    """Return a small host: 2 sockets of 4 cores and 2 threads, 16 GiB."""
    data = {
        'name': 'small',
        'sockets': 2,
        'cores_per_socket': 4,
        'threads_per_core': 2,
        'memory_mib': 16 * GIB,
        'vm_memory_mib': 14 * GIB,
        **changes,
    }
    return from_mapping(data, 'test')


class PaperTable(testtools.TestCase):
    """The shares of the papers' own tables."""

    def test_vsphere6_table_1(self) -> None:
        host = host_profiles.load('vsphere6')
        expected = {
            1: (40, 241 * GIB, 20),
            2: (20, 120.5 * GIB, 10),
            4: (10, 60.25 * GIB, 5),
            10: (4, 24.1 * GIB, 2),
            20: (2, 12.05 * GIB, 1),
        }
        for count, (vcpus, ram, disks) in expected.items():
            flavor = derive_flavor(host, Configuration(count))
            self.assertEqual(
                (vcpus, int(ram), disks),
                (flavor.vcpus, flavor.ram, flavor.disks),
            )

    def test_large_pages_round_down_to_the_page(self) -> None:
        host = host_profiles.load('vsphere6')
        for count in (1, 2, 4, 10, 20):
            flavor = derive_flavor(
                host, Configuration(count, cpu_policy='dedicated')
            )
            self.assertEqual(241 * GIB // count // 2 * 2, flavor.ram)

    def test_vsan_table_4(self) -> None:
        flavor = derive_flavor(
            host_profiles.load('vsan'), Configuration(4, storage='ceph')
        )
        self.assertEqual(
            (14, 48 * GIB, 40, 0, 4, 400),
            (
                flavor.vcpus,
                flavor.ram,
                flavor.disk,
                flavor.ephemeral,
                flavor.disks,
                flavor.disk_size_gb,
            ),
        )

    def test_volumes_are_for_ceph(self) -> None:
        """Local and pinned disks are those of the host."""
        host = host_profiles.load('vsan')
        for name, ephemeral, disks, size in (
            # 4.8 TB are 4470 GiB, of which 98 percent are for files.
            ('i4', 4380 - 40, 3, 1600),
            ('i2-pinned', 0, 7, 1600),
            ('i2-ceph', 0, 4, 400),
        ):
            flavor = derive_flavor(host, parse(name))
            self.assertEqual(
                (ephemeral, disks, size),
                (flavor.ephemeral, flavor.disks, flavor.disk_size_gb),
            )

    def test_amd_section_1_4(self) -> None:
        host = host_profiles.load('amd')
        flavor = derive_flavor(host, Configuration(4, cpu_policy='dedicated'))
        self.assertEqual(
            (8, 30 * GIB, 2), (flavor.vcpus, flavor.ram, flavor.disks)
        )
        self.assertEqual('1', flavor.extra_specs['hw:numa_nodes'])


class Memory(testtools.TestCase):
    """What all guests may have together."""

    def test_rule_is_94_percent_of_256_gib_rounded_up(self) -> None:
        host = profile(memory_mib=256 * GIB, vm_memory_mib=None)
        self.assertEqual(241 * GIB, compute_guest_memory_mib(host))

    def test_smaller_hosts_give_less_and_larger_ones_more(self) -> None:
        shares = []
        for gib in (2, 4, 16, 64, 128, 256, 512, 2048):
            host = profile(memory_mib=gib * GIB, vm_memory_mib=None)
            shares.append(compute_guest_memory_mib(host) / host.memory_mib)
        at_256 = shares[5]
        self.assertTrue(all(share <= 0.94 for share in shares[:5]))
        self.assertTrue(all(at_256 < share < 1 for share in shares[6:]))

    def test_reserved_and_given_memory_go_before_the_rule(self) -> None:
        host = profile(vm_memory_mib=None, reserved_memory_mib=4 * GIB)
        self.assertEqual(12 * GIB, compute_guest_memory_mib(host))
        self.assertEqual(14 * GIB, compute_guest_memory_mib(profile()))


class Shared(testtools.TestCase):
    """Guests whose vCPUs float."""

    def test_no_numa_no_pages_no_pins(self) -> None:
        specs = derive_flavor(profile(), Configuration(4)).extra_specs
        self.assertEqual(
            {
                'hw:cpu_sockets': '1',
                'hw:cpu_cores': '4',
                'hw:cpu_threads': '1',
                'hw:vif_multiqueue_enabled': 'false',
                'hw_rng:allowed': 'true',
            },
            specs,
        )

    def test_ratios_are_exact(self) -> None:
        flavor = derive_flavor(
            profile(vm_memory_mib=10 * GIB),
            Configuration(2, cpu_ratio=1.5, ram_ratio=1.2),
        )
        self.assertEqual((12, 6 * GIB), (flavor.vcpus, flavor.ram))

    def test_cpu_ratio_is_at_most_the_instances(self) -> None:
        derive_flavor(profile(), Configuration(2, cpu_ratio=2))
        exc = self.assertRaises(
            errors.InputError,
            derive_flavor,
            profile(),
            Configuration(2, cpu_ratio=2.5),
        )
        self.assertIn('at most 2', str(exc))
        self.assertRaises(
            errors.InputError, derive_flavor, profile(), Configuration(2, 2.05)
        )

    def test_ram_share_is_at_most_the_host(self) -> None:
        derive_flavor(profile(), Configuration(1, ram_ratio=1.142))
        exc = self.assertRaises(
            errors.InputError,
            derive_flavor,
            profile(),
            Configuration(1, ram_ratio=1.143),
        )
        self.assertIn('ram_ratio', str(exc))

    def test_more_instances_than_cpus(self) -> None:
        exc = self.assertRaises(
            errors.InputError, derive_flavor, profile(), Configuration(17)
        )
        self.assertIn('i17: 17 instances leave no CPU or memory', str(exc))

    def test_rest_is_told(self) -> None:
        host = profile(vm_memory_mib=10000, disks={'count': 8, 'size_gb': 100})
        remainder = compute_remainder(host, Configuration(3))
        self.assertEqual(Remainder(vcpus=1, ram=1, disks=2), remainder)
        self.assertEqual('1 CPUs, 1 MiB, 2 data disks', str(remainder))
        self.assertEqual(
            'nothing', str(compute_remainder(profile(), Configuration(2)))
        )

    def test_rest_with_ratios(self) -> None:
        remainder = compute_remainder(profile(), Configuration(3, cpu_ratio=2))
        self.assertEqual(32 - 3 * 10, remainder.vcpus)

    def test_shares_and_quota_only_when_asked(self) -> None:
        host = profile(cpu_cap=0.65)
        shared = profile(policy={'cpu_shares': True})
        two = Configuration(2)
        self.assertFalse(
            [
                key
                for key in derive_flavor(host, two).extra_specs
                if 'quota' in key
            ]
        )
        shares = derive_flavor(shared, two).extra_specs
        self.assertEqual('8192', shares['quota:cpu_shares'])
        max_shares = derive_flavor(shared, Configuration(1)).extra_specs
        self.assertEqual('10000', max_shares['quota:cpu_shares'])
        guest = derive_flavor(host, two, cpu_quota='guest').extra_specs
        self.assertEqual('32500', guest['quota:cpu_quota'])
        vcpu = derive_flavor(host, two, cpu_quota='vcpu').extra_specs
        self.assertEqual('4062', vcpu['quota:cpu_quota'])
        self.assertEqual('100000', vcpu['quota:cpu_period'])
        self.assertRaises(
            errors.InputError, derive_flavor, host, two, cpu_quota='host'
        )

    def test_many_vcpus_need_an_iommu(self) -> None:
        """With more than 255 vCPUs, libvirt requires interrupt remapping."""
        host = profile(sockets=2, cores_per_socket=64)
        key = 'hw:viommu_model'
        for name in ('i1', 'i1-dedicated', 'i2-c2'):
            flavor = derive_flavor(host, parse(name))
            self.assertEqual(
                (256, 'intel'), (flavor.vcpus, flavor.extra_specs[key])
            )
        smaller = profile(sockets=1, cores_per_socket=255, threads_per_core=1)
        for flavor in (
            derive_flavor(host, parse('i2')),
            derive_flavor(smaller, parse('i1')),
        ):
            self.assertNotIn(key, flavor.extra_specs)


class Dedicated(testtools.TestCase):
    """Guests with CPUs and pages of their own."""

    def specs(self, count: int, **changes: object) -> dict[str, str]:
        chosen = Configuration(count, cpu_policy='dedicated')
        return derive_flavor(profile(**changes), chosen).extra_specs

    def test_one_cell_each(self) -> None:
        self.assertEqual(
            {
                'hw:cpu_policy': 'dedicated',
                'hw:cpu_thread_policy': 'require',
                'hw:emulator_threads_policy': 'share',
                'hw:numa_nodes': '1',
                'hw:mem_page_size': 'large',
                'hw:locked_memory': 'true',
                'hw:cpu_sockets': '1',
                'hw:cpu_cores': '2',
                'hw:cpu_threads': '2',
                'hw:vif_multiqueue_enabled': 'false',
                'hw_rng:allowed': 'true',
            },
            self.specs(4),
        )

    def test_host_without_large_pages(self) -> None:
        large, small = (
            self.specs(4, **changes)
            for changes in ({}, {'large_pages': False})
        )
        self.assertEqual(
            {'hw:mem_page_size', 'hw:locked_memory'}, set(large) - set(small)
        )
        self.assertEqual({}, {k: small[k] for k in set(small) - set(large)})

    def test_one_guest_spans_all_cells(self) -> None:
        specs = self.specs(1)
        self.assertEqual('2', specs['hw:numa_nodes'])
        self.assertEqual('2', specs['hw:cpu_sockets'])
        self.assertNotIn('hw:numa_cpus.0', specs)

    def test_part_of_a_core_is_no_sibling(self) -> None:
        specs = self.specs(5)
        self.assertEqual('require', specs['hw:cpu_thread_policy'])
        specs = self.specs(16)
        self.assertEqual('prefer', specs['hw:cpu_thread_policy'])
        self.assertEqual('1', specs['hw:cpu_threads'])

    def test_odd_count_keeps_to_cells_and_leaves_a_rest(self) -> None:
        chosen = Configuration(3, cpu_policy='dedicated')
        self.assertEqual(4, derive_flavor(profile(), chosen).vcpus)
        self.assertEqual(4, compute_remainder(profile(), chosen).vcpus)

    def test_cells_of_many_cpus(self) -> None:
        """Nova stores at most 255 characters of an extra spec."""
        cells = [
            {'cpus': '0-7', 'memory_mib': 4 * GIB},
            {'cpus': '8-255', 'memory_mib': 12 * GIB},
        ]
        specs = self.specs(
            1, cells=cells, vm_memory_mib=16 * GIB, cores_per_socket=64
        )
        self.assertEqual('8-255', specs['hw:numa_cpus.1'])

    def test_cells_that_differ_are_listed(self) -> None:
        cells = [
            {'cpus': '0-3', 'memory_mib': 4 * GIB},
            {'cpus': '4-15', 'memory_mib': 12 * GIB},
        ]
        specs = self.specs(1, cells=cells, vm_memory_mib=16 * GIB)
        self.assertEqual('0-3', specs['hw:numa_cpus.0'])
        self.assertEqual('4-15', specs['hw:numa_cpus.1'])
        self.assertEqual('4096', specs['hw:numa_mem.0'])
        self.assertEqual('12288', specs['hw:numa_mem.1'])
        self.assertEqual('1', specs['hw:cpu_sockets'])

    def test_largest_guest_in_cells_that_differ(self) -> None:
        cells = [
            {'cpus': '0-3', 'memory_mib': 4 * GIB},
            {'cpus': '4-15', 'memory_mib': 12 * GIB},
        ]
        chosen = Configuration(4, cpu_policy='dedicated')
        flavor = derive_flavor(
            profile(cells=cells, vm_memory_mib=None), chosen
        )
        self.assertEqual(4, flavor.vcpus)

    def test_ratios_are_refused(self) -> None:
        for ratio in ('cpu_ratio', 'ram_ratio'):
            self.assertRaises(
                errors.InputError,
                Configuration,
                2,
                cpu_policy='dedicated',
                **{ratio: 1.5},
            )


class Disks(testtools.TestCase):
    """A worker's data."""

    DISKS = {'count': 8, 'size_gb': 100}

    def test_local_is_ephemeral(self) -> None:
        flavor = derive_flavor(profile(disks=self.DISKS), Configuration(3))
        # 200 GB are 186 GiB, of which 182 are for files, also the root disk.
        self.assertEqual((2, 182 - 40), (flavor.disks, flavor.ephemeral))
        smaller = derive_flavor(
            profile(disks=self.DISKS), Configuration(3), disk_gb=30
        )
        self.assertEqual(182 - 30, smaller.ephemeral)

    def test_root_disk_that_fills_the_space(self) -> None:
        host = profile(disks={'count': 8, 'size_gb': 10})
        error = self.assertRaises(
            errors.InputError, derive_flavor, host, Configuration(2)
        )
        self.assertIn('40 GiB', str(error))
        self.assertIn('36 GiB', str(error))
        # Those root disks are elsewhere.
        for name in ('i2-ceph', 'i2-pinned'):
            self.assertEqual(40, derive_flavor(host, parse(name)).disk)

    def test_disks_of_a_lab_are_files(self) -> None:
        """Root disks of its guests are not on them."""
        host = profile(disks={'count': 2, 'size_gb': 2}, policy={'lab': True})
        flavor = derive_flavor(host, Configuration(2))
        self.assertEqual((40, 2), (flavor.disk, flavor.ephemeral))

    def test_more_workers_than_disks_share_their_space(self) -> None:
        flavor = derive_flavor(profile(disks=self.DISKS), Configuration(16))
        self.assertEqual((0, 45 - 40), (flavor.disks, flavor.ephemeral))
        self.assertEqual(
            0,
            compute_remainder(
                profile(disks=self.DISKS), Configuration(16)
            ).disks,
        )

    def test_ceph_and_pinned_have_volumes(self) -> None:
        for name in ('i2-ceph', 'i2-pinned'):
            flavor = derive_flavor(profile(disks=self.DISKS), parse(name))
            self.assertEqual((4, 0), (flavor.disks, flavor.ephemeral))

    def test_pinning_needs_a_whole_disk_each(self) -> None:
        for host in (profile(disks=self.DISKS), profile()):
            self.assertRaises(
                errors.InputError, derive_flavor, host, parse('i16-pinned')
            )

    def test_nvme_is_passed_through_only_when_pinned(self) -> None:
        host = profile(disks={**self.DISKS, 'pci_alias': 'nvme'})
        key = 'pci_passthrough:alias'
        self.assertEqual(
            'nvme:4', derive_flavor(host, parse('i2-pinned')).extra_specs[key]
        )
        self.assertNotIn(key, derive_flavor(host, parse('i2')).extra_specs)
        self.assertNotIn(
            key,
            derive_flavor(host, parse('i2-pinned'), 'controller').extra_specs,
        )

    def test_nvme_may_be_near_another_cell(self) -> None:
        """Nova's default keeps such guests off other cells than the disks'."""
        host = profile(disks={**self.DISKS, 'pci_alias': 'nvme'})
        key = 'hw:pci_numa_affinity_policy'
        specs = derive_flavor(host, parse('i2-dedicated-pinned')).extra_specs
        self.assertEqual('nvme:4', specs['pci_passthrough:alias'])
        self.assertEqual('preferred', specs[key])
        for name in ('i2-pinned', 'i2-dedicated'):
            self.assertNotIn(key, derive_flavor(host, parse(name)).extra_specs)


class Roles(testtools.TestCase):
    """Controllers, traits and names."""

    TRAITS = {'worker': 'CUSTOM_W', 'controller': 'CUSTOM_C'}

    def test_lab_controller_has_a_whole_host(self) -> None:
        traits = {**self.TRAITS, 'local': 'CUSTOM_L'}
        host = profile(controllers='host', traits=traits)
        flavor = derive_flavor(
            host, Configuration(4, cpu_ratio=2, ram_ratio=1.1), 'controller'
        )
        self.assertEqual((16, 14 * GIB), (flavor.vcpus, flavor.ram))
        self.assertEqual('required', flavor.extra_specs['trait:CUSTOM_C'])
        self.assertNotIn('trait:CUSTOM_W', flavor.extra_specs)
        self.assertNotIn('trait:CUSTOM_L', flavor.extra_specs)

    def test_lab_controller_is_the_same_in_every_configuration(self) -> None:
        host = profile(controllers='host')
        flavors = [
            derive_flavor(host, parse(name), 'controller')
            for name in ('i1', 'i2', 'i2-c2', 'i2-m1.1', 'i4-ceph')
        ]
        self.assertEqual([flavors[0]] * 5, flavors)

    def test_traits_of_the_workers_hosts(self) -> None:
        host = profile(traits={**self.TRAITS, 'ceph': 'CUSTOM_CEPH'})
        for label, traits in (
            ('i1', 'CUSTOM_W'),
            ('i1-ceph', 'CUSTOM_W,CUSTOM_CEPH'),
        ):
            self.assertEqual(traits, join_worker_traits(host, parse(label)))
        host = profile(traits={'local': 'CUSTOM_L'})
        self.assertEqual('CUSTOM_L', join_worker_traits(host, parse('i1')))
        self.assertEqual('', join_worker_traits(host, parse('i1-ceph')))

    def test_worker_requires_its_trait_and_its_storage(self) -> None:
        host = profile(traits={**self.TRAITS, 'ceph': 'CUSTOM_CEPH'})
        specs = derive_flavor(host, parse('i2-ceph')).extra_specs
        self.assertEqual(
            {'trait:CUSTOM_W', 'trait:CUSTOM_CEPH'},
            {key for key in specs if key.startswith('trait:')},
        )

    def test_namenode_takes_slots_for_four_vcpus(self) -> None:
        host = host_profiles.load('vsphere6')
        expected = {1: 40, 2: 20, 4: 10, 10: 4, 20: 4, 40: 4}
        for count, vcpus in expected.items():
            self.assertEqual(
                vcpus,
                derive_flavor(host, Configuration(count), 'namenode').vcpus,
            )

    def test_controller_on_a_host_for_it_alone_shares_cpus(self) -> None:
        host = profile(controllers='host')
        shared, dedicated = (
            derive_flavor(
                host, Configuration(2, cpu_policy=policy), 'controller'
            )
            for policy in ('shared', 'dedicated')
        )
        self.assertEqual(shared, dedicated)

    def test_pinned_controller_may_span_cells(self) -> None:
        host = profile(sockets=2, cores_per_socket=3, threads_per_core=1)
        chosen = Configuration(6, cpu_policy='dedicated')
        flavor = derive_flavor(host, chosen, 'controller')
        self.assertEqual(4, flavor.vcpus)
        self.assertEqual('2', flavor.extra_specs['hw:numa_nodes'])

    def test_pinned_controller_has_four_vcpus(self) -> None:
        """A fifth of 20 CPUs is 4, but one of a cell of 10 has 3."""
        host = profile(cores_per_socket=10, threads_per_core=1)
        for name, vcpus in (('i5', 4), ('i5-dedicated', 6)):
            configuration = parse(name)
            controller = derive_flavor(host, configuration, 'controller')
            slots = count_controller_slots(host, configuration)
            worker = derive_flavor(host, configuration)
            self.assertEqual(vcpus, controller.vcpus)
            self.assertEqual(worker.vcpus * slots, controller.vcpus)

    def test_pinned_controller_fits_its_cells_memory(self) -> None:
        """Cells of 2 and 4 CPUs, of equal memory: 4 slots of 1 and a fifth."""
        host = profile(
            sockets=1,
            cores_per_socket=3,
            memory_mib=10 * GIB,
            vm_memory_mib=10 * GIB,
            cells=[
                {'cpus': '0-1', 'memory_mib': 5 * GIB},
                {'cpus': '2-5', 'memory_mib': 5 * GIB},
            ],
        )
        flavor = derive_flavor(
            host, Configuration(5, cpu_policy='dedicated'), 'controller'
        )
        self.assertEqual(
            (4, '2'), (flavor.vcpus, flavor.extra_specs['hw:numa_nodes'])
        )

    def test_unknown_role(self) -> None:
        self.assertRaises(
            errors.InputError,
            derive_flavor,
            profile(),
            Configuration(),
            'edge',
        )

    def test_name_is_stable_and_tells_shapes_apart(self) -> None:
        flavor = derive_flavor(profile(), Configuration(2))
        self.assertEqual(
            'hv-small-worker-i2-c1-m1-local-shared-unpinned-v8-m7168-d40',
            flavor.name,
        )
        other = derive_flavor(
            profile(vm_memory_mib=12 * GIB), Configuration(2)
        )
        root = derive_flavor(profile(), Configuration(2), disk_gb=7)
        self.assertEqual(3, len({flavor.name, other.name, root.name}))
        self.assertEqual(7, root.disk)
