# SPDX-License-Identifier: Apache-2.0
"""A cluster whose connections the hosts do not track. The lab is up.

Takes about 3 minutes.
"""

import socket
from typing import Any

from hvstack.cloud import undo
from hvstack.cluster.base import Node
from hvstack.cluster.plan import ClusterSpec
from hvstack.hadoop.sizing import LAB
from hvstack.model.configuration import parse
from hvstack.tpcxhs import run as tpcxhs
from hvstack.tpcxhs.workload import Workload
from tests.functional.test_cluster import LabTest

NAME = 'hv-test-stateless'
#: State of a listening socket in /proc/net/tcp.
LISTEN = '0A'
FIRST, LAST = 32768, 60999


class StatelessGroupTest(LabTest):
    def list_groups(self) -> list[Any]:
        """Return the security groups of the ports of the nodes."""
        ids = {
            group
            for server in self.conn.compute.servers(name=f'{NAME}-')
            for port in self.conn.network.ports(device_id=server.id)
            for group in port.security_group_ids
        }
        return [self.conn.network.get_security_group(item) for item in ids]

    def find_dynamic_port(self, node: Node) -> int:
        """Return a port on which Hadoop listens on a worker."""
        lines = node.run('cat /proc/net/tcp /proc/net/tcp6').stdout
        for line in lines.splitlines():
            fields = line.split()
            if fields[3] != LISTEN or '0100007F:' in fields[1]:
                continue
            number = int(fields[1].rpartition(':')[2], 16)
            if FIRST <= number <= LAST:
                return number
        self.fail(lines)

    def test_cluster(self) -> None:
        cluster = self.launch(
            ClusterSpec(
                parse('i1'), tuning=LAB, stateless_security_group=True
            ),
            NAME,
        )
        [group] = self.list_groups()
        self.assertIs(False, group.stateful)
        worker = cluster.workers[0]
        port = self.find_dynamic_port(worker)
        socket.create_connection((worker.address, 22), timeout=10).close()
        # This machine has another address there than the API of Heat.
        self.assertRaises(
            TimeoutError,
            *(socket.create_connection, (worker.address, port), 5),
        )
        # The fastest run, as on emulated CPUs.
        workload = Workload(10_000_000, 2, 1, 1, one_jvm=True)
        run_result = tpcxhs.run(cluster, workload)
        self.assertEqual('', run_result.reason)
        self.assertEqual(
            {'HSGen': 1, 'HSSort': 2, 'HSValidate': 2},
            {
                phase.name: phase.job.counters.get('TOTAL_LAUNCHED_UBERTASKS')
                for phase in run_result.phases
                if phase.job is not None
            },
        )
        undo.undo_own([self.conn])
        self.assertEqual([], self.list_groups())
