# SPDX-License-Identifier: Apache-2.0
"""Delete the resources of interrupted acceptance tests.

The names of all resources that tests create begin with the random ID of the
workspace.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

import keystoneauth1.exceptions
from openstack.compute.v2.flavor import Flavor
from openstack.connection import Connection
from openstack.identity.v3.project import Project
from openstack.identity.v3.user import User
from openstack.resource import Resource

from hvstack import errors
from hvstack.cloud.connection import get_identity, is_administrator, refused
from hvstack.cloud.stacks import wait_until_deleted
from hvstack.progress import Progress

_SECONDS = 120
_STACK_SECONDS = 300
_Resource = TypeVar('_Resource', bound=Resource)


@dataclass(frozen=True)
class _ListedStack:
    """Stack in Heat's list of stacks.

    :param name: name of the stack.
    :param id: ID of the stack.
    :param status: status; empty if Heat does not report it.
    :param reason: reason of the status; empty if Heat does not report it.
    :param project: ID of the project; empty if Heat does not report it, as
        for stacks of the project of the connection.
    """

    name: str
    id: str
    status: str
    reason: str
    project: str


def delete_test_resources(
    conn: Connection,
    progress: Progress,
    prefix: str,
    others: Iterable[Connection] = (),
) -> list[str]:
    """Delete the resources that tests of a workspace created.

    An administrator deletes them in every project, and the projects of the
    tests. A member deletes them in its own project.

    :param conn: connection of the user that ran the tests.
    :param progress: where to report.
    :param prefix: prefix of the names, see
        :attr:`hvstack.accept.tempest_conf.Workspace.prefix`.
    :param others: connections of users in whose projects tests were run.
    :returns: names of the deleted resources.
    :raises hvstack.errors.HVStackError: a resource cannot be deleted; all
        other resources were deleted.
    """
    removed: list[str] = []
    failed: list[str] = []
    projects: list[Project] = []
    users: list[User] = []
    flavors: list[Flavor] = []
    if is_administrator(conn):
        with refused('Cannot list the resources that tests left'):
            identity = get_identity(conn)
            projects = _select_by_prefix(prefix, identity.projects())
            users = _select_by_prefix(prefix, identity.users())
            flavors = list(conn.compute.flavors(is_public=None))
    emptied = []
    for project in projects:
        progress.say(f'  deleting what is in {project.name}')
        with _collect_error(
            failed, f"Cannot delete the resources of project '{project.name}'"
        ):
            for name in _empty_project(conn, project):
                removed.append(f'{name} in {project.name}')
            emptied.append(project)
    # Tests delete their projects, even if resources in them remain.
    for user_conn in (conn, *others):
        for delete_resources in (
            _delete_stacks,
            _delete_servers,
            _delete_keypairs,
            _delete_ports_and_groups,
            _delete_volumes,
        ):
            with _collect_error(
                failed, 'Cannot delete the resources that tests left'
            ):
                removed += delete_resources(
                    user_conn, prefix, is_administrator(user_conn)
                )
    with _collect_error(failed, 'Cannot delete the resources that tests left'):
        for flavor in flavors:
            if _select_by_prefix(prefix, [flavor]):
                conn.compute.delete_flavor(flavor, ignore_missing=True)
                removed.append(f'flavor {flavor.name}')
            elif not flavor.is_public and projects:
                _revoke_access(
                    conn, flavor, {project.id for project in projects}
                )
        for user in users:
            for pair in conn.compute.keypairs(user_id=user.id):
                conn.compute.delete_keypair(pair, user_id=user.id)
            identity.delete_user(user, ignore_missing=True)
            removed.append(f'user {user.name}')
        for project in emptied:
            identity.delete_project(project, ignore_missing=True)
            removed.append(f'project {project.name}')
    if failed:
        raise errors.CloudError(' '.join(failed))
    return removed


@contextmanager
def _collect_error(failed: list[str], message: str) -> Iterator[None]:
    """Add an error to a list instead of raising it."""
    try:
        with refused(message):
            yield
    except errors.HVStackError as exc:
        failed.append(str(exc))


def _select_by_prefix(
    prefix: str, resources: Iterable[_Resource]
) -> list[_Resource]:
    """Return the resources whose names begin with the prefix."""
    return [
        resource
        for resource in resources
        if str(resource.name).startswith(f'{prefix}-')
    ]


def _list_stacks(conn: Connection) -> list[_ListedStack]:
    """Return the stacks of the project, or of all projects.

    The policy of Heat decides whether an administrator can list the stacks of
    all projects. openstacksdk does not report the project of a stack.
    """
    if not conn.has_service('orchestration'):
        return []
    if is_administrator(conn):
        with suppress(keystoneauth1.exceptions.Forbidden):
            return _read_stacks(conn, '/stacks?global_tenant=true')
    return _read_stacks(conn, '/stacks')


def _read_stacks(conn: Connection, path: str) -> list[_ListedStack]:
    response = conn.orchestration.get(path, raise_exc=True)
    return [
        _ListedStack(
            name=item['stack_name'],
            id=item['id'],
            status=item.get('stack_status') or '',
            reason=item.get('stack_status_reason') or '',
            project=item.get('project') or '',
        )
        for item in response.json()['stacks']
    ]


def _delete_stack(conn: Connection, stack: _ListedStack) -> str:
    """Delete a stack by its ID in any project, and wait.

    :raises hvstack.errors.CloudError: Heat failed twice.
    :raises hvstack.errors.DeadlineExceededError: the deletion took too long.
    """
    reason = ''

    def look() -> str | None:
        nonlocal reason
        for current in _list_stacks(conn):
            if current.id == stack.id:
                reason = current.reason
                return current.status or None
        reason = ''
        return None

    def ask() -> None:
        with suppress(keystoneauth1.exceptions.NotFound):
            conn.orchestration.delete(
                f'/stacks/{stack.name}/{stack.id}', raise_exc=True
            )

    def failure_reason() -> str:
        return reason or 'Heat failed twice'

    wait_until_deleted(stack.name, look, ask, failure_reason, _STACK_SECONDS)
    return f'stack {stack.name}'


def _delete_stacks(
    conn: Connection, prefix: str, all_projects: bool
) -> Iterator[str]:
    for stack in _list_stacks(conn):
        if stack.name.startswith(f'{prefix}-'):
            yield _delete_stack(conn, stack)


def _delete_servers(
    conn: Connection, prefix: str, all_projects: bool
) -> Iterator[str]:
    # Without this, an administrator lists only the servers of its project.
    query = {'all_projects': True} if all_projects else {}
    servers = _select_by_prefix(prefix, conn.compute.servers(**query))
    for server in servers:
        conn.compute.delete_server(server, ignore_missing=True)
    for server in servers:
        conn.compute.wait_for_delete(server, wait=_SECONDS)
        yield f'server {server.name}'


def _delete_keypairs(
    conn: Connection, prefix: str, all_projects: bool
) -> Iterator[str]:
    for pair in _select_by_prefix(prefix, conn.compute.keypairs()):
        conn.compute.delete_keypair(pair, ignore_missing=True)
        yield f'key pair {pair.name}'


def _delete_ports_and_groups(
    conn: Connection, prefix: str, all_projects: bool
) -> Iterator[str]:
    """Delete ports and security groups, after the servers are deleted."""
    if not conn.has_service('network'):
        return
    query = {} if all_projects else {'project_id': conn.current_project_id}
    for port in _select_by_prefix(prefix, conn.network.ports(**query)):
        conn.network.delete_port(port, ignore_missing=True)
        yield f'port {port.name}'
    for group in _select_by_prefix(
        prefix, conn.network.security_groups(**query)
    ):
        conn.network.delete_security_group(group, ignore_missing=True)
        yield f'security group {group.name}'


def _delete_volumes(
    conn: Connection, prefix: str, all_projects: bool
) -> Iterator[str]:
    if not conn.has_service('block-storage'):
        return
    storage = conn.block_storage
    query = {'all_projects': True} if all_projects else {}
    for volume in _select_by_prefix(prefix, storage.volumes(**query)):
        if volume.status != 'deleting':
            storage.delete_volume(volume.id, ignore_missing=True)
            yield f'volume {volume.name}'


def _empty_project(conn: Connection, project: Project) -> Iterator[str]:
    """Delete all resources of a project, as one of its administrators."""
    identity = get_identity(conn)
    role = identity.find_role('admin', ignore_missing=False)
    identity.assign_project_role_to_user(
        project, str(conn.current_user_id), role
    )
    inside = conn.connect_as_project(project)
    for stack in _list_stacks(inside):
        # A stack without this field belongs to the project.
        if stack.project in ('', project.id):
            yield _delete_stack(inside, stack)
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
            inside.block_storage.delete_volume(volume.id)
    if not inside.has_service('network'):
        return
    mine = {'project_id': project.id}
    for port in list(inside.network.ports(**mine)):
        inside.network.delete_port(port, ignore_missing=True)
    for security_group in list(inside.network.security_groups(**mine)):
        inside.network.delete_security_group(
            security_group, ignore_missing=True
        )


def _revoke_access(
    conn: Connection, flavor: Flavor, projects: set[str]
) -> None:
    for grant in conn.compute.get_flavor_access(flavor):
        if grant['tenant_id'] in projects:
            conn.compute.flavor_remove_tenant_access(
                flavor, grant['tenant_id']
            )
