# SPDX-License-Identifier: Apache-2.0
"""Volume types lead to the disks that were promised."""

from typing import Any

from tempest import config
from tempest.lib import decorators

from hvstack import processutils
from hvstack.accept import check_result, disk_checks
from hvstack.tempest_plugin.listing import list_items, volume_types_and_pools
from hvstack.tempest_plugin.operator_base import OperatorTest

CONF = config.CONF


class VolumesTest(OperatorTest):
    """Cinder's types, and where a volume of each is."""

    @classmethod
    def skip_checks(cls) -> None:
        """Look only where types were promised."""
        super().skip_checks()
        if not CONF.service_available.cinder:
            raise cls.skipException('not checked: the cloud has no Cinder')
        if not CONF.hvstack.volume_backends:
            raise cls.skipException(
                'not checked: set [hvstack] volume_backends to the promised '
                'types and backends'
            )

    @decorators.idempotent_id('c6d7e8f9-0a1b-4c3d-be5f-607182930332')
    def test_backends(self) -> None:
        """A volume of each type is on the type's own backend.

        A new one, and all that servers have.
        """
        types, pools = volume_types_and_pools(self.os_admin)
        check_results = []
        used = self.attached_volumes()
        full_types = []
        for name, backend in sorted(CONF.hvstack.volume_backends.items()):
            hosts = {volume['os-vol-host-attr:host'] for volume in used[name]}
            new = self.volume_host(name) if name in types else ''
            exists = any(
                pool['capabilities'].get('volume_backend_name') == backend
                for pool in pools
            )
            # A type that leads elsewhere is wrong, not full.
            leads_there = (
                types.get(name, {}).get('volume_backend_name') == backend
            )
            if new is not None or not exists or not leads_there:
                hosts.add(new or '')
            elif not hosts:
                full_types.append(name)
            check_results += [
                check
                for host in sorted(hosts)
                for check in disk_checks.check_volume_backend(
                    name, backend, types.get(name, {}), host, pools
                )
            ]
        self.assert_results(check_results)
        self.skip_if_unchecked('no disk is free of', full_types)

    def attached_volumes(self) -> dict[str, list[dict[str, Any]]]:
        """Return the volumes that servers have, by promised type."""
        client = self.os_admin.volumes_client_latest
        volumes = list_items(
            lambda marker: client.list_volumes(
                detail=True, params={'all_tenants': 1, **marker}
            ),
            'volumes',
        )
        return {
            name: [
                volume
                for volume in volumes
                if volume['volume_type'] == name and volume['attachments']
            ]
            for name in CONF.hvstack.volume_backends
        }

    @decorators.idempotent_id('e8f90a1b-2c3d-4e5f-9071-8293a4b5c554')
    def test_disks_of_one_node(self) -> None:
        """No two servers have volumes on one pinned disk.

        Nor can they: each type leads to a disk of its own.
        """
        if not CONF.hvstack.disk_pinning:
            self.skip_unchecked(
                'disks are not pinned ([hvstack] disk_pinning)'
            )
        used = self.attached_volumes()
        disk_users = [
            (
                str(volume['os-vol-host-attr:host'] or ''),
                str(attachment['server_id']),
            )
            for volumes in used.values()
            for volume in volumes
            for attachment in volume['attachments']
        ]
        types = []
        full_types = []
        for name in sorted(CONF.hvstack.volume_backends):
            host = self.volume_host(name)
            # The disks of a full type are those of its volumes.
            hosts = (
                {str(volume['os-vol-host-attr:host']) for volume in used[name]}
                if host is None
                else {host}
            )
            types += [(host, name) for host in sorted(hosts)]
            if not hosts:
                full_types.append(name)
        servers = {server for _, server in disk_users}
        _, pools = volume_types_and_pools(self.os_admin)
        disks = disk_checks.name_disks(
            {host for host, _ in (*disk_users, *types)}, pools
        )
        self.assert_results(
            [
                check_result.CheckResult(
                    'servers with volumes of these types',
                    'each alone on its disks',
                    str(len(servers) or 'none now: types alone are judged'),
                    True,
                ),
                *disk_checks.check_own_disks(
                    (disks[host], server) for host, server in disk_users
                ),
                *disk_checks.check_own_disks(
                    ((disks[host], name) for host, name in types),
                    'volume types',
                ),
            ]
        )
        self.skip_if_unchecked('no disk is free of', full_types)

    def volume_host(self, volume_type: str) -> str | None:
        """Make a volume of a type and return where it is.

        :returns: None if Cinder found no place for it, for example because a
            cluster uses all disks of the type.
        """
        client = self.os_admin.volumes_client_latest
        new_volume = client.create_volume(
            name=self.random_name('volume'),
            size=1,
            volume_type=volume_type,
            **self.zone_fields('volume_zone'),
        )['volume']
        self.addCleanup(client.wait_for_resource_deletion, new_volume['id'])
        self.addCleanup(client.delete_volume, new_volume['id'])
        volume: dict[str, Any] = {}

        def done() -> bool:
            volume.update(client.show_volume(new_volume['id'])['volume'])
            return volume['status'] not in ('creating', 'downloading')

        processutils.wait_for(
            done,
            f'a volume of {volume_type}',
            timeout=CONF.hvstack.server_timeout,
        )
        host = str(volume.get('os-vol-host-attr:host') or '')
        return None if volume['status'] == 'error' and not host else host
