# SPDX-License-Identifier: Apache-2.0
"""What the control plane knows of the lab's hosts, and is told about them."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from openstack.compute.v2.service import Service
from openstack.connection import Connection

from hvstack import errors, processutils
from hvstack.cloud.servers import list_all_servers
from hvstack.lab import identity, services, supervisord, venv
from hvstack.lab.hosts.sizes import CONTROLLER_TRAIT, WORKER_TRAIT, HostSize

#: The first Placement microversion with traits of resource providers.
_PLACEMENT = {'OpenStack-API-Version': 'placement 1.36'}
_OUR_TRAITS = {WORKER_TRAIT, CONTROLLER_TRAIT}


def computes(cloud: Connection) -> dict[str, str]:
    """Return the state (``up``, ``down``) of each compute service."""
    return {
        service.host: service.state
        for service in cloud.compute.services(binary='nova-compute')
    }


def parse_report(updated_at: str | None) -> float:
    """Return the time of a service's last report in seconds since the epoch.

    :param updated_at: time as Nova and Cinder print it, which is UTC; None is
        the epoch.
    """
    if not updated_at:
        return 0.0
    moment = datetime.fromisoformat(updated_at)
    return moment.replace(tzinfo=UTC).timestamp()


def _lost_libvirt(service: Service) -> bool:
    """Tell whether nova-compute has taken its host out of scheduling.

    Nova's reason then begins with AUTO (its libvirt driver); the host comes
    back some ten seconds after libvirtd. An administrator's own stays.
    """
    reason = str(service.disabled_reason or '')
    return service.status == 'disabled' and reason.startswith('AUTO')


def agents(cloud: Connection) -> dict[str, int]:
    """Return how many of each host's network agents are alive."""
    agent_counts: dict[str, int] = {}
    for agent in cloud.network.agents():
        if agent.is_alive:
            agent_counts[agent.host] = agent_counts.get(agent.host, 0) + 1
    return agent_counts


def ready(
    cloud: Connection, names: Iterable[str], since: Mapping[str, float]
) -> bool:
    """Tell whether hosts can be given servers.

    :param since: when hosts were started, by name, in seconds since the
        epoch; reports from before it do not count, because a service that
        was just stopped still looks up.
    """
    up = {
        service.host: service.state
        for service in cloud.compute.services(binary='nova-compute')
        if parse_report(service.updated_at) > since.get(service.host, -1.0)
        and not _lost_libvirt(service)
    }
    alive = agents(cloud)
    hypervisor_names = {item.name for item in cloud.compute.hypervisors()}
    return all(
        up.get(name) == 'up'
        and alive.get(name, 0) >= 2
        and name in hypervisor_names
        for name in names
    )


def discover() -> None:
    """Map new hosts to their cell now, not at the scheduler's next turn."""
    processutils.run(
        [
            venv.program('nova-manage'),
            *('--config-file', str(services.NOVA.target)),
            *('cell_v2', 'discover_hosts'),
        ],
        env=supervisord.environment(),
        timeout=120,
    )


def servers(cloud: Connection, names: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of the servers on hosts, of every project.

    :raises hvstack.errors.CloudError: the host of a server is not known.
    """
    host_names = set(names)
    server_names: dict[str, list[str]] = {}
    for server in list_all_servers(cloud):
        if server.compute_host in host_names:
            server_names.setdefault(server.compute_host, []).append(
                server.name
            )
    return server_names


def _providers(cloud: Connection) -> dict[str, str]:
    answer = cloud.placement.get('/resource_providers', headers=_PLACEMENT)
    return {
        item['name']: item['uuid']
        for item in answer.json()['resource_providers']
    }


def set_traits(cloud: Connection, hosts: Iterable[HostSize]) -> None:
    """Give each host's resource provider the trait of its role.

    :raises hvstack.errors.CloudError: Placement refuses.
    """
    providers = _providers(cloud)
    for trait in _OUR_TRAITS:
        cloud.placement.put(f'/traits/{trait}', headers=_PLACEMENT)
    for host in hosts:
        path = f'/resource_providers/{providers[host.name]}/traits'
        for _ in range(5):
            now = cloud.placement.get(path, headers=_PLACEMENT).json()
            traits = (set(now['traits']) - _OUR_TRAITS) | {host.trait}
            if traits == set(now['traits']):
                break
            answer = cloud.placement.put(
                path,
                headers=_PLACEMENT,
                json={
                    'traits': sorted(traits),
                    'resource_provider_generation': now[
                        'resource_provider_generation'
                    ],
                },
            )
            # 409: nova-compute wrote its inventory in between.
            if answer.status_code == 200:
                break
        else:
            raise errors.CloudError(
                f'Cannot set trait {host.trait} of {host.name}: Placement '
                f'answered {answer.text[:200]}. Check the Placement service '
                'of the lab.'
            )


def set_zones(cloud: Connection, hosts: Iterable[HostSize]) -> None:
    """Put hosts into the availability zones that stand for racks."""
    aggregates = {item.name: item for item in cloud.compute.aggregates()}
    for host in hosts:
        for name, aggregate in aggregates.items():
            inside = host.name in (aggregate.hosts or [])
            if inside and name.startswith('rack') and name != host.zone:
                cloud.compute.remove_host_from_aggregate(
                    aggregate.id, host.name
                )
        if not host.zone:
            continue
        if host.zone not in aggregates:
            aggregates[host.zone] = cloud.compute.create_aggregate(
                name=host.zone, availability_zone=host.zone
            )
        aggregate = aggregates[host.zone]
        if host.name not in (aggregate.hosts or []):
            cloud.compute.add_host_to_aggregate(aggregate.id, host.name)


def forget(cloud: Connection, name: str) -> None:
    """Remove a host that is no more from Nova and Neutron."""
    for service in cloud.compute.services(binary='nova-compute'):
        if service.host == name:
            cloud.compute.delete_service(service)
    for agent in cloud.network.agents():
        if agent.host == name:
            cloud.network.delete_agent(agent)


def connect() -> Connection:
    """Return the administrator's connection."""
    return identity.connect()
