# SPDX-License-Identifier: Apache-2.0
"""Resources that a service created for a stack, and Heat does not know.

If Heat loses the answer to a request that a service has executed, the
resource exists, and Heat deletes the stack without it. The templates mark
every resource with the ID of the cluster's stack in the request that creates
it, so hvstack recognizes such an orphan by more than its name.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from openstack import exceptions
from openstack.connection import Connection
from openstack.resource import Resource

from hvstack import errors, processutils
from hvstack.cloud.connection import refused

#: Metadata of servers and volumes with the ID of their stack.
METADATA = 'hvstack_stack'
_SERVER_SECONDS = 120


@dataclass(frozen=True)
class _Orphan:
    """A resource that Heat does not know.

    :param type: as ``openstack <type> delete`` names it.
    :param id: its ID.
    """

    type: str
    id: str


def mark(stack_id: str) -> str:
    """Return the description, or the name, of a stack's resources.

    The templates have the same text.
    """
    return f'hvstack stack {stack_id}'


def delete(
    conn: Connection, stack_id: str, existing: Collection[str] = ()
) -> list[str]:
    """Delete the orphans of a stack in the connection's project.

    :param conn: connection to the project of the stack.
    :param stack_id: ID of the stack.
    :param existing: IDs of the resources that Heat knows.
    :returns: type and ID of each orphan.
    :raises hvstack.errors.CloudError: some orphans remain. The message has
        the command that deletes each.
    """
    deleted: list[str] = []
    remaining: list[str] = []
    for resource_type, list_resources, remove, wait_until_deleted in _types(
        conn, mark(stack_id)
    ):
        orphans: list[_Orphan] = []
        try:
            with refused(f'Cannot list each {resource_type}'):
                orphans = [
                    _Orphan(resource_type, str(item.id))
                    for item in list_resources()
                    if item.id not in existing
                ]
        except errors.CloudError as exc:
            remaining.append(f'{exc} Run the command again.')
        for orphan in orphans:
            try:
                with refused(f'Cannot delete {orphan.type} {orphan.id}'):
                    remove(orphan.id)
                    wait_until_deleted(orphan.id)
            except (errors.CloudError, errors.DeadlineExceededError) as exc:
                remaining.append(
                    f"{exc} Run 'openstack {orphan.type} delete {orphan.id}'."
                )
            else:
                deleted.append(f'{orphan.type} {orphan.id}')
    if remaining:
        raise errors.CloudError(' '.join(remaining))
    return deleted


_Type = tuple[
    str,
    Callable[[], list[Resource]],
    Callable[[str], object],
    Callable[[str], object],
]


def _types(conn: Connection, text: str) -> Iterator[_Type]:
    """Yield each type with functions that list, delete and wait.

    Resources come before those that they use.

    :param text: see :func:`mark`.
    """
    stack_id = text.rpartition(' ')[2]

    def with_metadata(items: Iterable[Resource]) -> list[Resource]:
        return [
            item
            for item in items
            if (item.metadata or {}).get(METADATA) == stack_id
        ]

    def is_gone(server_id: str) -> bool:
        try:
            conn.compute.get_server(server_id)
        except exceptions.NotFoundException:
            return True
        return False

    def server_is_gone(server_id: str) -> None:
        processutils.wait_for(
            lambda: is_gone(server_id),
            f'server {server_id} to be deleted',
            timeout=_SERVER_SECONDS,
        )

    yield (
        'server',
        lambda: with_metadata(conn.compute.servers()),
        lambda item: conn.compute.delete_server(item, ignore_missing=True),
        server_is_gone,
    )
    if conn.has_service('block-storage'):
        yield (
            'volume',
            # Cinder restores the metadata of a backup into a user's volume.
            lambda: [
                volume
                for volume in with_metadata(conn.block_storage.volumes())
                if 'src_backup_id' not in volume.metadata
            ],
            lambda item: conn.block_storage.delete_volume(
                item, ignore_missing=True
            ),
            _do_not_wait,
        )
    if conn.has_service('network'):
        yield from _network_types(conn, text)
    yield (
        'server group',
        lambda: [
            item for item in conn.compute.server_groups() if item.name == text
        ],
        lambda item: conn.compute.delete_server_group(
            item, ignore_missing=True
        ),
        _do_not_wait,
    )


def _do_not_wait(_: str) -> None:
    """Return: the resource is deleted when the request is answered."""


def _network_types(conn: Connection, text: str) -> Iterator[_Type]:
    project = str(conn.current_project_id)
    network = conn.network
    for resource_type, list_resources, remove in (
        ('floating ip', network.ips, network.delete_ip),
        ('port', network.ports, network.delete_port),
        ('router', network.routers, network.delete_router),
        ('network', network.networks, network.delete_network),
        (
            'security group',
            network.security_groups,
            network.delete_security_group,
        ),
    ):

        def described(
            list_resources: Callable[..., Iterable[Resource]] = list_resources,
        ) -> list[Resource]:
            return [
                item
                for item in list_resources(
                    project_id=project, description=text
                )
                if (item.project_id, item.description) == (project, text)
            ]

        yield resource_type, described, remove, _do_not_wait
