# SPDX-License-Identifier: Apache-2.0
"""Cinder with LVM in the lab: settings, stages, files and answers."""

import configparser
import os

import testtools

from hvstack import errors, pid_files
from hvstack.lab import (
    bridges,
    constants,
    doctor,
    hosts,
    identity,
    lvm,
    packages,
    port_conflicts,
    render,
    requirements,
    services,
    settings,
    stages,
)
from hvstack.lab.hosts import sizes, volume_groups
from hvstack.lab.settings import LabSettings
from hvstack.model import pinned_disks
from hvstack.model.configuration import parse
from tests.unit.lab import cinder_cloud
from tests.unit.lab.cinder_cloud import CinderCloud
from tests.unit.lab.test_volume_groups import HostFixture

QEMU = LabSettings(hosts=2, compute='qemu', lvm=True)


class SettingsTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.lab = self.useFixture(HostFixture())

    def test_ceph_and_lvm_have_volume_types_of_the_same_names(self) -> None:
        exc = self.assertRaises(
            errors.InputError, LabSettings, ceph=True, lvm=True
        )
        self.assertIn('--without ceph', str(exc))
        self.assertNotIn('\n', str(exc))

    def test_containers_cannot_attach_volumes(self) -> None:
        exc = self.assertRaises(
            errors.InputError,
            hosts.planned,
            LabSettings(compute='lxc', lvm=True),
            probing=False,
        )
        self.assertIn('--with lvm', str(exc))
        self.assertIn('--host-compute hv-host3=qemu', str(exc))

    def test_services(self) -> None:
        names = {service.name for service in services.everything()}
        settings.save(LabSettings(compute='qemu'))
        added = names - {service.name for service in services.everything()}
        # The hosts have the volume services.
        self.assertEqual({'cinder', 'cinder-scheduler'}, added)
        self.assertNotIn(identity.CINDER, identity.catalogue())
        settings.save(QEMU)
        self.assertIn(identity.CINDER, identity.catalogue())

    def test_ports_and_packages(self) -> None:
        added = set(port_conflicts.needed(lvm=True)) - set(
            port_conflicts.needed()
        )
        self.assertEqual({(constants.MGMT, 8776)}, added)
        added_packages = set(packages.needed(ceph=False, lvm=True)) - set(
            packages.needed(ceph=False)
        )
        self.assertEqual({'kmod', 'lvm2', 'nvme-cli'}, added_packages)

    def test_kernel_is_checked_only_with_lvm(self) -> None:
        def refuse() -> None:
            raise errors.MissingPrerequisiteError('no module')

        for name in ('switch', 'proxy', 'path', 'disk'):
            self.lab.swap(f'requirements.check_{name}', lambda *_: None)
        self.lab.swap('hosts.cgroups.check', lambda: None)
        self.lab.swap('kernel_modules.check', refuse)
        self.lab.swap('hosts.sizes.machine_mib', lambda: 64_000)
        if os.geteuid():
            self.skipTest('needs root')
        requirements.check(LabSettings(untested=True))
        self.assertRaises(
            errors.MissingPrerequisiteError,
            requirements.check,
            LabSettings(untested=True, lvm=True),
        )

    def test_profiles(self) -> None:
        """A worker of i2 has one disk, and volumes fit a volume group."""
        plan = sizes.plan(QEMU, cores=4, memory=24_000)
        profiles = sizes.profiles(plan, lvm=True)
        worker = profiles['lab-worker']
        assert worker.disks is not None
        self.assertEqual(len(constants.LOCAL_SLOTS), worker.disks.count)
        self.assertTrue(worker.policy.local_volumes)
        self.assertFalse(profiles['lab-controller'].policy.local_volumes)
        self.assertIsNone(
            pinned_disks.explain_unsupported(worker, parse('i2-pinned'))
        )
        gib = pinned_disks.compute_volume_gib(worker.disks.size_gb)
        self.assertLess(gib * 2**30, worker.disks.size_gb * 10**9)
        mixed = [
            *plan,
            *sizes.plan(LabSettings(compute='lxc'), cores=4, memory=24_000),
        ]
        self.assertIsNone(sizes.profiles(mixed, lvm=True)['lab-worker'].disks)

    def test_hosts_keep_memory_for_the_volume_service(self) -> None:
        """It also makes them start again: a running host has no exports."""
        before = sizes.plan(QEMU.change(lvm=False), cores=4, memory=24_000)
        for old, new in zip(
            before, sizes.plan(QEMU, cores=4, memory=24_000), strict=True
        ):
            self.assertGreater(new.reserved_mib, old.reserved_mib)
        containers = LabSettings(compute='lxc')
        self.assertEqual(
            sizes.plan(containers, cores=4, memory=24_000),
            sizes.plan(containers.change(lvm=True), cores=4, memory=24_000),
        )


class FilesTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.lab = self.useFixture(HostFixture())

    def parse(self) -> configparser.ConfigParser:
        parser = configparser.ConfigParser(interpolation=None)
        parser.read_string(render.render('control/cinder.conf.j2'))
        return parser

    def test_scheduler_selects_the_host_of_the_server(self) -> None:
        conf = self.parse()
        filters = conf['DEFAULT']['scheduler_default_filters'].split(',')
        self.assertEqual('InstanceLocalityFilter', filters[-1])
        self.assertIn('CapacityFilter', filters)
        self.assertEqual('nova', conf['nova']['username'])
        self.assertNotIn('backend_defaults', conf)
        self.assertNotIn('enabled_backends', conf['DEFAULT'])

    def test_filter_can_be_turned_off(self) -> None:
        settings.save(QEMU.change(options={'locality': False}))
        filters = self.parse()['DEFAULT']['scheduler_default_filters']
        self.assertNotIn('InstanceLocalityFilter', filters)

    def test_lab_with_ceph_keeps_its_own(self) -> None:
        settings.save(LabSettings(compute='qemu', ceph=True))
        conf = self.parse()
        self.assertNotIn('scheduler_default_filters', conf['DEFAULT'])
        self.assertIn('backend_defaults', conf)

    def test_filter_waits_for_a_slow_machine(self) -> None:
        self.lab.swap('render.scaled', lambda seconds: 20 * seconds)
        text = render.render('control/cinder-scheduler.j2')
        compile(text, 'cinder-scheduler', 'exec')
        self.assertIn('REQUESTS_TIMEOUT = 600\n', text)
        [scheduler] = [
            service
            for service in services.cinder()
            if service.name == 'cinder-scheduler'
        ]
        self.assertEqual(
            str(services.CINDER_SCHEDULER.target),
            scheduler.program.command[0],
        )
        self.assertIn(services.CINDER_SCHEDULER, scheduler.files)


class FilterTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.lab = self.useFixture(HostFixture())
        self.lab.create('nft', 'cat >"$top/rules"')

    def rules(self) -> str:
        bridges._filter(untested=False)
        return (self.lab.top / 'rules').read_text()

    def test_exports_are_for_hosts_only(self) -> None:
        rule = 'iifname != "hv-mgmt" oifname "hv-mgmt" tcp dport 4420 drop'
        self.assertIn(rule, self.rules())
        settings.save(LabSettings(compute='qemu'))
        self.assertNotIn('forward', self.rules())
        # LVM is not stopped yet, or it could not be stopped.
        stages.mark(bridges.LVM_MARK)
        self.assertIn(rule, self.rules())

    def test_kernel_without_a_packet_filter(self) -> None:
        """Guests must not reach volumes, also not with --untested."""
        self.lab.create('nft', 'exit 1')
        self.assertRaises(
            errors.MissingPrerequisiteError, bridges._filter, untested=True
        )
        settings.save(LabSettings(compute='qemu'))
        bridges._filter(untested=True)


