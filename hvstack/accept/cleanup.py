# SPDX-License-Identifier: Apache-2.0
"""Delete the resources of interrupted acceptance tests.

The names of all resources that tests create begin with the random ID of the
workspace.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import keystoneauth1.exceptions
from openstack.compute.v2.flavor import Flavor
from openstack.compute.v2.server import Server
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


_Named = TypeVar('_Named', bound=Resource | _ListedStack)
#: Type of resources, with functions that list them and delete one by its ID.
_Kind = tuple[str, Callable[[], Iterable[Resource]], Callable[[str], None]]


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
        failed_before = len(failed)
        with _collect_error(
            failed, f"Cannot delete the resources of project '{project.name}'"
        ):
            for name in _empty_project(conn, project, failed):
                removed.append(f'{name} in {project.name}')
            if len(failed) == failed_before:
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
                    user_conn, prefix, is_administrator(user_conn), failed
                )
    removed += _delete_flavors(conn, prefix, flavors, projects, failed)
    removed += _delete_accounts(conn, users, emptied, failed)
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


def _for_each(
    failed: list[str],
    kind: str,
    resources: Iterable[_Named],
    action: Callable[[_Named], None],
) -> Iterator[_Named]:
    """Apply an action to resources; yield those with which it succeeded.

    :param failed: receives the error of each other resource.
    :param kind: type of the resources, for errors.
    """
    for resource in resources:
        failed_before = len(failed)
        with _collect_error(failed, f"Cannot delete {kind} '{resource.name}'"):
            action(resource)
        if len(failed) == failed_before:
            yield resource


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


def _delete_stack(conn: Connection, stack: _ListedStack) -> None:
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


def _delete_stacks(
    conn: Connection, prefix: str, all_projects: bool, failed: list[str]
) -> Iterator[str]:
    stacks = [
        stack
        for stack in _list_stacks(conn)
        if stack.name.startswith(f'{prefix}-')
    ]
    for stack in _for_each(
        failed, 'stack', stacks, lambda item: _delete_stack(conn, item)
    ):
        yield f'stack {stack.name}'


def _delete_servers(
    conn: Connection, prefix: str, all_projects: bool, failed: list[str]
) -> Iterator[str]:
    # Without this, an administrator lists only the servers of its project.
    query = {'all_projects': True} if all_projects else {}
    servers = _select_by_prefix(prefix, conn.compute.servers(**query))
    return _delete_and_wait(conn, servers, failed)


def _delete_and_wait(
    conn: Connection, servers: Iterable[Server], failed: list[str]
) -> Iterator[str]:
    """Delete servers at the same time, and wait for each."""

    def wait(server: Server) -> None:
        conn.compute.wait_for_delete(server, wait=_SECONDS)

    deleting = list(
        _for_each(
            failed,
            'server',
            servers,
            lambda item: conn.compute.delete_server(item, ignore_missing=True),
        )
    )
    for server in _for_each(failed, 'server', deleting, wait):
        yield f'server {server.name}'


def _delete_keypairs(
    conn: Connection, prefix: str, all_projects: bool, failed: list[str]
) -> Iterator[str]:
    pairs = _select_by_prefix(prefix, conn.compute.keypairs())
    for pair in _for_each(
        failed,
        'key pair',
        pairs,
        lambda item: conn.compute.delete_keypair(item, ignore_missing=True),
    ):
        yield f'key pair {pair.name}'


def _delete_ports_and_groups(
    conn: Connection, prefix: str, all_projects: bool, failed: list[str]
) -> Iterator[str]:
    """Delete ports and security groups, after the servers are deleted."""
    if not conn.has_service('network'):
        return
    network = conn.network
    query = {} if all_projects else {'project_id': conn.current_project_id}
    for port in _for_each(
        failed,
        'port',
        _select_by_prefix(prefix, network.ports(**query)),
        lambda item: network.delete_port(item, ignore_missing=True),
    ):
        yield f'port {port.name}'
    for group in _for_each(
        failed,
        'security group',
        _select_by_prefix(prefix, network.security_groups(**query)),
        lambda item: network.delete_security_group(item, ignore_missing=True),
    ):
        yield f'security group {group.name}'


def _delete_volumes(
    conn: Connection, prefix: str, all_projects: bool, failed: list[str]
) -> Iterator[str]:
    if not conn.has_service('block-storage'):
        return
    storage = conn.block_storage
    query = {'all_projects': True} if all_projects else {}
    volumes = [
        volume
        for volume in _select_by_prefix(prefix, storage.volumes(**query))
        if volume.status != 'deleting'
    ]
    for volume in _for_each(
        failed,
        'volume',
        volumes,
        lambda item: storage.delete_volume(item.id, ignore_missing=True),
    ):
        yield f'volume {volume.name}'


def _delete_flavors(
    conn: Connection,
    prefix: str,
    flavors: Iterable[Flavor],
    projects: Collection[Project],
    failed: list[str],
) -> Iterator[str]:
    """Delete flavors of tests, and the access of their projects to others."""
    project_ids = {project.id for project in projects}
    own = _select_by_prefix(prefix, flavors)
    private = [
        flavor
        for flavor in flavors
        if project_ids and flavor not in own and not flavor.is_public
    ]
    for flavor in _for_each(
        failed,
        'flavor',
        own,
        lambda item: conn.compute.delete_flavor(item, ignore_missing=True),
    ):
        yield f'flavor {flavor.name}'
    for _ in _for_each(
        failed,
        'the access to flavor',
        private,
        lambda item: _revoke_access(conn, item, project_ids),
    ):
        pass


def _delete_accounts(
    conn: Connection,
    users: Iterable[User],
    projects: Iterable[Project],
    failed: list[str],
) -> Iterator[str]:
    """Delete users with their key pairs, and empty projects."""

    def delete_user(user: User) -> None:
        for pair in conn.compute.keypairs(user_id=user.id):
            conn.compute.delete_keypair(pair, user_id=user.id)
        get_identity(conn).delete_user(user, ignore_missing=True)

    for user in _for_each(failed, 'user', users, delete_user):
        yield f'user {user.name}'
    for project in _for_each(
        failed,
        'project',
        projects,
        lambda item: get_identity(conn).delete_project(
            item, ignore_missing=True
        ),
    ):
        yield f'project {project.name}'


def _empty_project(
    conn: Connection, project: Project, failed: list[str]
) -> Iterator[str]:
    """Delete all resources of a project, as one of its administrators.

    :param failed: receives the error of each resource that remains.
    """
    identity = get_identity(conn)
    role = identity.find_role('admin', ignore_missing=False)
    identity.assign_project_role_to_user(
        project, str(conn.current_user_id), role
    )
    inside = conn.connect_as_project(project)
    # A stack without this field belongs to the project.
    stacks = [
        stack
        for stack in _list_stacks(inside)
        if stack.project in ('', project.id)
    ]
    for stack in _for_each(
        failed, 'stack', stacks, lambda item: _delete_stack(inside, item)
    ):
        yield f'stack {stack.name}'
    yield from _delete_and_wait(inside, inside.compute.servers(), failed)
    compute = inside.compute
    kinds: list[_Kind] = [
        ('server group', compute.server_groups, compute.delete_server_group)
    ]
    if inside.has_service('block-storage'):
        storage = inside.block_storage
        kinds.append(('volume', storage.volumes, storage.delete_volume))
    if inside.has_service('network'):
        network, mine = inside.network, {'project_id': project.id}
        kinds += [
            ('port', partial(network.ports, **mine), network.delete_port),
            (
                'security group',
                partial(network.security_groups, **mine),
                network.delete_security_group,
            ),
        ]
    for kind, list_resources, delete in kinds:
        action = partial(_delete_by_id, delete)
        for _ in _for_each(failed, kind, list(list_resources()), action):
            pass


def _delete_by_id(delete: Callable[[str], None], item: Resource) -> None:
    delete(str(item.id))


def _revoke_access(
    conn: Connection, flavor: Flavor, projects: set[str]
) -> None:
    for grant in conn.compute.get_flavor_access(flavor):
        if grant['tenant_id'] in projects:
            conn.compute.flavor_remove_tenant_access(
                flavor, grant['tenant_id']
            )
