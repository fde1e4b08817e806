# SPDX-License-Identifier: Apache-2.0
"""Guest images in Glance: one of a name, with the digest of its recipe.

An image is hvstack's if the project owns it and if it carries its own ID in
a property. A snapshot of a server inherits the property, with the wrong ID.
"""

import hashlib
import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keystoneauth1.exceptions
import openstack.exceptions
from openstack.connection import Connection

from hvstack import errors
from hvstack.cloud import servers
from hvstack.lab.images import recipes, store
from hvstack.progress import Progress

#: Properties that tell which build an image in Glance is.
DIGEST = servers.IMAGE_DIGEST
OUTPUT = 'hvstack_output'
#: Property with the ID of the image, by which hvstack knows its own.
IDENTITY = 'hvstack_image_id'

#: Properties that Nova reads, or that clouds ask of every image (SCS
#: standard scs-0102, https://docs.scs.community/standards/scs-0102-v1-image-metadata).
METADATA = {
    'architecture': 'x86_64',
    'os_distro': 'debian',
    'os_version': '12',
}
#: Firmware that starts a disk, with the properties by which Nova chooses it.
#: UEFI requires the machine type q35 (Nova's guide "UEFI").
FIRMWARE: dict[str, dict[str, str]] = {
    'bios': {},
    'uefi': {'hw_firmware_type': 'uefi', 'hw_machine_type': 'q35'},
}
#: Devices of machines that start a disk which hvstack built: its kernel has
#: no driver for the SATA CD-ROM on which a machine of the type q35 has the
#: config drive. The disks stay on the bus that Nova chooses without these
#: properties; the initial RAM disk mounts /dev/vda1.
HARDWARE = {
    'hw_cdrom_bus': 'scsi',
    'hw_scsi_model': 'virtio-scsi',
    'hw_disk_bus': 'virtio',
}
#: First bytes of a qcow2 disk.
QCOW2 = b'QFI\xfb'
#: Who may use an image, as Glance calls it.
VISIBILITIES = ('public', 'community', 'shared', 'private')

_GIB = 1024**3


def read_disk(path: Path, properties: Mapping[str, str]) -> store.Image:
    """Return an image that consists of a disk which hvstack did not build.

    Its digest covers the disk and the properties: a change of either is
    another image.

    :param path: path of a qcow2 disk.
    :param properties: properties of the image.
    :raises hvstack.errors.InputError: the file cannot be read, or is not a
        qcow2 disk.
    """
    try:
        with path.open('rb') as stream:
            is_qcow2 = stream.read(len(QCOW2)) == QCOW2
            stream.seek(0)
            total = hashlib.file_digest(stream, 'sha256')
    except OSError as exc:
        raise errors.InputError(
            f'Cannot read --disk {path}: {exc.strerror}. Set --disk to a '
            'qcow2 disk.'
        ) from exc
    if not is_qcow2:
        raise errors.InputError(
            f'Cannot upload --disk {path}: it is not a qcow2 disk. Convert it '
            "with 'qemu-img convert -O qcow2'."
        )
    total.update(json.dumps(dict(properties), sort_keys=True).encode())
    return store.Image('disk', total.hexdigest()[:12], {'qemu': path}, {})


def describe_disk(
    firmware: str,
    *,
    os_distro: str | None,
    os_version: str | None,
) -> dict[str, str]:
    """Return the properties of an image that hvstack did not build.

    :param firmware: a key of :data:`FIRMWARE`.
    :param os_distro: distribution, as libosinfo spells it; None means that
        of hvstack's image.
    :param os_version: version of the distribution; None means that of
        hvstack's image.
    """
    return {
        **METADATA,
        **({'os_distro': os_distro} if os_distro else {}),
        **({'os_version': os_version} if os_version else {}),
        **FIRMWARE[firmware],
    }


def upload(
    conn: Connection,
    image: store.Image,
    output: str,
    *,
    title: str | None = None,
    visibility: str = 'public',
    properties: Mapping[str, str] = METADATA,
) -> str:
    """Have a guest image in Glance, and return its id.

    Of hvstack's images with that name, those of another build are removed
    once the new one is there; servers that run from them stay. One that
    Glance does not delete is renamed. An upload that was interrupted is begun
    again.

    :param conn: a connection; by Glance's default policy, only an
        administrator's may create a public image.
    :param output: ``lxc`` or ``qemu``; the latter is for kvm, too.
    :param title: name in Glance; ``hvstack-`` and the image's name unless
        given. A cloud with both kinds of hosts needs two names.
    :param visibility: one of :data:`VISIBILITIES`, for a new image.
    :param properties: properties of a new image, in addition to those that
        depend on the build and the output.
    :raises hvstack.errors.InputError: the image was built without it,
        hvstack did not upload an image of the name, which would be ambiguous,
        or an image of another build is protected.
    :raises hvstack.errors.CloudError: Glance refused.
    """
    if output not in image.outputs or output == 'rootfs':
        raise errors.InputError(
            f"Cannot upload image '{image.name}': it has no output "
            f"'{output}'. Run 'hvstack image build {image.name} --output "
            f"{output}'."
        )
    name = title or f'hvstack-{image.name}'
    try:
        return _upload(
            conn, image, output, name, visibility, metadata=properties
        )
    except openstack.exceptions.ForbiddenException as exc:
        raise errors.CloudError(
            f"Cannot upload the image '{name}': Glance does not allow this "
            f'user {visibility} images. Use --visibility private, or the '
            'credentials of an administrator.'
        ) from exc
    except (
        keystoneauth1.exceptions.ClientException,
        openstack.exceptions.SDKException,
    ) as exc:
        raise errors.CloudError(
            f"Cannot upload image '{name}': "
            f'{" ".join(str(exc).split()).removesuffix(".")}. Check the '
            'Glance service.'
        ) from exc


