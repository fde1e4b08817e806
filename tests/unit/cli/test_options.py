# SPDX-License-Identifier: Apache-2.0
"""The option that names a cloud, before and after the command."""

from typing import Any

import fixtures
import testtools

from hvstack import errors
from tests.unit.cli.runner import run_command


class CloudOptionTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.clouds: list[str | None] = []
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cloud.connection.connect', self.connect
            )
        )

    def connect(self, os_cloud: str | None = None, **_: Any) -> None:
        self.clouds.append(os_cloud)
        raise errors.CloudError('no cloud in this test')

    def call(self, *args: str) -> tuple[int, str]:
        """Return the exit status and the standard error of hvstack."""
        status, _, err = run_command(*args)
        return status, err

    def test_before_the_command(self) -> None:
        status, _ = self.call('--os-cloud', 'mine', 'flavor', 'list')
        self.assertEqual(errors.CloudError.exit_code, status)
        self.assertEqual(['mine'], self.clouds)

    def test_after_the_command(self) -> None:
        self.call('flavor', 'list', '--os-cloud', 'mine')
        self.call('--os-cloud', 'mine', 'flavor', 'list', '--os-cloud', 'mine')
        self.assertEqual(['mine', 'mine'], self.clouds)

    def test_without(self) -> None:
        self.call('flavor', 'list')
        self.assertEqual([None], self.clouds)

    def test_two_clouds_are_refused(self) -> None:
        status, error = self.call(
            '--os-cloud', 'mine', 'flavor', 'list', '--os-cloud', 'other'
        )
        self.assertEqual(2, status)
        self.assertIn("names 'mine' and 'other'", error)
        self.assertEqual([], self.clouds)

    def test_an_empty_name_is_refused(self) -> None:
        for args in (
            ('--os-cloud', '', 'flavor', 'list'),
            ('flavor', 'list', '--os-cloud', ' '),
            ('cluster', 'show', 'x', '--tenant-os-cloud='),
        ):
            status, error = self.call(*args)
            self.assertEqual(2, status)
            self.assertIn('name of the cloud is empty', error)
        self.assertEqual([], self.clouds)

    def test_a_command_without_a_cloud(self) -> None:
        status, _ = self.call('--os-cloud', 'mine', 'image', 'list')
        self.assertEqual(0, status)
