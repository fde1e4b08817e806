# SPDX-License-Identifier: Apache-2.0
"""``hvstack study run|resume``: execute a study by Rally."""

import argparse

from cliff.command import Command
from openstack.connection import Connection

from hvstack import conf, errors, extras
from hvstack.cli import study as study_commands
from hvstack.cli.options import add_cloud
from hvstack.cli.sweep import ready
from hvstack.cloud import connection, lease, selection
from hvstack.progress import Progress
from hvstack.study import study_page, study_report, study_run
from hvstack.study.study_store import StartedStudy, StudyRecords
from hvstack.sweep import recovery, resource_check, token_check


class _Running(Command):
    """Common part of starting and resuming a study."""

    def connect(self, os_cloud: str, progress: Progress) -> Connection:
        """Connect to a cloud, and restore what a dead process changed there.

        Such as the lease of a study that was killed, or hosts that it took
        from Nova, and that a new study must count.
        """
        conn = connection.connect(os_cloud)
        recovery.recover([conn], progress)
        return conn

    def execute(
        self, study: StartedStudy, conn: Connection, progress: Progress
    ) -> None:
        """Execute the remaining runs, then print the verdicts.

        :param study: started study, or a study without an ID, which is
            started if nothing refuses it.
        :param conn: connection of an administrator.
        :param progress: receives messages.
        :raises hvstack.errors.PartlyFailedError: a variant failed for good;
            the study continued with the others.
        """
        for name, reason in study.skipped.items():
            progress.say(f'skipped: {name}: {reason}')
        options = conf.load()
        targets = [
            (variant.target, variant.setup)
            for variant in study.measured_variants
        ]
        resource_check.check_resources(conn, targets, options)
        token_check.check_token(
            *(conn, conn, targets, options.cloud),
            *(study.host, study.backend),
        )
        with lease.held(conn, progress):
            started = study if study.id else study_commands.start(study)
            progress.say(f'study {started.id}')
            stored = self._run_study(started, conn, progress)
        self.app.stdout.write(study_commands.render(started, 'table'))
        self.app.stdout.write(
            f"Page: 'hvstack study report {started.id} --html FILE'\n"
        )
        if stored.failed:
            raise errors.PartlyFailedError(
                f'{len(stored.failed)} variants failed '
                f'({", ".join(stored.failed)}), and the others were measured. '
                f"Run 'hvstack study report {started.id}', which names the "
                'reasons.'
            )

    def _run_study(
        self, started: StartedStudy, conn: Connection, progress: Progress
    ) -> StudyRecords:
        """Execute the remaining runs, and restore the cloud afterwards."""

        def say_verdicts(stored: StudyRecords) -> None:
            for result in study_report.build_report(started, stored).claims:
                if line := study_page.format_progress(result):
                    progress.say(line)

        try:
            with progress.stage('study'):
                return study_run.run_study(started, progress, say_verdicts)
        finally:
            recovery.recover([conn], progress)


class Run(_Running):
    """Run a study and judge its claims.

    Every run leaves a record. After an interruption, 'study resume' continues
    the study. The exit status is 6 if a variant failed permanently.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        study_commands.add_study(parser)
        study_commands.add_execution(parser)
        add_cloud(parser)
        return parser

    @extras.required('rally')
    def take_action(self, parsed_args: argparse.Namespace) -> None:
        progress = Progress()
        parsed_args.os_cloud = selection.choose(parsed_args.os_cloud)
        cloud = ready(parsed_args.os_cloud, progress)
        conn = self.connect(cloud, progress)
        self.execute(study_commands.prepare(parsed_args), conn, progress)


class Resume(_Running):
    """Resume a study; valid runs are never repeated."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        study_commands.add_id(parser, 'the newest unfinished study')
        add_cloud(parser)
        return parser

    @extras.required('rally')
    def take_action(self, parsed_args: argparse.Namespace) -> None:
        progress = Progress()
        started = study_commands.select(parsed_args.id, is_unfinished=True)
        cloud = ready(
            *(parsed_args.os_cloud, progress),
            first_cloud=started.cloud,
            subject=f"study '{started.id}'",
        )
        self.execute(started, self.connect(cloud, progress), progress)
