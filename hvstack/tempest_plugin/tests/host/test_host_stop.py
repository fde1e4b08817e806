# SPDX-License-Identifier: Apache-2.0
"""A host loses its power, and the cluster keeps its files."""

import os
from pathlib import Path

from tempest import config
from tempest.lib import decorators

from hvstack import errors, processutils
from hvstack.accept import power
from hvstack.cluster.base import Node
from hvstack.tempest_plugin.cluster_base import OwnClusterTest

CONF = config.CONF


@decorators.serial
class HostStopTest(OwnClusterTest):
    """Takes a host away, and gives it back."""

    credentials = ['primary', 'admin']

    @classmethod
    def skip_checks(cls) -> None:
        """Say what is missing to take a host's power."""
        super().skip_checks()
        options = CONF.hvstack
        if not (options.power_off_command and options.power_on_command):
            raise cls.skipException(
                'not checked: set [hvstack] power_off_command and '
                'power_on_command'
            )
        if not options.hadoop or options.replication < 2:
            raise cls.skipException(
                'not checked: no cluster stores two replicas'
            )

    @classmethod
    def setup_clients(cls) -> None:
        """Add a client that reports the host of a server."""
        super().setup_clients()
        cls.admin_servers = cls.os_admin.servers_client

    @decorators.idempotent_id('b5c6d7e8-f90a-4b2c-ad4e-5f6071829221')
    @decorators.attr(type='destructive')
    def test_hard_stop_of_a_host(self) -> None:
        """Every file stays readable without one host of workers."""
        cluster = self.cluster(self.create())
        self.wait_for_hadoop(cluster)
        self.write_files(cluster)
        self.assert_results(self.check_replicas(cluster))
        servers = self.admin_servers.list_servers(
            detail=True, all_tenants=True, project_id=self.project
        )['servers']
        hosts = {
            server['name']: server['OS-EXT-SRV-ATTR:host']
            for server in servers
        }
        victim = hosts[cluster.workers[-1].name]
        if victim == hosts[cluster.gateway.name]:
            self.skip_unchecked(f'{victim} has a controller, too')
        options = CONF.hvstack
        # That of 'hvstack accept', and what 'tempest run' makes of its
        # --config-file: the next run looks there for hosts without power.
        config_dir = Path(os.environ.get('TEMPEST_CONFIG_DIR', '.'))
        self.addCleanup(
            power.power_on, config_dir, victim, options.power_on_command
        )
        power.power_off(
            *(config_dir, victim),
            *(options.power_off_command, options.power_on_command),
        )
        lost_workers = [
            worker
            for worker in cluster.workers
            if hosts[worker.name] == victim
        ]
        processutils.wait_for(
            lambda: all(_silent(worker) for worker in lost_workers),
            f'{victim} to be off',
            timeout=120,
        )
        self.assert_results(self.check_files(cluster))


def _silent(node: Node) -> bool:
    try:
        return bool(node.run('true', check=False, timeout=20).returncode)
    except errors.DeadlineExceededError:
        return True
