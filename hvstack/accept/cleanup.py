# SPDX-License-Identifier: Apache-2.0
"""Deleting what interrupted acceptance tests left, by their names."""

from collections.abc import Iterable, Iterator
from typing import Any

from openstack.connection import Connection

from hvstack.accept.settings import PREFIX
from hvstack.cloud import stacks
from hvstack.cloud.connection import refused
from hvstack.progress import Progress

_SECONDS = 120


def clean(
    conn: Connection, progress: Progress, others: Iterable[Connection] = ()
) -> list[str]:
    """Delete projects of tests with all that is in them; return the names.

    :param conn: an administrator's.
    :param others: of users whose own projects tests were run in.
    :raises hvstack.errors.HVStackError: something cannot be deleted.
    """
    removed = []
    with refused('what tests left cannot be listed'):
        identity: Any = conn.identity
        projects = [one for one in identity.projects() if _ours(one)]
        users = [one for one in identity.users() if _ours(one)]
        flavors = list(conn.compute.flavors(is_public=None))
    for one in (conn, *others):
        removed += _named(one)
    for project in projects:
        progress.say(f'  deleting what is in {project.name}')
        for name in _empty(conn, project):
            removed.append(f'{name} in {project.name}')
    with refused('what tests left cannot be deleted'):
        for flavor in flavors:
            if _ours(flavor):
                conn.compute.delete_flavor(flavor, ignore_missing=True)
                removed.append(f'flavor {flavor.name}')
            elif not flavor.is_public and projects:
                _revoke(conn, flavor, {project.id for project in projects})
        for user in users:
            for pair in conn.compute.keypairs(user_id=user.id):
                conn.compute.delete_keypair(pair, user_id=user.id)
            identity.delete_user(user, ignore_missing=True)
            removed.append(f'user {user.name}')
        for project in projects:
            identity.delete_project(project, ignore_missing=True)
            removed.append(f'project {project.name}')
    return removed


def _ours(thing: Any) -> bool:
    return _begins(thing.name)


def _begins(name: Any) -> bool:
    return str(name).startswith(f'{PREFIX}-')


def _stacks(conn: Connection) -> list[str]:
    """Return the names of a project's stacks; none where there is no Heat."""
    if not conn.has_service('orchestration'):
        return []
    return [str(one.name) for one in conn.orchestration.stacks()]


def _named(conn: Connection) -> list[str]:
    """Delete what tests made, by name, in a project with other things."""
    with refused('what tests left cannot be deleted'):
        names = [name for name in _stacks(conn) if _begins(name)]
        for name in names:
            stacks.delete(conn, name)
        servers = [one for one in conn.compute.servers() if _ours(one)]
        for server in servers:
            conn.compute.delete_server(server, ignore_missing=True)
        for server in servers:
            conn.compute.wait_for_delete(server, wait=_SECONDS)
        pairs = [one for one in conn.compute.keypairs() if _ours(one)]
        for pair in pairs:
            conn.compute.delete_keypair(pair, ignore_missing=True)
        others = list(_others(conn))
    return [
        *(f'stack {name}' for name in names),
        *(f'server {server.name}' for server in servers),
        *(f'key pair {pair.name}' for pair in pairs),
        *others,
    ]


def _others(conn: Connection) -> Iterator[str]:
    """Delete what servers had, once they are gone."""
    mine = {'project_id': conn.current_project_id}
    if conn.has_service('network'):
        for port in list(conn.network.ports(**mine)):
            if _ours(port):
                conn.network.delete_port(port, ignore_missing=True)
                yield f'port {port.name}'
        for group in list(conn.network.security_groups(**mine)):
            if _ours(group):
                conn.network.delete_security_group(group, ignore_missing=True)
                yield f'security group {group.name}'
    if conn.has_service('block-storage'):
        storage: Any = conn.block_storage
        for volume in list(storage.volumes()):
            if _ours(volume):
                storage.delete_volume(volume, ignore_missing=True)
                yield f'volume {volume.name}'


def _empty(conn: Connection, project: Any) -> Iterator[str]:
    """Delete all that a project has, as one of its administrators."""
    with refused(f"project '{project.name}' cannot be entered"):
        identity: Any = conn.identity
        role = identity.find_role('admin', ignore_missing=False)
        identity.assign_project_role_to_user(
            project, conn.current_user_id, role
        )
        inside: Any = conn.connect_as_project(project)
        names = _stacks(inside)
    for name in names:
        stacks.delete(inside, name)
        yield f'stack {name}'
    with refused(f"project '{project.name}' cannot be emptied"):
        servers = list(inside.compute.servers())
        for server in servers:
            inside.compute.delete_server(server, ignore_missing=True)
        for server in servers:
            inside.compute.wait_for_delete(server, wait=_SECONDS)
            yield f'server {server.name}'
        for group in list(inside.compute.server_groups()):
            inside.compute.delete_server_group(group, ignore_missing=True)
        if inside.has_service('block-storage'):
            for volume in list(inside.block_storage.volumes()):
                inside.block_storage.delete_volume(volume)
        if not inside.has_service('network'):
            return
        mine = {'project_id': project.id}
        for port in list(inside.network.ports(**mine)):
            inside.network.delete_port(port, ignore_missing=True)
        for group in list(inside.network.security_groups(**mine)):
            inside.network.delete_security_group(group, ignore_missing=True)


def _revoke(conn: Connection, flavor: Any, projects: set[str]) -> None:
    for access in conn.compute.get_flavor_access(flavor):
        if access['tenant_id'] in projects:
            conn.compute.flavor_remove_tenant_access(
                flavor, access['tenant_id']
            )
