# SPDX-License-Identifier: Apache-2.0
"""What goes into each guest image, as data, and the digest that names it."""

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

from hvstack import errors

#: Files that are laid over the packages, one directory per overlay.
FILES = Path(__file__).with_name('files')
#: Hadoop's dependencies from Maven Central.
POM = Path(__file__).with_name('pom.xml')
#: Programs for the class data sharing archive: Hadoop's first run in the tree,
#: which lists the classes, and the creation of the archive.
FIRST_RUN = Path(__file__).with_name('first_run.sh')
DUMP_ARCHIVE = Path(__file__).with_name('dump_archive.sh')
#: Classes that a first run with the jars of Maven Central loads.
CLASSES = Path(__file__).with_name('classes.txt')
#: Debian's release inside the images.
SUITE = 'bookworm'
#: Raised when code that builds changes what comes out of the same recipe.
FORMAT = 1


@dataclass(frozen=True)
class Base:
    """A tree of Debian packages, cached apart from what is laid over it.

    :param variant: mmdebstrap's: ``minbase`` installs, ``extract`` only
        unpacks.
    :param packages: what to include; dependencies follow, recommended
        packages do not.
    """

    variant: str
    packages: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Short digest of everything that decides what is in the tree."""
        return _sha256(
            json.dumps([FORMAT, SUITE, dataclasses.astuple(self)]).encode()
        )


#: Kernel and boot loader of virtual machines. Debian's cloud kernel has
#: drivers for virtual hardware only.
KERNEL = Base(
    'extract', ('linux-image-cloud-amd64', 'grub-pc-bin', 'busybox-static')
)
#: Kernel and boot loader of physical machines, which virtual machines start,
#: too. Of Debian's firmware, only that of the component main is included:
#: non-free-firmware has other licenses. The packages are installed, because
#: the programs of initramfs-tools write the initial RAM disk.
HARDWARE_KERNEL = Base(
    'minbase',
    (
        'linux-image-amd64',
        'firmware-linux-free',
        'initramfs-tools',
        'zstd',
        'grub-pc-bin',
        'busybox-static',
    ),
)
#: Kernels of the disk of an image: for virtual machines, or for all machines.
KERNELS = ('cloud', 'hardware')


@dataclass(frozen=True)
class Recipe:
    """One guest image.

    :param name: ``hadoop``, ``hadoop-hardware`` or ``tiny``.
    :param base: its packages.
    :param overlays: directories below :data:`FILES`, later ones win.
    :param links: symbolic links to make: path in the image -> target.
    :param directories: empty directories to make.
    :param hadoop: whether Hadoop's jars go in.
    :param slack_mib: room in the file system beside its content; Nova grows
        it to the flavor's disk.
    :param journal_mib: journal of the file system, which does not grow.
    :param kernel: kernel and boot loader of the disk.
    """

    name: str
    base: Base
    overlays: tuple[str, ...]
    links: dict[str, str] = field(default_factory=dict)
    directories: tuple[str, ...] = ()
    hadoop: bool = False
    slack_mib: int = 64
    journal_mib: int = 4
    kernel: Base = KERNEL


_HADOOP = Recipe(
    name='hadoop',
    base=Base(
        'minbase',
        (
            'openjdk-17-jre-headless',
            'openssh-server',
            'sysstat',
            'busybox-static',
            'iproute2',
            'ethtool',
            'fdisk',
            'xfsprogs',
            # Heat's signals are PUT requests, and often to https.
            'curl',
            'ca-certificates',
            # TPC's kit adds its times up with it.
            'bc',
            # 'hvstack cluster burn-in' measures nodes with these.
            'fio',
            'iperf3',
            'numactl',
            'stress-ng',
        ),
    ),
    overlays=('common', 'hadoop'),
    links={
        'usr/lib/jvm/java': 'java-17-openjdk-amd64',
        'usr/bin/java': '/usr/lib/jvm/java/bin/java',
        **{
            f'usr/bin/{name}': '/usr/lib/hvstack/client'
            for name in ('hadoop', 'hdfs', 'yarn', 'mapred')
        },
    },
    directories=('etc/hadoop', 'etc/hvstack', 'srv/hdfs', 'srv/yarn'),
    hadoop=True,
    slack_mib=192,
    journal_mib=32,
)

RECIPES = {
    recipe.name: recipe
    for recipe in (
        _HADOOP,
        dataclasses.replace(
            _HADOOP,
            name='hadoop-hardware',
            overlays=(*_HADOOP.overlays, 'hardware'),
            kernel=HARDWARE_KERNEL,
        ),
        Recipe(
            name='tiny',
            base=Base('extract', ('busybox-static', 'dropbear-bin')),
            overlays=('common', 'tiny'),
            directories=('etc/hvstack', 'etc/dropbear', 'root'),
            slack_mib=16,
        ),
    )
}


def image_name(name: str, kernel: str) -> str:
    """Return the name of the image with a kernel.

    :param name: an image of virtual machines.
    :param kernel: one of :data:`KERNELS`.
    :raises hvstack.errors.InputError: the image has no such kernel.
    """
    if kernel == KERNELS[0]:
        return name
    full_name = f'{name}-{kernel}'
    if full_name not in RECIPES:
        raise errors.InputError(
            f"Cannot build image '{name}' with --kernel {kernel}: only the "
            "image 'hadoop' exists for physical machines. Omit the option."
        )
    return full_name


def recipe(name: str) -> Recipe:
    """Return the recipe of that name.

    :raises hvstack.errors.InputError: the image does not exist.
    """
    try:
        return RECIPES[name]
    except KeyError:
        raise errors.InputError(
            f"Cannot find guest image '{name}': it does not exist. Choose "
            f'one of {", ".join(sorted(RECIPES))}.'
        ) from None


def digest(recipe: Recipe, tarball: str = '') -> str:
    """Return the digest that names an image built from this recipe.

    :param tarball: SHA-256 of the Hadoop release that is taken instead of
        Maven Central's jars; empty for the latter.
    """
    content = dataclasses.asdict(recipe)
    del content['kernel']
    parts = [
        json.dumps([FORMAT, SUITE, content]).encode(),
        dataclasses.astuple(recipe.kernel).__repr__().encode(),
    ]
    overlays = [*recipe.overlays, 'initramfs']
    if recipe.hadoop and not tarball:
        overlays.append('webapps')
    for overlay in overlays:
        for path in overlay_files(overlay):
            parts += [str(path.relative_to(FILES)).encode()]
            parts += [path.read_bytes()]
    if recipe.hadoop:
        parts.append(tarball.encode() or POM.read_bytes())
        parts.append(DUMP_ARCHIVE.read_bytes())
        parts.append((FIRST_RUN if tarball else CLASSES).read_bytes())
    return _sha256(*parts)


def overlay_files(overlay: str) -> list[Path]:
    """Return the files of one overlay, in a stable order."""
    return sorted(
        path
        for path in (FILES / overlay).rglob('*')
        if path.is_file() and '__pycache__' not in path.parts
    )


def _sha256(*parts: bytes) -> str:
    total = hashlib.sha256()
    for part in parts:
        # The length keeps two parts from being taken for one.
        total.update(len(part).to_bytes(8, 'big') + part)
    return total.hexdigest()[:12]
