# SPDX-License-Identifier: Apache-2.0
"""``hvstack study list|show|plan|report``: studies and their verdicts."""

import argparse
import json
from dataclasses import replace

from cliff.command import Command
from cliff.lister import Lister
from cliff.show import ShowOne

from hvstack import conf, errors, host_profiles, paths
from hvstack.cli import arguments
from hvstack.cli.options import add_cloud
from hvstack.cli.report import add_output, get_form, write_text
from hvstack.cli.tables import Details, Table
from hvstack.cluster import baseline_hosts
from hvstack.model import compute_backends
from hvstack.model.configuration import Configuration
from hvstack.model.plain_data import JsonObject
from hvstack.report.formats import format_size
from hvstack.study import (
    definition,
    paper_comparison,
    study_page,
    study_plan,
    study_report,
    study_store,
)
from hvstack.study.study_store import StartedStudy
from hvstack.sweep import sweep_store
from hvstack.tpcxhs.workload import parse_size

FORMS = ('table', 'json', 'html')


class List(Lister):
    """List the studies of the package, or the started studies."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        which = parser.add_mutually_exclusive_group()
        which.add_argument(
            '--started',
            action='store_true',
            help='List the started studies instead, the oldest first.',
        )
        which.add_argument(
            '--not-covered',
            action='store_true',
            help='List the tables and figures of the papers that no study '
            'covers instead, with the reasons.',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        if parsed_args.started:
            return self._list_started()
        if parsed_args.not_covered:
            return ('Paper', 'Source', 'Reason'), [
                (item.paper, item.source, item.reason)
                for item in definition.list_uncovered()
            ]
        return ('Name', 'Paper', 'Covers', 'Variants', 'Claims', 'Question'), [
            (
                study.name,
                study.paper,
                ', '.join(study.covers),
                len(study.variants),
                len(study.claims),
                study.question,
            )
            for study in definition.list_studies()
        ]

    def _list_started(
        self,
    ) -> Table:
        """Return a row for each started study."""
        studies, reasons = study_store.list_started()
        for reason in reasons:
            self.app.stderr.write(f'{reason}\n')
        return ('ID', 'Study', 'Started', 'State', 'Passes', 'Bytes'), [
            (
                started.id,
                started.study.name,
                started.started,
                'finished' if started.finished else 'unfinished',
                started.study.passes,
                started.study.size_bytes,
            )
            for started in studies
        ]


class Show(ShowOne):
    """Show the question, the variants and the rules of a study."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_study(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Details:
        study = definition.load(parsed_args.study)
        columns: JsonObject = {
            'Name': study.name,
            'Question': study.question,
            'Paper': study.paper,
            'Covers': ', '.join(study.covers),
            'Passes': study.passes,
            'Data': format_size(study.size_bytes),
            'Variants': '\n'.join(
                f'{variant.name}: {variant.describe()}'
                for variant in study.variants
            ),
            'Claims': '\n'.join(
                f'{claim.text} {claim.condition}'
                + paper_comparison.format_claim_number(study, claim)
                for claim in study.claims
            ),
            'Published': paper_comparison.format_published(
                paper_comparison.list_published(study)
            ),
            'Note': study.note,
        }
        return tuple(columns), tuple(columns.values())


class Plan(Command):
    """Show the runs of a study, their sizes and their duration.

    The command starts nothing. With --task-args, it creates the study and
    writes the arguments of its Rally task, for 'rally task start'.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_study(parser)
        add_execution(parser)
        add_cloud(
            parser,
            'Name of the cloud whose capabilities limit the plan, as in '
            'clouds.yaml, or envvars for the cloud of the OS_* variables '
            '(default: no cloud)',
        )
        parser.add_argument(
            '--task-args',
            type=arguments.path,
            metavar='FILE',
            help='Create the study, and write the arguments for the Rally '
            "task 'study' to this file.",
        )
        parser.add_argument(
            '-f',
            '--format',
            choices=('table', 'json'),
            default='table',
            help='Format of the plan (default: table).',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        from hvstack.study import study_run

        if parsed_args.task_args:
            _check_hosts(parsed_args)
        started = prepare(parsed_args)
        if parsed_args.task_args:
            started = start(started)
            text = json.dumps(
                study_run.build_arguments(started, started.list_steps())
            )
            paths.write_output(parsed_args.task_args, text + '\n')
        plan = study_plan.build_plan(
            started, host_profiles.load(started.host), sweep_store.open_store()
        )
        if parsed_args.format == 'json':
            self.app.stdout.write(json.dumps(plan, indent=1) + '\n')
            return
        self.app.stdout.write('\n'.join(study_plan.format_plan(plan)) + '\n')


class Report(Command):
    """Judge the claims of a started study from its run records."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_id(parser, 'the newest study')
        add_output(parser, FORMS)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        text = render(select(parsed_args.id), get_form(parsed_args))
        write_text(self.app, parsed_args, text)


def _check_hosts(parsed_args: argparse.Namespace) -> None:
    """Check that Rally has the hosts of a plan, which it gets from a file.

    :param parsed_args: arguments of :func:`add_execution`.
    :raises hvstack.errors.InputError: hvstack.conf has other hosts.
    """
    options = conf.load().cloud
    host, backend = parsed_args.host, parsed_args.backend
    configured = host_profiles.absolute(options.host_profile)
    if host and host != configured:
        raise errors.InputError(
            f'Cannot use --host {host} with --task-args: Rally uses the host '
            f"profile of hvstack.conf, '{configured}'. Set host_profile in "
            'the group [cloud] of hvstack.conf, and omit the option.'
        )
    if not backend:
        return
    profile = host_profiles.load(configured)
    expected = options.backend or baseline_hosts.lab_backend(profile)
    # Nova reports lxc alone; without a backend, other hosts have kvm.
    if backend not in ((expected,) if expected else ('kvm', 'lxc')):
        raise errors.InputError(
            f'Cannot use --backend {backend} with --task-args: Rally uses the '
            f"backend of hvstack.conf, '{expected or 'kvm'}'. Set backend in "
            'the group [cloud] of hvstack.conf, and omit the option.'
        )


