# SPDX-License-Identifier: Apache-2.0
"""Deriving flavors: host profile + configuration + role -> flavor.

Each rule is one small function that names where it comes from: a paper of
the field (vsphere6: "Virtualized Hadoop Performance with VMware vSphere 6";
vsan: "Hadoop on VMware vSAN", both by title, section and table) or Nova's
own documentation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

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

#: Length of the scheduler's period that a quota is a part of, in us.
_QUOTA_PERIOD = 100_000


@dataclass(frozen=True)
class Flavor:
    """Nova flavor in the fields and units of Nova.

    :param name: stable name that contains the shape.
    :param role: one of :data:`ROLES`.
    :param vcpus: number of vCPUs.
    :param ram: memory in MiB.
    :param disk: size of the root disk in GB.
    :param ephemeral: size of the ephemeral disk in GB, for the data of a
        worker without volumes.
    :param extra_specs: extra specs that the newest Nova validates.
    :param disks: number of whole data disks of a worker; 0 for a part of a
        disk.
    :param disk_size_gb: size of a data disk in GB.
    """

    name: str
    role: str
    vcpus: int
    ram: int
    disk: int
    ephemeral: int = 0
    extra_specs: dict[str, str] = field(default_factory=dict)
    description: str = ''
    disks: int = 0
    disk_size_gb: int = 0

    def to_mapping(self) -> dict[str, Any]:
        """Return plain data in a fixed order for files and JSON."""
        return {
            'name': self.name,
            'role': self.role,
            'vcpus': self.vcpus,
            'ram': self.ram,
            'disk': self.disk,
            'ephemeral': self.ephemeral,
            'extra_specs': dict(sorted(self.extra_specs.items())),
            'disks': self.disks,
            'disk_size_gb': self.disk_size_gb,
            'description': self.description,
        }


@dataclass(frozen=True)
class Remainder:
    """Resources of a host that no slot contains.

    :param vcpus: number of unused vCPUs.
    :param ram: unused guest memory in MiB.
    :param disks: number of unused data disks.
    """

    vcpus: int
    ram: int
    disks: int

    def __str__(self) -> str:
        parts = [
            f'{self.vcpus} CPUs' if self.vcpus else '',
            f'{self.ram} MiB' if self.ram else '',
            f'{self.disks} data disks' if self.disks else '',
        ]
        return ', '.join(part for part in parts if part) or 'nothing'


@dataclass(frozen=True)
class _HostShare:
    """Share of CPUs and memory of a guest.

    :param cells: (vCPUs, MiB) in each NUMA cell of the guest.
    """

    cells: tuple[tuple[int, int], ...]

    @property
    def vcpus(self) -> int:
        return sum(vcpus for vcpus, _ in self.cells)

    @property
    def ram(self) -> int:
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


def derive_flavor(
    profile: HostProfile,
    configuration: Configuration,
    role: str = 'worker',
    *,
    cpu_quota: str | None = None,
    disk_gb: int | None = None,
) -> Flavor:
    """Derive the flavor of a role.

    :param profile: host profile.
    :param configuration: configuration of the worker.
    :param role: one of :data:`ROLES`.
    :param cpu_quota: limit CPU time by ``quota:cpu_quota``: ``guest`` if
        libvirt applies it to the whole guest (lxc), ``vcpu`` if it applies it
        to each vCPU (QEMU), which throttles a single thread; None sets no
        limit.
    :param disk_gb: size of the root disk in GB; None uses the profile.
    :raises hvstack.errors.InputError: the flavor does not fit the host.
    """
    if role not in ROLES:
        raise errors.InputError(
            f"role is '{role}': take one of {', '.join(ROLES)}"
        )
    if role == 'worker':
        share = _compute_share(profile, configuration)
        disks, size, ephemeral = compute_data_disks(profile, configuration)
        shaped = configuration
    else:
        shaped = _controller_configuration(profile, configuration)
        share = _compute_controller_share(profile, shaped)
        disks = size = ephemeral = 0
        configuration = replace(configuration, cpu_policy=shaped.cpu_policy)
    # A guest may use the host's source of entropy where its image asks for
    # it; clouds by the SCS standard scs-0101 require this of every flavor.
    specs: dict[str, str] = {'hw_rng:allowed': 'true'}
    specs |= _topology_specs(profile, configuration, share)
    specs |= _dedicated_specs(profile, configuration, share)
    specs |= _required_traits(profile, configuration, role)
    specs |= _pci_specs(profile, configuration, disks)
    if profile.policy.cpu_shares:
        specs |= _shares_specs(share.vcpus)
    if cpu_quota is not None:
        specs |= _quota_specs(profile, configuration, share, cpu_quota)
    root = profile.root_gb if disk_gb is None else disk_gb
    return Flavor(
        name=(
            f'hv-{profile.name}-{role}-{shaped.name}'
            f'-v{share.vcpus}-m{share.ram}-d{root + ephemeral}'
        ),
        role=role,
        vcpus=share.vcpus,
        ram=share.ram,
        disk=root,
        ephemeral=ephemeral,
        extra_specs=specs,
        description=(
            f'{role} of virtualized Hadoop, {shaped.name} on a host as '
            f'{profile.name}'
        ),
        disks=disks,
        disk_size_gb=size,
    )


def compute_remainder(
    profile: HostProfile, configuration: Configuration
) -> Remainder:
    """Return the resources of a host that its workers do not use."""
    share = _compute_share(profile, configuration)
    count = configuration.instances
    total_vcpus = int(profile.cpus * _exact(configuration.cpu_ratio))
    memory = int(
        compute_guest_memory_mib(profile) * _exact(configuration.ram_ratio)
    )
    disks = 0
    if profile.disks and not profile.volumes and count <= profile.disks.count:
        disks = profile.disks.count % count
    return Remainder(
        total_vcpus - count * share.vcpus, memory - count * share.ram, disks
    )


def compute_data_disks(
    profile: HostProfile, configuration: Configuration
) -> tuple[int, int, int]:
    """Return number and size in GB of data disks, and ephemeral GB.

    Every worker has the same number of whole disks (vsphere6, Table 1), or
    volumes of a separate size (vsan, section 2.5). With local storage and
    without disk pinning, they are the ephemeral disk of the guest. If a host
    has more workers than disks, the workers share the space of all disks.

    :raises hvstack.errors.InputError: the host has too few disks for pinning.
    """
    if profile.volumes:
        return profile.volumes.count, profile.volumes.size_gb, 0
    if profile.disks is None:
        if configuration.disk_pinning:
            raise errors.InputError(
                f"host profile '{profile.name}' has no 'disks': disk pinning "
                'needs their count and size'
            )
        return 0, 0, 0
    disks = profile.disks
    whole = disks.count // configuration.instances
    if configuration.disk_pinning and not whole:
        raise errors.InputError(
            f'{configuration.label}: {disks.count} data disks cannot be '
            f'pinned to {configuration.instances} workers a host, take at '
            f'most {disks.count} instances'
        )
    if configuration.disk_pinning or configuration.storage == 'ceph':
        return whole, disks.size_gb, 0
    space = (
        whole * disks.size_gb
        if whole
        else disks.count * disks.size_gb // configuration.instances
    )
    return whole, disks.size_gb if whole else 0, space


def count_controller_slots(
    profile: HostProfile, configuration: Configuration
) -> int:
    """Return how many of a host's I slots one controller takes.

    As many as it needs for 4 vCPUs, at most its whole host (vsphere6,
    "Controller Daemons" and Table 1); in the lab always its whole host.
    """
    count = configuration.instances
    if profile.controllers_rule == 'host':
        return count
    each = profile.cpus // count
    if not each:
        raise _build_too_many_error(profile, configuration)
    return min(count, math.ceil(CONTROLLER_VCPUS / each))


def _exact(ratio: float) -> Fraction:
    """Return a ratio as it was written: 1.2 is 6/5, not 1.19999."""
    return Fraction(str(ratio))


def _build_too_many_error(
    profile: HostProfile, configuration: Configuration
) -> errors.InputError:
    return errors.InputError(
        f'{configuration.label}: {configuration.instances} instances leave no '
        f"CPU or memory for each on '{profile.name}' ({profile.cpus} CPUs, "
        f'{compute_guest_memory_mib(profile)} MiB for guests): take fewer'
    )


def _compute_share(
    profile: HostProfile, configuration: Configuration
) -> _HostShare:
    """Return a worker's share of the host, checked against its totals."""
    share = (
        _share_cells(profile, configuration)
        if configuration.cpu_policy == 'dedicated'
        else _share_whole_host(profile, configuration)
    )
    if any(not vcpus or not ram for vcpus, ram in share.cells):
        raise _build_too_many_error(profile, configuration)
    _check_totals(profile, configuration, share)
    return share


