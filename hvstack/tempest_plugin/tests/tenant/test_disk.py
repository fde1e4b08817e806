# SPDX-License-Identifier: Apache-2.0
"""What a guest writes is there after a power cycle."""

import base64
import contextlib

from tempest import config
from tempest.lib import decorators, exceptions

from hvstack import errors, processutils
from hvstack.accept import check_result, guest_checks
from hvstack.cloud import host_keys
from hvstack.cluster.ssh import SSHAccess, SSHNode
from hvstack.tempest_plugin.base import admin_available
from hvstack.tempest_plugin.member_base import MemberTest

CONF = config.CONF
_WRITE = 'head -c 1000000 /dev/urandom >/root/hvaccept && sync'
_SUM = 'md5sum </root/hvaccept'
#: The same on a volume as a whole, found by the serial number that Nova gives
#: it: names of devices may be others after a power cycle. virtio-blk and NVMe
#: have it in one file, and SCSI disks in another one.
_DEVICE = """
for d in /sys/block/*; do
    grep -qs '^{serial}' "$d/serial" ||
        grep -qsa '{serial}' "$d/device/vpd_pg80" || continue
    disk=/dev/${{d##*/}}
done
[ "$disk" ] || exit
"""
_WRITE_VOLUME = f"""{_DEVICE}
head -c 1048576 /dev/urandom | dd of=$disk conv=fsync
"""
_SUM_VOLUME = f"""{_DEVICE}
dd if=$disk of=/root/hvaccept-read bs=1M count=1 2>/dev/null &&
md5sum </root/hvaccept-read
"""
#: Status 0 once a guest has booted: until then an image may take a blank disk
#: that appears for its data disk, and write to it.
_BOOTED = """
command -v cloud-init >/dev/null && cloud-init status --wait >/dev/null
! pgrep -f '/usr/lib/hvstack/[b]oot' >/dev/null
"""
#: Identifies a boot: the boot ID of the kernel, for guests that have their own
#: kernel, and the start time of PID 1, for containers.
_BOOT = """
cat /proc/sys/kernel/random/boot_id
sed 's/.*) //' /proc/1/stat | cut -d ' ' -f 20
"""
#: User data that stores the public host key as the server's password, which
#: Nova accepts from the server itself alone, and once, and shows to its
#: project (nova's documentation, "Metadata service", path ``password``).
_SEND_HOST_KEY = """#!/bin/sh
file=/etc/ssh/ssh_host_ed25519_key.pub
url=http://169.254.169.254/openstack/latest/password
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    if [ -s "$file" ]; then
        key=$(cut -d ' ' -f 1,2 "$file")
        curl -sf -m 20 -d "$key" "$url" && exit
        wget -q -T 20 -O /dev/null --post-data "$key" "$url" && exit
    fi
    sleep 3
done
exit 1
"""
#: Characters of a volume's id that a virtio disk's serial number has.
_SERIAL = 20


