# SPDX-License-Identifier: Apache-2.0
"""Of two processes that start together, one gets the lease. The lab is up."""

import os
import subprocess
import sys

import fixtures
import testtools

_RACES = 50
#: Acquires the lease when it is told to, and releases it when it is told to.
_PROGRAM = """
import sys
from hvstack import errors
from hvstack.cloud import connection, lease, undo
conn = connection.connect()
print('connected', flush=True)
for _ in sys.stdin:
    try:
        lease.acquire(conn, duration=30, interval=0.5)
        print('acquired', flush=True)
    except errors.BusyError as exc:
        print(f'busy: {exc}', flush=True)
    sys.stdin.readline()
    undo.undo_own([conn])
    print('released', flush=True)
"""


class LeaseTest(testtools.TestCase):
    def start(self) -> subprocess.Popen[str]:
        """Start a process with a journal of its own, as on a machine."""
        directory = self.useFixture(fixtures.TempDir()).path
        process = subprocess.Popen(
            [sys.executable, '-c', _PROGRAM],
            env={**os.environ, 'HVSTACK_STATE_DIR': directory},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual('connected', self.answer(process))
        return process

    def tell(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin
        process.stdin.write('\n')
        process.stdin.flush()

    def answer(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout
        return process.stdout.readline().strip()

    def test_of_two_processes_one_gets_it(self) -> None:
        processes = [self.start(), self.start()]
        winners = []
        for race in range(_RACES):
            for process in processes:
                self.tell(process)
            answers = [self.answer(process) for process in processes]
            kinds = [answer.partition(':')[0] for answer in answers]
            self.assertEqual(
                ['acquired', 'busy'], sorted(kinds), f'race {race}: {answers}'
            )
            winner = kinds.index('acquired')
            winners.append(winner)
            # The other one names it.
            self.assertIn(
                f'process {processes[winner].pid} on', answers[1 - winner]
            )
            for process in processes:
                self.tell(process)
                self.assertEqual('released', self.answer(process))
        print(
            f'{_RACES} races, won by the first process '
            f'{winners.count(0)} times, by the second {winners.count(1)}',
            file=sys.stderr,
        )

    def test_lease_of_a_killed_process_is_taken_over(self) -> None:
        first, second = self.start(), self.start()
        self.tell(first)
        self.assertEqual('acquired', self.answer(first))
        first.kill()
        self.tell(second)
        self.assertEqual('acquired', self.answer(second))
        self.tell(second)
        self.assertEqual('released', self.answer(second))
