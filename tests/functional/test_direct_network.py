# SPDX-License-Identifier: Apache-2.0
"""A cluster whose nodes are connected past the switches. The lab is up.

Takes about 150 s.
"""

from openstack.network.v2.port import Port

from hvstack.cloud import undo
from hvstack.cluster.plan import ClusterSpec
from hvstack.hadoop.sizing import LAB
from hvstack.lab import constants
from hvstack.lab.hosts import host
from hvstack.model.configuration import parse
from hvstack.model.vnics import MACVTAP
from hvstack.tpcxhs import run as tpcxhs
from hvstack.tpcxhs.workload import Workload
from tests.functional.test_cluster import LabTest

NAME = 'hv-test-direct'


class DirectNetworkTest(LabTest):
    def list_ports(self) -> list[Port]:
        """Return the ports of servers on the network."""
        network = self.conn.network.find_network(constants.DIRECT_PHYSNET)
        return [
            port
            for port in self.conn.network.ports(network_id=network.id)
            if port.device_owner.startswith('compute:')
        ]

    def remove_port_security(self) -> None:
        """Have a network as operators of SR-IOV often have it."""
        network = self.conn.network.find_network(
            constants.DIRECT_PHYSNET, ignore_missing=False
        )
        self.addCleanup(
            self.conn.network.update_network,
            network,
            is_port_security_enabled=True,
        )
        self.conn.network.update_network(
            network, is_port_security_enabled=False
        )

    def test_cluster(self) -> None:
        self.remove_port_security()
        cluster = self.launch(
            ClusterSpec(parse('i1'), tuning=LAB, vnic=MACVTAP),
            NAME,
        )
        ports = self.list_ports()
        self.assertEqual(3, len(ports))
        for port in ports:
            self.assertEqual('macvtap', port.binding_vif_type)
            self.assertEqual([], port.security_group_ids)
            [address] = port.fixed_ips
            self.assertEqual('10.253.0', address['ip_address'][:8])
            # No packet of the node goes through the switch of its host.
            switch_ports = host.enter(
                port.binding_host_id, 'ovs-vsctl', 'list-ports', 'br-int'
            ).stdout
            self.assertNotIn(port.id[:11], switch_ports)
        run_result = tpcxhs.run(cluster, Workload(10_000_000, 2, 2, 2))
        self.assertEqual('', run_result.reason)
        undo.undo_own([self.conn])
        self.assertEqual([], self.list_ports())
