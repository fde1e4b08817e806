# SPDX-License-Identifier: Apache-2.0
"""Heat stacks: create, wait, say why one failed, delete."""

import contextlib
import math
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar

from openstack.connection import Connection
from openstack.orchestration.v1.stack import Stack

from hvstack import errors, speed
from hvstack.cloud import (
    host_keys,
    journal,
    orphans,
    stack_lookup,
    stack_times,
    user_data,
)
from hvstack.cloud.connection import (
    FAILURES,
    get_status,
    passing,
    refused,
    scope,
)
from hvstack.cloud.stack_outputs import StackOutputs
from hvstack.cloud.stack_resources import (
    DONE,
    StackResource,
    describe_unfinished,
    last_words,
    list_resources,
    with_remedy,
)
from hvstack.progress import Progress
from hvstack.results.typed_json import Json, JsonObject

T = TypeVar('T')
KIND = 'stack'
#: Seconds between two looks at a stack, at least.
_INTERVAL = 2.0
#: Seconds between two looks, at most, so that the end of a stack is noticed.
_MAX_INTERVAL = 60.0
#: Maximum share of the time of a stack in which its status is read. Heat's
#: engine loads the stack for it, and does not create resources meanwhile.
_MAX_LOOK_SHARE = 0.2
#: Statuses of a stack that was created. An update that failed leaves what was
#: created, and another may follow; so does a check, which marks members that
#: do not answer. With rollback, Heat undoes an update that failed or that was
#: cancelled. Of a creation that it has undone, no outputs remain.
_CREATED = (
    *(*DONE, 'UPDATE_FAILED', 'CHECK_COMPLETE', 'CHECK_FAILED'),
    *('RESUME_COMPLETE', 'SNAPSHOT_COMPLETE', 'ROLLBACK_COMPLETE'),
)
_DELETING = ('DELETE_IN_PROGRESS', 'DELETE_COMPLETE')
DELETE_SECONDS = 300
_SAY_SECONDS = 20
#: Maximum share of the time of a stack in which its resources are listed.
_MAX_REPORT_SHARE = 0.05
#: HTTP statuses with which Heat does not create a stack. After a time-out, its
#: engine may still examine the templates, and lists the stack only later.
_REFUSED = {*range(400, 500)} - {HTTPStatus.REQUEST_TIMEOUT}
#: Seconds without an answer after which a stack is no longer waited for. A
#: busy engine lets a question of Heat's API time out, after 60 s.
SILENCE = 180.0


def create(
    conn: Connection,
    name: str,
    template: Path,
    parameters: Mapping[str, Json],
    environments: Sequence[Path] = (),
    *,
    timeout: float,
) -> str:
    """Begin a stack and return its id.

    :param template: its file; nested templates are read beside it.
    :param parameters: they win over those of the environments.
    :param environments: environment files, later ones win.
    :param timeout: seconds that :func:`wait` gets. Heat itself has longer.
    :raises hvstack.errors.InputError: the name is taken, or user data would
        be larger than it may be.
    :raises hvstack.errors.CloudError: Heat refused the template.
    """
    user_data.check(parameters)
    with refused(f"Cannot find stack '{name}'"):
        if stack_lookup.find(conn, name):
            raise errors.InputError(
                f"Cannot create stack '{name}': it already exists. Use "
                f"another name, or run 'hvstack cluster delete {name}'."
            )
    # If the answer with the ID is lost, the tag shows whose stack it is.
    tag = f'hvstack-{uuid.uuid4()}'
    workers = user_data.count_workers(parameters)
    data: JsonObject = {'name': name, 'tag': tag, 'workers': workers}
    entry = journal.note(KIND, data, scope(conn))
    with _limits(f"Cannot create stack '{name}'"):
        content = conn.orchestration.read_env_and_templates(
            template_file=str(template),
            environment_files=[
                str(environment) for environment in environments
            ],
        )
        entry = journal.update(entry, requested=time.time())
        try:
            stack = conn.orchestration.create_stack(
                name=name,
                parameters=dict(parameters),
                is_rollback_disabled=True,
                timeout_mins=stack_times.compute_heat_minutes(timeout),
                tags=tag,
                **content,
            )
        except FAILURES as exc:
            if get_status(exc) in _REFUSED:
                journal.update(entry, requested=0.0)
            raise
    journal.update(entry, id=str(stack.id))
    return str(stack.id)


