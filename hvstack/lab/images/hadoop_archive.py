# SPDX-License-Identifier: Apache-2.0
"""Hadoop and the programs of the guest image without an operating system.

The diskimage-builder element ``hvstack-hadoop`` lays this archive over the
base image of an operator. The same files result in the same archive.
"""

import hashlib
import os
import shutil
import tarfile
from pathlib import Path

from hvstack import errors, paths
from hvstack.lab import packages
from hvstack.lab.images import (
    builder,
    class_data_sharing,
    hadoop,
    recipes,
    rootfs,
    store,
)
from hvstack.progress import Progress

#: Directory in the archive that describes it, and contains what the element
#: needs for the class data.
DATA = 'usr/share/hvstack/image'
#: Digests of the files that stay in an image, as sha256sum reads them.
DIGESTS = f'{DATA}/SHA256SUMS'
#: Files of the overlay that belong to hvstack's own init. An image with
#: systemd has its own sshd.
INIT_FILES = (
    'usr/lib/hvstack/sshd',
    'etc/ssh/sshd_config.d/hvstack.conf',
)


def export(
    target: Path,
    progress: Progress | None = None,
    *,
    tarball: Path | None = None,
    maven: bool = False,
) -> str:
    """Write the archive, and its SHA-256 into a file next to it.

    :param target: path of the archive; the other file has the additional
        suffix ``.sha256``.
    :param progress: receiver of messages about the steps; None means
        standard error.
    :param tarball: Hadoop release that replaces the jars of Maven Central,
        also in later builds.
    :param maven: use the jars of Maven Central again.
    :returns: the SHA-256 of the archive.
    :raises hvstack.errors.InputError: the release or the path cannot be used.
    :raises hvstack.errors.MissingPrerequisiteError: a jar differs from that
        whose SHA-256 hvstack has, or Maven cannot be installed.
    :raises hvstack.errors.CommandError: a download failed.
    """
    recipe = recipes.recipe('hadoop')
    builder.choose_release(tarball, maven)
    release, _ = store.chosen_tarball()
    report = (progress or Progress()).say
    with store.building() as work_dir:
        builder.check_room(recipe.name)
        tree = work_dir / 'root'
        tree.mkdir()
        report(f'Hadoop from {release or "Maven Central"}')
        if release is None:
            if not hadoop.has_maven_jars() and not shutil.which('mvn'):
                if os.geteuid() != 0:
                    raise errors.MissingPrerequisiteError(
                        'Cannot export the files of Hadoop: Maven is not '
                        'installed, and only root can install it. Install '
                        'the package maven, run the command with sudo, or '
                        'use --hadoop-tarball.'
                    )
                packages.install(builder.MAVEN)
            hadoop.check_jars(hadoop.maven_jars())
        version = hadoop.install(tree, release)
        class_data_sharing.write_jar(tree)
        _add_programs(tree, recipe)
        _describe(tree, version, has_list=release is None)
        archive = work_dir / 'files.tar'
        _pack(tree, archive)
        digest = hadoop.sha256(archive)
        try:
            shutil.copyfile(archive, target)
            paths.write_whole(
                target.with_name(f'{target.name}.sha256'),
                f'{digest}  {target.name}\n',
            )
        except OSError as exc:
            raise errors.InputError(
                f'Cannot write the archive ({target}): {exc.strerror}. Use '
                'another path.'
            ) from exc
    return digest


def _add_programs(tree: Path, recipe: recipes.Recipe) -> None:
    """Add the programs and links of the image that need no init of hvstack."""
    rootfs.overlay(tree, 'hadoop')
    for name in INIT_FILES:
        (tree / name).unlink()
    (tree / 'etc/ssh/sshd_config.d').rmdir()
    for name in recipe.directories:
        (tree / name).mkdir(parents=True, exist_ok=True)
    for name, link_target in recipe.links.items():
        # The element links the JRE, whose directory depends on the base.
        if link_target.startswith('/usr/lib/hvstack/'):
            link = tree / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(link_target)


def _describe(tree: Path, version: str, *, has_list: bool) -> None:
    """Add the digests, and what the element needs for the class data."""
    lines = []
    for path in _list_paths(tree):
        if path.is_file() and not path.is_symlink():
            with path.open('rb') as stream:
                digest = hashlib.file_digest(stream, 'sha256').hexdigest()
            lines.append(f'{digest}  {path.relative_to(tree)}\n')
    data = tree / DATA
    data.mkdir(parents=True)
    (tree / DIGESTS).write_text(''.join(lines), encoding='utf-8')
    (data / 'hadoop-version').write_text(f'{version}\n', encoding='utf-8')
    shutil.copyfile(recipes.DUMP_ARCHIVE, data / 'dump_archive.sh')
    if has_list:
        shutil.copyfile(recipes.CLASSES, data / 'classes')
    else:
        shutil.copyfile(recipes.FIRST_RUN, data / 'first_run.sh')


def _list_paths(tree: Path) -> list[Path]:
    """Return the files, links and empty directories of a tree.

    Other directories are left out: they exist in the base image, with modes
    of their own.
    """
    return sorted(
        path
        for path in tree.rglob('*')
        if path.is_symlink() or not path.is_dir() or not any(path.iterdir())
    )


def _pack(tree: Path, target: Path) -> None:
    """Write a tree as an archive that does not depend on user and time."""

    def normalize(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = 'root'
        member.mtime = 0
        executable = member.isdir() or member.mode & 0o100
        member.mode = 0o755 if executable else 0o644
        return member

    with tarfile.open(target, 'w') as archive:
        for path in _list_paths(tree):
            archive.add(
                path,
                str(path.relative_to(tree)),
                recursive=False,
                filter=normalize,
            )
