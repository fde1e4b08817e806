# SPDX-License-Identifier: Apache-2.0
"""Checks of compute hosts before a cluster is on them.

The settings with which they are compared are those that 'hvstack host
nova-conf' prints.
"""

import math
from collections.abc import Iterator

from openstack.connection import Connection

from hvstack.cloud import disk_locality, hypervisors, placement, zones
from hvstack.cloud.diagnosis import (
    NOTE,
    UNCHECKED,
    CloudNeeds,
    Diagnosis,
    build_finding,
)
from hvstack.cloud.placement import HostInventories
from hvstack.model import cinder_conf, config_options, nova_conf
from hvstack.model.configuration import Configuration
from hvstack.model.flavor_specs import join_worker_traits
from hvstack.model.host import HostProfile
from hvstack.model.host_settings import HostSettings, compute_host_settings
from hvstack.model.host_share import PAGE_MIB, to_fraction
from hvstack.nouns import format_server_use


def workers_hosts(
    conn: Connection,
    profile: HostProfile,
    configuration: Configuration,
    zone: str = '',
) -> dict[str, str]:
    """Return the hosts that the worker's flavor can land on: UUID by name.

    :param profile: host profile of the workers.
    :param configuration: configuration of the workers.
    :param zone: availability zone of the workers; empty for any.
    :raises hvstack.errors.CloudError: Placement or Nova refused, or is
        missing.
    """
    return list_zone_hosts(
        conn, join_worker_traits(profile, configuration), zone
    )


def list_request_hosts(
    conn: Connection, request: CloudNeeds
) -> dict[str, str]:
    """Return the hosts of the workers of a requested cluster: UUID by name.

    :raises hvstack.errors.CloudError: see :func:`workers_hosts`.
    """
    return workers_hosts(
        conn, request.profile, request.configuration, request.zone
    )


def list_zone_hosts(
    conn: Connection, traits: str | None, zone: str
) -> dict[str, str]:
    """Return the hosts with traits in a zone: UUID by name.

    :param traits: traits as :func:`hvstack.cloud.placement.providers` expects
        them.
    :param zone: name of the availability zone; empty for any.
    :raises hvstack.errors.CloudError: Placement or Nova refused, or is
        missing.
    """
    providers = placement.providers(conn, traits)
    hosts = zones.list_hosts(conn, zone) if zone else None
    # Nodes of Ironic are compute nodes in Placement, too.
    names = {
        item.name
        for item in hypervisors.hypervisors(conn)
        if hosts is None or item.host in hosts
    }
    return {name: uuid for name, uuid in providers.items() if name in names}


def check_inventories(
    host: str, inventories: HostInventories, request: CloudNeeds
) -> Iterator[Diagnosis]:
    """Check ratios, CPUs and memory that Placement has of a host.

    :param inventories: inventory by resource class.
    """
    yield from _ratios(host, inventories)
    yield _check_cpus(host, inventories, request)
    yield _check_memory(host, inventories, request)


def _compute_settings(
    request: CloudNeeds, memory_mib: int | None = None
) -> HostSettings:
    """Return the settings of the workers' hosts.

    :param memory_mib: memory that the host reports in MiB; None uses the
        host profile.
    """
    return compute_host_settings(
        request.profile,
        request.configuration.cpu_policy,
        memory_mib=memory_mib,
    )


def _check_cpus(
    host: str, inventories: HostInventories, request: CloudNeeds
) -> Diagnosis:
    """Check that a host has the CPUs of its workers, for their policy."""
    resource_class = 'PCPU' if request.dedicated else 'VCPU'
    configuration = request.configuration
    flavor, _ = request.nodes[0]
    # A sweep sets the ratio itself.
    needed = math.ceil(
        configuration.instances
        * flavor.vcpus
        / to_fraction(configuration.cpu_ratio)
    )
    cpus = inventories.get(resource_class, {'total': 0, 'reserved': 0})
    room = cpus['total'] - cpus['reserved']
    remedy = 'give CPUs to such guests while none runs there'
    detail = f'{resource_class} {room}'
    if cpus['reserved']:
        detail += f' ({cpus["total"]}, of which {cpus["reserved"]} reserved)'
        remedy += ', unset reserved_host_cpus'
    if not cpus['total']:
        detail = f'has {", ".join(sorted(inventories))}'
    elif room < needed:
        detail += f' of {needed} that the workers need'
    return build_finding(
        f'{resource_class} of {host}',
        room >= needed,
        detail,
        f'{remedy}, and restart nova-compute',
        config_options.format_options(
            [nova_conf.list_cpu_option(_compute_settings(request))]
        ),
    )


def _check_memory(
    host: str, inventories: HostInventories, request: CloudNeeds
) -> Diagnosis:
    """Check that a host leaves the profile's memory to its guests."""
    memory = inventories.get('MEMORY_MB', {'total': 0, 'reserved': 0})
    room = memory['total'] - memory['reserved']
    settings = _compute_settings(request, int(memory['total']))
    needed = settings.guest_memory_mib
    remedy = f"profile '{request.profile.name}' gives {needed} MiB to guests: "
    lines = ''
    if needed > memory['total']:
        # No value of the option gives guests more memory than the host has.
        remedy += (
            "derive flavors for this host ('hvstack host detect --from-cloud "
            f"{host}')"
        )
    else:
        remedy += 'reserve less, or derive flavors for this host'
        lines = config_options.format_options(
            nova_conf.list_memory_options(settings)
        )
    return build_finding(
        f'memory of {host}',
        room >= needed,
        f'{room} MiB for guests ({memory["total"]}, of which '
        f'{memory["reserved"]} reserved)',
        remedy,
        lines,
    )


