# SPDX-License-Identifier: Apache-2.0
"""``hvstack cluster burn-in``: which parts of a cluster are slower."""

import argparse
import dataclasses
from collections.abc import Sequence

from cliff.lister import Lister

from hvstack import errors
from hvstack.burn_in.outliers import RowVerdict
from hvstack.burn_in.runner import (
    ALL_MEASURES,
    BurnIn,
    BurnInPlan,
    BurnInRow,
    compare_rows,
)
from hvstack.cli import arguments
from hvstack.cli.cluster_topology import add_cluster, add_map, open_cluster
from hvstack.cli.tables import DATA_FORMATS, Row, Table
from hvstack.cloud import connection, stacks
from hvstack.cluster import shared_hdfs, topology_refresh
from hvstack.cluster.base import Node
from hvstack.cluster.ssh import SSHNode
from hvstack.cluster.stack import StackCluster
from hvstack.progress import Progress
from hvstack.tpcxhs.workload import parse_size

_COLUMNS = (
    *('Host', 'Node', 'Where', 'Measure', 'Value', 'Unit'),
    *('Of the others (%)', 'Verdict'),
)
#: Characters of a hostId, which has 56: enough to distinguish hosts.
_HOST_LENGTH = 12
_DEFAULTS = BurnInPlan()
_THRESHOLD = 10.0


def _add_measures(parser: argparse.ArgumentParser) -> None:
    """Add the options that select what is measured, and how often."""
    names = [measure.name for measure in ALL_MEASURES]
    parser.add_argument(
        '--only',
        action='append',
        choices=names,
        metavar='MEASURE',
        help='Measure only this: '
        + ', '.join(f"'{name}'" if ' ' in name else name for name in names)
        + '. Can be repeated (default: all).',
    )
    parser.add_argument(
        '--rounds',
        type=arguments.count,
        default=_DEFAULTS.rounds,
        metavar='N',
        help='Number of times that everything is measured '
        f'(default: {_DEFAULTS.rounds}).',
    )
    parser.add_argument(
        '--size',
        type=parse_size,
        default=_DEFAULTS.size_bytes,
        metavar='SIZE',
        help='Size of the test file on each data disk, such as 4GB. The '
        'disks need twice this free space '
        f'(default: {_DEFAULTS.size_bytes // 10**6}MB).',
    )
    parser.add_argument(
        '--pairs',
        type=arguments.count,
        default=_DEFAULTS.max_pairs,
        metavar='N',
        help='Maximum number of pairs of hosts between which the network is '
        f'measured (default: {_DEFAULTS.max_pairs}).',
    )
    parser.add_argument(
        '--seed',
        type=arguments.count,
        default=_DEFAULTS.seed,
        metavar='N',
        help='Seed of the random order, and of the sample of the pairs '
        f'(default: {_DEFAULTS.seed}).',
    )
    parser.add_argument(
        '--threshold',
        type=arguments.number,
        default=_THRESHOLD,
        metavar='PERCENT',
        help='Percent by which an outlier is at least worse than the median '
        f'of the others (default: {_THRESHOLD:g}).',
    )


def _build_plan(parsed_args: argparse.Namespace) -> BurnInPlan:
    """Return the plan that the options select.

    :raises hvstack.errors.InputError: a number is too small.
    """
    for option in ('rounds', 'pairs'):
        if getattr(parsed_args, option) < 1:
            raise errors.InputError(
                f'Cannot use --{option} {getattr(parsed_args, option)}: it '
                'is less than 1. Use 1 or more.'
            )
    if not 0 <= parsed_args.threshold < 100:
        raise errors.InputError(
            f'Cannot use --threshold {parsed_args.threshold:g}: it is not '
            'from 0 to less than 100. Use a percentage such as 10.'
        )
    return BurnInPlan(
        tuple(
            measure
            for measure in ALL_MEASURES
            if not parsed_args.only or measure.name in parsed_args.only
        ),
        parsed_args.rounds,
        parsed_args.size,
        parsed_args.pairs,
        parsed_args.seed,
    )


def _place_nodes(
    cluster: StackCluster, stack_nodes: Sequence[topology_refresh.StackNode]
) -> list[Node]:
    """Return the nodes of a cluster with the hosts where they are now."""
    hosts = {node.name: node.host for node in stack_nodes if node.host}
    return [
        dataclasses.replace(node, host=hosts.get(node.name, node.host))
        if isinstance(node, SSHNode)
        else node
        for node in cluster.nodes
    ]


def _refuse_jobs(cluster: StackCluster, progress: Progress) -> None:
    """Refuse a cluster with jobs, which would share what is measured.

    :raises hvstack.errors.BusyError: YARN runs applications.
    """
    try:
        job_count = topology_refresh.running_jobs(cluster.manager)
    except errors.HVStackError:
        progress.warn('YARN does not answer: its jobs are not checked')
        return
    if job_count:
        raise errors.BusyError(
            f'Cannot measure cluster {cluster.name}: {job_count} applications '
            "run or wait. Wait for their end, or end them with 'yarn "
            "application -kill'."
        )