class ChangeTest(testtools.TestCase):
    """What is in the way of a change, and what is not."""

    def setUp(self) -> None:
        super().setUp()
        self.lab = self.useFixture(HostFixture())
        self.lab.swap('supervisord.alive', lambda: True)
        stages.mark('schema:cinder')
        self.answer([], [])
        pid_files.write(self.lab.directory / 'pid.json', os.getpid())

    def answer(self, volumes: list[str], servers: list[str]) -> None:
        """Answer in place of the database."""
        self.lab.create(
            'mariadb',
            'case "$(cat)" in\n'
            f"*cinder*) printf '{''.join(volumes)}' ;;\n"
            f"*) printf '{''.join(servers)}' ;;\nesac",
        )

    def refused(self, after: LabSettings) -> str:
        exc = self.assertRaises(errors.BusyError, lvm.check_change, after)
        self.assertNotIn('\n', str(exc))
        return str(exc)

    def test_nothing_in_the_way(self) -> None:
        settings.save(QEMU)
        lvm.check_change(QEMU.change(lvm=False))
        settings.save(QEMU.change(lvm=False))
        lvm.check_change(QEMU)

    def test_volumes(self) -> None:
        settings.save(QEMU)
        self.answer(['v1\\thv-host2@disk-slot-1#disk-slot-1\\n'], [])
        self.assertIn('(v1)', self.refused(QEMU.change(lvm=False)))
        lvm.check_change(QEMU)

    def test_servers(self) -> None:
        """The hosts are started again for it."""
        self.answer([], ['s1\\thv-host2\\n', 's2\\thv-host1\\n'])
        for before in (True, False):
            settings.save(QEMU.change(lvm=before))
            message = self.refused(QEMU.change(lvm=not before))
            # The first host does not run.
            self.assertIn('(s1)', message)
            option = '--without lvm' if before else '--with lvm'
            self.assertIn(option, message)

    def test_servers_of_containers(self) -> None:
        before = QEMU.change(lvm=False, host_compute={'hv-host2': 'lxc'})
        settings.save(before)
        self.answer([], ['s1\\thv-host2\\n'])
        lvm.check_change(before.change(lvm=True))

    def test_lab_that_is_stopped(self) -> None:
        """It is checked when its database answers."""
        settings.save(QEMU)
        self.answer(['v1\\thv-host2@disk-slot-1#disk-slot-1\\n'], [])
        self.lab.swap('supervisord.alive', lambda: False)
        lvm.check_change(QEMU.change(lvm=False))
        self.assertRaises(errors.BusyError, lvm.leave)

    def test_stages(self) -> None:
        without = QEMU.change(lvm=False)
        self.assertEqual([], lvm.plan(without))
        self.assertEqual([], lvm.plan_types(without))
        self.assertEqual(1, len(lvm.plan_types(QEMU)))
        [stage] = lvm.plan(QEMU)
        self.lab.swap('kernel_modules.load', lambda: None)
        self.assertEqual([], lvm.stays())
        stage.action()
        [line] = lvm.stays()
        self.assertIn('nvmet-tcp', line)
        [stage] = lvm.plan(without)
        self.assertEqual('taking LVM away', stage.title)
        halted: list[str] = []
        self.lab.swap('control_plane.halt', halted.extend)
        self.lab.swap('supervisord.remove', lambda name: None)
        settings.save(without)
        stage.action()
        self.assertIn('cinder', halted)
        self.assertIn('cinder-scheduler', halted)
        self.assertEqual([], lvm.plan(without))

    def test_leave_keeps_cinder_that_has_volumes(self) -> None:
        self.answer(['v1\\thv-host2@disk-slot-1#disk-slot-1\\n'], [])
        stages.mark(bridges.LVM_MARK)
        self.lab.swap('control_plane.halt', self.fail)
        self.assertRaises(errors.BusyError, lvm.leave)
        self.assertEqual(1, len(lvm.plan(QEMU.change(lvm=False))))


class HostsTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.lab = self.useFixture(HostFixture())
        settings.save(QEMU)
        self.states = {'cinder-volume': 'RUNNING'}
        self.lab.swap('hosts.host.agents', lambda name: self.states)
        self.lab.swap('supervisord.alive', lambda: True)
        pid_files.write(self.lab.directory / 'pid.json', os.getpid())

    def attach(self, slot: str) -> None:
        self.lab.add_device(
            f'loop{slot[-1]}',
            'loop/backing_file',
            f'{self.lab.directory}/disks/{slot}.img',
        )

    def test_doctor(self) -> None:
        """Only a host that runs is checked."""
        self.attach('disk-slot-1')
        [finding] = doctor._volumes()
        self.assertEqual('local volumes of hv-host2', finding.check)
        self.assertEqual('fault', finding.state)
        self.assertIn('disk-slot-2 has no loop device', finding.detail)
        self.attach('disk-slot-2')
        [finding] = doctor._volumes()
        self.assertEqual('ok', finding.state)
        self.states['cinder-volume'] = 'BACKOFF'
        [finding] = doctor._volumes()
        self.assertIn('cinder-volume is BACKOFF', finding.detail)
        settings.save(QEMU.change(lvm=False))
        self.assertEqual([], list(doctor._volumes()))

    def test_status(self) -> None:
        size = sizes.plan(QEMU, cores=2, memory=24_000)[1]
        self.attach('disk-slot-1')
        self.assertEqual(', 1 of 2 local disks', hosts._describe_disks(size))
        settings.save(QEMU.change(lvm=False))
        self.assertEqual('', hosts._describe_disks(size))

    def test_host_with_a_volume_is_not_removed(self) -> None:
        # Its process, which would be ended, is this one.
        (self.lab.directory / 'pid.json').unlink()
        stages.mark('schema:cinder')
        self.lab.create(
            'mariadb', "printf 'v1\\thv-host2@disk-slot-1#disk-slot-1\\n'"
        )
        self.lab.swap('hosts.nova.servers', lambda *_: {})
        self.lab.swap('hosts.host.list_names', lambda: ['hv-host2'])
        exc = self.assertRaises(errors.BusyError, hosts._drop_others, None, [])
        self.assertIn('(v1)', str(exc))


class VolumeTypesTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.lab = self.useFixture(HostFixture())
        settings.save(QEMU)
        for name in ('hv-host1', 'hv-host2'):
            path = self.lab.top / 'hosts' / name
            path.mkdir(exist_ok=True)
            pid_files.write(path / 'pid.json', os.getpid())

    def cinder(self, *backends: str) -> CinderCloud:
        return self.useFixture(CinderCloud(constants.LOCAL_SLOTS, backends))

    def test_one_type_for_a_disk_of_all_hosts(self) -> None:
        cloud = self.cinder(
            *(
                f'hv-host{number}@{slot}'
                for number in (1, 2)
                for slot in constants.LOCAL_SLOTS
            )
        )
        for _ in range(2):
            lvm.fill(cloud.cloud.connect())
        self.assertEqual(
            [{'volume_backend_name': slot} for slot in constants.LOCAL_SLOTS],
            [volume_type['extra_specs'] for volume_type in cloud.types],
        )

    def test_backend_that_does_not_come_up(self) -> None:
        """A host that is off has none."""
        cloud = self.cinder('hv-host1@disk-slot-1', 'hv-host2@disk-slot-1')
        self.lab.swap('lvm._READY_SECONDS', 0)
        exc = self.assertRaises(
            errors.DeadlineExceededError, lvm.fill, cloud.cloud.connect()
        )
        self.assertIn('hv-host1@disk-slot-2, hv-host2@disk-slot-2', str(exc))
        (self.lab.top / 'hosts/hv-host1/pid.json').unlink()
        cloud.backends.append('hv-host2@disk-slot-2')
        lvm.fill(cloud.cloud.connect())

    def test_backends_of_a_host_that_was_started(self) -> None:
        """Earlier reports do not count."""
        cloud = self.cinder()
        services_of_cinder = [
            {
                'binary': 'cinder-volume',
                'host': f'hv-host2@{slot}',
                'state': 'up',
                'status': 'enabled',
                'updated_at': f'1970-01-01T00:0{index + 1}:00.000000',
            }
            for index, slot in enumerate(constants.LOCAL_SLOTS)
        ]
        cloud.cloud.http.get(
            f'{cinder_cloud.CINDER}/os-services',
            json={'services': services_of_cinder},
        )
        conn = cloud.cloud.connect()
        for names, since, expected in (
            (['hv-host2'], {}, True),
            (['hv-host2'], {'hv-host2': 30.0}, True),
            (['hv-host2'], {'hv-host2': 90.0}, False),
            (['hv-host1', 'hv-host2'], {}, False),
        ):
            self.assertEqual(
                expected, volume_groups.are_backends_up(conn, names, since)
            )