def add_study(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names a study."""
    parser.add_argument(
        'study',
        metavar='STUDY',
        help="Name of a study, see 'hvstack study list', or path of its YAML "
        'file.',
    )


def add_id(parser: argparse.ArgumentParser, default: str) -> None:
    """Add the argument that names a started study.

    :param parser: parser of a command.
    :param default: study that is selected without the argument.
    """
    parser.add_argument(
        'id',
        nargs='?',
        metavar='ID',
        help=f'ID of the started study (default: {default}).',
    )


def add_execution(parser: argparse.ArgumentParser) -> None:
    """Add the options for passes, size, hosts and backend."""
    parser.add_argument(
        '--passes',
        type=arguments.count,
        metavar='N',
        help='Number of passes, each with a run of every variant on a new '
        'cluster (default: that of the study).',
    )
    parser.add_argument(
        '--size',
        type=parse_size,
        help='Size of the data of a run, before the factor of a variant '
        '(default: that of the study).',
    )
    parser.add_argument(
        '--host',
        metavar='PROFILE',
        type=host_profiles.absolute,
        help="Host profile of the workers' hosts (default: host_profile of "
        'hvstack.conf).',
    )
    parser.add_argument(
        '--backend',
        choices=compute_backends.BACKENDS,
        help='Compute backend of these hosts (default: that of the cloud, or '
        'backend of hvstack.conf).',
    )


def start(planned: StartedStudy) -> StartedStudy:
    """Start a study: give it an ID, and write its marker.

    :param planned: result of :func:`prepare`.
    """
    return study_store.create(
        *(planned.study, planned.host, planned.backend, planned.skipped),
        tuning=planned.tuning,
        os_profile=planned.os_profile,
        cloud=planned.cloud,
    )


def prepare(parsed_args: argparse.Namespace) -> StartedStudy:
    """Return a study with the variants that a cloud can have.

    It has no ID and no marker yet.

    :param parsed_args: arguments of :func:`add_study` and
        :func:`add_execution`.
    :raises hvstack.errors.InputError: the number of passes is not valid, no
        claim can be tested, or the backend is unknown.
    """
    # Commands without a plan do not need the time to import openstacksdk.
    from hvstack.cloud import connection
    from hvstack.study import study_run
    from hvstack.sweep import capabilities

    passes = parsed_args.passes
    if passes is not None and not 1 <= passes <= definition.MAX_PASSES:
        raise errors.InputError(
            f'Cannot use --passes {passes}: a study has 1 to '
            f'{definition.MAX_PASSES} passes. Use such a number, or omit the '
            'option.'
        )
    study = definition.load(parsed_args.study)
    study = replace(
        study,
        passes=passes or study.passes,
        size_bytes=parsed_args.size or study.size_bytes,
    )
    options = conf.load()
    host = parsed_args.host or options.cloud.host_profile
    profile = host_profiles.load(host)
    conn = None
    backend: str | None
    if parsed_args.os_cloud:
        conn = connection.connect(parsed_args.os_cloud)
        configurations = (
            variant.target
            for variant in study.variants
            if isinstance(variant.target, Configuration)
        )
        backend = capabilities.get_backend(
            conn,
            profile,
            next(configurations, Configuration()),
            parsed_args.backend or options.cloud.backend,
        )
    else:
        backend = (
            parsed_args.backend
            or options.cloud.backend
            or baseline_hosts.lab_backend(profile)
        )
    if not backend:
        raise errors.InputError(
            'Cannot plan the study: the compute backend is unknown. Use '
            '--backend or --os-cloud.'
        )
    skipped = study_run.find_impossible(conn, study, host, backend, options)
    study_run.require_testable(study, skipped)
    return StartedStudy(
        *('', study, '', host, backend, skipped),
        tuning=options.hadoop.tuning or baseline_hosts.default_tuning(host),
        os_profile=options.hadoop.os_profile,
        cloud='' if conn is None else connection.format_cloud(conn),
    )


def select(
    study_id: str | None, *, is_unfinished: bool = False
) -> StartedStudy:
    """Return a started study.

    :param study_id: ID of the study; None selects the newest study.
    :param is_unfinished: select the newest study that is unfinished.
    :raises hvstack.errors.InputError: no such study was started, or none has
        this ID.
    """
    if study_id is not None:
        return study_store.load(study_id)
    studies = [
        started
        for started in study_store.list_started()[0]
        if not (is_unfinished and started.finished)
    ]
    if not studies:
        raise errors.InputError(
            f'Cannot find a{"n unfinished" if is_unfinished else " started"} '
            f'study ({study_store.STUDIES_DIR}): the directory does not '
            "contain any. Run 'hvstack study run STUDY'."
        )
    return studies[-1]


def render(started: StartedStudy, form: str) -> str:
    """Return the report of a study.

    :param started: the study.
    :param form: one of :data:`FORMS`.
    """
    report = study_report.build_report(
        started, study_store.load_records(started, sweep_store.open_store())
    )
    if form == 'json':
        return json.dumps(study_report.to_mapping(report), indent=1) + '\n'
    if form == 'html':
        return study_page.build_page(report)
    return study_page.format_text(report)
