# SPDX-License-Identifier: Apache-2.0
"""Loss of physical hosts below a cluster, for a test of HDFS.

Hosts of a lab are powered off. On other clouds, hvstack never touches a host,
because others have servers there: Nova pauses the servers of the cluster on
the host, so that they stop at once and answer no request. For HDFS, both are
the loss of the host.
"""

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from openstack.connection import Connection

from hvstack import errors, interrupts, processutils
from hvstack.cloud import journal
from hvstack.cloud.connection import refused, scope
from hvstack.nouns import format_noun
from hvstack.results.typed_json import JsonObject

#: Kind of the journal's entries.
KIND = 'host_power'
#: Ways to lose a host, with their descriptions in a record.
METHODS = {
    'power': 'lab hosts powered off',
    'pause': 'servers of the hosts paused by Nova',
}
_POWER_SECONDS = 600
_PAUSE_SECONDS = 120


@dataclass(frozen=True)
class _Loss:
    """Data of an entry of the journal.

    :param lab_hosts: names of lab hosts; empty on other clouds.
    :param servers: IDs of the paused servers; empty in a lab.
    """

    lab_hosts: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()


@dataclass(frozen=True)
class HostPower:
    """Switch of the hosts below the servers of a cluster.

    :param conn: connection of the owner of the servers.
    :param servers: IDs of the servers by the host as the nodes report it.
    :param lab_names: names of lab hosts by the host as the nodes report it;
        empty on other clouds.
    """

    conn: Connection
    servers: Mapping[str, Sequence[str]]
    lab_names: Mapping[str, str]

    @property
    def method(self) -> str:
        """One of :data:`METHODS`."""
        return 'power' if self.lab_names else 'pause'

    @contextmanager
    def losing(self, hosts: Sequence[str]) -> Iterator[None]:
        """Lose hosts at once, and restore them at the end.

        The journal has an entry from before the loss to the end of the
        restoration.

        :param hosts: hosts as the nodes report them.
        :raises hvstack.errors.HVStackError: a host cannot be switched.
        """
        data: JsonObject = {
            'name': ', '.join(self.lab_names.get(host, host) for host in hosts)
        }
        if self.lab_names:
            data['lab_hosts'] = [self.lab_names[host] for host in hosts]
        else:
            data['servers'] = [
                server_id for host in hosts for server_id in self.servers[host]
            ]
        entry = journal.note(KIND, data, scope(self.conn))
        try:
            _lose(self.conn, entry.data)
            yield
        finally:
            with interrupts.deferred('hvstack is restoring the hosts', None):
                undo(self.conn, entry.data)
                journal.forget(entry)


def create(
    admin: Connection,
    tenant: Connection,
    nodes: Mapping[str, str],
    lab_hosts: Collection[str],
) -> HostPower:
    """Return the switch of the hosts below some servers.

    :param admin: connection of an administrator.
    :param tenant: connection of the owner of the servers.
    :param nodes: host as the node reports it, by the name of the server.
    :param lab_hosts: names of the hosts of a lab; empty on other clouds.
    :raises hvstack.errors.CloudError: Nova does not list the servers.
    """
    servers: dict[str, list[str]] = {}
    lab_names = {}
    with refused('Cannot list the servers of the cluster'):
        for server in tenant.compute.servers():
            host = nodes.get(server.name)
            if host is None or host != server.host_id:
                continue
            servers.setdefault(host, []).append(server.id)
            if lab_hosts:
                name = admin.compute.get_server(server.id).hypervisor_hostname
                if name in lab_hosts:
                    lab_names[host] = name
    missing = set(nodes.values()) - set(servers)
    if missing:
        raise errors.CloudError(
            f'Cannot lose hosts: Nova lists no server on {len(missing)} of '
            f'{len(set(nodes.values()))} hosts of the cluster. Check that its '
            'servers exist.'
        )
    if set(lab_names) != set(servers):
        lab_names = {}
    return HostPower(tenant, servers, lab_names)


def undo(conn: Connection, data: JsonObject) -> None:
    """Restore lost hosts; those that are not lost stay as they are."""
    loss = journal.read_data(_Loss, data)
    if loss.lab_hosts:
        _switch_lab_hosts('on', loss.lab_hosts)
        return
    paused = []
    with refused('Cannot list the servers of the cluster'):
        for server_id in loss.servers:
            server = conn.compute.find_server(server_id)
            if server is not None and server.status == 'PAUSED':
                paused.append(server_id)
    _run_all(conn, paused, 'unpause_server', 'ACTIVE')


def _lose(conn: Connection, data: JsonObject) -> None:
    loss = journal.read_data(_Loss, data)
    if loss.lab_hosts:
        # One program for all: HDFS would copy the blocks of the first host.
        _switch_lab_hosts('off', loss.lab_hosts)
    else:
        _run_all(conn, loss.servers, 'pause_server', 'PAUSED')


def _switch_lab_hosts(verb: str, names: Sequence[str]) -> None:
    processutils.run(
        [sys.executable, '-P', '-m', 'hvstack.lab.hosts.power', verb, *names],
        timeout=_POWER_SECONDS,
    )


def _run_all(
    conn: Connection, servers: Sequence[str], action: str, status: str
) -> None:
    """Execute an action on servers at once, and wait for their status."""
    with refused('Cannot pause or continue the servers of the cluster'):
        with ThreadPoolExecutor(max_workers=len(servers) or 1) as pool:
            list(pool.map(getattr(conn.compute, action), servers))
        processutils.wait_for(
            lambda: all(
                conn.compute.get_server(server).status == status
                for server in servers
            ),
            f'{format_noun(len(servers), "server")} to be {status}',
            timeout=_PAUSE_SECONDS,
        )