def _ratios(host: str, inventories: HostInventories) -> Iterator[Diagnosis]:
    other_ratios = {
        resource_class: content['allocation_ratio']
        for resource_class, content in sorted(inventories.items())
        if float(content['allocation_ratio']) != 1
    }
    yield build_finding(
        f'ratios of {host}',
        not other_ratios,
        ', '.join(
            f'{resource_class} {value:g}'
            for resource_class, value in other_ratios.items()
        )
        or '1 for all of ' + ', '.join(sorted(inventories)),
        f'on {host}, set cpu_allocation_ratio and ram_allocation_ratio to 1.0 '
        'and restart nova-compute, which then writes them to Placement; unset '
        'both afterwards, so that sweeps can change the ratios',
        config_options.format_options(nova_conf.list_ratio_options()),
    )


def list_unchecked(request: CloudNeeds) -> Iterator[Diagnosis]:
    """Yield the settings of hosts that no API shows, with their values."""
    yield Diagnosis(
        'nova.conf that overwrites ratios',
        UNCHECKED,
        'no API shows cpu_allocation_ratio and ram_allocation_ratio',
        "leave both unset on the hosts; 'hvstack accept --scope host' reads "
        'them',
        config_options.format_options(nova_conf.list_ratio_options()),
    )
    purpose = 'at most I workers on one host'
    if request.dedicated:
        purpose += '; cells and pages'
    yield Diagnosis(
        "Nova's filters",
        UNCHECKED,
        f'no API shows them; needed for: {purpose}',
        "set them for nova-scheduler; 'hvstack accept --scope operator' "
        'sees their effect',
        config_options.format_options(
            nova_conf.list_scheduler_options(
                request.profile, request.configuration
            )
        ),
    )
    settings = _compute_settings(request)
    if settings.pages:
        cells = ', '.join(
            f'{cell.count} in cell {cell.cell}' for cell in settings.pages
        )
        yield Diagnosis(
            'large pages',
            UNCHECKED,
            'no API shows how many a host has',
            f'{settings.page_count} of {PAGE_MIB} MiB are needed ({cells}): '
            f'kernel command line {settings.kernel_parameters}, then restart '
            "libvirtd and nova-compute; 'hvstack host nova-conf "
            f"{request.profile.name} --cpu-policy dedicated' prints all "
            'settings',
            config_options.format_options(
                option
                for option in nova_conf.list_memory_options(settings)
                if option.name == 'reserved_huge_pages'
            ),
        )


def list_unchecked_cinder(request: CloudNeeds) -> Iterator[Diagnosis]:
    """Yield the settings for local volumes that no API shows."""
    filters, *_ = cinder_conf.list_cinder_scheduler_options(
        request.profile, request.configuration
    )
    yield Diagnosis(
        "Cinder's filters",
        UNCHECKED,
        'no API shows them; with InstanceLocalityFilter, the volumes of a '
        'server are on its host, and hvstack checks this after the start',
        f'in cinder.conf of the schedulers: [{filters.section}] '
        f'{filters.line}',
    )
    yield Diagnosis(
        "Cinder's account in Nova",
        UNCHECKED,
        'no API shows it; InstanceLocalityFilter asks Nova for the host of a '
        'server, which only a privileged account sees',
        'in cinder.conf of the schedulers: a privileged account in [nova] '
        f"('hvstack host nova-conf {request.profile.name} --disk-pinning "
        "--file cinder-scheduler')",
    )


def other_servers(
    conn: Connection, request: CloudNeeds
) -> Iterator[Diagnosis]:
    """Name the workers' hosts on which servers are."""
    uses = placement.list_other_consumers(
        conn, list_request_hosts(conn, request), ()
    )
    if uses:
        yield Diagnosis(
            "servers on the workers' hosts",
            NOTE,
            '; '.join(
                f'{name}: {format_server_use(use)}'
                for name, use in uses.items()
            ),
            'a figure is that of an idle host only without them: '
            f"'openstack server list --all-projects --host {min(uses)}'",
        )


def local_disks(conn: Connection, request: CloudNeeds) -> Iterator[Diagnosis]:
    """Name workers' hosts whose local disks can be on Ceph."""
    # Pinned disks are volumes or passed through, never Nova's local disks.
    if request.needs_volumes or request.configuration.disk_pinning:
        return
    worker_hosts = list_request_hosts(conn, request)
    names = disk_locality.list_uncertain(
        conn,
        (
            host
            for host in hypervisors.hypervisors(conn)
            if host.name in worker_hosts
        ),
    )
    if names:
        yield Diagnosis(
            'local disks',
            NOTE,
            f'images_type of Nova is rbd or lvm on {", ".join(names)}: with '
            'rbd, ephemeral disks are on Ceph, and a configuration with local '
            'storage measures Ceph',
            "'hvstack accept --scope host' sees where the disks are; "
            "'hvstack host nova-conf' prints the settings for local disks",
        )
