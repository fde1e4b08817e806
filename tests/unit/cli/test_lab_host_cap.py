# SPDX-License-Identifier: Apache-2.0
import testtools

from hvstack.cli.lab_host_cap import capped
from hvstack.lab.hosts import sizes
from hvstack.lab.settings import LabSettings


def caps(settings: LabSettings) -> list[float]:
    found = sizes.plan(settings, cores=2, memory=24 * 1024)
    return [one.cpu_cap for one in found]


class CapTest(testtools.TestCase):
    def test_workers_only_and_back(self) -> None:
        usual = LabSettings(
            options={'host_sizes': {'hv-host2': {'reserved_mib': 300}}}
        )
        low = capped(usual, 70)
        first, *workers = caps(usual)
        self.assertEqual(
            [first, *(round(one * 0.7, 3) for one in workers)], caps(low)
        )
        # Once more is 70 % of the usual, not of what it is.
        self.assertEqual(low, capped(low, 70))
        self.assertEqual(usual, capped(low, 100))