def wait(
    conn: Connection,
    stack_id: str,
    *,
    timeout: float,
    progress: Progress | None = None,
) -> StackOutputs:
    """Wait until a stack is complete and return its outputs by name.

    :param timeout: seconds, as for :func:`wait_until`.
    :raises hvstack.errors.CloudError: it failed, with the resource and why;
        Heat has undone the change; or Heat has not answered for some minutes.
    :raises hvstack.errors.DeadlineExceededError: it took too long.
    """
    report = build_reporter(progress)

    def is_complete(stack: Stack) -> bool:
        if stack.status.endswith('_FAILED'):
            cause = f'{reason(conn, stack)}{last_words(conn, stack)}'
            raise errors.CloudError(
                f"Stack '{stack.name}' failed: {cause.removesuffix('.')}."
            )
        if stack.status == 'ROLLBACK_COMPLETE':
            raise errors.CloudError(
                f"Cannot complete stack '{stack.name}': the change failed or "
                'was cancelled, and Heat has undone it. See the reason with '
                f"'openstack stack event list {stack.name}'."
            )
        if stack.status in DONE:
            return True
        report(lambda: f'  stack: {describe_unfinished(conn, stack)}')
        return False

    def look() -> Stack:
        stack = stack_lookup.get(conn, stack_id)
        if stack.status in DONE:
            stack = conn.orchestration.get_stack(stack_id)
        return stack

    stack = wait_until(
        look,
        is_complete,
        failure='Cannot inspect the stack',
        timeout=timeout,
        late=lambda stack, seconds: (
            f"Stack '{stack.name}' was not complete after {seconds:.0f} s: "
            f'{describe_unfinished(conn, stack)}. Check it with '
            f"'openstack stack resource list {stack.name}'."
        ),
    )
    return _outputs(stack)


def wait_until(
    look: Callable[[], T],
    is_done: Callable[[T], bool],
    *,
    failure: str,
    timeout: float,
    late: Callable[[T, float], str],
) -> T:
    """Look at a stack again and again until it is as expected.

    The looks are less frequent if the cloud takes long to answer, with at
    most :data:`_MAX_INTERVAL` seconds between them.
    Failures of ``look`` and ``is_done`` that may pass are ignored for
    :data:`SILENCE` seconds, multiplied as the timeout.

    :param look: function that returns the stack, or its status.
    :param is_done: function that returns whether the result of ``look`` is
        as expected.
    :param failure: message for a failure of ``look``.
    :param timeout: seconds on an ordinary server, multiplied by
        :func:`hvstack.speed.factor`.
    :param late: function that returns the message after the timeout, of the
        last result and the seconds of the timeout.
    :returns: last result of ``look``.
    :raises hvstack.errors.CloudError: the cloud refuses, or does not answer.
    :raises hvstack.errors.DeadlineExceededError: the timeout expired.
    """
    started_at = answered_at = time.monotonic()
    seconds = timeout * speed.factor()
    while True:
        pause = _INTERVAL
        looked_at = time.monotonic()
        try:
            state = look()
            look_seconds = time.monotonic() - looked_at
            pause = max(
                pause, min(_MAX_INTERVAL, look_seconds / _MAX_LOOK_SHARE)
            )
            if is_done(state):
                return state
        except FAILURES as exc:
            unanswered = time.monotonic() - answered_at
            if not passing(exc) or unanswered >= SILENCE * speed.factor():
                with refused(failure):
                    raise
        else:
            answered_at = time.monotonic()
            if time.monotonic() - started_at > seconds:
                raise errors.DeadlineExceededError(late(state, seconds))
        time.sleep(pause)


def build_reporter(
    progress: Progress | None,
) -> Callable[[Callable[[], str]], None]:
    """Return a function that reports a text at most every 20 seconds.

    Less often if the text takes long: the resources of all nested stacks of
    a cluster cost the engine, which creates them, time that grows with their
    number.
    """
    reported_at = time.monotonic()
    pause = float(_SAY_SECONDS)

    def report(get_text: Callable[[], str]) -> None:
        nonlocal reported_at, pause
        started_at = time.monotonic()
        if progress is not None and started_at - reported_at > pause:
            text = get_text()
            reported_at = time.monotonic()
            pause = max(
                _SAY_SECONDS, (reported_at - started_at) / _MAX_REPORT_SHARE
            )
            progress.say(text)

    return report


def outputs(conn: Connection, name: str) -> StackOutputs:
    """Return a stack's outputs by name, once it was created.

    :raises hvstack.errors.CloudError: Heat does not have the stack, or it is
        not complete.
    """
    with refused(f"Cannot inspect stack '{name}'"):
        stack = stack_lookup.find(conn, name)
        if stack is not None and stack.status in _CREATED:
            stack = conn.orchestration.get_stack(stack.id)
    if stack is None or stack.status not in _CREATED:
        state = f'has status {stack.status}' if stack else 'does not exist'
        raise errors.CloudError(
            f"Cannot use stack '{name}', which {state}. Check it with "
            "'openstack stack list'."
        )
    if stack.status == 'ROLLBACK_COMPLETE' and not stack.outputs:
        raise errors.CloudError(
            f"Cannot use stack '{name}': its creation failed, and Heat has "
            f"undone it. See the reason with 'openstack stack event list "
            f"{name}', then delete the stack."
        )
    return _outputs(stack)


@contextmanager
def _limits(failure: str) -> Iterator[None]:
    """Turn Heat's error into an exception of hvstack, with what to raise."""
    try:
        with refused(failure):
            yield
    except errors.CloudError as exc:
        message = with_remedy(str(exc).removesuffix('.'))
        raise errors.CloudError(f'{message}.') from exc