def _share_whole_host(
    profile: HostProfile, configuration: Configuration
) -> _HostShare:
    """Cut the whole host evenly, memory down to a MiB (vsphere6, Table 1)."""
    count = configuration.instances
    vcpus = int(profile.cpus * _exact(configuration.cpu_ratio) / count)
    ram = int(
        compute_guest_memory_mib(profile)
        * _exact(configuration.ram_ratio)
        / count
    )
    return _HostShare(((vcpus, ram),))


def _share_cells(
    profile: HostProfile, configuration: Configuration
) -> _HostShare:
    """Cut each cell evenly, so that a guest never leaves its cells.

    A guest fits one NUMA cell when I is the number of cells or more,
    counting threads as CPUs (vsphere6, "Virtual Machines", preferHT, and
    "Best Practices"); else it spans whole cells. The largest equal guests
    are taken of which I fit; memory is cut down to the page.
    """
    count = configuration.instances
    cells = _list_cells(profile)
    if count == 1:
        return _HostShare(
            tuple((cpus, _round_to_pages(mib)) for cpus, mib in cells)
        )
    if count < len(cells):
        span = len(cells) // count
        each = (
            min(c for c, _ in cells),
            _round_to_pages(min(m for _, m in cells)),
        )
        return _HostShare((each,) * span)
    vcpus = _find_largest_part([cpus for cpus, _ in cells], count)
    if not vcpus:
        raise _build_too_many_error(profile, configuration)
    room = [cpus // vcpus for cpus, _ in cells]
    return _HostShare(((vcpus, _find_largest_ram(cells, room, count)),))


def _list_cells(profile: HostProfile) -> list[tuple[int, int]]:
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
    profile: HostProfile, configuration: Configuration, share: _HostShare
) -> None:
    """Refuse a guest that is larger than its host.

    Nova's libvirt driver reports an inventory's ``max_unit`` as the
    physical total whatever the ratio: C is at most I, and the share of
    memory times M at most the host's memory.
    """
    ratio = _exact(configuration.cpu_ratio)
    if share.vcpus > profile.cpus or ratio > configuration.instances:
        raise errors.InputError(
            f'{configuration.label}: a guest of {share.vcpus} vCPUs would be '
            f"larger than its host ('{profile.name}' has {profile.cpus} "
            f'CPUs): take a cpu_ratio of at most {configuration.instances}, '
            'the instances a host'
        )
    if share.ram > profile.memory_mib:
        raise errors.InputError(
            f'{configuration.label}: a guest of {share.ram} MiB would be '
            f"larger than its host ('{profile.name}' has "
            f'{profile.memory_mib} MiB): take a smaller ram_ratio or more '
            'instances'
        )


