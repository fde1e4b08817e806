# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
from pathlib import Path

import fixtures
import testtools

from hvstack import errors, pids


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
        pids.write(self.path, os.getpid())
        self.assertEqual(os.getpid(), pids.read(self.path))

    def test_no_file_and_no_sense(self) -> None:
        self.assertIsNone(pids.read(self.path))
        for text in ('', '123', '{"pid": 1}', '[]'):
            self.path.write_text(text)
            self.assertIsNone(pids.read(self.path), text)

    def test_stranger_with_the_same_number(self) -> None:
        pids.write(self.path, os.getpid())
        record = json.loads(self.path.read_text())
        for change in ({'start': record['start'] - 1}, {'boot': 'other'}):
            self.path.write_text(json.dumps({**record, **change}))
            self.assertIsNone(pids.read(self.path), change)

    def test_process_that_is_gone_has_no_file(self) -> None:
        process = self.sleeper()
        process.kill()
        process.wait()
        self.assertRaises(
            errors.CommandFailed, pids.write, self.path, process.pid
        )

    def test_zombie_counts_as_gone(self) -> None:
        process = self.sleeper()
        pids.write(self.path, process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        self.assertIsNone(pids.read(self.path))

    def test_name_with_parentheses(self) -> None:
        odd = self.path.with_name('a) R (b')
        odd.symlink_to('/bin/sleep')
        process = subprocess.Popen([odd, '60'])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertGreater(pids.start_time(process.pid) or 0, 0)

    def test_end_asks_before_it_kills(self) -> None:
        polite = self.sleeper()
        pids.end([polite.pid], grace=5)
        self.assertEqual(-15, polite.wait())

    def test_end_kills_who_does_not_listen(self) -> None:
        deaf = subprocess.Popen(
            ['sh', '-c', 'trap "" TERM; echo; while :; do sleep 0.05; done'],
            stdout=subprocess.PIPE,
        )
        assert deaf.stdout
        deaf.stdout.readline()
        pids.end([deaf.pid], grace=0.2)
        self.assertEqual(-9, deaf.wait())
        deaf.stdout.close()

    def test_end_of_a_pid_that_is_gone(self) -> None:
        process = self.sleeper()
        process.kill()
        process.wait()
        pids.end([process.pid], grace=1)
