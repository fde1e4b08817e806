# SPDX-License-Identifier: Apache-2.0
"""Test the requirements of the demo on the machine and the lab."""

import fixtures
import testtools

from hvstack import errors
from hvstack.cli import demo
from hvstack.lab.settings import LabSettings
from hvstack.model.configuration import parse


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
