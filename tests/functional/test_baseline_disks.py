# SPDX-License-Identifier: Apache-2.0
"""Data disks of a bare-metal host: what is used, refused, erased and restored.

Loop devices of the tests are the disks, and a mount and network namespace of
the tests is the host, which a program instead of ssh enters. It needs root
and loop devices, but no lab; all tests together take about 60 s.
"""

import binascii
import hashlib
import io
import os
import shutil
import struct
import subprocess
import tarfile
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fixtures
import testtools
import yaml

from hvstack import errors, processutils
from hvstack.cli import app
from hvstack.cluster import (
    acquired_hosts,
    bare_metal,
    baseline_hosts,
    host_inventory,
    host_script,
    probe,
)
from hvstack.cluster.command_node import CommandNode
from hvstack.hadoop import os_profiles, site_files
from hvstack.lab.hosts import sizes
from hvstack.model.host_disks import DiskUse

#: It creates ext4. Of its settings only the one of a network namespace is
#: applied: others are those of this machine.
PROFILE = 'amd'
SOMAXCONN = 'sysctl.net.core.somaxconn'
#: ID of the user that Hadoop would have; no other test has it.
UID = 1_878_000_000 + os.getpid() % 1_000_000
MIB = 2**20
PROGRAMS = (
    *('losetup', 'mkfs.ext4', 'mkfs.xfs', 'wipefs', 'blkid', 'mkswap'),
    *('unshare', 'nsenter', 'findmnt', 'partx'),
)
#: Runs the last argument in the namespaces of the host.
SSH = """#!/bin/sh
for last; do :; done
[ ! -e {directory}/log ] || printf '%s\\n' "$last" >>{directory}/log
exec nsenter -m -n -t {pid} sh -c "$last"
"""
SITE = '<property><name>{}</name><value>/srv/x</value></property>\n'


def sha256(path: Path) -> str:
    with path.open('rb') as file:
        return hashlib.file_digest(file, 'sha256').hexdigest()


def lvm2() -> bytes:
    """Return the first two sectors of a physical volume of LVM."""
    start = b'LABELONE' + struct.pack('<Q', 1)
    body = struct.pack('<I', 32) + b'LVM2 001' + uuid.uuid4().hex.encode()
    body = body.ljust(512 - 20, b'\0')
    # LVM's CRC has another start, and is not inverted at its end.
    crc = binascii.crc32(body, 0xF597A6CF ^ 0xFFFFFFFF) ^ 0xFFFFFFFF
    return b'\0' * 512 + start + struct.pack('<I', crc) + body


def bluestore() -> bytes:
    """Return the label of Ceph's BlueStore."""
    return f'bluestore block device\n{uuid.uuid4()}\n'.encode()


def mbr(size: int) -> bytes:
    """Return a partition table of MS-DOS with one Linux partition."""
    entry = struct.pack('<B3sB3sII', 0, b'', 0x83, b'', 2048, size - 2048)
    return b'\0' * 446 + entry + b'\0' * 48 + b'\x55\xaa'


def gpt(size: int) -> tuple[bytes, bytes]:
    """Return both ends of a disk with a GPT and one partition.

    :param size: in sectors.
    """
    kind = uuid.UUID('0fc63daf-8483-4772-8e79-3d69d8477de4').bytes_le
    entry = struct.pack(
        *('<16s16sQQQ72s', kind, uuid.uuid4().bytes_le),
        *(2048, size - 2048, 0, 'data'.encode('utf-16-le')),
    )
    entries = entry.ljust(128 * 128, b'\0')
    disk = uuid.uuid4().bytes_le

    def header(own: int, other: int, table: int) -> bytes:
        fields = struct.pack(
            *('<QQQQ16sQIII', own, other, 34, size - 34, disk),
            *(table, 128, 128, binascii.crc32(entries)),
        )
        start = struct.pack('<8sIIII', b'EFI PART', 0x10000, 92, 0, 0)
        crc = binascii.crc32(start + fields)
        start = struct.pack('<8sIIII', b'EFI PART', 0x10000, 92, crc, 0)
        return (start + fields).ljust(512, b'\0')

    protective = struct.pack('<B3sB3sII', 0, b'', 0xEE, b'', 1, size - 1)
    first = b'\0' * 446 + protective + b'\0' * 48 + b'\x55\xaa'
    first += header(1, size - 1, 2) + entries
    return first, entries + header(size - 1, 1, size - 33)


