# SPDX-License-Identifier: Apache-2.0
"""A cluster that is a Heat stack of hvstack."""

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from hvstack import errors
from hvstack.cloud import host_keys
from hvstack.cluster import probe
from hvstack.cluster.base import ClusterFacts, ClusterNodes
from hvstack.cluster.ssh import SSHNode
from hvstack.hadoop import sizing
from hvstack.results.comparability import HOST_FACTS


@dataclass
class StackCluster(ClusterNodes):
    """A cluster that is a Heat stack of hvstack.

    A context manager only for its ssh connections: the stack stays.

    :param directory: sockets of ssh, removed by :meth:`close`.
    """

    directory: Path | None = None

    kind = 'stack'

    @classmethod
    def from_outputs(
        cls,
        outputs: Mapping[str, Any],
        key_path: Path,
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
            data workers ``compute``, a list.
        :param key_path: private key of the stack's key pair.
        :param processors: vCPUs of a worker.
        :param facts: what the nodes cannot report themselves; it wins.
        :param tuning: profile of its settings.
        :param console: see :func:`hvstack.cloud.host_keys.record`.
        :param console_timeout: seconds to wait for host keys on consoles.
        :raises hvstack.errors.InputError: an output is missing.
        """
        directory = Path(tempfile.mkdtemp(prefix='hvssh'))

        known_hosts = host_keys.file_of(name)

        def node(output: Mapping[str, Any], role: str) -> SSHNode:
            return SSHNode(
                name=output['name'],
                address=output['address'],
                role=role,
                host=str(output.get('host_id') or output['name']),
                key=key_path,
                directory=directory,
                known_hosts=known_hosts,
            )

        other = outputs.get('resourcemanager')
        compute = outputs.get('compute') or []
        try:
            cluster = cls(
                name=name,
                gateway=node(outputs['controller'], 'controller'),
                resourcemanager=node(other, 'controller') if other else None,
                workers=[
                    *(
                        node(worker, 'data' if compute else 'worker')
                        for worker in outputs['workers']
                    ),
                    *(node(worker, 'compute') for worker in compute),
                ],
                processors=processors,
                facts=facts or ClusterFacts(),
                tuning=tuning,
                directory=directory,
            )
        except (KeyError, TypeError) as exc:
            shutil.rmtree(directory, ignore_errors=True)
            raise errors.InputError(
                f"stack '{name}': its outputs lack {exc}, create it from "
                'heat-templates/hadoop-cluster.yaml'
            ) from exc
        host_keys.record(name, outputs, console, console_timeout)
        return cluster

    def environment(self) -> dict[str, Any]:
        """Return what must agree between comparable runs."""
        facts: dict[str, Any] = dict(probe.facts(self.workers[0]))
        if self.facts.environment.get('backend') != 'lxc':
            for name in HOST_FACTS:
                facts.pop(name, None)
        hosts = {node.host for node in self.nodes}
        return {
            'hosts': len(hosts),
            'worker_hosts': self.worker_hosts,
            **facts,
            **self.facts.environment,
        }

    def observe(self) -> dict[str, Any]:
        """Return what is observed, not what was asked for."""
        shares = probe.cpu_shares(self.workers, self.processors)
        return {
            'workers': len(self.workers),
            'worker_hosts': self.worker_hosts,
            'guest_vcpus': self.processors,
            'guest_ram_mib': self.facts.ram_mib or None,
            'guest_mem_total_mib': probe.memory(self.workers),
            'guest_cpu_share': shares,
            'caps': self.facts.environment.get('caps'),
            **self.facts.observed,
        }

    def close(self) -> None:
        """Close ssh connections."""
        for node in self.nodes:
            if isinstance(node, SSHNode):
                node.close()
        if self.directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        """Nothing is opened before it is needed."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """Close ssh connections."""
        self.close()
