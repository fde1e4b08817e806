# SPDX-License-Identifier: Apache-2.0
"""Derived flavors fill a host as they promise, by Nova's own scheduler.

The lab's fake hosts report the hardware of the host profile vsphere6; all
else is Nova's and Placement's own.
"""

from typing import Any

import openstack

from hvstack import host_profiles, processutils
from hvstack.cloud import cluster_flavors, undo
from hvstack.model.configuration import parse
from hvstack.model.flavor import derive_flavor
from tests.functional.test_hosts import HostsTest

HOST = 'hv-fake1'
#: The first microversion that lets the scheduler check a host that is asked
#: for by name, rather than take it unseen.
ASK_FOR_HOST = '2.74'


class FakeHostTest(HostsTest):
    """Boots servers on a fake host with the hardware of vsphere6."""

    def setUp(self) -> None:
        super().setUp()
        self.need_fake_hosts()
        self.profile = host_profiles.load('vsphere6')
        self.image_id = self.no_system()
        processutils.wait_for(self.is_empty, f'{HOST} to be empty', timeout=60)

    def is_empty(self) -> bool:
        """Tell whether the host itself knows that its guests are gone.

        It says so a moment after they are gone for Nova's API, and the NUMA
        topology that the scheduler looks at is written with it.
        """
        (hypervisor,) = self.cloud.compute.get(
            '/os-hypervisors/detail',
            params={'hypervisor_hostname_pattern': HOST},
            # The last microversion that reports the used resources.
            microversion='2.87',
        ).json()['hypervisors']
        return bool(hypervisor['vcpus_used'] == 0)

    def published(self, label: str) -> Any:
        """Return Nova's flavor of a configuration's worker."""
        flavor = derive_flavor(self.profile, parse(label), 'worker')
        self.addCleanup(undo.undo_own, [self.cloud])
        return cluster_flavors.publish(
            self.cloud, flavor, [str(self.cloud.current_project_id)]
        )

    def boot(
        self, flavor_id: str, count: int, networks: Any = 'none'
    ) -> list[Any]:
        """Ask for servers on the host, and wait for what becomes of them."""
        self.cloud.compute.post(
            '/servers',
            json={
                'server': {
                    'name': self.name,
                    'flavorRef': flavor_id,
                    'imageRef': self.image_id,
                    'networks': networks,
                    'host': HOST,
                    'min_count': count,
                    'max_count': count,
                }
            },
            microversion=ASK_FOR_HOST,
        ).raise_for_status()
        servers = [
            server
            for server in self.cloud.compute.servers(name=self.name)
            if server.status == 'BUILD'
        ]
        self.addCleanup(self.delete_all, servers)
        return [self.settled(server) for server in servers]

    def delete_all(self, servers: list[Any]) -> None:
        """Delete servers at the same time."""
        for server in servers:
            self.cloud.compute.delete_server(server)
        for server in servers:
            self.cloud.compute.wait_for_delete(server, interval=0.5, wait=60)

    def settled(self, server: Any) -> Any:
        """Return a server as it is once it is built, or has failed."""
        try:
            return self.cloud.compute.wait_for_server(server, wait=120)
        except openstack.exceptions.ResourceFailure:
            return self.cloud.compute.get_server(server)


class FillTest(FakeHostTest):
    def fill(self, instances: int) -> None:
        """Fill a host exactly; one more finds no place."""
        flavor = self.published(f'i{instances}-dedicated')
        servers = self.boot(flavor.id, instances)
        self.assertEqual(['ACTIVE'] * instances, [s.status for s in servers])
        used: list[int] = []
        for server in servers:
            self.assertEqual(HOST, server.compute_host)
            nodes = self.cloud.compute.get(
                f'/servers/{server.id}/topology', microversion='2.78'
            ).json()['nodes']
            self.assertEqual(2 if instances == 1 else 1, len(nodes))
            for node in nodes:
                cpus = set(node['cpu_pinning'].values())
                cell = self.profile.cells[node['host_node']]
                self.assertEqual(set(), cpus - set(cell.cpus))
                used += cpus
        self.assertEqual(list(range(self.profile.cpus)), sorted(used))
        (refused,) = self.boot(flavor.id, 1)
        self.assertEqual('ERROR', refused.status)
        self.assertIn('No valid host', refused.fault['message'])

    def test_1(self) -> None:
        self.fill(1)

    def test_2(self) -> None:
        self.fill(2)

    def test_4(self) -> None:
        self.fill(4)

    def test_10(self) -> None:
        self.fill(10)

    def test_20(self) -> None:
        self.fill(20)

    def test_server_with_numa_on_a_tenant_network(self) -> None:
        # The scheduler asks each NUMA cell for tunneled networks.
        network = self.cloud.network.create_network(name=self.name)
        self.addCleanup(self.cloud.network.delete_network, network)
        self.assertEqual('geneve', network.provider_network_type)
        self.cloud.network.create_subnet(
            name=self.name,
            network_id=network.id,
            ip_version=4,
            cidr='192.0.2.0/24',
        )
        flavor = self.published('i4-dedicated')
        (server,) = self.boot(flavor.id, 1, [{'uuid': network.id}])
        self.assertEqual('ACTIVE', server.status)
