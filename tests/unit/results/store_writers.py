# SPDX-License-Identifier: Apache-2.0
"""Tests of processes that write to one store of run records.

A test case for a store inherits these tests, and opens its store.
"""

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection

import testtools

from hvstack.model.target import BARE_METAL
from hvstack.results import record_data, signing
from hvstack.results.record_data import RunRecord
from hvstack.results.run_store import RunStore
from tests.unit.results import factory

#: Seconds until a process that does not end fails the test.
DEADLINE_SECONDS = 60
RUNS = 6
START = datetime(2026, 11, 1, tzinfo=UTC)


def build_run(sweep: str, index: int) -> RunRecord:
    """Return a run of a sweep, which begins after the run before."""
    start = START + timedelta(minutes=5 * index)
    return factory.run(
        *(BARE_METAL, index, 100),
        sweep=sweep,
        started=start.strftime(factory.TIME),
    )


def read_pipe(connection: Connection) -> Iterator[str]:
    """Return the messages of a process, until it ended."""
    while True:
        try:
            yield connection.recv()
        except EOFError:
            return


class StoreWriters(testtools.TestCase):
    """Tests of writers; :meth:`open_store` opens the store of a class."""

    #: Whether the store itself decides which writer was the first.
    has_transactions = True

    def open_store(self) -> RunStore:
        """Open the store as another process would do it."""
        raise NotImplementedError

    def check_sweep(self, sweep: str) -> list[str]:
        """Return the IDs of a sweep, all records of which are usable."""
        records, invalid_records = self.open_store().read_sweep(sweep)
        self.assertEqual([], invalid_records)
        return [run_record.id for run_record in records]

    def test_different_and_same_runs_at_once(self) -> None:
        context = multiprocessing.get_context('fork')
        # Both writers would create it.
        signing.own_key()
        shared = [
            record_data.sign(build_run('shared', index))
            for index in range(RUNS)
        ]
        runs = {
            sweep: [build_run(sweep, index) for index in range(RUNS)]
            for sweep in ('first', 'second')
        }
        barrier = context.Barrier(len(runs))
        receiver, sender = context.Pipe(duplex=False)

        def write(sweep: str) -> None:
            store = self.open_store()
            barrier.wait(DEADLINE_SECONDS)
            for own, other in zip(runs[sweep], shared, strict=True):
                store.append(own)
                sender.send(store.add([other], {f'{other.id}.txt': 'text'}))

        writers = [
            context.Process(target=write, args=(sweep,)) for sweep in runs
        ]
        for writer in writers:
            writer.start()
            self.addCleanup(writer.kill)
        sender.close()
        shared_ids = [run_record.id for run_record in shared]
        while any(writer.is_alive() for writer in writers):
            ids = self.check_sweep('shared')
            self.assertEqual(shared_ids[: len(ids)], ids)
        for writer in writers:
            writer.join(DEADLINE_SECONDS)
            self.assertEqual(0, writer.exitcode)
        if self.has_transactions:
            self.assertEqual(RUNS, sum(map(int, read_pipe(receiver))))
        self.assertEqual(shared_ids, self.check_sweep('shared'))
        for sweep, records in runs.items():
            self.assertEqual(
                [run_record.id for run_record in records],
                self.check_sweep(sweep),
            )
        store = self.open_store()
        self.assertEqual(3 * RUNS, len(store.list_all_runs()))
        for record_id in shared_ids:
            self.assertEqual('text', store.read_text(f'{record_id}.txt', 9))

    def test_writers_that_are_killed(self) -> None:
        context = multiprocessing.get_context('fork')
        signing.own_key()

        def write(sweep: str, sender: Connection) -> None:
            store = self.open_store()
            for index in range(1000):
                sender.send(store.append(build_run(sweep, index)).id)

        for attempt, seconds in enumerate((0, 0.003, 0.01, 0.02)):
            sweep = f'sweep-{attempt}'
            receiver, sender = context.Pipe(duplex=False)
            writer = context.Process(target=write, args=(sweep, sender))
            writer.start()
            self.addCleanup(writer.kill)
            sender.close()
            first = receiver.recv()
            time.sleep(seconds)
            assert writer.pid is not None
            os.kill(writer.pid, signal.SIGKILL)
            writer.join(DEADLINE_SECONDS)
            self.assertEqual(-signal.SIGKILL, writer.exitcode)
            # The next writer waits until a server has ended the transaction.
            self.open_store().write_text('next.txt', sweep)
            stored_ids = [first, *read_pipe(receiver)]
            ids = self.check_sweep(sweep)
            # The last record can be stored although nothing was sent.
            self.assertEqual(stored_ids, ids[: len(stored_ids)])
            self.assertLessEqual(len(ids), len(stored_ids) + 1)
            store = self.open_store()
            store.append(build_run(sweep, len(ids)))
            self.assertEqual(len(ids) + 1, len(self.check_sweep(sweep)))
