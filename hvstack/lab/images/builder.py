# SPDX-License-Identifier: Apache-2.0
"""Building a guest image: cached, in one piece or not at all."""

import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from hvstack import errors
from hvstack.lab import packages
from hvstack.lab.images import (
    class_data_sharing,
    disk_images,
    hadoop,
    kernel,
    recipes,
    rootfs,
    store,
)
from hvstack.progress import Progress

#: Programs that building takes, by the Debian package that has them.
TOOLS = ('mmdebstrap', 'debian-archive-keyring', 'e2fsprogs', 'busybox-static')
#: Additional programs that one part of the images needs.
MAVEN = ('maven', 'default-jre-headless')
QEMU = ('qemu-utils',)
#: All that building any image may install.
PACKAGES = (*TOOLS, *MAVEN, *QEMU)
#: Room that a build takes at most, in MiB, with its caches.
ROOM_MIB = {'hadoop': 4096, 'hadoop-hardware': 6144, 'tiny': 512}
#: Outputs that are made unless others are asked for.
DEFAULT_OUTPUTS = ('rootfs', 'lxc')


def build(
    name: str,
    progress: Progress | None = None,
    *,
    outputs: Sequence[str] = DEFAULT_OUTPUTS,
    tarball: Path | None = None,
    maven: bool = False,
    force: bool = False,
) -> store.Image:
    """Return a guest image, built if it is missing or out of date.

    :param name: a name of :data:`hvstack.lab.images.recipes.RECIPES`.
    :param progress: where to tell what is done.
    :param outputs: kinds of :data:`hvstack.lab.images.store.OUTPUTS`.
    :param tarball: a Hadoop release to take instead of Maven Central's jars,
        also for later builds.
    :param maven: go back to Maven Central's jars.
    :param force: build also if the image is there.
    :raises hvstack.errors.InputError: no such image or output, no release.
    :raises hvstack.errors.MissingPrerequisiteError: no root rights, no room.
    :raises hvstack.errors.CommandError: a download or a step failed.
    """
    recipe = recipes.recipe(name)
    for output in outputs:
        if output not in store.OUTPUTS:
            raise errors.InputError(
                f"Cannot build output '{output}': it does not exist. Choose "
                f'one of {", ".join(store.OUTPUTS)}.'
            )
    if recipe.hadoop:
        choose_release(tarball, maven)
    elif tarball:
        raise errors.InputError(
            f"Cannot use --hadoop-tarball: image '{name}' does not contain "
            'Hadoop. Omit the option.'
        )
    ready = store.find(name)
    if ready and not force and set(outputs) <= set(ready.outputs):
        return ready
    if os.geteuid() != 0:
        raise errors.MissingPrerequisiteError(
            f"Cannot build image '{name}': this needs root. Run the command "
            'with sudo.'
        )
    report = (progress or Progress()).say
    with store.building() as work_dir:
        # Another process may have built it while this one waited.
        ready = store.find(name)
        if ready and not force and set(outputs) <= set(ready.outputs):
            return ready
        check_room(name)
        _install_tools(recipe, outputs)
        begin = time.monotonic()
        # What the image had stays, and a tar of the tree is always made.
        kinds = {'rootfs', *outputs, *(ready.outputs if ready else ())}
        image = _build(recipe, kinds, work_dir, report)
        report(
            f'image {name} {image.digest}: '
            f'{", ".join(sorted(image.outputs))} after '
            f'{time.monotonic() - begin:.0f} s'
        )
    store.prune(name)
    return image


def check_room(name: str) -> None:
    """Refuse where the images' file system has too little room.

    :raises hvstack.errors.MissingPrerequisiteError: it has.
    """
    free = shutil.disk_usage(store.root()).free // disk_images.MIB
    if free < ROOM_MIB[name]:
        raise errors.MissingPrerequisiteError(
            f"Cannot build image '{name}' ({store.root()}): {free} MiB are "
            f'free, and it needs {ROOM_MIB[name]} MiB. Free disk space there.'
        )


