# SPDX-License-Identifier: Apache-2.0
"""A lab with more hosts, and a member's cluster on it."""

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hvstack import processutils
from hvstack.cloud import connection, stack_resources, undo
from hvstack.cluster import launch, planner
from hvstack.cluster.plan import ClusterSpec
from hvstack.cluster.stack import StackCluster
from hvstack.hadoop import daemon_http, fsck
from hvstack.hadoop.sizing import LAB
from hvstack.lab import clouds_yaml, identity, images
from hvstack.lab.hosts import sizes
from hvstack.model.configuration import parse
from hvstack.progress import Progress
from tests.functional.test_cluster import LabTest
from tests.long import labs

HVSTACK = str(Path(sys.executable).with_name('hvstack'))


class BigLabTest(LabTest):
    """Figures are no matter here: hosts promise more than there is."""

    NAME: str
    HOSTS: int
    #: The first of these carry controllers.
    CONTROLLERS = 1
    RACKS = 0
    #: MiB and cores of a worker's host.
    MEMORY_MIB: int
    CPU_CAP = 2.0
    REPLICATION: int

    def setUp(self) -> None:
        super().setUp()
        hosts: dict[str, dict[str, Any]] = {
            sizes.name_of(1): {'cpu_cap': self.CPU_CAP}
        }
        for index in range(2, self.HOSTS + 1):
            hosts[sizes.name_of(index)] = {
                'cpu_cap': self.CPU_CAP,
                'memory_mib': self.MEMORY_MIB,
            }
            if index <= self.CONTROLLERS:
                hosts[sizes.name_of(index)]['role'] = 'controller'
        labs.change(
            self, {'host_sizes': hosts}, hosts=self.HOSTS, racks=self.RACKS
        )
        self.member = connection.connect(clouds_yaml.MEMBER_CLOUD)
        self.addCleanup(undo.undo_own, [self.conn, self.member])
        images.upload(identity.connect(), images.build('hadoop'), 'lxc')
        self.dice = random.Random(20261121)

    def create(self, configuration: str) -> StackCluster:
        """Create the member's cluster."""
        plan = planner.plan_cluster(
            self.conn,
            ClusterSpec(
                parse(configuration), replication=self.REPLICATION, tuning=LAB
            ),
            self.options,
        )
        project = str(self.member.current_project_id)
        cluster, self.outputs = launch.launch(
            self.conn,
            self.member,
            plan,
            launch.publish(self.conn, plan, [project]),
            self.NAME,
            self.options,
            Progress(),
        )
        self.addCleanup(cluster.close)
        return cluster

    def hvstack(self, command: str, *args: str) -> processutils.Result:
        """Run a command for the cluster as the member."""
        return processutils.run(
            [
                *(HVSTACK, 'cluster', command, self.NAME),
                *('--os-cloud', clouds_yaml.MEMBER_CLOUD, '-f', 'json', *args),
            ],
            timeout=1200,
            check=False,
        )

    def done(self, command: str, *args: str) -> Any:
        """Return the answer of a command that must go well."""
        result = self.hvstack(command, *args)
        self.assertEqual(0, result.returncode, result.stderr[-2000:])
        return json.loads(result.stdout)

    def admin(self, command: str, *args: str) -> Any:
        """Return the answer of an administrator's command for the cluster."""
        result = processutils.run(
            [
                *(HVSTACK, 'cluster', command, self.NAME, '-f', 'json'),
                *('--os-cloud', clouds_yaml.ADMIN_CLOUD),
                *('--tenant-os-cloud', clouds_yaml.MEMBER_CLOUD, *args),
            ],
            timeout=1200,
            check=False,
        )
        self.assertEqual(0, result.returncode, result.stderr[-2000:])
        return json.loads(result.stdout)

    def server_ids(self) -> dict[str, str]:
        """Return the IDs of the cluster's servers by name."""
        return {
            server.name: server.id
            for server in self.member.compute.servers()
            if server.name.startswith(f'{self.NAME}-')
        }

    def script_ids(self) -> dict[str, str]:
        """Return the IDs of the groups' scripts by name of the resource."""
        (stack,) = self.member.orchestration.stacks(name=self.NAME)
        return {
            item['resource_name']: str(item['physical_resource_id'])
            for item in stack_resources.require_resources(self.member, stack)
            if item['resource_type'] == 'OS::Heat::SoftwareConfig'
        }

    def check_kept(
        self, servers: dict[str, str], scripts: dict[str, str]
    ) -> None:
        """Check that scaling replaced neither a server nor a script.

        :param servers: of :meth:`server_ids`, before.
        :param scripts: of :meth:`script_ids`, before.
        """
        self.assertEqual(scripts, self.script_ids())
        servers_now = self.server_ids()
        for name in servers.keys() & servers_now.keys():
            self.assertEqual(servers[name], servers_now[name], name)

    def violations(self) -> list[dict[str, str]]:
        """Return the blocks with two replicas on one host."""
        rows = json.loads(self.hvstack('topology', '--check').stdout)
        return [row for row in rows if row['What'] == 'block']

    def power(self, state: str, host: str) -> None:
        """Cut or restore a lab host's power."""
        processutils.run([HVSTACK, 'lab', 'host', state, host], timeout=300)

    def host_of(self, server_id: str) -> str:
        """Return the lab host of a server."""
        server = self.conn.compute.get_server(server_id)
        return str(server.hypervisor_hostname)

    def until(
        self,
        condition: Callable[[], bool],
        description: str,
        timeout: float = 300,
    ) -> None:
        """Wait for something."""
        processutils.wait_for(
            condition, description, timeout=timeout, interval=3
        )

    def live(self, cluster: StackCluster) -> int:
        """Return the number of DataNodes that the NameNode hears."""
        state = daemon_http.get_namenode_bean(
            cluster.gateway, 'FSNamesystemState'
        )
        return int(state['NumLiveDataNodes'])

    def fsck(self, cluster: StackCluster, path: str = '/') -> str:
        """Return the output of fsck for a path."""
        return cluster.gateway.run(f'hdfs fsck {path}', check=False).stdout

    def whole(self, cluster: StackCluster, path: str = '/') -> bool:
        """Tell whether all blocks have all their replicas.

        More than these are asked for by single files, such as TeraSort's
        list of partitions.
        """
        return all(
            block.live >= self.REPLICATION
            for file in fsck.run(cluster.gateway, path)
            for block in file.blocks
        )
