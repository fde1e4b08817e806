# SPDX-License-Identifier: Apache-2.0
"""NUMA cells of lab hosts on machines with one cell, several, and none."""

import dataclasses
from pathlib import Path

import fixtures
import testtools

from hvstack.lab.hosts import numa, sizes
from hvstack.lab.settings import LabSettings
from hvstack.model import host
from hvstack.model.configuration import parse
from hvstack.model.flavor import derive_flavor

TWO = ((0, 1, 2, 3), (4, 5, 6, 7))
MIB = 3584


class NumaTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.nodes = Path(self.useFixture(fixtures.TempDir()).path)

    def add_node(self, number: int, cpus: tuple[int, ...]) -> None:
        for cpu in cpus:
            path = self.nodes / f'node{number}' / f'cpu{cpu}'
            path.mkdir(parents=True)
        (self.nodes / f'node{number}').mkdir(exist_ok=True)
        (self.nodes / f'node{number}' / 'cpulist').touch()

    def choose(
        self, backend: str, cpus: int, nodes: Path | None = None
    ) -> tuple[tuple[int, ...], ...]:
        """Return the CPUs of each cell."""
        cells = numa.choose_cells(backend, cpus, MIB, nodes or self.nodes)
        self.assertEqual(list(range(len(cells))), [cell.id for cell in cells])
        return tuple(cell.cpus for cell in cells)

    def test_kernel_without_numa(self) -> None:
        missing = self.nodes / 'missing'
        self.assertEqual((), numa.read_cells(missing))
        self.assertEqual(((0, 1),), self.choose('kvm', 2, missing))

    def test_two_cells(self) -> None:
        for number, cpus in enumerate(TWO):
            self.add_node(number, cpus)
        self.assertEqual(TWO, numa.read_cells(self.nodes))
        for backend in ('kvm', 'qemu'):
            self.assertEqual(TWO, self.choose(backend, 8))

    def test_containers_have_one_cell(self) -> None:
        for number, cpus in enumerate(TWO):
            self.add_node(number, cpus)
        self.assertEqual((tuple(range(8)),), self.choose('lxc', 8))

    def test_host_that_reports_fewer_cpus(self) -> None:
        for number, cpus in enumerate(TWO):
            self.add_node(number, cpus)
        self.assertEqual(((0, 1, 2, 3),), self.choose('kvm', 4))

    def test_cells_that_no_host_profile_describes(self) -> None:
        cases: dict[str, dict[int, tuple[int, ...]]] = {
            'unequal cells': {0: (0, 1, 2), 1: (3,)},
            'a cell of memory alone': {0: (0, 1), 1: (2, 3), 2: ()},
            'a gap': {0: (0, 1), 2: (2, 3)},
        }
        for name, nodes in cases.items():
            directory = self.nodes / name.replace(' ', '-')
            directory.mkdir()
            self.nodes, before = directory, self.nodes
            for number, cpus in nodes.items():
                self.add_node(number, cpus)
            self.nodes = before
            self.assertEqual(
                ((0, 1, 2, 3),),
                self.choose('kvm', 4, directory),
                name,
            )

    def test_cell_of_memory_alone(self) -> None:
        self.add_node(0, (0, 1))
        self.add_node(1, ())
        self.assertEqual((), numa.read_cells(self.nodes))

    def test_memory(self) -> None:
        for number, cpus in enumerate(TWO):
            self.add_node(number, cpus)
        for backend, memory_mib, parts in (
            ('kvm', 3584, [1792, 1792]),
            ('kvm', 3585, [1792, 1793]),
            ('lxc', 3585, [3585]),
        ):
            cells = numa.choose_cells(backend, 8, memory_mib, self.nodes)
            self.assertEqual(parts, [cell.memory_mib for cell in cells])


class ProfileTest(testtools.TestCase):
    def profile(self, compute: str) -> host.HostProfile:
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.lab.hosts.numa.read_cells', lambda _: TWO
            )
        )
        lab_settings = LabSettings(compute=compute, hosts=2)
        worker = sizes.plan(lab_settings, cores=8, memory=16 * 1024)[-1]
        return sizes.profile(worker)

    def test_cells_of_the_machine(self) -> None:
        profile = self.profile('kvm')
        self.assertEqual((2, 4), (profile.sockets, profile.cores_per_socket))
        self.assertEqual(TWO, tuple(cell.cpus for cell in profile.cells))
        self.assertEqual(
            profile.memory_mib, sum(cell.memory_mib for cell in profile.cells)
        )
        data = profile.to_mapping()
        self.assertEqual(profile, host.from_mapping(data, 'hosts.yaml'))

    def test_guest_in_one_cell(self) -> None:
        profile = dataclasses.replace(self.profile('kvm'), large_pages=True)
        flavor = derive_flavor(profile, parse('i2-dedicated'), 'worker')
        self.assertEqual(4, flavor.vcpus)
        self.assertEqual('1', flavor.extra_specs['hw:numa_nodes'])
        self.assertEqual('large', flavor.extra_specs['hw:mem_page_size'])

    def test_containers(self) -> None:
        profile = self.profile('lxc')
        self.assertEqual((1, 8), (profile.sockets, profile.cores_per_socket))
        self.assertEqual(1, len(profile.cells))
