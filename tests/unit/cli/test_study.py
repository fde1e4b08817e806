# SPDX-License-Identifier: Apache-2.0
"""Test the options of ``hvstack study``."""

import json
from pathlib import Path

import fixtures
import testtools

from hvstack.study import definition, study_store
from tests.unit.cli.runner import run_command
from tests.unit.sweep.directories import SweepDirectories


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


class TaskArgsTest(testtools.TestCase):
    """Rally reads the hosts from hvstack.conf, not from the arguments."""

    def setUp(self) -> None:
        super().setUp()
        directory = self.useFixture(SweepDirectories()).path
        self.path = Path(directory) / 'args.json'

    def plan(self, *args: str) -> tuple[int, str]:
        command = 'study', 'plan', 'vsphere6-replicas'
        status, _, err = run_command(
            *(*command, '--task-args', str(self.path), *args)
        )
        return status, err

    def configure(self, **options: str) -> None:
        for name, value in options.items():
            self.useFixture(
                fixtures.EnvironmentVariable(f'OS_CLOUD__{name}', value)
            )

    def test_other_hosts(self) -> None:
        self.configure(HOST_PROFILE='vsan')
        for args, expected in (
            (
                ('--host', 'vsphere6', '--backend', 'kvm'),
                "of hvstack.conf, 'vsan'. Set host_profile",
            ),
            (('--backend', 'qemu'), "of hvstack.conf, 'kvm'. Set backend"),
        ):
            status, err = self.plan(*args)
            self.assertEqual(2, status, err)
            self.assertIn(expected, err)
        self.assertFalse(self.path.exists())
        self.assertEqual([], study_store.list_started()[0])

    def test_configured_hosts(self) -> None:
        self.configure(HOST_PROFILE='vsphere6', BACKEND='qemu')
        status, err = self.plan('--host', 'vsphere6', '--backend', 'qemu')
        self.assertEqual(0, status, err)
        self.assertIn('workloads', json.loads(self.path.read_text('utf-8')))