@decorators.serial
class DiskTest(MemberTest):
    """A guest with a worker's flavor, and its own disk."""

    @classmethod
    def skip_checks(cls) -> None:
        """Look only where guests start."""
        super().skip_checks()
        if not CONF.hvstack.guests:
            raise cls.skipException(
                'not checked: hosts are fake, no guest writes ([hvstack] '
                'guests)'
            )

    @decorators.idempotent_id('d7e8f90a-1b2c-4d4e-8f60-718293a4b443')
    def test_power_cycle(self) -> None:
        """Its disk keeps what was written and synced."""
        node, server = self.guest()
        self.check_power_cycle(node, server, {'disk': (_WRITE, _SUM)})

    @decorators.idempotent_id('1b2c3d4e-5f60-4182-8394-a5b6d7e8f887')
    def test_volumes_after_power_cycle(self) -> None:
        """Volumes of the promised types keep what was written, too."""
        types = sorted(CONF.hvstack.volume_backends)
        if not (types and CONF.service_available.cinder):
            self.skip_unchecked('no volume type is promised here')
        if CONF.hvstack.libvirt_uri.startswith('lxc'):
            self.skip_unchecked('a container cannot attach volumes')
        # Before the guest, since Cinder deletes no volume that is in use.
        volumes = {
            volume_type: self.volume(volume_type) for volume_type in types
        }
        node, server = self.guest()
        commands = {}
        for volume_type, volume in volumes.items():
            self.servers_client.attach_volume(server, volumeId=volume)
            self.wait_for_status(volume, 'in-use')
            serial = volume[:_SERIAL]
            commands[volume_type] = (
                _WRITE_VOLUME.format(serial=serial),
                _SUM_VOLUME.format(serial=serial),
            )
        self.check_power_cycle(node, server, commands)

    def volume(self, volume_type: str) -> str:
        """Make a volume; return its id.

        A cluster can use all disks of a type, which skips the test. A disk
        that Cinder chose, and on which it created no volume, fails it: only an
        administrator sees this disk.
        """
        client = self.os_primary.volumes_client_latest
        new_volume = client.create_volume(
            name=self.random_name('volume'),
            size=1,
            volume_type=volume_type,
            **self.zone_fields('volume_zone'),
        )['volume']
        self.addCleanup(client.wait_for_resource_deletion, new_volume['id'])
        self.addCleanup(client.delete_volume, new_volume['id'])
        self.addCleanup(
            self.wait_for_status, new_volume['id'], 'available', 'error'
        )
        status = self.wait_for_status(new_volume['id'], 'available', 'error')
        if status == 'error':
            if host := self.find_volume_host(new_volume['id']):
                self.assert_results(
                    [
                        check_result.check_equal(
                            f'{volume_type}: volume on {host}',
                            'available',
                            status,
                        )
                    ]
                )
            self.skip_unchecked(
                f'no disk of {volume_type} is free, or Cinder cannot create a '
                'volume on it'
            )
        return str(new_volume['id'])

    @classmethod
    def find_volume_host(cls, volume: str) -> str:
        """Return where a volume is; empty if it is nowhere or unknown."""
        if not admin_available():
            return ''
        manager = cls.get_client_manager(credential_type='admin')
        details = manager.volumes_client_latest.show_volume(volume)['volume']
        return str(details.get('os-vol-host-attr:host') or '')

    def wait_for_status(self, volume: str, *statuses: str) -> str:
        """Wait until a volume has one of some statuses, and return it."""
        client = self.os_primary.volumes_client_latest
        status = ''

        def done() -> bool:
            nonlocal status
            status = client.show_volume(volume)['volume']['status']
            return status in statuses

        processutils.wait_for(
            done,
            f'volume {volume} to be {" or ".join(statuses)}',
            timeout=CONF.hvstack.server_timeout,
            get_reason=lambda: f'it is {status}',
        )
        return status

    def check_power_cycle(
        self,
        node: SSHNode,
        server: str,
        commands: dict[str, tuple[str, str]],
    ) -> None:
        """Judge what a guest reads after a power cycle.

        :param commands: what writes, and what prints a checksum, by disk.
        """
        before: dict[str, str] = {}

        def written() -> bool:
            for disk, (write, checksum) in commands.items():
                if disk not in before:
                    node.run(write, timeout=60)
                    before[disk] = node.run(checksum, timeout=60).stdout
            return True

        # A guest sees a new disk a moment after Cinder says so.
        processutils.wait_for(written, 'the disks to be written', timeout=60)
        booted = {'before': node.run(_BOOT, timeout=60).stdout}
        node.close()
        self.servers_client.reboot_server(server, type='HARD')
        self.active(server)
        checksums: dict[str, str] = {}

        def back() -> bool:
            booted['after'] = node.run(_BOOT, timeout=20).stdout
            if booted['after'] == booted['before']:
                return False
            for disk, (_, checksum) in commands.items():
                checksums[disk] = node.run(checksum, timeout=20).stdout
            return True

        reason = ''
        try:
            processutils.wait_for(
                back,
                f'ssh of {node.name} after the power cycle',
                timeout=CONF.hvstack.server_timeout,
            )
        except errors.DeadlineExceededError as exc:
            reason = str(exc)
        self.assert_results(
            [
                guest_checks.check_rebooted(
                    booted['before'], booted.get('after', ''), reason
                ),
                *(
                    check_result.CheckResult(
                        f'{disk}: checksum after the power cycle',
                        checksum.strip(),
                        checksums.get(disk, 'no answer').strip(),
                        bool(checksum.strip())
                        and checksums.get(disk) == checksum,
                    )
                    for disk, checksum in before.items()
                ),
            ]
        )

    def active(self, server: str, flavor_name: str = '') -> None:
        """Wait until a server runs.

        :param server: ID of the server.
        :param flavor_name: flavor of a new server: if no host has room for it,
            the test is skipped. Empty for a server that ran before.
        """
        processutils.wait_for(
            lambda: (
                self.servers_client.show_server(server)['server']['status']
                not in ('BUILD', 'REBOOT', 'HARD_REBOOT')
            ),
            f'server {server}',
            timeout=CONF.hvstack.server_timeout,
        )
        server_details = self.servers_client.show_server(server)['server']
        if flavor_name and self.has_no_room(server_details):
            self.skip_unchecked(
                f'no host has room for a guest of {flavor_name}'
            )
        self.assert_results(
            [
                check_result.check_equal(
                    'server', 'ACTIVE', server_details['status']
                )
            ]
        )

    def guest(self) -> tuple[SSHNode, str]:
        """Start a guest; return how it is reached once up, and its id."""
        name = self.random_name('disk')
        self.create_key(name)
        manager = self.os_primary
        group = manager.security_groups_client.create_security_group(
            name=name
        )['security_group']
        self.addCleanup(
            manager.security_groups_client.delete_security_group, group['id']
        )
        manager.security_group_rules_client.create_security_group_rule(
            security_group_id=group['id'],
            direction='ingress',
            protocol='tcp',
            port_range_min=22,
            port_range_max=22,
        )
        port = manager.ports_client.create_port(
            name=name,
            network_id=CONF.hvstack.network,
            security_groups=[group['id']],
        )['port']
        self.addCleanup(manager.ports_client.delete_port, port['id'])
        flavor_name = self.worker()
        flavors = manager.flavors_client.list_flavors()['flavors']
        new_server = self.servers_client.create_server(
            name=name,
            imageRef=CONF.hvstack.image or CONF.compute.image_ref,
            flavorRef=next(
                flavor['id']
                for flavor in flavors
                if flavor['name'] == flavor_name
            ),
            networks=[{'port': port['id']}],
            **self.zone_fields(),
            key_name=name,
            user_data=base64.b64encode(_SEND_HOST_KEY.encode()).decode(),
        )['server']
        self.addCleanup(self.delete_server, new_server['id'])
        self.active(new_server['id'], flavor_name)
        node = self.reach(
            name,
            port['fixed_ips'][0]['ip_address'],
            self.wait_for_host_key(new_server['id']),
        )
        processutils.wait_for(
            lambda: node.run(_BOOTED, timeout=60).returncode == 0,
            f'{node.name} ({node.address}) to have booted, asked by ssh',
            timeout=CONF.hvstack.server_timeout,
        )
        return node, new_server['id']

    def reach(self, name: str, address: str, host_key: str) -> SSHNode:
        """Return how a guest is reached, through a jump host if needed."""
        directory = self.key.parent
        known_hosts = directory / 'known_hosts'
        known_hosts.write_text(f'{address} {host_key}\n', encoding='utf-8')
        access = SSHAccess.of(self.key, CONF.hvstack.ssh_config)
        return SSHNode(
            name=name,
            address=address,
            role='worker',
            host='',
            key=access.key,
            directory=directory / 'ssh',
            known_hosts=known_hosts,
            config=access.config,
        )

    def wait_for_host_key(self, server: str) -> str:
        """Return the public host key that a guest sent to Nova.

        The console log is read as well, where cloud-init shows the key. The
        test is skipped if the key is on neither: whoever answers at the
        address may be another machine.
        """
        key = ''

        def is_known() -> bool:
            nonlocal key
            client = self.servers_client
            key = host_keys.public_key(
                client.show_password(server)['password']
            )
            with contextlib.suppress(exceptions.TempestException):
                key = key or host_keys.on_console(
                    client.get_console_output(server)['output'] or ''
                )
            return bool(key)

        with contextlib.suppress(errors.DeadlineExceededError):
            processutils.wait_for(
                is_known,
                f'the ssh host key of server {server}',
                timeout=CONF.hvstack.server_timeout,
                interval=2,
            )
        if not key:
            self.skip_unchecked(
                'the guest sent no ssh host key, neither to the metadata '
                'service nor to its console'
            )
        return key

    def worker(self) -> str:
        """Return the name of a promised worker's flavor that is visible."""
        names = [entry.flavor.name for entry, _ in self.worker_flavors()]
        self.grant_flavor_access(names)
        flavors = self.os_primary.flavors_client.list_flavors()['flavors']
        visible = {flavor['name'] for flavor in flavors}
        for name in names:
            if name in visible:
                return name
        self.skip_unchecked(
            "no worker's flavor is promised and visible to the member, see "
            '[hvstack] include_candidates'
        )

    def delete_server(self, server: str) -> None:
        """Delete a server and wait until it is gone."""

        def done() -> bool:
            with contextlib.suppress(exceptions.NotFound):
                self.servers_client.show_server(server)
                return False
            return True

        self.servers_client.delete_server(server)
        processutils.wait_for(
            done,
            f'server {server} to be gone',
            timeout=CONF.hvstack.server_timeout,
        )
