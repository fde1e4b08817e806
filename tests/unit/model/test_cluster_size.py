# SPDX-License-Identifier: Apache-2.0
"""Test the numbers of slots, workers and hosts."""

import testtools

from hvstack import errors, host_profiles
from hvstack.model.cluster_size import compute_cluster_size
from hvstack.model.configuration import Configuration, parse


class Workers(testtools.TestCase):
    """Workers = I x hosts - slots taken by controllers."""

    def workers(self, host: str, hosts: int, count: int) -> int:
        profile = host_profiles.load(host)
        return compute_cluster_size(
            profile, Configuration(count), hosts
        ).workers

    def test_vsphere6_table_1(self) -> None:
        worker_counts = {1: 31, 2: 62, 4: 126, 10: 318, 20: 636}
        for count, workers in worker_counts.items():
            self.assertEqual(workers, self.workers('vsphere6', 32, count))

    def test_vsphere6_native(self) -> None:
        size = compute_cluster_size(
            host_profiles.load('vsphere6'), Configuration(4), 32, native=True
        )
        self.assertEqual(
            (31, 1, 1, 'nothing'),
            (
                size.workers,
                size.controllers,
                size.slots_per_controller,
                str(size.rest),
            ),
        )

    def test_vsphere6_on_16_hosts(self) -> None:
        self.assertEqual(78, self.workers('vsphere6', 16, 5))
        self.assertEqual(316, self.workers('vsphere6', 16, 20))

    def test_vsan_has_one_master(self) -> None:
        self.assertEqual(27, self.workers('vsan', 7, 4))

    def test_amd_has_one_master(self) -> None:
        self.assertEqual(4, self.workers('amd', 5, 1))

    def test_lab_controllers_have_a_whole_host(self) -> None:
        profile = host_profiles.load('vsan')
        size = compute_cluster_size(profile, Configuration(4), 3, 'host')
        self.assertEqual((8, 4), (size.workers, size.slots_per_controller))

    def test_slots_do_not_depend_on_ratios(self) -> None:
        profile = host_profiles.load('vsphere6')
        size = compute_cluster_size(profile, parse('i20-c4'), 32)
        self.assertEqual(636, size.workers)

    def test_no_worker_left(self) -> None:
        profile = host_profiles.load('vsphere6')
        for hosts, count in ((1, 1), (0, 4), (-3, 4), (1, 4)):
            self.assertRaises(
                errors.InputError,
                compute_cluster_size,
                profile,
                Configuration(count),
                hosts,
            )

    def test_unknown_rule(self) -> None:
        self.assertRaises(
            errors.InputError,
            compute_cluster_size,
            host_profiles.load('vsan'),
            Configuration(),
            3,
            'three',
        )
