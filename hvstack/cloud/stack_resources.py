# SPDX-License-Identifier: Apache-2.0
"""Resources of a Heat stack: which there are, and why some failed."""

import re
from typing import NotRequired, TypedDict

from openstack.connection import Connection
from openstack.orchestration.v1.stack import Stack

from hvstack import errors
from hvstack.cloud.connection import FAILURES, refused

#: Statuses of a resource, and of a stack, that is complete.
DONE = ('CREATE_COMPLETE', 'UPDATE_COMPLETE')
#: Maximum number of unfinished resources that a message names.
_NAMED = 6
_CONSOLE_LINES = 8
#: Nova's words for a server that fits no host.
_NO_HOST = 'No valid host'
_SERVER = 'OS::Nova::Server'
_WAIT_CONDITION = 'OS::Heat::WaitCondition'
#: Last part of the name of a wait condition for the host key of a node, and
#: servers by the first part; others have its name.
_HOST_KEY = 'host_key'
_SERVERS = {'': 'server', 'gateway_': 'client'}
#: A wait condition for the host key of a node got no signal.
_HOST_KEY_TIMEOUT = re.compile(
    r'host_key \(OS::Heat::WaitCondition\).* 0 of 1 received'
)


class ResourceLink(TypedDict):
    """Link of a resource to itself, its stack, or its nested stack."""

    rel: str
    href: str


class StackResource(TypedDict):
    """Resource of a stack in Heat's API; keys that hvstack uses."""

    resource_name: str
    resource_type: str
    resource_status: str
    resource_status_reason: NotRequired[str | None]
    physical_resource_id: NotRequired[str | None]
    links: list[ResourceLink]


def list_resources(conn: Connection, stack: Stack) -> list[StackResource]:
    """Return a stack's resources for a message; none if Heat refuses."""
    try:
        return require_resources(conn, stack)
    except errors.CloudError:
        return []


def require_resources(conn: Connection, stack: Stack) -> list[StackResource]:
    """Return a stack's resources, those of nested stacks too.

    :raises hvstack.errors.CloudError: Heat refused.
    """
    with refused(f"Cannot list the resources of stack '{stack.name}'"):
        response = conn.orchestration.get(
            f'/stacks/{stack.name}/{stack.id}/resources?nested_depth=5',
            raise_exc=True,
        )
    stack_resources: list[StackResource] = response.json()['resources']
    return stack_resources


def with_remedy(cause: str) -> str:
    """Return Heat's reason with a remedy, if hvstack knows one.

    A tenant cannot see Heat's limits.
    """
    if 'resources per stack' in cause:
        return (
            f'{cause}. Each worker has at least six resources. Have an '
            'administrator increase max_resources_per_stack in heat.conf, or '
            'set it to -1'
        )
    if 'maximum software configs' in cause:
        return (
            f'{cause.removesuffix(".")}. Each worker has one. Have an '
            'administrator increase max_software_configs_per_tenant in '
            'heat.conf, or set it to -1'
        )
    if _NO_HOST in cause:
        return (
            f'{cause.removesuffix(".")}. No host that the flavor and its '
            'server group permit has room. Other servers may be there: an '
            "administrator sees them with 'hvstack doctor'"
        )
    if _HOST_KEY_TIMEOUT.search(cause):
        return (
            f'{cause}. A node did not send its ssh host key. Check that nodes '
            'boot within 15 minutes (auth_ttl in keystone.conf), reach '
            "Heat's CFN API, and trust its certificate by the CAs in their "
            'image, or set [cloud] host_key_source in hvstack.conf '
            "to 'console' (Heat parameter host_keys: false)"
        )
    return cause


def get_link(item: StackResource, rel: str) -> str:
    """Return the URL of a link of a resource.

    :param rel: ``self``, ``stack`` (that contains the resource), or
        ``nested``.
    """
    return next(
        str(link['href']) for link in item['links'] if link['rel'] == rel
    )


def last_words(conn: Connection, stack: Stack) -> str:
    """Return the end of the console of a failed server, if it has one.

    Without a failed server, it is the console of one that did not send its
    host key.
    """
    stack_resources = list_resources(conn, stack)
    failed = [
        item
        for item in stack_resources
        if item['resource_status'].endswith('_FAILED')
    ]
    silent = (_find_silent_server(item, stack_resources) for item in failed)
    for server in (*(item for item in failed if _is_server(item)), *silent):
        server_id = server.get('physical_resource_id') if server else None
        if server is None or not server_id:
            continue
        try:
            text = conn.compute.get_server_console_output(
                server_id, length=_CONSOLE_LINES
            )['output']
            name = conn.compute.get_server(server_id).name
        except FAILURES:
            continue
        console = ' | '.join(line.strip() for line in text.split('\n') if line)
        if console:
            return f'; console of {name}: {console}'
    return ''


def _is_server(item: StackResource) -> bool:
    return item['resource_type'] == _SERVER


def _find_silent_server(
    item: StackResource, stack_resources: list[StackResource]
) -> StackResource | None:
    """Return the server for whose host key a wait condition waits.

    Its name begins with that of the server in the same stack, if there are
    several.
    """
    if item['resource_type'] != _WAIT_CONDITION:
        return None
    prefix, matched, _ = item['resource_name'].rpartition(_HOST_KEY)
    if not matched:
        return None
    name = _SERVERS.get(prefix, prefix.removesuffix('_'))
    return next(
        (
            other
            for other in stack_resources
            if _is_server(other)
            and other['resource_name'] == name
            and get_link(other, 'stack') == get_link(item, 'stack')
        ),
        None,
    )


def describe_unfinished(conn: Connection, stack: Stack) -> str:
    """Return the numbers of resources and the names of unfinished ones."""
    stack_resources = list_resources(conn, stack)
    pending = [
        item['resource_name']
        for item in stack_resources
        if item['resource_status'] not in DONE
    ]
    named, hidden_count = pending[:_NAMED], len(pending) - _NAMED
    return (
        f'{len(stack_resources) - len(pending)} of '
        f'{len(stack_resources)} resources, left: '
        f'{", ".join(named)}'
        f'{f" and {hidden_count} more" if hidden_count > 0 else ""}'
    )
