# SPDX-License-Identifier: Apache-2.0
"""Checks of pinned CPUs, memory and volumes for the first run.

The checks themselves are those of the acceptance tests. Each of their results
belongs to an item of the checklist.
"""

from collections.abc import Mapping, Sequence

from openstack.connection import Connection

from hvstack import errors
from hvstack.accept import (
    disk_checks,
    first_run_checks,
    guest_checks,
    host_inspection,
    libvirt_domain,
)
from hvstack.accept.check_result import CheckResult, check_equal
from hvstack.accept.first_run import (
    FirstRun,
    GuestReading,
    GuestServer,
)
from hvstack.accept.guest_checks import GuestCell
from hvstack.cloud.connection import refused

#: Item by the beginning of the subject of a check of pins.
PIN_ITEMS = {
    'vcpupin': 'domain-vcpupin',
    'pinned vCPUs': 'domain-vcpupin',
    'CPUs used once': 'domain-vcpupin',
    'in cpu_dedicated_set': 'domain-vcpupin',
    'thread of vCPU': 'domain-vcpupin',
    'emulatorpin': 'domain-emulatorpin',
    "thread '": 'domain-emulatorpin',
    'iothreadpin': 'domain-iothreads',
    'NUMA cells': 'domain-numatune',
    'memnode': 'domain-numatune',
    'CPUs of cell': 'domain-numatune',
    'large pages': 'domain-huge-pages',
}
_PINS = (
    *('domain-vcpupin', 'domain-emulatorpin', 'domain-iothreads'),
    'domain-numatune',
)
#: Compute API with ``/servers/{id}/topology`` (2.78).
_TOPOLOGY_API = '2.86'
_NEED = (
    'Use the credentials of an administrator with the compute API 2.78, and '
    'let root run virsh on the hosts (--host-access).'
)


def find_item(check: CheckResult, guest: str) -> str:
    """Return the item of a check of pins.

    :param check: result of :func:`hvstack.accept.guest_checks.check_pins`.
    :param guest: name of the guest, with which the subject begins.
    :raises KeyError: the check belongs to no item.
    """
    subject = check.subject.removeprefix(f'{guest}: ')
    for beginning, item in PIN_ITEMS.items():
        if subject.startswith(beginning):
            return item
    raise KeyError(check.subject)


def check_pins(first_run: FirstRun, guests: Sequence[GuestReading]) -> None:
    """Check the pins of guests with dedicated CPUs.

    :param first_run: receives the checks.
    :param guests: guests of the cluster.
    """
    if first_run.plan.is_shared:
        return
    dedicated_guests = [guest for guest in guests if guest.server.is_dedicated]
    has_pages = bool(first_run.settings.pages)
    items = (*_PINS, *(['domain-huge-pages'] if has_pages else []))
    for guest in dedicated_guests:
        with first_run.reading(items, f'pins of {guest.server.name}', _NEED):
            _check_guest(first_run, guest)
    hosts = sorted({guest.server.host for guest in dedicated_guests})
    compared = False
    for host in hosts:
        with first_run.reading(
            ('domain-own-cpus', 'domain-emulatorpin'),
            f'guests of host {host}',
            _NEED,
        ):
            compared |= _compare_guests(
                first_run,
                host,
                [
                    guest
                    for guest in dedicated_guests
                    if guest.server.host == host
                ],
            )
    if hosts and not compared:
        first_run.checklist.add_missing(
            ('domain-own-cpus',),
            'no host has two guests with dedicated CPUs',
            'Use --configuration with more instances on a host, such as '
            'i4-dedicated.',
        )


