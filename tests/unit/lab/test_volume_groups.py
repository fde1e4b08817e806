# SPDX-License-Identifier: Apache-2.0
"""Test the local volumes of lab hosts with programs of the test's."""

import configparser
import dataclasses
import shutil
import uuid
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors, processutils
from hvstack.lab import settings, stages
from hvstack.lab.hosts import host, nvmet, sizes, volume_groups
from hvstack.lab.settings import LabSettings
from tests.unit.lab.test_nvmet import Kernel

LAB_ID = '1a2b3c4d-0000-4000-8000-000000000001'
GROUP = 'hvstack-1a2b3c4d-hv-host2-disk-slot-1'
VOLUME = '6f0b3f6e-9d3c-4f43-8d4c-0a6d1f3f2a10'
#: Name of a volume in the device mapper.
MAPPED = (
    'hvstack--1a2b3c4d--hv--host2--disk--slot--1-volume--'
    + VOLUME.replace('-', '--')
)
#: Programs that print what files say, and note their arguments.
_PROGRAMS = {
    'losetup': """case "$*" in
*--associated*) cat "$top/loops/$(basename "$5")" 2>/dev/null || true ;;
*--show*)
    number=$(ls "$top/loops" | wc -l)
    echo "/dev/loop$number" | tee "$top/loops/$(basename "$3")"
    ;;
esac""",
    'vgs': 'cat "$top/groups"',
    'vgcreate': 'echo "$4" >>"$top/groups"',
    'vgchange': """[ "$2" = y ] || [ -e "$top/stuck" ] ||
    rm -rf "$top"/block/dm-*""",
    'dmsetup': 'rm -rf "$top/block/dm-1"',
    'truncate': 'exec /usr/bin/truncate "$@"',
}


class HostFixture(fixtures.Fixture):
    """A lab with LVM, whose host has its files in a directory of the test's.

    :param programs: additional programs by name.
    """

    def _setUp(self) -> None:
        self.top = Path(self.useFixture(fixtures.TempDir()).path)
        self.kernel = self.useFixture(Kernel())
        self.directory = self.top / 'hosts/hv-host2'
        for name in ('loops', 'block', 'bin', 'dev', 'run', 'hosts/hv-host2'):
            (self.top / name).mkdir(parents=True)
        (self.top / 'groups').touch()
        (self.top / 'id').write_text(LAB_ID)
        for name, value in (
            ('settings._SECRETS', self.top / 'secrets'),
            ('settings._SETTINGS', self.top / 'settings'),
            ('settings._ID', self.top / 'id'),
            ('stages._MARKS', self.top / 'marks.json'),
            ('hosts.host.HOSTS', self.top / 'hosts'),
            ('hosts.volume_groups._BLOCK_DEVICES', self.top / 'block'),
            ('hosts.volume_groups._DEVICES', self.top / 'dev'),
            ('hosts.volume_groups._RUN_LVM', self.top / 'run'),
            ('venv.directory', lambda: Path('/venv')),
        ):
            self.swap(name, value)
        for name, text in _PROGRAMS.items():
            self.create(name, text)
        path = f'{self.top}/bin:/bin:/usr/bin'
        self.useFixture(fixtures.EnvironmentVariable('PATH', path))
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.processutils.search_path', lambda: path
            )
        )
        settings.save(LabSettings(compute='qemu', lvm=True))

    def swap(self, name: str, value: Any) -> None:
        """Replace something of the lab."""
        self.useFixture(fixtures.MonkeyPatch(f'hvstack.lab.{name}', value))

    def create(self, name: str, text: str) -> None:
        """Create a program that notes its arguments."""
        program = self.top / 'bin' / name
        program.write_text(
            f'#!/bin/sh\ntop={self.top}\n'
            f'echo "{name} $* ($LVM_SYSTEM_DIR)" >>"$top/calls"\n{text}\n'
        )
        program.chmod(0o755)

    def read_calls(self) -> list[str]:
        """Return the programs that were run, and forget them."""
        path = self.top / 'calls'
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    def add_device(self, name: str, file: str, text: str) -> None:
        """Create a block device in sysfs."""
        path = self.top / 'block' / name / file
        path.parent.mkdir(parents=True)
        path.write_text(f'{text}\n')


class NamesTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.lab = self.useFixture(HostFixture())

    def test_names_are_those_of_one_lab_and_host(self) -> None:
        volumes = volume_groups.describe('hv-host2')
        self.assertEqual(
            {
                'disk-slot-1': GROUP,
                'disk-slot-2': GROUP.replace('slot-1', 'slot-2'),
            },
            volumes.groups,
        )
        self.assertEqual(f'hvstack-{LAB_ID}-hv-host2', volumes.prefix)
        other = volume_groups.describe('hv-host1')
        self.assertNotEqual(volumes.port_id, other.port_id)
        self.assertNotEqual(volumes.host_id, other.host_id)
        self.assertEqual(volumes, volume_groups.describe('hv-host2'))
        uuid.UUID(volumes.host_id)

    def test_names_are_not_too_long(self) -> None:
        """LVM and the device mapper have 127 characters, NVMe 223."""
        volumes = volume_groups.describe('hv-host40')
        for group in volumes.groups.values():
            mapped = f'{group}-{VOLUME}'.replace('-', '--') + '-volume--'
            self.assertLess(len(mapped), 120)
        self.assertLess(len(f'nqn.{volumes.prefix}-{VOLUME}'), 223)

    def test_containers_have_none(self) -> None:
        size = sizes.plan(LabSettings(compute='kvm'), cores=2, memory=24_000)[
            1
        ]
        lxc = dataclasses.replace(size, backend='lxc')
        self.assertIsNone(volume_groups.find(lxc))
        self.assertIsNotNone(volume_groups.find(size))
        settings.save(LabSettings(compute='kvm'))
        self.assertIsNone(volume_groups.find(size))


class DevicesTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.lab = self.useFixture(HostFixture())
        self.directory = self.lab.directory

    def attach(self) -> list[str]:
        volume_groups.attach('hv-host2', self.directory)
        return self.lab.read_calls()

    def test_attach(self) -> None:
        calls = self.attach()
        created = [call for call in calls if call.startswith('vgcreate ')]
        system = f'({self.directory}/lvm)'
        self.assertEqual(
            [
                f'vgcreate --yes --setautoactivation n {GROUP} /dev/loop0 '
                f'{system}',
                'vgcreate --yes --setautoactivation n '
                f'{GROUP[:-1]}2 /dev/loop1 {system}',
            ],
            created,
        )
        self.assertIn(f'vgchange --activate y {GROUP} {system}', calls)
        disk = self.directory / 'disks/disk-slot-1.img'
        self.assertEqual(3_000_000_000, disk.stat().st_size)
        self.assertEqual(0, disk.stat().st_blocks)
        self.assertEqual(0o600, disk.stat().st_mode & 0o777)

    def test_attach_again(self) -> None:
        """Neither a disk nor a group is created a second time."""
        self.attach()
        disk = self.directory / 'disks/disk-slot-1.img'
        disk.write_text('data')
        calls = self.attach()
        self.assertEqual('data', disk.read_text())
        for word in ('vgcreate', 'truncate', '--show'):
            self.assertNotIn(word, ' '.join(calls))
        self.assertIn('vgchange --activate y', ' '.join(calls))

    def test_disk_of_an_interrupted_start(self) -> None:
        (self.directory / 'disks').mkdir()
        disk = self.directory / 'disks/disk-slot-1.img'
        disk.touch()
        self.attach()
        self.assertEqual(3_000_000_000, disk.stat().st_size)

    def test_lvm_sees_only_the_disks_of_the_host(self) -> None:
        calls = self.attach()
        for call in calls:
            if call.startswith('vg'):
                self.assertIn(f'({self.directory}/lvm)', call)
        text = (self.directory / 'lvm/lvm.conf').read_text()
        for name in ('filter', 'global_filter'):
            self.assertIn(
                f'    {name} = [ "a|^/dev/loop0$|", "a|^/dev/loop1$|", '
                '"r|.*|" ]\n',
                text,
            )
        self.assertIn('    use_devicesfile = 0\n', text)

    def test_attached_disks_are_listed(self) -> None:
        backing = 'loop/backing_file'
        disks = self.directory / 'disks'
        self.lab.add_device('loop0', backing, f'{disks}/disk-slot-2.img')
        self.lab.add_device('loop1', backing, '/srv/disks/disk-slot-1.img')
        self.lab.add_device('loop2', backing, f'{self.directory}/bare.raw')
        self.assertEqual(
            ['disk-slot-2'], volume_groups.list_attached(self.directory)
        )

    def release(self) -> list[str]:
        volume_groups.release('hv-host2', self.directory)
        return self.lab.read_calls()

    def test_host_without_volumes_is_not_changed(self) -> None:
        shutil.rmtree(self.lab.kernel.target)
        self.assertEqual([], self.release())

    def test_release(self) -> None:
        self.attach()
        volumes = volume_groups.describe('hv-host2')
        self.lab.kernel.add_volume(GROUP, VOLUME)
        nvmet.export_volumes(
            volumes.prefix, '10.251.0.12', '4420', volumes.port_id, [GROUP]
        )
        deleted = self.lab.kernel.add_controller(
            'nvme0', f'nqn.{volumes.prefix}-{VOLUME}', 'nqn.other'
        )
        self.lab.add_device('dm-1', 'dm/name', MAPPED)
        self.lab.add_device('dm-2', 'dm/name', 'vg0-root')
        links = self.lab.top / 'dev' / GROUP
        links.mkdir()
        (links / f'volume-{VOLUME}').symlink_to('/dev/null')
        calls = self.release()
        self.assertEqual('1', deleted.read_text())
        for name in ('subsystems', 'ports'):
            self.assertEqual(
                [], list((self.lab.kernel.target / name).iterdir())
            )
        self.assertEqual(
            [f'vgchange --activate n {GROUP} ({self.directory}/lvm)'], calls
        )
        self.assertFalse(links.exists())

    def test_release_without_the_configuration_of_lvm(self) -> None:
        self.attach()
        self.lab.add_device('dm-1', 'dm/name', MAPPED)
        (self.lab.top / 'stuck').touch()
        calls = self.release()
        self.assertEqual(
            [f'dmsetup remove --noudevsync --retry {MAPPED} ()'], calls[1:]
        )

    def test_volume_that_is_in_use(self) -> None:
        self.attach()
        self.lab.create('dmsetup', 'exit 1')
        self.lab.add_device('dm-1', 'dm/name', MAPPED)
        (self.lab.top / 'stuck').touch()
        exc = self.assertRaises(errors.BusyError, self.release)
        self.assertIn(MAPPED, str(exc))

    def test_group_whose_name_is_longer(self) -> None:
        """The dash between names is single: others are doubled."""
        self.attach()
        self.lab.add_device(
            'dm-1', 'dm/name', MAPPED.replace('1-volume', '1--b-volume')
        )
        self.assertEqual([], self.release())


class FilesTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.lab = self.useFixture(HostFixture())

    def configure(self, **fields: Any) -> Path:
        size = sizes.plan(LabSettings(compute='kvm'), cores=2, memory=24_000)[
            1
        ]
        host.configure(dataclasses.replace(size, **fields), {})
        return host.directory(size.name)

    def test_backends(self) -> None:
        directory = self.configure()
        conf = configparser.ConfigParser(interpolation=None)
        conf.read_string((directory / 'cinder.conf').read_text())
        # InstanceLocalityFilter compares this name with that in nova.conf.
        nova = configparser.ConfigParser(interpolation=None)
        nova.read_string((directory / 'nova.conf').read_text())
        self.assertEqual(nova['DEFAULT']['host'], conf['DEFAULT']['host'])
        names = conf['DEFAULT']['enabled_backends'].split(',')
        self.assertEqual(['disk-slot-1', 'disk-slot-2'], names)
        for name in names:
            self.assertEqual(name, conf[name]['volume_backend_name'])
            self.assertEqual(
                GROUP.replace('disk-slot-1', name), conf[name]['volume_group']
            )
            self.assertNotIn('backend_host', conf[name])
        defaults = conf['backend_defaults']
        self.assertEqual('nvmet', defaults['target_helper'])
        self.assertEqual('nvmet_tcp', defaults['target_protocol'])
        self.assertIn('hvstack-', defaults['target_prefix'])
        self.assertEqual('10.251.0.12', conf['DEFAULT']['my_ip'])
        self.assertIn(
            f'?unix_socket={directory}/mysql/mysql.sock',
            conf['database']['connection'],
        )
        mode = (directory / 'cinder.conf').stat().st_mode & 0o777
        self.assertEqual(0o600, mode)

    def test_programs(self) -> None:
        directory = self.configure()
        processutils.run(['bash', '-n', directory / 'init'])
        program = directory / 'bin/cinder-volume'
        compile(program.read_text(), 'cinder-volume', 'exec')
        self.assertIn('cinder.privsep:sys_admin_pctxt', program.read_text())
        conf = configparser.ConfigParser(interpolation=None)
        conf.read_string((directory / 'supervisord.conf').read_text())
        agent = conf['program:cinder-volume']
        self.assertEqual(
            f'LVM_SYSTEM_DIR="{directory}/lvm"', agent['environment']
        )
        self.assertNotIn('environment', conf['program:nova-compute'])

    def test_volumes_are_exported_before_the_agents_start(self) -> None:
        directory = self.configure()
        init = (directory / 'init').read_text()
        volumes = volume_groups.describe('hv-host2')
        _, _, rest = init.partition(f'{nvmet.__file__} {volumes.prefix}')
        self.assertIn('exec /venv/bin/supervisord', rest)
        self.assertIn(f'10.251.0.12 4420 {volumes.port_id}', rest)
        self.assertIn(GROUP, rest)
        rules, _, _ = init.partition(nvmet.__file__)
        self.assertIn('iifname != { "lo", "eth0" } tcp dport 4420 drop', rules)
        before, _, _ = init.partition('mount -t tmpfs -o mode=755 tmpfs /run')
        self.assertIn('mysql $H/mysql', before)

    def test_initiator(self) -> None:
        """The names of the machine's initiator are not changed."""
        directory = self.configure()
        nqn = (directory / 'etc/nvme/hostnqn').read_text()
        host_id = (directory / 'etc/nvme/hostid').read_text()
        self.assertEqual(f'nqn.2014-08.org.nvmexpress:uuid:{host_id}', nqn)
        init = (directory / 'init').read_text()
        self.assertIn('mount --bind $H/etc/nvme /etc/nvme', init)

    def test_host_that_has_none_any_more(self) -> None:
        directory = self.configure()
        self.assertTrue(volume_groups.is_used_by(directory))
        settings.save(LabSettings(compute='kvm'))
        self.configure()
        self.assertFalse(volume_groups.is_used_by(directory))
        for name in ('init', 'supervisord.conf'):
            text = (directory / name).read_text()
            for word in ('nvme', 'mysql', 'cinder'):
                self.assertNotIn(word, text, name)


class PowerTest(testtools.TestCase):
    def test_volumes_are_released_before_the_links(self) -> None:
        """Linux waits a minute for a connection whose address is gone."""
        lab = self.useFixture(HostFixture())
        steps: list[str] = []

        def release(name: str, directory: Path) -> None:
            steps.append('volumes')
            raise errors.BusyError('in use')

        lab.swap('hosts.volume_groups.release', release)
        lab.swap('hosts.cgroups.exists', lambda name: False)
        lab.swap('bridges.delete', steps.append)
        self.assertRaises(errors.BusyError, host.power_off, 'hv-host2')
        self.assertEqual(['volumes', 'hv-mgmt2'], steps[:2])


class VolumesTest(testtools.TestCase):
    def test_volumes_of_hosts(self) -> None:
        lab = self.useFixture(HostFixture())
        rows = (
            'v1\thv-host1@disk-slot-1#disk-slot-1\n'
            'v2\thv-host2@disk-slot-1#disk-slot-1\n'
        )
        lab.create('mariadb', f"printf '{rows}'")
        self.assertEqual([], volume_groups.list_volumes())
        stages.mark('schema:cinder')
        self.assertEqual(['v1', 'v2'], volume_groups.list_volumes())
        self.assertEqual(['v2'], volume_groups.list_volumes(['hv-host2']))
        self.assertEqual([], volume_groups.list_volumes(['hv-host3']))
