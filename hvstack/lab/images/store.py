# SPDX-License-Identifier: Apache-2.0
"""Built guest images on this machine: a directory with a manifest each."""

import contextlib
import dataclasses
import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hvstack import errors, jsonfile, paths, textfile
from hvstack.lab.images import recipes
from hvstack.model.strict_mapping import Fields, to_dataclass

#: Outputs an image may have: a tar of the root file system; a raw ext4 file
#: system for lxc guests and bare metal; a bootable disk for kvm and qemu.
OUTPUTS = {
    'rootfs': 'rootfs.tar',
    'lxc': 'root.ext4',
    'qemu': 'machine.qcow2',
}
#: Outputs of earlier versions, which are built again. The digest is that of
#: the root file system, which all outputs have, and does not cover the
#: drivers of the disk: the former disk has no driver for the config drive.
_FORMER_OUTPUTS = {('qemu', 'disk.qcow2')}
#: How many images of one name are kept: the newest, and the one before.
KEPT = 2


@dataclass(frozen=True)
class Image:
    """A guest image that is ready for use.

    :param name: the recipe's.
    :param digest: of the recipe; the same digest is the same content.
    :param outputs: files by kind, see :data:`OUTPUTS`.
    :param versions: ``debian``, ``java``, ``hadoop``, ``kernel``; what the
        image has of them.
    :param seconds: what building it took.
    """

    name: str
    digest: str
    outputs: dict[str, Path]
    versions: dict[str, str]
    seconds: float = 0.0

    @property
    def directory(self) -> Path:
        """Where the image is."""
        return directory(self.name, self.digest)


@dataclass(frozen=True)
class _Manifest:
    """Content of a manifest.

    :param outputs: names of files by kind.
    """

    name: str
    digest: str
    outputs: dict[str, str]
    versions: dict[str, str]
    build_seconds: float


_MANIFEST_KEYS = {item.name for item in dataclasses.fields(_Manifest)}


def root() -> Path:
    """Return the directory of all images."""
    return paths.CACHE / 'images'


def directory(name: str, digest: str) -> Path:
    """Return the directory of one image."""
    return root() / f'{name}-{digest}'


def save(image: Image, target: Path) -> None:
    """Write an image's manifest.

    :param target: the directory that holds its files now.
    """
    data = {
        'name': image.name,
        'digest': image.digest,
        'outputs': {
            output: path.name for output, path in image.outputs.items()
        },
        'versions': image.versions,
        'build_seconds': round(image.seconds, 1),
    }
    paths.write_whole(
        target / 'manifest.json', json.dumps(data, indent=1) + '\n'
    )


def load(image_dir: Path) -> Image | None:
    """Return the image in a directory; none if it is not whole."""
    data = jsonfile.load_if_whole(image_dir / 'manifest.json')
    try:
        manifest = to_dataclass(
            _Manifest,
            {key: data[key] for key in _MANIFEST_KEYS & set(data)},
            str(image_dir),
        )
    except errors.InputError:
        return None
    names = {
        output: name
        for output, name in manifest.outputs.items()
        if (output, name) not in _FORMER_OUTPUTS
    }
    # Its name and digest make the directory that is deleted later.
    is_own = image_dir.name == f'{manifest.name}-{manifest.digest}' and all(
        OUTPUTS.get(output) == name for output, name in names.items()
    )
    if not is_own:
        return None
    image = Image(
        manifest.name,
        manifest.digest,
        {output: image_dir / name for output, name in names.items()},
        manifest.versions,
        manifest.build_seconds,
    )
    whole = all(path.is_file() for path in image.outputs.values())
    return image if whole else None


def find(name: str) -> Image | None:
    """Return the image that today's recipe asks for, if it is built.

    :raises hvstack.errors.InputError: no recipe has that name.
    """
    recipe = recipes.recipe(name)
    tarball = chosen_tarball()[1] if recipe.hadoop else ''
    return load(directory(name, recipes.digest(recipe, tarball)))


def built() -> list[Image]:
    """Return every image on this machine, newest first."""
    manifests = sorted(
        root().glob('*/manifest.json'),
        key=lambda path: path.stat().st_mtime,
        reverse=True,
    )
    images = [load(path.parent) for path in manifests]
    return [image for image in images if image]


def prune(name: str) -> None:
    """Remove images of one name but for the newest :data:`KEPT`."""
    same = [image for image in built() if image.name == name]
    for image in same[KEPT:]:
        shutil.rmtree(image.directory, ignore_errors=True)


def choose_tarball(path: Path | None, sha256: str = '') -> None:
    """Remember which Hadoop release the user wants in the image.

    :param path: its tarball; none for Maven Central's jars.
    """
    choice_path = root() / 'hadoop-tarball.json'
    if path is None:
        choice_path.unlink(missing_ok=True)
        return
    paths.write_whole(
        choice_path, json.dumps({'path': str(path), 'sha256': sha256}) + '\n'
    )


def chosen_tarball() -> tuple[Path | None, str]:
    """Return path and SHA-256 of the chosen release, or none and ''.

    :raises hvstack.errors.InputError: the file with the choice is damaged.
    """
    path = root() / 'hadoop-tarball.json'
    try:
        document = jsonfile.load(path)
        fields = Fields(
            document.data, document.source_location(), ('path', 'sha256')
        )
        tarball = Path(fields.text('path'))
        digest = fields.text('sha256')
        if not tarball.is_absolute():
            raise fields.error('path', 'is not an absolute path. Correct it')
        if not re.fullmatch('[0-9a-f]{64}', digest):
            raise fields.error('sha256', 'is not a SHA-256 digest')
    except textfile.MissingFileError:
        return None, ''
    except errors.InputError as exc:
        reason = str(exc).removesuffix('.')
        raise errors.InputError(
            f'Cannot read the chosen Hadoop release: {reason}. Choose it '
            f'again with --hadoop-tarball, or delete {path}.'
        ) from exc
    return tarball, digest


@contextlib.contextmanager
def building(timeout_seconds: float = 900) -> Iterator[Path]:
    """Hold the right to build, and give a directory to build in.

    What an interrupted build left is removed first.

    :param timeout_seconds: seconds to wait for another build to end.
    :raises hvstack.errors.BusyError: it did not end.
    """
    paths.make_directory(root())
    with paths.open_lock(root() / '.lock') as lock:
        deadline = time.monotonic() + timeout_seconds
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise errors.BusyError(
                        'Cannot build the image: another hvstack process has '
                        'been building guest images for '
                        f'{timeout_seconds:.0f} s. Wait until it ends.'
                    ) from None
                time.sleep(1)
        for build_dir in root().glob('.build-*'):
            shutil.rmtree(build_dir, ignore_errors=True)
        work_dir = root() / f'.build-{os.getpid()}'
        try:
            # On bare metal, Hadoop's user reads what root has unpacked.
            with paths.shared_umask():
                work_dir.mkdir()
                yield work_dir
        finally:
            shutil.rmtree(work_dir, ignore_errors=True)
