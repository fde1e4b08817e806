# SPDX-License-Identifier: Apache-2.0
"""Test the comparison of disks before a run."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fixtures
import testtools
import yaml

from hvstack import errors, host_profiles
from hvstack.cluster import disk_check
from hvstack.model.configuration import parse


class DiskCheckTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.path = self.directory / 'hosts.yaml'
        self.profile = host_profiles.load('vsphere6')
        for name in ('key', 'rootfs.tar'):
            (self.directory / name).touch()

    def write(
        self, *disk_counts: int, mount_points: Sequence[str] = ()
    ) -> None:
        """Write an inventory of workers with these numbers of disks.

        :param mount_points: disks of each worker in addition.
        """
        host = {'vcpus': 2, 'memory_mib': 4096}
        workers: list[dict[str, Any]] = [
            {
                **{'name': f'w{index}', 'role': 'worker', **host},
                'address': f'192.0.2.{index + 2}',
                'disks': [
                    *(f'/dev/disk/by-id/ata-{n}' for n in range(count)),
                    *mount_points,
                ],
            }
            for index, count in enumerate(disk_counts)
        ]
        self.path.write_text(
            yaml.safe_dump(
                {
                    'key': str(self.directory / 'key'),
                    'first_contact': 'accept',
                    'rootfs': str(self.directory / 'rootfs.tar'),
                    'hosts': [
                        {
                            **{'name': 'c', 'role': 'controller', **host},
                            'address': '192.0.2.1',
                        },
                        *workers,
                    ],
                }
            ),
            encoding='utf-8',
        )

    def explain(self, name: str) -> str:
        return disk_check.explain(self.profile, parse(name), self.path)

    def test_one_disk_and_twenty(self) -> None:
        self.write(20)
        self.profile = replace(self.profile, disks=None)
        reason = self.explain('i1')
        self.assertIn('1 disk (local ephemeral), not 20 disks', reason)
        self.write(0)
        self.assertEqual('', self.explain('i1'))
        self.profile = host_profiles.load('vsphere6')
        reason = self.explain('i4-pinned')
        self.assertIn('not 1 disk (bare metal)', reason)

    def test_twenty_in_one_volume(self) -> None:
        self.write(20, 20)
        for name in ('i1', 'i4', 'i3', 'i1-pinned', 'i20-pinned'):
            self.assertEqual('', self.explain(name))
        self.assertIn('use 18 rotational', self.explain('i3-pinned'))
        self.write(20, 19)
        self.assertIn('not 19 or 20 disks', self.explain('i1'))

    def test_mount_points(self) -> None:
        """A logical volume can be on all disks."""
        for count in (0, 1):
            self.write(count, mount_points=['/srv/instances'])
            for name in ('i1', 'i3-pinned'):
                self.assertEqual('', self.explain(name))

    def test_ceph(self) -> None:
        self.write(20)
        self.assertIn('under Ceph are not known', self.explain('i2-ceph'))

    def test_no_inventory(self) -> None:
        """Bare metal is expected to use all disks of the host profile."""
        self.assertEqual('', self.explain('i4-pinned'))
        self.assertIn(
            'not 20 rotational disks of 600 GB', self.explain('i3-pinned')
        )
        self.path.write_text('hosts: 1\n', encoding='utf-8')
        self.assertRaises(errors.InputError, self.explain, 'i1')

    def test_lab(self) -> None:
        policy = replace(self.profile.policy, lab=True)
        self.profile = replace(self.profile, disks=None, policy=policy)
        self.write(20)
        for name in ('i1', 'i2-ceph'):
            self.assertEqual('', self.explain(name))

    def test_all(self) -> None:
        configurations = [
            parse(name) for name in ('i1', 'i3-pinned', 'i1-ceph', 'i2-ceph')
        ]
        labels = disk_check.explain_all(
            self.profile, configurations, self.path
        )
        self.assertEqual(
            [['i3-pinned'], ['i1-ceph', 'i2-ceph']], list(labels.values())
        )
