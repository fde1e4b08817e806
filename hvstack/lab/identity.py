# SPDX-License-Identifier: Apache-2.0
"""Keystone's content: service users, endpoints, the tenant's project."""

import openstack
from keystoneauth1 import exceptions, session
from keystoneauth1.identity import v3
from openstack.connection import Connection
from openstack.identity.v3._proxy import Proxy as Identity
from openstack.identity.v3.project import Project
from openstack.identity.v3.user import User

from hvstack import processutils
from hvstack.cloud.connection import get_identity
from hvstack.lab import constants, services, settings, supervisord, venv

#: (name, type, path) of each service in the catalogue.
CATALOGUE = (
    ('placement', 'placement', ''),
    ('glance', 'image', ''),
    ('nova', 'compute', '/v2.1'),
    ('neutron', 'network', ''),
    ('heat', 'orchestration', '/v1/%(tenant_id)s'),
    ('heat-cfn', 'cloudformation', '/v1'),
)
#: The same of a service that only a lab with Ceph or with LVM has.
CINDER = ('cinder', 'volumev3', '/v3/%(project_id)s')
#: Project and user of whoever creates Hadoop clusters.
TENANT = 'tenant'
MEMBER = 'member'


def catalogue() -> tuple[tuple[str, str, str], ...]:
    """Return the services of the catalogue."""
    return (*CATALOGUE, CINDER) if settings.has_cinder() else CATALOGUE


def keys() -> None:
    """Make keystone's Fernet and credential keys; kept if they are there."""
    config = ('--config-file', str(services.KEYSTONE.target))
    for key_type in ('fernet', 'credential'):
        directory = services.ETC / 'keystone' / f'{key_type}-keys'
        if not (directory / '1').exists():
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(0o700)
            owner = ('--keystone-user', 'root', '--keystone-group', 'root')
            processutils.run(
                [
                    venv.program('keystone-manage'),
                    *(*config, f'{key_type}_setup', *owner),
                ],
                env=supervisord.environment(),
            )


def bootstrap() -> None:
    """Make keystone's administrator, roles and endpoint."""
    endpoint = f'{constants.url("keystone")}/v3'
    processutils.run(
        [
            venv.program('keystone-manage'),
            *('--config-file', str(services.KEYSTONE.target), 'bootstrap'),
            *('--bootstrap-region-id', constants.REGION),
            *('--bootstrap-public-url', endpoint),
            *('--bootstrap-internal-url', endpoint),
            *('--bootstrap-admin-url', endpoint),
        ],
        env={
            **supervisord.environment(),
            # Not on the command line, where anyone could read it.
            'OS_BOOTSTRAP_PASSWORD': settings.secret('admin'),
        },
    )


def build_auth(user: str, project: str) -> dict[str, str]:
    """Return the credentials of a user of the lab, with its password.

    :param user: ``admin`` or :data:`MEMBER`.
    :param project: project name.
    """
    return {
        'auth_url': f'{constants.url("keystone")}/v3',
        'username': user,
        'password': settings.secret(user),
        'project_name': project,
        'user_domain_name': 'Default',
        'project_domain_name': 'Default',
    }


def connect(project: str = 'admin', user: str = 'admin') -> Connection:
    """Return an openstacksdk connection to the lab.

    :param project: project name.
    :param user: ``admin`` or :data:`MEMBER`.
    """
    return openstack.connect(
        load_yaml_config=False,
        load_envvars=False,
        auth_type='password',
        auth=build_auth(user, project),
        region_name=constants.REGION,
    )


def fill(cloud: Connection) -> None:
    """Make users, roles, services, endpoints and the stack domain.

    What already exists stays; a password that is another is set again.
    """
    identity = get_identity(cloud)
    domain = identity.find_domain('Default', ignore_missing=False)
    roles = {role.name: role for role in identity.roles()}
    for name in ('service', 'heat_stack_owner', 'heat_stack_user'):
        if name not in roles:
            roles[name] = identity.create_role(name=name)

    service = _project(identity, domain.id, 'service', "The services' users")
    cinder = (CINDER[0],) if settings.has_cinder() else ()
    for name in (*constants.SERVICE_USERS, *cinder):
        user = _user(identity, domain.id, name)
        for role in ('admin', 'service'):
            identity.assign_project_role_to_user(service, user, roles[role])

    tenant = _project(identity, domain.id, TENANT, 'Hadoop clusters')
    member = _user(identity, domain.id, MEMBER)
    for role in ('member', 'heat_stack_owner'):
        identity.assign_project_role_to_user(tenant, member, roles[role])
    admin = identity.find_user(
        'admin', ignore_missing=False, domain_id=domain.id
    )
    for role in ('admin', 'heat_stack_owner'):
        identity.assign_project_role_to_user(tenant, admin, roles[role])

    heat = identity.find_domain('heat', ignore_missing=True)
    heat = heat or identity.create_domain(
        name='heat', description="Stacks' own users"
    )
    keeper = _user(identity, heat.id, 'heat_domain_admin')
    identity.assign_domain_role_to_user(heat, keeper, roles['admin'])

    services_by_name = {entry.name: entry for entry in identity.services()}
    urls = {
        (entry.service_id, entry.interface): entry
        for entry in identity.endpoints()
    }
    if not cinder and CINDER[0] in services_by_name:
        # Clients take a service that is listed for one that answers.
        identity.delete_service(services_by_name[CINDER[0]])
    for name, service_type, path in catalogue():
        entry = services_by_name.get(name) or identity.create_service(
            name=name, type=service_type
        )
        for interface in ('public', 'internal'):
            url = f'{constants.url(name)}{path}'
            old = urls.get((entry.id, interface))
            if old is None:
                identity.create_endpoint(
                    service_id=entry.id,
                    interface=interface,
                    url=url,
                    region_id=constants.REGION,
                )
            elif old.url != url:
                identity.update_endpoint(old, url=url)


def _project(identity: Identity, domain: str, name: str, text: str) -> Project:
    return identity.find_project(
        name, domain_id=domain
    ) or identity.create_project(name=name, domain_id=domain, description=text)


def _user(identity: Identity, domain: str, name: str) -> User:
    password = settings.secret(name)
    user = identity.find_user(name, domain_id=domain)
    if user is None:
        return identity.create_user(
            name=name, domain_id=domain, password=password
        )
    if not _logs_in(domain, name, password):
        user = identity.update_user(user, password=password)
    return user


def _logs_in(domain: str, name: str, password: str) -> bool:
    """Tell whether a user has this password.

    To set it once more would revoke all tokens, those of running services.
    """
    user = v3.Password(
        f'{constants.url("keystone")}/v3',
        username=name,
        user_domain_id=domain,
        password=password,
        unscoped=True,
    )
    try:
        user.get_token(session.Session())
    except exceptions.Unauthorized:
        return False
    return True
