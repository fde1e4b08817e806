# SPDX-License-Identifier: Apache-2.0
"""``hvstack accept``: does a cloud keep what its flavors promise."""

import argparse
import contextlib
import datetime
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cliff.lister import Lister
from openstack.connection import Connection

from hvstack import conf, errors, extras, host_profiles, paths
from hvstack.accept import (
    cleanup,
    placement_only,
    power,
    report,
    runner,
    tempest_conf,
)
from hvstack.accept.host_inspection import ACCESS
from hvstack.accept.runner import Selection
from hvstack.accept.tempest_conf import (
    Workspace,
    has_separate_controller_hosts,
)
from hvstack.accept.test_results import (
    SCOPES,
    AcceptanceResult,
    AcceptanceTestResult,
)
from hvstack.cli import arguments
from hvstack.cli.options import add_cloud, cloud_name
from hvstack.cloud import connection, keypairs
from hvstack.cluster import planner
from hvstack.cluster.plan import ClusterSpec
from hvstack.lab.clouds_yaml import ADMIN_CLOUD
from hvstack.lab.hosts.sizes import CATALOGUES
from hvstack.model.catalogue import Catalogue
from hvstack.model.configuration import Configuration, parse
from hvstack.model.host import HostProfile
from hvstack.progress import Progress

_COLUMNS = ('Ring', 'Test', 'Verdict', 'Promises', 'Seconds', 'Why')
_HVSTACK = extras.program('hvstack')
#: What is known of the lab without being told.
_LAB = {
    'host_access': 'command',
    'host_command': f'{_HVSTACK} lab host exec {{host}} --',
    'power_off_command': f'{_HVSTACK} lab host off {{host}}',
    'power_on_command': f'{_HVSTACK} lab host on {{host}}',
}
#: What takes a host away, and is in tempest.conf only if that was asked for.
_POWER = ('power_off_command', 'power_on_command')
#: Split into words as a shell does.
_COMMANDS = ('host_command', *_POWER)
_HOST_OPTIONS = (*_LAB, 'host_ssh_key', 'libvirt_uri')


