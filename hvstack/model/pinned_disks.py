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
    """Return the reason why hosts lack the volumes of a storage, or None.

    A lab has either Ceph or volume groups on its hosts. Linux serves iSCSI
    outside of network namespaces only, such as a lab host is: its volumes need
    the NVMe target, which not every kernel has.
    """
    policy = profile.policy
    if not policy.lab:
        return None
    if policy.local_volumes and configuration.storage == 'ceph':
        return (
            f'{configuration.label}: the lab has local volumes, and therefore '
            "no Ceph. Use storage local, or run 'hvstack lab up --without "
            "lvm' and then 'hvstack lab up --with ceph'"
        )
    if policy.local_volumes or not is_volume_local(profile, configuration):
        return None
    return (
        f'{configuration.label}: this lab has no local volumes, because the '
        "kernel provides no iSCSI to its hosts. Use 'hvstack lab up --with "
        "lvm' on a machine whose kernel has an NVMe target, storage ceph with "
        "disk pinning, or hosts of a cloud with Cinder's LVM driver"
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
