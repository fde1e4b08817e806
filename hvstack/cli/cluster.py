# SPDX-License-Identifier: Apache-2.0
"""``hvstack cluster``: one Hadoop cluster as a Heat stack."""

import argparse
import re
from collections.abc import Mapping

from cliff.lister import Lister
from cliff.show import ShowOne
from openstack.connection import Connection

from hvstack import conf, errors
from hvstack.cli import arguments, hadoop_options
from hvstack.cli.options import add_cloud, add_zone, cloud_name
from hvstack.cli.tables import Details, Table
from hvstack.cloud import (
    allocation_ratios,
    connection,
    journal,
    keypairs,
    lease,
    stacks,
    undo,
)
from hvstack.cloud.stack_outputs import StackOutputs
from hvstack.cluster import launch, planner, shared_hdfs
from hvstack.cluster.plan import CONTROLLERS, ClusterPlan, ClusterSpec
from hvstack.cluster.stack import StackCluster
from hvstack.conf import CloudOptions
from hvstack.model.configuration import parse
from hvstack.model.plain_data import Json
from hvstack.model.vnics import NORMAL, VNICS
from hvstack.progress import Progress
from hvstack.sweep import recovery

_NAME = re.compile(r'[a-z][a-z0-9-]{0,40}')


def _owner(name: str) -> str:
    return f'cluster {name}'


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how hosts connect the nodes, and where.

    :param parser: parser of a command that describes a cluster.
    """
    parser.add_argument(
        '--vnic',
        choices=VNICS,
        default=NORMAL,
        help='How hosts connect the nodes: by their virtual switch, or past '
        "it on the network 'macvtap_network' of hvstack.conf, where no "
        'security groups protect the nodes (default: %(default)s).',
    )
    parser.add_argument(
        '--stateless-security-group',
        action='store_true',
        help='Do not track connections of the nodes on the hosts. Nodes get '
        'replies only from the metadata service, the API of Heat and the name '
        'servers of the network.',
    )
    add_zone(parser)


def add_readiness(parser: argparse.ArgumentParser) -> None:
    """Add whether nodes tell Heat when they are ready."""
    parser.add_argument(
        '--readiness',
        action='store_true',
        help='Let every node report to Heat when its daemons run, and '
        'let the stack wait for it. Nodes must reach the '
        'CloudFormation API of Heat.',
    )


class _OnCloud(ShowOne):
    """Base class of the commands for one cluster of a cloud."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Describe name and cloud."""
        parser = super().get_parser(prog_name)
        parser.add_argument('name', metavar='NAME', help='Name of the stack.')
        add_cloud(parser)
        parser.add_argument(
            '--tenant-os-cloud',
            metavar='NAME',
            type=cloud_name,
            help='Name of the cloud in clouds.yaml whose project gets '
            'the stack; flavors and ratios are created with '
            '--os-cloud (default: that of --os-cloud).',
        )
        return parser

    def connect(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Connection, Connection]:
        """Return the administrator's and the tenant's connection."""
        admin = connection.connect(parsed_args.os_cloud)
        if parsed_args.tenant_os_cloud is None:
            return admin, admin
        return admin, connection.connect(parsed_args.tenant_os_cloud)


