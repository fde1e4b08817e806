# SPDX-License-Identifier: Apache-2.0
"""Start of a Rally process, against a cloud at the HTTP boundary."""

from typing import Any

import fixtures
import testtools

from hvstack import errors
from hvstack.rally_plugins import task_state
from hvstack.sweep import sweep_store
from tests.unit.cloud import fake
from tests.unit.sweep.directories import SweepDirectories


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

    def test_a_start_that_fails_does_not_keep_the_lock(self) -> None:
        """Rally tries again with the next workload."""
        failures = [errors.BusyError('another machine has the lease')]

        def acquire(*_: Any) -> None:
            if failures:
                raise failures.pop()

        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cloud.lease.acquire', acquire)
        )
        self.assertRaises(errors.BusyError, self.start)
        state = self.start()
        self.assertIs(state, self.start())
        # The second start has the lock.
        self.assertRaises(
            errors.BusyError, sweep_store.lock_measurements().__enter__
        )