def _outputs(stack: Stack) -> StackOutputs:
    return {
        item['output_key']: item.get('output_value')
        for item in stack.outputs or []
    }


def reason(conn: Connection, stack: Stack) -> str:
    """Return the failing resources of a stack with their reasons."""
    failed = [
        item
        for item in list_resources(conn, stack)
        if item['resource_status'].endswith('_FAILED')
    ]
    # A nested stack fails because of what is in it: that alone says why.
    deepest = [
        item
        for item in failed
        if item['resource_type'].startswith('OS::')
        and item['resource_type'] != 'OS::Heat::ResourceGroup'
    ]
    lines = []
    for item in deepest or failed:
        cause = ' '.join(str(item.get('resource_status_reason')).split())
        lines.append(
            f'{item["resource_name"]} ({item["resource_type"]}): {cause}'
        )
    message = '; '.join(dict.fromkeys(lines)) or str(stack.status_reason)
    return with_remedy(message)


def delete(
    conn: Connection,
    name: str,
    *,
    stack_id: str | None = None,
    timeout: float = DELETE_SECONDS,
    progress: Progress | None = None,
) -> None:
    """Delete a stack and wait until it is gone; none of the name is fine.

    :param stack_id: its ID; another stack of the name stays. None deletes
        the stack that has the name now.
    :param timeout: seconds, as for :func:`wait_until`.
    :raises hvstack.errors.CloudError: Heat failed twice to delete it.
    :raises hvstack.errors.DeadlineExceededError: it took too long.
    """
    existing: Stack | None = None

    def look() -> str | None:
        # Not by find_stack: to it a stack is gone at DELETE_COMPLETE, when
        # Heat may list it, and refuse its name, a moment longer.
        nonlocal existing
        stacks = conn.orchestration.stacks(name=name)
        existing = next(
            (
                stack
                for stack in stacks
                if is_own(conn, stack) and stack_id in (None, stack.id)
            ),
            None,
        )
        return None if existing is None else str(existing.status)

    def list_existing() -> list[StackResource]:
        return [] if existing is None else list_resources(conn, existing)

    def ask() -> None:
        if existing is None:
            return
        if str(existing.status) == 'DELETE_FAILED':
            # Heat cannot delete, say, a security group that an orphan uses.
            resource_ids = {
                str(item.get('physical_resource_id'))
                for item in list_existing()
            }
            with contextlib.suppress(errors.CloudError):
                orphans.delete(conn, existing.id, resource_ids)
        conn.orchestration.delete_stack(existing, ignore_missing=True)

    report = build_reporter(progress)
    wait_until_deleted(
        name,
        look,
        ask,
        lambda: '' if existing is None else reason(conn, existing),
        timeout,
        lambda: report(
            lambda: f'  stack: {len(list_existing())} resources left'
        ),
    )
    host_keys.forget(name)


def wait_until_deleted(
    name: str,
    look: Callable[[], str | None],
    ask: Callable[[], None],
    get_reason: Callable[[], str],
    timeout: float,
    report: Callable[[], None] = lambda: None,
) -> None:
    """Have Heat delete a stack, twice if it fails, until the stack is gone.

    A deletion that is in progress after half of the timeout is requested
    again: Heat does not continue it after a restart of its engine.

    :param name: name of the stack, for messages.
    :param look: function that returns the stack's status, None once it is
        gone.
    :param ask: function that asks Heat to delete the stack.
    :param get_reason: function that returns why Heat failed.
    :param timeout: seconds, as for :func:`wait_until`.
    :param report: function that is called while Heat deletes the stack.
    :raises hvstack.errors.CloudError: Heat failed twice.
    :raises hvstack.errors.DeadlineExceededError: it took too long.
    """
    failure = f"Cannot delete stack '{name}'"
    tries = 0
    ask_again_at = time.monotonic() + timeout * speed.factor() / 2

    def is_deleted(status: str | None) -> bool:
        nonlocal tries, ask_again_at
        if status is None:
            return True
        if status not in _DELETING:
            if tries == 2:
                raise errors.CloudError(
                    f'{failure}: {get_reason().removesuffix(".")}.'
                )
            # Heat may delete the stack although it answers too late.
            ask()
            tries += 1
        elif time.monotonic() > ask_again_at:
            ask()
            ask_again_at = math.inf
        report()
        return False

    wait_until(
        look,
        is_deleted,
        failure=failure,
        timeout=timeout,
        late=lambda _, seconds: (
            f"Stack '{name}' was not deleted after {seconds:.0f} s. Check it "
            f"with 'openstack stack resource list {name}'."
        ),
    )


def is_own(conn: Connection, stack: Stack) -> bool:
    """Tell whether a stack is in the connection's project.

    Heat lists those of all projects to an administrator, and openstacksdk
    shows the project only in the link of the stack.
    """
    return all(
        f'/{conn.current_project_id}/stacks/' in link['href']
        for link in stack.links or []
        if link['rel'] == 'self'
    )
