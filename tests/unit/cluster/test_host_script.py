# SPDX-License-Identifier: Apache-2.0
"""What the program for hosts does to disks, settings and the firewall.

On loop devices and in network namespaces, as root only.
"""

import hashlib
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import fixtures
import testtools

from hvstack import paths, pid_files, shell_scripts
from hvstack.cluster import acquired_hosts, host_script
from hvstack.hadoop import os_profiles
from hvstack.lab.hosts import sizes

UUID = '0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0'
#: Of no process of a baseline or another worker of the tests.
UID = str(1_880_000_000 + os.getpid())
NAME = 'hv_0123456789abcdef'
#: Prints the status of a release, and a value after it.
RELEASE = 'eval "$RELEASE"; echo $?; cat $FILE'
#: Two namespaces: ours, and a stranger's, who has two addresses.
_NETWORK = """
ip link set lo up
unshare -n sleep 60 >/dev/null 2>&1 &
stranger=$!
trap 'kill $stranger' EXIT
until [ "$(readlink /proc/$stranger/ns/net)" != "$(readlink /proc/$$/ns/net)" ]
do :; done
ip link add v0 type veth peer name v1 netns $stranger
ip addr add 10.9.0.1/24 dev v0
ip link set v0 up
stranger_runs() { nsenter -n -t $stranger "$@"; }
stranger_runs ip addr add 10.9.0.2/24 dev v1
stranger_runs ip addr add 10.9.0.3/24 dev v1
stranger_runs ip link set v1 up
serve() {
    setpriv --reuid=$1 --regid=$1 --clear-groups $PYTHON -IS -c "
import socket
s = socket.create_server(('10.9.0.1', $2))
while True:
    s.accept()[0].sendall(b'x')" &
    servers="$servers $!"
}
get() {
    $PYTHON -IS -c "
import socket, sys
s = socket.create_connection(('10.9.0.1', $2), 0.7, ('$1', 0))
sys.exit(not s.recv(1))" 2>/dev/null && echo yes || echo no
}
"""
#: CPUs and MiB of this machine, without caps.
_SIZE = (
    str(os.sysconf('SC_NPROCESSORS_ONLN')),
    *(str(sizes.machine_mib()), '', ''),
)
#: Listens until its input ends.
_SERVER = """
import socket, sys
host, port = sys.argv[1:]
family = socket.AF_INET6 if ':' in host else socket.AF_INET
server = socket.socket(family)
if family == socket.AF_INET6:
    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
server.bind((host, int(port)))
server.listen()
print(flush=True)
sys.stdin.read()
"""
#: Programs that the tests of the firewall and the program for hosts need.
_PROGRAMS = (
    *('awk', 'cat', 'cut', 'id', 'ip', 'nsenter', 'readlink', 'setpriv', 'sh'),
    *('sed', 'sleep', 'ss', 'stat', 'tr', 'unshare', 'wc'),
)


