# SPDX-License-Identifier: Apache-2.0
"""Test the requirements of the demo on the machine and the lab."""

from pathlib import Path

import fixtures
import testtools

from hvstack import conf, errors
from hvstack.cli import demo
from hvstack.lab.settings import LabSettings
from hvstack.model.configuration import parse
from tests.unit.lab.written import LabProfiles


class OptionsTest(testtools.TestCase):
    """An hvstack.conf for another cloud does not apply to the demo."""

    def test_options_of_the_lab(self) -> None:
        self.useFixture(LabProfiles())
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'hosts.json'
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cluster.baseline_hosts.LAB', path)
        )
        for name, value in (
            ('CLOUD__HOST_PROFILE', 'vsphere6'),
            ('CLOUD__CONTROLLER_PROFILE', 'vsan'),
            ('CLOUD__IMAGE', 'other'),
            ('CLOUD__NETWORK', 'production'),
            ('CLOUD__AVAILABILITY_ZONE', 'az1'),
            ('CLOUD__SSH_CONFIG', '/etc/ssh/bastion'),
            ('CLOUD__HOST_KEY_SOURCE', 'console'),
            ('SWEEP__BASELINE_HOSTS', '/etc/hosts.yaml'),
        ):
            self.useFixture(fixtures.EnvironmentVariable(f'OS_{name}', value))
        for name, value in conf.variables(demo._get_lab_options()).items():
            self.useFixture(fixtures.EnvironmentVariable(name, value))
        options = conf.load(())
        self.assertEqual('lab-worker', options.cloud.host_profile)
        self.assertEqual('lab-controller', options.cloud.controller_profile)
        self.assertEqual('hvstack-hadoop', options.cloud.image)
        self.assertEqual('provider', options.cloud.network)
        self.assertFalse(options.cloud.availability_zone)
        self.assertFalse(options.cloud.ssh_config)
        self.assertEqual('heat', options.cloud.host_key_source)
        self.assertEqual(str(path), options.sweep.baseline_hosts)


class HostsTest(testtools.TestCase):
    """The demo is refused before anything is installed."""

    def check(self, hosts: int, gib: float, *names: str) -> LabSettings:
        """Check a machine with two cores and this memory."""
        for name, value in (
            ('hvstack.lab.hosts.sizes.machine_mib', lambda: int(gib * 1024)),
            ('os.cpu_count', lambda: 2),
        ):
            self.useFixture(fixtures.MonkeyPatch(name, value))
        return demo._check_machine(
            [parse(name) for name in names],
            'hvstack',
            LabSettings(hosts=hosts),
        )

    def test_lab_without_a_host_for_workers(self) -> None:
        exc = self.assertRaises(errors.InputError, self.check, 1, 24, 'i1')
        self.assertIn('lab up --hosts 2', str(exc))

    def test_settings_do_not_change(self) -> None:
        for hosts in (2, 3):
            settings = self.check(hosts, 24, *demo.CONFIGURATIONS)
            self.assertEqual(LabSettings(hosts=hosts), settings)

    def test_workers_that_are_too_small_for_hadoop(self) -> None:
        exc = self.assertRaises(errors.InputError, self.check, 2, 12, 'i1')
        self.assertIn('12.0 GiB', str(exc))
        self.assertIn('i1: ', str(exc))
        self.assertIn('--configurations', str(exc))
        self.check(2, 13, 'i1')
        self.assertRaises(errors.InputError, self.check, 2, 13, 'i2')
