# SPDX-License-Identifier: Apache-2.0
"""Rules of the lint for the sizes of flavors.

``doc/source/user/lint.md`` describes each rule.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from hvstack.model.catalogue import CatalogueEntry
from hvstack.model.flavor import Flavor, uses_worker_volumes
from hvstack.model.guest_shape import (
    FieldMessages,
    is_dedicated,
    is_number,
    list_guest_cells,
    parse_guest_cpus,
    parse_page_kib,
)
from hvstack.model.host import HostProfile
from hvstack.model.host_share import compute_guest_memory_mib
from hvstack.model.local_space import compute_host_space_gib, is_on_data_disks

#: vsphere6, "Best Practices": a DataNode has preferably five disks or fewer.
MAX_DISKS = 5


def count_fitting(
    host: Sequence[tuple[int, int]],
    guest: Sequence[tuple[int, int]],
    max_guests: int,
) -> int:
    """Return the number of guests, within a limit, that fit into the cells.

    Each cell of a guest needs a host cell of its own. The largest parts
    come first, each into the cell that has room for most of its kind, which
    packs equal guests evenly.
    """
    free = list(host)
    parts = sorted(guest, reverse=True)
    for count in range(max_guests):
        used_cells: set[int] = set()
        for vcpus, ram in parts:
            candidate_cells = [
                cell
                for cell, (cpus, memory) in enumerate(free)
                if cell not in used_cells and cpus >= vcpus and memory >= ram
            ]
            if not candidate_cells:
                return count
            best = max(
                candidate_cells,
                key=lambda cell: (
                    min(
                        free[cell][0] // max(vcpus, 1),
                        free[cell][1] // max(ram, 1),
                    ),
                    free[cell],
                ),
            )
            free[best] = (free[best][0] - vcpus, free[best][1] - ram)
            used_cells.add(best)
    return max_guests


def check_guest_size(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    """Yield sizes larger than the host (HV001)."""
    flavor = entry.flavor
    if flavor.vcpus > profile.cpus:
        yield (
            'vcpus',
            f'{flavor.vcpus} are more than the {profile.cpus} CPUs of '
            f"'{profile.name}', which no ratio lifts: take fewer",
        )
    if flavor.ram > profile.memory_mib:
        yield (
            'ram',
            f'{flavor.ram} MiB is more than the {profile.memory_mib} MiB of '
            f"'{profile.name}', which no ratio lifts: take less",
        )


def _list_occupied_cells(
    profile: HostProfile, flavor: Flavor
) -> list[tuple[int, int]] | None:
    """Return (CPUs, MiB) that a dedicated guest takes of the host's cells.

    With ``isolate`` no other guest gets the threads beside its own (Nova,
    "CPU topologies"), so that each vCPU takes a whole core.
    """
    cells = list_guest_cells(flavor)
    threads = flavor.extra_specs.get('hw:cpu_thread_policy')
    if cells is None or threads != 'isolate':
        return cells
    return [(vcpus * profile.threads_per_core, ram) for vcpus, ram in cells]


def check_cells(profile: HostProfile, entry: CatalogueEntry) -> FieldMessages:
    """Yield guests that do not fit the NUMA cells (HV002)."""
    if not is_dedicated(entry.flavor):
        return
    guest = _list_occupied_cells(profile, entry.flavor)
    host = [(len(cell.cpus), cell.memory_mib) for cell in profile.cells]
    if guest is not None and count_fitting(host, guest, 1) == 0:
        yield (
            'extra_specs.hw:numa_nodes',
            f'the cells of the guest ({len(guest)}) do not fit those of '
            f"'{profile.name}' ({len(host)}): take fewer vCPUs or more cells",
        )


def check_instance_count(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    """Yield sizes of which not all instances fit the host (HV003)."""
    flavor = entry.flavor
    if flavor.role != 'worker':
        return
    count = entry.configuration.instances
    if is_dedicated(flavor):
        guest = _list_occupied_cells(profile, flavor)
        host = [(len(cell.cpus), cell.memory_mib) for cell in profile.cells]
        guest_count = (
            count_fitting(host, guest, count) if guest is not None else count
        )
        if 0 < guest_count < count:
            yield (
                'vcpus',
                f'only {guest_count} of {count} fit the cells of '
                f"'{profile.name}' at the same time: take smaller ones",
            )
    for field, each, total, ratio in _list_shared(profile, entry):
        if each * count > total * Fraction(str(ratio)):
            yield (
                field,
                f'{count} x {each} is more than {total} x {ratio:g} of '
                f"'{profile.name}': take less or fewer instances",
            )
    yield from _check_local_space(profile, entry)


def _check_local_space(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    """Yield ephemeral disks that do not fit on the data disks.

    Root disks are on the same file system if it holds Nova's local disks.
    """
    flavor, chosen = entry.flavor, entry.configuration
    if profile.disks is None or uses_worker_volumes(profile, chosen):
        return
    root = flavor.disk if is_on_data_disks(profile, chosen) else 0
    each = root + flavor.ephemeral
    space = compute_host_space_gib(profile)
    if each * chosen.instances > space:
        yield (
            'ephemeral',
            f'{chosen.instances} x {each} GiB ({root} for the root disk) is '
            f'more than the {space} GiB for files on the data disks of '
            f"'{profile.name}': take less or fewer instances",
        )


def _list_shared(
    profile: HostProfile, entry: CatalogueEntry
) -> Iterator[tuple[str, int, int, float]]:
    """Yield (field, each, the host's, ratio) of what guests share."""
    flavor, chosen = entry.flavor, entry.configuration
    if not is_dedicated(flavor):
        yield 'vcpus', flavor.vcpus, profile.cpus, chosen.cpu_ratio
        yield 'ram', flavor.ram, profile.memory_mib, chosen.ram_ratio
    disks = profile.disks
    if disks and not uses_worker_volumes(profile, chosen):
        yield 'disks', flavor.disks, disks.count, 1


def check_cell_sums(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    """Yield NUMA cells that do not add up (HV004)."""
    flavor = entry.flavor
    specs = flavor.extra_specs
    cpu_keys = [key for key in specs if key.startswith('hw:numa_cpus.')]
    if cpu_keys:
        cpus = [
            cpu for key in cpu_keys for cpu in parse_guest_cpus(specs[key])
        ]
        if len(cpus) != flavor.vcpus or set(cpus) != set(range(flavor.vcpus)):
            yield (
                f'extra_specs.{cpu_keys[0]}',
                f'the cells list {len(cpus)} CPUs: list each of 0 to '
                f'{flavor.vcpus - 1} once',
            )
    memory = [key for key in specs if key.startswith('hw:numa_mem.')]
    yield from _check_cell_map(specs, [*cpu_keys, *memory])
    if memory and all(is_number(specs[key]) for key in memory):
        added = sum(int(specs[key]) for key in memory)
        if added != flavor.ram:
            yield (
                f'extra_specs.{memory[0]}',
                f'the cells add up to {added} MiB, but ram is {flavor.ram}',
            )
    if not cpu_keys and not memory and list_guest_cells(flavor) is None:
        yield (
            'extra_specs.hw:numa_nodes',
            f'{specs.get("hw:numa_nodes")} does not divide {flavor.vcpus} '
            f'vCPUs and {flavor.ram} MiB: list the cells',
        )


def _check_cell_map(
    specs: Mapping[str, str], keys: Sequence[str]
) -> FieldMessages:
    """Yield a map of CPUs and memory that does not list each cell.

    Nova then raises ImageNUMATopologyIncomplete for every server.

    :param keys: extra specs of the map.
    """
    nodes = specs.get('hw:numa_nodes', '1')
    # Of anything else than a number of cells, HV011 says what Nova expects.
    count = int(nodes) if is_number(nodes) else 0
    if not keys or not count:
        return
    if len(keys) != 2 * count or set(keys) != {
        f'hw:numa_{kind}.{cell}'
        for kind in ('cpus', 'mem')
        for cell in range(count)
    }:
        yield (
            f'extra_specs.{keys[0]}',
            'Nova refuses cells of which some have no CPUs or no memory: list '
            f'hw:numa_cpus.N and hw:numa_mem.N for each N of 0 to {count - 1}',
        )


def check_page(profile: HostProfile, entry: CatalogueEntry) -> FieldMessages:
    """Yield cells whose memory no page divides (HV005)."""
    page = parse_page_kib(entry.flavor)
    for cell, (_, ram) in enumerate(list_guest_cells(entry.flavor) or ()):
        if page and ram * 1024 % page:
            yield (
                'ram',
                f'cell {cell} has {ram} MiB, no multiple of the page of '
                f'{page} KiB: round down',
            )


def check_host_memory(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    """Yield guests that leave the host too little memory (HV007)."""
    if entry.flavor.role != 'worker':
        return
    count = entry.configuration.instances
    max_mib = compute_guest_memory_mib(profile) * Fraction(
        str(entry.configuration.ram_ratio)
    )
    if count * entry.flavor.ram > max_mib:
        yield (
            'ram',
            f'{count} x {entry.flavor.ram} MiB leaves the host less than it '
            f'needs: at most {int(max_mib / count)} MiB each',
        )


def check_disk_count(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    """Yield workers with many disks for one DataNode (HV008)."""
    if entry.flavor.role == 'worker' and entry.flavor.disks > MAX_DISKS:
        yield (
            'disks',
            f'{entry.flavor.disks} data disks for one DataNode: with '
            f'{MAX_DISKS} or fewer reads spread better',
        )


def check_emulator_threads(
    profile: HostProfile, entry: CatalogueEntry
) -> FieldMessages:
    """Yield guests without a CPU for emulator threads (HV015)."""
    flavor = entry.flavor
    policy = flavor.extra_specs.get('hw:emulator_threads_policy')
    if policy != 'isolate' or flavor.role != 'worker':
        return
    count = entry.configuration.instances
    if (flavor.vcpus + 1) * count > profile.cpus:
        yield (
            'extra_specs.hw:emulator_threads_policy',
            f'{count} x 1 CPU for emulator threads is not left of '
            f'{profile.cpus}: take share',
        )
