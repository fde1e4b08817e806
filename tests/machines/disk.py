# SPDX-License-Identifier: Apache-2.0
"""Build the disk of an emulated machine at native speed.

Everything that depends neither on the kernel nor on PID 1 is put into the
root directory before the machine boots: Debian's packages, hvstack with its
virtual environment, the services' environment and the guest images.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hvstack import errors, processutils
from hvstack.lab import lifecycle
from hvstack.lab.images import builder, store

TOP = Path(__file__).resolve().parents[2]
#: Directory of the clone in the machine.
CLONE = '/root/hvstack'
#: Size of the sparse disk, in GiB.
DISK_GIB = 32
#: Packages of an ordinary server.
SERVER = (
    *('systemd-sysv', 'dbus', 'libpam-systemd', 'udev', 'systemd-timesyncd'),
    *('linux-image-cloud-amd64', 'openssh-server', 'ca-certificates', 'kmod'),
    *('sudo', 'python3', 'python3-venv', 'iproute2', 'git', 'busybox-static'),
    # systemd-machined, which must not take guests out of their lab hosts.
    'systemd-container',
)
_AUTHORITIES = Path('/usr/local/share/ca-certificates')
#: User-mode network of QEMU.
_NETWORK = """[Match]
Name=en*
[Network]
DHCP=yes
"""
#: User-mode network of slirp4netns, which has no DHCP server.
UML_ADDRESS = '10.0.2.100'
_UML_NETWORK = f"""[Match]
Name=vec*
[Network]
Address={UML_ADDRESS}/24
Gateway=10.0.2.2
"""
#: The same address in both networks.
_NAME_SERVER = 'nameserver 10.0.2.3\n'
_CHROOT = """
set -e
cd "$0"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --rbind /dev dev
mount -t tmpfs tmpfs run
if [ "$1" = alone ]; then
    mount --rbind /sys/fs/cgroup sys/fs/cgroup
    ip link set lo up
fi
shift
exec chroot . "$@"
"""
#: Run with the clone's interpreter in the machine's root directory.
_SOFTWARE = """
import sys
from hvstack.lab import packages, venv
packages.install(packages.needed(ceph=False, lvm='lvm' in sys.argv))
venv.ensure()
"""
#: Creates the databases, the accounts and the networks of a lab with local
#: volumes. Hosts and volume groups need the kernel of the machine.
_CONTROL_PLANE = """
from hvstack.lab import hosts, kernel_modules, lifecycle, lvm
from hvstack.lab.settings import LabSettings
from hvstack.progress import Progress
kernel_modules.check = hosts.up = lambda *args: None
lvm.plan = lvm.plan_types = lambda *args: []
progress = Progress()
settings = LabSettings(hosts=2, compute='kvm', lvm=True)
try:
    lifecycle.up(lambda before: settings, progress)
finally:
    lifecycle.down(progress)
