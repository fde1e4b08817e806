# SPDX-License-Identifier: Apache-2.0
"""``hvstack report``: the answer of a sweep from its run records."""

import argparse
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from cliff.app import App
from cliff.command import Command

from hvstack import errors, paths, report, textfile
from hvstack.cli import arguments, sweep_summary
from hvstack.progress import Progress
from hvstack.report import csv_junit, sweep_report
from hvstack.report.outside_growth import compute_outside_growth
from hvstack.results import baselines, record_data, run_id, timeline
from hvstack.results.run_store import RunStore, StoredSweeps
from hvstack.sweep import sweep_store

#: Forms for other programs.
EXCHANGE = {'csv': csv_junit.format_csv, 'junit': csv_junit.format_junit}
FORMS = ('table', 'json', 'html', *EXCHANGE)


def render(
    records: list[record_data.RunRecord],
    form: str,
    unusable: Sequence[str] = (),
    allow: Collection[str] = (),
    store: RunStore | None = None,
    *,
    details: bool = False,
    history_records: Iterable[Sequence[record_data.RunRecord]] = (),
) -> str:
    """Return the answer in one of the forms of :data:`FORMS`.

    :param unusable: why further records could not be used. Other files of
        the sweep that cannot be read come behind them.
    :param allow: facts that may differ between runs.
    :param details: whether a table comes with everything that fits a
        terminal.
    :param store: store of the records and of their telemetry; None uses the
        store of hvstack.conf.
    :param history_records: records of earlier sweeps by sweep, for the
        variance.
    """
    store = store or sweep_store.open_store()
    summary = sweep_summary.of(records, store)
    # JSON and details list the unreadable files of the summary themselves.
    if form != 'json' and not (form == 'table' and details):
        unusable = list(dict.fromkeys([*unusable, *summary.unreadable]))
    built = sweep_report.build_report(
        *(records, unusable, allow, history_records, summary.decision)
    )
    if form == 'json':
        data = report.build_results(built) | asdict(summary)
        return json.dumps(data, indent=1) + '\n'
    if form == 'table' and details:
        return report.format_details(built, summary.lines())
    if form == 'table':
        return report.format_table(built, len(summary.skipped))
    skipped = [(skip.name, skip.reason) for skip in summary.skipped]
    if form in EXCHANGE:
        return EXCHANGE[form](built, skipped)
    return report.build_page(built, store, skipped)


class Report(Command):
    """Show the percent of bare metal of a sweep with its provenance.

    All figures are computed from the run records. With two sweeps, such as
    before and after an upgrade, the second sweep is shown in percent of the
    first.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'sweeps',
            nargs='*',
            metavar='SWEEP',
            help='Sweep to report, or two sweeps to compare (default: '
            'the last sweep).',
        )
        parser.add_argument(
            '--sweep', metavar='ID', help='Sweep to report, like one SWEEP.'
        )
        parser.add_argument(
            '--changed',
            action='append',
            default=[],
            metavar='FIELD',
            help='Fact that was changed on purpose between two sweeps, '
            'such as nova or kernel. Can be repeated.',
        )
        add_output(parser, FORMS)
        parser.add_argument(
            '--details',
            action='store_true',
            help='Print everything that fits a terminal above the '
            'table: provenance, reasons, seconds of every phase, '
            'observations. JSON and the page always contain it.',
        )
        parser.add_argument(
            '--timeline',
            action='store_true',
            help='Show where the time of the sweep went instead: phases of '
            'the benchmark, clusters, warm-up jobs, bare metal, Rally. With '
            '-f json as JSON.',
        )
        arguments.add_records(parser)
        arguments.add_allow(parser)
        add_baseline(parser)
        add_unsigned(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Compute and show it."""
        form = get_form(parsed_args)
        sweeps = [*parsed_args.sweeps, *filter(None, [parsed_args.sweep])]
        if len(sweeps) > 2:
            raise errors.InputError(
                f'Cannot report {len(sweeps)} sweeps. Name one sweep, or two '
                'sweeps to compare.'
            )
        if len(sweeps) == 2 and sweeps[0] == sweeps[1]:
            raise errors.InputError(
                f"Cannot compare sweep '{sweeps[0]}' with itself. Name two "
                'sweeps.'
            )
        if parsed_args.changed and len(sweeps) < 2:
            raise errors.InputError(
                'Cannot use --changed with one sweep: it shows the '
                'differences between two sweeps. Name two sweeps.'
            )
        store = sweep_store.open_store(
            parsed_args.records, parsed_args.unsigned
        )
        sweeps = sweeps or [find_last_sweep(store, parsed_args.baseline)]
        if parsed_args.timeline:
            text = _format_timeline(sweeps, store, form)
            write_text(self.app, parsed_args, text)
            return
        selections = [_read_sweep(store, sweep) for sweep in sweeps]
        selections = [
            (_add_baseline(parsed_args, records, store), reasons)
            for records, reasons in selections
        ]
        stored_records = StoredSweeps(store)
        if len(selections) == 2 and form in EXCHANGE:
            raise errors.InputError(
                f'Cannot use -f {form} for two sweeps. Use table, json or '
                'html.'
            )
        tail = ''
        if form == 'table' and len(selections) == 1:
            tail = where_the_rest_is(
                selections[0][0], details=parsed_args.details
            )
        if len(selections) == 2:
            before, after = (
                sweep_report.build_report(
                    *selection, parsed_args.allow, stored_records
                )
                for selection in selections
            )
            text = report.format_comparison(
                before, after, parsed_args.changed, form
            )
        else:
            text = render(
                *(selections[0][0], form, selections[0][1], parsed_args.allow),
                store=store,
                details=parsed_args.details,
                history_records=stored_records,
            )
        write_text(self.app, parsed_args, text + tail)


