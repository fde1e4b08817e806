# SPDX-License-Identifier: Apache-2.0
"""Publishing derived flavors in Nova, and taking them back."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from openstack.connection import Connection

from hvstack import errors
from hvstack.cloud import journal
from hvstack.cloud.connection import refused, scope
from hvstack.model.flavor import Flavor

KIND = 'flavor'


@dataclass(frozen=True)
class Published:
    """A flavor as Nova has it.

    :param entry: of the journal; None where the flavor was there before.
    """

    id: str
    name: str
    entry: journal.JournalEntry | None


def find(conn: Connection, name: str) -> Any | None:
    """Return Nova's flavor of a name, private ones included."""
    with refused('flavors cannot be listed'):
        for item in conn.compute.flavors(is_public=None):
            if item.name == name:
                return item
    return None


def visible(conn: Connection, name: str) -> Any:
    """Return a flavor that a project may use, by name or id.

    :param conn: of the project; no other rights are needed.
    :raises hvstack.errors.InputError: it sees none of that name.
    """
    with refused('flavors cannot be listed'):
        flavors = list(conn.compute.flavors())
    for flavor in flavors:
        if name in (flavor.name, flavor.id):
            return flavor
    raise errors.InputError(
        f"there is no flavor '{name}' for this project: 'openstack flavor "
        "list' shows those it may use, 'hvstack flavor publish' makes some"
    )


def to_flavor(nova_flavor: Any, role: str) -> Flavor:
    """Return a flavor of Nova as the flavor of a role.

    :param role: one of :data:`hvstack.model.flavor.ROLES`.
    """
    return Flavor(
        nova_flavor.name,
        role,
        nova_flavor.vcpus,
        nova_flavor.ram,
        nova_flavor.disk,
        nova_flavor.ephemeral or 0,
        dict(nova_flavor.extra_specs or {}),
    )


def publish(
    conn: Connection, flavor: Flavor, project_ids: Iterable[str] = ()
) -> Published:
    """Have a flavor in Nova, private, with access for some projects.

    One of that name is used only if it has the same size and extra specs.

    :param project_ids: projects that may use it.
    :raises hvstack.errors.CloudError: Nova refused, or another flavor has
        the name.
    """
    existing = find(conn, flavor.name)
    if existing is not None:
        mismatches = differences(existing, flavor)
        if mismatches:
            raise errors.CloudError(
                f"flavor '{flavor.name}' is there with "
                f'{"; ".join(mismatches)}: delete or rename it '
                "('openstack flavor delete'), then run "
                'this again'
            )
        _grant(conn, existing, project_ids)
        return Published(existing.id, flavor.name, None)
    flavor_id = str(uuid.uuid4())
    entry = journal.note(
        KIND, {'name': flavor.name, 'id': flavor_id}, scope(conn)
    )
    with refused(f"Nova did not take the flavor '{flavor.name}'"):
        created = conn.compute.create_flavor(
            id=flavor_id,
            name=flavor.name,
            vcpus=flavor.vcpus,
            ram=flavor.ram,
            disk=flavor.disk,
            ephemeral=flavor.ephemeral,
            is_public=False,
            description=flavor.description,
        )
        if flavor.extra_specs:
            conn.compute.create_flavor_extra_specs(created, flavor.extra_specs)
        _grant(conn, created, project_ids)
    return Published(flavor_id, flavor.name, entry)


def _grant(
    conn: Connection, nova_flavor: Any, project_ids: Iterable[str]
) -> None:
    if nova_flavor.is_public:
        return
    with refused(f"no access to the flavor '{nova_flavor.name}' can be given"):
        granted_ids = {
            item['tenant_id']
            for item in conn.compute.get_flavor_access(nova_flavor)
        }
        for project in sorted(set(project_ids) - granted_ids):
            conn.compute.flavor_add_tenant_access(nova_flavor, project)


def differences(existing: Any, flavor: Flavor) -> list[str]:
    """Return in what Nova's flavor is not the derived one.

    Extra specs of our own scope tell of its evidence, not of its shape.
    """
    pairs: dict[str, tuple[Any, Any]] = {
        'vcpus': (existing.vcpus, flavor.vcpus),
        'ram': (existing.ram, flavor.ram),
        'disk': (existing.disk, flavor.disk),
        'ephemeral': (existing.ephemeral or 0, flavor.ephemeral),
    }
    specs = {
        name: value
        for name, value in (existing.extra_specs or {}).items()
        if not name.startswith('hvstack:')
    }
    for name in sorted({*specs, *flavor.extra_specs}):
        pairs[name] = (specs.get(name), flavor.extra_specs.get(name))
    return [
        f'{name} {got} instead of {expected}'
        for name, (got, expected) in pairs.items()
        if got != expected
    ]


def undo(conn: Connection, data: dict[str, Any]) -> None:
    """Delete a flavor that we made; servers that use it go on."""
    with refused(f"flavor '{data['name']}' cannot be deleted"):
        conn.compute.delete_flavor(data['id'], ignore_missing=True)
