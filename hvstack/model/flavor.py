# SPDX-License-Identifier: Apache-2.0
"""Deriving flavors: host profile + configuration + role -> flavor.

Each rule is one small function that names where it comes from: a paper of
the field (vsphere6: "Virtualized Hadoop Performance with VMware vSphere 6";
vsan: "Hadoop on VMware vSAN", both by title, section and table) or Nova's
own documentation.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hvstack import errors
from hvstack.model.configuration import Configuration
from hvstack.model.flavor_specs import (
    dedicated_specs,
    pci_specs,
    quota_specs,
    required_traits,
    shares_specs,
    topology_specs,
)
from hvstack.model.host import HostProfile
from hvstack.model.host_share import (
    ROLES,
    compute_controller_share,
    compute_guest_memory_mib,
    compute_share,
    shape_controller,
    to_fraction,
)
from hvstack.model.local_space import compute_space_gib, is_on_data_disks
from hvstack.model.plain_data import JsonObject


@dataclass(frozen=True)
class Flavor:
    """Nova flavor in the fields and units of Nova.

    :param name: stable name that contains the shape.
    :param role: one of :data:`ROLES`.
    :param vcpus: number of vCPUs.
    :param ram: memory in MiB.
    :param disk: size of the root disk in GiB.
    :param ephemeral: size of the ephemeral disk in GiB, for the data of a
        worker without volumes.
    :param extra_specs: extra specs that the newest Nova validates.
    :param disks: number of whole data disks of a worker; 0 for a part of a
        disk.
    :param disk_size_gb: size of a data disk in units of 10^9 bytes.
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

    def to_mapping(self) -> JsonObject:
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


def count_classes(
    flavors: Iterable[tuple[Flavor, int]],
) -> dict[str, int]:
    """Return the amounts of servers by Placement's resource class.

    An extra spec ``resources:CLASS`` replaces the amount of a size (Nova,
    "Extra Specs").

    :param flavors: flavors with the numbers of their servers.
    """
    totals: Counter[str] = Counter()
    for flavor, count in flavors:
        is_dedicated = flavor.extra_specs.get('hw:cpu_policy') == 'dedicated'
        amounts = {
            'PCPU' if is_dedicated else 'VCPU': flavor.vcpus,
            'MEMORY_MB': flavor.ram,
            'DISK_GB': flavor.disk + flavor.ephemeral,
        }
        for key, value in flavor.extra_specs.items():
            prefix, _, name = key.partition(':')
            if prefix == 'resources' and value.isdecimal():
                amounts[name] = int(value)
        totals.update({name: n * count for name, n in amounts.items()})
    return {name: amount for name, amount in totals.items() if amount}


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
    :param disk_gb: size of the root disk in GiB; None uses the profile.
    :raises hvstack.errors.InputError: the flavor does not fit the host.
    """
    if role not in ROLES:
        raise errors.InputError(
            f"Cannot derive a flavor: 'role' is '{role}'. Use one of "
            f'{", ".join(ROLES)}.'
        )
    root = profile.root_gb if disk_gb is None else disk_gb
    if role == 'worker':
        share = compute_share(profile, configuration)
        disks, size = compute_data_disks(profile, configuration)
        ephemeral = _compute_ephemeral_gib(profile, configuration, root)
        shaped = configuration
    else:
        shaped = shape_controller(profile, configuration)
        share = compute_controller_share(profile, shaped)
        disks = size = ephemeral = 0
        configuration = replace(configuration, cpu_policy=shaped.cpu_policy)
    # A guest may use the host's source of entropy where its image asks for
    # it; clouds by the SCS standard scs-0101 require this of every flavor.
    specs: dict[str, str] = {'hw_rng:allowed': 'true'}
    specs |= topology_specs(profile, configuration, share)
    specs |= dedicated_specs(profile, configuration, share)
    specs |= required_traits(profile, configuration, role)
    specs |= pci_specs(profile, configuration, disks)
    if profile.policy.cpu_shares:
        specs |= shares_specs(share.vcpus)
    if cpu_quota is not None:
        specs |= quota_specs(profile, configuration, share, cpu_quota)
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
    share = compute_share(profile, configuration)
    count = configuration.instances
    total_vcpus = int(profile.cpus * to_fraction(configuration.cpu_ratio))
    memory = int(
        compute_guest_memory_mib(profile)
        * to_fraction(configuration.ram_ratio)
    )
    disks = 0
    if (
        profile.disks
        and not uses_worker_volumes(profile, configuration)
        and count <= profile.disks.count
    ):
        disks = profile.disks.count % count
    return Remainder(
        total_vcpus - count * share.vcpus, memory - count * share.ram, disks
    )


def uses_worker_volumes(
    profile: HostProfile, configuration: Configuration
) -> bool:
    """Return whether the workers have the volumes of the host profile.

    Local disks and pinned disks are those of the host.
    """
    return (
        profile.volumes is not None
        and configuration.storage == 'ceph'
        and not configuration.disk_pinning
    )


def compute_data_disks(
    profile: HostProfile, configuration: Configuration
) -> tuple[int, int]:
    """Return the number of data disks of a worker, and their size in GB.

    Every worker has the same number of whole disks (vsphere6, Table 1), or
    on Ceph volumes of a separate size (vsan, section 2.5). If a host has more
    workers than disks, no worker has a whole disk.

    :raises hvstack.errors.InputError: the host has too few disks for pinning.
    """
    if profile.volumes and uses_worker_volumes(profile, configuration):
        return profile.volumes.count, profile.volumes.size_gb
    if profile.disks is None:
        if configuration.disk_pinning:
            raise errors.InputError(
                f"Cannot pin disks: host profile '{profile.name}' has no "
                "'disks'. Add their number and size to the host profile."
            )
        return 0, 0
    disks = profile.disks
    whole = disks.count // configuration.instances
    if configuration.disk_pinning and not whole:
        raise errors.InputError(
            f'{configuration.label}: Cannot pin {disks.count} data disks to '
            f'{configuration.instances} workers per host: a worker would have '
            f'no disk. Use at most {disks.count} instances.'
        )
    if configuration.disk_pinning or configuration.storage == 'ceph':
        return whole, disks.size_gb
    return whole, disks.size_gb if whole else 0


def _compute_ephemeral_gib(
    profile: HostProfile, configuration: Configuration, root_gib: int
) -> int:
    """Return the size in GiB of the ephemeral disk of a worker.

    With local storage and without disk pinning, it has the space of the
    worker's whole disks, less the root disk, which is on the same file system.
    If a host has more workers than disks, the workers share the space of all
    disks.

    :param root_gib: size of the root disk in GiB.
    :raises hvstack.errors.InputError: the root disk fills the space.
    """
    disks = profile.disks
    if (
        disks is None
        or configuration.disk_pinning
        or configuration.storage == 'ceph'
    ):
        return 0
    whole = disks.count // configuration.instances
    space = compute_space_gib(
        profile,
        whole * disks.size_gb
        if whole
        else disks.count * disks.size_gb // configuration.instances,
    )
    if not is_on_data_disks(profile, configuration):
        return space
    if space <= root_gib:
        raise errors.InputError(
            f'{configuration.label}: Cannot derive a flavor (host profile '
            f"'{profile.name}'): the root disk of a worker has {root_gib} "
            f'GiB, and its share of the data disks has {space} GiB. Use fewer '
            "instances, or a smaller 'root_gb'."
        )
    return space - root_gib
