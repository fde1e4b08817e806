# SPDX-License-Identifier: Apache-2.0
"""What an operator sets up on the cloud for a project, and removes again."""

import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import openstack
import openstack.exceptions

from hvstack.cloud import connection, placement, stacks
from hvstack.lab import clouds_yaml, constants
from tests.long.other_cloud import state as names
from tests.long.other_cloud.proxy import ENDPOINTS, URL
from tests.long.other_cloud.state import State, say

#: Quotas as Nova and Neutron ship them; the lab has larger ones.
NOVA_QUOTAS = {
    'instances': 10,
    'cores': 20,
    'ram': 51200,
    'key_pairs': 100,
    'server_groups': 10,
    'server_group_members': 10,
}
NEUTRON_QUOTAS = {
    'network': 100,
    'subnet': 100,
    'port': 500,
    'router': 10,
    'floatingip': 50,
    'security_group': 10,
    'security_group_rule': 100,
}
_GONE_SECONDS = 120


def connect_admin() -> Any:
    """Return the connection of the administrator of the lab."""
    return connection.connect(clouds_yaml.ADMIN_CLOUD)


def connect_user(state: State, user: str) -> Any:
    """Return the connection of a user of the project, without TLS."""
    return openstack.connect(
        load_yaml_config=False,
        load_envvars=False,
        auth_type='password',
        auth={
            'auth_url': f'{constants.url("keystone")}/v3',
            'username': user,
            'password': state.get('passwords')[user],
            'project_name': names.PROJECT,
            'user_domain_name': 'Default',
            'project_domain_name': 'Default',
        },
        region_name=constants.REGION,
    )


def create(admin: Any, state: State) -> None:
    """Create the region, the project, its users and its network."""
    _create_region(admin, state)
    _create_project(admin, state)
    _set_quotas(admin, state)
    _set_traits(admin, state)
    if names.has_tenant_network():
        _create_network(admin, state)
    _create_jump_flavor(admin, state)
    _hide_image(admin, state)


def _create_region(admin: Any, state: State) -> None:
    identity = admin.identity
    service_ids = {item.type: item.id for item in identity.services()}
    region = identity.create_region(
        id=names.REGION, description='Another way to the same services'
    )
    state.note('region', region.id)
    for service_type, path in ENDPOINTS.items():
        endpoint = identity.create_endpoint(
            service_id=service_ids[service_type],
            interface='public',
            url=f'{URL}/{path}',
            region_id=region.id,
        )
        state.append('endpoints', endpoint.id)


def _create_project(admin: Any, state: State) -> None:
    identity = admin.identity
    domain = identity.find_domain('Default', ignore_missing=False)
    roles = {role.name: role for role in identity.roles()}
    project = identity.create_project(
        name=names.PROJECT, domain_id=domain.id, description='Hadoop'
    )
    state.note('project', project.id)
    state.note(
        'passwords',
        {
            user: secrets.token_urlsafe(18)
            for user in (names.MEMBER, names.ADMIN)
        },
    )
    for user_name, role in ((names.MEMBER, 'member'), (names.ADMIN, 'admin')):
        user = identity.create_user(
            name=user_name,
            domain_id=domain.id,
            password=state.get('passwords')[user_name],
        )
        state.append('users', user.id)
        identity.assign_project_role_to_user(project, user, roles[role])


def _set_quotas(admin: Any, state: State) -> None:
    project = state.get('project')
    for service, path, quotas in (
        (
            admin.compute,
            f'/os-quota-sets/{project}',
            {'quota_set': NOVA_QUOTAS},
        ),
        (admin.network, f'/quotas/{project}', {'quota': NEUTRON_QUOTAS}),
    ):
        openstack.exceptions.raise_from_response(
            service.put(path, json=quotas), f'Cannot set {path}'
        )


