# SPDX-License-Identifier: Apache-2.0
"""Shares of a host's CPUs and memory for workers and controllers.

Each rule names its source, as in :mod:`hvstack.model.flavor`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from hvstack import errors
from hvstack.model.configuration import Configuration
from hvstack.model.host import HostProfile

#: A worker carries DataNode and NodeManager; ``controller`` carries all
#: controllers, ``namenode`` and ``resourcemanager`` one each.
CONTROLLERS = ('controller', 'namenode', 'resourcemanager')
ROLES = ('worker', *CONTROLLERS)

#: Minimum number of vCPUs of a controller, which determines its slots
#: (vsphere6, "Controller Daemons": with 20 VMs per host, a second VM stays
#: idle for each controller; with 10 VMs of 4 vCPUs, none does).
CONTROLLER_VCPUS = 4

#: Page that "reserved and preallocated" memory is cut into: 2 MiB
#: (vsphere6, "Virtual Machines" and the discussion of large pages).
PAGE_MIB = 2

#: The host of vsphere6's memory rule, and its share for guests.
_RULE_HOST_MIB = 256 * 1024
_RULE_SHARE = 0.94
#: Additional share of a host with twice the memory; the paper names the
#: direction ("slightly larger", "less"), but not the step.
_RULE_STEP = 0.01


@dataclass(frozen=True)
class HostShare:
    """Share of CPUs and memory of a guest.

    :param cells: (vCPUs, MiB) in each NUMA cell of the guest.
    """

    cells: tuple[tuple[int, int], ...]

    @property
    def vcpus(self) -> int:
        """Number of vCPUs of the guest."""
        return sum(vcpus for vcpus, _ in self.cells)

    @property
    def ram(self) -> int:
        """Memory of the guest in MiB."""
        return sum(ram for _, ram in self.cells)


def compute_guest_memory_mib(profile: HostProfile) -> int:
    """Return the memory of all guests of a host in MiB.

    It is set by the profile, or is all memory that the profile does not
    reserve, or follows the rule of vsphere6 ("Best Practices" and Table 1):
    94 % of a host of 256 GiB, rounded up to a GiB, less on smaller hosts and
    slightly more on larger hosts. In hvstack, the share of a host of half the
    size is one percent less.
    """
    if profile.vm_memory_mib is not None:
        return profile.vm_memory_mib
    if profile.reserved_memory_mib is not None:
        return profile.memory_mib - profile.reserved_memory_mib
    total = profile.memory_mib
    share = _RULE_SHARE + _RULE_STEP * math.log2(total / _RULE_HOST_MIB)
    share = min(max(share, 0.5), 0.97)
    up = math.ceil(total * share / 1024) * 1024
    if total < _RULE_HOST_MIB and up > total * _RULE_SHARE:
        down = int(total * share)
        return down // 1024 * 1024 or down
    return up


def count_controller_slots(
    profile: HostProfile, configuration: Configuration
) -> int:
    """Return how many of a host's I slots one controller takes.

    As many as it needs for 4 vCPUs, at most its whole host (vsphere6,
    "Controller Daemons" and Table 1); in the lab always its whole host.
    Dedicated CPUs of a slot are those that fit a NUMA cell.

    :raises hvstack.errors.InputError: there are too many instances.
    """
    count = configuration.instances
    if profile.controllers_rule == 'host':
        return count
    plain = Configuration(count, cpu_policy=configuration.cpu_policy)
    each = compute_share(profile, plain).vcpus
    return min(count, math.ceil(CONTROLLER_VCPUS / each))


def to_fraction(ratio: float) -> Fraction:
    """Return a ratio as it was written: 1.2 is 6/5, not 1.19999."""
    return Fraction(str(ratio))


def build_too_many_error(
    profile: HostProfile, configuration: Configuration
) -> errors.InputError:
    """Return the error for too many instances."""
    return errors.InputError(
        f'{configuration.label}: {configuration.instances} instances leave no '
        f"CPU or memory for each instance on '{profile.name}' ({profile.cpus} "
        f'CPUs, {compute_guest_memory_mib(profile)} MiB for guests). Use '
        'fewer instances.'
    )


def compute_share(
    profile: HostProfile, configuration: Configuration
) -> HostShare:
    """Return a worker's share of the host, checked against its totals."""
    share = (
        _share_cells(profile, configuration)
        if configuration.cpu_policy == 'dedicated'
        else _share_whole_host(profile, configuration)
    )
    if any(not vcpus or not ram for vcpus, ram in share.cells):
        raise build_too_many_error(profile, configuration)
    _check_totals(profile, configuration, share)
    return share


def _share_whole_host(
    profile: HostProfile, configuration: Configuration
) -> HostShare:
    """Cut the whole host evenly, memory down to a MiB (vsphere6, Table 1)."""
    count = configuration.instances
    vcpus = int(profile.cpus * to_fraction(configuration.cpu_ratio) / count)
    ram = int(
        compute_guest_memory_mib(profile)
        * to_fraction(configuration.ram_ratio)
        / count
    )
    return HostShare(((vcpus, ram),))


