# SPDX-License-Identifier: Apache-2.0
"""Test the files with process IDs, and the processes."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import fixtures
import testtools

from hvstack import errors, pid_files

#: Prints the identity of a process in a pid namespace of its own, and waits.
_IN_NAMESPACE = """
import json, sys
from dataclasses import asdict
from hvstack import pid_files
print(json.dumps(asdict(pid_files.Process.current())), flush=True)
sys.stdin.read()
"""


class ProcessTest(testtools.TestCase):
    def test_own(self) -> None:
        current = pid_files.Process.current()
        self.assertIs(True, current.is_alive())
        for change in ({'start': 1}, {'boot': 'of yesterday'}):
            self.assertIs(False, replace(current, **change).is_alive())

    def test_another_namespace(self) -> None:
        """A pid of a container is not that of the process seen from here."""
        unshare = ['unshare', '--pid', '--fork', '--mount-proc']
        if subprocess.run([*unshare, 'true'], capture_output=True).returncode:
            self.skipTest('this user cannot create pid namespaces')
        with subprocess.Popen(
            [*unshare, sys.executable, '-c', _IN_NAMESPACE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as container:
            assert container.stdout
            process = pid_files.Process(
                **json.loads(container.stdout.readline())
            )
            self.assertNotEqual(pid_files.namespace(), process.namespace)
            self.assertIs(True, process.is_alive())
            container.communicate(timeout=60)
        # From the first namespace everything is visible, from others not.
        self.assertIn(process.is_alive(), (False, None))
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.pid_files._FIRST_NAMESPACE', 1)
        )
        self.assertIsNone(process.is_alive())
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.pid_files._FIRST_NAMESPACE', pid_files.namespace()
            )
        )
        if os.geteuid() == 0:
            self.assertIs(False, process.is_alive())


class PidsTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.path = Path(self.useFixture(fixtures.TempDir()).path) / 'x.pid'

    def sleeper(self, *before: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([*before, 'sleep', '60'])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_own_process(self) -> None:
        pid_files.write(self.path, os.getpid())
        self.assertEqual(os.getpid(), pid_files.read(self.path))

    def test_no_file_and_no_sense(self) -> None:
        self.assertIsNone(pid_files.read(self.path))
        for text in ('', '123', '{"pid": 1}', '[]'):
            self.path.write_text(text)
            self.assertIsNone(pid_files.read(self.path), text)

    def test_stranger_with_the_same_number(self) -> None:
        pid_files.write(self.path, os.getpid())
        record = json.loads(self.path.read_text())
        for change in ({'start': record['start'] - 1}, {'boot': 'other'}):
            self.path.write_text(json.dumps({**record, **change}))
            self.assertIsNone(pid_files.read(self.path), change)

    def test_process_that_is_gone_has_no_file(self) -> None:
        process = self.sleeper()
        process.kill()
        process.wait()
        self.assertRaises(
            errors.CommandError, pid_files.write, self.path, process.pid
        )

    def test_zombie_counts_as_gone(self) -> None:
        process = self.sleeper()
        pid_files.write(self.path, process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        self.assertIsNone(pid_files.read(self.path))

    def test_name_with_parentheses(self) -> None:
        odd = self.path.with_name('a) R (b')
        odd.symlink_to('/bin/sleep')
        process = subprocess.Popen([odd, '60'])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertGreater(pid_files.start_time(process.pid) or 0, 0)

    def test_end_asks_before_it_kills(self) -> None:
        polite = self.sleeper()
        pid_files.end([polite.pid], grace=5)
        self.assertEqual(-15, polite.wait())

    def test_end_kills_who_does_not_listen(self) -> None:
        deaf = subprocess.Popen(
            ['sh', '-c', 'trap "" TERM; echo; while :; do sleep 0.05; done'],
            stdout=subprocess.PIPE,
        )
        assert deaf.stdout
        deaf.stdout.readline()
        pid_files.end([deaf.pid], grace=0.2)
        self.assertEqual(-9, deaf.wait())
        deaf.stdout.close()

    def test_end_of_a_pid_that_is_gone(self) -> None:
        process = self.sleeper()
        process.kill()
        process.wait()
        pid_files.end([process.pid], grace=1)