def choose_release(tarball: Path | None, maven: bool) -> None:
    """Remember the source of Hadoop for this build and later builds.

    :param tarball: Hadoop release; None keeps the current source.
    :param maven: use the jars of Maven Central again.
    :raises hvstack.errors.InputError: both sources are named, or the release
        cannot be read.
    """
    if tarball and maven:
        raise errors.InputError(
            'Cannot use both --hadoop-tarball and --maven: each names the '
            'source of Hadoop. Use one of the options.'
        )
    if tarball:
        path = tarball.resolve()
        store.choose_tarball(path, hadoop.sha256(path))
    elif maven:
        store.choose_tarball(None)


def _install_tools(recipe: recipes.Recipe, outputs: Sequence[str]) -> None:
    package_names = [*TOOLS]
    if recipe.hadoop and not store.chosen_tarball()[0]:
        package_names += MAVEN
    if 'qemu' in outputs:
        package_names += QEMU
    packages.install(package_names)


def _build(
    recipe: recipes.Recipe,
    kinds: Collection[str],
    work_dir: Path,
    report: Callable[[str], None],
) -> store.Image:
    tarball, sha256 = store.chosen_tarball() if recipe.hadoop else (None, '')
    if tarball and hadoop.sha256(tarball) != sha256:
        # The digest of the image would be that of the former content.
        raise errors.InputError(
            f"Cannot build image '{recipe.name}' ({tarball}): the Hadoop "
            'release has changed since it was chosen. Choose it again with '
            '--hadoop-tarball.'
        )
    digest = recipes.digest(recipe, sha256)
    begin = time.monotonic()
    tree = work_dir / 'root'
    new = work_dir / 'image'
    new.mkdir()
    report(f"image {recipe.name}: Debian {recipes.SUITE}'s packages")
    rootfs.unpack(rootfs.base(recipe.base, work_dir), tree)
    rootfs.merge_usr(tree)
    versions = {'debian': recipes.SUITE, **_java(tree)}
    if recipe.hadoop:
        report(
            f'image {recipe.name}: Hadoop from {tarball or "Maven Central"}'
        )
        versions['hadoop'] = hadoop.install(tree, tarball)
    identity = {'name': recipe.name, 'digest': digest, **versions}
    rootfs.finish(tree, recipe, identity)
    if recipe.hadoop:
        report(f'image {recipe.name}: class data')
        class_data_sharing.make(tree, has_list=tarball is None)
    output_paths: dict[str, Path] = {}
    sizes = {'slack_mib': recipe.slack_mib, 'journal_mib': recipe.journal_mib}
    # The last one adds a kernel to the tree.
    for output in ('rootfs', 'lxc', 'qemu'):
        if output not in kinds:
            continue
        report(f'image {recipe.name}: {output}')
        output_paths[output] = new / store.OUTPUTS[output]
        if output == 'rootfs':
            rootfs.pack(tree, output_paths[output])
        elif output == 'lxc':
            disk_images.make_ext4(
                tree,
                output_paths[output],
                size_mib=disk_images.file_system_mib(tree, **sizes),
                journal_mib=recipe.journal_mib,
            )
        else:
            with kernel.unpacked(work_dir, recipe.kernel) as boot:
                versions['kernel'] = boot.version
                disk_images.make_qcow2(
                    tree,
                    output_paths[output],
                    boot,
                    work_dir=work_dir,
                    **sizes,
                )
    seconds = time.monotonic() - begin
    image = store.Image(recipe.name, digest, output_paths, versions, seconds)
    store.save(image, new)
    target = image.directory
    shutil.rmtree(target, ignore_errors=True)
    new.replace(target)
    whole = store.load(target)
    assert whole
    return whole


def _java(tree: Path) -> dict[str, str]:
    """Return the JRE's version in a tree, if it has one."""
    for path in tree.glob('usr/lib/jvm/*/release'):
        match = re.search(
            r'^JAVA_VERSION="([^"]+)"', path.read_text(encoding='utf-8'), re.M
        )
        if match:
            return {'java': match[1]}
    return {}
