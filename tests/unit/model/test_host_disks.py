# SPDX-License-Identifier: Apache-2.0
"""Test which disks of a host its workers use together."""

from dataclasses import replace

import testtools

from hvstack import errors, host_profiles
from hvstack.model import host_disks
from hvstack.model.configuration import parse
from hvstack.model.host import HostDisks
from hvstack.model.host_disks import DiskUse

TWENTY = {'count': 20, 'kind': 'rotational', 'size_gb': 600}


class HostDisksTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.profile = host_profiles.load('vsphere6')

    def use(self, name: str) -> DiskUse:
        return host_disks.of_guests(self.profile, parse(name))

    def test_any_number_of_workers_uses_all_disks(self) -> None:
        for name in ('i1', 'i2', 'i3', 'i4', 'i10', 'i20'):
            use = self.use(name)
            self.assertEqual(TWENTY, use.disks)
            self.assertEqual('local ephemeral', use.access)
        self.assertEqual(TWENTY, host_disks.of_host(self.profile).disks)

    def test_pinned(self) -> None:
        for name, count in (
            *(('i1-pinned', 20), ('i4-pinned', 20), ('i20-pinned', 20)),
            *(('i3-pinned', 18), ('i12-pinned', 12)),
        ):
            use = self.use(name)
            self.assertEqual({**TWENTY, 'count': count}, use.disks)
            self.assertEqual('pinned volume', use.access)
        self.assertRaises(errors.InputError, self.use, 'i21-pinned')

    def test_passed_through(self) -> None:
        disks = HostDisks(4, 1600, rotational=False, pci_alias='nvme')
        self.profile = replace(self.profile, disks=disks)
        use = self.use('i2-pinned')
        self.assertEqual('PCI pass-through', use.access)
        self.assertEqual(
            {'count': 4, 'kind': 'nvme', 'size_gb': 1600}, use.disks
        )

    def test_disks_that_are_not_known(self) -> None:
        self.assertEqual(
            {'disk_access': 'Ceph'}, self.use('i4-ceph').to_facts()
        )
        self.profile = host_profiles.load('vsan')
        self.assertEqual({}, self.use('i2-ceph').disks)
        self.assertEqual('local ephemeral', self.use('i2').access)
        self.assertEqual(14, self.use('i2').count)

    def test_one_disk(self) -> None:
        """Without data disks, the data is on the disk of the guests."""
        self.profile = replace(self.profile, disks=None)
        use = self.use('i4')
        self.assertEqual(
            {'disk_access': 'local ephemeral', 'host_disks': {'count': 1}},
            use.to_facts(),
        )
        text = host_disks.format_disks(use.disks, use.access)
        self.assertEqual('1 disk (local ephemeral)', text)

    def test_equal(self) -> None:
        for other, equal in (
            (TWENTY, True),
            ({'count': 20}, True),
            ({}, True),
            ({'count': 1}, False),
            ({**TWENTY, 'size_gb': 1200}, False),
            ({**TWENTY, 'kind': 'flash'}, False),
            ({**TWENTY, 'kind': 'ssd'}, False),
        ):
            self.assertEqual(equal, host_disks.are_equal(TWENTY, other))
            self.assertEqual(equal, host_disks.are_equal(other, TWENTY))
        for own, kind, equal in (
            *(('flash', 'ssd', True), ('nvme', 'flash', True)),
            *(('ssd', 'nvme', False), ('loop', 'flash', True)),
        ):
            self.assertEqual(
                equal, host_disks.are_equal({'kind': own}, {'kind': kind})
            )

    def test_format(self) -> None:
        self.assertEqual(
            '20 rotational disks of 600 GB (bare metal)',
            host_disks.format_disks(TWENTY, host_disks.BARE_METAL),
        )
