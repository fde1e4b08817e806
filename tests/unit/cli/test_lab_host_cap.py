# SPDX-License-Identifier: Apache-2.0
"""Test how a cap changes the settings of the lab hosts."""

import testtools

from hvstack.cli.lab_host_cap import capped
from hvstack.lab.hosts import sizes
from hvstack.lab.settings import LabSettings


def caps(settings: LabSettings) -> list[float]:
    host_sizes = sizes.plan(settings, cores=2, memory=24 * 1024)
    return [size.cpu_cap for size in host_sizes]


class CapTest(testtools.TestCase):
    def test_workers_only_and_back(self) -> None:
        default_settings = LabSettings(
            options={'host_sizes': {'hv-host2': {'reserved_mib': 300}}}
        )
        low = capped(default_settings, 70)
        first, *workers = caps(default_settings)
        self.assertEqual(
            [first, *(round(cap * 0.7, 3) for cap in workers)], caps(low)
        )
        # Once more is 70 % of the usual, not of what it is.
        self.assertEqual(low, capped(low, 70))
        self.assertEqual(default_settings, capped(low, 100))