class Accept(Lister):
    """Prove on a running cloud what its flavors promise.

    Ends with status 0 only where every test passed: what could not be looked
    at is "not checked", and needs --allow-unchecked. Full report in the
    workspace: report.html, report.json, report.xml (JUnit).
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_cloud(parser)
        parser.add_argument(
            '--scope',
            action='append',
            choices=SCOPES,
            help="rights that tests need: tenant a member's, operator an "
            "administrator's, host access to compute hosts; may be repeated "
            '(default: all)',
        )
        parser.add_argument(
            '--smoke', action='store_true', help='only what starts nothing'
        )
        parser.add_argument(
            '--destructive',
            action='store_true',
            help="also what cuts a host's power",
        )
        parser.add_argument(
            '--test',
            default='',
            metavar='REGEX',
            help='only tests with this in their names, such as test_pins',
        )
        parser.add_argument(
            '--catalogue',
            action='append',
            type=arguments.catalogue,
            metavar='FILE',
            help='Published catalogue, or the name of a catalogue of the '
            'package; may be repeated (default, for the lab only: its own).',
        )
        parser.add_argument(
            '--include-candidates',
            action='store_true',
            help='flavors without approval are promised too',
        )
        parser.add_argument(
            '--public',
            action='store_true',
            help='flavors were published for everybody',
        )
        parser.add_argument(
            '--configuration',
            default='i1',
            metavar='NAME',
            help='of the cluster that is created (default: i1)',
        )
        parser.add_argument(
            '--stack-request',
            type=arguments.path,
            metavar='FILE',
            help="stack.json that an administrator's --dry-run wrote, for a "
            'member, who cannot see hosts',
        )
        parser.add_argument(
            '--stack',
            metavar='NAME',
            help="a cluster that is there, made by 'hvstack cluster create': "
            'it is looked at instead of a new one',
        )
        parser.add_argument(
            '--tenant-os-cloud',
            metavar='NAME',
            type=cloud_name,
            help='entry of clouds.yaml whose project has the --stack '
            '(default: the same)',
        )
        parser.add_argument(
            '--no-hadoop',
            action='store_true',
            help="the cluster's servers do not run Hadoop",
        )
        parser.add_argument(
            '--placement-only',
            action='store_true',
            help='hosts are fake: only where Nova puts the nodes of '
            '--configuration is looked at, by flavors of the catalogues; all '
            'else is not checked',
        )
        parser.add_argument(
            '--image',
            metavar='IMAGE',
            help='for servers that only have to start (default: image of '
            'hvstack.conf)',
        )
        parser.add_argument(
            '--volume-backend',
            action='append',
            default=[],
            metavar='TYPE:NAME',
            help='a promised volume type and its volume_backend_name; may be '
            'repeated',
        )
        parser.add_argument(
            '--disk-pinning',
            action='store_true',
            help='each disk of these types was promised to one node alone',
        )
        parser.add_argument(
            '--host-access', choices=ACCESS, help='how to reach hosts'
        )
        for option, text in (
            ('--host-command', "program that enters '{host}'"),
            ('--host-ssh-key', 'private key of root on the hosts'),
            ('--libvirt-uri', 'of the hosts (default: qemu:///system)'),
            ('--power-off-command', "cuts the power of '{host}'"),
            ('--power-on-command', "powers '{host}' on"),
        ):
            parser.add_argument(option, help=text)
        parser.add_argument(
            '--accounts',
            type=arguments.path,
            metavar='FILE',
            help="Tempest's accounts.yaml (default: users are made with the "
            "administrator's rights)",
        )
        parser.add_argument(
            '--concurrency', type=arguments.count, default=1, metavar='N'
        )
        parser.add_argument(
            '--allow-unchecked',
            action='store_true',
            help='status 0 although something could not be looked at',
        )
        parser.add_argument(
            '--workspace',
            type=arguments.path,
            metavar='FOLDER',
            help='for tempest.conf, results and reports',
        )
        mode_group = parser.add_mutually_exclusive_group()
        mode_group.add_argument(
            '--dry-run',
            action='store_true',
            help='write tempest.conf and list the tests, run none',
        )
        mode_group.add_argument(
            '--last',
            action='store_true',
            help="only report the workspace's last run, such as one of "
            "'tempest run'",
        )
        mode_group.add_argument(
            '--cleanup',
            action='store_true',
            help='only delete what interrupted tests left',
        )
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Turn the verdict into the exit status."""
        self.status = 0
        return int(super().run(parsed_args) or self.status)

    @extras.required('tempest')
    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """Run the tests and write the report."""
        _check(parsed_args)
        progress = Progress()
        conn = connection.connect(parsed_args.os_cloud)
        tenant = conn
        if parsed_args.tenant_os_cloud:
            tenant = connection.connect(parsed_args.tenant_os_cloud)
        cloud = str(conn.config.name or 'cloud')
        directory_name = re.sub(r'[^\w.-]', '_', cloud)
        workspace = Workspace(
            (
                parsed_args.workspace
                or paths.STATE / 'accept' / directory_name
            ).resolve()
        )
        with contextlib.ExitStack() as stack:
            stack.enter_context(runner.lock_workspace(workspace))
            held: list[int] = []
            if not parsed_args.last:
                runner.handle_orphans(workspace, end=parsed_args.cleanup)
                if not parsed_args.dry_run:
                    url = str(getattr(conn.session.auth, 'auth_url', cloud))
                    held.append(
                        stack.enter_context(runner.lock_cloud(workspace, url))
                    )
                    _power_on(workspace, progress)
            if parsed_args.cleanup:
                removed = cleanup.delete_test_resources(
                    conn,
                    progress,
                    workspace.prefix,
                    _others(conn, tenant, parsed_args),
                )
                return ('Deleted',), [(name,) for name in removed]
            started_at = datetime.datetime.now(datetime.UTC)
            if parsed_args.last:
                results = runner.load_last_results(workspace)
                started_at = runner.last_run_time(workspace)
            else:
                _prepare(conn, tenant, cloud, workspace, parsed_args, progress)
                chosen = Selection(
                    parsed_args.scope or SCOPES,
                    parsed_args.smoke,
                    parsed_args.destructive,
                    parsed_args.test,
                )
                if parsed_args.dry_run:
                    progress.say(f'wrote {workspace.conf}')
                    names = runner.list_tests(workspace, chosen)
                    return ('Test',), [(name,) for name in names]
                results = _run(
                    *(conn, tenant, workspace, chosen, parsed_args, progress),
                    held=held,
                )
        acceptance_result = AcceptanceResult(
            cloud, started_at.isoformat(timespec='seconds'), results
        )
        for path in report.write_report(
            acceptance_result, workspace.directory
        ):
            progress.say(f'wrote {path}')
        counts = ', '.join(
            f'{n} {name}' for name, n in acceptance_result.counts.items()
        )
        progress.say(f'{acceptance_result.verdict}: {counts}')
        self.status = acceptance_result.exit_status(
            parsed_args.allow_unchecked
        )
        return _COLUMNS, [
            (
                test_result.scope,
                test_result.test,
                test_result.verdict,
                f'{sum(c.good for c in test_result.check_results)} of '
                f'{len(test_result.check_results)}',
                test_result.seconds,
                test_result.reason,
            )
            for test_result in acceptance_result.results
        ]


