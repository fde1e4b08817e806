# SPDX-License-Identifier: Apache-2.0
"""What the projects that tests create see of the cloud."""

from collections.abc import Collection

from openstack.connection import Connection
from openstack.network.v2.network import Network
from openstack.resource import Resource

from hvstack import errors
from hvstack.cloud import volumes

#: Visibilities of images that a new project does not see.
_HIDDEN = ('private', 'shared')
_REASON = 'the projects that the tests create do not see it'


def check_network(network: Network) -> None:
    """Check that new projects see a network.

    To an administrator, Neutron calls a network shared if an RBAC policy
    shares it with all projects, or with the project of the administrator.

    :param network: network of the servers of the tests.
    :raises hvstack.errors.InputError: new projects do not see the network.
    """
    if not network.is_shared:
        raise errors.InputError(
            f"Cannot use the network '{network.name}': {_REASON}, because it "
            'is not shared with all projects. Use --accounts FILE with users '
            "who see it, set 'network' in hvstack.conf to a shared network, "
            "or share this one with 'openstack network rbac create --type "
            'network --action access_as_shared --target-all-projects '
            f"{network.id}'."
        )


def check_image(image: Resource, name: str) -> None:
    """Check that new projects find an image.

    :param image: image of the servers of the tests.
    :param name: name or ID with which the tests request the image.
    :raises hvstack.errors.InputError: new projects do not find the image.
    """
    if image.visibility in _HIDDEN:
        raise errors.InputError(
            f"Cannot use the image '{name}': {_REASON}, because its "
            f'visibility is {image.visibility}. Use --accounts FILE with '
            "users who see it, or run 'openstack image set --public "
            f"{image.id}'."
        )
    # Heat looks for names in Glance's list, which has no community images of
    # other projects.
    if image.visibility == 'community' and name != image.id:
        raise errors.InputError(
            f"Cannot use the image '{name}': the projects that the tests "
            'create do not find a community image by its name. Set '
            f"'image' in hvstack.conf to {image.id}."
        )


def check_volume_types(conn: Connection, names: Collection[str]) -> None:
    """Check that new projects see volume types.

    :param conn: connection of an administrator.
    :param names: names of the volume types of the tests.
    :raises hvstack.errors.InputError: new projects do not see a type.
    :raises hvstack.errors.CloudError: Cinder refused.
    """
    for volume_type in volumes.list_types(conn):
        name = volume_type['name']
        if name in names and volume_type.get('is_public') is False:
            raise errors.InputError(
                f"Cannot use the volume type '{name}': {_REASON}, because it "
                'is private. Use --accounts FILE with users who see it, omit '
                "its --volume-backend, or run 'openstack volume type set "
                f"--public {name}'."
            )
