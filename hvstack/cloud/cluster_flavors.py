# SPDX-License-Identifier: Apache-2.0
"""Publishing derived flavors in Nova, and taking them back."""

import logging
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from openstack.compute.v2.flavor import Flavor as NovaFlavor
from openstack.compute.v2.server import Server as NovaServer
from openstack.connection import Connection

from hvstack import errors
from hvstack.cloud import journal, nova_flavors, orphans, stacks
from hvstack.cloud.connection import refused, scope
from hvstack.model.flavor import Flavor
from hvstack.results.typed_json import JsonObject

LOG = logging.getLogger(__name__)

KIND = 'flavor'
#: Kind of the entries for the access of a project to an existing flavor.
ACCESS_KIND = 'flavor_access'


@dataclass(frozen=True)
class _CreatedFlavor:
    """Data of an entry of the journal: a flavor in Nova."""

    name: str
    id: str


@dataclass(frozen=True)
class _GrantedAccess:
    """Data of an entry of the journal: the access of a project to a flavor.

    :param name: names of the flavor and the project, for people.
    :param id: ID of the flavor.
    :param project: ID of the project.
    """

    name: str
    id: str
    project: str


@dataclass(frozen=True)
class Published:
    """A flavor as Nova has it.

    :param entry: of the journal; None if hvstack did not create the flavor.
    """

    id: str
    name: str
    entry: journal.JournalEntry | None


def publish(
    conn: Connection, flavor: Flavor, project_ids: Iterable[str] = ()
) -> Published:
    """Have a flavor in Nova, private, with access for some projects.

    One of that name is used only if it has the same size and extra specs. One
    that another cluster or sweep created gets another entry in the journal, so
    that it stays until its last user ends.

    :param project_ids: projects that may use it.
    :raises hvstack.errors.CloudError: Nova refused, or another flavor has
        the name.
    """
    existing = nova_flavors.list_flavors(conn).get(flavor.name)
    if existing is not None:
        mismatches = find_differences(existing, flavor)
        if mismatches:
            raise errors.CloudError(
                f"Cannot create flavor '{flavor.name}': it exists with "
                f"{'; '.join(mismatches)}. Delete or rename it ('openstack "
                "flavor delete'), then run the command again."
            )
        if not existing.is_public:
            _grant_access(conn, existing, project_ids)
        shared = _CreatedFlavor(existing.name, existing.id)
        return Published(
            existing.id,
            flavor.name,
            _note(conn, KIND, shared) if _list_entries(KIND, shared) else None,
        )
    flavor_id = str(uuid.uuid4())
    entry = _note(conn, KIND, _CreatedFlavor(flavor.name, flavor_id))
    with refused(f"Cannot create flavor '{flavor.name}'"):
        nova_flavors.create(
            conn, flavor, flavor_id, projects=sorted(set(project_ids))
        )
    return Published(flavor_id, flavor.name, entry)


def _grant_access(
    conn: Connection, existing: NovaFlavor, project_ids: Iterable[str]
) -> None:
    """Give projects access to a private flavor that exists.

    A project that has access through hvstack gets another entry in the
    journal, so that it keeps the access until the last user ends.
    """
    current_ids = nova_flavors.list_access(conn, existing)
    for project in sorted(set(project_ids)):
        name = f'{existing.name} of {project}'
        granted = _GrantedAccess(name, existing.id, project)
        if project in current_ids and not _list_entries(ACCESS_KIND, granted):
            continue
        _note(conn, ACCESS_KIND, granted)
        if project not in current_ids:
            with refused(f"Cannot grant access to flavor '{existing.name}'"):
                nova_flavors.grant(conn, existing, project)


def _note(
    conn: Connection, kind: str, change: _CreatedFlavor | _GrantedAccess
) -> journal.JournalEntry:
    return journal.note(kind, asdict(change), scope(conn))


def _list_entries(
    kind: str, change: _CreatedFlavor | _GrantedAccess
) -> list[journal.JournalEntry]:
    """Return the entries of the journal for a change."""
    return [
        entry
        for entry in journal.entries()
        if entry.kind == kind and entry.data == asdict(change)
    ]