def run(text: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ['sh', '-c', text],
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


#: Stays in a root file system until its input ends.
_INSIDE = """
import os, sys
os.chroot(sys.argv[1])
print(flush=True)
sys.stdin.read()
"""


class HolderIDTest(testtools.TestCase):
    """The ID by which hosts recognize the user of a crashed run."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        for target, value in (
            ('acquired_hosts.ACQUIRED_HOSTS_DIR', self.directory),
            ('host_script.HOLDER', self.directory / 'holder'),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(f'hvstack.cluster.{target}', value)
            )

    def get_id(self) -> str:
        """Return the ID after this process had the lock."""
        with acquired_hosts.open_lock() as lock:
            self.assertTrue(acquired_hosts.try_lock(lock))
        return host_script.build_holder().partition(' ')[0]

    def compute_id(self, suffix: str) -> str:
        machine = pid_files.machine() or socket.gethostname()
        text = f'{machine} {paths.STATE.absolute()}{suffix}'
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def test_hosts_that_an_older_release_has_taken(self) -> None:
        """They were not released, and the mark was deleted."""
        mark = self.directory / 'a.json'
        mark.touch()
        self.assertEqual(self.compute_id(''), self.get_id())
        mark.unlink()
        random_id = self.get_id()
        holder = self.directory / 'holder'
        self.assertEqual(self.compute_id(f' {holder.read_text()}'), random_id)
        # Hosts that are taken from now on have this ID.
        mark.touch()
        self.assertEqual(random_id, self.get_id())


class HolderTest(testtools.TestCase):
    """The run of another user or machine on the same host."""

    def setUp(self) -> None:
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest('only root may change the root directory')
        top = Path(self.useFixture(fixtures.TempDir()).path).resolve()
        self.root = top / 'root'

    def call(self, verb: str, *args: str) -> subprocess.CompletedProcess[str]:
        return run(host_script.command(verb, *args))

    def release_own(self, holder: str) -> subprocess.CompletedProcess[str]:
        root = str(self.root)
        return self.call('release_own', holder, root, '', 'keep')

    def test_run_of_another_holder(self) -> None:
        claimed = self.call('claim', str(self.root), '', 'a1 user 7 on x')
        self.assertEqual('', claimed.stdout + claimed.stderr)
        data = self.root / 'srv/hdfs'
        data.mkdir(parents=True)
        with subprocess.Popen(
            [sys.executable, '-IS', '-c', _INSIDE, str(self.root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout
            process.stdout.readline()
            refused = self.release_own('b2 user 0 on y')
            self.assertEqual(1, refused.returncode)
            self.assertIn('a run of user 7 on x measures', refused.stderr)
            self.assertTrue(data.exists())
            self.assertIsNone(process.poll())
            # The holder itself has crashed, and continues.
            self.assertEqual(0, self.release_own('a1 user 7 on x').returncode)
            self.assertIsNotNone(process.wait(10))
        self.assertFalse(data.exists())
        self.assertEqual(0, self.release_own('b2 user 0 on y').returncode)

    def test_release_of_a_run_that_was_refused(self) -> None:
        """Its mark stayed, and each later command failed."""
        root = str(self.root)
        self.call('claim', root, '', 'a1 user 7 on x')
        data = self.root / 'srv/hdfs'
        data.mkdir(parents=True)
        for holder, is_kept in (('b2', True), ('a1', False)):
            done = self.call(
                'release_mine', f'{holder} user 0 on y', root, '', 'keep'
            )
            self.assertEqual((0, ''), (done.returncode, done.stderr))
            self.assertEqual(is_kept, data.exists())
            held = run(
                f'cd {root} && grep -qs "^a1 " .hvstack-holder'
            ).returncode
            self.assertEqual(is_kept, held == 0)

    def test_host_that_is_being_prepared(self) -> None:
        """No process is inside yet."""
        self.call('claim', str(self.root), '', 'a1 user 7 on x')
        for refused in (
            self.release_own('b2 user 0 on y'),
            self.call('claim', str(self.root), '', 'b2 user 0 on y'),
        ):
            self.assertEqual(1, refused.returncode)
            self.assertIn("'hvstack baseline release'", refused.stderr)
        forced = self.call('release', str(self.root), '', 'keep')
        self.assertEqual(0, forced.returncode)
        claimed = self.call('claim', str(self.root), '', 'b2 user 0 on y')
        self.assertEqual(0, claimed.returncode)

    def test_other_root_with_the_same_data(self) -> None:
        """The HDFS of a run was deleted while it measured."""
        data = self.root.parent / 'data'
        other = str(self.root.parent / 'other')
        mine = ('a1 user 7 on x', str(self.root), str(data))
        holder = 'b2 user 0 on y'
        self.call('claim', *mine[1:], mine[0])
        (data / 'hdfs').mkdir()
        refused = 'measures there'
        for verb, *args in (
            ('release_own', holder, other, str(data), 'keep'),
            ('claim', other, str(data), holder),
        ):
            done = self.call(verb, *args)
            self.assertEqual(1, done.returncode)
            self.assertIn(
                f'Cannot use {data}: a run of user 7 on x {refused}',
                done.stderr,
            )
        # It has created its own root.
        done = self.call('release_mine', holder, other, str(data), 'keep')
        self.assertEqual((0, ''), (done.returncode, done.stderr))
        self.assertTrue((data / 'hdfs').exists())
        done = self.call('release_mine', *mine, 'keep')
        self.assertEqual((0, ''), (done.returncode, done.stderr))
        self.assertFalse(data.exists())
        self.assertEqual(
            0, self.call('claim', other, str(data), holder).returncode
        )

    def test_mount_point_of_another_run(self) -> None:
        directory = self.root.parent / 'mnt' / 'hvstack-bare'
        self.call('claim', str(directory), '', 'a1 user 7 on x')
        (directory / 'hdfs').mkdir()
        used = f'used.{UUID}={directory.parent}'
        for holder, is_kept in (('b2', True), ('a1', False)):
            for verb in ('release_own', 'release_mine'):
                done = self.call(
                    *(verb, f'{holder} user 0 on y', str(self.root), ''),
                    *('keep', used),
                )
                self.assertEqual((0, ''), (done.returncode, done.stderr))
                self.assertEqual(is_kept, directory.exists())

    def test_host_that_was_started_again(self) -> None:
        self.call('claim', str(self.root), '', 'a1 user 7 on x')
        (self.root / '.hvstack-holder').write_text('a1 user 7 on x\nboot\n')
        self.assertEqual(0, self.release_own('b2 user 0 on y').returncode)


class SettingsTest(testtools.TestCase):
    def test_host_with_bytes_instead_of_a_ratio(self) -> None:
        """The kernel shows the ratio as 0, and 0 would be restored."""
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        for name, value in (
            ('dirty_background_ratio', 0),
            ('dirty_background_bytes', 67108864),
            ('dirty_ratio', 0),
            ('dirty_bytes', 0),
            ('swappiness', 60),
        ):
            (directory / f'sysctl.vm.{name}').write_text(f'{value}\n')
        done = run(
            f'{shell_scripts.load("prepare-host")}\n'
            'setting_file() { echo "$DIRECTORY/$1"; }\n'
            'read_settings sysctl.vm.dirty_background_ratio '
            'sysctl.vm.dirty_ratio sysctl.vm.swappiness\n'
            'restore sysctl.vm.dirty_background_bytes 5',
            DIRECTORY=str(directory),
        )
        self.assertEqual('', done.stderr)
        self.assertEqual(
            [
                'sysctl.vm.dirty_background_bytes=67108864',
                'sysctl.vm.dirty_ratio=0',
                'sysctl.vm.swappiness=60',
            ],
            done.stdout.splitlines(),
        )
        restored = directory / 'sysctl.vm.dirty_background_bytes'
        self.assertEqual('5', restored.read_text().strip())


class MemoryTest(testtools.TestCase):
    def test_huge_pages_for_guests(self) -> None:
        """Hadoop on bare metal was killed because it ran out of memory."""
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        meminfo = directory / 'meminfo'
        for count, hugetlb_kib, is_good in (
            (0, '0', True),
            # For Open vSwitch with DPDK.
            (4096, '8388608', True),
            (123392, '252706816', False),
            # Linux 4.15 and older.
            (123392, '', False),
            # Pages of another size than the default.
            (0, '252706816', False),
        ):
            lines = ['MemTotal: 263845000 kB', f'HugePages_Total: {count}']
            lines += ['Hugepagesize: 2048 kB']
            lines += [f'Hugetlb: {hugetlb_kib} kB'] if hugetlb_kib else []
            meminfo.write_text('\n'.join([*lines, '']))
            done = run(
                f'{shell_scripts.load("prepare-host")}\n'
                'check_huge_pages "$MEMINFO"',
                MEMINFO=str(meminfo),
            )
            self.assertEqual(is_good, done.returncode == 0, lines)
            self.assertEqual(is_good, done.stderr == '', lines)
            if not is_good:
                self.assertIn('246784 of 257661 MiB', done.stderr)
                self.assertEqual(1, done.stderr.count('\n'))

    def test_size_of_the_inventory(self) -> None:
        """Half of the CPUs gave a slow baseline, which was valid."""
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        meminfo = directory / 'meminfo'
        # 256 GiB are installed.
        meminfo.write_text('MemTotal:  263845000 kB\nMemFree: 1 kB\n')
        for vcpus, mib, cpu_cap, memory_cap, message in (
            (80, 262144, '', '', ''),
            (80, 257661, '', '', ''),
            (40, 262144, '', '', "80 CPUs, and 'vcpus' is 40. Set"),
            (81, 262144, '', '', "80 CPUs, and 'vcpus' is 81. Set"),
            (80, 131072, '', '', "'memory_mib' is 131072. Set"),
            (80, 524288, '', '', "'memory_mib' is 524288. Set"),
            # Hosts of a lab share one kernel, which reports the machine.
            (40, 131072, '20.5', '131072', ''),
            (40, 131072, '20.5', '', "'memory_mib' is 131072. Set"),
            (81, 131072, '20.5', '131072', "'vcpus' is 81. Set"),
            (40, 524288, '20.5', '1024', "257661 MiB of memory, and 'memory"),
        ):
            done = run(
                f'{shell_scripts.load("prepare-host")}\n'
                f'check_size 80 "$MEMINFO" {vcpus} {mib} '
                f'"{cpu_cap}" "{memory_cap}"',
                MEMINFO=str(meminfo),
            )
            self.assertEqual(bool(message), done.returncode == 1, message)
            self.assertIn(message, done.stderr)
            self.assertEqual(bool(message), done.stderr.count('\n') == 1)


class RootTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest('Only root can change disks and networks.')
        self.directory = Path(
            self.useFixture(fixtures.TempDir()).path
        ).resolve()
        self.root = self.directory / 'root'
        claim = run(host_script.command('claim', str(self.root), ''))
        self.assertEqual('', claim.stderr)
        (self.root / 'etc').mkdir()
        for name in ('passwd', 'group'):
            (self.root / 'etc' / name).write_text('root:x:0:\n')


class DisksTest(RootTest):
    def setUp(self) -> None:
        super().setUp()
        for program in ('losetup', 'mkfs.ext4', 'wipefs'):
            if not shutil.which(program):
                self.skipTest(f'This machine does not have {program}.')
        self.disk = self.directory / 'disk.img'
        self.disk.touch()
        os.truncate(self.disk, 2**24)
        loop = run(f'losetup -P --show -f {self.disk}')
        if loop.returncode:
            self.skipTest(f'This machine has no loop devices: {loop.stderr}')
        self.loop = loop.stdout.strip()
        self.addCleanup(run, f'losetup -d {self.loop}')

    def check(self, *disks: str, before: str = '') -> tuple[int, str]:
        args = [word for disk in disks for word in (disk, UUID, '')]
        text = host_script.command('check', str(self.root), UID, '', *args)
        done = run(f'{before}\n{text}')
        return done.returncode, done.stderr

    def table(self) -> str:
        return (self.root / 'etc/hvstack/disks').read_text()

    def test_a_blank_disk(self) -> None:
        self.assertEqual((0, ''), self.check(str(self.disk)))
        self.assertEqual(f'{self.loop} {UUID}\n', self.table())
        self.assertIn(
            f'hvstack:x:{UID}', (self.root / 'etc/passwd').read_text()
        )

    def test_disks_in_use(self) -> None:
        """Any blank disk was formatted, any other was mounted."""
        mounted = (
            f'mkfs.ext4 -q {self.loop}; mount {self.loop} {self.directory}'
        )
        first = b'\0' * 4 + b'\x83' + b'\0' * 3 + b'\1\0\0\0' * 2
        mbr = b'\0' * 446 + first + b'\0' * 48 + b'\x55\xaa'
        (self.directory / 'mbr').write_bytes(mbr)
        for before, part in (
            (f'mkfs.ext4 -q {self.loop}', 'contains data (ext4)'),
            (f'cat {self.directory}/mbr >{self.loop}', 'contains data (dos)'),
            (
                f'unshare -m sh -c "{mounted}; exec sleep 60" &\n'
                f'until grep -qs "{self.loop} " /proc/$!/mountinfo\n'
                'do sleep 0.1; done',
                'mounted',
            ),
            (f'mkswap -q {self.loop}', 'contains data (swap)'),
            (f'blockdev --setro {self.loop}', 'read-only'),
        ):
            if 'unshare' in before:
                before += '; trap "kill $!; wait" EXIT'
            status, error = self.check(str(self.disk), before=before)
            self.assertEqual((1, 1), (status, error.count('\n')), error)
            self.assertIn(part, error)
            self.assertFalse((self.root / 'etc/hvstack').exists())
            run(f'blockdev --setrw {self.loop}; wipefs -qa {self.loop}')
            run(f'blockdev --rereadpt {self.loop}')

    def test_disks_that_are_none(self) -> None:
        other = self.directory / 'other.img'
        other.touch()
        for disks, part in (
            ([str(other)], 'losetup'),
            (['/dev/disk/by-id/none'], 'does not exist'),
            ([str(self.disk), str(self.disk)], 'twice'),
        ):
            status, error = self.check(*disks)
            self.assertEqual(1, status)
            self.assertIn(part, error)

    def test_user_that_exists(self) -> None:
        text = host_script.command('check', str(self.root), '0', '')
        self.assertIn('user ID 0', run(text).stderr)

    def test_blank_disks_that_the_inventory_does_not_name(self) -> None:
        """Those of physical hosts were formatted and mounted like a guest's.

        The kernel of a mount namespace shows the loop device as a disk.
        """
        block = self.root / 'sys/block/sdz'
        block.mkdir(parents=True)
        for name in ('ro', 'removable'):
            (block / name).write_text('0\n')
        for path in (
            *('proc/mounts', 'proc/swaps', 'proc/1/environ'),
            *('etc/hadoop/hdfs-site.xml', 'etc/hadoop/yarn-site.xml'),
            'etc/hvstack/disks',
        ):
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).touch()
        numbers = Path(self.loop).stat().st_rdev
        script = self.directory / 'setup'
        for is_guest in (False, True):
            script.write_text(
                'mount -t tmpfs tmpfs /dev\n'
                f'mknod /dev/sdz b {os.major(numbers)} {os.minor(numbers)}\n'
                'mknod /dev/null c 1 3\n'
                + os_profiles.fragment('amd', disk_table=not is_guest)
            )
            done = run(
                f'unshare -m sh -eu {script}', HVSTACK_ROOT=str(self.root)
            )
            self.assertEqual(0, done.returncode, done.stderr)
            status = run(f'blkid -p {self.loop}').returncode
            self.assertEqual(not is_guest, status == 2, done.stdout)

    def test_only_its_own_file_system_is_erased(self) -> None:
        other = UUID.replace('0f', '1f')
        disk = f'used.{UUID}={self.disk}'
        release = host_script.command(
            'release', str(self.root), '', 'clear', disk
        )
        for created, blank in ((other, False), (UUID, True)):
            run(f'mkfs.ext4 -q -F -U {created} {self.loop}')
            self.assertEqual('', run(release).stderr)
            status = run(f'blkid -p {self.loop}').returncode
            self.assertEqual(blank, status == 2)


class NetworkTest(RootTest):
    #: Other tests may run at once.
    uid = str(int(UID) + 10_000_000)

    def in_namespace(self, text: str, path: str = '') -> list[str]:
        env = {'PYTHON': sys.executable}
        if path:
            env['PATH'] = path
        script = self.directory / 'script'
        script.write_text(text)
        done = run(f'unshare -n sh {script}', **env)
        self.assertEqual('', done.stderr)
        return done.stdout.splitlines()

    def test_settings_are_restored(self) -> None:
        """They stayed as the OS profile had set them."""
        name = 'sysctl.net.ipv4.tcp_rmem'
        file = '/proc/sys/net/ipv4/tcp_rmem'
        read = host_script.command(
            'settings',
            *(str(self.root), name, 'thp.enabled', 'sysctl.net.no_such'),
        )
        (before, *thp) = self.in_namespace(read)
        self.assertRegex(before, rf'^{name}=\d+ \d+ \d+$')
        for line in thp:
            self.assertRegex(line, r'^thp.enabled=[a-z]+$')
        restore = host_script.command('release', '/none', '', 'keep', before)
        first, last = self.in_namespace(
            f'echo 4096 87380 99999 >{file}; cat {file}\n{restore}\ncat {file}'
        )
        self.assertEqual('4096 87380 99999', ' '.join(first.split()))
        self.assertEqual(before, f'{name}={" ".join(last.split())}')

    def test_settings_that_an_operator_has_changed_since(self) -> None:
        """Values of an earlier boot, or that were restored, were written."""
        name = 'sysctl.net.ipv4.tcp_rmem'
        file = '/proc/sys/net/ipv4/tcp_rmem'
        root = str(self.root)
        read = host_script.command('settings', root, name)
        (before,) = self.in_namespace(read)
        recorded = self.root / '.hvstack-changes'
        boot = pid_files.boot()
        self.assertEqual(f'boot.{boot}\n{before}\n', recorded.read_text())
        restore = host_script.command('release', root, '', 'keep', before)
        write = f'echo 4096 87380 99999 >{file}'
        for text, is_restored in (
            (f'boot.of-yesterday\n{before}\n', False),
            (f'boot.{boot}\n{before}\n', True),
            # The host is released already, but the journal has it still.
            ('', False),
        ):
            if text:
                recorded.write_text(text)
            (value,) = self.in_namespace(f'{write}\n{restore}\ncat {file}')
            expected = before if is_restored else f'{name}=4096 87380 99999'
            self.assertEqual(expected, f'{name}={" ".join(value.split())}')
            self.assertFalse(recorded.exists())

    def test_settings_that_the_host_refuses(self) -> None:
        """They kept the others, and the firewall, from being undone."""
        refused = 'sysctl.kernel.ostype'
        file = '/proc/sys/net/ipv4/tcp_rmem'
        read = host_script.command('settings', str(self.root), refused)
        (unchanged,) = self.in_namespace(read)
        other = 'sysctl.net.ipv4.tcp_rmem=4096 87380 99999'
        release = host_script.command(
            'release', '/none', '', 'keep', unchanged, other
        )
        (value,) = self.in_namespace(f'{release}\ncat {file}')
        self.assertEqual('4096 87380 99999', ' '.join(value.split()))
        release = host_script.command(
            'release', '/none', '', 'keep', f'{refused}=Plan9', other
        )
        done = run(f"unshare -n sh -c '{RELEASE}'", RELEASE=release, FILE=file)
        self.assertEqual(1, done.stderr.count('\n'), done.stderr)
        self.assertIn(f'Cannot restore {refused} to Plan9', done.stderr)
        status, value = done.stdout.split(maxsplit=1)
        self.assertEqual(
            ('1', '4096 87380 99999'), (status, ' '.join(value.split()))
        )

    def firewall(self, path: str) -> None:
        opened = host_script.command(
            'open_firewall', NAME, self.uid, '10.9.0.2'
        )
        closed = host_script.command(
            *('release', '/none', '', 'keep'),
            f'firewall.{self.uid}={NAME}',
        )
        text = f"""{_NETWORK}
serve {self.uid} 8088
serve 0 9999
trap 'kill $stranger $servers 2>/dev/null' EXIT
for _ in 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0; do
    [ "$(ss -Htnl | wc -l)" != 2 ] || break
    sleep 0.1
done
stranger_runs sh -c '. ./get; get 10.9.0.3 8088'
{opened}
stranger_runs sh -c '. ./get; get 10.9.0.2 8088; get 10.9.0.3 8088
get 10.9.0.3 9999'
sh -c '. ./get; get 10.9.0.1 8088'
{closed}
stranger_runs sh -c '. ./get; get 10.9.0.3 8088'
"""
        get = _NETWORK[_NETWORK.index('get()') :]
        (self.directory / 'get').write_text(get)
        answers = self.in_namespace(f'cd {self.directory}\n{text}', path)
        self.assertEqual(['yes', 'yes', 'no', 'yes', 'yes', 'yes'], answers)

    def program(self, name: str) -> str:
        """Return a PATH on which only one of the two firewalls is."""
        if not shutil.which(name):
            self.skipTest(f'This machine does not have {name}.')
        programs = self.directory / 'bin'
        programs.mkdir()
        for program in (name, *_PROGRAMS):
            path = shutil.which(program)
            if path and not (programs / program).exists():
                (programs / program).symlink_to(path)
        return str(programs)

    def check_host(self, address: str, port: int) -> tuple[int, str]:
        """Check a host where a program listens on a port."""
        server = ['sh', '-c', 'ip link set lo up; exec "$0" "$@"']
        server += [sys.executable, '-IS', '-c', _SERVER, address, str(port)]
        with subprocess.Popen(
            ['unshare', '-n', *server],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout
            self.assertEqual(b'\n', process.stdout.readline())
            done = run(
                f'exec nsenter -n -t {process.pid} '
                + host_script.command('check_host', '127.1.2.3', *_SIZE)
            )
            process.kill()
        return done.returncode, done.stderr

    def test_ports_of_another_hadoop(self) -> None:
        """Its jobs were killed, as those of hvstack's own Hadoop."""
        for address, port, is_free in (
            ('127.1.2.3', 8032, False),
            ('0.0.0.0', 9870, False),
            ('::', 9866, False),
            ('::ffff:127.1.2.3', 10033, False),
            ('127.9.9.9', 8032, True),
            # The shuffle service listens on all addresses.
            ('127.9.9.9', 13562, False),
            ('0.0.0.0', 8034, True),
        ):
            status, error = self.check_host(address, port)
            self.assertEqual(0 if is_free else 1, status, error)
            message = (
                'Cannot use this host: another program listens on TCP port '
                f'{port}, which Hadoop needs. Stop the program.\n'
            )
            self.assertEqual('' if is_free else message, error)

    def test_nft(self) -> None:
        """Whoever reached the hosts' addresses could run programs."""
        self.firewall(self.program('nft'))

    def test_iptables(self) -> None:
        self.firewall(self.program('iptables'))

    def test_no_firewall(self) -> None:
        path = self.program('sh')
        text = host_script.command('open_firewall', NAME, self.uid, '10.9.0.2')
        done = run(text, PATH=path)
        self.assertEqual((1, 1), (done.returncode, done.stderr.count('\n')))
        self.assertIn("'firewall: none'", done.stderr)