def _controller_configuration(
    profile: HostProfile, configuration: Configuration
) -> Configuration:
    """Return what shapes a controller: never a ratio, nor its own storage.

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


def _compute_controller_share(
    profile: HostProfile, plain: Configuration
) -> _HostShare:
    """Return a controller's share: its slots, in as few cells as hold them.

    :param plain: a configuration without ratios.
    """
    slots = count_controller_slots(profile, plain)
    share = _compute_share(profile, plain)
    if len(share.cells) > 1 or slots == 1:
        return share
    vcpus, ram = share.cells[0]
    parts = [slots]
    if plain.cpu_policy == 'dedicated':
        parts = _spread_slots(
            slots,
            [
                min(cpus // vcpus, mib // ram)
                for cpus, mib in _list_cells(profile)
            ],
        )
    return _HostShare(tuple((vcpus * part, ram * part) for part in parts))


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


def _topology_specs(
    profile: HostProfile, configuration: Configuration, share: _HostShare
) -> dict[str, str]:
    """Show the guest sockets for cells, and threads only where it has them.

    Nova, "CPU topologies": a floating vCPU is no sibling of another, a
    pinned pair is. One receive queue is enough for Hadoop (vsphere6, "Best
    Practices": avoid multi-queue networking).
    """
    cells = len(share.cells)
    has_equal_cells = len({vcpus for vcpus, _ in share.cells}) == 1
    sockets = cells if has_equal_cells else 1
    threads = _count_siblings(profile, configuration, share)
    return {
        'hw:cpu_sockets': str(sockets),
        'hw:cpu_cores': str(share.vcpus // sockets // threads),
        'hw:cpu_threads': str(threads),
        'hw:vif_multiqueue_enabled': 'false',
    }


def _count_siblings(
    profile: HostProfile, configuration: Configuration, share: _HostShare
) -> int:
    """Return the threads of a core that a guest always gets together."""
    threads = profile.threads_per_core
    if configuration.cpu_policy != 'dedicated' or any(
        vcpus % threads for vcpus, _ in share.cells
    ):
        return 1
    return threads


def _dedicated_specs(
    profile: HostProfile, configuration: Configuration, share: _HostShare
) -> dict[str, str]:
    """Pin CPUs, keep to NUMA cells, reserve and preallocate memory.

    vsphere6, "Virtual Machines" ("All VM memory was reserved and
    preallocated") and "Best Practices" (one cell, large pages). Nova, "CPU
    topologies" and "Huge pages". NUMA specs without dedicated CPUs would
    forbid a guest to over-commit against itself, so shared guests get none.
    Emulator threads are never isolated: the fullest cell is cut so that
    fewer CPUs than its guests remain, and each isolation takes a whole one.
    """
    if configuration.cpu_policy != 'dedicated':
        return {}
    whole_cores = _count_siblings(profile, configuration, share) > 1
    specs = {
        'hw:cpu_policy': 'dedicated',
        'hw:cpu_thread_policy': 'require' if whole_cores else 'prefer',
        'hw:emulator_threads_policy': 'share',
        'hw:numa_nodes': str(len(share.cells)),
    }
    if profile.large_pages:
        # Nova takes locked memory with a page size only.
        specs |= {'hw:mem_page_size': 'large', 'hw:locked_memory': 'true'}
    if len(set(share.cells)) > 1:
        first = 0
        for cell, (vcpus, ram) in enumerate(share.cells):
            numbers = range(first, first + vcpus)
            specs[f'hw:numa_cpus.{cell}'] = ','.join(map(str, numbers))
            specs[f'hw:numa_mem.{cell}'] = str(ram)
            first += vcpus
    return specs


def _required_traits(
    profile: HostProfile, configuration: Configuration, role: str
) -> dict[str, str]:
    """Require the profile's traits of the role and of the storage."""
    traits = [profile.traits.get(role)]
    if role in CONTROLLERS and traits == [None]:
        traits = [profile.traits.get('controller')]
    if role == 'worker':
        traits.append(profile.traits.get(configuration.storage))
    return {f'trait:{trait}': 'required' for trait in traits if trait}


def _pci_specs(
    profile: HostProfile, configuration: Configuration, disks: int
) -> dict[str, str]:
    """Pass whole NVMe disks through (vsphere6, "Local Storage": pRDM)."""
    alias = profile.disks.pci_alias if profile.disks else None
    if not alias or not disks or not configuration.disk_pinning:
        return {}
    return {'pci_passthrough:alias': f'{alias}:{disks}'}


def _shares_specs(vcpus: int) -> dict[str, str]:
    """Weigh guests by vCPUs: they share what the host's cap leaves.

    libvirt's default weight is 1024 for each vCPU; cgroup v2 knows at most
    10000.
    """
    return {'quota:cpu_shares': str(min(1024 * vcpus, 10_000))}


def _quota_specs(
    profile: HostProfile,
    configuration: Configuration,
    share: _HostShare,
    applied_to: str,
) -> dict[str, str]:
    """Cap a guest at its share of the host's cap, rounded down.

    cgroup v1 refuses a child's quota above its parent's share.
    """
    if applied_to not in ('guest', 'vcpu'):
        raise errors.InputError(
            f"cpu_quota is '{applied_to}': take guest (lxc) or vcpu (QEMU)"
        )
    cores = Fraction(str(profile.caps.cpu or profile.cpus))
    quota_share = cores / configuration.instances * _QUOTA_PERIOD
    quota = int(
        quota_share / share.vcpus if applied_to == 'vcpu' else quota_share
    )
    return {
        'quota:cpu_quota': str(quota),
        'quota:cpu_period': str(_QUOTA_PERIOD),
    }