def list_owners(flavor_id: str) -> list[str]:
    """Return the clusters and processes that a flavor was created for.

    Only the journal of this machine is read; one that another user may not
    read, or that is damaged, names none.

    :param flavor_id: ID of the flavor in Nova.
    """
    try:
        journal_entries = journal.entries()
    except (errors.InputError, OSError):
        return []
    return sorted(
        {
            entry.owner or f'process {entry.pid}'
            for entry in journal_entries
            if entry.kind == KIND and entry.data.get('id') == flavor_id
        }
    )


def list_temporary_access() -> set[tuple[str, str]]:
    """Return the access that ends with a cluster or a process.

    As for :func:`list_owners`, a journal that cannot be read has no entry.

    :returns: IDs of a flavor and a project.
    """
    try:
        journal_entries = journal.entries()
    except (errors.InputError, OSError):
        return set()
    return {
        (str(entry.data.get('id')), str(entry.data.get('project')))
        for entry in journal_entries
        if entry.kind == ACCESS_KIND
    }


def keep_access(flavor_id: str, project_id: str) -> None:
    """Let a project keep its access when clusters and processes end.

    :param flavor_id: ID of the flavor in Nova.
    :param project_id: ID of the project.
    """
    for entry in journal.entries():
        ids = entry.data.get('id'), entry.data.get('project')
        if entry.kind == ACCESS_KIND and ids == (flavor_id, project_id):
            journal.forget(entry)


def find_differences(existing: NovaFlavor, flavor: Flavor) -> list[str]:
    """Return the differences of a flavor in Nova from a derived one.

    hvstack's own extra specs describe the evidence, not the shape.

    :param existing: flavor in Nova.
    :param flavor: derived flavor.
    """
    specs = {
        name: value
        for name, value in (existing.extra_specs or {}).items()
        if not name.startswith(nova_flavors.PREFIX)
    }
    different_specs = (
        (name, specs.get(name), flavor.extra_specs.get(name))
        for name in sorted({*specs, *flavor.extra_specs})
        if specs.get(name) != flavor.extra_specs.get(name)
    )
    return [
        f'{name} {actual} instead of {expected}'
        for name, actual, expected in (
            *nova_flavors.compare_sizes(existing, flavor),
            *different_specs,
        )
    ]


def undo(conn: Connection, data: JsonObject) -> bool:
    """Delete a flavor that we made, unless another entry or server needs it.

    A cluster that another machine created has its entries there.

    :returns: whether the flavor does not stay for the servers of others.
    """
    created = journal.read_data(_CreatedFlavor, data)
    if len(_list_entries(KIND, created)) > 1:
        return True
    server = _find_foreign_server(conn, created)
    if server is not None:
        LOG.warning(
            "The flavor '%s' stays: servers of another cluster use it, such "
            "as '%s'. Delete it with 'openstack flavor delete' after them.",
            created.name,
            server.name,
        )
        return False
    with refused(f"Cannot delete flavor '{created.name}'"):
        conn.compute.delete_flavor(created.id, ignore_missing=True)
    return True


def _find_foreign_server(
    conn: Connection, flavor: _CreatedFlavor
) -> NovaServer | None:
    """Return a server with a flavor that is none of a stack in the journal.

    The stack of the flavor's cluster is deleted before, and Nova does not
    list deleted servers, nor soft-deleted ones. If its deletion failed, the
    stack is still in the journal.
    """
    stack_ids = {
        entry.data.get('id')
        for entry in journal.entries()
        if entry.kind == stacks.KIND
    }
    with refused(f"Cannot list the servers of flavor '{flavor.name}'"):
        for server in conn.compute.servers(
            all_projects=True, flavor=flavor.id
        ):
            stack_id = (server.metadata or {}).get(orphans.METADATA)
            is_own = stack_id is not None and stack_id in stack_ids
            if not is_own and server.task_state != 'deleting':
                return server
    return None


def undo_access(conn: Connection, data: JsonObject) -> None:
    """Take access that we granted, unless another entry needs it."""
    granted = journal.read_data(_GrantedAccess, data)
    if len(_list_entries(ACCESS_KIND, granted)) > 1:
        return
    with refused(f'Cannot revoke the access to flavor {granted.name}'):
        nova_flavors.revoke(conn, granted.id, granted.project)