def _create_network(admin: Any, state: State) -> None:
    network, project = admin.network, state.get('project')
    external = network.find_network(names.EXTERNAL, ignore_missing=False)
    net = network.create_network(name=names.NETWORK, project_id=project)
    subnet = network.create_subnet(
        name=names.SUBNET,
        project_id=project,
        network_id=net.id,
        ip_version=4,
        cidr=names.CIDR,
        # As in the network of the lab: guests do not reach its resolver.
        dns_nameservers=['0.0.0.0'],
    )
    router = network.create_router(
        name=names.ROUTER,
        project_id=project,
        external_gateway_info={'network_id': external.id},
    )
    network.add_interface_to_router(router, subnet.id)


def _set_traits(admin: Any, state: State) -> None:
    """Mark the hosts of the workers and of the controllers."""
    lab = {
        'CUSTOM_HVSTACK_LAB_WORKER': names.WORKER_TRAIT,
        'CUSTOM_HVSTACK_LAB_CONTROLLER': names.CONTROLLER_TRAIT,
    }
    hosts: dict[str, list[str]] = {}
    for lab_trait, trait in lab.items():
        admin.placement.put(f'/traits/{trait}').raise_for_status()
        state.append('traits', trait)
        hosts[trait] = sorted(placement.providers(admin, lab_trait))
        for uuid in placement.providers(admin, lab_trait).values():
            _change_trait(admin, uuid, {trait}, set())
    state.note('hosts', hosts)


def _change_trait(
    admin: Any, uuid: str, added: set[str], removed: set[str]
) -> None:
    path = f'/resource_providers/{uuid}/traits'
    for _ in range(5):
        content = admin.placement.get(path).json()
        answer = admin.placement.put(
            path,
            json={
                'traits': sorted(set(content['traits']) - removed | added),
                'resource_provider_generation': content[
                    'resource_provider_generation'
                ],
            },
        )
        # 409: nova-compute wrote its inventory in between.
        if answer.status_code == 200:
            return
        time.sleep(1)
    raise AssertionError(f'Placement does not change {path}: {answer.text}')


def _create_jump_flavor(admin: Any, state: State) -> None:
    """Create a flavor for a server with nothing but sshd.

    It uses no inventory: the workers and the controller use all VCPUs and all
    memory. Its memory is a part of what the host reserves for its agents.
    """
    flavor = admin.compute.create_flavor(
        name=names.JUMP, vcpus=1, ram=192, disk=3, is_public=False
    )
    state.append('flavors', flavor.id)
    admin.compute.create_flavor_extra_specs(
        flavor,
        {
            f'trait:{names.CONTROLLER_TRAIT}': 'required',
            'resources:VCPU': '0',
            'resources:MEMORY_MB': '0',
        },
    )
    admin.compute.flavor_add_tenant_access(flavor, state.get('project'))


def _hide_image(admin: Any, state: State) -> None:
    """Rename the image of the lab: the cloud has no guest image yet."""
    for image in list(admin.image.images(name=names.IMAGE)):
        state.append('images', image.id)
        admin.image.update_image(image, name=names.HIDDEN_IMAGE)


def remove(admin: Any, state: State) -> list[str]:
    """Remove all that :func:`create` and the user created.

    :returns: what could not be removed.
    """
    failures = []
    for step in (
        _remove_stacks,
        _remove_servers,
        _remove_network,
        _remove_other_resources,
        _remove_images,
        _remove_flavors,
        _remove_traits,
        _remove_quotas,
        _remove_identity,
    ):
        try:
            step(admin, state)
        except Exception as exc:
            failures.append(f'{step.__name__}: {type(exc).__name__}: {exc}')
            say(f'CLEAN-UP FAILED: {failures[-1]}')
    return failures


def _remove_stacks(admin: Any, state: State) -> None:
    if len(state.get('users', [])) < 2:
        return
    conn = connect_user(state, names.ADMIN)
    for stack in list(conn.orchestration.stacks()):
        stacks.delete(conn, stack.name)
    for group in list(conn.compute.server_groups()):
        conn.compute.delete_server_group(group)
    for user in (names.MEMBER, names.ADMIN):
        compute = connect_user(state, user).compute
        for key_pair in list(compute.keypairs()):
            compute.delete_keypair(key_pair)


