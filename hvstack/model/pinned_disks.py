# SPDX-License-Identifier: Apache-2.0
"""Pinned disks: how whole data disks of a host reach its workers.

With local storage, a disk is a volume of Cinder's LVM driver on the host of
its server, or an NVMe device by PCI passthrough. With Ceph, it is a volume of
a pool with one disk of each host.
"""

from hvstack.model.configuration import Configuration
from hvstack.model.host import HostDisks, HostProfile


def is_volume_local(
    profile: HostProfile, configuration: Configuration
) -> bool:
    """Return whether pinned disks are volumes of the server's own host."""
    has_alias = bool(profile.disks and profile.disks.pci_alias)
    return (
        configuration.disk_pinning
        and configuration.storage == 'local'
        and not has_alias
    )


def explain_unsupported(
    profile: HostProfile, configuration: Configuration
) -> str | None:
    """Return the reason why hosts have no pinned local volumes, or None.

    A lab host is a network namespace, and Linux serves iSCSI outside of
    namespaces only.
    """
    if not profile.policy.lab or not is_volume_local(profile, configuration):
        return None
    return (
        f'{configuration.label}: lab hosts cannot have local volumes, because '
        'the kernel provides no iSCSI to them. Use storage ceph with disk '
        "pinning, or hosts of a cloud with Cinder's LVM driver"
    )


def list_slots(disks: HostDisks) -> list[str]:
    """Return the names of a host's disk slots, which are volume types."""
    return [f'disk-slot-{number + 1}' for number in range(disks.count)]


def compute_volume_gib(disk_gb: int) -> int:
    """Return the size in GiB of the largest volume on a disk.

    Vendors count 10^9 bytes, Cinder 2^30; LVM needs less than the remainder.

    :param disk_gb: size of the disk in units of 10^9 bytes.
    """
    return max(disk_gb * 10**9 // 2**30, 1)