def _share_cells(
    profile: HostProfile, configuration: Configuration
) -> HostShare:
    """Cut each cell evenly, so that a guest never leaves its cells.

    A guest fits one NUMA cell when I is the number of cells or more,
    counting threads as CPUs (vsphere6, "Virtual Machines", preferHT, and
    "Best Practices"); else it spans whole cells. The largest equal guests
    are taken of which I fit; memory is cut down to the page.
    """
    count = configuration.instances
    cells = list_cells(profile)
    if count == 1:
        return HostShare(
            tuple((cpus, _round_to_pages(mib)) for cpus, mib in cells)
        )
    if count < len(cells):
        span = len(cells) // count
        each = (
            min(c for c, _ in cells),
            _round_to_pages(min(m for _, m in cells)),
        )
        return HostShare((each,) * span)
    vcpus = _find_largest_part([cpus for cpus, _ in cells], count)
    if not vcpus:
        raise build_too_many_error(profile, configuration)
    room = [cpus // vcpus for cpus, _ in cells]
    return HostShare(((vcpus, _find_largest_ram(cells, room, count)),))


def list_cells(profile: HostProfile) -> list[tuple[int, int]]:
    """Return CPUs, and MiB for guests, of each cell."""
    memory = compute_guest_memory_mib(profile)
    return [
        (len(cell.cpus), cell.memory_mib * memory // profile.memory_mib)
        for cell in profile.cells
    ]


def _round_to_pages(mib: int) -> int:
    return mib // PAGE_MIB * PAGE_MIB


def _find_largest_part(sizes: Sequence[int], count: int) -> int:
    """Return the largest part of which ``count`` fit into the sizes."""
    parts = {size // n for size in sizes for n in range(1, count + 1)}
    good = (p for p in parts if p and sum(s // p for s in sizes) >= count)
    return max(good, default=0)


def _find_largest_ram(
    cells: Sequence[tuple[int, int]], room: Sequence[int], count: int
) -> int:
    """Return the largest memory of which ``count`` fit.

    :param room: how many guests each cell's CPUs are enough for.
    """
    pages = [mib // PAGE_MIB for _, mib in cells]
    parts = {
        size // n
        for size, max_guests in zip(pages, room, strict=True)
        for n in range(1, max_guests + 1)
    }
    good = (
        part
        for part in parts
        if part
        and sum(
            min(max_guests, size // part)
            for size, max_guests in zip(pages, room, strict=True)
        )
        >= count
    )
    return max(good, default=0) * PAGE_MIB


def _check_totals(
    profile: HostProfile, configuration: Configuration, share: HostShare
) -> None:
    """Refuse a guest that is larger than its host.

    Nova's libvirt driver reports an inventory's ``max_unit`` as the
    physical total whatever the ratio: C is at most I, and the share of
    memory times M at most the host's memory.
    """
    ratio = to_fraction(configuration.cpu_ratio)
    if share.vcpus > profile.cpus or ratio > configuration.instances:
        raise errors.InputError(
            f'{configuration.label}: A guest of {share.vcpus} vCPUs is larger '
            f"than its host ('{profile.name}' has {profile.cpus} CPUs). Use a "
            f'cpu_ratio of at most {configuration.instances}, the number of '
            'instances per host.'
        )
    if share.ram > profile.memory_mib:
        raise errors.InputError(
            f'{configuration.label}: A guest of {share.ram} MiB is larger '
            f"than its host ('{profile.name}' has {profile.memory_mib} MiB). "
            'Use a smaller ram_ratio or more instances.'
        )


def shape_controller(
    profile: HostProfile, configuration: Configuration
) -> Configuration:
    """Return the configuration of a controller, without ratios and storage.

    Ratios promise the workers more; a controller must never wait for its
    CPU (vsphere6, "Controller Daemons": low latency). One that has a whole
    host is the same for any number of instances, and on a host for
    controllers alone CPUs are shared: only workers' hosts change.
    """
    count = configuration.instances
    alone = profile.controllers_rule == 'host'
    policy = 'shared' if alone else configuration.cpu_policy
    plain = Configuration(count, cpu_policy=policy)
    if count_controller_slots(profile, plain) == count:
        return replace(plain, instances=1)
    return plain


def compute_controller_share(
    profile: HostProfile, plain: Configuration
) -> HostShare:
    """Return a controller's share: its slots, in as few cells as hold them.

    :param plain: a configuration without ratios.
    """
    slots = count_controller_slots(profile, plain)
    share = compute_share(profile, plain)
    if len(share.cells) > 1 or slots == 1:
        return share
    vcpus, ram = share.cells[0]
    parts = [slots]
    if plain.cpu_policy == 'dedicated':
        parts = _spread_slots(
            slots,
            [
                min(cpus // vcpus, mib // ram)
                for cpus, mib in list_cells(profile)
            ],
        )
    return HostShare(tuple((vcpus * part, ram * part) for part in parts))


def _spread_slots(slots: int, rooms: Sequence[int]) -> list[int]:
    """Return slots by cell: evenly over as few cells as hold them.

    :param rooms: slots that each cell holds; enough in all.
    """
    rooms = sorted(rooms, reverse=True)
    for cells in range(1, min(len(rooms), slots) + 1):
        each, remainder = divmod(slots, cells)
        parts = [each + (cell < remainder) for cell in range(cells)]
        if all(part <= room for part, room in zip(parts, rooms, strict=False)):
            return parts
    # Cells of unlike sizes: the largest are filled.
    parts = []
    for room in rooms:
        parts.append(min(room, slots - sum(parts)))
    return [part for part in parts if part]
