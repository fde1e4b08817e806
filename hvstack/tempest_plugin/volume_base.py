# SPDX-License-Identifier: Apache-2.0
"""Checks of the volumes of a cluster's workers."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tempest import config

from hvstack.accept import (
    disk_checks,
)
from hvstack.tempest_plugin.base import admin_available
from hvstack.tempest_plugin.cluster_base import (
    ClusterTest,
    check_servers_exist,
)
from hvstack.tempest_plugin.listing import volume_types_and_pools

CONF = config.CONF
_VOLUMES = 'os-extended-volumes:volumes_attached'


class ClusterVolumesTest(ClusterTest):
    """A test that also checks the volumes of its cluster."""

    def volumes(self, stack: dict[str, Any]) -> None:
        """Judge which volumes the workers have, and on which disks."""
        names = [
            str(worker['name']) for worker in self.outputs(stack)['workers']
        ]
        all_servers = self.servers_client.list_servers(detail=True)['servers']
        servers = {server['name']: server for server in all_servers}
        check_servers_exist(names, servers)
        ids = {
            name: [volume['id'] for volume in servers[name][_VOLUMES]]
            for name in names
        }
        types: dict[str, str] = {}
        if any(ids.values()):
            if not CONF.service_available.cinder:
                self.skip_unchecked(
                    'workers have volumes, but the cloud has no Cinder'
                )
            client = self.os_primary.volumes_client_latest
            types = {
                key: str(client.show_volume(key)['volume']['volume_type'])
                for keys in ids.values()
                for key in keys
            }
        expected, pinned, local = self.expected_volumes(stack)
        check_results = disk_checks.check_volume_types(
            expected,
            {name: [types[key] for key in keys] for name, keys in ids.items()},
        )
        if pinned:
            # A type is one disk of each host.
            check_results += disk_checks.check_own_disks(
                (
                    (f'{types[key]} of host {servers[name]["hostId"]}', name)
                    for name, keys in ids.items()
                    for key in keys
                ),
                'workers',
            )
        self.assert_results(check_results)
        if types:
            self.disks(ids, types, pinned, local)

    def disks(
        self,
        ids: Mapping[str, Sequence[str]],
        types: Mapping[str, str],
        pinned: bool,
        local: bool,
    ) -> None:
        """Judge on which disks volumes are, as an administrator sees them.

        :param ids: volumes by worker.
        :param types: volume types by volume.
        :param pinned: no two workers of a host share a disk.
        :param local: volumes are on their worker's host.
        """
        if not admin_available():
            self.skip_unchecked(
                "only an administrator sees volumes' disks: give one in the "
                'accounts'
            )
        admin = self.get_client_manager(credential_type='admin')
        specs, pools = volume_types_and_pools(admin)
        show = admin.volumes_client_latest.show_volume
        volume_hosts = {
            key: str(show(key)['volume']['os-vol-host-attr:host'] or '')
            for key in types
        }
        hosts = {
            server['name']: server['OS-EXT-SRV-ATTR:host']
            for server in admin.servers_client.list_servers(
                detail=True, all_tenants=True, project_id=self.project
            )['servers']
        }
        backends = CONF.hvstack.volume_backends
        check_results = [
            check
            for name, volume_host in sorted(
                {
                    (types[key], volume_host)
                    for key, volume_host in volume_hosts.items()
                }
            )
            if name in backends
            for check in disk_checks.check_volume_backend(
                name, backends[name], specs.get(name, {}), volume_host, pools
            )
        ]
        if pinned:
            check_results += disk_checks.check_own_disks(
                (
                    (
                        volume_hosts[key]
                        and f'{volume_hosts[key]} for {hosts[name]}',
                        name,
                    )
                    for name, keys in ids.items()
                    for key in keys
                ),
                'workers',
            )
        if local:
            check_results += [
                check
                for name, keys in ids.items()
                for check in disk_checks.check_volume_locality(
                    name, hosts[name], {key: volume_hosts[key] for key in keys}
                )
            ]
        self.assert_results(check_results)
        if unknown := sorted(set(types.values()) - set(backends)):
            self.skip_unchecked(
                f'no backend is promised of {", ".join(unknown)}: set '
                '[hvstack] volume_backends'
            )

    @staticmethod
    def expected_volumes(
        stack: dict[str, Any],
    ) -> tuple[list[list[str]], bool, bool]:
        """Return the volume types of a worker, for each slot of a host.

        And whether disks are each one worker's, and on its own host.
        """
        parameters = {
            key: str(parameter)
            for key, parameter in stack['parameters'].items()
        }
        pinned = parameters.get('disk_pinning', '').lower() == 'true'
        local = parameters.get('local_volumes', '').lower() == 'true'
        slots: list[list[str]] = [[]]
        if pinned or parameters.get('storage') == 'ceph':
            slots = json.loads(parameters.get('volume_types', '[[]]'))
        return slots if pinned else slots[:1], pinned, local