def make_ext4(device: str) -> None:
    """Create a file system that the kernel does not write to later."""
    options = 'lazy_itable_init=0,lazy_journal_init=0'
    processutils.run(['mkfs.ext4', '-q', '-E', options, device])


class Disk:
    """A loop device of a test.

    :param path: its file, by which the inventory names it.
    :param device: its device.
    """

    def __init__(self, path: Path, device: str) -> None:
        self.path = path
        self.device = device

    def __str__(self) -> str:
        return str(self.path)

    def write(self, *parts: tuple[int, bytes]) -> None:
        with Path(self.device).open('r+b') as file:
            for offset, data in parts:
                file.seek(offset)
                file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def digest(self) -> str:
        """Return the SHA-256 of the whole disk."""
        processutils.run(['sync', self.device, self.path])
        return sha256(self.path)

    def type(self) -> str:
        """Return the type of its content; empty for a blank disk."""
        done = processutils.run(
            ['blkid', '-p', '-o', 'value', '-s', 'TYPE', self.device],
            check=False,
        )
        return done.stdout.strip() if done.returncode != 2 else ''

    def value(self, name: str) -> str:
        return processutils.run(
            ['blkid', '-p', '-o', 'value', '-s', name, self.device]
        ).stdout.strip()


class DisksTest(testtools.TestCase):
    """A host whose disks are loop devices."""

    def setUp(self) -> None:
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest('Only root can have loop devices and namespaces.')
        for program in PROGRAMS:
            if not shutil.which(program):
                self.skipTest(f'This machine does not have {program}.')
        self.directory = Path(
            self.useFixture(fixtures.TempDir()).path
        ).resolve()
        self.root = self.directory / 'host' / 'root'
        self.loops = 0
        self.first = self.disk()
        self.pid = self.start_host()
        self.write_files()
        for name, value in (
            ('cluster.actions.SSH', self.directory / 'ssh'),
            (
                'cluster.acquired_hosts.ACQUIRED_HOSTS_DIR',
                self.directory / 'taken',
            ),
            ('hadoop.os_profiles.kernel_settings', lambda _: [SOMAXCONN]),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.{name}', value))

    def disk(self, mib: int = 16) -> Disk:
        """Return a blank disk."""
        path = self.directory / f'disk{self.loops}.img'
        self.loops += 1
        with path.open('wb') as file:
            file.truncate(mib * MIB)
        loop = processutils.run(
            ['losetup', '-P', '--show', '-f', path], check=False
        )
        if loop.returncode:
            self.skipTest(
                f'This machine has no loop device: {loop.stderr.strip()}'
            )
        device = loop.stdout.strip()
        self.addCleanup(processutils.run, ['losetup', '-d', device])
        return Disk(path, device)

    def start_host(self) -> int:
        process = subprocess.Popen(
            [
                *('unshare', '-m', '-n', '--propagation', 'private'),
                *('sh', '-c', 'ip link set lo up; echo; exec sleep 600'),
            ],
            stdout=subprocess.PIPE,
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        assert process.stdout
        process.stdout.readline()
        process.stdout.close()
        return process.pid

    def write_files(self) -> None:
        programs = self.directory / 'bin'
        programs.mkdir()
        ssh = programs / 'ssh'
        ssh.write_text(SSH.format(directory=self.directory, pid=self.pid))
        ssh.chmod(0o755)
        self.useFixture(
            fixtures.EnvironmentVariable(
                'PATH', f'{programs}:{os.environ["PATH"]}'
            )
        )
        (self.directory / 'key').touch()
        with tarfile.open(self.directory / 'rootfs.tar', 'w') as tar:
            for name in ('etc', 'proc', 'sys', 'dev', 'run', 'srv'):
                item = tarfile.TarInfo(name)
                item.type, item.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(item)
            for name, text in (
                ('etc/passwd', 'root:x:0:0::/root:/bin/sh\n'),
                ('etc/group', 'root:x:0:\n'),
                (
                    'etc/hadoop/hdfs-site.xml',
                    SITE.format('dfs.datanode.data.dir'),
                ),
                (
                    'etc/hadoop/yarn-site.xml',
                    SITE.format('yarn.nodemanager.local-dirs'),
                ),
            ):
                item = tarfile.TarInfo(name)
                item.size = len(text)
                tar.addfile(item, io.BytesIO(text.encode()))

    def on_host(self, command: str) -> str:
        """Run a command in the namespaces of the host, return its output."""
        argv = ['nsenter', '-m', '-n', '-t', str(self.pid), 'sh', '-c']
        done = processutils.run([*argv, command], timeout=60)
        return done.stdout.strip()

    def inventory(self, *disks: Disk | Path | str, **fields: Any) -> Path:
        path = self.directory / 'hosts.yaml'
        host = {
            'address': '192.0.2.1',
            'vcpus': os.sysconf('SC_NPROCESSORS_ONLN'),
            'memory_mib': sizes.machine_mib(),
        }
        worker = {'disks': [str(disk) for disk in disks], **fields}
        data = {
            'key': str(self.directory / 'key'),
            'first_contact': 'accept',
            'rootfs': str(self.directory / 'rootfs.tar'),
            'root': str(self.root),
            'uid': UID,
            'firewall': 'none',
            'hosts': [
                {'name': 'c', 'role': 'controller', **host},
                {'name': 'w', 'role': 'worker', **host, **worker},
            ],
        }
        path.write_text(yaml.safe_dump(data))
        return path

    def worker(
        self, *disks: Disk | Path | str, wipe: bool = False, **fields: Any
    ) -> host_inventory.Host:
        """Return the worker of an inventory, whose disks are erased or not."""
        path = self.inventory(*disks, **fields)
        wiped = [f'w:{disk}' for disk in disks if wipe]
        return host_inventory.select_wiped(baseline_hosts.read(path), wiped)[1]

    def prepare(self, host: host_inventory.Host) -> None:
        host_inventory.prepare(
            host, [host.address], PROFILE, 60, threading.Event()
        )

    def release(self, host: host_inventory.Host) -> None:
        assert host.release
        acquired_hosts.release([host.release])

    def start_node(self) -> None:
        """Do what the start of Hadoop does to disks and settings."""
        fragment = os_profiles.fragment(PROFILE, disk_table=True)
        script = self.directory / 'setup'
        script.write_text(
            '\n'.join(
                line
                for line in fragment.splitlines()
                if not line.startswith(('os_thp ', 'os_limit '))
            )
        )
        self.on_host(f'HVSTACK_ROOT={self.root} sh -eu {script}')
        # As root's part of hadoop-env.sh does before the daemons start.
        self.on_host(
            f'cd {self.root}/srv; for d in data/*/hdfs data/*/yarn; do '
            f'[ ! -d $d ] || chown -Rh {UID}:{UID} $d; done'
        )

    def run_once(self, host: host_inventory.Host) -> None:
        """Prepare the host, write data as Hadoop would, and release it."""
        self.prepare(host)
        self.start_node()
        self.on_host(
            f'for d in {self.root}/srv/data/*/hdfs; do '
            'if [ -d $d ]; then echo b >$d/b; fi; done'
        )
        self.release(host)

    def refusal(self, host: host_inventory.Host) -> str:
        """Return the one line with which the preparation is refused."""
        exc = self.assertRaises(errors.CommandError, self.prepare, host)
        self.release(host)
        self.assertEqual(1, len(exc.tail.splitlines()), exc.tail)
        self.assertTrue(str(exc).startswith("'w: "), exc)
        return exc.tail

    def assert_refused(self, disk: Disk, part: str, **fields: Any) -> None:
        """Assert that a disk is refused and no byte of it is changed.

        A blank disk that the inventory also names is not changed either.
        """
        before, blank = disk.digest(), self.first.digest()
        host = self.worker(self.first, disk, **fields)
        line = self.refusal(host)
        self.assertIn(f'Cannot use the disk {disk}: ', line)
        self.assertIn(part, line)
        self.assertEqual(before, disk.digest())
        self.assertEqual(blank, self.first.digest())


class ContentTest(DisksTest):
    """Disks that contain something are refused, and erased with --wipe."""

    def check(self, disk: Disk, content: str) -> None:
        self.assert_refused(disk, f'it contains data ({content}')
        host = self.worker(disk, wipe=True)
        self.run_once(host)
        self.assertEqual('ext4', disk.type())
        self.assertEqual('hv-amd', disk.value('LABEL'))

    def test_blank(self) -> None:
        """Blank disks are used, and only those with names are changed."""
        other, unnamed = self.disk(), self.disk()
        blank = unnamed.digest()
        self.prepare(self.worker(self.first, other))
        self.start_node()
        text = (self.root / 'etc/hadoop/hdfs-site.xml').read_text()
        for index in (0, 1):
            self.assertIn(f'{self.root}/srv/data/{index}/hdfs', text)
        for disk in (self.first, other):
            self.assertEqual('ext4', disk.type())
        self.release(self.worker())
        self.assertEqual('', self.on_host(f'grep {self.root} /proc/mounts ;:'))
        self.assertEqual(blank, unnamed.digest())

    def test_nothing_is_named(self) -> None:
        blank = self.first.digest()
        self.run_once(self.worker())
        self.assertEqual(blank, self.first.digest())
        text = (self.root / 'etc/hadoop/hdfs-site.xml').read_text()
        self.assertIn('<value>/srv/x<', text)

    def test_ext4(self) -> None:
        processutils.run(
            ['mkfs.ext4', '-q', '-L', 'ledger', self.first.device]
        )
        disk, self.first = self.first, self.disk()
        self.check(disk, 'ledger ext4')

    def test_xfs(self) -> None:
        disk = self.disk(320)
        processutils.run(['mkfs.xfs', '-q', disk.device])
        self.check(disk, 'xfs')

    def test_lvm(self) -> None:
        disk = self.disk()
        disk.write((0, lvm2()))
        self.check(disk, 'LVM2_member')

    def test_ceph(self) -> None:
        disk = self.disk()
        disk.write((0, bluestore()))
        self.check(disk, 'ceph_bluestore')

    def test_swap(self) -> None:
        disk = self.disk()
        processutils.run(['mkswap', disk.device])
        self.check(disk, 'swap')

    def partition(self, disk: Disk) -> str:
        """Make the kernel read the partition table; return a partition."""
        processutils.run(['partx', '-u', disk.device])
        partition = f'{disk.device}p1'
        self.assertTrue(Path(partition).is_block_device())
        self.addCleanup(
            processutils.run, ['partx', '-d', disk.device], check=False
        )
        return partition

    def test_gpt(self) -> None:
        disk = self.disk()
        first, last = gpt(16 * MIB // 512)
        disk.write((0, first), (16 * MIB - len(last), last))
        partition = self.partition(disk)
        self.check(disk, f'gpt {Path(partition).name}')
        self.assertFalse(Path(partition).exists())

    def test_mbr(self) -> None:
        disk = self.disk()
        disk.write((0, mbr(16 * MIB // 512)))
        partition = self.partition(disk)
        processutils.run(['mkfs.ext4', '-q', partition])
        self.check(disk, f'dos {Path(partition).name}')

    def test_confirmation(self) -> None:
        """--wipe shows what a disk contains, and asks."""
        disk = self.disk()
        disk.write((0, bluestore()))
        before = disk.digest()
        path = self.inventory(disk)
        for args in ([], ['--yes']):
            stderr = self.useFixture(fixtures.StringStream('stderr')).stream
            with (
                fixtures.MonkeyPatch('sys.stderr', stderr),
                fixtures.MonkeyPatch(
                    'hvstack.cluster.bare_metal.BareHosts.__enter__',
                    _stop_before_acquisition,
                ),
            ):
                status = app.main(
                    [
                        *('baseline', 'run', '--hosts', str(path)),
                        *('--records', str(self.directory / 'records')),
                        *('--wipe', f'w:{disk}', *args),
                    ]
                )
            stderr.seek(0)
            text = stderr.read()
            self.assertNotEqual(0, status)
            if args:
                self.assertIn(f'w:{disk}, which contains ceph_bluestore', text)
            else:
                self.assertIn('Use --yes', text)
            self.assertEqual(before, disk.digest())


def _stop_before_acquisition(_hosts: bare_metal.BareHosts) -> None:
    raise errors.BusyError('stopped by the test')


class UsedTest(DisksTest):
    """Disks in use are refused with and without --wipe."""

    def check(self, disk: Disk, part: str) -> None:
        for wipe in (False, True):
            self.assert_refused(disk, part, wipe=wipe)

    def mount(self, device: str) -> Path:
        """Mount a new file system on the host, with a file."""
        make_ext4(device)
        directory = self.directory / f'mount{self.loops}'
        directory.mkdir()
        self.on_host(
            f'mount {device} {directory}; echo mine >{directory}/file; sync'
        )
        return directory

    def test_mounted(self) -> None:
        disk = self.disk()
        directory = self.mount(disk.device)
        name = Path(disk.device).name
        self.check(disk, f'{name} is mounted at {directory}')

    def test_mounted_in_another_namespace(self) -> None:
        disk = self.disk()
        make_ext4(disk.device)
        with subprocess.Popen(
            [
                *('unshare', '-m', '--propagation', 'private', 'sh', '-c'),
                'mount $0 /mnt; sync; echo; exec sleep 600',
                disk.device,
            ],
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout
            process.stdout.readline()
            try:
                self.check(
                    disk,
                    'is mounted at /mnt in the mount namespace of the '
                    f'process {process.pid} (sleep)',
                )
            finally:
                process.kill()

    def test_partition_that_is_mounted(self) -> None:
        disk = self.disk()
        disk.write((0, mbr(16 * MIB // 512)))
        processutils.run(['partx', '-u', disk.device])
        self.addCleanup(
            processutils.run, ['partx', '-d', disk.device], check=False
        )
        directory = self.mount(f'{disk.device}p1')
        self.check(disk, f'p1 is mounted at {directory}')

    def test_root_disk(self) -> None:
        """The host's init has it mounted at /."""
        disk = self.disk()
        number = Path(disk.device).stat().st_rdev
        file = self.directory / 'mountinfo'
        file.write_text(
            f'1 0 {os.major(number)}:{os.minor(number)} / / rw - ext4 '
            f'{disk.device} rw\n'
        )
        self.on_host(f'mount --bind {file} /proc/1/mountinfo')
        self.check(disk, 'it is the root disk of this host')

    def test_swap_in_use(self) -> None:
        disk = self.disk()
        processutils.run(['mkswap', disk.device])
        file = self.directory / 'swaps'
        file.write_text(f'Filename\n{disk.device} partition 16380 0 -2\n')
        self.on_host(f'mount --bind {file} /proc/swaps')
        self.check(disk, 'is swap space in use')

    def test_loop_device_on_it(self) -> None:
        disk = self.disk()
        loop = processutils.run(
            ['losetup', '--show', '-f', disk.device]
        ).stdout.strip()
        self.addCleanup(processutils.run, ['losetup', '-d', loop])
        self.check(disk, f'{loop} holds it')

    def test_holder(self) -> None:
        """LVM, RAID, bcache and dm-crypt are holders for the kernel."""
        disk = self.disk()
        holders = f'/sys/block/{Path(disk.device).name}/holders'
        self.on_host(f'mount -t tmpfs tmpfs {holders}; mkdir {holders}/dm-77')
        self.check(disk, 'dm-77 holds it')

    def test_disk_of_ceph_in_use(self) -> None:
        """A daemon of Ceph opens its disk exclusively, and mounts nothing."""
        disk = self.disk()
        disk.write((0, bluestore()))
        number = os.open(disk.device, os.O_RDWR | os.O_EXCL)
        self.addCleanup(os.close, number)
        self.check(disk, f'the process {os.getpid()} (')
        # The daemon is in a container that the host's processes do not see.
        self.on_host(f'mount -t tmpfs tmpfs /proc/{os.getpid()}')
        self.check(disk, 'it is in use (')


class FactsTest(DisksTest):
    """A record contains the disks of a host, not its file systems."""

    def read(self) -> DiskUse:
        node = CommandNode(
            *('w', '192.0.2.1', 'worker', 'w'),
            ('nsenter', '-m', '-t', str(self.pid)),
        )
        return probe.disks([node, node])

    def mount(self, device: str, index: int) -> None:
        directory = f'/srv/data/{index}'
        self.on_host(f'mkdir -p {directory}; mount {device} {directory}')

    def test_disks(self) -> None:
        self.on_host('mount -t tmpfs tmpfs /srv; mkdir /srv/data')
        partitioned = self.disk(2000)
        partitioned.write((0, mbr(2000 * MIB // 512)))
        processutils.run(['partx', '-u', partitioned.device])
        self.addCleanup(
            processutils.run,
            ['partx', '-d', partitioned.device],
            check=False,
        )
        for index, device in enumerate(
            (self.first.device, f'{partitioned.device}p1')
        ):
            make_ext4(device)
            self.mount(device, index)
        self.assertEqual(
            DiskUse('bare metal', 2, 'loop', '0 or 2'), self.read()
        )

    def test_one_volume_over_three_disks(self) -> None:
        """RAID and LVM have their disks as slaves."""
        self.on_host('mount -t tmpfs tmpfs /srv; mkdir /srv/data')
        others = [self.disk() for _ in range(3)]
        slaves = f'/sys/block/{Path(self.first.device).name}/slaves'
        names = ' '.join(Path(disk.device).name for disk in others)
        make_ext4(self.first.device)
        self.mount(self.first.device, 0)
        self.on_host(
            f'mount -t tmpfs tmpfs {slaves}; cd {slaves}; mkdir {names}'
        )
        self.assertEqual(3, self.read().count)


class DirectoryTest(DisksTest):
    """Mount points: hvstack uses a directory of its own, formats nothing."""

    def setUp(self) -> None:
        super().setUp()
        processutils.run(['mkfs.ext4', '-q', self.first.device])
        self.data = self.directory / 'data1'
        self.data.mkdir()
        self.on_host(
            f'mount {self.first.device} {self.data}; echo x >{self.data}/mine'
        )

    def test_used(self) -> None:
        other = self.disk()
        own = self.first.value('UUID')
        self.prepare(self.worker(self.data, other, after='clear'))
        self.start_node()
        text = (self.root / 'etc/hadoop/hdfs-site.xml').read_text()
        for name in ('0', 'mount-0'):
            self.assertIn(f'{self.root}/srv/data/{name}/hdfs', text)
        state = (self.root / 'etc/hvstack/os-profile.state').read_text()
        not_set = os_profiles.parse_state(state).not_set
        for name in ('mkfs.ext4=', 'mount=noatime'):
            self.assertIn(f'{name}: the host mounted the file system', not_set)
        self.on_host(f'echo b >{self.root}/srv/data/mount-0/hdfs/b')
        self.assertEqual(
            'b', self.on_host(f'cat {self.data}/hvstack-bare/hdfs/b')
        )
        self.switch_user()
        self.assertEqual(
            f'0 {UID}',
            self.on_host(
                f'stat -c %u {self.data}/hvstack-bare/.hvstack '
                f'{self.data}/hvstack-bare/hdfs/b | xargs'
            ),
        )
        self.release(self.worker(self.data, other, after='clear'))
        self.assertEqual(
            'lost+found mine', self.on_host(f'ls {self.data} | xargs')
        )
        self.assertEqual(own, self.first.value('UUID'))
        self.assertEqual('', other.type())

    def switch_user(self) -> None:
        """Do what the start of Hadoop does before it is no longer root."""
        text = site_files.render_user_switch(UID, '/dev/null')
        for path in ('/run/hadoop', '/var/log/hadoop', '/srv/'):
            text = text.replace(path, f'{self.root}{path}')
        node = self.directory / 'node'
        node.write_text(f'#!/bin/sh\n{text}')
        node.chmod(0o755)
        # The user may not read this directory.
        self.on_host(f'{node} start || :')

    def test_no_other_disk(self) -> None:
        self.prepare(self.worker(self.data))
        self.start_node()
        state = (self.root / 'etc/hvstack/os-profile.state').read_text()
        self.assertIn('mkfs.ext4=: the host mounted the file system', state)
        self.assertNotIn('root disk', state)
        text = (self.root / 'etc/hadoop/yarn-site.xml').read_text()
        self.assertIn(f'>{self.root}/srv/data/mount-0/yarn<', text)
        self.release(self.worker(self.data))

    def test_absent_at_the_release(self) -> None:
        """HDFS stayed there, and the next run had another cluster ID."""
        own = self.data / 'hvstack-bare'
        for is_recorded in (True, False):
            host = self.worker(self.data)
            self.prepare(host)
            self.start_node()
            self.on_host(f'echo b >{self.root}/srv/data/mount-0/hdfs/b')
            # As after a restart of the host, before somebody mounts it.
            self.on_host(f'umount -R {self.root}; umount {self.data}')
            self.release(host)
            self.on_host(f'mount {self.first.device} {self.data}')
            self.assertEqual('b', self.on_host(f'cat {own}/hdfs/b'))
            recorded = self.root / '.hvstack-changes'
            self.assertIn(f'={self.data}\n', recorded.read_text())
            if is_recorded:
                self.release(host)
                self.assertEqual('', self.on_host(f'ls -d {own} || :'))
                self.assertFalse(recorded.exists())
        recorded.unlink()
        self.prepare(self.worker(self.data))
        self.start_node()
        self.assertEqual('', self.on_host(f'ls {own}/hdfs'))
        self.release(self.worker(self.data))

    def test_refused(self) -> None:
        for change, path, part in (
            ('', self.root.parent, 'no file system is mounted there'),
            (
                f'mount -t tmpfs tmpfs {self.root.parent}',
                *(self.root.parent, 'not on a local disk (tmpfs'),
            ),
            (
                f'umount {self.root.parent}; mkdir {self.data}/hvstack-bare; '
                f'echo x >{self.data}/hvstack-bare/x',
                *(self.data, 'hvstack did not create it'),
            ),
            (
                f'rm -r {self.data}/hvstack-bare; '
                f'mount -o remount,ro {self.data}',
                *(self.data, 'it is read-only'),
            ),
        ):
            self.on_host(change)
            line = self.refusal(self.worker(path))
            self.assertIn(f'Cannot use {path}', line)
            self.assertIn(part, line)
        self.on_host(f'mount -o remount,rw {self.data}')
        line = self.refusal(self.worker(self.data, wipe=True))
        self.assertIn('Do not name it with --wipe', line)
        self.assertEqual(
            'lost+found mine', self.on_host(f'ls {self.data} | xargs')
        )


class AfterTest(DisksTest):
    """Disks and settings after a run, and after a crash."""

    def test_keep_and_clear(self) -> None:
        host = self.worker(self.first)
        self.run_once(host)
        own = self.first.value('UUID')
        # The next run recognizes its file system, and deletes its own data.
        self.prepare(self.worker(self.first))
        self.start_node()
        self.assertEqual(own, self.first.value('UUID'))
        self.assertEqual('', self.on_host(f'ls {self.root}/srv/data/0/hdfs'))
        self.release(host)
        self.run_once(self.worker(self.first, after='clear'))
        self.assertEqual('', self.first.type())
        recorded = self.root / '.hvstack-changes'
        self.assertFalse(recorded.exists())

    def test_service_that_starts_during_a_run(self) -> None:
        """Its copies of the mounts stayed, and kept the disk in use."""
        host = self.worker(self.first)
        self.prepare(host)
        self.start_node()
        with subprocess.Popen(
            [
                *('nsenter', '-m', '-n', '-t', str(self.pid)),
                *('unshare', '-m', '--propagation', 'slave'),
                *('sh', '-c', 'echo; exec sleep 600'),
            ],
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout
            process.stdout.readline()
            try:
                search = ['grep', '-q', f' {self.first.device} ']
                search += [f'/proc/{process.pid}/mountinfo']
                processutils.run(search)
                self.release(host)
                done = processutils.run(search, check=False)
                self.assertEqual(1, done.returncode)
                self.prepare(self.worker(self.first))
            finally:
                process.kill()
        self.release(self.worker(self.first))

    def test_files_of_others_on_a_kept_disk(self) -> None:
        self.run_once(self.worker(self.first))
        mount = self.directory / 'mnt'
        mount.mkdir()
        self.on_host(
            f'mount {self.first.device} {mount}; echo x >{mount}/mine; '
            f'umount {mount}'
        )
        disk, self.first = self.first, self.disk()
        line = self.refusal(self.worker(disk))
        self.assertIn('its file system contains mine, which hvstack', line)
        for after in ('keep', 'clear'):
            self.release(self.worker(disk, after=after))
        self.on_host(f'mount {disk.device} {mount}')
        self.assertEqual('x', self.on_host(f'cat {mount}/mine'))

    def test_hdfs_of_others_on_a_kept_disk(self) -> None:
        """It was deleted, since the next run deletes its own by name."""
        self.run_once(self.worker(self.first))
        mount = self.directory / 'mnt'
        mount.mkdir()
        self.on_host(
            f'mount {self.first.device} {mount}; rm -r {mount}/yarn; '
            f'mkdir {mount}/yarn; chown 0 {mount}/hdfs; umount {mount}'
        )
        disk, self.first = self.first, self.disk()
        line = self.refusal(self.worker(disk))
        # An empty directory of root is what a crash leaves.
        self.assertIn('its file system contains hdfs, which hvstack', line)
        self.on_host(f'mount {disk.device} {mount}')
        self.assertEqual('b', self.on_host(f'cat {mount}/hdfs/b'))

    def test_file_system_of_others_on_a_kept_disk(self) -> None:
        self.run_once(self.worker(self.first))
        processutils.run(['mkfs.ext4', '-q', '-F', self.first.device])
        disk, self.first = self.first, self.disk()
        self.assert_refused(disk, 'it contains data (ext4)')

    def test_wrong_name(self) -> None:
        """Nothing of a disk that does not exist is to be erased."""
        host = self.worker('/dev/disk/by-id/wrong', after='clear')
        self.assertIn('it does not exist', self.refusal(host))
        self.release(host)

    def test_options_that_mkfs_refuses(self) -> None:
        """The next run uses the plain file system of this run."""
        fragment = os_profiles.fragment
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.hadoop.os_profiles.fragment',
                lambda *args, **options: fragment(*args, **options).replace(
                    "os_disks ext4 ''", "os_disks ext4 '-O no-such'"
                ),
            )
        )
        for _ in range(2):
            self.run_once(self.worker(self.first))
            self.assertEqual(f'hp-{PROFILE}', self.first.value('LABEL'))

    def test_another_os_profile(self) -> None:
        self.run_once(self.worker(self.first))
        host = self.worker(self.first)
        exc = self.assertRaises(
            errors.CommandError,
            *(host_inventory.prepare, host, [host.address], 'vsan', 60),
            threading.Event(),
        )
        self.assertIn('another OS profile', exc.tail)
        self.release(host)

    def test_crash(self) -> None:
        """The host itself knows what to restore, not only the journal."""
        value = int(self.on_host('cat /proc/sys/net/core/somaxconn'))
        host = self.worker(self.first, after='clear')
        self.prepare(host)
        recorded = (self.root / '.hvstack-changes').read_text()
        self.assertIn(f'{SOMAXCONN}={value}\n', recorded)
        self.on_host(f'echo {value + 1} >/proc/sys/net/core/somaxconn')
        self.start_node()
        self.assertIn(str(self.root), self.on_host('cat /proc/mounts'))
        path = self.directory / 'hosts.yaml'
        # Both hosts of the inventory are this one: they are released one
        # after the other, and either clears the disk.
        data = yaml.safe_load(path.read_text())
        data['hosts'][0]['after'] = 'clear'
        path.write_text(yaml.safe_dump(data))
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cluster.acquired_hosts.ThreadPoolExecutor',
                lambda max_workers: ThreadPoolExecutor(1),
            )
        )
        # Neither the journal nor the measuring process exists any more.
        self.assertFalse((self.directory / 'taken').exists())
        status = app.main(['baseline', 'release', '--hosts', str(path)])
        self.assertEqual(0, status)
        self.assertEqual(
            str(value), self.on_host('cat /proc/sys/net/core/somaxconn')
        )
        self.assertEqual('', self.on_host(f'grep {self.root} /proc/mounts ;:'))
        self.assertEqual('', self.first.type())

    def test_next_run_after_a_crash(self) -> None:
        value = int(self.on_host('cat /proc/sys/net/core/somaxconn'))
        host = self.worker(self.first)
        self.prepare(host)
        self.start_node()
        self.on_host(f'echo {value + 1} >/proc/sys/net/core/somaxconn')
        self.run_once(self.worker(self.first))
        self.assertEqual(
            str(value), self.on_host('cat /proc/sys/net/core/somaxconn')
        )

    def test_dry_run(self) -> None:
        """All commands are printed, and none runs."""
        disk = self.disk()
        disk.write((0, bluestore()))
        before = disk.digest()
        path = self.inventory(disk, after='clear')
        (self.directory / 'log').touch()
        cluster = bare_metal.BareHosts.from_file(
            path, os_profile=PROFILE, wiped=[f'w:{disk}']
        )
        rows = cluster.dry_run()
        self.assertEqual('', (self.directory / 'log').read_text())
        self.assertEqual(before, disk.digest())
        printed = {text for name, _, text in rows if name == 'w'}
        worker = cluster.hosts[1]
        host_inventory.prepare(
            worker, cluster._members(), PROFILE, 60, threading.Event()
        )
        self.release(worker)
        log = host_script.shortened((self.directory / 'log').read_text())
        commands = log.splitlines()
        self.assertEqual(8, len(commands))
        for command in commands:
            self.assertIn(command, printed)
