# SPDX-License-Identifier: Apache-2.0
"""Sizes, caps and files of lab hosts, without starting one."""

import configparser
import dataclasses
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors, host_profiles, pid_files, processutils, yamlfile
from hvstack.hadoop import sizing
from hvstack.lab import hosts, settings
from hvstack.lab.hosts import dedicated, fake, host, loop_devices, sizes
from hvstack.lab.settings import LabSettings
from hvstack.model import catalogue, lint
from hvstack.model.host import HostPolicy
from tests.machines import host as machine_host

GIB = 1024


def plan(**changes: Any) -> list[sizes.HostSize]:
    memory = changes.pop('memory', 24 * GIB)
    lab_settings = LabSettings(compute='lxc').change(**changes)
    return sizes.plan(lab_settings, cores=2, memory=memory)


class MachinesTest(testtools.TestCase):
    """``python -m tests.machines.host`` removed the host of a real lab."""

    def test_machine_with_a_lab(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        running = directory / 'lab.json'
        for name, value in (
            ('hosts.host.HOSTS', directory / 'hosts'),
            ('lifecycle._RUNNING', running),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.lab.{name}', value))
        machine_host.require_no_lab()
        running.write_text('{"state": "/var/lib/hvstack"}')
        self.assertRaises(SystemExit, machine_host.require_no_lab)
        running.unlink()
        (directory / 'hosts/hv-host1').mkdir(parents=True)
        self.assertRaises(SystemExit, machine_host.require_no_lab)


class SizesTest(testtools.TestCase):
    def test_default_lab(self) -> None:
        first, second, third = plan()
        self.assertEqual(
            ('controller', 0.7, 4608),
            (first.role, first.cpu_cap, first.memory_mib),
        )
        for size in (second, third):
            self.assertEqual(
                ('worker', 0.55, 5376),
                (size.role, size.cpu_cap, size.memory_mib),
            )
        self.assertEqual('10.251.0.13', third.mgmt)
        self.assertEqual('10.253.0.13', third.data)
        self.assertEqual('10.254.0.13', third.tunnel)

    def test_four_guests_of_hadoops_least_fit(self) -> None:
        # A machine that is sold as 24 GiB has somewhat less.
        (_, worker, _) = plan(memory=24 * GIB - 512)
        room = worker.memory_mib - worker.reserved_mib
        sizing.size_node(1, room // 4)

    def test_caps_leave_the_control_plane_something(self) -> None:
        for count in range(1, 8):
            hosts = plan(hosts=count)
            self.assertLessEqual(sum(size.cpu_cap for size in hosts), 1.81)
            self.assertLessEqual(
                sum(size.memory_mib for size in hosts), 20 * GIB
            )

    def test_controllers_have_room_for_application_masters(self) -> None:
        """A NodeManager and a job's ApplicationMaster, however small."""
        for count in (2, 3):
            smallest_mib = sizes.minimum_mib(count)
            first, *others = plan(hosts=count, memory=smallest_mib)
            self.assertEqual(1536 + 512, first.memory_mib)
            self.assertEqual({1536}, {size.memory_mib for size in others})
            self.assertRaises(
                errors.MissingPrerequisiteError,
                plan,
                hosts=count,
                memory=smallest_mib - 1,
            )
            # Starts of ApplicationMasters are no slower than on a worker.
            self.assertGreaterEqual(first.cpu_cap, 0.5 + 0.2)
        (only,) = plan(hosts=1, memory=sizes.minimum_mib(1))
        self.assertEqual((1.3, 1536), (only.cpu_cap, only.memory_mib))

    def test_two_controllers(self) -> None:
        """Each has a host, and both have the CPU time of one."""
        hosts = plan(hosts=4, controllers=2, racks=2)
        self.assertEqual(
            ['controller', 'controller', 'worker', 'worker'],
            [size.role for size in hosts],
        )
        (size,) = {(size.cpu_cap, size.memory_mib) for size in hosts[:2]}
        self.assertEqual((0.35, 4096 + 512), size)
        self.assertEqual([0.55, 0.55], [size.cpu_cap for size in hosts[2:]])
        self.assertEqual(
            ['', '', 'rack1', 'rack2'], [size.zone for size in hosts]
        )
        smallest_mib = sizes.minimum_mib(4, 2)
        self.assertEqual(sizes.minimum_mib(4) + 512, smallest_mib)
        plan(hosts=4, controllers=2, memory=smallest_mib)
        self.assertRaises(
            errors.MissingPrerequisiteError,
            plan,
            hosts=4,
            controllers=2,
            memory=smallest_mib - 1,
        )

    def test_a_host_for_workers_remains(self) -> None:
        for count, controllers in ((3, 0), (3, 3), (2, 2), (1, 2)):
            exc = self.assertRaises(
                errors.InputError, plan, hosts=count, controllers=controllers
            )
            self.assertIn(f'--controllers {controllers}: the lab', str(exc))

    def test_small_machine_is_refused(self) -> None:
        exc = self.assertRaises(
            errors.MissingPrerequisiteError, plan, memory=8 * GIB
        )
        self.assertIn('--hosts', str(exc))

    def test_racks_take_turns(self) -> None:
        zones = [size.zone for size in plan(hosts=5, racks=2)]
        self.assertEqual(['', 'rack1', 'rack2', 'rack1', 'rack2'], zones)

    def test_size_can_be_set(self) -> None:
        options = {'host_sizes': {'hv-host2': {'cpu_cap': 0.3}}}
        self.assertEqual(0.3, plan(options=options)[1].cpu_cap)

    def test_unknown_field_of_a_size(self) -> None:
        options = {'host_sizes': {'hv-host2': {'cores': 1}}}
        exc = self.assertRaises(errors.InputError, plan, options=options)
        self.assertIn('hv-host2', str(exc))

    def test_hadoop_on_emulated_hosts(self) -> None:
        first, second = plan(compute='qemu', hosts=2)
        self.assertEqual((2.0, 2.0), (first.cpu_cap, second.cpu_cap))
        self.assertEqual(
            (768 + 768, 768 + 2 * 768),
            (first.reserved_mib, second.reserved_mib),
        )
        self.assertEqual((512, 512), (first.tb_cache_mib, second.tb_cache_mib))
        # What is set by hand stays, and so do hosts beside others.
        options = {'host_sizes': {'hv-host2': {'cpu_cap': 0.3}}}
        _, second = plan(compute='qemu', hosts=2, options=options)
        self.assertEqual(0.3, second.cpu_cap)
        for size in plan(host_compute={'hv-host3': 'qemu'}):
            self.assertEqual(64, size.tb_cache_mib)
            self.assertLess(size.cpu_cap, 1)

    def test_memory_of_four_emulated_hosts(self) -> None:
        """Page cache of the machine becomes that of two guests each."""
        memory = 24 * GIB - 512
        (_, *shared), (_, *emulated), (_, *many) = (
            plan(hosts=hosts, memory=memory, compute=backend)
            for hosts, backend in ((4, 'lxc'), (4, 'qemu'), (5, 'qemu'))
        )
        self.assertEqual({4352}, {size.memory_mib for size in shared})
        for size in emulated:
            room = size.memory_mib - size.reserved_mib
            sizing.size_node(1, room // 2, tuning='lab')
            self.assertRaises(
                errors.InputError,
                *(sizing.size_node, 1, room // 2 - 1),
                tuning='lab',
            )
        # As much as is left for the page cache does not suffice for these.
        self.assertEqual({3328}, {size.memory_mib for size in many})

    def test_disks_of_ceph_are_for_machines_only(self) -> None:
        for compute, ceph, count in (
            ('qemu', True, 2),
            ('qemu', False, None),
            ('lxc', True, None),
        ):
            host_profiles = sizes.profiles(plan(compute=compute), ceph=ceph)
            self.assertEqual(
                {'lab-controller', 'lab-worker'}, set(host_profiles)
            )
            self.assertIsNone(host_profiles['lab-controller'].disks)
            disks = host_profiles['lab-worker'].disks
            self.assertEqual(count, disks and disks.count)

    def test_profile_keeps_the_agents_memory(self) -> None:
        worker = sizes.profile(plan()[1])
        self.assertEqual('lab-worker', worker.name)
        self.assertEqual(sizes.RESERVED_MIB, worker.reserved_memory_mib)
        self.assertEqual({'worker': sizes.WORKER_TRAIT}, worker.traits)

    def test_profile_says_what_follows_from_the_lab(self) -> None:
        self.assertEqual(
            HostPolicy(
                lab=True,
                shared_kernel=True,
                cpu_shares=True,
                secondary_namenode=False,
                spare_gateway=True,
            ),
            sizes.profile(plan()[1]).policy,
        )


class CataloguesTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.lab.hosts.sizes.CATALOGUES', self.directory
            )
        )

    def names(self, role: str) -> list[str]:
        path = self.directory / f'lab-{role}.yaml'
        return [
            flavor['name'] for flavor in yamlfile.load(path).data['flavors']
        ]

    def write(self, hosts: list[sizes.HostSize]) -> None:
        sizes.write_catalogues(sizes.profiles(hosts).values())

    def test_each_role_has_its_host(self) -> None:
        hosts = plan()
        self.write(hosts)
        self.assertEqual(2, len(self.names('worker')))
        self.assertEqual(1, len(self.names('controller')))
        for size in hosts[:2]:
            document = yamlfile.load(self.directory / f'lab-{size.role}.yaml')
            role_catalogue = catalogue.from_mapping(
                document.data, document.source_location()
            )
            for finding in lint.check_catalogue(
                sizes.profile(size),
                role_catalogue,
                host_profiles.load_extra_specs(),
            ):
                self.assertNotEqual(lint.ERROR, finding.level, str(finding))

    def test_what_is_approved_stays_while_its_size_does(self) -> None:
        self.write(plan())
        path = self.directory / 'lab-worker.yaml'
        path.write_text(path.read_text().replace('candidate', 'approved'))
        self.write(plan())
        self.assertEqual(2, path.read_text().count('status: approved'))
        self.write(plan(hosts=6))
        self.assertNotIn('approved', path.read_text())


class DedicatedTest(testtools.TestCase):
    def test_rest_is_shared(self) -> None:
        self.assertEqual('0', sizes.rest_of('1', 2))
        self.assertEqual('0,4,5,7', sizes.rest_of('1-3,6', 8))
        self.assertEqual('', sizes.rest_of('0-1', 2))
        self.assertEqual('', sizes.rest_of('', 2))

    def test_a_mode_for_the_workers_hosts(self) -> None:
        lab_settings = LabSettings(
            compute='qemu',
            host_compute={'hv-host3': 'lxc'},
            options={'dedicated': {'hv-host3': '1'}},
        )
        for name, value in (
            ('os.cpu_count', 4),
            ('hvstack.lab.hosts.sizes.machine_mib', 24 * GIB),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(name, lambda amount=value: amount)
            )
        self.assertEqual({}, dedicated(lab_settings, 'shared'))
        self.assertEqual(
            {'hv-host2': '0-3'}, dedicated(lab_settings, 'dedicated')
        )
        # Its controllers take shared ones.
        alone = LabSettings(hosts=1, compute='qemu')
        self.assertEqual({'hv-host1': '1-3'}, dedicated(alone, 'dedicated'))

    def test_sets_that_cannot_be(self) -> None:
        for text in ('0-2', '2', 'one', '1-'):
            exc = self.assertRaises(errors.InputError, sizes.rest_of, text, 2)
            self.assertIn(repr(text), str(exc))


class FakeProfileTest(testtools.TestCase):
    def test_dedicated_host_of_vsphere6(self) -> None:
        profile = fake.from_profile(host_profiles.load('vsphere6'))
        first, second = profile['cells']
        self.assertEqual(set(fake.DEFAULT_PROFILE['cells'][0]), set(first))
        self.assertEqual(
            [*range(10), *range(20, 30)], sorted(first['dedicated'])
        )
        self.assertEqual([], first['shared'])
        self.assertEqual([[n, n + 20] for n in range(10)], first['siblings'])
        self.assertEqual(
            [[n, n + 20] for n in range(10, 20)], second['siblings']
        )
        self.assertEqual(131072, first['memory_mib'])
        # vsphere6, Table 1: 241 GiB for guests.
        self.assertEqual(
            241 * 1024, 2 * (first['hugepages_2m'] + second['hugepages_2m'])
        )
        # 20 disks of 600 GB, as Nova reports a file system on them.
        self.assertEqual(10952, profile['disk_gb'])

    def test_shared_host(self) -> None:
        profile = fake.from_profile(host_profiles.load('amd'), 'shared')
        for cell in profile['cells']:
            self.assertEqual([], cell['dedicated'])
            self.assertNotEqual([], cell['shared'])
            self.assertEqual(0, cell['hugepages_2m'])


class FilesTest(testtools.TestCase):
    """What a host's files say, written to a directory of the test's."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.swap('hvstack.lab.settings._SECRETS', self.directory / 'secrets')
        self.swap(
            'hvstack.lab.settings._SETTINGS', self.directory / 'settings'
        )
        self.swap('hvstack.lab.hosts.host.HOSTS', self.directory)
        self.swap('hvstack.lab.venv.directory', lambda: Path('/venv'))

    def swap(self, name: str, value: Any) -> None:
        self.useFixture(fixtures.MonkeyPatch(name, value))

    def configured(
        self, backend: str = 'lxc', dedicated: str = '', **fields: Any
    ) -> tuple[Path, set[str]]:
        size = dataclasses.replace(plan()[1], backend=backend, **fields)
        options = {'dedicated': {size.name: dedicated}}
        stale = host.configure(size, options)
        return host.directory(size.name), stale

    def nova(self, directory: Path) -> configparser.ConfigParser:
        parser = configparser.ConfigParser(interpolation=None)
        parser.read_string((directory / 'nova.conf').read_text())
        return parser

    def test_host_whose_first_process_ended(self) -> None:
        directory, _ = self.configured()
        (directory / 'log').mkdir(exist_ok=True)
        (directory / 'log/init.log').write_text('mount: no such directory')
        self.swap('hvstack.lab.hosts.nova.ready', lambda *_: False)
        exc = self.assertRaises(
            errors.HVStackError,
            hosts._wait,
            None,
            [directory.name],
            {directory.name: 0.0},
        )
        self.assertIn(directory.name, str(exc))
        self.assertIn('no such directory', str(exc))

    def test_kernel_without_numa(self) -> None:
        """Every path of a NUMA node is mounted only if there are nodes."""
        directory, _ = self.configured()
        outside, _, inside = (
            (directory / 'init').read_text().partition('if [ -d /sys/devices/')
        )
        nodes, _, after = inside.partition('\nfi\n')
        self.assertIn('$H/sys/meminfo0 $nodes/node0/meminfo', nodes)
        self.assertNotIn('system/node/', outside + after)
        self.assertNotIn('$nodes', outside + after)

    def test_machine_with_two_cells(self) -> None:
        """Emulated hosts have the cells, containers only the first."""
        self.swap('hvstack.lab.hosts.numa.read_cells', lambda _: ((0,), (1,)))
        directory, _ = self.configured('qemu')
        init = (directory / 'init').read_text()
        self.assertIn('$H/sys/meminfo1 $nodes/node1/meminfo', init)
        self.assertNotIn('mount -t tmpfs -o mode=755 tmpfs $nodes', init)
        parts = [
            int((directory / f'sys/meminfo{node}').read_text().split()[3])
            for node in range(2)
        ]
        self.assertEqual([2688 * 1024] * 2, parts)
        directory, _ = self.configured('lxc')
        init = (directory / 'init').read_text()
        self.assertNotIn('node1', init)
        self.assertIn('mount -t tmpfs -o mode=755 tmpfs $nodes', init)

    def test_compute_has_no_database(self) -> None:
        directory, _ = self.configured()
        conf = self.nova(directory)
        self.assertNotIn('database', conf)
        self.assertNotIn('api_database', conf)
        self.assertEqual('lxc', conf['libvirt']['virt_type'])
        self.assertEqual('hv-host2', conf['DEFAULT']['host'])
        self.assertNotIn('compute', conf)

    def test_no_ratio_but_the_initial_ones(self) -> None:
        directory, _ = self.configured()
        ratios = [
            key for key in self.nova(directory)['DEFAULT'] if 'ratio' in key
        ]
        self.assertEqual(3, len(ratios))
        for key in ratios:
            self.assertTrue(key.startswith('initial_'), key)

    def test_qemu_host_shares_what_is_not_dedicated(self) -> None:
        directory, _ = self.configured('qemu', '1')
        conf = self.nova(directory)
        self.assertEqual('qemu', conf['libvirt']['virt_type'])
        self.assertEqual('1', conf['compute']['cpu_dedicated_set'])
        self.assertEqual('0', conf['compute']['cpu_shared_set'])
        self.assertIn('virtlogd', (directory / 'supervisord.conf').read_text())
        self.assertIn('libvirt-qemu:', (directory / 'etc/passwd').read_text())

    def test_room_for_translated_code(self) -> None:
        for fields, size in (({}, '64'), ({'tb_cache_mib': 512}, '512')):
            directory, _ = self.configured('qemu', **fields)
            conf = self.nova(directory)
            self.assertEqual(size, conf['libvirt']['tb_cache_size'])

    def test_secrets_are_roots(self) -> None:
        directory, _ = self.configured()
        for name in ('nova.conf', 'metadata.ini', 'supervisord.conf'):
            mode = (directory / name).stat().st_mode & 0o777
            self.assertEqual(0o600, mode, name)

    def test_only_emulators_of_a_lab_with_ceph_get_its_key(self) -> None:
        def keys(backend: str) -> list[str]:
            directory, _ = self.configured(backend)
            secrets_dir = directory / 'etc/libvirt/secrets'
            return sorted(path.suffix for path in secrets_dir.glob('*'))

        settings.save(LabSettings(compute='qemu', ceph=True))
        self.assertEqual([], keys('lxc'))
        self.assertEqual(['.base64', '.xml'], keys('qemu'))
        settings.save(LabSettings(compute='qemu'))
        self.assertEqual([], keys('qemu'))

    def test_second_time_nothing_is_stale(self) -> None:
        _, first = self.configured()
        self.assertEqual({'nova-compute', 'metadata', 'libvirtd'}, first)
        _, second = self.configured()
        self.assertEqual(set(), second)

    def test_reported_memory_is_the_cap(self) -> None:
        directory, _ = self.configured()
        tokens = (directory / 'sys/meminfo0').read_text().split()
        self.assertEqual(
            str(5376 * 1024), tokens[tokens.index('MemTotal:') + 1]
        )
        self.assertEqual('0-1\n', (directory / 'sys/cpus').read_text())
        self.assertEqual('3\n', (directory / 'sys/cpumap').read_text())

    def test_users_with_names_that_are_not_utf_8(self) -> None:
        """An older system has names of users in Latin-1 in /etc/passwd."""
        users = 'root:x:0:0:J\udcfcrgen:/root:/bin/sh\n'
        read_text = Path.read_text

        def read(path: Path, *args: Any, **options: Any) -> str:
            if str(path) not in ('/etc/passwd', '/etc/group'):
                return read_text(path, *args, **options)
            content = users.encode('utf-8', 'surrogateescape')
            return content.decode('utf-8', options.get('errors', 'strict'))

        self.swap('pathlib.Path.read_text', read)
        for _ in range(2):
            directory, _ = self.configured()
            content = (directory / 'etc/passwd').read_bytes()
            self.assertIn(b':J\xfcrgen:', content)

    def test_machine_with_many_cpus(self) -> None:
        """libnuma, hence libvirt, saw 64 CPUs of more."""
        full = 'ffffffff'
        for cpus, text in (
            (32, full),
            (36, f'f,{full}'),
            (65, f'1,{full},{full}'),
            (128, f'{full},{full},{full},{full}'),
        ):
            directory, _ = self.configured(cpus=cpus)
            path = directory / 'sys/cpumap'
            self.assertEqual(f'{text}\n', path.read_text())

    def test_directories_of_the_lab_on_loop_devices(self) -> None:
        """They were unmounted in the host, which ended."""
        # The cache may be a link.
        link = self.directory / 'link'
        link.symlink_to('/cache')
        self.swap('hvstack.lab.venv.directory', lambda: link / 'venv')
        directory, _ = self.configured()
        init = (directory / 'init').read_text()
        loop = init[init.index("grep '^/dev/loop'") :].partition('\ndone\n')[0]
        table = self.directory / 'mounts'
        table.write_text(
            ''.join(
                f'/dev/loop{number} {path} ext4 rw 0 0\n'
                for number, path in enumerate(
                    (
                        *('/', '/cac', '/cache', '/mnt/a\\040b'),
                        *(self.directory, directory, f'{directory}/bare'),
                    )
                )
            )
        )
        done = processutils.run(
            [
                *('bash', '-euc'),
                'umount() { echo "$2"; }\n'
                + loop.replace('/proc/mounts', str(table))
                + '\ndone',
            ]
        )
        self.assertEqual(
            [f'{directory}/bare', '/mnt/a b', '/cac'], done.stdout.splitlines()
        )

    def test_strangers_process_is_not_entered(self) -> None:
        directory, _ = self.configured()
        record = directory / 'pid.json'
        pid_files.write(record, os.getpid())
        data = json.loads(record.read_text())
        record.write_text(json.dumps({**data, 'start': data['start'] + 1}))
        done = processutils.run([directory / 'enter', 'true'], check=False)
        self.assertEqual(69, done.returncode)
        self.assertIn('lab host on hv-host2', done.stderr)

    def test_programs_are_valid_shell(self) -> None:
        directory, _ = self.configured()
        for name in ('init', 'enter', 'enter-bare', 'bin/losetup'):
            processutils.run(['bash', '-n', directory / name])
        compile(
            (directory / 'bin/nova-compute').read_text(),
            'nova-compute',
            'exec',
        )


#: Unmounts a file system of a machine ($0) while a host, which the arguments
#: start, has it and a mount of its own.
_UNMOUNT = """
mount -t tmpfs x "$0" && mount --make-shared "$0" &&
    mkdir "$0/disk" "$0/own" && mount -t tmpfs x "$0/disk" || exit 77
{
    timeout 10 sh -c 'until [ -e "$0/ready" ]; do sleep 0.01; done' "$0"
    grep -c " $0/own " /proc/self/mounts >&2
    umount "$0/disk"
    echo
} | "$@" sh -c '
    mount -t proc proc /proc
    mount -t tmpfs x "$0/own"
    mount --bind "$0/own" "$0/own" && mount --make-shared "$0/own" || exit 1
    grep -o " $0/disk " /proc/mounts
    touch "$0/ready"
    read -r line
    grep -o " $0/disk " /proc/mounts
    grep -o " $0/own " /proc/mounts
' "$0"
"""


class MountsTest(testtools.TestCase):
    def test_file_system_that_the_machine_unmounts(self) -> None:
        """It stayed in use in the hosts, until the lab was stopped."""
        if os.geteuid():
            self.skipTest('needs root')
        top = self.useFixture(fixtures.TempDir()).path
        private = ['unshare', '-m', '--propagation', 'private']
        if processutils.run([*private, 'true'], check=False).returncode:
            self.skipTest('needs CAP_SYS_ADMIN')
        done = subprocess.run(
            [*private, 'sh', '-c', _UNMOUNT, top, *host._NAMESPACES],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 77:
            self.skipTest('no file system can be mounted')
        self.assertEqual(
            [f' {top}/disk ', *2 * [f' {top}/own ']], done.stdout.splitlines()
        )
        self.assertEqual('0\n', done.stderr)


class DisksTest(testtools.TestCase):
    def test_lost_disk_is_recognised(self) -> None:
        path = '/1fb2429f-f8ba-4de6-96b2-578f32f641e4/disk (deleted)'
        self.assertTrue(loop_devices._LOST_DISK.fullmatch(path))
        self.assertIsNone(loop_devices._LOST_DISK.fullmatch('/home/me/disk'))

    def file(self, name: str) -> Path:
        """Return a file of a fresh file system; its inode is always one."""
        top = Path(self.useFixture(fixtures.TempDir()).path)
        done = processutils.run(
            ['mount', '-t', 'tmpfs', 'x', top], check=False
        )
        if done.returncode:
            self.skipTest('no file system can be mounted')
        self.addCleanup(processutils.run, ['umount', top])
        path = top / name / 'bare.raw'
        path.parent.mkdir()
        path.write_bytes(bytes(65536))
        return path

    def attach(self, path: Path) -> str:
        done = processutils.run(['losetup', '-f', '--show', path], check=False)
        if done.returncode:
            self.skipTest('there are no loop devices')
        device = done.stdout.strip()
        self.addCleanup(
            processutils.run, ['losetup', '--detach', device], check=False
        )
        return device

    def test_loop_device_of_another_program(self) -> None:
        """It was detached if its file had the inode of a lab's disk."""
        if os.geteuid():
            self.skipTest('needs root')
        managed, other = self.file('hv-host1'), self.file('backup')
        self.assertEqual(managed.stat().st_ino, other.stat().st_ino)
        devices = [self.attach(path) for path in (managed, other)]
        loop_devices.detach(managed.parent.parent)
        backing = [
            Path(f'/sys/block/{Path(device).name}/loop/backing_file').exists()
            for device in devices
        ]
        self.assertEqual([False, True], backing)
