# SPDX-License-Identifier: Apache-2.0
"""``hvstack accept --first-run``: the checklist for hosts with KVM."""

import argparse
import contextlib
import datetime
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from openstack.connection import Connection

from hvstack import conf, errors, host_profiles
from hvstack.accept import first_run_cluster, host_inspection, report
from hvstack.accept.check_result import CheckResult, check_equal
from hvstack.accept.first_run import GUEST_ITEMS, FirstRun
from hvstack.accept.first_run_items import ITEMS
from hvstack.accept.first_run_results import HELD, NOT_HELD, ItemResult
from hvstack.accept.host_inspection import Access
from hvstack.accept.tempest_conf import Workspace
from hvstack.accept.test_results import UNCHECKED, AcceptanceResult
from hvstack.cli.accept_conf import list_host_options
from hvstack.cli.accept_options import FIRST_RUN_CONFIGURATION
from hvstack.cli.cluster import build_cluster
from hvstack.cloud import hypervisors, journal, stack_lookup, undo
from hvstack.cloud.connection import refused
from hvstack.cluster import baseline_hosts, planner
from hvstack.cluster.plan import ClusterPlan, ClusterSpec
from hvstack.conf import CloudOptions
from hvstack.model.compute_backends import unsupported_parameter
from hvstack.model.configuration import Configuration, parse
from hvstack.model.host_settings import compute_host_settings
from hvstack.progress import Progress
from hvstack.sweep import recovery

COLUMNS = ('Item', 'Verdict', 'Observed', 'Expected', 'Remedy')
PLAN_COLUMNS = ('Item', 'Property', 'Read from', 'Expected', 'Source')

#: Number of workers of a small cluster, if the hosts have enough slots.
_WORKERS = 2
#: Compute API with the addresses of hypervisors.
_HOST_IP_API = '2.86'


@dataclass(frozen=True)
class AcceptTarget:
    """Cloud, project and workspace of an acceptance.

    :param admin: connection of an administrator.
    :param tenant: connection of the project that gets the stack.
    :param cloud: name of the cloud.
    :param workspace: workspace, which gets the report.
    """

    admin: Connection
    tenant: Connection
    cloud: str
    workspace: Workspace

    @property
    def stack(self) -> str:
        """Name of the stack, which a clean-up of the workspace deletes."""
        return f'{self.workspace.prefix}-first-run'

    @property
    def connections(self) -> list[Connection]:
        """Connections that created something."""
        return [self.admin, self.tenant]


def list_planned(
    target: AcceptTarget,
    parsed_args: argparse.Namespace,
    progress: Progress,
) -> list[tuple[str, ...]]:
    """Say what would be created, and return the rows of the checklist."""
    options = conf.load().cloud
    plan = _plan_cluster(target.admin, parsed_args, options, progress)
    progress.say(
        f'would create and delete stack {target.stack}, configuration '
        f'{plan.spec.configuration.name}, with {plan.nodes.workers} '
        f'worker{"s" * (plan.nodes.workers != 1)} and a controller'
    )
    for role, flavor in (
        ('worker', plan.flavors.worker),
        ('controller', plan.flavors.controller),
    ):
        progress.say(
            f'  {role}: flavor {flavor.name} ({flavor.vcpus} vCPUs, '
            f'{flavor.ram} MiB, image {plan.stack.image}, network '
            f'{plan.stack.network})'
        )
    progress.say(f'  key pair {target.stack}, allocation ratios {plan.ratios}')
    progress.say(f'  hosts: {", ".join(sorted(plan.hosts.providers))}')
    try:
        planner.check(target.tenant, plan, options)
    except errors.HVStackError as exc:
        progress.warn(f'the cluster cannot be created: {exc}')
    return [
        (item.id, item.subject, item.reading, item.expected, item.source)
        for item in ITEMS
    ]


def execute(
    target: AcceptTarget,
    parsed_args: argparse.Namespace,
    progress: Progress,
) -> tuple[AcceptanceResult, list[tuple[str, ...]]]:
    """Check all items with a small cluster, and delete the cluster.

    :returns: the result, which was written to the workspace, and its rows.
    :raises hvstack.errors.HVStackError: the cluster cannot be planned.
    """
    started_at = datetime.datetime.now(datetime.UTC)
    recovery.recover(target.connections, progress)
    options = conf.load().cloud
    plan = _plan_cluster(target.admin, parsed_args, options, progress)
    settings = compute_host_settings(
        host_profiles.load(options.host_profile),
        plan.spec.configuration.cpu_policy,
    )
    host_options = list_host_options(target.cloud, parsed_args)
    with open_access(target.admin, host_options, plan) as access:
        first_run = FirstRun(target.admin, access, plan, settings)
        first_run.skip_impossible_items()
        with progress.stage('hosts'):
            first_run.check_hosts(_find_hosts(target.admin, plan))
        try:
            _check_with_cluster(target, first_run, options, progress)
        except BaseException:
            undo.undo_own(target.connections, progress)
            raise
        _delete_cluster(target, first_run, progress)
    results = first_run.checklist.results()
    acceptance_result = AcceptanceResult(
        target.cloud,
        started_at.isoformat(timespec='seconds'),
        [result.to_test_result() for result in results],
    )
    directory = target.workspace.directory / 'first-run'
    for path in report.write_report(acceptance_result, directory):
        progress.say(f'wrote {path}')
    counts = [
        f'{sum(result.verdict == verdict for result in results)} {verdict}'
        for verdict in (HELD, NOT_HELD, UNCHECKED)
    ]
    progress.say(f'{len(results)} items: {", ".join(counts)}')
    return acceptance_result, [_build_row(result) for result in results]


