# SPDX-License-Identifier: Apache-2.0
"""``hvstack cluster topology``: which nodes share a physical host."""

import argparse
from pathlib import Path

from cliff.lister import Lister
from openstack.connection import Connection

from hvstack import conf, errors
from hvstack.cli import arguments
from hvstack.cli.options import add_cloud
from hvstack.cli.tables import Table
from hvstack.cloud import (
    connection,
    host_keys,
    keypairs,
    stack_times,
    stacks,
)
from hvstack.cloud.stack_outputs import StackOutputs
from hvstack.cluster import shared_hdfs, topology_refresh
from hvstack.cluster.ssh import SSHAccess, SSHNode
from hvstack.cluster.stack import StackCluster, reach
from hvstack.hadoop import daemons
from hvstack.model import topology
from hvstack.nouns import format_noun
from hvstack.progress import Progress

_NODES = ('Node', 'Address', 'Role', 'Host', 'Node group', 'Rack')
_FINDINGS = ('What', 'Where', 'Found', 'Expected')
#: Of a hostId, which has 56: enough to tell hosts apart.
_SHOWN = 12


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add what names a stack of a tenant's, and lets us into its nodes."""
    parser.add_argument('name', metavar='NAME', help='Name of the stack.')
    add_cloud(parser)
    parser.add_argument(
        '--key',
        type=arguments.path,
        metavar='FILE',
        help='Private key of the key pair of the stack (default: the '
        "key that 'hvstack cluster create' created).",
    )
    parser.add_argument(
        '--ssh-config',
        type=arguments.path,
        metavar='FILE',
        help='Configuration file of ssh for connections to the nodes '
        '(default: ssh_config of hvstack.conf, otherwise none).',
    )


def add_map(parser: argparse.ArgumentParser) -> None:
    """Add the option for the hosts of the nodes that Nova does not know."""
    parser.add_argument(
        '--map',
        type=arguments.path,
        metavar='FILE',
        help='YAML file with the host and optionally the rack of every '
        'node, which replaces the hosts in Nova, such as '
        '"worker-0: {host: h7, rack: r1}".',
    )


def add_hdfs_key(parser: argparse.ArgumentParser) -> None:
    """Add the key for the nodes of the stack with a cluster's HDFS."""
    parser.add_argument(
        '--hdfs-key',
        type=arguments.path,
        metavar='FILE',
        help='For a compute cluster: private key of the key pair of the stack '
        "whose HDFS it uses (default: the key that 'hvstack cluster create' "
        'created for that stack, otherwise --key).',
    )


def open_cluster(
    conn: Connection,
    outputs: StackOutputs,
    parsed_args: argparse.Namespace,
    console_timeout: float = 0,
) -> StackCluster:
    """Return the cluster of a stack's outputs; nothing is opened yet.

    A compute cluster comes with the cluster whose HDFS it uses.

    :param console_timeout: seconds to wait for host keys on consoles.
    """
    config = parsed_args.ssh_config or conf.load().cloud.ssh_config
    key = parsed_args.key or keypairs.DIRECTORY / parsed_args.name

    def make_cluster(
        name: str, stack_outputs: StackOutputs, key: Path
    ) -> StackCluster:
        return StackCluster.from_outputs(
            stack_outputs,
            SSHAccess.of(key, config),
            name=name,
            processors=1,
            console=host_keys.console_of(conn),
            console_timeout=console_timeout,
        )

    if not shared_hdfs.is_compute_cluster(outputs):
        return make_cluster(parsed_args.name, outputs, key)
    stack = shared_hdfs.find_hdfs_stack(conn, outputs)
    hdfs_key = parsed_args.hdfs_key or keypairs.DIRECTORY / stack.name
    if parsed_args.hdfs_key is None and not hdfs_key.exists():
        hdfs_key = key
    hdfs = make_cluster(stack.name, stack.outputs, hdfs_key)
    try:
        cluster = make_cluster(parsed_args.name, outputs, key)
    except errors.HVStackError:
        hdfs.close()
        raise
    return cluster.with_hdfs(hdfs)


def report_compute_clusters(
    conn: Connection, outputs: StackOutputs, progress: Progress
) -> None:
    """Report the compute clusters that have tables of their own.

    :param outputs: outputs of the stack with the HDFS.
    """
    for name in shared_hdfs.list_compute_clusters(conn, outputs):
        progress.say(
            f"the compute cluster '{name}' uses this HDFS: run 'hvstack "
            f"cluster topology {name} --refresh', if nodes moved or were "
            'added'
        )


def _find_other_nodes(
    cluster: StackCluster, nodes: list[topology_refresh.StackNode]
) -> list[SSHNode]:
    """Return the nodes of a stack that are not in its cluster."""
    cluster_names = {node.name for node in cluster.nodes}
    return [
        reach(
            cluster.entry_node,
            name=node.name,
            address=node.address,
            role=node.role,
            host=node.host,
        )
        for node in nodes
        if node.name not in cluster_names and cluster.entry_node is not None
    ]


