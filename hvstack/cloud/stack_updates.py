# SPDX-License-Identifier: Apache-2.0
"""Heat stacks that change: members of a group, marks, updates."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from openstack import exceptions
from openstack.connection import Connection
from openstack.orchestration.v1.stack import Stack
from openstack.resource import Resource

from hvstack import errors, processutils
from hvstack.cloud import stack_lookup, stack_times, stacks
from hvstack.cloud.connection import refused
from hvstack.cloud.stack_outputs import StackOutputs
from hvstack.cloud.stack_resources import (
    StackResource,
    get_link,
    require_resources,
)
from hvstack.progress import Progress
from hvstack.results.typed_json import Json

#: Within these seconds Heat begins an update that it has accepted.
_BEGIN_SECONDS = 120
#: Status of a server that keeps its place, its ports and its volumes for a
#: while: Nova has reclaim_instance_interval.
_SOFT_DELETED = 'SOFT_DELETED'
_SERVER = 'OS::Nova::Server'
_VOLUME = 'OS::Cinder::Volume'
#: Resources of a member that a new member needs others of: what
#: :func:`delete_servers` deletes, and the handle to which a node sends its
#: host key, once.
_REPLACED_TYPES = (_SERVER, _VOLUME, 'OS::Heat::WaitConditionHandle')


@dataclass(frozen=True)
class Member:
    """A member of a stack's resource group.

    :param name: its number in the group.
    :param path: of the resource below Heat's endpoint.
    :param server_ids: the servers in it.
    :param unhealthy: marked so, itself or its server: the next update
        replaces it.
    :param volume_ids: volumes that Heat has created for it.
    :param replaced_paths: paths of the resources in it that a replacement
        does not share with it.
    """

    name: str
    path: str
    server_ids: tuple[str, ...]
    unhealthy: bool
    volume_ids: tuple[str, ...] = ()
    replaced_paths: tuple[str, ...] = ()


def settled(
    conn: Connection,
    name: str,
    *,
    timeout: float,
    progress: Progress | None = None,
) -> Stack:
    """Return a stack that nothing changes, if need be after a while.

    :param timeout: seconds that a change of a small stack may take.
    :raises hvstack.errors.CloudError: Heat does not have the stack.
    :raises hvstack.errors.DeadlineExceededError: it still changes.
    """
    is_reported = False

    def look() -> Stack:
        stack = stack_lookup.find(conn, name)
        if stack is None:
            raise errors.CloudError(
                f"Cannot find stack '{name}': Heat does not have this stack. "
                "Run 'openstack stack list'."
            )
        return stack

    def is_idle(stack: Stack) -> bool:
        nonlocal is_reported
        if not stack.status.endswith('_IN_PROGRESS'):
            return True
        if progress is not None and not is_reported:
            is_reported = True
            progress.say(f'stack: {stack.status}, waiting for its end')
        return False

    failure = f"Cannot inspect stack '{name}'"
    with refused(failure):
        first = look()
    if is_idle(first):
        return first
    return stacks.wait_until(
        look,
        is_idle,
        failure=failure,
        timeout=stack_times.compute_stack_seconds(
            timeout, stack_times.count_workers(first.parameters or {})
        ),
        late=lambda stack, seconds: (
            f"stack '{name}' was still {stack.status} after {seconds:.0f} s: "
            'try again when that has ended'
        ),
    )


def members(conn: Connection, stack: Stack, group: str) -> list[Member]:
    """Return the members of a stack's resource group, by number.

    :param group: name of the ``OS::Heat::ResourceGroup``.
    :raises hvstack.errors.CloudError: Heat refused to list them.
    """
    stack_resources = require_resources(conn, stack)
    inside: dict[str, list[StackResource]] = defaultdict(list)
    for item in stack_resources:
        inside[get_link(item, 'stack').rpartition('/')[2]].append(item)
    of_group = {
        item['resource_name']: item
        for resource in inside[stack.id]
        if resource['resource_name'] == group
        for item in inside[str(resource.get('physical_resource_id'))]
    }
    return [
        _read_member(
            name,
            item,
            list(_descend(inside, item.get('physical_resource_id'))),
        )
        for name, item in sorted(
            of_group.items(), key=lambda pair: int(pair[0])
        )
    ]


def list_removed(conn: Connection, stack: Stack, group: str) -> set[str]:
    """Return the names that members of a resource group had before.

    Heat gives them to no other member.

    :param group: name of the ``OS::Heat::ResourceGroup``.
    :raises hvstack.errors.CloudError: Heat refused.
    """
    with refused(f"Cannot inspect resource '{group}' of '{stack.name}'"):
        answer = conn.orchestration.get(
            f'/stacks/{stack.name}/{stack.id}/resources/{group}'
            '?with_attr=removed_rsrc_list',
            raise_exc=True,
        )
    attributes = answer.json()['resource'].get('attributes') or {}
    return {str(name) for name in attributes.get('removed_rsrc_list') or ()}


def _descend(
    inside: Mapping[str, Collection[StackResource]], stack_id: str | None
) -> Iterator[StackResource]:
    """Yield the resources of a stack and of the stacks nested in it.

    :param inside: resources by the ID of their stack.
    """
    for item in inside.get(stack_id or '', ()):
        yield item
        yield from _descend(inside, item.get('physical_resource_id'))


def _read_member(
    name: str, item: StackResource, resources: Collection[StackResource]
) -> Member:
    """Return a member of a group.

    :param item: resource of the member in the group.
    :param resources: resources in the member.
    """

    def list_ids(resource_type: str) -> tuple[str, ...]:
        return tuple(
            physical_id
            for resource in resources
            if resource['resource_type'] == resource_type
            and (physical_id := resource.get('physical_resource_id'))
        )

    return Member(
        name,
        _read_path(item),
        list_ids(_SERVER),
        any(
            resource['resource_status'] == 'CHECK_FAILED'
            for resource in (item, *resources)
            if resource is item or resource['resource_type'] == _SERVER
        ),
        list_ids(_VOLUME),
        tuple(
            _read_path(resource)
            for resource in resources
            if resource['resource_type'] in _REPLACED_TYPES
        ),
    )


def _read_path(item: StackResource) -> str:
    """Return the path of a resource below Heat's endpoint.

    Heat makes its links from the request that it got. Behind a proxy, they
    can have another scheme or host, to which no token is sent.
    """
    return f'/stacks/{get_link(item, "self").partition("/stacks/")[2]}'


def mark_unhealthy(conn: Connection, member: Member, reason: str) -> None:
    """Make the next update of its stack replace a member.

    After 'openstack stack check', the nested stack of a member that failed
    has failed, too. Heat then updates the nested stack, and replaces only the
    resources in it that are marked themselves.

    :raises hvstack.errors.CloudError: Heat refused.
    """
    for path in (member.path, *member.replaced_paths):
        with refused(f'Cannot mark member {member.name} as unhealthy'):
            conn.orchestration.patch(
                path,
                json={
                    'mark_unhealthy': True,
                    'resource_status_reason': reason,
                },
                raise_exc=True,
            )


def delete_servers(
    conn: Connection,
    members: Collection[Member],
    *,
    with_volumes: bool,
    timeout: float,
) -> None:
    """Delete the servers of members that the next update takes away.

    Heat creates a replacement before it deletes the member, so that both need
    a slot and quotas. On a dead host, Heat waits for the end of the detachment
    of a volume, which only the deletion of the server ends.

    :param members: members that must not hold data any more.
    :param with_volumes: whether to delete their volumes, too, once the servers
        do not exist.
    :param timeout: seconds for the deletion of all servers, and of all
        volumes.
    :raises hvstack.errors.CloudError: Nova or Cinder refused.
    :raises hvstack.errors.DeadlineExceededError: it took too long.
    """
    _delete(
        'server',
        [server_id for member in members for server_id in member.server_ids],
        lambda item, force: conn.compute.delete_server(
            item, ignore_missing=True, force=force
        ),
        lambda item: conn.compute.get_server(item),
        timeout,
    )
    if with_volumes:
        _delete(
            'volume',
            [
                volume_id
                for member in members
                for volume_id in member.volume_ids
            ],
            lambda item, _: conn.block_storage.delete_volume(
                item, ignore_missing=True
            ),
            lambda item: conn.block_storage.get_volume(item),
            timeout,
        )


def _delete(
    resource_type: str,
    resource_ids: Collection[str],
    request: Callable[[str, bool], Resource | None],
    look: Callable[[str], Resource],
    timeout: float,
) -> None:
    """Delete resources, and wait until none of them exists.

    An interrupted invocation may have requested the deletion: Cinder accepts
    no second request.

    :param request: function that deletes a resource, by force if its second
        argument is true.
    """
    remaining: dict[str, str] = {}

    def read_status(resource_id: str) -> str:
        with refused(f'Cannot inspect {resource_type} {resource_id}'):
            try:
                return str(look(resource_id).status)
            except exceptions.NotFoundException:
                return ''

    def delete(resource_id: str, *, force: bool = False) -> None:
        with refused(f'Cannot delete {resource_type} {resource_id}'):
            request(resource_id, force)

    for resource_id in resource_ids:
        if status := read_status(resource_id):
            remaining[resource_id] = status
            if status not in ('deleting', _SOFT_DELETED):
                delete(resource_id)

    def are_deleted() -> bool:
        for resource_id in list(remaining):
            status = read_status(resource_id)
            remaining[resource_id] = status
            if status == _SOFT_DELETED:
                delete(resource_id, force=True)
            if status in ('', 'DELETED'):
                del remaining[resource_id]
        return not remaining

    processutils.wait_for(
        are_deleted,
        f'the deletion of each {resource_type} of the workers',
        timeout=timeout,
        get_reason=lambda: ', '.join(
            f'{resource_type} {resource_id} is {status}'
            for resource_id, status in remaining.items()
        ),
    )


def update(
    conn: Connection,
    stack: Stack,
    parameters: Mapping[str, Json],
    *,
    timeout: float,
    progress: Progress | None = None,
) -> StackOutputs:
    """Change some parameters of a stack, and return its outputs.

    Template, environment and the other parameters stay what they are.

    :param timeout: seconds, as for :func:`hvstack.cloud.stacks.wait`. Heat
        itself has longer.
    :raises hvstack.errors.CloudError: Heat refused, or the update failed;
        names the resource and why.
    :raises hvstack.errors.DeadlineExceededError: it took too long.
    """
    with refused(f"Cannot update stack '{stack.name}'"):
        conn.orchestration.patch(
            f'/stacks/{stack.name}/{stack.id}',
            json={
                'parameters': dict(parameters),
                'timeout_mins': stack_times.compute_heat_minutes(timeout),
            },
            raise_exc=True,
        )
    _wait_for_update(conn, stack)
    return stacks.wait(conn, stack.id, timeout=timeout, progress=progress)


def _wait_for_update(conn: Connection, before: Stack) -> None:
    """Wait until a stack shows the new update, not the previous one."""
    stacks.wait_until(
        lambda: stack_lookup.get(conn, before.id),
        lambda stack: bool(stack.updated_at != before.updated_at),
        failure='Cannot inspect the stack',
        timeout=_BEGIN_SECONDS,
        late=lambda _, seconds: (
            f"Heat did not begin the update of stack '{before.name}' in "
            f"{seconds:.0f} s. Check it with 'openstack stack event list'."
        ),
    )
