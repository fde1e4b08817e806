# SPDX-License-Identifier: Apache-2.0
"""``hvstack cluster scale``: more workers, fewer, or others."""

import argparse

from cliff.show import ShowOne

from hvstack import conf, errors
from hvstack.cli import arguments
from hvstack.cli.cluster_topology import (
    add_cluster,
    add_hdfs_key,
    add_map,
    open_cluster,
    report_compute_clusters,
)
from hvstack.cli.tables import Details
from hvstack.cloud import connection, stack_times, stack_updates, stacks
from hvstack.cloud.stack_outputs import read_nodes
from hvstack.cluster import (
    scale,
    scale_plan,
    scale_room,
    topology_refresh,
)
from hvstack.progress import Progress

_DRAIN_SECONDS = 3600


class Scale(ShowOne):
    """Change the number of workers of a cluster, or replace unhealthy workers.

    Workers are decommissioned before they are removed: no block is lost, and
    no running job ends. After an interruption, run the same command to
    continue, or run it with the previous number of workers to keep the
    decommissioned workers. The command needs the rights of the project of the
    stack only.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_cluster(parser)
        add_hdfs_key(parser)
        add_map(parser)
        parser.add_argument(
            '--workers',
            type=arguments.count,
            metavar='N',
            help='New number of workers (default: the current number).',
        )
        parser.add_argument(
            '--compute-workers',
            type=arguments.count,
            metavar='N',
            help='New number of compute workers, which have a NodeManager '
            'and no DataNode, in a cluster of deployment 3 or 4, or in a '
            'compute cluster (default: the current number).',
        )
        parser.add_argument(
            '--replace',
            action='append',
            default=[],
            metavar='WORKER',
            help='Replace this worker, in addition to those that Heat '
            'marks as unhealthy. Can be repeated.',
        )
        parser.add_argument(
            '--timeout',
            type=arguments.count,
            default=_DRAIN_SECONDS,
            metavar='SECONDS',
            help='Maximum time of decommissioning while jobs run on the '
            f'workers, in seconds (default: {_DRAIN_SECONDS}).',
        )
        parser.add_argument(
            '--dry-run',
            action='store_true',
            help='Show which workers would be added and removed, and '
            'change nothing.',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Details:
        """Plan it, and do it."""
        for option in ('workers', 'compute_workers'):
            count = getattr(parsed_args, option)
            if count is not None and count < 1:
                raise errors.InputError(
                    f'Cannot use --{option.replace("_", "-")} {count}: a '
                    'cluster has at least 1. Use 1 or more, or run '
                    f"'hvstack cluster delete {parsed_args.name}'."
                )
        worker_count = parsed_args.workers
        options = conf.load().cloud
        conn = connection.connect(parsed_args.os_cloud)
        progress = Progress()
        stack = stack_updates.settled(
            conn,
            parsed_args.name,
            timeout=options.stack_timeout,
            progress=progress,
        )
        outputs = stacks.outputs(conn, parsed_args.name)
        nodes = topology_refresh.nodes(conn, outputs, parsed_args.map)
        workers = scale.workers(conn, stack, nodes)
        with open_cluster(conn, outputs, parsed_args) as cluster:
            replication = scale.replication(cluster.gateway)
            node_groups = topology_refresh.grouped(cluster.gateway)
            change = scale_plan.plan(
                workers,
                len(workers) if worker_count is None else worker_count,
                replication,
                going=scale.going(cluster),
                replace=parsed_args.replace,
                compute=scale.workers(conn, stack, nodes, 'compute'),
                compute_after=parsed_args.compute_workers,
                node_groups=node_groups,
            )
            if change.replace:
                scale_plan.refuse_endless_drain(
                    workers,
                    change,
                    replication,
                    live=scale.list_live(cluster),
                    node_groups=node_groups,
                )
            scale_room.refuse(
                conn, stack, change, nodes, options.max_resources_per_stack
            )
            fields = change.to_mapping()
            ready_seconds = stack_times.compute_ready_seconds(
                options.ready_timeout, change.after + change.compute_after
            )
            if not parsed_args.dry_run:
                after = scale.scale(
                    conn,
                    stack,
                    cluster,
                    change,
                    lambda new: open_cluster(
                        conn, new, parsed_args, ready_seconds
                    ),
                    timeouts=scale.ScaleTimeouts(
                        parsed_args.timeout, ready_seconds
                    ),
                    progress=progress,
                    map_file=parsed_args.map,
                )
                fields['workers_now'] = [
                    worker.name
                    for worker in (
                        *read_nodes(after, 'workers'),
                        *read_nodes(after, 'compute'),
                    )
                ]
                report_compute_clusters(conn, after, progress)
        return tuple(fields), tuple(fields.values())
