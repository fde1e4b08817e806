# SPDX-License-Identifier: Apache-2.0
"""Root file systems: Debian's packages, and what is laid over them."""

import contextlib
import fcntl
import json
import os
import shutil
from pathlib import Path

from hvstack import paths, processutils
from hvstack.lab.images import recipes, store

#: What a guest never reads, and what must be its own.
REMOVED = (
    'usr/share/doc',
    'usr/share/man',
    'usr/share/info',
    'usr/share/locale',
    'usr/share/lintian',
    'usr/lib/x86_64-linux-gnu/gconv',
    'var/lib/apt/lists',
    'var/cache/apt',
    'var/cache/debconf',
    'etc/ssh/ssh_host_*',
    'etc/resolv.conf',
    'etc/machine-id',
    # Of the programs of xfsprogs only xfs_scrub and xfs_scrub_all need these,
    # and of fio those that draw. fio itself needs libicuuc and libicudata
    # (through libnbd and libxml2).
    'usr/bin/python3*',
    'usr/lib/python3*',
    'usr/lib/x86_64-linux-gnu/libicui18n*',
    'usr/lib/x86_64-linux-gnu/libicuio*',
    'usr/lib/x86_64-linux-gnu/libicut*',
    'usr/sbin/xfs_scrub*',
)


def base(base_recipe: recipes.Base, work_dir: Path) -> Path:
    """Return a tar of a base's packages, made once and kept.

    :param work_dir: a directory to work in; /tmp may be too small.
    :raises hvstack.errors.CommandError: the packages cannot be had.
    """
    target = store.root() / 'bases' / f'{base_recipe.digest}.tar'
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f'.{target.name}')
    for other in set(target.parent.glob('.*.tar')) - {partial}:
        _remove_if_stale(other)
    # Two processes may need the same packages at the same time.
    with paths.open_lock(partial) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            _make_base(base_recipe, partial, work_dir)
            partial.replace(target)
    return target


def _remove_if_stale(partial: Path) -> None:
    """Delete the tar that a process did not finish, if none makes it now."""
    with (
        contextlib.suppress(BlockingIOError),
        paths.open_lock(partial) as lock,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        partial.unlink(missing_ok=True)


def _make_base(
    base_recipe: recipes.Base, partial: Path, work_dir: Path
) -> None:
    argv = [
        'mmdebstrap',
        '--quiet',
        f'--variant={base_recipe.variant}',
        f'--include={",".join(base_recipe.packages)}',
        # The update-alternatives of the JRE fails without the directory of
        # the man pages, which are excluded below.
        '--setup-hook=mkdir -p "$1/usr/share/man/man1"',
        *(
            f'--dpkgopt=path-exclude=/usr/share/{name}/*'
            for name in ('man', 'doc', 'locale', 'info')
        ),
        '--aptopt=APT::Install-Recommends "false"',
        '--aptopt=Acquire::Retries "3"',
        recipes.SUITE,
        str(partial),
    ]
    processutils.retried(
        lambda: processutils.run(
            argv, timeout=900, env={'TMPDIR': str(work_dir)}
        )
    )


def unpack(tar: Path, target: Path) -> None:
    """Unpack a base; owners and modes are kept."""
    target.mkdir(parents=True, exist_ok=True)
    processutils.run(
        ['tar', '-x', '--numeric-owner', '-p', '-f', tar, '-C', target]
    )


def merge_usr(root: Path) -> None:
    """Make /bin, /sbin, /lib and /lib64 links into /usr, as installs have.

    A tree that was only unpacked has them as directories of their own.
    """
    for name in ('bin', 'sbin', 'lib', 'lib64'):
        old, new = root / name, root / 'usr' / name
        new.mkdir(parents=True, exist_ok=True)
        if old.is_symlink():
            continue
        if old.is_dir():
            shutil.copytree(old, new, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(old)
        old.symlink_to(f'usr/{name}')


def trim(root: Path) -> None:
    """Remove what a guest never reads, and what must be its own."""
    for pattern in REMOVED:
        for path in root.glob(pattern):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


def overlay(root: Path, name: str) -> None:
    """Lay one overlay's files over a tree.

    What begins with ``#!`` can be run, whatever mode a checkout gave it.
    """
    source = recipes.FILES / name
    for path in recipes.overlay_files(name):
        target = root / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        content = path.read_bytes()
        target.unlink(missing_ok=True)
        target.write_bytes(content)
        target.chmod(0o755 if content.startswith(b'#!') else 0o644)
        # Without root rights, an archive gets the owner when it is packed.
        if os.geteuid() == 0:
            os.chown(target, 0, 0)


def finish(root: Path, recipe: recipes.Recipe, identity: object) -> None:
    """Lay a recipe's own files over its packages.

    :param identity: description of the image, as JSON, in
        ``/etc/hvstack/image.json``.
    """
    merge_usr(root)
    trim(root)
    for name in recipe.overlays:
        overlay(root, name)
    for directory in ('proc', 'sys', 'dev', 'run', 'tmp', *recipe.directories):
        (root / directory).mkdir(parents=True, exist_ok=True)
    for directory in ('var/lib/hvstack', 'var/log'):
        (root / directory).mkdir(parents=True, exist_ok=True)
    (root / 'tmp').chmod(0o1777)
    (root / 'root').chmod(0o700)
    for path, target in recipe.links.items():
        link = root / path
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    _busybox(root)
    (root / 'etc/hostname').write_text('hvstack\n', encoding='utf-8')
    (root / 'etc/resolv.conf').write_text('', encoding='utf-8')
    (root / 'etc/fstab').write_text('', encoding='utf-8')
    (root / 'etc/hvstack/image.json').write_text(
        json.dumps(identity) + '\n', encoding='utf-8'
    )


def _busybox(root: Path) -> None:
    """Link busybox' programs where the packages bring none of that name."""
    program = root / 'usr/bin/busybox'
    for line in processutils.run([program, '--list']).stdout.split():
        candidates = [
            root / directory / line
            for directory in ('usr/bin', 'usr/sbin', 'usr/local/sbin')
        ]
        # lexists: a link whose target is absolute dangles out here.
        if not any(os.path.lexists(candidate) for candidate in candidates):
            candidates[0].symlink_to('busybox')


def pack(root: Path, target: Path) -> None:
    """Write a tree as a tar, device nodes of /dev left out."""
    processutils.run(
        [
            *('tar', '-c', '--numeric-owner', '--sort=name'),
            *('--exclude=./dev/*', '-f', target, '-C', root, '.'),
        ]
    )
