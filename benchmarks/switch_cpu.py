#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CPU time of switches per GB, with and without the tracking of connections.

Sends data between the two workers of a cluster of the lab, which has no jobs,
in pairs: once with a stateful security group, and once with a stateless one,
in random order. The ports of all nodes get the other group for that, and have
their own again in the end. Run it with the Python of the virtual environment:

    hvstack cluster create flow --configuration i1 --stateless-security-group
    .venv/bin/python benchmarks/switch_cpu.py flow --rounds 10
    hvstack cluster delete flow
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import fresh_clusters
from openstack.connection import Connection
from openstack.network.v2.port import Port
from pairs import open_cluster, print_ratios

from hvstack import errors, seeded_random
from hvstack.cloud import connection, stack_outputs, stacks
from hvstack.cluster.stack import StackCluster
from hvstack.lab import clouds_yaml
from hvstack.lab.hosts import host

KINDS = ('stateless', 'stateful')
_BYTES = 200_000_000
_GB = 10**9
_PORT = 5201
#: Clock ticks of a second in /proc/PID/stat (sysconf(_SC_CLK_TCK)).
_TICKS = 100
#: The switch gets the rules of a group a moment after Neutron has them.
_SETTLE_SECONDS = 5
_STAT = 'cat /proc/$(pidof ovs-vswitchd)/stat'
#: Attributes of a rule that make it what it is.
_RULE = (
    *('direction', 'protocol', 'port_range_min', 'port_range_max'),
    'remote_ip_prefix',
)


@contextmanager
def both_groups(
    conn: Connection, ports: Sequence[Port]
) -> Iterator[Mapping[str, str]]:
    """Return the ID of the group of the nodes, and that of a stateful copy.

    :param ports: ports of all nodes, with a stateless group.
    :raises hvstack.errors.InputError: they have a stateful group.
    """
    [own_id] = {item for port in ports for item in port.security_group_ids}
    own = conn.network.get_security_group(own_id)
    if own.stateful:
        raise errors.InputError(
            'Cannot compare the groups: the cluster has a stateful one. '
            'Create it with --stateless-security-group.'
        )
    copy = conn.network.create_security_group(name='hvstack-switch-cpu')
    try:
        for rule in own.security_group_rules:
            if rule['direction'] == 'ingress':
                values = {key: rule[key] for key in _RULE if rule[key]}
                if rule['remote_group_id']:
                    values['remote_group_id'] = copy.id
                conn.network.create_security_group_rule(
                    security_group_id=copy.id, **values
                )
        yield {'stateless': own_id, 'stateful': copy.id}
    finally:
        set_group(conn, ports, own_id)
        conn.network.delete_security_group(copy)


def list_ports(conn: Connection, name: str) -> dict[str, Port]:
    """Return the ports of the nodes of a stack by address.

    Other networks may have the same addresses, so that the ports are those of
    the servers.
    """
    outputs = stacks.outputs(conn, name)
    return {
        node.address: port
        for output in ('controller', 'workers')
        for node in stack_outputs.require_nodes(outputs, output)
        # An empty ID would select the ports of no server.
        if node.server_id
        for port in conn.network.ports(device_id=node.server_id)
    }


def set_group(conn: Connection, ports: Sequence[Port], group: str) -> None:
    """Give ports another security group."""
    for port in ports:
        conn.network.update_port(port, security_groups=[group])


def read_seconds(hosts: Sequence[str]) -> float:
    """Return the CPU seconds of the switches of hosts."""
    ticks = 0
    for name in hosts:
        fields = host.enter(name, 'sh', '-c', _STAT).stdout.split()
        ticks += int(fields[13]) + int(fields[14])
    return ticks / _TICKS


def measure(
    conn: Connection,
    cluster: StackCluster,
    ports: Mapping[str, Port],
    group: str,
) -> tuple[float, float]:
    """Return CPU seconds of the switches per GB, and MB in a second."""
    set_group(conn, list(ports.values()), group)
    time.sleep(_SETTLE_SECONDS)
    sender, receiver = cluster.workers[:2]
    hosts = [ports[node.address].binding_host_id for node in cluster.workers]
    receiver.run(
        f'iperf3 --server --one-off --daemon --port {_PORT}', timeout=60
    )
    before = read_seconds(hosts)
    result = sender.run(
        f'iperf3 --client {receiver.address} --port {_PORT} --bytes {_BYTES} '
        '--json',
        timeout=300,
    )
    seconds = read_seconds(hosts) - before
    received = json.loads(result.stdout)['end']['sum_received']
    return (
        seconds / received['bytes'] * _GB,
        received['bits_per_second'] / 8e6,
    )


def main() -> None:
    """Send data in pairs, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('name', help='name of the cluster')
    parser.add_argument('--rounds', type=int, default=10, help='pairs')
    args = parser.parse_args()
    conn = connection.connect(clouds_yaml.ADMIN_CLOUD)
    dice = seeded_random.build_generator(1)
    rounds: list[dict[str, tuple[float, float]]] = []
    with open_cluster(conn, args.name) as cluster:
        ports = list_ports(conn, args.name)
        with both_groups(conn, list(ports.values())) as groups:
            for _ in range(args.rounds):
                kinds = dice.sample(list(KINDS), 2)
                rounds.append(
                    {
                        kind: measure(conn, cluster, ports, groups[kind])
                        for kind in kinds
                    }
                )
                print(rounds[-1], flush=True)
    print_ratios(rounds, KINDS, ('CPU seconds per GB', 'MB/s'), 2)


if __name__ == '__main__':
    sys.exit(fresh_clusters.execute(main))
