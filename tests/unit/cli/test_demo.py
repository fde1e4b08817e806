# SPDX-License-Identifier: Apache-2.0
"""Test the requirements of the demo on the machine and the lab."""

import testtools

from hvstack import errors
from hvstack.cli import demo
from hvstack.lab.settings import LabSettings


class HostsTest(testtools.TestCase):
    def test_lab_without_a_host_for_workers(self) -> None:
        exc = self.assertRaises(
            errors.InputError, demo._check_hosts, LabSettings(hosts=1)
        )
        self.assertIn('lab up --hosts 2', str(exc))

    def test_settings_do_not_change(self) -> None:
        for hosts in (2, 3):
            settings = LabSettings(hosts=hosts)
            self.assertEqual(settings, demo._check_hosts(settings))
