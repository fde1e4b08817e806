# SPDX-License-Identifier: Apache-2.0
"""The compute hosts of a cloud: which there are, and what runs guests."""

from collections.abc import Iterable
from dataclasses import dataclass

from openstack.connection import Connection

from hvstack import errors
from hvstack.cloud.connection import refused
from hvstack.results.typed_json import JsonObject

#: Compute API whose hypervisors have ``cpu_info``, which 2.88 dropped.
_CPU_INFO_API = '2.86'
#: Nova's type of the nodes of Ironic.
_IRONIC = 'ironic'


@dataclass(frozen=True)
class Hypervisor:
    """A compute host as Nova has it.

    :param hypervisor_type: Nova's field, such as ``LXC`` or ``QEMU``.
    :param version: of the hypervisor, as Nova's number.
    :param host: name of its compute service, which servers have as their
        host; the name of the hypervisor may be longer.
    :param is_enabled: whether its compute service is enabled.
    """

    name: str
    hypervisor_type: str
    version: int
    up: bool
    host: str = ''
    is_enabled: bool = True


def hypervisors(conn: Connection) -> list[Hypervisor]:
    """Return the hypervisors of guests; needs an administrator.

    A node of Ironic is one to Nova, too, but no flavor of guests fits it.

    :raises hvstack.errors.CloudError: Nova refused.
    """
    with refused(
        'Cannot list the hypervisors, which needs the role of an administrator'
    ):
        return [
            Hypervisor(
                name=item.name,
                hypervisor_type=str(item.hypervisor_type),
                version=int(item.hypervisor_version or 0),
                up=item.state == 'up' and item.status == 'enabled',
                host=str(
                    (item.service_details or {}).get('host') or item.name
                ),
                is_enabled=item.status == 'enabled',
            )
            for item in conn.compute.hypervisors(details=True)
            if str(item.hypervisor_type).lower() != _IRONIC
        ]


def list_updates(conn: Connection) -> dict[str, str]:
    """Return when each compute service last changed its row in Nova.

    The change is a report, or the start of the service.

    :returns: time in UTC by the host of the service.
    :raises hvstack.errors.CloudError: Nova refused.
    """
    with refused(
        'Cannot list the compute services, which needs the role of an '
        'administrator'
    ):
        return {
            service.host: str(service.updated_at)[:19].replace('T', ' ')
            for service in conn.compute.services(binary='nova-compute')
            if service.updated_at
        }


def cpu_info(conn: Connection, host: str) -> JsonObject:
    """Return the CPU facts that Nova has of a host; empty without any.

    :param host: its hypervisor's name.
    :raises hvstack.errors.CloudError: Nova refused, or has no such host.
    """
    with refused(
        f"Cannot inspect hypervisor '{host}', which needs the role of an "
        'administrator (policy os_compute_api:os-hypervisors:list-detail)'
    ):
        content = conn.compute.get(
            '/os-hypervisors/detail',
            params={'hypervisor_hostname_pattern': host},
            microversion=_CPU_INFO_API,
            raise_exc=True,
        ).json()
    for item in content['hypervisors']:
        if item['hypervisor_hostname'] == host:
            return dict(item.get('cpu_info') or {})
    raise errors.CloudError(
        f"Cannot find hypervisor '{host}': Nova does not have it. Use one of "
        "'openstack hypervisor list'."
    )


def backend(hosts: Iterable[Hypervisor], requested: str | None = None) -> str:
    """Return the compute backend of hosts.

    :param requested: what the user says; Nova cannot tell kvm from qemu.
    :raises hvstack.errors.CloudError: the hosts differ, or are of a kind
        that is unknown here.
    """
    hypervisor_types = {host.hypervisor_type.lower() for host in hosts}
    if len(hypervisor_types) != 1:
        raise errors.CloudError(
            'Cannot use the hosts of the workers: they have '
            f'{len(hypervisor_types)} types of hypervisors '
            f'({", ".join(sorted(hypervisor_types)) or "no host is up"}), '
            'whose results are not comparable. Use hosts of one type.'
        )
    hypervisor_type = hypervisor_types.pop()
    if hypervisor_type == 'qemu':
        return requested or 'kvm'
    if hypervisor_type == 'lxc':
        return 'lxc'
    raise errors.CloudError(
        f"Cannot use hypervisor type '{hypervisor_type}': hvstack does not "
        'know it. Use hosts with kvm, qemu or lxc.'
    )


def versions(
    conn: Connection, hosts: Iterable[Hypervisor]
) -> dict[str, str | None]:
    """Return the versions of the virtualization, if Nova reports them.

    For LXC, Nova's number is the kernel's, which guests and bare metal show
    themselves.
    """
    with refused('Cannot read the version of Nova'):
        data = conn.compute.get_endpoint_data()
    newest = getattr(data, 'max_microversion', None)
    qemu = sorted(
        {host.version for host in hosts if host.hypervisor_type == 'QEMU'}
    )
    return {
        'nova': f'API {newest[0]}.{newest[1]}' if newest else None,
        'qemu': ', '.join(_dotted(version) for version in qemu) or None,
    }


def _dotted(version: int) -> str:
    return f'{version // 10**6}.{version // 1000 % 1000}.{version % 1000}'
