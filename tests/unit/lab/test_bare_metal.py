# SPDX-License-Identifier: Apache-2.0
"""Test how lab hosts become bare metal, and return to Nova."""

import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import fixtures
import testtools

from hvstack import processutils
from hvstack.cluster import host_script
from hvstack.lab.hosts import bare_metal, host

NAME = 'hv-host1'
MODULE = 'hvstack.lab.hosts.bare_metal'


class LabHostCase(testtools.TestCase):
    """A lab host whose programs are not run."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        (self.directory / NAME).mkdir()
        self.swap('hvstack.lab.hosts.host.HOSTS', self.directory)
        self.swap(f'{MODULE}.find', mock.Mock())
        self.swap(f'{MODULE}.host.pid', lambda _: 1)
        self.swap(f'{MODULE}.host.enter', mock.Mock())

    def swap(self, name: str, value: Any) -> None:
        self.useFixture(fixtures.MonkeyPatch(name, value))


class ReleaseTest(LabHostCase):
    def release(self, state: str) -> int:
        """Release the host, and return the number of waits for Nova.

        :param state: state in Nova when the agents start.
        """
        host.bare_record(NAME).touch()
        steps = mock.Mock()
        self.swap(f'{MODULE}.host.supervisorctl', steps.supervisorctl)
        self.swap(f'{MODULE}.nova.connect', mock.Mock())
        self.swap(f'{MODULE}.nova.computes', lambda _: {NAME: state})
        self.swap(f'{MODULE}._wait_until_up', steps.wait)
        bare_metal.release(NAME)
        self.assertEqual(
            mock.call.supervisorctl(NAME, 'start', 'all'), steps.mock_calls[0]
        )
        self.assertFalse(host.is_bare(NAME))
        return steps.wait.call_count

    def test_a_host_that_was_down_has_reported_when_it_is_up(self) -> None:
        self.assertEqual(1, self.release('down'))

    def test_a_host_that_still_looks_up_must_report_again(self) -> None:
        self.assertEqual(2, self.release('up'))


class PrepareTest(LabHostCase):
    def test_agents_stop_while_the_disk_is_created(self) -> None:
        created = threading.Event()

        def stop(*_: str) -> str:
            # Without the other thread this would never be set.
            self.assertTrue(created.wait(10))
            return ''

        def run(argv: Sequence[str], **_: Any) -> processutils.Result:
            if argv[0] == 'resize2fs':
                created.set()
            return processutils.Result(0, '', '')

        self.swap(f'{MODULE}.profile', lambda _: mock.Mock(root_gb=1))
        self.swap(f'{MODULE}.host.guests', lambda _: [])
        self.swap(f'{MODULE}.host.supervisorctl', stop)
        self.swap('hvstack.processutils.run', run)
        bare_metal.prepare(NAME, self.directory / 'image')
        self.assertTrue(host.is_bare(NAME))


class KillTest(testtools.TestCase):
    def test_a_process_that_ignores_sigterm_is_not_waited_for(self) -> None:
        process = subprocess.Popen(
            ['sh', '-c', 'trap "" TERM; echo; while :; do sleep 0.1; done'],
            stdout=subprocess.PIPE,
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        assert process.stdout is not None
        self.addCleanup(process.stdout.close)
        process.stdout.readline()
        shell, option, text, *names = host_script.kill('/none')
        # In place of the search in /proc: the process has no other root.
        search = (
            f'inside() {{ case $(cut -d" " -f3 /proc/{process.pid}/stat) in '
            f'Z|"") ;; *) echo {process.pid} ;; esac; }}'
        )
        head, call = text.rsplit('end_inside', 1)
        done = subprocess.run(
            [shell, option, f'{head}{search}\nend_inside{call}', *names],
            check=False,
            timeout=4,
        )
        self.assertEqual(0, done.returncode)
        self.assertEqual(-signal.SIGKILL, process.wait(1))