def _find_expected(
    conn: Connection,
    outputs: StackOutputs,
    nodes: list[topology_refresh.StackNode],
    parsed_args: argparse.Namespace,
    cluster: StackCluster,
) -> topology.Topology:
    """Return the topology that is written to a cluster, or compared with it.

    Only --refresh of the stack with the HDFS assigns virtual racks again. All
    else keeps those that scaling has kept.
    """
    if not shared_hdfs.is_compute_cluster(outputs) and not parsed_args.check:
        return shared_hdfs.combine(conn, outputs, nodes, parsed_args.map)
    table = daemons.read_topology(cluster.gateway)
    # The nodes of compute clusters need not be in tables of workers with
    # data, which --refresh writes all the same.
    if not shared_hdfs.is_compute_cluster(outputs):
        return topology_refresh.of_nodes(nodes, table)
    return shared_hdfs.combine(conn, outputs, nodes, parsed_args.map, table)


def _refresh(
    conn: Connection,
    outputs: StackOutputs,
    nodes: list[topology_refresh.StackNode],
    parsed_args: argparse.Namespace,
    progress: Progress,
) -> topology.Topology:
    """Write the topology of a cluster to its nodes, and return it."""
    with open_cluster(conn, outputs, parsed_args) as cluster:
        stack_topology = _find_expected(
            conn, outputs, nodes, parsed_args, cluster
        )
        away = topology_refresh.refresh(
            cluster,
            stack_topology,
            others=_find_other_nodes(cluster, nodes),
            timeout=stack_times.compute_ready_seconds(
                conf.load().cloud.ready_timeout, len(nodes)
            ),
            progress=progress,
        )
        shared_hdfs.distribute_addresses(cluster)
    for name in away:
        progress.say(f'{name} does not answer, it was passed over')
    report_compute_clusters(conn, outputs, progress)
    return stack_topology


class Topology(Lister):
    """Show, write or check which nodes share a physical host.

    Physical hosts are identified by hostId in Nova. Racks are availability
    zones if the workers are in several zones, and virtual racks otherwise. The
    command needs the rights of the project of the stack only.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_cluster(parser)
        add_hdfs_key(parser)
        add_map(parser)
        mode_group = parser.add_mutually_exclusive_group()
        mode_group.add_argument(
            '--refresh',
            action='store_true',
            help='Write the topology to all nodes and let HDFS and YARN '
            'use it, after servers were migrated, replaced or '
            'added.',
        )
        mode_group.add_argument(
            '--check',
            action='store_true',
            help='List the differences of the tables, HDFS and YARN, '
            'and the blocks with two replicas on one host. The '
            'exit status is 1 if there are any.',
        )
        parser.add_argument(
            '--dry-run',
            action='store_true',
            help='With --refresh: list the differences of the tables '
            'that would be written, and change nothing.',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Read it, and do what is asked for."""
        self.mismatch_count = 0
        if parsed_args.dry_run and not parsed_args.refresh:
            raise errors.InputError(
                'Cannot use --dry-run without --refresh, which alone changes '
                'the topology. Add --refresh, or omit --dry-run.'
            )
        conn = connection.connect(parsed_args.os_cloud)
        outputs = stacks.outputs(conn, parsed_args.name)
        nodes = topology_refresh.nodes(conn, outputs, parsed_args.map)
        progress = Progress()
        if any(node.on_volumes for node in nodes if node.role == 'worker'):
            progress.say(
                "the workers have volumes: what these are on, such as Ceph's "
                'disks, is not told by hostId'
            )
        if parsed_args.check or parsed_args.dry_run:
            with open_cluster(conn, outputs, parsed_args) as cluster:
                findings = topology_refresh.check(
                    cluster,
                    _find_expected(conn, outputs, nodes, parsed_args, cluster),
                    tables_only=parsed_args.dry_run,
                )
            self.mismatch_count = 0 if parsed_args.dry_run else len(findings)
            missing_count = sum(
                mismatch.actual == topology_refresh.NO_TABLE
                for mismatch in findings
            )
            if missing_count:
                progress.say(
                    'no topology table yet on '
                    f'{format_noun(missing_count, "node")}: a stack created '
                    "with 'openstack stack create' gives the table only to "
                    'controllers that come after the workers; '
                    f"'hvstack cluster topology {parsed_args.name} --refresh' "
                    'writes it to all nodes'
                )
            return _FINDINGS, [
                (
                    mismatch.source,
                    mismatch.where,
                    mismatch.actual,
                    mismatch.expected,
                )
                for mismatch in findings
            ]
        if parsed_args.refresh:
            stack_topology = _refresh(
                conn, outputs, nodes, parsed_args, progress
            )
        else:
            stack_topology = shared_hdfs.combine(
                conn, outputs, nodes, parsed_args.map
            )
        by_name = {
            location.node: location for location in stack_topology.locations
        }
        return _NODES, [
            (
                node.name,
                node.address,
                node.role,
                node.host[:_SHOWN],
                by_name[node.name].group[: _SHOWN + 3],
                by_name[node.name].rack,
            )
            for node in nodes
        ]

    def run(self, parsed_args: argparse.Namespace) -> int:
        """End with status 1 if the check found something."""
        status = int(super().run(parsed_args) or 0)
        if self.mismatch_count:
            self.app.stderr.write(
                f'hvstack: {self.mismatch_count} things are not as they '
                "should be; 'hvstack cluster topology --refresh' writes "
                'tables again, blocks are moved by HDFS itself\n'
            )
        return status or int(self.mismatch_count > 0)