def _check_guest(first_run: FirstRun, guest: GuestReading) -> None:
    server, access = guest.server, first_run.access
    options = first_run.read_options(server.host)
    domain = libvirt_domain.parse_domain(guest.xml)
    cells = read_cells(first_run.admin, server.server_id)
    check_results = [
        *guest_checks.check_pins(
            domain,
            server.specs,
            cells,
            dedicated=libvirt_domain.cpu_set(options, 'cpu_dedicated_set'),
            shared=libvirt_domain.cpu_set(options, 'cpu_shared_set'),
            cells=host_inspection.read_cells(access, server.host),
            threads=host_inspection.read_threads(
                access, server.host, server.instance
            ),
        ),
        *guest_checks.check_numa_topology(
            domain.name, server.specs, server.vcpus, cells
        ),
    ]
    items = [find_item(check, domain.name) for check in check_results]
    iothread_checks = []
    for item, check in zip(items, check_results, strict=True):
        if item == 'domain-iothreads':
            iothread_checks.append(check)
        else:
            first_run.checklist.add(item, check)
    first_run.checklist.add(
        'domain-iothreads',
        *first_run_checks.check_iothreads(
            domain, guest.hardware.iothreads, iothread_checks
        ),
    )


def _compare_guests(
    first_run: FirstRun, host: str, guests: Sequence[GuestReading]
) -> bool:
    """Compare the CPUs of the guests of a host.

    :returns: whether the host has two guests with dedicated CPUs.
    """
    options = first_run.read_options(host)
    domains = [libvirt_domain.parse_domain(guest.xml) for guest in guests]
    others = host_inspection.list_domains(first_run.access, host)
    dedicated = libvirt_domain.cpu_set(options, 'cpu_dedicated_set')
    first_run.checklist.add(
        'domain-emulatorpin',
        *first_run_checks.check_emulators(domains, others),
    )
    # The first check has the number of guests, the others compare two each.
    count, *comparisons = guest_checks.check_disjoint_cpus(
        host, domains, others, dedicated
    )
    if comparisons:
        first_run.checklist.add('domain-own-cpus', count, *comparisons)
    return bool(comparisons)


def read_cells(admin: Connection, server_id: str) -> list[GuestCell]:
    """Return the NUMA cells of a server from Nova's API.

    :param admin: connection of an administrator.
    :param server_id: ID of the server.
    :raises hvstack.errors.CloudError: Nova refused.
    """
    with refused(f'Cannot read the NUMA topology of server {server_id}'):
        answer = admin.compute.get(
            f'/servers/{server_id}/topology',
            microversion=_TOPOLOGY_API,
            raise_exc=True,
        ).json()
    nodes: list[GuestCell] = answer['nodes']
    return nodes


def check_volumes(
    first_run: FirstRun, servers: Sequence[GuestServer], workers: Sequence[str]
) -> None:
    """Check that pinned local volumes are on the hosts of their servers.

    :param first_run: receives the checks.
    :param servers: servers of the cluster.
    :param workers: names of the workers, which have the volumes.
    """
    disks = first_run.plan.disks
    if not disks.local:
        return
    with first_run.reading(('host-volumes',), 'volumes of the workers', _NEED):
        volumes = read_volume_hosts(first_run.admin)
        check_results = []
        owners = []
        for server in servers:
            if server.name not in workers:
                continue
            hosts = volumes.get(server.server_id, {})
            check_results += [
                check_equal(
                    f'{server.name}: volumes', len(disks.types[0]), len(hosts)
                ),
                *disk_checks.check_volume_locality(
                    server.name, server.host, hosts
                ),
            ]
            owners += [(host, server.name) for host in hosts.values()]
        check_results += disk_checks.check_own_disks(owners)
        first_run.checklist.add('host-volumes', *check_results)


def read_volume_hosts(admin: Connection) -> dict[str, Mapping[str, str]]:
    """Return ``host@backend#pool`` by volume of each server.

    :param admin: connection of an administrator.
    :raises hvstack.errors.CloudError: Cinder refused, or does not show the
        host of an attached volume.
    """
    hosts: dict[str, dict[str, str]] = {}
    with refused('Cannot list the volumes'):
        for volume in admin.block_storage.volumes(all_projects=True):
            for attachment in volume.attachments or ():
                hosts.setdefault(str(attachment['server_id']), {})[
                    str(volume.id)
                ] = str(volume.host or '')
    if not all(
        host for volumes in hosts.values() for host in volumes.values()
    ):
        raise errors.CloudError(
            'Cannot find the hosts of the volumes: Cinder does not show them '
            'to this user. Use the credentials of an administrator.'
        )
    return dict(hosts)
