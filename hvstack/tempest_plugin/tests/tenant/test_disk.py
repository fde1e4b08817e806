# SPDX-License-Identifier: Apache-2.0
"""What a guest writes is there after a power cycle."""

import contextlib

from tempest import config
from tempest.lib import decorators, exceptions

from hvstack import errors, shell
from hvstack.accept import judge
from hvstack.cluster.ssh import SSHNode
from hvstack.tempest_plugin.cluster import ClusterTest

CONF = config.CONF
_WRITE = 'head -c 1000000 /dev/urandom >/root/hvaccept && sync'
_SUM = 'md5sum </root/hvaccept'


class DiskTest(ClusterTest):
    """A guest with a worker's flavor, and its own disk."""

    @decorators.idempotent_id('d7e8f90a-1b2c-4d4e-8f60-718293a4b443')
    def test_power_cycle(self) -> None:
        """Its disk keeps what was written and synced."""
        node, server = self.guest()
        shell.wait_for(
            lambda: node.run('true', timeout=20).returncode == 0,
            f'ssh of {node.name} ({node.address})',
            timeout=CONF.hvstack.server_timeout,
        )
        node.run(_WRITE, timeout=60)
        before = node.run(_SUM, timeout=60).stdout
        node.close()
        self.servers_client.reboot_server(server, type='HARD')
        self.active(server)
        seen = ''

        def back() -> bool:
            nonlocal seen
            seen = node.run(_SUM, timeout=20).stdout
            return True

        with contextlib.suppress(errors.DeadlineExceeded):
            shell.wait_for(
                back,
                f'ssh of {node.name} after the power cycle',
                timeout=CONF.hvstack.server_timeout,
            )
        self.judge(
            [judge.equal('checksum after the power cycle', before, seen)]
        )

    def active(self, server: str) -> None:
        """Wait until a server runs."""
        shell.wait_for(
            lambda: (
                self.servers_client.show_server(server)['server']['status']
                not in ('BUILD', 'REBOOT', 'HARD_REBOOT')
            ),
            f'server {server}',
            timeout=CONF.hvstack.server_timeout,
        )
        found = self.servers_client.show_server(server)['server']
        self.judge([judge.equal('server', 'ACTIVE', found['status'])])

    def guest(self) -> tuple[SSHNode, str]:
        """Start a guest; return how it is reached, and its id."""
        name = self.name('disk')
        self.make_key(name)
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
            network_id=CONF.hvstack.network, security_groups=[group['id']]
        )['port']
        self.addCleanup(manager.ports_client.delete_port, port['id'])
        flavors = manager.flavors_client.list_flavors()['flavors']
        wanted = self.request['parameters']['worker_flavor']
        made = self.servers_client.create_server(
            name=name,
            imageRef=CONF.hvstack.image or CONF.compute.image_ref,
            flavorRef=next(
                one['id'] for one in flavors if one['name'] == wanted
            ),
            networks=[{'port': port['id']}],
            key_name=name,
        )['server']
        self.addCleanup(self.gone, made['id'])
        self.active(made['id'])
        address = port['fixed_ips'][0]['ip_address']
        node = SSHNode(
            name=name,
            address=address,
            role='worker',
            host='',
            key=self.key,
            folder=self.key.parent / 'ssh',
        )
        return node, made['id']

    def gone(self, server: str) -> None:
        """Delete a server and wait until it is gone."""

        def done() -> bool:
            with contextlib.suppress(exceptions.NotFound):
                self.servers_client.show_server(server)
                return False
            return True

        self.servers_client.delete_server(server)
        shell.wait_for(
            done,
            f'server {server} to be gone',
            timeout=CONF.hvstack.server_timeout,
        )
