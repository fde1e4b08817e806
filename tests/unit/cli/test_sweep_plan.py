# SPDX-License-Identifier: Apache-2.0
"""Test what ``hvstack sweep plan`` reports of the disks."""

import json
from pathlib import Path
from typing import Any

import fixtures
import testtools
import yaml

from tests.unit.cli.runner import run_command


class DisksTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        for name in ('key', 'rootfs.tar'):
            (directory / name).touch()
        host = {'address': '192.0.2.1', 'vcpus': 2, 'memory_mib': 4096}
        inventory = directory / 'hosts.yaml'
        inventory.write_text(
            yaml.safe_dump(
                {
                    'key': str(directory / 'key'),
                    'first_contact': 'accept',
                    'rootfs': str(directory / 'rootfs.tar'),
                    'hosts': [
                        {'name': 'c', 'role': 'controller', **host},
                        {
                            **{'name': 'w', 'role': 'worker', **host},
                            'disks': [f'/data{n}' for n in range(20)],
                        },
                    ],
                }
            ),
            encoding='utf-8',
        )
        self.records = directory / 'records'
        self.useFixture(
            fixtures.EnvironmentVariable(
                'OS_SWEEP__BASELINE_HOSTS', str(inventory)
            )
        )

    def plan(self, *values: str, backend: str = 'kvm') -> str:
        status, out, err = run_command(
            *('sweep', 'plan', '--host', 'vsphere6'),
            *('--backend', backend, '--records', str(self.records)),
            *('-f', 'json', '--strategy', 'full-factorial'),
            *('--values', *values),
        )
        self.assertEqual(0, status, err)
        return out

    def disks(self, *values: str, backend: str = 'kvm') -> Any:
        plan = json.loads(self.plan(*values, backend=backend))
        return [
            (item['configurations'], item['reason'])
            for item in plan.get('disks', ())
        ]

    def test_differences_are_reported_before_a_run(self) -> None:
        self.assertEqual([], self.disks('instances=1,2,4,10,20'))
        differences = self.disks(
            'instances=3,4', 'storage=local,ceph', 'disk_pinning=on,off'
        )
        labels = {label for names, _ in differences for label in names}
        self.assertEqual(
            {'i3-pinned', 'i3-ceph-pinned', 'i3-ceph', 'i4-ceph'}, labels
        )
        (reason,) = [
            text for names, text in differences if 'i3-pinned' in names
        ]
        self.assertIn('18 rotational disks of 600 GB', reason)
        self.assertIn('not 20 disks (bare metal)', reason)

    def test_emulated_hosts(self) -> None:
        """Nothing is compared with bare metal there."""
        self.assertEqual(
            [], self.disks('instances=3', 'disk_pinning=on', backend='qemu')
        )


class SpaceTest(testtools.TestCase):
    def plan(self, size: str, *argv: str) -> list[str]:
        """Return the lines on HDFS of bare metal and of two clusters."""
        status, out, err = run_command(
            *('sweep', 'plan', '--host', 'vsphere6', '--hosts', '5'),
            *('--records', self.useFixture(fixtures.TempDir()).path),
            *('--values', 'instances=1,20', '--size', size, *argv),
        )
        self.assertEqual(0, status, err)
        return [line for line in out.splitlines() if 'HDFS:' in line]

    def test_data_are_compared_with_the_disks(self) -> None:
        """Four hosts, or 96 guests, have data disks."""
        fit = '  HDFS: the data need 19500 GB of'
        self.assertEqual(
            [
                f'{fit} 48000 GB on the disks',
                f'{fit} 48000 GB on the disks',
                f'{fit} 57600 GB on the disks',
            ],
            self.plan('3TB'),
        )
        large = '  HDFS: the data need 52000 GB'
        self.assertEqual(
            [
                f'{large} and do not fit: the disks have 48000 GB. Use a '
                'smaller --size, more hosts or larger disks'
            ]
            * 2
            + [f'{large} of 57600 GB on the disks'],
            self.plan('8TB'),
        )

    def test_containers_have_no_disks(self) -> None:
        self.assertEqual(
            [
                '  HDFS: the data need 52000 GB; the size of the disks is '
                'not known'
            ]
            * 3,
            self.plan('8TB', '--backend', 'lxc'),
        )


class BackendTest(testtools.TestCase):
    def plan(self, *argv: str) -> tuple[str, bool]:
        """Return the backend of a plan, and whether it has bare metal."""
        status, out, err = run_command(
            *('sweep', 'plan', '--host', 'vsphere6', '-f', 'json'),
            *('--records', self.useFixture(fixtures.TempDir()).path),
            *('--values', 'instances=1,2', *argv),
        )
        self.assertEqual(0, status, err)
        plan = json.loads(out)
        return plan['backend'], plan['bare_metal']

    def test_default_is_kvm_or_that_of_hvstack_conf(self) -> None:
        self.assertEqual(('kvm', True), self.plan())
        self.useFixture(
            fixtures.EnvironmentVariable('OS_CLOUD__BACKEND', 'qemu')
        )
        self.assertEqual(('qemu', False), self.plan())
        self.assertEqual(('kvm', True), self.plan('--backend', 'kvm'))
