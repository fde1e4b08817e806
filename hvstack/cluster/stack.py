# SPDX-License-Identifier: Apache-2.0
"""A cluster that is a Heat stack of hvstack."""

import dataclasses
import ipaddress
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from hvstack import errors
from hvstack.cloud import host_keys
from hvstack.cloud.stack_outputs import (
    OutputNode,
    StackOutputs,
    read_nodes,
    require_nodes,
)
from hvstack.cluster import probe, probe_gate
from hvstack.cluster.base import (
    ClusterFacts,
    ClusterNodes,
    Fact,
    read_cpu_caps,
)
from hvstack.cluster.ssh import SSHAccess, SSHNode
from hvstack.hadoop import sizing
from hvstack.hadoop.daemon_http import SHARED_HDFS_ROLE
from hvstack.results.comparability import HOST_FACTS
from hvstack.results.typed_json import Json, JsonObject

_CLOSE_THREADS = 32


@dataclass
class StackCluster(ClusterNodes):
    """A cluster that is a Heat stack of hvstack.

    A context manager only for its ssh connections: the stack stays.

    :param directory: sockets of ssh, removed by :meth:`close`.
    :param entry_node: node to which ssh connects first, see :func:`reach`.
    :param hdfs: cluster whose HDFS a compute cluster uses; None for an HDFS
        of this cluster.
    """

    directory: Path | None = None
    entry_node: SSHNode | None = None
    hdfs: 'StackCluster | None' = None

    kind = 'stack'

    @classmethod
    def from_outputs(
        cls,
        outputs: StackOutputs,
        access: SSHAccess,
        *,
        name: str,
        processors: int,
        facts: ClusterFacts | None = None,
        tuning: str = sizing.DEFAULT,
        console: Callable[[str], str] | None = None,
        console_timeout: float = 0,
    ) -> Self:
        """Make a cluster of a stack's outputs, and record its host keys.

        :param outputs: ``controller`` {name, address, host_id, server_id,
            host_key} and ``workers``, a list of the same; with separate
            controllers ``resourcemanager``, and with compute workers beside
            data workers ``compute``, a list. If the address in the output
            ``ssh`` is not that of a node, hvstack reaches the other nodes
            through the node that has this address, a floating IP. A compute
            cluster on the HDFS of another stack has ``hdfs_stack`` and
            ``compute``, and no ``workers``: see :meth:`with_hdfs`.
        :param access: private key of the key pair of the stack.
        :param processors: vCPUs of a worker.
        :param facts: what the nodes cannot report themselves; it wins.
        :param tuning: profile of its settings.
        :param console: see :func:`hvstack.cloud.host_keys.record`.
        :param console_timeout: seconds to wait for host keys on consoles.
        :raises hvstack.errors.InputError: an output is missing.
        """
        directory = Path(tempfile.mkdtemp(prefix='hvssh'))
        entry_node = _find_entry_node(
            outputs, access, directory, host_keys.file_of(name)
        )

        def node(output: OutputNode, role: str) -> SSHNode:
            return reach(
                entry_node,
                name=output.name,
                address=output.address,
                role=role,
                host=output.host_id or output.name,
            )

        try:
            controllers = require_nodes(outputs, 'controller')
            others = read_nodes(outputs, 'resourcemanager')
            compute = read_nodes(outputs, 'compute')
            data = (
                []
                if outputs.get('hdfs_stack') and compute
                else require_nodes(outputs, 'workers')
            )
            cluster = cls(
                name=name,
                gateway=node(controllers[0], 'controller'),
                resourcemanager=(
                    node(others[0], 'controller') if others else None
                ),
                workers=[
                    *(
                        node(worker, 'data' if compute else 'worker')
                        for worker in data
                    ),
                    *(node(worker, 'compute') for worker in compute),
                ],
                processors=processors,
                facts=facts or ClusterFacts(),
                tuning=tuning,
                directory=directory,
                entry_node=entry_node,
            )
        except KeyError as exc:
            shutil.rmtree(directory, ignore_errors=True)
            raise errors.InputError(
                f"Cannot use stack '{name}': its outputs lack {exc}. Create "
                'the stack with heat-templates/hadoop-cluster.yaml.'
            ) from exc
        host_keys.record(name, outputs, console, console_timeout)
        return cluster

    def with_hdfs(self, hdfs: 'StackCluster') -> Self:
        """Return a compute cluster with the NameNode of its HDFS.

        Its gateway is the controller of the other cluster, and its manager is
        its own controller, where clients run.

        :param hdfs: cluster with the HDFS, which is closed with this cluster.
        """
        namenode = hdfs.gateway
        assert hdfs.entry_node is not None
        return dataclasses.replace(
            self,
            gateway=reach(
                hdfs.entry_node,
                name=namenode.name,
                address=namenode.address,
                role=SHARED_HDFS_ROLE,
                host=namenode.host,
            ),
            resourcemanager=self.gateway,
            hdfs=hdfs,
        )

    def environment(self) -> dict[str, Fact]:
        """Return the facts that must agree between comparable runs."""
        facts: dict[str, Fact] = dict(probe.facts(self.workers[0]))
        if self.facts.environment.get('backend') != 'lxc':
            for name in HOST_FACTS:
                facts.pop(name, None)
        # A host of the lab's inventory may be down.
        return {
            **facts,
            **self.facts.environment,
            'hosts': len({node.host for node in self.nodes}),
            'worker_hosts': self.worker_hosts,
        }

    def observe(self) -> JsonObject:
        """Return the observed facts, not the requested ones."""
        result = probe_gate.measure(
            self.workers,
            self.processors,
            read_cpu_caps(self.facts.environment),
        )
        return {
            'workers': len(self.workers),
            'worker_hosts': self.worker_hosts,
            'guest_vcpus': self.processors,
            'guest_ram_mib': self.facts.ram_mib or None,
            'guest_mem_total_mib': probe.memory(self.workers),
            'guest_cpu_share': result.shares,
            'probe': result.facts,
            'caps': self.facts.environment.get('caps'),
            **self.facts.observed,
        }

    def close(self) -> None:
        """Close ssh connections, those of many nodes at the same time."""
        nodes = [node for node in self.nodes if isinstance(node, SSHNode)]
        with ThreadPoolExecutor(max_workers=_CLOSE_THREADS) as pool:
            list(pool.map(SSHNode.close, nodes))
        if self.entry_node is not None:
            self.entry_node.close()
        if self.directory:
            shutil.rmtree(self.directory, ignore_errors=True)
        if self.hdfs is not None:
            self.hdfs.close()

    def __enter__(self) -> Self:
        """Nothing is opened before it is needed."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """Close ssh connections."""
        self.close()


def reach(
    entry_node: SSHNode, *, name: str, address: str, role: str, host: str
) -> SSHNode:
    """Return a node of a stack as ssh reaches it.

    :param entry_node: node to which ssh connects first. If it has a
        ``login_address``, ssh connects to the other nodes through it.
    :param name: host name of the node.
    :param address: its address in the network of the cluster.
    :param role: its role.
    :param host: its physical host.
    """
    node = dataclasses.replace(
        entry_node, name=name, address=address, role=role, host=host
    )
    if address == entry_node.address or not entry_node.login_address:
        return node
    return dataclasses.replace(node, login_address='', jump=entry_node)


def _find_entry_node(
    outputs: StackOutputs,
    access: SSHAccess,
    directory: Path,
    known_hosts: Path,
) -> SSHNode:
    """Return the node that the output ``ssh`` of a stack names.

    The node has the address in the cluster's network as its address, and
    the floating IP, if there is one, as its ``login_address``.
    """
    output = outputs.get('gateway') or outputs.get('controller')
    fields: Mapping[str, Json] = output if isinstance(output, Mapping) else {}
    address = str(fields.get('address') or '')
    login_address = _parse_address(outputs.get('ssh'))
    return SSHNode(
        name=str(fields.get('name') or ''),
        address=address,
        role='controller',
        host='',
        key=access.key,
        directory=directory,
        known_hosts=known_hosts,
        config=access.config,
        login_address='' if login_address == address else login_address,
    )


def _parse_address(ssh_output: Json) -> str:
    """Return the address in the output ``ssh``; empty if it has none."""
    match = re.fullmatch(r'ssh root@([0-9A-Fa-f.:]+)', str(ssh_output))
    try:
        return str(ipaddress.ip_address(match[1])) if match else ''
    except ValueError:
        return ''
