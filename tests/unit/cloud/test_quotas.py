# SPDX-License-Identifier: Apache-2.0
"""Quotas that are too small are named, all at once, with the remedy."""

from typing import Any

import requests
import testtools

from hvstack import errors
from hvstack.cloud import connection, quotas
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
        self.cloud.http.get(f'{fake.CINDER}/os-quota-sets/p1', status_code=403)
        quotas.check(self.conn, Need(volumes=10, gigabytes=10))
        self.assertIn('--volumes 11 ', self.refused(Need(volumes=11)))
        message = self.refused(Need(volumes=1, gigabytes=11))
        self.assertIn('--gigabytes 101 ', message)


class VolumeTypesTest(testtools.TestCase):
    """Cinder has quotas of volume types, and of the size of a volume."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        for url in (fake.NOVA, fake.CINDER):
            self.cloud.http.get(f'{url}/limits', json=limits({}))
        self.conn = self.cloud.connect()
        self.url = f'{fake.CINDER}/os-quota-sets/p1'

    def test_too_few(self) -> None:
        quota = {'limit': -1, 'in_use': 0, 'reserved': 0}
        self.cloud.http.get(
            f'{self.url}?usage=True',
            json={
                'quota_set': {
                    'id': 'p1',
                    'per_volume_gigabytes': quota | {'limit': 500},
                    'volumes_my_ssd': {'limit': 8, 'in_use': 2, 'reserved': 1},
                    'gigabytes_my_ssd': quota | {'limit': 2500},
                    'volumes_hdd': quota,
                    'gigabytes_hdd': quota,
                }
            },
        )
        types = {'my_ssd': 5, 'hdd': 90}
        quotas.check(
            self.conn, Need(volumes=95, volume_gb=500, volume_types=types)
        )
        error = self.assertRaises(
            errors.InputError,
            quotas.check,
            self.conn,
            Need(
                volumes=96, volume_gb=501, volume_types=types | {'my_ssd': 6}
            ),
        )
        for part in (
            "volumes of type 'my_ssd' 6 needed, 5 left of 8",
            "gigabytes of type 'my_ssd' 3006 needed, 2500 left of 2500",
            "'openstack quota set --per-volume-gigabytes 501 p1'",
            "'openstack quota set --volume-type my_ssd --volumes 9 "
            "--gigabytes 3006 p1'",
        ):
            self.assertIn(part, str(error))

    def test_quotas_that_cannot_be_read(self) -> None:
        self.cloud.http.get(self.url, status_code=403)
        quotas.check(
            self.conn, Need(volumes=1, volume_gb=1, volume_types={'ssd': 1})
        )


class NeutronTest(testtools.TestCase):
    """A cluster has a port for each node, and a security group."""

    def setUp(self) -> None:
        super().setUp()
        cloud = self.useFixture(
            fake.FakeCloud(services={'network': fake.NEUTRON})
        )
        cloud.http.get(f'{fake.NOVA}/limits', json=limits({}))
        self.http = cloud.http
        self.conn = cloud.connect()
        self.url = f'{fake.NEUTRON}/quotas/p1/details'

    def test_too_few(self) -> None:
        quota = {
            'port': {'limit': 500, 'used': 20, 'reserved': 1},
            'security_group': {'limit': 10, 'used': 10, 'reserved': 0},
        }
        self.http.get(self.url, json={'quota': quota})
        quotas.check(self.conn, Need(instances=1, ports=479))
        error = self.assertRaises(
            errors.InputError,
            quotas.check,
            self.conn,
            Need(ports=480, security_groups=1),
        )
        for part in (
            'ports 480 needed, 479 left of 500, security groups 1 needed, 0 ',
            "'openstack quota set --ports 501 --secgroups 11 p1'",
        ):
            self.assertIn(part, str(error))

    def test_quotas_that_cannot_be_read(self) -> None:
        for status in (403, 404):
            self.http.get(self.url, status_code=status)
            quotas.check(self.conn, Need(ports=10000))
        self.http.get(self.url, exc=requests.ConnectionError('down'))
        error = self.assertRaises(
            errors.CloudError, quotas.check, self.conn, Need(ports=1)
        )
        self.assertIn('Cannot read the quotas of Neutron', str(error))


class UnifiedLimitsTest(testtools.TestCase):
    """Nova has its limits in Keystone, and counts Placement's classes."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.conn = connection.connect(
            credential=fake.CREDENTIAL | {'region_name': 'RegionOne'}
        )
        self.service = next(
            item['id']
            for item in connection.access(self.conn).service_catalog.catalog
            if item['type'] == 'compute'
        )
        self.registered = [
            self.registered_limit(name, limit)
            for name, limit in (
                ('servers', 10),
                ('class:VCPU', 4),
                ('class:PCPU', 40),
                ('server_groups', 3),
            )
        ]
        self.own = [
            {
                **self.registered_limit('class:PCPU', 0),
                'id': 'limit-1',
                'project_id': project,
                'resource_limit': limit,
            }
            for project, limit in (('p1', 30), ('p2', 1))
        ]
        # What has no limit in Keystone is 0 in Nova's own API.
        self.nova = NOVA | {
            'maxTotalCores': 4,
            'maxTotalRAMSize': 0,
            'maxServerGroups': 3,
            'maxServerGroupMembers': 0,
        }
        self.usages = {'VCPU': 4, 'PCPU': 6}
        http = self.cloud.http
        http.get(f'{fake.NOVA}/limits', json=lambda *_: limits(self.nova))
        http.get(
            f'{fake.KEYSTONE}/registered_limits',
            json=lambda *_: {'registered_limits': self.registered},
        )
        http.get(
            f'{fake.KEYSTONE}/limits', json=lambda *_: {'limits': self.own}
        )
        http.get(
            f'{fake.PLACEMENT}/usages?project_id=p1',
            json=lambda *_: {'usages': self.usages},
        )

    def registered_limit(self, name: str, limit: int) -> dict[str, Any]:
        """Return a registered limit of Keystone."""
        return {
            'id': f'r-{name}',
            'service_id': self.service,
            'region_id': 'RegionOne',
            'resource_name': name,
            'default_limit': limit,
        }

    def refused(self, need: Need) -> str:
        error = self.assertRaises(
            errors.InputError, quotas.check, self.conn, need
        )
        return str(error)

    def test_enough(self) -> None:
        """Dedicated CPUs are no VCPU, and RAM has no limit."""
        need = Need(
            instances=8,
            cores=24,
            ram=10**6,
            server_groups=3,
            server_group_members=50,
            classes={'PCPU': 24, 'MEMORY_MB': 10**6, 'DISK_GB': 10**5},
        )
        quotas.check(self.conn, need)

    def test_each_is_named(self) -> None:
        message = self.refused(
            Need(instances=9, cores=26, classes={'PCPU': 25, 'VCPU': 1})
        )
        for part in (
            'servers 9 needed, 8 left of 10',
            'class:PCPU 25 needed, 24 left of 30',
            'class:VCPU 1 needed, 0 left of 4',
            "'openstack limit create --project p1 --service "
            f"{self.service} --region RegionOne --resource-limit 11 servers'",
            "'openstack limit set --resource-limit 31 limit-1'",
        ):
            self.assertIn(part, message)
        self.assertNotIn('quota set', message)
        self.assertNotIn('\n', message)

    def test_users_without_rights_in_placement(self) -> None:
        self.cloud.http.get(f'{fake.PLACEMENT}/usages', status_code=403)
        quotas.check(self.conn, Need(classes={'PCPU': 30}))
        self.assertIn('0 left of 4', self.refused(Need(classes={'VCPU': 1})))

    def test_limits_that_nova_does_not_use(self) -> None:
        """Keystone has some, but Nova reports others."""
        self.nova['maxTotalCores'] = 20
        self.nova['maxTotalRAMSize'] = -1
        quotas.check(self.conn, Need(cores=16, classes={'PCPU': 100}))
        self.assertIn('--cores 21', self.refused(Need(cores=17)))

    def test_limits_of_others(self) -> None:
        """Those of another service or region are not Nova's here."""
        limits_of_nova = self.registered
        for change in ({'service_id': 'other'}, {'region_id': 'RegionTwo'}):
            self.registered = [limit | change for limit in limits_of_nova]
            self.assertIn('--cores ', self.refused(Need(cores=1)))
        self.registered = [
            limit | {'region_id': None} for limit in limits_of_nova
        ]
        quotas.check(self.conn, Need(cores=1))

    def test_a_keystone_that_does_not_answer(self) -> None:
        path = f'{fake.KEYSTONE}/registered_limits'
        for status in (403, 404):
            self.cloud.http.get(path, status_code=status)
            self.assertIn('--cores ', self.refused(Need(cores=1)))
        self.cloud.http.get(path, status_code=500)
        error = self.assertRaises(
            errors.CloudError, quotas.check, self.conn, Need(cores=1)
        )
        self.assertIn('Cannot read the limits in Keystone', str(error))


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