def _check(parsed_args: argparse.Namespace) -> None:
    """Refuse options that stestr or the tests would stumble over.

    :raises hvstack.errors.InputError: names the option and a remedy.
    """
    if parsed_args.concurrency < 0:
        raise errors.InputError(
            f'--concurrency is {parsed_args.concurrency}: give 1 or more, or '
            '0 for as many as there are CPUs'
        )
    try:
        re.compile(parsed_args.test)
    except re.error as exc:
        raise errors.InputError(
            f"--test '{parsed_args.test}' is no regular expression ({exc}): "
            'give a part of a name, such as test_pins'
        ) from exc
    backends = [
        assignment.partition(':') for assignment in parsed_args.volume_backend
    ]
    for name, colon, backend in backends:
        if not (name and backend) or re.search('[:,]', backend):
            raise errors.InputError(
                f"--volume-backend '{name}{colon}{backend}' is not TYPE:NAME: "
                'give a volume type and its volume_backend_name, such as '
                'disk-slot-1:slot1'
            )
    names = [name for name, _, _ in backends]
    if twice := {name for name in names if names.count(name) > 1}:
        raise errors.InputError(
            f"--volume-backend names '{min(twice)}' twice: give each type once"
        )
    for name in _COMMANDS:
        try:
            shlex.split(getattr(parsed_args, name) or '')
        except ValueError as exc:
            raise errors.InputError(
                f'--{name.replace("_", "-")}: {exc}: close its quotes, as '
                'for a shell'
            ) from exc


def _run(
    conn: Connection,
    tenant: Connection,
    workspace: Workspace,
    chosen: Selection,
    parsed_args: argparse.Namespace,
    progress: Progress,
    held: list[int],
) -> list[AcceptanceTestResult]:
    """Run the tests; what an interrupted run leaves is deleted at once."""
    # One user looks at a cluster that is there, so one test does at a time.
    count = 1 if parsed_args.stack else parsed_args.concurrency
    others = _others(conn, tenant, parsed_args)
    prefix = workspace.prefix
    try:
        for name in cleanup.delete_test_resources(
            conn, progress, prefix, others
        ):
            progress.say(f'deleted what an earlier run left: {name}')
    except errors.HVStackError as exc:
        # Tests whose room it takes say so.
        progress.say(f'an earlier run left something: {exc}')
    report.delete_report(workspace.directory)
    try:
        with progress.stage('tests'):
            return runner.run_tests(workspace, chosen, count, held)
    except BaseException:
        with progress.stage('cleaning up'):
            try:
                _power_on(workspace, progress)
            finally:
                cleanup.delete_test_resources(conn, progress, prefix, others)
        raise


def _power_on(workspace: Workspace, progress: Progress) -> None:
    """Power on the hosts that tests left without power.

    :raises hvstack.errors.CloudError: one cannot be powered on.
    """
    for host in power.restore_power(workspace.directory):
        progress.say(f'powered on {host}, which a test had left without power')


def _others(
    conn: Connection, tenant: Connection, parsed_args: argparse.Namespace
) -> list[Connection]:
    """Return the users in whose own projects tests are run.

    :raises hvstack.errors.InputError: one of --accounts cannot log in.
    """
    others = [] if tenant is conn else [tenant]
    if parsed_args.accounts is not None:
        others += tempest_conf.connect_users(parsed_args.accounts, conn)
    return others


