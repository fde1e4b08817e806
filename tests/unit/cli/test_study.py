# SPDX-License-Identifier: Apache-2.0
"""Test the options of ``hvstack study``."""

import json

import testtools

from hvstack.study import definition
from tests.unit.cli.runner import run_command


class PassesTest(testtools.TestCase):
    def plan(self, *args: str) -> tuple[int, str, str]:
        command = ('study', 'plan', 'vsphere6-replicas', '-f', 'json')
        return run_command(
            *(*command, '--host', 'vsphere6', '--backend', 'kvm', *args)
        )

    def test_numbers_that_no_study_has(self) -> None:
        """0 was the number of the study, and -1 a plan without runs."""
        for number in ('0', '-1', str(definition.MAX_PASSES + 1)):
            status, out, err = self.plan('--passes', number)
            self.assertEqual((2, ''), (status, out))
            self.assertIn(f'Cannot use --passes {number}', err)

    def test_another_number(self) -> None:
        status, out, err = self.plan('--passes', '2')
        self.assertEqual((0, 2), (status, json.loads(out)['passes']), err)
