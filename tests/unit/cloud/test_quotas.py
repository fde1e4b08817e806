# SPDX-License-Identifier: Apache-2.0
"""Quotas that are too small are named, all at once, with the remedy."""

from typing import Any

import testtools

from hvstack import errors
from hvstack.cloud import quotas
from hvstack.cloud.quotas import Need
from tests.unit.cloud import fake

NOVA: dict[str, int] = {
    'maxTotalInstances': 10,
    'totalInstancesUsed': 2,
    'maxTotalCores': 20,
    'totalCoresUsed': 4,
    'maxTotalRAMSize': -1,
    'totalRAMUsed': 8192,
    'maxServerGroups': 10,
    'totalServerGroupsUsed': 0,
    'maxServerGroupMembers': 10,
}


class QuotaTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.cloud.http.get(f'{fake.NOVA}/limits', json=limits(NOVA))
        self.conn = self.cloud.connect()

    def refused(self, need: Need) -> str:
        error = self.assertRaises(
            errors.InputError, quotas.check, self.conn, need
        )
        return str(error)

    def test_enough(self) -> None:
        need = Need(
            instances=8,
            cores=16,
            ram=10**9,
            server_groups=1,
            server_group_members=10,
        )
        quotas.check(self.conn, need)

    def test_each_is_named(self) -> None:
        for name, limit, used in (
            ('instances', 10, 2),
            ('cores', 20, 4),
            ('server_groups', 10, 0),
            ('server_group_members', 10, 0),
        ):
            message = self.refused(Need(**{name: limit - used + 1}))
            self.assertIn(f'{name.replace("_", " ")} ', message)
            option = f'--{name.replace("_", "-")} {limit + 1}'
            self.assertIn(f"'openstack quota set {option} p1'", message)

    def test_all_in_one_line(self) -> None:
        message = self.refused(Need(instances=32, server_group_members=30))
        for part in (
            'instances 32 needed, 8 left of 10, server group members 30',
            'openstack quota set --instances 34 --server-group-members 30 p1',
        ):
            self.assertIn(part, message)
        self.assertNotIn('\n', message)

    def test_memory(self) -> None:
        self.cloud.http.get(
            f'{fake.NOVA}/limits',
            json=limits(NOVA | {'maxTotalRAMSize': 9000}),
        )
        self.assertIn('--ram 9001 ', self.refused(Need(ram=809)))

    def test_volumes(self) -> None:
        self.cloud.http.get(
            f'{fake.CINDER}/limits',
            json=limits(
                {
                    'maxTotalVolumes': 10,
                    'totalVolumesUsed': 0,
                    'maxTotalVolumeGigabytes': 100,
                    'totalGigabytesUsed': 90,
                }
            ),
        )
        quotas.check(self.conn, Need(volumes=10, gigabytes=10))
        self.assertIn('--volumes 11 ', self.refused(Need(volumes=11)))
        message = self.refused(Need(volumes=1, gigabytes=11))
        self.assertIn('--gigabytes 101 ', message)


class NoCinderTest(testtools.TestCase):
    def test_no_block_storage(self) -> None:
        cloud = self.useFixture(fake.FakeCloud(without=('block-storage',)))
        cloud.http.get(f'{fake.NOVA}/limits', json=limits(NOVA))
        conn = cloud.connect()
        quotas.check(conn, Need(instances=1))
        error = self.assertRaises(
            errors.MissingPrerequisiteError,
            quotas.check,
            conn,
            Need(volumes=2),
        )
        self.assertIn('2 volumes: the cloud has no block storage', str(error))


def limits(absolute: dict[str, int]) -> dict[str, Any]:
    """Return an answer of Nova's or Cinder's."""
    return {'limits': {'absolute': absolute, 'rate': []}}
