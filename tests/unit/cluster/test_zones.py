# SPDX-License-Identifier: Apache-2.0
"""Clusters in one of several availability zones."""

from typing import Any

import testtools

from hvstack import errors
from hvstack.cluster import heat_environment, planner
from hvstack.cluster.plan import ClusterPlan, ClusterSpec
from hvstack.model.configuration import parse
from tests.unit.cloud import fake
from tests.unit.cluster.test_launch import cloud_options


def list_zones(*names: str, down: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return zones as Nova and Cinder list them."""
    return {
        'availabilityZoneInfo': [
            {
                'zoneName': name,
                'zoneState': {'available': name not in down},
                'hosts': None,
            }
            for name in (*names, *down)
        ]
    }


class ZonesTest(testtools.TestCase):
    """Four hosts of profile vsphere6, two in each zone."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.cloud.hosts(4)
        self.volume_zones = ['nova']
        http = self.cloud.http
        http.get(
            f'{fake.NOVA}/os-availability-zone',
            json=list_zones('az1', 'az2', down=('az3',)),
        )
        http.get(
            f'{fake.NOVA}/os-services?binary=nova-compute',
            json={
                'services': [
                    {
                        'id': host,
                        'binary': 'nova-compute',
                        'host': host,
                        'zone': zone,
                    }
                    for host, zone in (
                        *(('h0', 'az1'), ('h1', 'az1')),
                        *(('h2', 'az2'), ('h3', 'az2')),
                    )
                ]
            },
        )
        http.get(
            f'{fake.CINDER}/os-availability-zone',
            json=lambda *_: list_zones(*self.volume_zones),
        )

    def plan(self, zone: str = '', **options: Any) -> ClusterPlan:
        """Return a plan for four workers of each host."""
        return planner.plan_cluster(
            self.cloud.connect(),
            ClusterSpec(parse('i4'), availability_zone=zone),
            cloud_options(host_profile='vsphere6', backend='kvm', **options),
        )

    def test_hosts_of_the_zone(self) -> None:
        anywhere = self.plan()
        self.assertEqual(15, anywhere.nodes.workers)
        parameters = heat_environment.parameters(anywhere)
        self.assertNotIn('availability_zone', parameters)
        for plan in (self.plan('az2'), self.plan(availability_zone='az2')):
            self.assertEqual(7, plan.nodes.workers)
            self.assertEqual({'h2', 'h3'}, set(plan.hosts.providers))
            parameters = heat_environment.parameters(plan)
            self.assertEqual('az2', parameters['availability_zone'])
            self.assertNotIn('volume_zone', parameters)
        self.assertEqual(
            {'h0', 'h1'},
            set(self.plan('az1', availability_zone='az2').hosts.providers),
        )

    def test_volumes(self) -> None:
        """Cinder has such a zone, or Nova attaches volumes of any."""
        self.volume_zones = ['nova', 'az1']
        for zone, expected in (('az1', 'az1'), ('az2', None), ('', None)):
            parameters = heat_environment.parameters(self.plan(zone))
            self.assertEqual(expected, parameters.get('volume_zone'))

    def test_zones_that_cannot_be_used(self) -> None:
        for zone in ('az3', 'az9'):
            error = self.assertRaises(errors.InputError, self.plan, zone)
            self.assertIn(f"'{zone}': Nova has no such zone", str(error))
            self.assertIn('Use one of az1, az2 with', str(error))