def add_output(parser: argparse.ArgumentParser, forms: Sequence[str]) -> None:
    """Add the options for the format and the file of a report.

    :param parser: parser of a command.
    :param forms: formats; one of them is ``html``.
    """
    parser.add_argument(
        '--html',
        type=arguments.path,
        metavar='FILE',
        help='Write the page to a file, like -f html -o FILE.',
    )
    parser.add_argument(
        '-f',
        '--format',
        choices=forms,
        help='Format of the report (default: table).',
    )
    parser.add_argument(
        '-o',
        '--output',
        type=arguments.path,
        metavar='FILE',
        help='File to write (default: standard output).',
    )


def get_form(parsed_args: argparse.Namespace) -> str:
    """Return the requested format of a report.

    :raises hvstack.errors.InputError: two files, or another format for the
        page, are requested.
    """
    if not parsed_args.html:
        return str(parsed_args.format or 'table')
    if parsed_args.output or parsed_args.format not in (None, 'html'):
        raise errors.InputError(
            'Cannot use --html with -f or -o: run the command once for each '
            'file.'
        )
    return 'html'


def write_text(app: App, parsed_args: argparse.Namespace, text: str) -> None:
    """Write a report to its file, or to standard output.

    :param app: application with its standard output.
    :param parsed_args: options of :func:`add_output`.
    :param text: report in the requested format.
    :raises hvstack.errors.InputError: the file cannot be written.
    """
    output = parsed_args.html or parsed_args.output
    if output is not None:
        paths.write_output(output, text)
        return
    stream = app.stdout
    if get_form(parsed_args) == 'html':
        # The page has scripts, in which escapes would be wrong.
        stream = getattr(stream, 'raw', stream)
    stream.write(text)


def _format_timeline(
    sweeps: Sequence[str],
    store: RunStore,
    form: str,
) -> str:
    """Return where the time of a sweep went, as text or JSON.

    :param sweeps: names of the sweeps; one.
    :param store: store of the run records.
    :param form: ``table`` or ``json``.
    :raises hvstack.errors.InputError: two sweeps or another form, or the
        sweep has no timeline.
    """
    if len(sweeps) != 1 or form not in ('table', 'json'):
        raise errors.InputError(
            'Cannot show the timeline: it is that of one sweep, as table or '
            'json. Name one sweep, and use -f table or -f json.'
        )
    (sweep,) = sweeps
    summary = timeline.read_summary(sweep, store)
    if summary is None:
        raise errors.InputError(
            f"Cannot show the timeline of sweep '{sweep}' "
            f'({timeline.TIMELINES_DIR}): it has none, because an older '
            'release or another machine measured the sweep. Measure it again.'
        )
    growth = compute_outside_growth(
        summary, timeline.read_records(sweep, store), store
    )
    if form == 'json':
        data = {
            **summary.to_mapping(),
            'growth': growth and growth.to_mapping(),
        }
        return json.dumps(data, indent=1) + '\n'
    lines = summary.format_lines()
    if growth is not None:
        lines += growth.format_lines()
    return '\n'.join(lines) + '\n'


