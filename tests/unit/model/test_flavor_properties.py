# SPDX-License-Identifier: Apache-2.0
"""What derivation makes fits: I of them on the host, at the same time."""

import itertools

import testtools
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hvstack import errors
from hvstack.model.configuration import Configuration
from hvstack.model.flavor import Flavor, derive, guest_memory_mib, rest
from hvstack.model.host import HostProfile, NumaCell, from_mapping
from hvstack.model.slots import cluster_size

FAST = settings(max_examples=60, deadline=None)


@st.composite
def hosts(draw: st.DrawFn) -> HostProfile:
    """Draw a host whose cells may differ."""
    sockets = draw(st.integers(1, 4))
    cores = draw(st.integers(1, 12))
    threads = draw(st.integers(1, 2))
    total = sockets * cores * threads
    count = draw(st.integers(1, min(4, total)))
    cuts = sorted(
        draw(
            st.sets(
                st.integers(1, max(total - 1, 1)),
                min_size=count - 1,
                max_size=count - 1,
            )
        )
        if total > 1
        else []
    )
    bounds = [0, *cuts, total]
    cells = []
    for first, last in itertools.pairwise(bounds):
        cells.append(
            {
                'cpus': f'{first}-{last - 1}',
                'memory_mib': draw(st.integers(512, 65536)),
            }
        )
    memory = sum(int(cell['memory_mib']) for cell in cells)
    return from_mapping(
        {
            'name': 'any',
            'sockets': sockets,
            'cores_per_socket': cores,
            'threads_per_core': threads,
            'memory_mib': memory,
            'cells': cells,
            'disks': {'count': draw(st.integers(1, 24)), 'size_gb': 100},
            'reserved_memory_mib': draw(
                st.one_of(st.none(), st.integers(0, memory // 2))
            ),
        },
        'drawn',
    )


def fit(cells: list[tuple[int, int]], flavor: Flavor, count: int) -> bool:
    """Pack guests first-fit into cells, spanning ones largest part first."""
    specs = flavor.extra_specs
    nodes = int(specs['hw:numa_nodes'])
    parts = [
        (
            len(specs[f'hw:numa_cpus.{node}'].split(','))
            if f'hw:numa_cpus.{node}' in specs
            else flavor.vcpus // nodes,
            int(specs.get(f'hw:numa_mem.{node}', flavor.ram // nodes)),
        )
        for node in range(nodes)
    ]
    free = list(cells)
    for _ in range(count):
        used: set[int] = set()
        for vcpus, ram in sorted(parts, reverse=True):
            for number, (cpus, memory) in enumerate(free):
                if number not in used and cpus >= vcpus and memory >= ram:
                    free[number] = (cpus - vcpus, memory - ram)
                    used.add(number)
                    break
            else:
                return False
    return True


def shape(cell: NumaCell) -> tuple[int, int]:
    """Return a cell's CPUs and memory."""
    return len(cell.cpus), cell.memory_mib


class Fits(testtools.TestCase):
    """Properties of every host and configuration."""

    @FAST
    @given(
        hosts(),
        st.integers(1, 50),
        st.sampled_from([0.5, 1.0, 1.2, 1.5, 2.0, 4.0]),
        st.sampled_from([0.5, 1.0, 1.1, 1.5]),
    )
    def test_shared(
        self, host: HostProfile, count: int, cpu: float, ram: float
    ) -> None:
        chosen = Configuration(count, cpu, ram)
        try:
            flavor = derive(host, chosen)
        except errors.InputError:
            return
        # No guest is larger than its host, whatever the ratio.
        self.assertTrue(0 < flavor.vcpus <= host.cpus)
        self.assertTrue(0 < flavor.ram <= host.memory_mib)
        # All of them fit what the ratios promise.
        self.assertTrue(count * flavor.vcpus <= host.cpus * cpu + 1e-6)
        self.assertTrue(
            count * flavor.ram <= guest_memory_mib(host) * ram + 1e-6
        )
        left = rest(host, chosen)
        self.assertTrue(0 <= left.vcpus < count)
        self.assertTrue(0 <= left.ram < count)
        self.assertTrue(flavor.disks * count <= 24)

    @FAST
    @given(hosts(), st.integers(1, 50))
    def test_dedicated(self, host: HostProfile, count: int) -> None:
        chosen = Configuration(count, cpu_policy='dedicated')
        try:
            flavor = derive(host, chosen)
        except errors.InputError:
            return
        cells = [shape(cell) for cell in host.cells]
        self.assertTrue(fit(cells, flavor, count))
        self.assertTrue(count * flavor.ram <= guest_memory_mib(host))
        self.assertEqual(0, flavor.ram % 2)
        left = rest(host, chosen)
        self.assertTrue(left.vcpus >= 0 and left.ram >= 0)

    @FAST
    @given(hosts(), st.integers(1, 50))
    def test_pinned_controller(self, host: HostProfile, count: int) -> None:
        cells = [shape(cell) for cell in host.cells]
        assume(len(set(cells)) == 1)
        chosen = Configuration(count, cpu_policy='dedicated')
        try:
            flavor = derive(host, chosen, 'controller')
        except errors.InputError:
            return
        self.assertTrue(fit(cells, flavor, 1))

    @FAST
    @given(hosts(), st.integers(1, 50), st.integers(1, 40))
    def test_cluster_uses_every_slot(
        self, host: HostProfile, count: int, number: int
    ) -> None:
        try:
            size = cluster_size(host, Configuration(count), number, 'separate')
        except errors.InputError:
            return
        taken = size.controllers * size.slots_per_controller
        self.assertEqual(count * number, size.workers + taken)
        self.assertTrue(1 <= size.slots_per_controller <= count)
        self.assertTrue(size.workers >= 1)
