# SPDX-License-Identifier: Apache-2.0
"""Publishing derived flavors in Nova, and taking them back."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from openstack.compute.v2.flavor import Flavor as NovaFlavor
from openstack.connection import Connection

from hvstack import errors
from hvstack.cloud import journal, nova_flavors
from hvstack.cloud.connection import refused, scope
from hvstack.model.flavor import Flavor
from hvstack.results.typed_json import JsonObject

KIND = 'flavor'


@dataclass(frozen=True)
class _CreatedFlavor:
    """Data of an entry of the journal: a flavor in Nova."""

    name: str
    id: str


@dataclass(frozen=True)
class Published:
    """A flavor as Nova has it.

    :param entry: of the journal; None where the flavor was there before.
    """

    id: str
    name: str
    entry: journal.JournalEntry | None


def publish(
    conn: Connection, flavor: Flavor, project_ids: Iterable[str] = ()
) -> Published:
    """Have a flavor in Nova, private, with access for some projects.

    One of that name is used only if it has the same size and extra specs.

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
            current_ids = nova_flavors.list_access(conn, existing)
            with refused(f"Cannot grant access to flavor '{flavor.name}'"):
                for project in sorted(set(project_ids) - current_ids):
                    nova_flavors.grant(conn, existing, project)
        return Published(existing.id, flavor.name, None)
    flavor_id = str(uuid.uuid4())
    entry = journal.note(
        KIND, {'name': flavor.name, 'id': flavor_id}, scope(conn)
    )
    with refused(f"Cannot create flavor '{flavor.name}'"):
        nova_flavors.create(
            conn, flavor, flavor_id, projects=sorted(set(project_ids))
        )
    return Published(flavor_id, flavor.name, entry)


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


def undo(conn: Connection, data: JsonObject) -> None:
    """Delete a flavor that we made; servers that use it stay."""
    created = journal.read_data(_CreatedFlavor, data)
    with refused(f"Cannot delete flavor '{created.name}'"):
        conn.compute.delete_flavor(created.id, ignore_missing=True)
