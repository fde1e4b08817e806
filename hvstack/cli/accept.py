# SPDX-License-Identifier: Apache-2.0
"""``hvstack accept``: does a cloud keep what its flavors promise."""

import argparse
import contextlib
import datetime
import re
from collections.abc import Sequence
from pathlib import Path

from cliff.lister import Lister
from openstack.connection import Connection

from hvstack import errors, extras, paths
from hvstack.accept import (
    cleanup,
    power,
    report,
    runner,
    tempest_conf,
)
from hvstack.accept.runner import Selection
from hvstack.accept.tempest_conf import (
    Workspace,
)
from hvstack.accept.test_results import (
    SCOPES,
    AcceptanceResult,
    AcceptanceTestResult,
)
from hvstack.cli import accept_first_run
from hvstack.cli.accept_conf import prepare_workspace
from hvstack.cli.accept_first_run import AcceptTarget
from hvstack.cli.accept_options import add_options, check_options
from hvstack.cli.options import add_cloud
from hvstack.cloud import connection
from hvstack.progress import Progress

_COLUMNS = ('Ring', 'Test', 'Verdict', 'Promises', 'Seconds', 'Why')


class Accept(Lister):
    """Check on a running cloud that its flavors keep what they promise.

    The exit status is 0 only if every test passed. What could not be checked
    is "not checked", and needs --allow-unchecked. The workspace contains the
    full report: report.html, report.json, report.xml (JUnit).

    With --first-run, the command runs the checklist for the first run on
    physical hosts with KVM instead of the tests.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_cloud(parser)
        add_options(parser)
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Turn the verdict into the exit status."""
        self.status = 0
        return int(super().run(parsed_args) or self.status)

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Sequence[tuple[str | float, ...]]]:
        """Run the tests or the checklist, and write the report."""
        check_options(parsed_args)
        if parsed_args.first_run:
            return self._run_checklist(parsed_args)
        return self._run_tests(parsed_args)

    def _run_checklist(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Sequence[tuple[str | float, ...]]]:
        """Run the checklist, which needs no Tempest."""
        progress = Progress()
        target = _find_target(parsed_args)
        with contextlib.ExitStack() as stack:
            _take_locks(
                *(stack, target.admin, target.workspace, parsed_args, progress)
            )
            if parsed_args.dry_run:
                return (
                    accept_first_run.PLAN_COLUMNS,
                    accept_first_run.list_planned(
                        target, parsed_args, progress
                    ),
                )
            acceptance_result, rows = accept_first_run.execute(
                target, parsed_args, progress
            )
        self.status = acceptance_result.exit_status(
            parsed_args.allow_unchecked
        )
        return accept_first_run.COLUMNS, rows

    @extras.required('tempest')
    def _run_tests(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Sequence[tuple[str | float, ...]]]:
        """Run the tests and write the report."""
        progress = Progress()
        target = _find_target(parsed_args)
        conn, tenant = target.admin, target.tenant
        cloud, workspace = target.cloud, target.workspace
        with contextlib.ExitStack() as stack:
            held = _take_locks(stack, conn, workspace, parsed_args, progress)
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
                prepare_workspace(
                    conn, tenant, cloud, workspace, parsed_args, progress
                )
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
        _write_report(acceptance_result, workspace, progress)
        self.status = acceptance_result.exit_status(
            parsed_args.allow_unchecked
        )
        return _COLUMNS, _list_rows(acceptance_result)


def _find_target(parsed_args: argparse.Namespace) -> AcceptTarget:
    """Return the cloud, the project and the workspace."""
    conn = connection.connect(parsed_args.os_cloud)
    tenant = conn
    if parsed_args.tenant_os_cloud:
        tenant = connection.connect(parsed_args.tenant_os_cloud)
    cloud = str(conn.config.name or 'cloud')
    return AcceptTarget(
        conn, tenant, cloud, _find_workspace(parsed_args.workspace, cloud)
    )


def _find_workspace(directory: Path | None, cloud: str) -> Workspace:
    """Return the workspace that was given, or that of a cloud."""
    if directory is None:
        name = re.sub(r'[^\w.-]', '_', cloud)
        directory = paths.STATE / 'accept' / name
    return Workspace(directory.resolve())


def _take_locks(
    stack: contextlib.ExitStack,
    conn: Connection,
    workspace: Workspace,
    parsed_args: argparse.Namespace,
    progress: Progress,
) -> list[int]:
    """Lock the workspace and the cloud, and power on hosts left without it.

    :returns: the lock of the cloud, for the tests; none if no test is run.
    """
    stack.enter_context(runner.lock_workspace(workspace))
    if parsed_args.last:
        return []
    runner.handle_orphans(workspace, end=parsed_args.cleanup)
    if parsed_args.dry_run:
        return []
    cloud = conn.config.name or 'cloud'
    url = str(getattr(conn.session.auth, 'auth_url', cloud))
    held = stack.enter_context(runner.lock_cloud(workspace, url))
    _power_on(workspace, progress)
    return [held]


def _write_report(
    acceptance_result: AcceptanceResult,
    workspace: Workspace,
    progress: Progress,
) -> None:
    for path in report.write_report(acceptance_result, workspace.directory):
        progress.say(f'wrote {path}')
    counts = ', '.join(
        f'{n} {name}' for name, n in acceptance_result.counts.items()
    )
    progress.say(f'{acceptance_result.verdict}: {counts}')


def _list_rows(
    acceptance_result: AcceptanceResult,
) -> list[tuple[str | float, ...]]:
    return [
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
        progress.warn(f'an earlier run left something: {exc}')
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
