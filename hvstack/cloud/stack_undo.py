# SPDX-License-Identifier: Apache-2.0
"""Undoing the creation of a Heat stack, also of one without an answer."""

import logging
import time
from dataclasses import dataclass

from openstack.connection import Connection

from hvstack import conf, errors, speed
from hvstack.cloud import journal, orphans, stack_times, stacks
from hvstack.cloud.connection import refused
from hvstack.progress import Progress
from hvstack.results.typed_json import JsonObject

LOG = logging.getLogger(__name__)
#: Seconds between two looks for a stack.
_INTERVAL_SECONDS = 2.0


@dataclass(frozen=True)
class _CreatedStack:
    """Data of an entry of the journal.

    :param name: name of the stack.
    :param tag: tag of the stack; None in entries of old releases.
    :param id: ID of the stack; None if Heat did not return it.
    :param workers: number of workers, whose deletion takes time; 0 in entries
        of old releases.
    :param requested: time of the request to create it, in seconds since the
        epoch; 0 without a request, or if Heat refused it.
    """

    name: str
    tag: str | None = None
    id: str | None = None
    workers: int = 0
    requested: float = 0.0


def undo(
    conn: Connection, data: JsonObject, progress: Progress | None = None
) -> None:
    """Delete a stack that hvstack created, and no other one of its name.

    It may take as long as to create it.

    :param data: of the journal: ``name``, ``tag``, ``workers``, and ``id``
        once Heat has returned it.
    :raises hvstack.errors.CloudError: Heat failed twice to delete it, or a
        resource that Heat does not know cannot be deleted.
    :raises hvstack.errors.DeadlineExceededError: it took too long.
    """
    created = journal.read_data(_CreatedStack, data)
    name = created.name
    stack_id = created.id or _wait_tagged(conn, created, progress)
    if stack_id is None:
        return
    timeout = stack_times.compute_stack_seconds(
        max(stacks.DELETE_SECONDS, conf.load().cloud.stack_timeout),
        created.workers,
    )
    stacks.delete(
        conn, name, stack_id=stack_id, timeout=timeout, progress=progress
    )
    for orphan in orphans.delete(conn, stack_id):
        LOG.warning(
            "Deleted the %s of the stack '%s', which Heat did not know.",
            orphan,
            name,
        )


def _wait_tagged(
    conn: Connection, created: _CreatedStack, progress: Progress | None
) -> str | None:
    """Return the ID of a stack whose creation Heat has not answered.

    Heat lists a stack only when its engine has examined the templates.

    :returns: None if Heat does not have the stack after this time.
    """
    max_seconds = stacks.SILENCE * speed.factor()
    deadline = time.monotonic() + min(
        max_seconds, created.requested + max_seconds - time.time()
    )
    report = stacks.build_reporter(progress)
    while True:
        stack_id = _tagged(conn, created.name, created.tag)
        remaining = deadline - time.monotonic()
        if stack_id is not None or remaining <= 0:
            return stack_id
        report(
            lambda: (
                f'  Heat has not answered whether it creates {created.name}: '
                'waiting for the stack'
            )
        )
        time.sleep(min(_INTERVAL_SECONDS, remaining))


def _tagged(conn: Connection, name: str, tag: str | None) -> str | None:
    """Return the ID of the project's stack with a name and a tag.

    Heat 27 answers 500 to a list that it is to filter by a tag.

    :raises hvstack.errors.CloudError: an older release wrote the entry, and
        the stack may be that of another user.
    """
    with refused(f"Cannot find stack '{name}'"):
        for stack in conn.orchestration.stacks(name=name):
            has_tag = tag is None or tag in (stack.tags or ())
            if has_tag and stacks.is_own(conn, stack):
                break
        else:
            return None
    if tag is None:
        raise errors.CloudError(
            f"Cannot delete the stack '{name}' ({stack.id}): the journal has "
            "no ID of it. Delete it with 'openstack stack delete', unless "
            'another user created it.'
        )
    return str(stack.id)
