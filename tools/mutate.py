# SPDX-License-Identifier: Apache-2.0
"""Delete statements of hvstack and list those that no unit test misses.

    python -m tools.mutate --group statistics --state mutants.jsonl

Each mutant is a module without one of its statements. Unit tests that execute
the statement run in a copy of the tree, in a child process with a time limit.
A mutant is killed if a test fails or takes too long; otherwise it survives.
Exit status 1 if a survivor is not listed in tools/mutation-survivors.yaml.
"""

import argparse
import json
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from tools.mutants import list_mutants
from tools.mutation_children import TESTS, TOP, Pool
from tools.mutation_run import Answer, Progress, Run, State, Statement

ACCEPTED = TOP / 'tools' / 'mutation-survivors.yaml'
#: What identifies a survivor in the list of accepted ones: path, function,
#: statement and occurrence.
Identity = tuple[str, str, str, int]


@dataclass(frozen=True)
class Group:
    """Modules that decide about one kind of statement of hvstack.

    :param tests: patterns of the test modules, below ``tests.unit``.
    :param modules: for each module, the test modules that run first.
    """

    tests: tuple[str, ...]
    modules: Mapping[str, tuple[str, ...]]


GROUPS = {
    'data-check': Group(
        (
            *('hadoop.test_fsck', 'tpcxhs.*', 'results.*', 'report.*'),
            *('cli.test_record', 'accept.test_promise_checks'),
        ),
        {
            'hvstack/hadoop/fsck.py': (
                *('hadoop.test_fsck', 'tpcxhs.test_datacheck'),
            ),
            'hvstack/report/job_checks.py': ('report.test_findings',),
            'hvstack/report/telemetry_checks.py': (
                *('report.test_findings', 'report.test_telemetry'),
            ),
            'hvstack/results/record.py': (
                *('results.test_record', 'results.test_signing'),
            ),
            'hvstack/results/record_data.py': (
                *('results.test_record', 'results.test_record_schema'),
            ),
            'hvstack/results/run_id.py': (
                *('results.test_run_id', 'results.test_record'),
            ),
            'hvstack/results/selfcheck.py': (
                *('results.test_selfcheck', 'tpcxhs.test_workloads'),
            ),
            'hvstack/results/target_checks.py': ('results.test_selfcheck',),
            'hvstack/tpcxhs/datacheck.py': ('tpcxhs.test_datacheck',),
            'hvstack/tpcxhs/kit_evidence.py': ('tpcxhs.test_kit',),
        },
    ),
    'comparability': Group(
        (
            *('model.test_host_disks', 'results.*', 'report.*', 'study.*'),
            *('tpcxhs.test_run', 'tpcxhs.test_workloads', 'cli.test_baseline'),
            *('cli.test_sweep', 'cli.test_flavor_approve'),
            'sweep.test_strategies',
        ),
        {
            'hvstack/model/host_disks.py': (
                *('model.test_host_disks', 'results.test_comparability'),
            ),
            'hvstack/report/approval.py': ('report.test_approval',),
            'hvstack/report/comparison.py': ('report.test_comparison',),
            'hvstack/report/run_conditions.py': ('report.test_report',),
            'hvstack/report/sweep_rows.py': ('report.test_report',),
            'hvstack/results/baselines.py': ('results.test_baselines',),
            'hvstack/results/comparability.py': (
                'results.test_comparability',
            ),
            'hvstack/results/evidence.py': ('report.test_approval',),
            'hvstack/results/passes.py': ('results.test_passes',),
            'hvstack/results/task_splits.py': ('results.test_task_splits',),
        },
    ),
    'statistics': Group(
        (
            *('results.*', 'report.*', 'study.*', 'cli.test_model'),
            *('sweep.test_strategies', 'sweep.test_rate_search'),
            *('sweep.test_sweep', 'sweep.test_search_forecast'),
        ),
        {
            'hvstack/report/growth.py': ('report.test_report',),
            'hvstack/report/improvements.py': ('report.test_report',),
            'hvstack/report/variance_notes.py': (
                'report.test_variance_notes',
            ),
            'hvstack/results/design.py': ('results.test_estimator',),
            'hvstack/results/estimator.py': ('results.test_estimator',),
            'hvstack/results/history.py': (
                *('results.test_estimator', 'results.test_passes'),
            ),
            'hvstack/results/percentages.py': (
                *('results.test_percentages', 'results.test_passes'),
                'results.test_stats',
            ),
            'hvstack/results/quantiles.py': ('results.test_quantiles',),
            'hvstack/results/stats.py': ('results.test_stats',),
            'hvstack/results/stopping.py': ('results.test_stopping',),
            'hvstack/study/verdicts.py': ('study.test_study_report',),
            'hvstack/sweep/effects.py': ('sweep.test_rate_search',),
            'hvstack/sweep/rate_model.py': ('sweep.test_rate_search',),
        },
    ),
    'lint': Group(
        (
            *('model.*', 'cli.test_model', 'cli.test_flavor_*'),
            *('report.test_approval', 'cloud.test_catalogue_publisher'),
            'cloud.test_doctor',
        ),
        {
            'hvstack/model/evidence_rules.py': ('model.test_lint',),
            'hvstack/model/extra_specs.py': ('model.test_lint',),
            'hvstack/model/guest_shape.py': (
                *('model.test_guest_shape', 'model.test_lint'),
                'model.test_flavor_properties',
            ),
            'hvstack/model/lint.py': ('model.test_lint',),
            'hvstack/model/size_rules.py': (
                *('model.test_lint', 'model.test_flavor_properties'),
            ),
            'hvstack/model/spec_rules.py': ('model.test_lint',),
        },
    ),
}


