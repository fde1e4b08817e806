# SPDX-License-Identifier: Apache-2.0
"""Guests on a tenant network behind a router. The lab is up.

Takes about 40 s. Only ping is tried: Open vSwitch 3.1 drops packets with
offloads of the userspace datapath when it sends them through a tunnel.
"""

from typing import Any

from hvstack.lab.hosts import host
from tests.functional.test_hosts import LAST, HostsTest

HOSTS = ('hv-host2', LAST)
_CIDR = '192.0.2.0/24'


class TenantNetworkTest(HostsTest):
    def create_network(self) -> Any:
        """Create a network with a router; returns its subnet."""
        network = self.cloud.network
        created = network.create_network(name=self.name)
        self.addCleanup(network.delete_network, created)
        subnet = network.create_subnet(
            name=self.name, network_id=created.id, ip_version=4, cidr=_CIDR
        )
        external = network.find_network('provider')
        router = network.create_router(
            name=self.name, external_gateway_info={'network_id': external.id}
        )
        self.addCleanup(network.delete_router, router)
        network.add_interface_to_router(router, subnet_id=subnet.id)
        self.addCleanup(
            network.remove_interface_from_router, router, subnet_id=subnet.id
        )
        return subnet

    def assign_floating_ip(self, server: Any) -> str:
        """Give a server a floating IP, and return it."""
        network = self.cloud.network
        (port,) = network.ports(device_id=server.id)
        external = network.find_network('provider')
        floating = network.create_ip(
            floating_network_id=external.id, port_id=port.id
        )
        self.addCleanup(network.delete_ip, floating)
        return str(floating.floating_ip_address)

    def test_guests_of_two_hosts_reach_each_other(self) -> None:
        self.create_network()
        flavor = self.flavor()
        first, second = (
            self.active(self.start(flavor, where, network=self.name))
            for where in HOSTS
        )
        # The host of a guest answers for its floating IP: without a tunnel.
        floating_ip = self.assign_floating_ip(first)
        self.answers(first, address=floating_ip)
        ping = f'ping -c 1 -w 30 {self.address(second)} >/dev/null && echo ok'
        self.wait(first, ping, 'ok', floating_ip)
        # Each start of the switch creates a new interface of tunnels.
        for name in HOSTS:
            host.supervisorctl(name, 'restart', 'ovs')
        self.answers(first, address=floating_ip)
        self.wait(first, ping, 'ok', floating_ip)