"""
#: Heat asks Nova and Cinder for each unfinished resource every second, which
#: takes the engine more than a second in an emulated machine: it would do
#: nothing else.
_HEAT_SLEEP = 'time.sleep(wait_time)', 'time.sleep(15 * wait_time)'


class Disk:
    """The root directory and the disk of one machine.

    :param work_dir: directory for all files of the machine.
    :param suite: Debian release by code name.
    :param has_lvm: whether its lab has local volumes.
    """

    def __init__(
        self, work_dir: Path, suite: str, has_lvm: bool = False
    ) -> None:
        self.has_lvm = has_lvm
        self.work_dir = work_dir
        self.suite = suite
        self.root = work_dir / 'root'
        self.image = work_dir / 'disk.raw'
        self.ssh_key = work_dir / 'id_ed25519'

    def build_system(self) -> None:
        """Install Debian into the root directory and configure it."""
        shutil.rmtree(self.root, ignore_errors=True)
        self.work_dir.mkdir(parents=True, exist_ok=True)
        processutils.run(
            [
                *('unshare', '-m', 'mmdebstrap', '--quiet', '--mode=root'),
                *('--variant=important', '--format=directory'),
                f'--include={",".join(SERVER)}',
                *(self.suite, self.root),
            ],
            timeout=1800,
        )
        if not self.ssh_key.exists():
            processutils.run(
                [
                    *('ssh-keygen', '-q', '-t', 'ed25519', '-N', ''),
                    *('-f', self.ssh_key),
                ]
            )
        public_key = self.ssh_key.with_suffix('.pub').read_text()
        for path, text in {
            'etc/hostname': f'{self.suite}\n',
            'etc/hosts': f'127.0.0.1 localhost\n127.0.1.1 {self.suite}\n',
            'etc/fstab': 'LABEL=root / ext4 rw,discard 0 1\n',
            'etc/systemd/network/lan.network': _NETWORK,
            'etc/systemd/network/uml.network': _UML_NETWORK,
            'etc/environment': 'SSL_CERT_FILE='
            '/etc/ssl/certs/ca-certificates.crt\n',
            'root/.ssh/authorized_keys': public_key,
            'etc/machine-id': '',
        }.items():
            target = self.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        (self.root / 'root/.ssh').chmod(0o700)
        if _AUTHORITIES.is_dir():
            shutil.copytree(
                _AUTHORITIES,
                self.root / str(_AUTHORITIES)[1:],
                dirs_exist_ok=True,
            )
        self.chroot('update-ca-certificates')
        self.chroot(
            *('systemctl', 'enable', '--quiet', 'systemd-networkd', 'ssh'),
        )

    def build_software(self) -> None:
        """Install hvstack, the lab's packages, and the services."""
        resolv_conf = self.root / 'etc/resolv.conf'
        resolv_conf.unlink(missing_ok=True)
        shutil.copy('/etc/resolv.conf', resolv_conf)
        clone = self.root / CLONE[1:]
        shutil.rmtree(clone, ignore_errors=True)
        processutils.run(['git', 'clone', '--quiet', TOP, clone])
        self.chroot(f'{CLONE}/tools/bootstrap')
        extras = ('lvm',) if self.has_lvm else ()
        self.chroot(
            *(f'{CLONE}/.venv/bin/python', '-c', _SOFTWARE, *extras),
            timeout=3600,
        )
        resolv_conf.write_text(_NAME_SERVER)

    def build_control_plane(self) -> None:
        """Start the control plane of a lab once, and stop it.

        :raises hvstack.errors.BusyError: a lab runs on this machine, whose
            cgroups would be the same.
        :raises hvstack.errors.InputError: this Heat sleeps otherwise.
        """
        if lifecycle.owner() is not None:
            raise errors.BusyError(
                'Cannot start the control plane of an emulated machine while '
                "a lab runs on this machine. Run 'hvstack lab down' first."
            )
        [scheduler] = self.root.glob(
            'var/cache/hvstack/venv-*/lib/python3*/site-packages/heat/engine/'
            'scheduler.py'
        )
        text = scheduler.read_text().replace(*_HEAT_SLEEP)
        if _HEAT_SLEEP[1] not in text:
            raise errors.InputError(
                f'Cannot let Heat sleep longer: {scheduler} has no '
                f"'{_HEAT_SLEEP[0]}'. Adapt tests/machines/disk.py to it."
            )
        scheduler.write_text(text)
        self.chroot(
            *(f'{CLONE}/.venv/bin/python', '-c', _CONTROL_PLANE), alone=True
        )

    def build_images(self, outputs: Sequence[str]) -> None:
        """Build the guest images on this machine and copy them.

        :param outputs: formats of the images.
        """
        for name in ('tiny', 'hadoop'):
            builder.build(name, outputs=outputs)
        target = self.root / str(store.root())[1:]
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        processutils.run(['cp', '-a', '--sparse=always', store.root(), target])

    def build_disk(self) -> None:
        """Write the root directory to the machine's disk."""
        (self.root / 'etc/resolv.conf').unlink(missing_ok=True)
        (self.root / 'etc/resolv.conf').write_text(_NAME_SERVER)
        self.image.unlink(missing_ok=True)
        processutils.run(
            [
                *('mke2fs', '-q', '-t', 'ext4', '-L', 'root'),
                *('-d', self.root, self.image, f'{DISK_GIB}G'),
            ],
            timeout=1800,
        )

    def chroot(
        self, *argv: str, timeout: float = 1800, alone: bool = False
    ) -> None:
        """Run a program in the root directory.

        :param timeout: seconds until the program is killed.
        :param alone: whether it has a network of its own, with nothing but
            a loopback interface, and cgroups for the services of a lab.
        :raises hvstack.errors.CommandError: the program failed.
        """
        processutils.run(
            [
                *('unshare', '-m', *(('-n',) if alone else ())),
                *('--propagation', 'private', 'sh', '-c'),
                *(_CHROOT, str(self.root), 'alone' if alone else 'shared'),
                *argv,
            ],
            timeout=timeout,
            env={
                'PATH': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin'
                ':/sbin:/bin',
                'LC_ALL': 'C.UTF-8',
                'HOME': '/root',
            },
        )


def require_test_machine(action: str) -> None:
    """Refuse to run outside a machine that the tests built.

    :param action: what would be done.
    :raises SystemExit: the clone is not that of a test machine.
    """
    if Path(CLONE) != TOP:
        raise SystemExit(f'Cannot {action}: run this in a test machine.')


def copy_sources(ssh: list[str]) -> None:
    """Replace the clone's files in a running machine by the last commit's.

    :param ssh: command that runs a shell command in the machine.
    """
    with subprocess.Popen(
        ['git', '-C', os.fspath(TOP), 'archive', 'HEAD'],
        stdout=subprocess.PIPE,
    ) as archive:
        subprocess.run(
            [*ssh, f'tar -x -C {CLONE}'], stdin=archive.stdout, check=True
        )