def _remove_servers(admin: Any, state: State) -> None:
    project = state.get('project')
    if not project:
        return

    def servers() -> list[Any]:
        return list(
            admin.compute.servers(all_projects=True, project_id=project)
        )

    for server in servers():
        admin.compute.delete_server(server)
    end = time.monotonic() + _GONE_SECONDS
    while servers():
        if time.monotonic() > end:
            raise AssertionError(f'servers remain: {servers()}')
        time.sleep(2)


def _remove_network(admin: Any, state: State) -> None:
    project, network = state.get('project'), admin.network
    if not project:
        return
    for floating_ip in list(network.ips(project_id=project)):
        network.delete_ip(floating_ip)
    for router in list(network.routers(project_id=project)):
        for port in list(network.ports(device_id=router.id)):
            if port.device_owner == 'network:router_interface':
                network.remove_interface_from_router(router, None, port.id)
        network.delete_router(router)
    for port in list(network.ports(project_id=project)):
        # Those of DHCP and metadata end with the network.
        if not port.device_owner.startswith('network:'):
            network.delete_port(port)
    for net in list(network.networks(project_id=project)):
        network.delete_network(net)


def _remove_other_resources(admin: Any, state: State) -> None:
    project = state.get('project')
    if not project:
        return
    for group in list(admin.network.security_groups(project_id=project)):
        admin.network.delete_security_group(group)


def _remove_images(admin: Any, state: State) -> None:
    project = state.get('project')
    if project:
        for image in list(admin.image.images(owner=project)):
            admin.image.delete_image(image)
    for image_id in state.get('images', []):
        image = admin.image.find_image(image_id)
        if image is not None and image.name == names.HIDDEN_IMAGE:
            admin.image.update_image(image, name=names.IMAGE)


def _remove_flavors(admin: Any, state: State) -> None:
    prefixes = tuple(
        f'hv-{profile}-'
        for profile in (names.WORKER_PROFILE, names.CONTROLLER_PROFILE)
    )
    for flavor in list(admin.compute.flavors(is_public=None)):
        is_published = flavor.name.startswith(prefixes)
        if flavor.id in state.get('flavors', []) or is_published:
            admin.compute.delete_flavor(flavor)


def _remove_traits(admin: Any, state: State) -> None:
    created = set(state.get('traits', []))
    if not created:
        return
    for uuid in placement.providers(admin).values():
        if created & set(placement.traits(admin, uuid)):
            _change_trait(admin, uuid, set(), created)
    for trait in created:
        admin.placement.delete(f'/traits/{trait}').raise_for_status()


def _remove_quotas(admin: Any, state: State) -> None:
    project = state.get('project')
    if project:
        admin.compute.delete(f'/os-quota-sets/{project}')
        admin.network.delete(f'/quotas/{project}')


def _remove_identity(admin: Any, state: State) -> None:
    identity = admin.identity
    for endpoint in state.get('endpoints', []):
        identity.delete_endpoint(endpoint, ignore_missing=True)
    if state.get('region'):
        identity.delete_region(state.get('region'), ignore_missing=True)
    for user in state.get('users', []):
        identity.delete_user(user, ignore_missing=True)
    if state.get('project'):
        identity.delete_project(state.get('project'), ignore_missing=True)


def list_remains(admin: Any, state: State) -> Iterator[str]:
    """Yield what still exists after :func:`remove`."""
    project = state.get('project')
    identity = admin.identity
    for kind, items in (
        ('endpoint', identity.endpoints(region_id=names.REGION)),
        ('user', identity.users()),
        ('project', identity.projects()),
        ('network', admin.network.networks()),
        ('router', admin.network.routers()),
        ('floating IP', admin.network.ips(project_id=project)),
        ('flavor', admin.compute.flavors(is_public=None)),
        ('image', admin.image.images()),
        ('server', admin.compute.servers(all_projects=True)),
    ):
        for item in items:
            ids = (item.id, getattr(item, 'project_id', None))
            name = str(item.name or '')
            if name.startswith(('other-', 'hv-other')) or (
                kind == 'endpoint' or (project and project in ids)
            ):
                yield f'{kind} {name or item.id}'
    with suppress(openstack.exceptions.NotFoundException):
        yield f'region {identity.get_region(names.REGION).id}'
