# SPDX-License-Identifier: Apache-2.0
"""Extra specs of derived flavors.

Each function names its source, as in :mod:`hvstack.model.flavor`.
"""

from fractions import Fraction

from hvstack import errors
from hvstack.model.configuration import Configuration
from hvstack.model.host import HostProfile
from hvstack.model.host_share import CONTROLLERS, HostShare

#: vCPUs that interrupts reach without an IOMMU: IDs of APICs have 8 bits.
_APIC_VCPUS = 255

#: Length of the scheduler's period that a quota is a part of, in us.
_QUOTA_PERIOD = 100_000


def topology_specs(
    profile: HostProfile, configuration: Configuration, share: HostShare
) -> dict[str, str]:
    """Show the guest sockets for cells, and threads only where it has them.

    Nova, "CPU topologies": a floating vCPU is no sibling of another, a
    pinned pair is. One receive queue is enough for Hadoop (vsphere6, "Best
    Practices": avoid multi-queue networking). libvirt starts a guest of more
    than 255 vCPUs only with an IOMMU that remaps interrupts, and the IOMMU of
    virtio does not.
    """
    cells = len(share.cells)
    has_equal_cells = len({vcpus for vcpus, _ in share.cells}) == 1
    sockets = cells if has_equal_cells else 1
    threads = _count_siblings(profile, configuration, share)
    specs = {
        'hw:cpu_sockets': str(sockets),
        'hw:cpu_cores': str(share.vcpus // sockets // threads),
        'hw:cpu_threads': str(threads),
        'hw:vif_multiqueue_enabled': 'false',
    }
    if share.vcpus > _APIC_VCPUS:
        specs['hw:viommu_model'] = 'intel'
    return specs


def _count_siblings(
    profile: HostProfile, configuration: Configuration, share: HostShare
) -> int:
    """Return the threads of a core that a guest always gets together."""
    threads = profile.threads_per_core
    if configuration.cpu_policy != 'dedicated' or any(
        vcpus % threads for vcpus, _ in share.cells
    ):
        return 1
    return threads


def dedicated_specs(
    profile: HostProfile, configuration: Configuration, share: HostShare
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
            last = first + vcpus - 1
            # A list of many CPUs is longer than Nova's 255 characters.
            specs[f'hw:numa_cpus.{cell}'] = (
                f'{first}-{last}' if last > first else f'{first}'
            )
            specs[f'hw:numa_mem.{cell}'] = str(ram)
            first = last + 1
    return specs


def required_traits(
    profile: HostProfile, configuration: Configuration, role: str
) -> dict[str, str]:
    """Require the profile's traits of the role and of the storage."""
    traits = [profile.traits.get(role)]
    if role in CONTROLLERS and traits == [None]:
        traits = [profile.traits.get('controller')]
    if role == 'worker':
        traits.append(profile.traits.get(configuration.storage))
    return {f'trait:{trait}': 'required' for trait in traits if trait}


def join_worker_traits(
    profile: HostProfile, configuration: Configuration
) -> str:
    """Return the traits of the workers' hosts, with commas between them.

    :returns: traits that the flavor of the workers requires; empty for none.
    """
    return ','.join(
        key.removeprefix('trait:')
        for key in required_traits(profile, configuration, 'worker')
    )


def pci_specs(
    profile: HostProfile, configuration: Configuration, disks: int
) -> dict[str, str]:
    """Pass whole NVMe disks through (vsphere6, "Local Storage": pRDM).

    A guest with dedicated CPUs has NUMA cells. Nova gives it only devices of
    these cells by default, and the disks of a host can be near some of its
    cells only.
    """
    alias = profile.disks.pci_alias if profile.disks else None
    if not alias or not disks or not configuration.disk_pinning:
        return {}
    specs = {'pci_passthrough:alias': f'{alias}:{disks}'}
    if configuration.cpu_policy == 'dedicated':
        specs['hw:pci_numa_affinity_policy'] = 'preferred'
    return specs


def shares_specs(vcpus: int) -> dict[str, str]:
    """Weigh guests by vCPUs: they share what the host's cap leaves.

    libvirt's default weight is 1024 for each vCPU; cgroup v2 knows at most
    10000.
    """
    return {'quota:cpu_shares': str(min(1024 * vcpus, 10_000))}


def quota_specs(
    profile: HostProfile,
    configuration: Configuration,
    share: HostShare,
    applied_to: str,
) -> dict[str, str]:
    """Cap a guest at its share of the host's cap, rounded down.

    cgroup v1 refuses a child's quota above its parent's share.
    """
    if applied_to not in ('guest', 'vcpu'):
        raise errors.InputError(
            "Cannot derive the quota of a flavor: 'cpu_quota' is "
            f"'{applied_to}'. Use guest (lxc) or vcpu (QEMU)."
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