def _add_baseline(
    parsed_args: argparse.Namespace,
    sweep_records: list[record_data.RunRecord],
    store: RunStore,
) -> list[record_data.RunRecord]:
    """Return the records of a sweep with those of its baseline.

    Without ``--baseline``, this is the baseline with which the task of the
    sweep compared. If it cannot be used any more, the report has none.

    :param sweep_records: records of the sweep.
    :param store: store of the run records.
    :raises hvstack.errors.HVStackError: the baseline of ``--baseline`` cannot
        be used.
    """
    name = parsed_args.baseline or baselines.find_name(sweep_records)
    if not name:
        return sweep_records
    try:
        return baselines.replace_baseline(
            name,
            sweep_records,
            store,
            parsed_args.allow,
            parsed_args.unsigned,
            is_recorded=not parsed_args.baseline,
        )
    except errors.HVStackError as exc:
        if parsed_args.baseline:
            raise
        Progress().warn(
            f"the baseline '{name}', with which the task compared, is left "
            f'out: {exc}'
        )
        return sweep_records


def where_the_rest_is(
    records: Sequence[record_data.RunRecord],
    page: Path | None = None,
    *,
    details: bool = False,
) -> str:
    """Return the last line of a table: where page and details are.

    :param page: the page, if it has been written.
    :param details: whether the details were just printed.
    """
    sweeps = {run.sweep for run in records if run.kind == 'configuration'}
    name = min(sweeps or {run.sweep for run in records}, default='')
    command = f'hvstack report {name}'
    text = f'Page: {page}' if page else f"Page: '{command} --html FILE'"
    if not details:
        text += f". Details: '{command} --details'"
    return f'{text}.\n'


def find_last_sweep(store: RunStore, baseline: str | None) -> str:
    """Return the last sweep; empty without any.

    :param store: store of the run records.
    :param baseline: where it is given, one with configurations is meant.
    """
    return run_id.parse_sweep_id(
        store.find_last_sweep(is_configured=baseline is not None)
    )


def add_unsigned(parser: argparse.ArgumentParser) -> None:
    """Add the option that makes unsigned records count.

    Without it, ``[records] unsigned`` of ``hvstack.conf`` decides.
    """
    parser.add_argument(
        '--unsigned',
        action='store_true',
        default=None,
        help='Count records that are not signed by a trusted key, such as '
        'those of older releases (default: [records] unsigned of '
        'hvstack.conf)',
    )


def add_baseline(parser: argparse.ArgumentParser) -> None:
    """Add the option that names runs on bare metal of elsewhere."""
    parser.add_argument(
        '--baseline',
        metavar='NAME',
        help='Runs on bare metal to compare with, instead of those of '
        'the sweep: the file of a record, the ID of a record or a '
        f"sweep, or '{baselines.AUTO}' for the newest comparable "
        'runs.',
    )


def _read_sweep(
    store: RunStore, sweep: str
) -> tuple[list[record_data.RunRecord], list[str]]:
    """Return the usable and the invalid records of a sweep.

    Until the confirmation begins, these are the runs of its search.

    :raises hvstack.errors.InputError: the sweep has no records.
    """
    records, invalid_records = store.read_sweep(sweep)
    if not records:
        search = store.read_sweep(run_id.format_search_name(sweep))
        if search[0]:
            records, invalid_records = search
    if sweep and not records and not invalid_records:
        raise errors.InputError(
            f"Cannot report sweep '{textfile.printable(sweep[:60])}' "
            f'({store.describe()}): it has no run records. Use an ID that '
            "'hvstack sweep list' prints."
        )
    return records, [invalid.reason for invalid in invalid_records]
