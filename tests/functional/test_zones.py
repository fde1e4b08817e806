# SPDX-License-Identifier: Apache-2.0
"""A cluster in one of several availability zones. The lab is up.

Takes about 70 s.
"""

from hvstack.cloud import placement, undo
from hvstack.cluster.plan import ClusterSpec
from hvstack.hadoop.sizing import LAB
from hvstack.model.configuration import parse
from tests.functional.test_cluster import LabTest

NAME = 'hv-test-zone'


class ZoneTest(LabTest):
    def create_zone(self, hosts: set[str]) -> None:
        """Have a zone with some hosts until the test ends."""
        compute = self.conn.compute
        aggregate = compute.create_aggregate(name=NAME, availability_zone=NAME)
        self.addCleanup(compute.delete_aggregate, aggregate)
        for host in hosts:
            compute.add_host_to_aggregate(aggregate.id, host)
            self.addCleanup(
                compute.remove_host_from_aggregate, aggregate.id, host
            )
        # Nova changes the zone of a host without servers only.
        self.addCleanup(undo.undo_own, [self.conn])

    def test_cluster(self) -> None:
        controllers = placement.providers(
            self.conn, 'CUSTOM_HVSTACK_LAB_CONTROLLER'
        )
        hosts = {min(controllers), min(self.workers())}
        self.create_zone(hosts)
        self.launch(
            ClusterSpec(parse('i1'), tuning=LAB, availability_zone=NAME), NAME
        )
        servers = list(self.conn.compute.servers())
        self.assertEqual({NAME}, {item.availability_zone for item in servers})
        self.assertEqual(hosts, {item.compute_host for item in servers})