def _upload(
    conn: Connection,
    image: store.Image,
    output: str,
    name: str,
    visibility: str,
    *,
    metadata: Mapping[str, str],
) -> str:
    build_properties = {DIGEST: image.digest, OUTPUT: output}
    if output == 'qemu' and image.name in recipes.RECIPES:
        # An image of an earlier version has other drivers.
        build_properties |= HARDWARE
    uploaded_id = ''
    # New names of the others by their IDs.
    others: dict[str, str] = {}
    for candidate in conn.image.images(name=name):
        if not _is_managed(conn, candidate):
            _check_foreign(conn, candidate)
            continue
        same = all(
            # The SDK has attributes for some properties.
            (candidate.properties.get(key) or getattr(candidate, key, None))
            == value
            for key, value in build_properties.items()
        )
        if same and candidate.status == 'active' and not uploaded_id:
            uploaded_id = candidate.id
        elif candidate.is_protected:
            # Servers cannot start from a name that two images have.
            raise errors.InputError(
                f"Cannot replace the image '{name}' ({candidate.id}): it is "
                "protected. Run 'openstack image set --unprotected "
                f"{candidate.id}'."
            )
        else:
            digest = candidate.properties.get(DIGEST, candidate.id)
            others[candidate.id] = f'{name}-{digest}'
    path = image.outputs[output]
    if not uploaded_id:
        image_id = str(uuid.uuid4())
        properties: dict[str, Any] = {
            **build_properties,
            **metadata,
            IDENTITY: image_id,
        }
        if output == 'lxc':
            # Nova's libvirt driver starts such an image's init as a program
            # in a container, not as a machine.
            properties['hw_vm_mode'] = 'exe'
        else:
            # A guest without a source of entropy waits for one at boot.
            properties['hw_rng_model'] = 'virtio'
        created = conn.image.create_image(
            name=name,
            allow_duplicates=True,
            filename=str(path),
            disk_format='raw' if output == 'lxc' else 'qcow2',
            container_format='bare',
            visibility=visibility,
            min_disk=-(-_virtual_size(path, output) // _GIB),
            wait=True,
            timeout=600,
            meta={'id': image_id},
            **properties,
        )
        uploaded_id = str(created.id)
    for other_id, new_name in others.items():
        _delete(conn, other_id, new_name)
    return uploaded_id


def _delete(conn: Connection, image_id: str, new_name: str) -> None:
    """Delete an image of another build, or rename it.

    A store such as Ceph's does not delete an image while disks of servers are
    clones of it.

    :param image_id: ID of the image.
    :param new_name: its name if Glance does not delete it.
    :raises hvstack.errors.CloudError: Glance refuses both.
    """
    try:
        conn.image.delete_image(image_id, ignore_missing=True)
    except (
        openstack.exceptions.ConflictException,
        openstack.exceptions.ForbiddenException,
    ) as exc:
        reason = ' '.join(str(exc).split()).removesuffix('.')
        try:
            conn.image.update_image(image_id, name=new_name)
        except openstack.exceptions.HttpException:
            raise errors.CloudError(
                f'Cannot delete the old image ({image_id}): {reason}. Rename '
                f"it with 'openstack image set --name {new_name} {image_id}', "
                'because two images have its name now.'
            ) from exc
        Progress().warn(
            f'the old image {image_id} is named {new_name} now, because '
            f'Glance did not delete it: {reason}'
        )


def _is_managed(conn: Connection, image: Any) -> bool:
    """Return whether hvstack uploaded an image in this project."""
    return bool(
        image.owner_id == conn.current_project_id
        and (image.properties or {}).get(IDENTITY) == image.id
    )


def _check_foreign(conn: Connection, image: Any) -> None:
    """Refuse an image of another owner if it makes the name ambiguous.

    :raises hvstack.errors.InputError: users of the cloud see it.
    """
    is_own_project = image.owner_id == conn.current_project_id
    if is_own_project or image.visibility == 'public':
        raise errors.InputError(
            f"Cannot upload the image '{image.name}': the cloud has another "
            f'image of this name ({image.id}, project {image.owner_id}) that '
            'hvstack did not upload. Rename it, or delete it with '
            "'openstack image delete' if it is not needed."
        )


def _virtual_size(path: Path, output: str) -> int:
    """Return the size of the disk that a guest sees, in bytes."""
    if output == 'lxc':
        return path.stat().st_size
    with path.open('rb') as stream:
        # qcow2's header holds it, big-endian, after 24 bytes.
        return int.from_bytes(stream.read(32)[24:32], 'big')
