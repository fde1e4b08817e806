# SPDX-License-Identifier: Apache-2.0
"""Start of a Rally process, against a cloud at the HTTP boundary."""

import os
import signal
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import fixtures
import testtools

from hvstack import errors
from hvstack.cloud import connection, journal
from hvstack.cluster import bare_metal
from hvstack.rally_plugins import contexts, task_state
from hvstack.results import record
from hvstack.sweep import sweep_store, task_events
from tests.unit.cloud import fake
from tests.unit.results import factory
from tests.unit.sweep.directories import BaselineHosts, SweepDirectories
from tests.unit.sweep.test_session import workload_args


class StartTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.useFixture(SweepDirectories())
        self.cloud = self.useFixture(fake.FakeCloud())
        #: What would be called when the process ends.
        self.exit_functions: list[Any] = []
        for name, value in (
            ('rally_plugins.task_state._STATES', []),
            (
                'rally_plugins.task_state.atexit.register',
                lambda function, *_: self.exit_functions.append(function),
            ),
            ('cloud.lease.acquire', lambda *_: None),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.{name}', value))
        self.addCleanup(self.end_process)
        for signal_number in (signal.SIGTERM, signal.SIGHUP):
            before = signal.signal(signal_number, signal.SIG_DFL)
            self.addCleanup(signal.signal, signal_number, before)

    def end_process(self) -> None:
        """Release the lock, as at the end of the process."""
        for function in self.exit_functions:
            if function is not task_state._undo:
                function()

    def start(self, **context: Any) -> task_state.TaskState:
        return task_state.get_task_state(
            {'admin': {'credential': fake.CREDENTIAL}, **context}
        )

    def test_users_of_the_environment_get_the_stacks(self) -> None:
        users = [{'credential': fake.CREDENTIAL}]
        state = self.start(
            users=users, config={'existing_users': [fake.CREDENTIAL]}
        )
        self.assertIsNot(state.admin, state.tenant)

    def test_users_that_rally_creates_get_no_stacks(self) -> None:
        """They are deleted at the end of the first workload."""
        users = [{'credential': fake.CREDENTIAL | {'username': 'c_rally_1'}}]
        state = self.start(users=users, config={'users@openstack': {}})
        self.assertIs(state.admin, state.tenant)

    def test_signals_undo_the_changes(self) -> None:
        """As Ctrl-C does; Rally has no handlers of its own."""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.start()
        self.assertRaises(
            KeyboardInterrupt, signal.raise_signal, signal.SIGTERM
        )
        # As with nohup.
        self.assertIs(signal.SIG_IGN, signal.getsignal(signal.SIGHUP))

    def test_a_start_that_fails_does_not_keep_the_lock(self) -> None:
        """Rally tries again with the next workload."""
        self.refuse_first_start()
        self.assertRaises(errors.BusyError, self.start)
        state = self.start()
        self.assertIs(state, self.start())
        # The second start has the lock.
        self.assertRaises(
            errors.BusyError, sweep_store.lock_measurements().__enter__
        )

    def refuse_first_start(self) -> None:
        """Have the lease of the cloud refused once."""
        failures = [errors.BusyError('another machine has the lease')]

        def acquire(*_: Any) -> None:
            if failures:
                raise failures.pop()

        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cloud.lease.acquire', acquire)
        )

    def test_a_clean_up_after_a_refused_start_starts_nothing(self) -> None:
        """Rally cleans up after it, without the arguments for the token."""
        self.refuse_first_start()
        self.assertRaises(errors.BusyError, self.start)
        context = contexts.FlavorsContext.__new__(contexts.FlavorsContext)
        context.context = {'admin': {'credential': fake.CREDENTIAL}}
        context.cleanup()
        self.assertEqual([], task_state._STATES)
        self.assertFalse(task_state.is_started())

    def test_a_second_start_has_the_pipe_to_the_parent(self) -> None:
        """The first one removes its variable from the environment."""
        source, sink = os.pipe()
        self.addCleanup(os.close, source)
        self.addCleanup(os.close, sink)
        self.useFixture(
            fixtures.EnvironmentVariable(
                task_events.VARIABLE, task_events.format_variable(sink)
            )
        )
        task_events.get_process_pipe.cache_clear()
        self.addCleanup(task_events.get_process_pipe.cache_clear)
        self.refuse_first_start()
        self.assertRaises(errors.BusyError, self.start)
        self.start().progress.say('measuring')
        self.assertIn(b'measuring', os.read(source, 4096))

    def test_a_failure_after_the_clock_was_set_back(self) -> None:
        """Within the run before it, both records would count as forged."""
        state = self.start()
        now = datetime.now(UTC)
        sweep_store.open_store().append(
            factory.run(
                *('i1', 0, 3600),
                sweep='mine',
                started=(now - timedelta(hours=1)).strftime(factory.TIME),
            )
        )
        system_time = time.time
        self.useFixture(
            fixtures.MonkeyPatch('time.time', lambda: system_time() - 60)
        )
        args = workload_args(sweep='mine', configuration='i2')
        state.save_failure(args, state.steps(args)[0], 'no host is up')
        first, second = sweep_store.open_store().load_records('mine')
        self.assertEqual('no host is up', second.reason)
        self.assertLessEqual(first.ended, second.started)

    def leave_changes(self, state: task_state.TaskState) -> None:
        """Have a flavor and the lease, as after a clean-up that failed."""
        scope = connection.scope(state.admin)
        journal.note('lease', {'name': 'l', 'provider': 'p'}, scope)
        journal.note('flavor', {'name': 'f', 'id': 'f1'}, scope)

    def set_up_flavors(self) -> None:
        """Set up the first context of a workload without a kit."""
        context = contexts.FlavorsContext.__new__(contexts.FlavorsContext)
        context.config = {
            'sweep': 'mine',
            'configuration': 'i1-ceph',
            'sizes': [10**11],
            'without': ['ceph'],
        }
        context.context = {}
        context.setup()

    def test_changes_of_a_clean_up_that_failed(self) -> None:
        """They fall on no other configuration, which two failures exclude."""
        state = self.start()
        self.leave_changes(state)
        flavor = f'{fake.NOVA}/flavors/f1'
        self.cloud.http.delete(flavor, status_code=500)
        error = self.assertRaises(errors.CloudError, self.set_up_flavors)
        self.assertIn('Cannot undo changes: flavor f', str(error))
        self.assertEqual([], record.load_all(sweep_store.RECORDS_DIR))
        self.cloud.http.delete(flavor, status_code=202)
        error = self.assertRaises(errors.InputError, self.set_up_flavors)
        self.assertIn('no Ceph', str(error))
        self.assertEqual(['lease'], [entry.kind for entry in journal.own()])

    def test_no_plan_after_a_clean_up_that_failed(self) -> None:
        """The next workload has another configuration."""
        state = self.start()
        self.leave_changes(state)
        self.cloud.http.delete(f'{fake.NOVA}/flavors/f1', status_code=500)
        state.plan = object()  # type: ignore[assignment]
        state.skip_reason = 'x: it was skipped'
        self.assertRaises(
            errors.CloudError, contexts.FlavorsContext.undo, state
        )
        self.assertEqual((None, ''), (state.plan, state.skip_reason))

    def test_nothing_to_skip_after_a_release_that_failed(self) -> None:
        state = self.start()
        hosts = bare_metal.BareHosts.from_file(
            self.useFixture(BaselineHosts()).path
        )

        def release(_: bare_metal.BareHosts) -> None:
            raise errors.CommandError(['release'], 1, 'it stays')

        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cluster.bare_metal.BareHosts.release', release
            )
        )
        state.cluster = hosts
        state.skip_reason = 'x: it was skipped'
        self.assertRaises(
            errors.CommandError, contexts.BaselineContext.undo, state
        )
        self.assertEqual((None, ''), (state.cluster, state.skip_reason))
