# SPDX-License-Identifier: Apache-2.0
"""Test the configuration files of the lab services."""

import configparser
from pathlib import Path

import fixtures
import testtools

from hvstack import errors, share
from hvstack.lab import constants, render, services, settings
from hvstack.lab.hosts import sizes
from hvstack.lab.settings import LabSettings


class RenderTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        for name in ('SECRETS', 'SETTINGS'):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'hvstack.lab.settings._{name}',
                    self.directory / f'{name}.json',
                )
            )
        # With all that a lab may have.
        settings.save(LabSettings(ceph=True))

    def parsed(self, template: str) -> configparser.ConfigParser:
        parser = configparser.ConfigParser(interpolation=None)
        parser.read_string(render.render(template))
        return parser

    def test_every_ini_template_has_no_section_or_option_twice(self) -> None:
        # oslo.config would silently take the last one.
        for service in services.everything():
            for file in service.files:
                if file.target.suffix in ('.conf', '.ini') and (
                    service.name != 'rabbitmq'
                ):
                    self.parsed(file.template)

    def test_slow_machine_has_longer_timeouts_of_services(self) -> None:
        """Reports of Nova's services take CPU time and are as rare."""
        for factor, interval, down_time in (
            (1.0, '5', '20'),
            (20.5, '102', '410'),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(
                    'hvstack.speed.factor', lambda value=factor: value
                )
            )
            nova = self.parsed('control/nova.conf.j2')['DEFAULT']
            self.assertEqual(interval, nova['report_interval'])
            self.assertEqual(down_time, nova['service_down_time'])

    def test_slow_machine_keeps_connections_to_libvirtd(self) -> None:
        (host,) = sizes.plan(LabSettings(hosts=1), cores=2, memory=24_000)
        for factor, interval in ((1.0, '5'), (20.0, '100')):
            self.useFixture(
                fixtures.MonkeyPatch(
                    'hvstack.speed.factor', lambda value=factor: value
                )
            )
            text = render.render('host/libvirtd.conf.j2', {'host': host})
            self.assertIn(f'\nkeepalive_interval = {interval}\n', text)
            text = render.render(
                'host/nova.conf.j2',
                {'host': host, 'directory': '/d', 'dedicated': ''},
            )
            self.assertIn(f'\nreport_interval = {interval}\n', text)
            update = str(int(60 * factor))
            self.assertIn(f'\nupdate_resources_interval = {update}\n', text)

    def test_quotas_follow_from_hosts(self) -> None:
        """A stack can have 20 workers on each host, and controllers."""
        for hosts, fake_hosts, instances, cores, ports in (
            (3, 0, '500', '2000', '2000'),
            (3, 32, '735', '8960', '2000'),
            (40, 200, '5040', '61440', '10080'),
        ):
            lab_settings = settings.LabSettings(
                hosts=hosts, fake_hosts=fake_hosts
            )
            self.useFixture(
                fixtures.MonkeyPatch(
                    'hvstack.lab.settings.load',
                    lambda value=lab_settings: value,
                )
            )
            quota = self.parsed('control/nova.conf.j2')['quota']
            self.assertEqual(
                (instances, instances, cores),
                (
                    quota['instances'],
                    quota['server_group_members'],
                    quota['cores'],
                ),
            )
            quotas = self.parsed('control/neutron.conf.j2')['quotas']
            self.assertEqual(ports, quotas['quota_port'])

    def test_slow_machine_has_slower_heartbeats(self) -> None:
        """A connection has the smaller value of RabbitMQ and of the client."""
        for factor, seconds in ((1.0, '60'), (20.5, '1230')):
            self.useFixture(
                fixtures.MonkeyPatch(
                    'hvstack.speed.factor', lambda value=factor: value
                )
            )
            self.assertIn(
                f'\nheartbeat = {seconds}\n',
                render.render('control/rabbitmq.conf.j2'),
            )
            for service in ('nova', 'neutron', 'heat', 'cinder'):
                options = self.parsed(f'control/{service}.conf.j2')
                self.assertEqual(
                    seconds,
                    options['oslo_messaging_rabbit'][
                        'heartbeat_timeout_threshold'
                    ],
                )

    def test_nova_sets_no_allocation_ratio(self) -> None:
        # A ratio in nova.conf would overwrite what was set in Placement.
        text = render.render('control/nova.conf.j2')
        self.assertNotIn('allocation_ratio', text)

    def test_heat_may_ask_keystone_about_signals(self) -> None:
        # Heat appends /v3/ec2tokens, which Keystone answers to services only.
        heat = self.parsed('control/heat.conf.j2')['ec2authtoken']
        self.assertEqual('password', heat['auth_type'])
        self.assertEqual('heat', heat['username'])
        self.assertEqual(constants.url('keystone'), heat['endpoint_override'])

    def test_nova_schedules_by_what_sweeps_need(self) -> None:
        nova = self.parsed('control/nova.conf.j2')
        filters = nova['filter_scheduler']['enabled_filters'].split(',')
        for name in (
            'ServerGroupAntiAffinityFilter',
            'NUMATopologyFilter',
            'PciPassthroughFilter',
        ):
            self.assertIn(name, filters)

    def test_heat_takes_the_project_from_the_trust(self) -> None:
        # Keystone takes one scope: only owners could delete their stacks.
        trustee = self.parsed('control/heat.conf.j2')['trustee']
        self.assertEqual('heat', trustee['username'])
        self.assertNotIn('project_name', trustee)

    def test_everything_is_bound_to_lab_or_loopback(self) -> None:
        for service in services.everything():
            command_line = ' '.join(service.program.command)
            self.assertNotIn('0.0.0.0', command_line)
            if service.path:
                self.assertIn(
                    f'{constants.MGMT}:{constants.PORTS[service.name]}',
                    command_line,
                )

    def test_unknown_name_is_refused_with_the_template(self) -> None:
        (self.directory / 'x.j2').write_text('{{ nonsense }}')
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.share.LAB', self.directory)
        )
        exc = self.assertRaises(errors.InputError, render.render, 'x.j2')
        self.assertIn('x.j2', str(exc))
        self.assertIn('nonsense', str(exc))

    def test_write_tells_a_change_and_keeps_the_mode(self) -> None:
        target = self.directory / 'nova.conf'
        template = 'control/nova.conf.j2'
        self.assertTrue(render.write(template, target))
        self.assertEqual(0o600, target.stat().st_mode & 0o777)
        self.assertFalse(render.write(template, target))
        target.write_text('other')
        self.assertTrue(render.write(template, target))

    def test_every_package_is_pinned_and_no_host_is_named(self) -> None:
        text = ''.join(
            path.read_text() for path in share.LAB.rglob('constraints.txt')
        )
        for line in text.splitlines():
            if line and not line.startswith('#'):
                self.assertRegex(line, r'^[a-z0-9.-]+==[0-9][^ ]*$')
        self.assertNotIn('://', text)
