# SPDX-License-Identifier: Apache-2.0
"""``hvstack image``: guest images with Hadoop, and a tiny one."""

import argparse
from collections.abc import Sequence

from cliff.command import Command
from cliff.lister import Lister
from openstack.connection import Connection

from hvstack import errors, share
from hvstack.cli import arguments
from hvstack.cli.options import add_cloud
from hvstack.cli.tables import Table
from hvstack.cloud import connection
from hvstack.lab import clouds_yaml, hosts, images, settings
from hvstack.lab.images import glance, recipes
from hvstack.lab.settings import LabSettings
from hvstack.progress import Progress

#: Output that is built by default for each kernel.
_KERNEL_OUTPUTS = {'cloud': 'lxc', 'hardware': 'qemu'}


class Build(Command):
    """Build guest images that are missing or out of date."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'name',
            nargs='?',
            choices=('hadoop', 'tiny'),
            help='Image to build (default: all).',
        )
        parser.add_argument(
            '--output',
            action='append',
            choices=sorted(images.OUTPUTS),
            help='Format: lxc (also for bare metal), qemu (also for '
            'kvm) or rootfs (a tar file). Can be repeated '
            '(default: lxc).',
        )
        _add_kernel(parser)
        _add_release(parser)
        parser.add_argument(
            '--force',
            action='store_true',
            help='Also build images that already exist.',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Build, and print where the files are."""
        kernel = parsed_args.kernel
        outputs = parsed_args.output or [_KERNEL_OUTPUTS[kernel]]
        _check_output(kernel, outputs)
        only_hadoop = bool(
            parsed_args.hadoop_tarball
            or parsed_args.maven
            or kernel == 'hardware'
        )
        every = ['hadoop'] if only_hadoop else ['hadoop', 'tiny']
        for name in [parsed_args.name] if parsed_args.name else every:
            image = images.build(
                recipes.image_name(name, kernel),
                Progress(),
                outputs=outputs,
                tarball=parsed_args.hadoop_tarball,
                maven=parsed_args.maven,
                force=parsed_args.force,
            )
            for path in image.outputs.values():
                print(path, file=self.app.stdout)
        return 0


def _add_kernel(parser: argparse.ArgumentParser) -> None:
    """Add the option for the kernel of the disk."""
    parser.add_argument(
        '--kernel',
        choices=recipes.KERNELS,
        default=recipes.KERNELS[0],
        help='Kernel of the output qemu: cloud has drivers for virtual '
        'machines only, hardware also for physical machines, such as '
        'Ironic nodes (default: cloud).',
    )


def _check_output(kernel: str, outputs: Sequence[str]) -> None:
    """Refuse formats that have no kernel.

    :param kernel: one of :data:`hvstack.lab.images.recipes.KERNELS`.
    :raises hvstack.errors.InputError: a kernel was chosen for them.
    """
    if kernel == 'hardware' and set(outputs) != {'qemu'}:
        raise errors.InputError(
            'Cannot use --kernel hardware with this --output: only the '
            'output qemu contains a kernel. Omit --output.'
        )


def _add_release(parser: argparse.ArgumentParser) -> None:
    """Add the options for the source of Hadoop."""
    parser.add_argument(
        '--hadoop-tarball',
        type=arguments.path,
        metavar='PATH',
        help='Hadoop release file to use instead of the jars of '
        'Maven Central, now and in later builds.',
    )
    parser.add_argument(
        '--maven',
        action='store_true',
        help='Use the jars of Maven Central again.',
    )


class Export(Command):
    """Write Hadoop and the programs of the image for another base image.

    The element hvstack-hadoop of diskimage-builder adds the archive to a base
    image. Root rights are required only if Maven is not installed.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'archive',
            type=arguments.path,
            metavar='FILE',
            help='Path of the tar archive. Its SHA-256 is written to '
            'FILE.sha256.',
        )
        _add_release(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Write the archive, and print its SHA-256."""
        digest = images.export(
            parsed_args.archive,
            Progress(),
            tarball=parsed_args.hadoop_tarball,
            maven=parsed_args.maven,
        )
        self.app.stdout.write(f'{digest}\n')