class BurnInCluster(Lister):
    """Measure all nodes of a cluster, and name those that are slower.

    Every measure of every node is compared with the median of the others:
    data disks (fio), memory (stress-ng), processors, and the network between
    hosts (iperf3). TestDFSIO and NNBench measure the whole cluster. The exit
    status is 1 if a part is slower. The test files are deleted. The command
    needs the rights of the project of the stack only.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_cluster(parser)
        add_map(parser)
        _add_measures(parser)
        parser.add_argument(
            '--dry-run',
            action='store_true',
            help='List what would be measured, and measure nothing.',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Measure, compare and list."""
        self.has_failed = False
        plan = _build_plan(parsed_args)
        conn = connection.connect(parsed_args.os_cloud)
        outputs = stacks.outputs(conn, parsed_args.name)
        shared_hdfs.refuse_compute_cluster(parsed_args.name, outputs)
        stack_nodes = topology_refresh.nodes(conn, outputs, parsed_args.map)
        progress = Progress()
        with open_cluster(conn, outputs, parsed_args) as cluster:
            burn_in = BurnIn(
                _place_nodes(cluster, stack_nodes), plan, progress, cluster
            )
            rows = burn_in.prepare()
            for note in burn_in.notes:
                progress.say(note)
            if parsed_args.dry_run:
                return _COLUMNS, _list_planned(rows, parsed_args.formatter)
            _refuse_jobs(cluster, progress)
            burn_in.run(rows)
        verdicts = compare_rows(rows, parsed_args.threshold)
        self.has_failed = any(verdict.is_outlier for verdict in verdicts) or (
            not any(row.values for row in rows)
        )
        self.app.stderr.write(f'hvstack: {_summarize(rows, verdicts)}\n')
        return _COLUMNS, [
            _list_fields(row, verdict, plan, parsed_args.formatter)
            for row, verdict in zip(rows, verdicts, strict=True)
        ]

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Exit with status 1 if a part is slower than the others."""
        status = int(super().run(parsed_args) or 0)
        return status or int(self.has_failed)


def _list_planned(rows: Sequence[BurnInRow], formatter: str) -> list[Row]:
    """Return the rows of ``--dry-run``."""
    empty = None if formatter in DATA_FORMATS else ''
    return [
        (
            *_name_subject(row),
            *(empty, row.measure.unit, empty),
            row.measure.description
            if row.nodes
            else f'not measured: {row.reason}',
        )
        for row in rows
    ]


def _name_subject(row: BurnInRow) -> tuple[str, ...]:
    """Return the columns that name what is measured."""
    subject = row.subject
    return (
        ' - '.join(host[:_HOST_LENGTH] for host in subject.hosts),
        ' - '.join(subject.nodes),
        subject.where,
        row.measure.name,
    )


def _list_fields(
    row: BurnInRow, verdict: RowVerdict, plan: BurnInPlan, formatter: str
) -> Row:
    """Return the columns of a row with its verdict."""
    empty = None if formatter in DATA_FORMATS else ''
    text = verdict.text + (' (host)' if verdict.host else '')
    if row.values and len(row.values) < plan.rounds:
        text += f' ({len(row.values)} of {plan.rounds} rounds: {row.reason})'
    return (
        *_name_subject(row),
        empty if row.value is None else round(row.value, 1),
        row.measure.unit,
        empty if verdict.of_others is None else round(verdict.of_others, 1),
        text,
    )


def _summarize(
    rows: Sequence[BurnInRow], verdicts: Sequence[RowVerdict]
) -> str:
    """Return a sentence with the outliers, hosts instead of their parts."""
    outliers: dict[str, list[float]] = {}
    for row, verdict in zip(rows, verdicts, strict=True):
        if not verdict.is_outlier:
            continue
        name = (
            f'host {verdict.host[:_HOST_LENGTH]}'
            if verdict.host
            else ' - '.join(row.subject.nodes)
        )
        if not verdict.host and row.subject.where not in ('node', 'pair'):
            name += f' {row.subject.where}'
        outliers.setdefault(f'{row.measure.name} of {name}', []).append(
            verdict.of_others or 0
        )
    # The best part of a host: all of them are slower.
    named = [
        f'{name} ({max(percents):.0f} % of the others)'
        for name, percents in outliers.items()
    ]
    missing_count = sum(not row.values for row in rows)
    return '. '.join(
        [
            f'{len(named)} outlier{"s" * (len(named) > 1)}: '
            + '; '.join(named)
            if named
            else 'No part is an outlier',
            *([f'{missing_count} were not measured'] if missing_count else []),
        ]
    )
