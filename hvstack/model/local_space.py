# SPDX-License-Identifier: Apache-2.0
"""Space of Nova's local disks on the data disks of a host.

With local storage and without disk pinning, ``instances_path`` of nova.conf is
on a file system that spans the data disks. Nova reports its size as
``DISK_GB``, and takes the root disks and the ephemeral disks of the guests
from it, both in GiB.
"""

from hvstack.model.configuration import Configuration
from hvstack.model.host import HostProfile

#: Percent of the disks that are for files: ext4 with its default settings uses
#: 1.6 percent for inodes, and XFS uses less.
_FILE_PERCENT = 98


def is_on_data_disks(
    profile: HostProfile, configuration: Configuration
) -> bool:
    """Return whether Nova's local disks are on the data disks of the host.

    Pinned disks and those of Ceph are not for files of Nova. The instances of
    a lab host are on the disk of this machine.
    """
    return (
        profile.disks is not None
        and configuration.storage == 'local'
        and not configuration.disk_pinning
        and not profile.policy.lab
    )


def compute_space_gib(profile: HostProfile, size_gb: int) -> int:
    """Return the space in GiB for files on data disks of a host.

    :param profile: host profile. Disks of lab hosts are files of this
        machine, whose sizes are exact.
    :param size_gb: size of the disks together in units of 10^9 bytes.
    """
    if profile.policy.lab:
        return size_gb
    return size_gb * 10**9 * _FILE_PERCENT // 100 // 2**30


def compute_host_space_gib(profile: HostProfile) -> int:
    """Return the space in GiB for files on all data disks of a host."""
    disks = profile.disks
    if disks is None:
        return 0
    return compute_space_gib(profile, disks.count * disks.size_gb)