def _build_row(result: ItemResult) -> tuple[str, ...]:
    return (
        *(result.item.id, result.verdict, result.observed),
        *(result.expected, result.remedy),
    )


def _plan_cluster(
    admin: Connection,
    parsed_args: argparse.Namespace,
    options: CloudOptions,
    progress: Progress,
) -> ClusterPlan:
    """Plan a small cluster.

    :raises hvstack.errors.HVStackError: the hosts cannot have the cluster.
    """
    spec = ClusterSpec(
        _choose_configuration(admin, parsed_args, progress),
        tuning=baseline_hosts.default_tuning(options.host_profile),
    )
    if parsed_args.workers is None:
        # All slots, because only the planner knows their number.
        plan = planner.plan_cluster(admin, spec, options)
        if plan.nodes.workers <= _WORKERS:
            return plan
        spec = replace(spec, workers=_WORKERS)
    else:
        spec = replace(spec, workers=parsed_args.workers)
    return planner.plan_cluster(admin, spec, options)


def _choose_configuration(
    admin: Connection, parsed_args: argparse.Namespace, progress: Progress
) -> Configuration:
    """Return the requested configuration, or one that the hosts can have."""
    configuration = parse(parsed_args.configuration or FIRST_RUN_CONFIGURATION)
    if parsed_args.configuration:
        return configuration
    types = {
        host.hypervisor_type.lower()
        for host in hypervisors.hypervisors(admin)
        if host.up
    }
    if types == {'lxc'} and unsupported_parameter(configuration, 'lxc'):
        configuration = replace(configuration, cpu_policy='shared')
        progress.say(
            'the hosts run containers, which have no dedicated CPUs: the '
            f'cluster has the configuration {configuration.name}'
        )
    return configuration


@contextlib.contextmanager
def open_access(
    admin: Connection, host_options: Mapping[str, str], plan: ClusterPlan
) -> Iterator[Access]:
    """Yield the access to compute hosts, and close it at the end.

    :param admin: connection of an administrator.
    :param host_options: options of the access by name.
    :param plan: plan of the cluster.
    :raises hvstack.errors.CloudError: Nova does not list the hosts.
    """
    method = host_options.get('host_access', 'none')
    is_container = plan.hosts.backend == 'lxc'
    uri = 'lxc:///' if is_container else 'qemu:///system'
    addresses: Mapping[str, str] = {}
    directory = None
    if method == 'ssh':
        with refused('Cannot list the addresses of the hosts'):
            answer = admin.compute.get(
                '/os-hypervisors/detail',
                microversion=_HOST_IP_API,
                raise_exc=True,
            ).json()
        addresses = host_inspection.map_addresses(answer['hypervisors'])
        directory = Path(tempfile.mkdtemp(prefix='hv'))
    access = Access(
        host_access=method,
        command=host_options.get('host_command', ''),
        key=host_options.get('host_ssh_key', ''),
        ssh_config=host_options.get('host_ssh_config', ''),
        uri=host_options.get('libvirt_uri', uri),
        directory=directory,
        addresses=addresses,
    )
    try:
        yield access
    finally:
        access.close()


def _find_hosts(admin: Connection, plan: ClusterPlan) -> list[str]:
    """Return the hosts of the workers by the names of their services."""
    return sorted(
        host.host
        for host in hypervisors.hypervisors(admin)
        if host.name in plan.hosts.providers
    )


def _check_with_cluster(
    target: AcceptTarget,
    first_run: FirstRun,
    options: CloudOptions,
    progress: Progress,
) -> None:
    """Create the cluster and check it.

    A cluster that cannot be created is an item that did not hold.
    """
    plan, checklist = first_run.plan, first_run.checklist
    try:
        planner.check(target.tenant, plan, options)
        cluster, outputs = build_cluster(
            *(target.admin, target.tenant, plan, target.stack, options),
            progress,
        )
    except errors.HVStackError as exc:
        reason = ' '.join(str(exc).split())
        progress.warn(f'the cluster cannot be created: {reason}')
        checklist.add(
            'cluster-ready', CheckResult('cluster', 'ready', reason, False)
        )
        checklist.add_missing(
            GUEST_ITEMS,
            'the cluster could not be created (cluster-ready)',
            'Correct cluster-ready first.',
        )
        return
    checklist.add('cluster-ready', check_equal('cluster', 'ready', 'ready'))
    with cluster, progress.stage('guests'):
        first_run_cluster.check_cluster(first_run, cluster, outputs)


def _delete_cluster(
    target: AcceptTarget, first_run: FirstRun, progress: Progress
) -> None:
    """Delete what was created, and check that it no longer exists."""
    add = first_run.checklist.add
    try:
        undo.undo_own(target.connections, progress)
    except errors.HVStackError as exc:
        reason = ' '.join(str(exc).split())
        add(
            'cluster-deleted',
            CheckResult('changes', 'undone', reason, False),
        )
        return
    add(
        'cluster-deleted',
        check_equal('entries of the journal', 0, len(journal.own())),
    )
    with first_run.reading(
        ('cluster-deleted',),
        f'stack {target.stack}',
        'Use a cloud whose Heat lists the stacks of the project.',
    ):
        with refused('Cannot list the stacks'):
            stack = stack_lookup.find(target.tenant, target.stack)
        add(
            'cluster-deleted',
            check_equal(
                f'stack {target.stack}',
                'deleted',
                'exists' if stack is not None else 'deleted',
            ),
        )