class Create(_OnCloud):
    """Create a cluster for a configuration and wait until Hadoop is ready.

    The command creates the flavors and the key pair that the cluster needs and
    sets the allocation ratios; 'hvstack cluster delete' undoes this.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Describe the configuration."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--configuration',
            default='i1',
            metavar='NAME',
            help='Full or short name, such as i2-c2 (default: i1).',
        )
        parser.add_argument(
            '--replication',
            type=arguments.count,
            metavar='N',
            help='Number of replicas in HDFS, each on another host '
            '(default: 3, or the number of worker hosts if that is '
            'less).',
        )
        hadoop_options.add(parser)
        parser.add_argument(
            '--workers',
            type=arguments.count,
            metavar='N',
            help='Total number of workers (default: one in every '
            'remaining slot); with deployments 3 and 4, number of '
            'workers with data.',
        )
        parser.add_argument(
            '--controllers',
            choices=CONTROLLERS,
            default=CONTROLLERS[0],
            help='Number of controllers: one node, or two on different '
            'hosts (default: %(default)s).',
        )
        add_connection(parser)
        parser.add_argument(
            '--deployment',
            type=arguments.count,
            choices=range(1, 5),
            help='Deployment of the HVE paper: 1 and 2 have one worker '
            'or several per host; 3 and 4 have one data worker or '
            'several per host and several compute workers '
            '(default: 1 or 2, according to the configuration).',
        )
        hadoop_options.add_handlers(parser)
        parser.add_argument(
            '--secondary-namenode',
            action=argparse.BooleanOptionalAction,
            help='run a SecondaryNameNode on the first worker (default: '
            'policy.secondary_namenode of the host profile; the lab has '
            'none, because memory is short)',
        )
        parser.add_argument(
            '--gateway',
            action='store_true',
            help='Create an additional node for clients in a slot '
            'without a worker. In the lab, this requires that '
            '--workers leaves a slot; otherwise clients use the '
            'controller.',
        )
        add_readiness(parser)
        parser.add_argument(
            '--rollback',
            action=argparse.BooleanOptionalAction,
            default=True,
            help='Undo all changes if the cluster creation fails. With '
            "--no-rollback, 'hvstack cluster delete' undoes them "
            '(default: --rollback).',
        )
        parser.add_argument(
            '--dry-run',
            action='store_true',
            help='Show flavors and sizes, and change nothing.',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Details:
        """Create it, or undo all of it."""
        if not _NAME.fullmatch(parsed_args.name):
            raise errors.InputError(
                f"Cannot use cluster '{parsed_args.name}': the names of its "
                'nodes contain its name. Use at most 41 lower-case letters, '
                'digits and dashes, and begin with a letter.'
            )
        admin, tenant = self.connect(parsed_args)
        options = conf.load().cloud
        profiles = hadoop_options.chosen(parsed_args)
        spec = ClusterSpec(
            parse(parsed_args.configuration),
            workers=parsed_args.workers,
            controllers=parsed_args.controllers,
            vnic=parsed_args.vnic,
            stateless_security_group=parsed_args.stateless_security_group,
            availability_zone=parsed_args.availability_zone,
            deployment=parsed_args.deployment,
            gateway=parsed_args.gateway,
            readiness=parsed_args.readiness,
            replication=parsed_args.replication,
            namenode_handlers=hadoop_options.handlers(parsed_args),
            secondary_namenode=parsed_args.secondary_namenode,
            tuning=profiles['tuning'],
            os_profile=profiles['os_profile'],
        )
        cluster_plan = planner.plan_cluster(admin, spec, options)
        progress = Progress()
        if parsed_args.gateway and not cluster_plan.nodes.gateway:
            progress.say(
                'no slot is left: the controller serves as gateway (fewer '
                '--workers leave one)'
            )
        if parsed_args.dry_run:
            planner.check(tenant, cluster_plan, options)
            return _columns(cluster_plan.to_mapping())
        name = parsed_args.name
        if journal.owned(_owner(name)):
            raise errors.InputError(
                f"Cannot create cluster '{name}': it already exists. Use "
                f"another name, or run 'hvstack cluster delete {name}'."
            )
        recovery.recover([admin, tenant], progress)
        # Before flavors and ratios, which others may see.
        planner.check(tenant, cluster_plan, options)
        try:
            cluster, outputs = build_cluster(
                admin, tenant, cluster_plan, name, options, progress
            )
            cluster.close()
        except errors.HVStackError as exc:
            if parsed_args.rollback:
                undo.undo_failed(exc, [admin, tenant], progress)
            else:
                journal.hand_over(journal.own(), _owner(name))
            raise
        except BaseException:
            undo.undo_own([admin, tenant], progress)
            raise
        journal.hand_over(journal.own(), _owner(name))
        return _columns(
            {
                **outputs,
                'key': str(keypairs.DIRECTORY / name),
                'configuration': spec.configuration.name,
            }
        )


def build_cluster(
    admin: Connection,
    tenant: Connection,
    plan: ClusterPlan,
    name: str,
    options: CloudOptions,
    progress: Progress,
) -> tuple[StackCluster, StackOutputs]:
    """Publish the flavors of a cluster, set its ratios and create its stack.

    :param admin: connection of an administrator.
    :param tenant: connection of the project that gets the stack.
    :param plan: plan of the cluster.
    :param name: name of the stack.
    :param options: group ``cloud`` of :mod:`hvstack.conf`.
    :param progress: where to report.
    :returns: the cluster and the outputs of its stack.
    :raises hvstack.errors.HVStackError: one of these steps failed; the
        journal contains the changes.
    """
    with progress.stage('flavors'):
        ids = launch.publish(admin, plan, [str(tenant.current_project_id)])
        _set_ratios(admin, plan, progress)
    with progress.stage('cluster'):
        return launch.launch(admin, tenant, plan, ids, name, options, progress)


def _set_ratios(
    admin: Connection, plan: ClusterPlan, progress: Progress
) -> None:
    """Set a cluster's ratios while no sweep of any machine does.

    The cluster keeps them without the lease.
    """
    if not allocation_ratios.is_set_needed(
        admin, plan.hosts.providers, plan.ratios, shared=plan.is_shared
    ):
        return
    with lease.held(admin, progress):
        allocation_ratios.set_ratios(
            admin, plan.hosts.providers, plan.ratios, shared=plan.is_shared
        )


class Show(_OnCloud):
    """Show the nodes, web interfaces and physical hosts of a cluster."""

    def take_action(self, parsed_args: argparse.Namespace) -> Details:
        """Look at the stack."""
        _, tenant = self.connect(parsed_args)
        outputs = stacks.outputs(tenant, parsed_args.name)
        return _columns(
            {**outputs, 'key': str(keypairs.DIRECTORY / parsed_args.name)}
        )


class Delete(_OnCloud):
    """Delete a cluster with everything that was created for it."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--dry-run',
            action='store_true',
            help='Show what would be deleted or restored, and change nothing.',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Details:
        """Undo what the journal has of it, newest first."""
        admin, tenant = self.connect(parsed_args)
        if not parsed_args.dry_run:
            recovery.recover([admin, tenant], Progress())
        journal_entries = journal.owned(_owner(parsed_args.name))
        if not journal_entries:
            raise errors.InputError(
                f"Cannot find cluster '{parsed_args.name}': it was not "
                "created on this machine. Run 'hvstack cluster list'."
            )
        if any(entry.kind == stacks.KIND for entry in journal_entries):
            shared_hdfs.refuse_deletion(tenant, parsed_args.name)
        foreign_entries = [
            journal_entry
            for journal_entry in journal_entries
            if connection.find_in_scope(journal_entry.scope, (admin, tenant))
            is None
        ]
        if parsed_args.dry_run:
            lines = [
                f'{journal_entry.kind} {journal_entry.data["name"]}'
                for journal_entry in reversed(journal_entries)
                if journal_entry not in foreign_entries
            ]
        else:
            # The sweep of another machine may use the same ratios.
            lines = undo.undo_with_lease(
                journal_entries, [admin, tenant], Progress()
            )
        if foreign_entries:
            raise errors.CloudError(
                f'Cannot delete {len(foreign_entries)} of its resources: they '
                'are in another cloud, region or project. Use the --os-cloud '
                'and --tenant-os-cloud with which the cluster was created.'
            )
        title = 'would delete' if parsed_args.dry_run else 'deleted'
        return (title,), ('\n'.join(lines),)


class List(Lister):
    """List the clusters that were created on this machine."""

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Look at the journal."""
        changes_by_owner: dict[str, list[str]] = {}
        for entry in journal.entries():
            if entry.owner.startswith(_owner('')):
                change = f'{entry.kind} {entry.data["name"]}'
                changes_by_owner.setdefault(
                    entry.owner.removeprefix(_owner('')), []
                ).append(change)
        return ('Name', 'Made for it'), [
            (name, '\n'.join(changes))
            for name, changes in sorted(changes_by_owner.items())
        ]


def _columns(
    values: Mapping[str, Json],
) -> Details:
    return tuple(values), tuple(values.values())
