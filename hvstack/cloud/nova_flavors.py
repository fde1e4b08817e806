# SPDX-License-Identifier: Apache-2.0
"""Flavors in Nova: list, compare, create, and give access to them."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping

import openstack.exceptions
from openstack.compute.v2.flavor import Flavor as NovaFlavor
from openstack.connection import Connection

from hvstack import errors
from hvstack.cloud.connection import FAILURES, refused
from hvstack.model.flavor import Flavor

#: Name space of hvstack's own extra specs.
PREFIX = 'hvstack:'
#: Last microversion of Nova that does not validate extra specs. To look up a
#: name space that it does not know takes Nova longer than to create a flavor.
_UNCHECKED = '2.85'
_SIZES = ('vcpus', 'ram', 'disk', 'ephemeral')


def list_flavors(conn: Connection) -> dict[str, NovaFlavor]:
    """Return Nova's flavors by name, private ones included.

    :param conn: connection of an administrator.
    """
    with refused('Cannot list the flavors'):
        return {
            flavor.name: flavor
            for flavor in conn.compute.flavors(is_public=None)
        }


def find_visible(conn: Connection, name: str) -> NovaFlavor:
    """Return a flavor that a project may use.

    :param conn: connection of the project.
    :param name: name or ID of the flavor.
    :raises hvstack.errors.InputError: the project sees no such flavor.
    """
    with refused('Cannot list the flavors'):
        flavors = list(conn.compute.flavors())
    for flavor in flavors:
        if name in (flavor.name, flavor.id):
            return flavor
    raise errors.InputError(
        f"Cannot find flavor '{name}': this project has no access to such a "
        "flavor. Choose a flavor that 'openstack flavor list' shows, or "
        "create one with 'hvstack flavor publish'."
    )


def to_flavor(nova_flavor: NovaFlavor, role: str) -> Flavor:
    """Return a flavor of Nova as the flavor of a role.

    :param nova_flavor: flavor in Nova.
    :param role: one of :data:`hvstack.model.flavor.ROLES`, or ``compute``.
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


def compare_sizes(
    nova_flavor: NovaFlavor, flavor: Flavor
) -> Iterator[tuple[str, int, int]]:
    """Yield the name, the actual and the derived value of different sizes.

    :param nova_flavor: flavor in Nova.
    :param flavor: derived flavor.
    """
    for name in _SIZES:
        size = getattr(nova_flavor, name) or 0
        if size != getattr(flavor, name):
            yield name, size, getattr(flavor, name)


def format_sizes(flavor: Flavor) -> str:
    """Return the sizes of a flavor as human-readable text."""
    return ', '.join(f'{name} {getattr(flavor, name)}' for name in _SIZES)


def create(
    conn: Connection,
    flavor: Flavor,
    flavor_id: str,
    *,
    public: bool = False,
    projects: Iterable[str] = (),
) -> None:
    """Create a flavor with its extra specs, or nothing.

    :param conn: connection of an administrator.
    :param flavor: flavor to create.
    :param flavor_id: its ID.
    :param public: whether every project has access.
    :param projects: IDs of the projects that get access.
    """
    created = conn.compute.create_flavor(
        id=flavor_id,
        name=flavor.name,
        vcpus=flavor.vcpus,
        ram=flavor.ram,
        disk=flavor.disk,
        ephemeral=flavor.ephemeral,
        is_public=public,
        description=flavor.description,
    )
    try:
        set_extra_specs(conn, created, flavor.extra_specs)
        for project in projects:
            grant(conn, created, project)
    except FAILURES:
        # A flavor without its specs would be another one.
        conn.compute.delete_flavor(created, ignore_missing=True)
        raise


def set_extra_specs(
    conn: Connection, nova_flavor: NovaFlavor, specs: Mapping[str, str]
) -> None:
    """Set extra specs; Nova validates those that are not hvstack's own."""
    own = {k: v for k, v in specs.items() if k.startswith(PREFIX)}
    standard_specs = {k: v for k, v in specs.items() if k not in own}
    if standard_specs:
        conn.compute.create_flavor_extra_specs(nova_flavor, standard_specs)
    if own:
        answer = conn.compute.post(
            f'/flavors/{nova_flavor.id}/os-extra_specs',
            json={'extra_specs': own},
            microversion=_UNCHECKED,
        )
        openstack.exceptions.raise_from_response(answer)


def delete_extra_spec(
    conn: Connection, nova_flavor: NovaFlavor, key: str
) -> None:
    """Delete an extra spec, unless it does not exist."""
    with contextlib.suppress(openstack.exceptions.NotFoundException):
        conn.compute.delete_flavor_extra_specs_property(nova_flavor, key)


def list_access(conn: Connection, nova_flavor: NovaFlavor) -> set[str]:
    """Return the IDs of the projects with access to a private flavor."""
    with refused(
        f"Cannot list the projects with access to flavor '{nova_flavor.name}'"
    ):
        accesses = conn.compute.get_flavor_access(nova_flavor)
        return {item['tenant_id'] for item in accesses}


def grant(conn: Connection, nova_flavor: NovaFlavor, project: str) -> None:
    """Give a project access to a flavor, unless it has access."""
    with contextlib.suppress(openstack.exceptions.ConflictException):
        conn.compute.flavor_add_tenant_access(nova_flavor, project)


def revoke(
    conn: Connection, nova_flavor: NovaFlavor | str, project: str
) -> None:
    """Take access to a flavor from a project, if it has access.

    :param conn: connection of an administrator.
    :param nova_flavor: flavor in Nova, or its ID.
    :param project: ID of the project.
    """
    with contextlib.suppress(openstack.exceptions.NotFoundException):
        conn.compute.flavor_remove_tenant_access(nova_flavor, project)