def list_statements(
    groups: Sequence[str], paths: Sequence[str], lines: Sequence[int]
) -> list[Statement]:
    """Return the mutants to run.

    :param groups: names of the groups; empty selects all groups.
    :param paths: paths of modules; empty selects all modules of the groups.
    :param lines: lines of statements; empty selects all statements.
    """
    statements = []
    for group in groups or GROUPS:
        for path, first_tests in GROUPS[group].modules.items():
            if paths and path not in paths:
                continue
            source = (TOP / path).read_text('utf-8')
            first = tuple(f'{TESTS}.{name}' for name in first_tests)
            statements += [
                Statement(group, path, source, mutant, first)
                for mutant in list_mutants(source)
                if not lines or mutant.line in lines
            ]
    return statements


def list_test_modules(groups: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of the test modules by group."""
    root = TOP / 'tests' / 'unit'
    names = [
        '.'.join(path.relative_to(root).with_suffix('').parts)
        for path in sorted(root.rglob('test_*.py'))
    ]
    return {
        group: [
            f'{TESTS}.{name}'
            for name in names
            if any(fnmatchcase(name, p) for p in GROUPS[group].tests)
        ]
        for group in groups
    }


def load_accepted(text: str) -> dict[Identity, str]:
    """Return the reasons of accepted survivors by what identifies them.

    :param text: content of the list, in YAML.
    """
    return {
        (
            path,
            entry['function'],
            entry['statement'],
            entry.get('occurrence', 1),
        ): entry['reason']
        for path, entries in (yaml.safe_load(text) or {}).items()
        for entry in entries
    }


def format_table(survivors: Sequence[Mapping[str, Any]]) -> str:
    """Return the survivors as text, with two lines each."""
    return ''.join(
        f'{survivor["path"]}:{survivor["line"]}: {survivor["status"]}: '
        f'{survivor["statement"]}\n'
        f'    {survivor["tests"]} tests'
        f' of {", ".join(survivor["modules"]) or "no module"}\n'
        for survivor in survivors
    )


def build_report(
    answers: Sequence[tuple[Statement, Answer]],
    accepted: Mapping[Identity, str],
) -> dict[str, Any]:
    """Return counts by group, survivors, and accepted ones that were killed.

    :param answers: mutants with their results.
    :param accepted: reasons of accepted survivors.
    """
    counts: dict[str, Counter[str]] = {}
    survivors = []
    for statement, answer in sorted(
        answers, key=lambda pair: (pair[0].path, pair[0].mutant.line)
    ):
        is_accepted = answer.lives and statement.identity in accepted
        status = 'accepted' if is_accepted else answer.status
        counts.setdefault(statement.group, Counter())[status] += 1
        if answer.lives and not is_accepted:
            survivors.append(
                {
                    'path': statement.path,
                    'line': statement.mutant.line,
                    'function': statement.mutant.function,
                    'statement': statement.mutant.statement,
                    'occurrence': statement.mutant.occurrence,
                    'status': answer.status,
                    'tests': answer.tests,
                    'modules': answer.modules,
                }
            )
    unneeded = [
        statement.identity
        for statement, answer in answers
        if statement.identity in accepted and not answer.lives
    ]
    return {'counts': counts, 'survivors': survivors, 'unneeded': unneeded}


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        prog='python -m tools.mutate',
        description=(__doc__ or '').splitlines()[0],
    )
    add = parser.add_argument
    add(
        '--group',
        action='append',
        choices=list(GROUPS),
        help='Group of modules; may be repeated (default: all groups).',
    )
    add(
        '--module',
        action='append',
        help='Path of a module of the groups; may be repeated.',
    )
    add(
        *('--line', '-l'),
        type=int,
        action='append',
        help='First line of a statement; may be repeated.',
    )
    add(
        '--jobs',
        type=int,
        default=1,
        help='Number of mutants at the same time (default: 1).',
    )
    add('--list', action='store_true', help='List the mutants without tests.')
    add(
        *('-f', '--format'),
        choices=('json', 'table'),
        default='table',
        help='Format of the survivors (default: table).',
    )
    add(
        '--state',
        type=Path,
        help='File that stores results, so that the next invocation resumes.',
    )
    args = parser.parse_args(argv)
    if args.jobs < 1:
        parser.error(f'--jobs is {args.jobs}. Use 1 or more.')
    paths = {
        path for name in args.group or GROUPS for path in GROUPS[name].modules
    }
    for path in args.module or ():
        if path not in paths:
            parser.error(
                f"--module '{path}' is not in these groups. Use one of "
                f'{", ".join(sorted(paths))}.'
            )
    return args


def run_statements(
    statements: Sequence[Statement], jobs: int, state: State
) -> list[tuple[Statement, Answer]]:
    """Run the tests of mutants and return their results.

    :param jobs: number of mutants at the same time.
    :param state: results of earlier invocations.
    """
    names_by_group = list_test_modules({s.group for s in statements})
    names = list(
        dict.fromkeys(
            name for group in names_by_group.values() for name in group
        )
    )
    paths = [path for group in GROUPS.values() for path in group.modules]
    progress = Progress()
    answers: list[tuple[Statement, Answer]] = []
    with tempfile.TemporaryDirectory(prefix='hvstack-mutants-') as scratch:
        pool = Pool(Path(scratch), jobs, progress.show)
        try:
            run = Run(pool, state, progress)
            run.import_packages(names)
            modules = run.load_modules(names, paths)
            for pair in run.run(statements, modules, names_by_group):
                answers.append(pair)
                survivors = sum(answer.lives for _, answer in answers)
                progress.text = (
                    f'{len(answers)} of {len(statements)} mutants, '
                    f'{survivors} survivors: {pair[0].path}'
                )
        finally:
            pool.kill()
    return answers


def main(argv: Sequence[str] | None = None) -> int:
    """Run the mutants that the command line selects.

    :param argv: options; None uses those of the process.
    """
    args = parse_arguments(argv)
    statements = list_statements(
        args.group or (), args.module or (), args.line or ()
    )
    if args.list:
        for statement in statements:
            mutant = statement.mutant
            print(f'{statement.path}:{mutant.line}: {mutant.statement}')
        return 0
    accepted = load_accepted(ACCEPTED.read_text('utf-8'))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    answers = run_statements(statements, args.jobs, State(args.state))
    report = build_report(answers, accepted)
    if args.format == 'json':
        print(json.dumps(report, indent=2))
    else:
        print(format_table(report['survivors']), end='')
        for group, counts in report['counts'].items():
            numbers = ', '.join(
                f'{n} {status}' for status, n in counts.items()
            )
            print(f'{group}: {sum(counts.values())} mutants, {numbers}')
    for path, function, text, _ in report['unneeded']:
        print(
            f"{path}: a test misses '{text}' of {function}. Remove it from "
            f'{ACCEPTED.name}.',
            file=sys.stderr,
        )
    return 1 if report['survivors'] else 0


if __name__ == '__main__':
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
