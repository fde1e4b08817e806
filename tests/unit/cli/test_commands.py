# SPDX-License-Identifier: Apache-2.0
"""A command that cannot be imported is listed and gives the reason."""

import fixtures
import testtools
from cliff import command

from hvstack import extras
from hvstack.cli import commands
from tests.unit import test_extras
from tests.unit.cli.runner import run_command

ENTRY_POINTS = """\
[hvstack.cli]
works_well = hvstack_test_works:Works
lacks_extra = hvstack_test_lacks:Lacks
lacks_other = hvstack_test_other:Other
is_broken = hvstack_test_broken:Broken
sweep_run = hvstack.cli.sweep_run:Run
task_list = hvstack.cli.task:List
"""
WORKS = """\
from cliff.command import Command
from hvstack import extras


class Works(Command):
    "Do the work."

    @extras.required('rally')
    def take_action(self, parsed_args):
        pass
"""


class CommandsTest(testtools.TestCase):
    """Commands of a distribution that is made for the test."""

    def setUp(self) -> None:
        super().setUp()
        installed = self.useFixture(test_extras.Installed())
        installed.add(
            'hvstack',
            '9.9',
            METADATA=test_extras.METADATA,
            entry_points__txt=ENTRY_POINTS,
        )
        for name, text in {
            'works': WORKS,
            'lacks': 'import absent_load_tester.task\n',
            'other': 'import absent_other\n',
            'broken': 'raise RuntimeError("no bread")\n',
        }.items():
            (installed.path / f'hvstack_test_{name}.py').write_text(text)

    def test_nothing_is_imported_before_it_is_needed(self) -> None:
        names = dict(commands.Commands('hvstack.cli'))
        self.assertEqual(
            {
                *('works well', 'lacks extra', 'lacks other', 'is broken'),
                *('sweep run', 'task list'),
            },
            set(names),
        )

    def test_help_lists_all(self) -> None:
        _, stdout, _ = run_command('help')
        self.assertIn('works well', stdout)
        self.assertIn('hvstack[rally]', stdout)
        self.assertIn('no bread', stdout)

    def test_help_names_the_missing_extra(self) -> None:
        for argv in (('help',), ('--help',)):
            status, stdout, _ = run_command(*argv)
            self.assertEqual(0, status)
            summaries = {
                line[2:15].strip(): line[17:] for line in stdout.splitlines()
            }
            self.assertTrue(
                summaries['sweep run'].endswith(
                    ' for the best one (requires hvstack[rally])'
                ),
                stdout,
            )
            self.assertEqual(
                'List the Rally tasks of the package', summaries['task list']
            )

    def test_missing_extra(self) -> None:
        for argv in (('lacks', 'extra', '--cloud', 'x'), ('works', 'well')):
            status, _, stderr = run_command(*argv)
            self.assertEqual(3, status, stderr)
            self.assertIn("pip install 'hvstack[rally]'", stderr)
            self.assertEqual(1, len(stderr.splitlines()), stderr)

    def test_help_of_a_command_without_its_extra(self) -> None:
        status, stdout, _ = run_command('works', 'well', '--help')
        self.assertEqual(0, status)
        self.assertIn('Do the work.', stdout)

    def test_other_reasons(self) -> None:
        for name, reason in (
            ('is broken', 'RuntimeError: no bread'),
            ('lacks other', "No module named 'absent_other'"),
        ):
            status, _, stderr = run_command(*name.split(), 'x')
            self.assertEqual(3, status)
            self.assertIn(reason, stderr)
            self.assertNotIn('pip install', stderr)
            self.assertEqual(1, len(stderr.splitlines()), stderr)

    def test_a_command_does_not_search_its_distribution(self) -> None:
        # It would read the files of all distributions.
        self.useFixture(
            fixtures.MonkeyPatch('cliff.command._dists_by_mods', None)
        )
        status, _, stderr = run_command('task', 'list')
        self.assertEqual(0, status, stderr)
        self.assertIsNone(command._dists_by_mods)

    def test_version_is_that_of_the_package(self) -> None:
        _, stdout, _ = run_command('--version')
        self.assertEqual('9.9', stdout.split()[-1])
        self.assertEqual([], extras.missing('lab'))
