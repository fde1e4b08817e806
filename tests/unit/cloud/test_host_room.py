# SPDX-License-Identifier: Apache-2.0
"""Workers and other nodes have room on the same hosts."""

from dataclasses import replace

import testtools

from hvstack import host_profiles
from hvstack.cloud.host_room import (
    FreeResource,
    FreeResources,
    count_workers_beside,
)
from hvstack.model.configuration import parse
from hvstack.model.flavor import derive_flavor


class BesideTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.worker = derive_flavor(
            host_profiles.load('vsphere6'), parse('i2')
        )
        #: Half of the CPUs of a worker.
        self.other = replace(self.worker, vcpus=self.worker.vcpus // 2)

    def free(self, others: int) -> FreeResources:
        """Return a host with CPUs for a number of other nodes."""
        return {'VCPU': FreeResource(self.other.vcpus * others)}

    def count(
        self, others: int, *hosts: tuple[FreeResources, bool, bool]
    ) -> int:
        """Return how many workers fit, of which a host has two at most."""
        return count_workers_beside(
            (self.worker, 2), (self.other, others), hosts
        )

    def test_least_room_of_workers(self) -> None:
        """The other nodes are where they take the least room of workers."""
        half, two, three = ((self.free(n), True, True) for n in (1, 2, 3))
        self.assertEqual(2, self.count(1, two, three))
        self.assertEqual(1, self.count(2, two, three))
        self.assertEqual(2, self.count(2, half, two, three))
        # One of them on each host, although both fit on the last.
        self.assertEqual(2, self.count(2, two, (self.free(6), True, True)))

    def test_hosts_of_one_role(self) -> None:
        three = self.free(3)
        for_workers, for_others = (three, True, False), (three, False, True)
        self.assertEqual(1, self.count(1, for_workers, for_others))
        self.assertEqual(0, self.count(1, for_others))

    def test_max_workers_of_a_host(self) -> None:
        self.assertEqual(2, self.count(1, (self.free(9), True, True)))

    def test_max_unit(self) -> None:
        """A server can have no more than the maximum of an inventory."""
        resource = FreeResource(8 * self.worker.vcpus, self.other.vcpus)
        host = ({'VCPU': resource}, True, True)
        self.assertEqual(0, self.count(1, host))
