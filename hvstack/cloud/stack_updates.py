# SPDX-License-Identifier: Apache-2.0
"""Heat stacks that change: members of a group, marks, updates."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from openstack.connection import Connection
from openstack.orchestration.v1.stack import Stack

from hvstack import errors
from hvstack.cloud import stack_lookup, stack_times, stacks
from hvstack.cloud.connection import refused
from hvstack.cloud.stack_outputs import StackOutputs
from hvstack.cloud.stack_resources import StackResource, require_resources
from hvstack.progress import Progress
from hvstack.results.typed_json import Json

#: Within these seconds Heat begins an update that it has accepted.
_BEGIN_SECONDS = 120


@dataclass(frozen=True)
class Member:
    """A member of a stack's resource group.

    :param name: its number in the group.
    :param path: of the resource below Heat's endpoint.
    :param server_ids: the servers in it.
    :param unhealthy: marked so, itself or its server: the next update
        replaces it.
    """

    name: str
    path: str
    server_ids: tuple[str, ...]
    unhealthy: bool


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
        inside[_link(item, 'stack').rpartition('/')[2]].append(item)
    of_group = {
        item['resource_name']: item
        for resource in inside[stack.id]
        if resource['resource_name'] == group
        for item in inside[str(resource.get('physical_resource_id'))]
    }
    servers = {
        name: [
            resource
            for resource in inside[str(item.get('physical_resource_id'))]
            if resource['resource_type'] == 'OS::Nova::Server'
        ]
        for name, item in of_group.items()
    }
    return [
        Member(
            name,
            _read_path(item),
            tuple(
                server_id
                for resource in servers[name]
                if (server_id := resource.get('physical_resource_id'))
            ),
            any(
                resource['resource_status'] == 'CHECK_FAILED'
                for resource in (item, *servers[name])
            ),
        )
        for name, item in sorted(
            of_group.items(), key=lambda pair: int(pair[0])
        )
    ]


def _link(item: StackResource, rel: str) -> str:
    return next(
        str(link['href']) for link in item['links'] if link['rel'] == rel
    )


def _read_path(item: StackResource) -> str:
    """Return the path of a resource below Heat's endpoint.

    Heat makes its links from the request that it got. Behind a proxy, they
    can have another scheme or host, to which no token is sent.
    """
    return f'/stacks/{_link(item, "self").partition("/stacks/")[2]}'


def mark_unhealthy(conn: Connection, member: Member, reason: str) -> None:
    """Make the next update of its stack replace a member.

    :raises hvstack.errors.CloudError: Heat refused.
    """
    with refused(f'Cannot mark member {member.name} as unhealthy'):
        conn.orchestration.patch(
            member.path,
            json={'mark_unhealthy': True, 'resource_status_reason': reason},
            raise_exc=True,
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
