# SPDX-License-Identifier: Apache-2.0
"""Pinned disks: local volumes, PCI passthrough, Ceph."""

from dataclasses import replace

import testtools

from hvstack import host_profiles
from hvstack.model import pinned_disks
from hvstack.model.configuration import parse
from hvstack.model.host import HostPolicy


class PinnedDisksTest(testtools.TestCase):
    def test_local_volumes(self) -> None:
        profile = host_profiles.load('vsphere6')
        assert profile.disks is not None
        nvme = replace(profile, disks=replace(profile.disks, pci_alias='n'))
        for label, expected in (
            ('i2', False),
            ('i2-pinned', True),
            ('i2-ceph-pinned', False),
        ):
            chosen = parse(label)
            self.assertEqual(
                expected, pinned_disks.is_volume_local(profile, chosen)
            )
            self.assertFalse(pinned_disks.is_volume_local(nvme, chosen))

    def test_lab(self) -> None:
        """The kernel serves no iSCSI to the namespaces of lab hosts."""
        profile = host_profiles.load('vsphere6')
        lab = replace(profile, policy=HostPolicy(lab=True))
        for label in ('i2', 'i2-pinned', 'i2-ceph-pinned'):
            self.assertIsNone(
                pinned_disks.explain_unsupported(profile, parse(label))
            )
            reason = pinned_disks.explain_unsupported(lab, parse(label))
            self.assertEqual(label == 'i2-pinned', reason is not None)
            self.assertIn('iSCSI', reason or 'iSCSI')

    def test_lab_with_local_volumes(self) -> None:
        """Volume types of both storages have the same names."""
        profile = host_profiles.load('vsphere6')
        lab = replace(profile, policy=HostPolicy(lab=True, local_volumes=True))
        for label in ('i2', 'i2-pinned', 'i1-dedicated-pinned'):
            self.assertIsNone(
                pinned_disks.explain_unsupported(lab, parse(label))
            )
        for label in ('i2-ceph', 'i2-ceph-pinned'):
            reason = pinned_disks.explain_unsupported(lab, parse(label))
            self.assertIn('--without lvm', str(reason))

    def test_size_of_a_volume(self) -> None:
        for disk_gb, gib in ((600, 558), (2000, 1862), (1, 1)):
            self.assertEqual(gib, pinned_disks.compute_volume_gib(disk_gb))
