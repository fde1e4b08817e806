# SPDX-License-Identifier: Apache-2.0
"""Test the numbers of tasks that fill all compared platforms."""

import testtools

from hvstack.tpcxhs.task_counts import PlatformSlots, count_tasks


def slots(*counts: int) -> list[PlatformSlots]:
    return [PlatformSlots(count, count) for count in counts]


class TaskCountsTest(testtools.TestCase):
    def count(self, size_mib: int, *counts: int, hosts: int = 2) -> int:
        return count_tasks(size_mib << 20, slots(*counts), hosts, 'lab')

    def test_one_wave_fills_platforms_with_equal_containers(self) -> None:
        for size_mib in (8, 100, 800, 10**6):
            self.assertEqual(8, self.count(size_mib, 8, 8, 8), size_mib)

    def test_several_waves_fill_platforms_with_other_containers(self) -> None:
        # 24 is the smallest multiple of both.
        self.assertEqual(24, self.count(800, 8, 8, 12))
        self.assertEqual(8, self.count(800, 8, 4))
        # The data of a demo, with and without CPU over-subscription.
        platforms = slots(8, 8, 8, 12, 8)
        self.assertEqual(24, count_tasks(400_000_000, platforms, 2, 'lab'))

    def test_small_data_or_many_waves_fill_only_bare_metal(self) -> None:
        # 24 tasks of less than 16 MB would only start JVMs.
        self.assertEqual(8, self.count(300, 8, 8, 12))
        # 7 x 8 are more than four waves.
        self.assertEqual(8, self.count(10**6, 8, 7))
        # As many configurations as possible are filled.
        self.assertEqual(16, self.count(10**6, 8, 7, 16, 16))

    def test_tiny_data_has_a_mebibyte_a_task(self) -> None:
        self.assertEqual(4, self.count(5, 8))
        self.assertEqual(2, self.count(0, 8))
        # Not more tasks than containers of a single worker host.
        self.assertEqual(1, self.count(0, 1))

    def test_counts_of_papers_are_obeyed(self) -> None:
        """vsphere6, Table 1, and vsan, Table 6."""
        for tuning, containers, expected in (
            ('vsphere6', 1364, 682),
            ('vsan', 378, 377),
        ):
            platforms = [PlatformSlots(containers, containers - 1)]
            self.assertEqual(
                expected, count_tasks(30 * 10**12, platforms, 31, tuning)
            )
