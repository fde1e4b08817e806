# SPDX-License-Identifier: Apache-2.0
"""A cluster that takes every slot of its hosts, and not one more."""

from tempest import config
from tempest.lib import decorators

from hvstack.accept import cluster_checks, flavor_checks
from hvstack.tempest_plugin.cluster_base import OwnClusterTest
from hvstack.tempest_plugin.operator_base import Providers

CONF = config.CONF


@decorators.serial
class FullClusterTest(Providers, OwnClusterTest):
    """Placement while a member's cluster fills its hosts."""

    credentials = ['primary', 'admin']

    @classmethod
    def skip_checks(cls) -> None:
        """Look only where the cluster is known to be full."""
        super().skip_checks()
        if not CONF.hvstack.full_cluster:
            raise cls.skipException(
                'not checked: the cluster leaves slots of its hosts free '
                '([hvstack] full_cluster)'
            )

    @classmethod
    def setup_clients(cls) -> None:
        """Add clients that report the host and resources of a server."""
        super().setup_clients()
        cls.admin_servers = cls.os_admin.servers_client
        cls.providers_client = cls.os_admin.resource_providers_client

    def providers(self) -> dict[str, str]:
        """Return the hosts of the project's servers: UUID by name."""
        servers = self.admin_servers.list_servers(
            detail=True, all_tenants=True, project_id=self.project
        )['servers']
        names = {
            server['OS-EXT-SRV-ATTR:hypervisor_hostname'] for server in servers
        }
        response = self.providers_client.list_resource_providers()
        return {
            provider['name']: provider['uuid']
            for provider in response['resource_providers']
            if provider['name'] in names
        }

    @decorators.idempotent_id('0a1b2c3d-4e5f-4071-b283-94a5c6d7e776')
    def test_worker_too_many(self) -> None:
        """A full cluster stays within its hosts, and cannot grow."""
        before = self.list_resources()
        stack = self.create()
        hosts = self.providers()
        self.assert_results(
            [
                check
                for name, uuid in sorted(hosts.items())
                for check in flavor_checks.check_capacity(
                    name, self.inventories(uuid), self.usages(uuid)
                )
            ]
        )
        usages_before = {
            name: self.usages(uuid) for name, uuid in hosts.items()
        }
        name, stack_id = stack['stack_name'], stack['id']
        count = self.requested_workers()
        self.update(stack, {'worker_count': count + 1})
        status = self.wait_for_stack(name, stack_id, 'UPDATE')['stack_status']
        self.assert_results(
            cluster_checks.check_full_cluster(
                status,
                self.failure_reasons(name, stack_id),
                usages_before,
                {name: self.usages(uuid) for name, uuid in hosts.items()},
            )
        )
        self.delete(name, stack_id)
        self.assert_results(
            cluster_checks.check_deleted(self.new_resources(before))
        )