def _prepare(
    conn: Connection,
    tenant: Connection,
    cloud: str,
    workspace: Workspace,
    parsed_args: argparse.Namespace,
    progress: Progress,
) -> None:
    """Write tempest.conf and the request for a cluster."""
    options = conf.load().cloud
    configuration = parse(parsed_args.configuration)
    catalogues = _catalogues(cloud, parsed_args)
    placed = parsed_args.placement_only
    accounts = parsed_args.accounts
    if parsed_args.stack:
        accounts = workspace.directory / 'accounts.yaml'
        paths.write_whole(
            accounts, tempest_conf.render_accounts(tenant, conn), 0o600
        )
    values = tempest_conf.credential_sections(conn, accounts)
    values |= tempest_conf.service_sections(
        conn,
        image=parsed_args.image or options.image,
        network=options.network,
    )
    group = values['hvstack']
    group |= {
        'catalogues': [path.resolve() for path in catalogues],
        'configuration': configuration.name,
        'include_candidates': parsed_args.include_candidates,
        'public': parsed_args.public,
        'volume_backends': parsed_args.volume_backend,
        'disk_pinning': parsed_args.disk_pinning,
        'guests': not placed,
        'hadoop': not (parsed_args.no_hadoop or placed),
        'stack': parsed_args.stack,
        'stack_key': parsed_args.stack and keypairs.FOLDER / parsed_args.stack,
        'stack_timeout': options.stack_timeout,
        'ready_timeout': options.ready_timeout,
    }
    if cloud == ADMIN_CLOUD and not placed:
        group |= _LAB
    group |= {
        name: value
        for name in _HOST_OPTIONS
        if (value := getattr(parsed_args, name)) is not None
    }
    if not parsed_args.destructive:
        # 'tempest run' takes whatever tempest.conf allows.
        for name in _POWER:
            group.pop(name, None)
    try:
        if not values['service_available']['heat']:
            raise errors.CloudError('the cloud has no Heat')
        if placed:
            group |= _placed(
                conn,
                values,
                workspace,
                [host_profiles.read_catalogue(path) for path in catalogues],
                configuration,
                options,
            )
        else:
            group |= _cluster(
                conn, configuration, workspace, parsed_args, options
            )
    except errors.HVStackError as exc:
        reason = ' '.join(f'no cluster can be made: {exc}'.split())
        # Options name others by a dollar sign.
        group['no_cluster'] = reason.replace('$', '$$')
        progress.say(f'{reason}; its tests are skipped')
    workspace.write(values)


def _placed(
    conn: Connection,
    values: Mapping[str, Any],
    workspace: Workspace,
    catalogues: list[tuple[Catalogue, HostProfile]],
    configuration: Configuration,
    options: Any,
) -> dict[str, Any]:
    """Return what tests need to know of a cluster without guests.

    :raises hvstack.errors.HVStackError: none can be made here.
    """
    cluster_plan, size = placement_only.plan_cluster(
        conn,
        catalogues,
        configuration,
        image=values['hvstack']['image'],
        network=options.network,
    )
    tempest_conf.write_request(
        workspace,
        tempest_conf.build_stack_request(cluster_plan, conn),
    )
    return {
        'stack_request': workspace.stack_request,
        'workers_per_host': configuration.instances,
        'controllers_beside_workers': size.rule != 'host',
        'replication': cluster_plan.nodes.replication,
        'full_cluster': True,
    }


def _cluster(
    conn: Connection,
    configuration: Configuration,
    workspace: Workspace,
    parsed_args: argparse.Namespace,
    options: Any,
) -> dict[str, Any]:
    """Return what tests need to know of the cluster that they make.

    :raises hvstack.errors.HVStackError: none can be made here.
    """
    if parsed_args.stack_request is not None:
        tempest_conf.read_request(parsed_args.stack_request)
        return {
            'stack_request': parsed_args.stack_request.resolve(),
            'workers_per_host': configuration.instances,
            'controllers_beside_workers': True,
            # It was written by this command, which takes every slot.
            'full_cluster': True,
        }
    cluster_plan = planner.plan_cluster(
        conn, ClusterSpec(configuration), options
    )
    tempest_conf.write_request(
        workspace,
        tempest_conf.build_stack_request(cluster_plan, conn),
    )
    cluster_options = {
        'stack_request': workspace.stack_request,
        'workers_per_host': configuration.instances,
        'controllers_beside_workers': not has_separate_controller_hosts(
            cluster_plan
        ),
        'replication': cluster_plan.nodes.replication,
        'shared_kernel': cluster_plan.hosts.shared_kernel,
        'full_cluster': True,
    }
    if cluster_plan.hosts.backend == 'lxc' and parsed_args.libvirt_uri is None:
        cluster_options['libvirt_uri'] = 'lxc:///'
    return cluster_options


def _catalogues(cloud: str, parsed_args: argparse.Namespace) -> list[Path]:
    """Return the catalogues that were given, or the lab's.

    :raises hvstack.errors.InputError: there are none, or one is not there.
    """
    catalogue_paths: list[Path] = parsed_args.catalogue or []
    if not catalogue_paths and cloud == ADMIN_CLOUD:
        catalogue_paths = sorted(CATALOGUES.glob('*.yaml'))
    if not catalogue_paths:
        raise errors.InputError(
            'no --catalogue: give the files of the published flavors, '
            "'hvstack flavor export' writes them"
        )
    for path in catalogue_paths:
        if not os.access(path, os.R_OK):
            raise errors.InputError(
                f'--catalogue {path}: cannot be read, give a YAML file'
            )
    return catalogue_paths
