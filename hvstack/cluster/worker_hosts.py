# SPDX-License-Identifier: Apache-2.0
"""Compute hosts on which a plan places the nodes, and their facts."""

from collections.abc import Iterable
from dataclasses import replace

from openstack.connection import Connection

from hvstack import errors
from hvstack.cloud import disk_locality, hypervisors, placement, zones
from hvstack.cloud.volumes import Volumes
from hvstack.cluster import baseline_hosts, probe, validation
from hvstack.cluster.base import Fact
from hvstack.model import host_disks
from hvstack.model.configuration import Configuration
from hvstack.model.flavor_specs import join_worker_traits
from hvstack.model.host import HostProfile
from hvstack.results.comparability import HOST_FACTS


def list_up(conn: Connection, zone: str) -> dict[str, hypervisors.Hypervisor]:
    """Return the hosts that are up by name.

    :param conn: connection of an administrator.
    :param zone: availability zone of the nodes; empty for any.
    :raises hvstack.errors.InputError: Nova has no such zone with hosts that
        are up.
    :raises hvstack.errors.CloudError: Nova refused.
    """
    hosts = {
        host.name: host for host in hypervisors.hypervisors(conn) if host.up
    }
    if not zone:
        return hosts
    zones.check(conn, zone)
    names = zones.list_hosts(conn, zone)
    return {name: host for name, host in hosts.items() if host.host in names}


def find_workers(
    conn: Connection,
    profile: HostProfile,
    configuration: Configuration,
    hosts_up: dict[str, hypervisors.Hypervisor],
) -> dict[str, str]:
    """Return the resource providers of the workers' hosts, UUIDs by name.

    :param profile: their host profile.
    :param configuration: configuration of the workers.
    :param hosts_up: hosts of :func:`list_up`.
    :raises hvstack.errors.CloudError: there is none.
    """
    traits = join_worker_traits(profile, configuration)
    all_providers = placement.providers(conn, traits)
    providers = {
        name: uuid for name, uuid in all_providers.items() if name in hosts_up
    }
    if not providers:
        reason = 'no host for workers is up'
        remedy = "Check the hosts with 'openstack hypervisor list'"
        if traits and not all_providers:
            reason = f'no host has {"both" if "," in traits else "the trait"}'
            text = placement.explain_trait(traits)
            remedy = f'{text[0].upper()}{text[1:]}'
        raise errors.CloudError(
            f"Cannot place workers (host profile '{profile.name}', trait "
            f'{traits.replace(",", " and ") or "none"}): {reason}. {remedy}.'
        )
    return providers


def check_controllers(
    conn: Connection,
    profile: HostProfile,
    hosts_up: dict[str, hypervisors.Hypervisor],
) -> None:
    """Check that separate controllers find hosts.

    :param profile: host profile of the controllers.
    :param hosts_up: hosts of :func:`list_up`.
    :raises hvstack.errors.InputError: there are too few.
    """
    validation.controllers(
        'separate', count_controller_hosts(conn, profile, hosts_up), profile
    )


def count_controller_hosts(
    conn: Connection,
    profile: HostProfile,
    hosts_up: dict[str, hypervisors.Hypervisor],
) -> int:
    """Return the number of hosts that can have controllers.

    :param profile: host profile of the controllers.
    :param hosts_up: hosts of :func:`list_up`.
    """
    providers = placement.providers(conn, profile.traits.get('controller'))
    return len(providers.keys() & hosts_up.keys())


def collect_facts(
    conn: Connection,
    profile: HostProfile,
    backend: str,
    worker_hosts: Iterable[hypervisors.Hypervisor],
) -> dict[str, Fact]:
    """Return the facts of the hosts that their guests cannot see."""
    facts: dict[str, Fact] = {
        'backend': backend,
        **hypervisors.versions(conn, worker_hosts),
    }
    if profile.policy.lab and baseline_hosts.LAB.exists():
        facts |= baseline_hosts.environment(
            baseline_hosts.read(baseline_hosts.LAB)
        )
        own = probe.host(baseline_hosts.lab_machine())
        # Containers see the hosts' hardware themselves.
        skip = HOST_FACTS if backend == 'lxc' else ()
        facts |= {k: own[k] for k in own if k not in skip}
    return facts


def describe_disks(
    conn: Connection,
    worker_hosts: Iterable[hypervisors.Hypervisor],
    profile: HostProfile,
    configuration: Configuration,
    requested: Volumes,
) -> dict[str, Fact]:
    """Return which disks of a host its guests use, and how.

    The disks of lab hosts are files on one disk of this machine.

    :param conn: connection of an administrator.
    :param worker_hosts: hosts of the workers.
    :param profile: their host profile.
    :param configuration: configuration of the workers.
    :param requested: volumes of each worker.
    :raises hvstack.errors.CloudError: Placement refused.
    """
    if profile.policy.lab:
        return {}
    use = host_disks.of_guests(profile, configuration)
    if use.access == host_disks.EPHEMERAL and disk_locality.list_uncertain(
        conn, worker_hosts
    ):
        use = replace(use, access=host_disks.UNCERTAIN)
    if configuration.disk_pinning and requested.count is not None:
        use = replace(use, count=requested.count * configuration.instances)
    return dict(use.to_facts())
