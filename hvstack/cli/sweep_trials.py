# SPDX-License-Identifier: Apache-2.0
"""``hvstack sweep trials``: how often an interval contains the truth."""

import argparse
from dataclasses import replace

from cliff.command import Command
from cliff.lister import Lister

from hvstack import conf, errors, extras
from hvstack.cli import arguments
from hvstack.cli.options import add_cloud
from hvstack.cli.sweep import SIZE_BYTES, add_size, ready
from hvstack.cli.tables import DATA_FORMATS, Row, Table
from hvstack.model.target import BARE_METAL
from hvstack.progress import Progress
from hvstack.results import stats
from hvstack.sweep import trials
from hvstack.sweep.node_setup import NodeSetup


class Run(Command):
    """Compare two sides several times.

    Without B, both sides are the same, and the interval should contain 100 %.
    With an ID, the command continues these trials and keeps their runs.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'id', nargs='?', metavar='ID', help='Continue these trials.'
        )
        for side in ('a', 'b'):
            parser.add_argument(
                f'--{side}',
                metavar='NAME',
                help=f'Configuration of side {side.upper()}, or '
                f'{BARE_METAL} (default: '
                f'{"i1" if side == "a" else "the same"}).',
            )
            parser.add_argument(
                f'--before-{side}',
                metavar='COMMAND',
                help='Shell command before the runs of this side, such '
                'as one that changes the caps of the hosts.',
            )
        parser.add_argument(
            '--after',
            default='',
            metavar='COMMAND',
            help='Shell command at the end of each invocation, even if '
            'it fails or is interrupted, such as one that restores '
            'the caps. With an ID, it replaces the earlier '
            'command.',
        )
        parser.add_argument(
            '--trials',
            type=arguments.count,
            help='Number of trials (default: 5).',
        )
        parser.add_argument(
            '--runs',
            type=arguments.count,
            help='Number of runs of each side of each trial (default: 3).',
        )
        add_size(parser)
        # With an ID, it shows whether the option is used.
        parser.set_defaults(size=None)
        parser.add_argument(
            '--max-trials',
            type=arguments.count,
            metavar='N',
            help='Maximum number of trials of this invocation.',
        )
        add_cloud(parser)
        return parser

    @extras.required('rally')
    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Begin or continue."""
        # Show does not need the time to import openstacksdk.
        from hvstack.cloud import connection, credentials, lease
        from hvstack.sweep import recovery, resource_check, token_check

        if parsed_args.max_trials is not None and parsed_args.max_trials < 1:
            raise errors.InputError(
                f'Cannot use --max-trials {parsed_args.max_trials}: an '
                'invocation runs at least 1 trial. Use 1 or more.'
            )
        options = conf.load()
        if parsed_args.id:
            _check_kept(parsed_args)
            stored_trials = trials.load_trials(parsed_args.id)
            if parsed_args.after:
                stored_trials = replace(stored_trials, after=parsed_args.after)
            conn = connection.connect(parsed_args.os_cloud)
        else:
            conn = connection.connect(parsed_args.os_cloud)
            configuration = parsed_args.a or 'i1'
            stored_trials = trials.build_trials(
                (configuration, parsed_args.b or configuration),
                5 if parsed_args.trials is None else parsed_args.trials,
                3 if parsed_args.runs is None else parsed_args.runs,
                SIZE_BYTES if parsed_args.size is None else parsed_args.size,
                (parsed_args.before_a or '', parsed_args.before_b or ''),
                parsed_args.after,
                options.cloud.host_profile,
                connection.format_cloud(conn),
            )
        # The next connection would log in, and Keystone would refuse it.
        credentials.check_logins(conn)
        progress = Progress()
        ready(
            *(parsed_args.os_cloud, progress),
            first_cloud=stored_trials.cloud,
            subject=f"trials '{stored_trials.id}'",
        )
        # Such as the lease of a sweep that was killed.
        recovery.recover([conn], progress)
        targets = [(target, NodeSetup()) for target in stored_trials.targets]
        resource_check.check_resources(conn, targets, options)
        token_check.check_token(
            *(conn, conn, targets, options.cloud),
            stored_trials.host or options.cloud.host_profile,
            options.cloud.backend,
        )
        with lease.held(conn, progress):
            # Trials that are refused leave no marker to continue.
            if not parsed_args.id:
                trials.save_trials(stored_trials)
            progress.say(f'trials {stored_trials.id}')
            try:
                trials.run_trials(
                    stored_trials, progress, parsed_args.max_trials
                )
            finally:
                recovery.recover([conn], progress)
        self.app.stdout.write(f'{stored_trials.id}\n')


