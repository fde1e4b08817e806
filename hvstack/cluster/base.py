# SPDX-License-Identifier: Apache-2.0
"""What every cluster offers, whatever it is made of."""

import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hvstack import errors, processutils
from hvstack.hadoop import sizing
from hvstack.hadoop.daemon_http import Runner, run_on_nodes
from hvstack.results.typed_json import JsonObject

#: Fact of the system under test: a value, or the caps of every host.
Fact = (
    str
    | int
    | float
    | bool
    | Mapping[str, Mapping[str, float | None]]
    | Mapping[str, int | str]
    | None
)


def read_cpu_caps(facts: Mapping[str, Fact]) -> dict[str, float]:
    """Return the number of CPUs of each host with a CPU cap.

    :param facts: facts of the system under test.
    """
    caps = facts.get('caps')
    if not isinstance(caps, Mapping):
        return {}
    return {
        name: float(cpus)
        for name, cap in caps.items()
        if isinstance(cap, Mapping) and (cpus := cap.get('cpu'))
    }


class Node(Runner, Protocol):
    """One machine of a cluster, a guest or a host."""

    @property
    def host(self) -> str:
        """The physical host: the same for all nodes of a node group."""


@dataclass(frozen=True)
class ShellNode(ABC):
    """A node that a program of this machine reaches.

    :param name: its host name.
    :param address: for the other nodes.
    :param role: ``controller``, ``worker``, ``data`` or ``compute``.
    :param host: its physical host.
    """

    name: str
    address: str
    role: str
    host: str

    @abstractmethod
    def argv(self, command: str) -> list[str]:
        """Return the program that runs a command there."""

    def run(
        self,
        command: str,
        *,
        timeout: float = 600,
        check: bool = True,
        stdin: str | None = None,
        on_timeout: Callable[[], float] | None = None,
    ) -> processutils.Result:
        """Run a shell command as root; errors name the node."""
        result = processutils.run(
            self.argv(command),
            timeout=timeout,
            check=False,
            stdin=stdin,
            on_timeout=on_timeout,
            display_argv=self._display_argv(command),
        )
        if check and result.returncode != 0:
            raise self.failure(command, result)
        return result

    def failure(
        self, command: str, result: processutils.Result
    ) -> errors.CommandError:
        """Return the error for a command that failed."""
        return errors.CommandError(
            self._display_argv(command),
            result.returncode,
            processutils.tail(result.stderr)
            or processutils.tail(result.stdout),
        )

    def _display_argv(self, command: str) -> list[str]:
        return [f'{self.name}:', *command.split()]

    def put(self, text: str, path: str, mode: int = 0o644) -> None:
        """Write a file whole, and make its directory."""
        target, half = shlex.quote(path), shlex.quote(f'{path}.new')
        self.run(
            f'mkdir -p "$(dirname {target})" && cat >{half} && '
            f'chmod {mode:o} {half} && mv {half} {target}',
            stdin=text,
            timeout=60,
        )


class Cluster(Protocol):
    """A running Hadoop cluster."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def kind(self) -> str:
        """``stack`` or ``hosts``."""

    @property
    def gateway(self) -> Node:
        """Where jobs are started: the controller with the NameNode."""

    @property
    def manager(self) -> Node:
        """The controller with ResourceManager and JobHistory."""

    @property
    def workers(self) -> Sequence[Node]:
        """Nodes with DataNode and NodeManager, or with one of them."""

    @property
    def nodes(self) -> Sequence[Node]:
        """All of them, the controllers first."""

    @property
    def worker_hosts(self) -> int:
        """How many physical hosts carry workers."""

    @property
    def processors(self) -> int:
        """What a worker's JVMs are told, and it is probed with."""

    @property
    def tuning(self) -> str:
        """The tuning profile of its settings."""

    def environment(self) -> dict[str, Fact]:
        """Return the facts that must agree between comparable runs."""

    def observe(self) -> JsonObject:
        """Return the observed facts, not the requested ones."""

    def list_moved(self) -> list[str]:
        """Names of the nodes that are on other hosts than at first."""

    def drop_caches(self) -> None:
        """Write back and forget the page cache below all nodes."""


#: Of the machine that this runs on: where all nodes share its kernel.
LOCAL_DROP_CACHES = ('sh', '-c', 'sync; echo 3 >/proc/sys/vm/drop_caches')


@dataclass(frozen=True)
class ClusterFacts:
    """What the nodes of a cluster cannot report themselves.

    :param environment: facts of the system under test, such as caps, or that
        virtualization hides, such as the CPU model.
    :param observed: what the cloud reported, such as allocations.
    :param ram_mib: memory of a worker by its flavor; 0 if unknown.
    :param drop_command: program that drops the caches below all nodes;
        None does it on every node.
    """

    environment: Mapping[str, Fact] = field(default_factory=dict)
    observed: JsonObject = field(default_factory=dict)
    ram_mib: int = 0
    drop_command: Sequence[str] | None = None


@dataclass
class ClusterNodes:
    """What both kinds of cluster have in common.

    :param name: what it is called.
    :param gateway: its controller, or the NameNode's.
    :param workers: at least one.
    :param processors: what a worker's JVMs are told.
    :param facts: what the nodes cannot report themselves.
    :param tuning: profile of Hadoop's settings.
    :param resourcemanager: the other controller, if they are separate.
    :param find_moved: returns the nodes that are on other hosts than at
        first; None if nodes cannot move.
    """

    name: str
    gateway: Node
    workers: list[Node]
    processors: int
    facts: ClusterFacts = field(default_factory=ClusterFacts)
    tuning: str = sizing.DEFAULT
    resourcemanager: Node | None = None
    find_moved: Callable[[], list[str]] | None = None

    @property
    def manager(self) -> Node:
        """The controller with ResourceManager and JobHistory."""
        return self.resourcemanager or self.gateway

    @property
    def nodes(self) -> list[Node]:
        """All nodes, the controllers first."""
        other = [self.resourcemanager] if self.resourcemanager else []
        return [self.gateway, *other, *self.workers]

    @property
    def worker_hosts(self) -> int:
        """How many physical hosts carry workers."""
        return len({node.host for node in self.workers})

    def list_moved(self) -> list[str]:
        """Return the nodes that are on other hosts than at first.

        :raises hvstack.errors.CloudError: the cloud does not tell.
        """
        return self.find_moved() if self.find_moved else []

    def drop_caches(self) -> None:
        """Write back and forget the page cache below all nodes.

        :raises hvstack.errors.CommandError: no right to do so.
        """
        if self.facts.drop_command is not None:
            processutils.run(self.facts.drop_command, timeout=300)
            return
        run_on_nodes(self.nodes, ' '.join(LOCAL_DROP_CACHES[2:]), timeout=300)
