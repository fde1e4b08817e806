# SPDX-License-Identifier: Apache-2.0
"""Local disks of servers: whether their hosts can have them on Ceph.

With ``[libvirt] images_type = rbd`` in nova.conf, root disks and ephemeral
disks are on Ceph. No API shows this option. But Nova then converts all images
to raw disks, and leaves the trait COMPUTE_IMAGE_TYPE_QCOW2 out of Placement.
It does so with ``lvm`` as well, whose disks are local
(nova/virt/libvirt/driver.py).
"""

from collections.abc import Iterable

from openstack.connection import Connection

from hvstack.cloud import placement
from hvstack.cloud.hypervisors import Hypervisor

#: Types of hypervisors of Nova's libvirt driver with disks as devices. Other
#: drivers, such as the one for tests, have their own reasons to take raw
#: images only.
_TYPES = ('QEMU', 'KVM')
_RAW_ONLY = 'COMPUTE_IMAGE_TYPE_RAW,!COMPUTE_IMAGE_TYPE_QCOW2'


def list_uncertain(conn: Connection, hosts: Iterable[Hypervisor]) -> list[str]:
    """Return the names of hosts whose images_type is rbd or lvm.

    :param conn: connection of an administrator.
    :param hosts: compute hosts.
    :raises hvstack.errors.CloudError: Placement refused.
    """
    names = {
        host.name for host in hosts if host.hypervisor_type.upper() in _TYPES
    }
    if not names:
        return []
    return sorted(names & placement.providers(conn, _RAW_ONLY).keys())
