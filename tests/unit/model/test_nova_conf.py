# SPDX-License-Identifier: Apache-2.0
"""As many guests fit a host with the printed settings as flavors promise."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import testtools
from hypothesis import given
from hypothesis import strategies as st

from hvstack import errors, host_profiles
from hvstack.accept.libvirt_domain import parse_cpu_list
from hvstack.model import host_files
from hvstack.model.configuration import Configuration
from hvstack.model.flavor import Flavor, derive_flavor
from hvstack.model.guest_shape import parse_guest_cpus
from hvstack.model.host import HostProfile, from_mapping
from hvstack.model.host_settings import compute_host_settings
from hvstack.model.host_share import ROLES, count_controller_slots
from tests.unit.model.test_flavor_properties import FAST, hosts

SHIPPED = ('amd', 'vsan', 'vsphere6')
SMALL_KIB, LARGE_KIB = 4, 2048

#: Hosts that no paper has.
ODD: dict[str, dict[str, Any]] = {
    'one-cell': {'sockets': 1, 'cores_per_socket': 6, 'memory_mib': 65536},
    'four-cells': {
        'sockets': 2,
        'cores_per_socket': 12,
        'threads_per_core': 2,
        'memory_mib': 524288,
        'cells': 4,
    },
    'as-the-kernel-counts': {
        'sockets': 2,
        'cores_per_socket': 8,
        'memory_mib': 257571,
        'cells': [
            {'cpus': '0-7', 'memory_mib': 128637},
            {'cpus': '8-15', 'memory_mib': 128934},
        ],
    },
    'uneven': {
        'sockets': 2,
        'cores_per_socket': 8,
        'memory_mib': 98304,
        'cells': [
            {'cpus': '0-3,8-15', 'memory_mib': 65536},
            {'cpus': '4-7', 'memory_mib': 32768},
        ],
    },
    'all-for-guests': {
        'sockets': 2,
        'cores_per_socket': 4,
        'memory_mib': 32769,
        'vm_memory_mib': 32769,
        'cells': [
            {'cpus': '0-3', 'memory_mib': 16385},
            {'cpus': '4-7', 'memory_mib': 16384},
        ],
    },
    'small-pages': {
        'sockets': 2,
        'cores_per_socket': 8,
        'memory_mib': 65536,
        'large_pages': False,
    },
}


def load(name: str) -> HostProfile:
    """Return a shipped host profile, or one of ODD."""
    if name in ODD:
        data = {'name': name, 'threads_per_core': 1, **ODD[name]}
        return from_mapping(data, name)
    return host_profiles.load(name)


@dataclass
class Cell:
    """NUMA cell as nova-compute reports it.

    :param cpus: number of CPUs of cpu_dedicated_set that no guest has.
    :param pages: free pages by size in KiB, without reserved ones.
    """

    cpus: int
    pages: dict[int, int]

    def fits(self, cpus: int, mib: int, page_kib: int) -> bool:
        """Return whether a part of a guest fits, as Nova decides."""
        kib = mib * 1024
        return (
            cpus <= self.cpus
            and kib <= self.pages.get(page_kib, 0) * page_kib
            and kib % page_kib == 0
        )

    def take(self, cpus: int, mib: int, page_kib: int) -> None:
        """Subtract a part of a guest; a negative number gives it back."""
        self.cpus -= cpus
        self.pages[page_kib] -= mib * 1024 // page_kib


class Host:
    """Host with the settings that hvstack prints, and nothing else.

    :param reserved_pages: pages of each cell for programs of the host.
    """

    def __init__(
        self, profile: HostProfile, cpu_policy: str, reserved_pages: int = 0
    ) -> None:
        texts = host_files.render_files(
            profile,
            Configuration(cpu_policy=cpu_policy),
            compute_host_settings(
                profile, cpu_policy, reserved_pages=reserved_pages
            ),
        )
        # Repeated options: no ConfigParser.
        lines = [
            line.partition(' = ')
            for line in texts['nova.conf'].splitlines()
            if not line.startswith('#')
        ]
        options = {name: value for name, _, value in lines}
        self.memory_mib = profile.memory_mib - int(
            options['reserved_host_memory_mb']
        )
        self.dedicated = parse_cpu_list(options.get('cpu_dedicated_set', ''))
        self.shared = parse_cpu_list(options.get('cpu_shared_set', ''))
        reserved = dict.fromkeys(range(len(profile.cells)), 0)
        for name, _, value in lines:
            if name == 'reserved_huge_pages':
                page = dict(part.split(':') for part in value.split(','))
                assert page['size'] == str(LARGE_KIB), value
                reserved[int(page['node'])] = int(page['count'])
        allocated = self.allocate(texts['kernel'], len(profile.cells))
        self.cells = [
            Cell(
                len(self.dedicated & set(cell.cpus)),
                {
                    SMALL_KIB: (cell.memory_mib - 2 * count) * 256,
                    LARGE_KIB: count - reserved[cell.id],
                },
            )
            for cell, count in zip(profile.cells, allocated, strict=True)
        ]
        for cell in self.cells:
            assert cell.pages[SMALL_KIB] >= 0, 'more pages than memory'

    @staticmethod
    def allocate(text: str, cells: int) -> list[int]:
        """Return the pages that the kernel allocates in each cell."""
        match = re.search(
            '^default_hugepagesz=2M hugepagesz=2M hugepages=(.*)$',
            text,
            re.MULTILINE,
        )
        if match is None:
            return [0] * cells
        if ':' not in match[1]:
            # It goes round the cells until it has all pages.
            each, more = divmod(int(match[1]), cells)
            return [each + (cell < more) for cell in range(cells)]
        pairs = (part.split(':') for part in match[1].split(','))
        counts = {int(cell): int(count) for cell, count in pairs}
        return [counts[cell] for cell in range(cells)]

    def add_guest(self, flavor: Flavor) -> bool:
        """Place a guest as Nova's scheduler does, if it fits."""
        specs = flavor.extra_specs
        if self.memory_mib < flavor.ram:
            return False
        if 'hw:numa_nodes' in specs:
            # 'large' is the largest size but the smallest one.
            size = {'large': LARGE_KIB, None: SMALL_KIB}[
                specs.get('hw:mem_page_size')
            ]
            parts = list(split(flavor))
            for chosen in itertools.permutations(self.cells, len(parts)):
                pairs = list(zip(chosen, parts, strict=True))
                if all(cell.fits(*part, size) for cell, part in pairs):
                    for cell, part in pairs:
                        cell.take(*part, size)
                    break
            else:
                return False
        self.memory_mib -= flavor.ram
        return True


