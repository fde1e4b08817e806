# SPDX-License-Identifier: Apache-2.0
"""Nodes whose daemons answer as Hadoop 3.4.2 was seen to."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from hvstack import errors, processutils
from hvstack.hadoop import decommission
from hvstack.hadoop.daemon_http import SHARED_HDFS_ROLE
from hvstack.hadoop.site_files import TABLE
from hvstack.model.topology import parse_table

FSCK = """\
/f 1 bytes, replicated: replication=2, 1 block(s):  OK
0. BP-1:blk_7_1 len=1 Live_repl=2  [{locations}]
Status: HEALTHY
"""


@dataclass
class FakeNode:
    """One node; a controller's answers are its cluster's."""

    name: str
    address: str
    cluster: 'FakeCluster'
    role: str = 'worker'
    answers: bool = True
    files: dict[str, str] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    timeouts: dict[str, float] = field(default_factory=dict)

    def run(
        self,
        command: str,
        *,
        timeout: float = 600,
        check: bool = True,
        stdin: str | None = None,
        on_timeout: Callable[[], float] | None = None,
    ) -> processutils.Result:
        if not self.answers:
            if check:
                raise errors.CommandError([self.name], 255, 'no route')
            return processutils.Result(255, '', 'no route')
        self.commands.append(command)
        self.timeouts[command] = timeout
        if stdin is not None:
            self.inputs.append(stdin)
        if command.startswith('cat '):
            text = self.files.get(command.split()[1])
            return processutils.Result(0 if text else 1, text or '', '')
        return processutils.Result(0, self.cluster.answer(self, command), '')

    def put(self, text: str, path: str, mode: int = 0o644) -> None:
        self.files[path] = text


@dataclass
class FakeCluster:
    """A controller and workers; each service keeps a place once found.

    A ``shared`` one is a compute cluster on the HDFS of its gateway.
    """

    names: tuple[str, ...] = ('w0', 'w1', 'w2')
    net: str = 'org.apache.hadoop.net.NetworkTopologyWithNodeGroup'
    jobs: int = 0
    missing: int = 0
    safe_mode: str = ''
    hdfs: dict[str, str] = field(default_factory=dict)
    yarn: dict[str, str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    replicas: tuple[str, ...] = ()
    separate: bool = False
    shared: bool = False

    def __post_init__(self) -> None:
        self.gateway = FakeNode('c', '10.0.0.1', self, 'controller')
        self.manager = self.gateway
        if self.separate or self.shared:
            self.manager = FakeNode('rm', '10.0.0.9', self, 'controller')
        self.workers = [
            FakeNode(name, f'10.0.0.{index}', self)
            for index, name in enumerate(self.names, start=2)
        ]
        if self.shared:
            self.gateway.role = SHARED_HDFS_ROLE
            for worker in self.workers:
                worker.role = 'compute'

    def join(self) -> None:
        """Let workers into HDFS and YARN where these know their place."""
        table = parse_table(self.gateway.files.get(TABLE, ''))
        locations = parse_table(self.manager.files.get(TABLE, ''))
        for node in self.workers:
            if not node.answers:
                self.hdfs.pop(node.address, None)
                self.yarn.pop(node.address, None)
                continue
            if node.address in table and node.role != 'compute':
                self.hdfs.setdefault(node.address, table[node.address])
            if node.role != 'data':
                self.yarn.setdefault(
                    node.address, locations.get(node.address, '/default-rack')
                )

    def answer(self, node: FakeNode, command: str) -> str:
        """Return the output of a command.

        :raises hvstack.errors.CommandError: the daemon is not there.
        """
        self.join()
        for port, daemon in (
            (':9870/', self.gateway),
            (':8088/', self.manager),
            (':19888/', self.manager),
        ):
            if port in command and node is not daemon:
                raise errors.CommandError([node.name], 1, 'refused')
        if 'net.topology.impl' in command:
            return self.net
        if 'dfs.replication' in command:
            return '2\n'
        if 'name=NameNodeInfo' in command:
            return json.dumps({'beans': [self.info()]})
        if '/ws/v1/cluster/nodes' in command:
            nodes = [
                {
                    'nodeHostName': address,
                    'rack': rack,
                    'state': self.states.get(address, 'RUNNING'),
                }
                for address, rack in self.yarn.items()
            ]
            return json.dumps({'nodes': {'node': nodes} if nodes else None})
        if '/ws/v1/cluster/metrics' in command:
            metrics = {'appsRunning': self.jobs, 'appsPending': 0}
            return json.dumps({'clusterMetrics': metrics})
        if ':19888/' in command:
            return '{"historyInfo": {}}'
        if 'hdfs fsck' in command:
            locations = ', '.join(
                f'DatanodeInfoWithStorage[{address}:9866,DS-1,DISK]'
                for address in self.replicas
            )
            return FSCK.format(locations=locations)
        if 'start namenode' in command:
            self.hdfs.clear()
        if 'start' in command and command.endswith('resourcemanager'):
            self.yarn.clear()
        if 'start nodemanager' in command:
            self.yarn.pop(node.address)
        if 'refreshNodes' in command:
            self.leave()
        return ''

    def leave(self) -> None:
        """Let excluded nodes begin to leave, and others stay."""
        controller = self.manager if self.shared else self.gateway
        out = controller.files[decommission.EXCLUDE_FILE].split()
        for node in self.workers:
            if node.address in out:
                self.states.setdefault(node.address, 'DECOMMISSIONING')
            else:
                self.states.pop(node.address, None)

    def info(self) -> dict[str, str]:
        """Return the NameNode's bean; who leaves has left at a second look."""
        admin = {
            'DECOMMISSIONING': 'Decommission In Progress',
            'DECOMMISSIONED': 'Decommissioned',
        }
        live = {
            address: {
                'xferaddr': f'{address}:9866',
                'capacity': 1 << 30,
                'location': path,
                'adminState': admin.get(
                    self.states.get(address, ''), 'In Service'
                ),
            }
            for address, path in self.hdfs.items()
        }
        leaving = {
            address: {
                'xferaddr': f'{address}:9866',
                'underReplicatedBlocks': 3,
            }
            for address, state in self.states.items()
            if state == 'DECOMMISSIONING'
        }
        return {
            'LiveNodes': json.dumps(live),
            'DecomNodes': json.dumps(leaving),
            'Safemode': self.safe_mode,
            'NumberOfMissingBlocks': self.missing,
        }
