# SPDX-License-Identifier: Apache-2.0
"""What derivation makes fits and passes; what lint passes fits.

Fitting: I of them on the host, at the same time, cell by cell.
"""

import itertools
from dataclasses import replace
from functools import cache
from typing import Any

import testtools
from hypothesis import given, settings
from hypothesis import strategies as st

from hvstack import errors, host_profiles
from hvstack.model import catalogue
from hvstack.model.cluster_size import compute_cluster_size
from hvstack.model.configuration import Configuration, parse
from hvstack.model.flavor import Flavor, compute_remainder, derive_flavor
from hvstack.model.guest_shape import parse_guest_cpus
from hvstack.model.host import HostProfile, NumaCell, from_mapping
from hvstack.model.host_share import compute_guest_memory_mib
from hvstack.model.lint import ERROR, check_catalogue

FAST = settings(max_examples=60)


@st.composite
def hosts(draw: st.DrawFn, are_equal: bool = False) -> HostProfile:
    """Draw a host.

    :param are_equal: whether its cells are equal; otherwise they may differ.
    """
    sockets = draw(st.integers(1, 4))
    cores = draw(st.integers(1, 12))
    threads = draw(st.integers(1, 2))
    total = sockets * cores * threads
    if are_equal:
        count = draw(
            st.sampled_from([n for n in range(1, 5) if total % n == 0])
        )
        cuts = list(range(total // count, total, total // count))
    else:
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
    cells: list[dict[str, str | int]] = []
    for first, last in itertools.pairwise(bounds):
        cells.append(
            {
                'cpus': f'{first}-{last - 1}',
                'memory_mib': cells[0]['memory_mib']
                if are_equal and cells
                else draw(st.integers(512, 65536)),
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
            'disks': {'count': draw(st.integers(1, 24)), 'size_gb': 4000},
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
            len(parse_guest_cpus(specs[f'hw:numa_cpus.{node}']))
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
            for index, (cpus, memory) in enumerate(free):
                if index not in used and cpus >= vcpus and memory >= ram:
                    free[index] = (cpus - vcpus, memory - ram)
                    used.add(index)
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
            flavor = derive_flavor(host, chosen)
        except errors.InputError:
            return
        # No guest is larger than its host, whatever the ratio.
        self.assertTrue(0 < flavor.vcpus <= host.cpus)
        self.assertTrue(0 < flavor.ram <= host.memory_mib)
        assert host.disks is not None
        self.assertTrue(
            count * (flavor.disk + flavor.ephemeral) * 2**30
            <= host.disks.count * host.disks.size_gb * 10**9
        )
        # All of them fit what the ratios promise.
        self.assertTrue(count * flavor.vcpus <= host.cpus * cpu + 1e-6)
        self.assertTrue(
            count * flavor.ram <= compute_guest_memory_mib(host) * ram + 1e-6
        )
        remainder = compute_remainder(host, chosen)
        self.assertTrue(0 <= remainder.vcpus < count)
        self.assertTrue(0 <= remainder.ram < count)
        self.assertTrue(flavor.disks * count <= 24)

    @FAST
    @given(hosts(), st.integers(1, 50))
    def test_dedicated(self, host: HostProfile, count: int) -> None:
        chosen = Configuration(count, cpu_policy='dedicated')
        try:
            flavor = derive_flavor(host, chosen)
        except errors.InputError:
            return
        cells = [shape(cell) for cell in host.cells]
        self.assertTrue(fit(cells, flavor, count))
        self.assertTrue(count * flavor.ram <= compute_guest_memory_mib(host))
        self.assertEqual(0, flavor.ram % 2)
        remainder = compute_remainder(host, chosen)
        self.assertTrue(remainder.vcpus >= 0 and remainder.ram >= 0)

    @FAST
    @given(hosts(are_equal=True), st.integers(1, 50))
    def test_pinned_controller(self, host: HostProfile, count: int) -> None:
        cells = [shape(cell) for cell in host.cells]
        self.assertEqual(1, len(set(cells)))
        chosen = Configuration(count, cpu_policy='dedicated')
        try:
            flavor = derive_flavor(host, chosen, 'controller')
        except errors.InputError:
            return
        self.assertTrue(fit(cells, flavor, 1))

    @FAST
    @given(hosts(), st.integers(1, 50), st.integers(1, 40))
    def test_cluster_uses_every_slot(
        self, host: HostProfile, count: int, host_count: int
    ) -> None:
        try:
            size = compute_cluster_size(
                host, Configuration(count), host_count, 'separate'
            )
        except errors.InputError:
            return
        controller_slots = size.controllers * size.slots_per_controller
        self.assertEqual(count * host_count, size.workers + controller_slots)
        self.assertTrue(1 <= size.slots_per_controller <= count)
        self.assertTrue(size.workers >= 1)


Cells = tuple[tuple[int, int], ...]


@cache
def packed(free: Cells, guest: Cells, count: int) -> bool:
    """Try every way to put guests into cells, one part to a cell."""
    if not count:
        return True
    for chosen in itertools.permutations(range(len(free)), len(guest)):
        after = list(free)
        for index, (cpus, mib) in zip(chosen, guest, strict=True):
            after[index] = (after[index][0] - cpus, after[index][1] - mib)
        if all(cpus >= 0 and mib >= 0 for cpus, mib in after) and packed(
            tuple(sorted(after)), guest, count - 1
        ):
            return True
    return False


@st.composite
def pinned(draw: st.DrawFn) -> tuple[HostProfile, dict[str, Any], Cells]:
    """Draw a host, a flavor with dedicated CPUs, and what it takes."""
    host = draw(hosts())
    count = draw(st.integers(1, 6))
    nodes = draw(st.integers(1, len(host.cells)))
    policy = draw(st.sampled_from(['prefer', 'require', 'isolate']))
    page = draw(st.sampled_from(['large', '4', '2MB', '1GB']))
    step = 1024 if page == '1GB' else 2
    uniform = draw(st.booleans())
    # About a share, so that many fit closely and some do not.
    share = max(1, count * nodes // len(host.cells))
    min_sizes = [
        min(sizes) for sizes in zip(*map(shape, host.cells), strict=True)
    ]
    cpus, mib = (max(1, size // share) for size in min_sizes)
    parts = [
        (
            draw(st.integers(max(1, cpus - 2), cpus + 1)),
            draw(st.integers(mib * 3 // 4, mib + 1)) // step * step + step,
        )
        for _ in range(1 if uniform else nodes)
    ] * (nodes if uniform else 1)
    specs = {
        'hw:cpu_policy': 'dedicated',
        'hw:cpu_thread_policy': policy,
        'hw:mem_page_size': page,
        'hw:locked_memory': 'true',
        'hw:numa_nodes': str(nodes),
    }
    if not uniform:
        first = 0
        for index, (vcpus, ram) in enumerate(parts):
            specs[f'hw:numa_cpus.{index}'] = f'{first}-{first + vcpus - 1}'
            specs[f'hw:numa_mem.{index}'] = str(ram)
            first += vcpus
    each = host.threads_per_core if policy == 'isolate' else 1
    flavor = {
        'name': 'drawn',
        'configuration': f'i{count}-dedicated',
        'vcpus': sum(vcpus for vcpus, _ in parts),
        'ram': sum(ram for _, ram in parts),
        'extra_specs': specs,
    }
    return host, flavor, tuple((vcpus * each, ram) for vcpus, ram in parts)


def errors_of(host: HostProfile, *flavors: dict[str, Any]) -> list[str]:
    """Return lint's errors over a set."""
    data = {'host': host.name, 'flavors': list(flavors)}
    violations = check_catalogue(
        host,
        catalogue.from_mapping(data, str),
        host_profiles.load_extra_specs(),
    )
    return [
        str(violation) for violation in violations if violation.level == ERROR
    ]


class Lint(testtools.TestCase):
    """Lint and derivation agree, and an independent packer agrees, too."""

    @FAST
    @given(pinned())
    def test_what_passes_fits(
        self, case: tuple[HostProfile, dict[str, Any], Cells]
    ) -> None:
        host, flavor, guest = case
        count = int(flavor['configuration'][1:].partition('-')[0])
        cells = tuple(sorted(shape(cell) for cell in host.cells))
        fits = packed(cells, guest, count)
        if not errors_of(host, flavor):
            self.assertTrue(fits)
        elif len(set(guest)) == 1:
            # Equal parts are packed as well as they can be.
            self.assertFalse(fits)

    @FAST
    @given(
        hosts(),
        st.integers(1, 8),
        st.integers(0, 3),
        st.integers(-4, 4),
        st.sampled_from(['c1-m1', 'c2-m1', 'c1-m1.1', 'c0.5-m0.5']),
    )
    def test_what_passes_fits_with_shared_cpus(
        self, host: HostProfile, count: int, less: int, ram: int, ratios: str
    ) -> None:
        chosen = parse(f'i{count}-{ratios}')
        cpus = host.cpus * chosen.cpu_ratio
        memory = host.memory_mib * chosen.ram_ratio
        assert host.disks is not None
        flavor = {
            'name': 'drawn',
            'configuration': chosen.name,
            'vcpus': max(1, int(cpus / count) + 1 - less),
            'ram': max(1, int(memory / count) + ram),
            'disks': max(0, host.disks.count // count + 1 - less),
        }
        fits = (
            flavor['vcpus'] <= host.cpus
            and flavor['ram'] <= host.memory_mib
            and flavor['vcpus'] * count <= cpus
            and flavor['ram'] * count <= memory + 1e-6
            and flavor['disks'] * count <= host.disks.count
        )
        self.assertEqual(fits, not errors_of(host, flavor), flavor)

    @FAST
    @given(
        hosts(),
        st.integers(1, 24),
        st.sampled_from(
            ['', '-dedicated', '-c2', '-m1.1', '-ceph', '-pinned']
        ),
        st.sampled_from(['combined', 'separate', 'host']),
    )
    def test_what_is_derived_passes(
        self, host: HostProfile, count: int, suffix: str, rule: str
    ) -> None:
        host = replace(host, controllers_rule=rule)
        try:
            data = catalogue.build_catalogue(
                host, [parse(f'i{count}{suffix}')]
            )
        except errors.InputError:
            return
        self.assertEqual([], errors_of(host, *data['flavors']))