def split(flavor: Flavor) -> Iterator[tuple[int, int]]:
    """Yield vCPUs and MiB of each cell of a guest."""
    specs = flavor.extra_specs
    nodes = int(specs['hw:numa_nodes'])
    for node in range(nodes):
        if f'hw:numa_cpus.{node}' in specs:
            yield (
                len(parse_guest_cpus(specs[f'hw:numa_cpus.{node}'])),
                int(specs[f'hw:numa_mem.{node}']),
            )
        else:
            assert flavor.vcpus % nodes == flavor.ram % nodes == 0
            yield flavor.vcpus // nodes, flavor.ram // nodes


def derive(
    profile: HostProfile, policy: str
) -> Iterator[tuple[Configuration, Flavor]]:
    """Yield the worker of each number of instances that has a flavor."""
    for instances in range(1, profile.cpus + 1):
        configuration = Configuration(instances, cpu_policy=policy)
        try:
            yield configuration, derive_flavor(profile, configuration)
        except errors.InputError:
            continue


class PackingTest(testtools.TestCase):
    """Guests of each flavor of a host profile, placed on one host."""

    def check_workers(self, name: str) -> list[int]:
        """Return the instances of a host whose workers were placed."""
        profile = load(name)
        sizes = []
        for configuration, flavor in derive(profile, 'dedicated'):
            host = Host(profile, 'dedicated')
            for worker in range(configuration.instances):
                self.assertTrue(
                    host.add_guest(flavor),
                    f'{name}: {configuration.label}, worker {worker}',
                )
            sizes.append(configuration.instances)
            page_size = flavor.extra_specs.get('hw:mem_page_size')
            self.assertEqual(
                'large' if profile.large_pages else None, page_size
            )
        return sizes

    def test_workers_of_shipped_profiles(self) -> None:
        for name in SHIPPED:
            self.assertEqual(
                list(range(1, load(name).cpus + 1)), self.check_workers(name)
            )

    def test_workers_of_odd_profiles(self) -> None:
        for name in ODD:
            self.assertIn(1, self.check_workers(name))
            self.assertIn(len(load(name).cells), self.check_workers(name))

    def test_local_disks(self) -> None:
        """Nova counts root and ephemeral disks in GiB, vendors in GB."""
        for name in SHIPPED:
            profile = load(name)
            assert profile.disks is not None
            data = profile.disks.count * profile.disks.size_gb * 10**9
            for configuration, flavor in derive(profile, 'shared'):
                count = configuration.instances
                used = count * (flavor.disk + flavor.ephemeral) * 2**30
                self.assertTrue(used <= data, flavor.name)
                if profile.disks.count % count == 0:
                    self.assertTrue(used > data * 97 // 100, flavor.name)
                self.assertTrue(flavor.ephemeral > 0)

    def test_controllers_and_workers(self) -> None:
        """Controllers of several slots come first, as hvstack creates them."""
        for name in SHIPPED:
            profile = load(name)
            for configuration, worker in derive(profile, 'dedicated'):
                count = configuration.instances
                if count > 8 and count % 5:
                    continue
                slots = count_controller_slots(profile, configuration)
                for role in set(ROLES) - {'worker'}:
                    host = Host(profile, 'dedicated')
                    guests = [derive_flavor(profile, configuration, role)]
                    guests += [worker] * (count - slots)
                    self.assertEqual(
                        [True] * len(guests),
                        [host.add_guest(flavor) for flavor in guests],
                        f'{name}: {configuration.label} {role}',
                    )

    def test_shared(self) -> None:
        for name in (*SHIPPED, *ODD):
            profile = load(name)
            for configuration, flavor in derive(profile, 'shared'):
                host = Host(profile, 'shared')
                self.assertEqual(set(range(profile.cpus)), set(host.shared))
                self.assertEqual(
                    [0] * len(host.cells),
                    [cell.pages[LARGE_KIB] for cell in host.cells],
                )
                for _ in range(configuration.instances):
                    self.assertTrue(host.add_guest(flavor), flavor.name)

    def test_reserved_pages(self) -> None:
        """Pages of programs of the host are not those of the guests."""
        profile = load('vsphere6')
        for _, flavor in itertools.islice(derive(profile, 'dedicated'), 4):
            host = Host(profile, 'dedicated', 512)
            self.assertTrue(host.add_guest(flavor))
        error = self.assertRaises(
            errors.InputError, Host, profile, 'dedicated', 5000
        )
        self.assertIn('cell 0', str(error))
        self.assertIn('3840', str(error))
        for policy, name in (('shared', 'amd'), ('dedicated', 'small-pages')):
            self.assertRaises(errors.InputError, Host, load(name), policy, 1)

    @FAST
    @given(hosts(), st.integers(1, 50))
    def test_any_host(self, profile: HostProfile, count: int) -> None:
        configuration = Configuration(count, cpu_policy='dedicated')
        try:
            flavor = derive_flavor(profile, configuration)
        except errors.InputError:
            return
        host = Host(profile, 'dedicated')
        for _ in range(count):
            self.assertTrue(host.add_guest(flavor))


class LinesTest(testtools.TestCase):
    def render(
        self, name: str, **fields: Any
    ) -> tuple[dict[str, str], HostProfile]:
        profile = load(name)
        configuration = Configuration(**fields)
        settings = compute_host_settings(profile, configuration.cpu_policy)
        texts = host_files.render_files(profile, configuration, settings)
        self.assertEqual(set(host_files.FILES), set(texts))
        for text in texts.values():
            self.assertTrue(text.endswith('\n'))
        return texts, profile

    def test_numbers_of_vsphere6(self) -> None:
        """241 of 256 GiB (Table 1) are 123,392 pages, none reserved."""
        texts, _ = self.render('vsphere6', cpu_policy='dedicated')
        self.assertIn('hugepages=123392\n', texts['kernel'])
        self.assertIn('reserved_host_memory_mb = 15360\n', texts['nova.conf'])
        self.assertIn('\ncpu_dedicated_set = 0-39', texts['nova.conf'])
        for cell in (0, 1):
            self.assertIn(
                f'\nreserved_huge_pages = node:{cell},size:2048,count:0',
                texts['nova.conf'],
            )

    def test_uneven_cells_are_named(self) -> None:
        texts, _ = self.render('uneven', cpu_policy='dedicated')
        self.assertRegex(texts['kernel'], r'hugepages=0:\d+,1:\d+\n')

    def test_memory_that_nova_reports(self) -> None:
        settings = compute_host_settings(
            load('vsphere6'), 'dedicated', memory_mib=257500
        )
        self.assertEqual(257500 - 246784, settings.reserved_memory_mib)
        self.assertEqual(123392, settings.page_count)

    def test_filters(self) -> None:
        for policy in ('shared', 'dedicated'):
            texts, _ = self.render('amd', cpu_policy=policy)
            self.assertEqual(
                policy == 'dedicated',
                'NUMATopologyFilter' in texts['scheduler'],
            )

    def test_pinned_local_disks(self) -> None:
        """A backend of the same name for each disk, on Nova's hosts."""
        texts, profile = self.render('vsphere6', disk_pinning=True)
        assert profile.disks is not None
        self.assertEqual(
            profile.disks.count, texts['cinder'].count('volume_group = ')
        )
        self.assertIn('[disk-slot-20]', texts['cinder'])
        self.assertIn('InstanceLocalityFilter\n', texts['cinder-scheduler'])
        self.assertIn('\n[nova]\n', texts['cinder-scheduler'])
        self.assertNotIn('images_type', texts['nova.conf'])

    def test_local_disks(self) -> None:
        texts, _ = self.render('vsphere6')
        text = texts['nova.conf'].replace('\n# ', ' ')
        self.assertIn('at least 10952 of DISK_GB', text)

    def test_time_to_clear_a_disk(self) -> None:
        """A cluster is not deleted before its volumes are overwritten."""
        texts, _ = self.render('vsphere6', disk_pinning=True)
        text = texts['cinder'].replace('\n# ', ' ')
        # 600 GB at 150 MB/s.
        self.assertIn('about 4000 s', text)
        self.assertIn('stack_timeout', text)

    def test_nvme(self) -> None:
        disks = {'count': 4, 'size_gb': 1000, 'pci_alias': 'nvme'}
        profile = from_mapping(
            {
                'name': 'any',
                'threads_per_core': 1,
                **ODD['one-cell'],
                'disks': disks,
            },
            'test',
        )
        configuration = Configuration(disk_pinning=True)
        settings = compute_host_settings(profile, 'shared')
        texts = host_files.render_files(profile, configuration, settings)
        self.assertIn('"name": "nvme"', texts['nova.conf'])
        self.assertIn('PciPassthroughFilter', texts['scheduler'])
        self.assertNotIn('InstanceLocality', texts['cinder-scheduler'])

    def test_neutron(self) -> None:
        """20 workers on 32 hosts are 638 nodes, each with a port."""
        profile = load('vsphere6')
        configuration = Configuration()
        settings = compute_host_settings(profile, 'shared')
        for nodes, quotas in (
            (0, []),
            (500, []),
            (638, ['quota_port = 638']),
        ):
            text = host_files.render_files(
                profile, configuration, settings, nodes
            )['neutron']
            lines = text.splitlines()
            self.assertEqual(
                quotas, [line for line in lines if line.startswith('quota_')]
            )
            self.assertEqual(nodes == 0, '--hosts' in text)
            # They require switches.
            for line in ('#global_physnet_mtu = 9000', '#path_mtu = 9000'):
                self.assertIn(line, lines)
            for section in ('[DEFAULT]', '[ml2]'):
                self.assertIn(section, lines)

    def test_ceph(self) -> None:
        texts, _ = self.render('vsan', storage='ceph')
        self.assertIn('enabled_backends = ceph\n', texts['cinder'])
        texts, _ = self.render('vsan', storage='ceph', disk_pinning=True)
        self.assertIn('[disk-slot-14]', texts['cinder'])
        self.assertIn('RBDDriver', texts['cinder'])

    def test_unknown_policy(self) -> None:
        self.assertRaises(
            errors.InputError, compute_host_settings, load('amd'), 'mixed'
        )