def _check_kept(parsed_args: argparse.Namespace) -> None:
    """Refuse options that stored trials have already.

    :raises hvstack.errors.InputError: such an option is used.
    """
    for name in ('a', 'b', 'before_a', 'before_b', 'trials', 'runs', 'size'):
        if getattr(parsed_args, name) is not None:
            raise errors.InputError(
                f'Cannot use --{name.replace("_", "-")} with the ID of '
                'trials: they keep it. Omit it, or start new trials.'
            )


class Show(Lister):
    """Show the percentage of each trial and whether it contains 100 %."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('id', metavar='ID', help='ID of the trials.')
        parser.add_argument(
            '--allow',
            action='append',
            default=[],
            metavar='NAME',
            help='Fact that may differ between the sides, such as caps. '
            'Can be repeated.',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Compute it from the records; change nothing."""
        stored_trials = trials.load_trials(parsed_args.id)
        gathered_trials = trials.gather_trials(
            stored_trials, parsed_args.allow
        )
        progress = Progress()
        allowed = {line for trial in gathered_trials for line in trial.allowed}
        for line in sorted(allowed):
            progress.say(f'allowed to differ: {line}')
        summary = trials.summarize_trials(gathered_trials)
        if summary.half_width is not None:
            progress.say(_describe_summary(summary))
        if summary.seconds is not None:
            progress.say(
                f'data of {stored_trials.size_bytes} bytes, the longest run '
                f'took {summary.seconds:.1f} s'
            )
        return (
            (
                *('Trial', 'Runs A', 'Runs B', 'Longest s'),
                *('Percent', 'Low', 'High', '100 %'),
            ),
            [
                _row(trial, parsed_args.formatter in DATA_FORMATS)
                for trial in gathered_trials
            ],
        )


def _describe_summary(summary: trials.TrialsSummary) -> str:
    """Return the summary of trials with intervals, for people."""
    text = f'{summary.contain} of {summary.trials} intervals hold 100 %'
    if summary.unreported:
        text += f', {summary.unreported} have {stats.TOO_FEW_RUNS}'
    # The median of mostly unreported intervals is one of these.
    if 2 * summary.unreported < summary.trials:
        text += f', median half-width {summary.half_width:.1f} points'
    return text


def _row(trial: trials.Trial, has_all_bounds: bool) -> Row:
    """Return a trial as a row.

    :param has_all_bounds: whether the row has bounds that are not reported
        for people.
    """
    percent = trial.percent
    head = trial.trial_number, *trial.counts, round(trial.seconds, 1) or ''
    if percent is None:
        return (*head, '', '', '', 'no runs yet')
    if percent.low is None or percent.high is None:
        return (
            *(*head, round(percent.percent, 1)),
            *('', '', stats.TOO_FEW_RUNS),
        )
    if percent.reported_bounds is None and not has_all_bounds:
        return (
            *(*head, round(percent.percent, 1)),
            *('', '', stats.TOO_FEW_RUNS),
        )
    inside = percent.low <= 100 <= percent.high
    return (
        *(*head, round(percent.percent, 1)),
        *(round(percent.low, 1), round(percent.high, 1)),
        'inside' if inside else 'outside',
    )
