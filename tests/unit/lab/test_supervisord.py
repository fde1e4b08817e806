# SPDX-License-Identifier: Apache-2.0
"""Test the configuration of supervisord."""

import configparser
import sys
from pathlib import Path

import fixtures
import testtools
from supervisor.options import ServerOptions, UnhosedConfigParser

from hvstack import processutils
from hvstack.lab import supervisord
from hvstack.lab.supervisord import Program


class EnvironmentTest(testtools.TestCase):
    def test_modules_of_the_user(self) -> None:
        """A migration loaded SQLAlchemy from PYTHONPATH, of another version.

        The daemons did not: their environment has nothing else.
        """
        top = self.useFixture(fixtures.TempDir()).path
        for name in ('PYTHONPATH', 'PYTHONHOME'):
            self.useFixture(fixtures.EnvironmentVariable(name, top))
        result = processutils.run(
            [sys.executable, '-c', 'import sys; print(sys.path)'],
            env=supervisord.environment(),
        )
        self.assertNotIn(top, result.stdout)


class SectionTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        # supervisord refuses a log in a directory that is not there.
        lab = Path(self.useFixture(fixtures.TempDir()).path)
        (lab / 'log').mkdir()
        self.useFixture(fixtures.MonkeyPatch('hvstack.lab.settings.LAB', lab))

    def parsed(self, program: Program) -> object:
        """Parse the section of a program as supervisord does."""
        parser = UnhosedConfigParser()
        parser.read_string(supervisord._section(program))
        (config,) = ServerOptions().processes_from_section(
            parser, f'program:{program.name}', program.name
        )
        return config

    def test_words_and_percent_signs_arrive(self) -> None:
        args = ('/bin/echo', 'Connection: close', '100%', '--x={1,2}')
        config = self.parsed(Program('p', args))
        self.assertEqual(
            '"/bin/echo" "Connection: close" "100%" "--x={1,2}"',
            config.command,
        )

    def test_environment_arrives(self) -> None:
        env = {'A': '-kernel x {127,0,0,1} +S 2:2', 'B': '50%'}
        config = self.parsed(Program('p', ['/bin/true'], env=env))
        self.assertEqual(env, config.environment)

    def test_it_never_starts_by_itself(self) -> None:
        # Order matters: what others need is started first, by us.
        parser = configparser.ConfigParser(interpolation=None)
        parser.read_string(supervisord._section(Program('p', ['/bin/true'])))
        self.assertEqual('false', parser['program:p']['autostart'])
