# SPDX-License-Identifier: Apache-2.0
"""The log file, and what the console shows with --debug."""

import io
import logging
from pathlib import Path
from unittest import mock

import fixtures
import requests
import requests_mock
import testtools
from keystoneauth1.exceptions import ClientException
from keystoneauth1.identity.generic import Password
from keystoneauth1.session import Session

from hvstack import processutils
from hvstack.cli import app
from hvstack.progress import Progress
from tests.unit.cloud import fake


class LogTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        root = logging.getLogger()
        self.addCleanup(root.setLevel, root.level)
        self.useFixture(fixtures.MockPatchObject(root, 'handlers', []))
        self.useFixture(fixtures.MockPatchObject(Progress, 'is_quiet', False))
        self.console = io.StringIO()

    def run_program(self, *options: str) -> None:
        """Configure the log as a command does, then run a stage."""
        with mock.patch('sys.stderr', self.console):
            self.assertEqual(0, app.HVStack().run([*options, 'task', 'list']))
        with Progress(stream=self.console).stage('image'):
            processutils.run(['true', 'secret'], display_argv=['true', '***'])

    def test_file_has_stages_and_programs(self) -> None:
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'log'
        with mock.patch('sys.stdout', io.StringIO()):
            self.run_program('--log-file', str(path))
        for handler in logging.getLogger().handlers:
            handler.close()
        text = path.read_text()
        self.assertIn('hvstack.progress image: 0 s', text)
        self.assertIn('Program exited with status 0 after', text)
        self.assertIn('s: true ***\n', text)
        self.assertNotIn('secret', text)
        self.assertNotIn('Program exited', self.console.getvalue())

    def test_console_has_each_stage_once(self) -> None:
        with mock.patch('sys.stdout', io.StringIO()):
            self.run_program('-vv')
        text = self.console.getvalue()
        self.assertEqual(1, text.count('image: 0 s'))
        self.assertEqual(1, text.count('Program exited with status 0'))

    def test_quiet(self) -> None:
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'log'
        with mock.patch('sys.stdout', io.StringIO()):
            self.run_program('-q', '--log-file', str(path))
        for handler in logging.getLogger().handlers:
            handler.close()
        self.assertEqual('', self.console.getvalue())
        self.assertIn('hvstack.progress image: 0 s', path.read_text())
        # What a user must know before answering, or waits for.
        Progress(stream=self.console).warn('erase')
        self.assertIn('erase', self.console.getvalue())
        # The next command of the process is not quiet.
        with mock.patch('sys.stdout', io.StringIO()):
            self.run_program()
        self.assertIn('image: 0 s', self.console.getvalue())

    def test_missing_service_is_no_warning(self) -> None:
        cloud = self.useFixture(fake.FakeCloud(without=('block-storage',)))
        with mock.patch('sys.stdout', io.StringIO()):
            self.run_program()
        with mock.patch('sys.stderr', self.console):
            self.assertFalse(cloud.connect().has_service('block-storage'))
        self.assertNotIn('catalog', self.console.getvalue())

    def test_keystone_that_does_not_answer_is_reported_once(self) -> None:
        """By hvstack, from the error that follows the warning."""
        url = 'https://keystone.example/identity'
        plugin = Password(url, username='me', password='secret')
        with mock.patch('sys.stdout', io.StringIO()):
            self.run_program()
        with (
            mock.patch('sys.stderr', self.console),
            requests_mock.Mocker() as mocker,
        ):
            mocker.get(url, exc=requests.exceptions.SSLError('no issuer'))
            self.assertRaises(
                ClientException, Session(plugin).get, url, authenticated=True
            )
        self.assertNotIn('Failed to discover', self.console.getvalue())