class Elements(Command):
    """Print the path of the elements of diskimage-builder."""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Print the path, for the variable ELEMENTS_PATH."""
        self.app.stdout.write(f'{share.ELEMENTS}\n')


class Upload(Command):
    """Upload the guest image of Hadoop to Glance; build it if necessary."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--output',
            choices=('lxc', 'qemu'),
            help='Format of the image. qemu is also for kvm (default: '
            'the formats of the lab hosts for the lab, qemu for '
            'other clouds).',
        )
        _add_kernel(parser)
        add_cloud(parser)
        parser.add_argument(
            '--visibility',
            choices=glance.VISIBILITIES,
            default='public',
            help='Projects that may use a new image, as in Glance. Only an '
            'administrator may create a public image (default: public).',
        )
        disk = parser.add_argument_group('another image')
        disk.add_argument(
            '--disk',
            type=arguments.path,
            metavar='PATH',
            help='Upload this qcow2 disk, such as one that was built with the '
            'element hvstack-hadoop, instead of the image of hvstack.',
        )
        disk.add_argument(
            '--name',
            help='Name of the image of --disk in Glance.',
        )
        disk.add_argument(
            '--firmware',
            choices=glance.FIRMWARE,
            default='bios',
            help='Firmware that starts the disk (default: bios).',
        )
        disk.add_argument(
            '--os-distro',
            help='Distribution in the disk, as libosinfo spells it '
            f'(default: {glance.METADATA["os_distro"]}).',
        )
        disk.add_argument(
            '--os-version',
            help='Version of the distribution (default: '
            f'{glance.METADATA["os_version"]}).',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Build and upload what is missing; print the image's id."""
        disk_settings = [
            parsed_args.name,
            parsed_args.os_distro,
            parsed_args.os_version,
            parsed_args.firmware != 'bios',
        ]
        if parsed_args.disk is None and any(disk_settings):
            raise errors.InputError(
                'Cannot use --name, --firmware, --os-distro and --os-version: '
                'they describe another disk than that of hvstack. Set --disk '
                'to its path, or omit these options.'
            )
        conn = connection.connect(parsed_args.os_cloud)
        if parsed_args.disk is not None:
            image_id = _upload_disk(conn, parsed_args)
        else:
            image_id = _upload_hadoop(conn, parsed_args)
        self.app.stdout.write(f'{image_id}\n')


def _upload_disk(conn: Connection, args: argparse.Namespace) -> str:
    """Upload the disk that an operator built, and return the image's ID."""
    if not args.name:
        raise errors.InputError(
            'Cannot upload --disk: the image has no name. Set --name, for '
            'example to hvstack-debian, and the option image in hvstack.conf '
            'to the same name.'
        )
    if args.output == 'lxc':
        raise errors.InputError(
            'Cannot upload --disk as output lxc: it is the disk of a virtual '
            'machine. Omit --output.'
        )
    if args.kernel != recipes.KERNELS[0]:
        raise errors.InputError(
            f'Cannot upload --disk with --kernel {args.kernel}: the disk '
            'contains its own kernel. Omit --kernel.'
        )
    properties = glance.describe_disk(
        args.firmware, os_distro=args.os_distro, os_version=args.os_version
    )
    return images.upload(
        conn,
        glance.read_disk(args.disk, properties),
        'qemu',
        title=args.name,
        visibility=args.visibility,
        properties=properties,
    )


def _upload_hadoop(conn: Connection, args: argparse.Namespace) -> str:
    """Upload the image of hvstack, and return its ID."""
    if args.kernel == recipes.KERNELS[0]:
        output = args.output or _output(conn)
        return _upload(conn, output, Progress(), args.visibility)
    output = args.output or _KERNEL_OUTPUTS[args.kernel]
    _check_output(args.kernel, [output])
    name = recipes.image_name('hadoop', args.kernel)
    image = images.build(name, Progress(), outputs=[output])
    return images.upload(conn, image, output, visibility=args.visibility)


def ensure(progress: Progress) -> None:
    """Have Hadoop's image for the lab's hosts built, and in its Glance.

    :raises hvstack.errors.HVStackError: it cannot be.
    """
    conn = connection.connect(clouds_yaml.ADMIN_CLOUD)
    _upload(conn, _output(conn), progress)


def _output(conn: Connection) -> str:
    """Return the kind of image that a cloud's hosts take."""
    if conn.config.name != clouds_yaml.ADMIN_CLOUD:
        return 'qemu'
    return choose_output(settings.load() or LabSettings())


def choose_output(lab_settings: LabSettings) -> str:
    """Return the kind of image that the hosts of a lab take.

    :param lab_settings: settings of the lab.
    """
    backends = {host.backend for host in hosts.planned(lab_settings)}
    return 'lxc' if 'lxc' in backends else 'qemu'


def _upload(
    conn: Connection,
    output: str,
    progress: Progress,
    visibility: str = 'public',
) -> str:
    # Bare metal takes the same content from the lxc output.
    outputs = sorted({'lxc', output})
    image = images.build('hadoop', progress, outputs=outputs)
    return images.upload(conn, image, output, visibility=visibility)


class List(Lister):
    """List the guest images that were built."""

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Return a row per image, newest first."""
        current = [images.find(name) for name in recipes.RECIPES]
        return (
            ('Name', 'Digest', 'Current', 'Outputs', 'Versions', 'MiB'),
            [
                (
                    image.name,
                    image.digest,
                    'yes' if image in current else 'no',
                    ', '.join(sorted(image.outputs)),
                    ', '.join(
                        f'{key} {value}'
                        for key, value in image.versions.items()
                    ),
                    sum(
                        path.stat().st_blocks * 512
                        for path in image.outputs.values()
                    )
                    // 1024**2,
                )
                for image in images.built()
            ],
        )
