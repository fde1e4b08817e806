# SPDX-License-Identifier: Apache-2.0
"""Test the sizes and the numbers of tasks of a workload."""

import testtools

from hvstack import errors
from hvstack.tpcxhs.workload import MIB, Workload, count_tasks, parse_size


class WorkloadTest(testtools.TestCase):
    def test_one_block_a_file_as_long_as_blocks_may_be(self) -> None:
        small = Workload(500_000_000, 2, 6, 6)
        self.assertEqual(5_000_000, small.records)
        self.assertLess(500_000_000 / 6, small.block_bytes)
        self.assertEqual(0, small.block_bytes % MIB)
        self.assertEqual(256 * MIB, Workload(10**12, 3, 600, 600).block_bytes)
        self.assertEqual(MIB, Workload(1000, 2, 6, 6).block_bytes)

    def test_needs_input_output_and_half_for_the_sort(self) -> None:
        self.assertEqual(4500, Workload(1000, 2, 1, 1).needed_bytes)

    def test_refuses_what_no_run_can_sort(self) -> None:
        for args in (
            (0, 2, 6, 6),
            (150, 2, 6, 6),
            (1000, 0, 6, 6),
            (1000, 2, 0, 6),
            (1000, 2, 6, 0),
        ):
            self.assertRaises(errors.InputError, Workload, *args)

    def test_splits_of_table_1(self) -> None:
        """vsphere6, Table 1: map tasks of TeraSort of 30 TB."""
        for files, expected in (
            (682, 111_848),
            (620, 112_220),
            (756, 111_888),
            (954, 112_572),
            (636, 111_936),
        ):
            data = Workload(30 * 10**12, 3, files, files)
            self.assertEqual(expected, data.count_splits(256 * 2**20))

    def test_splits_of_small_data(self) -> None:
        data = Workload(10**9, 2, 8, 8)
        self.assertEqual(8, data.count_splits(256 * 2**20))

    def test_tasks_leave_room_for_the_master(self) -> None:
        self.assertEqual(
            [6, 1, 1], [count_tasks(10**9, n, 1, 'stock') for n in (8, 3, 1)]
        )

    def test_little_data_has_few_tasks_and_as_many_on_each_host(self) -> None:
        for megabytes, expected in (
            (1, 2),
            (100, 2),
            (268, 2),
            (269, 4),
            (402, 4),
            (403, 6),
            (800, 6),
        ):
            self.assertEqual(
                expected,
                count_tasks(megabytes * 10**6, 8, 2, 'stock'),
                megabytes,
            )
        # The wave of three hosts is no multiple of them.
        self.assertEqual(
            [3, 22],
            [count_tasks(n, 24, 3, 'stock') for n in (10**8, 10**10)],
        )


class SizeTest(testtools.TestCase):
    def test_size(self) -> None:
        for text, expected in (
            ('500MB', 500_000_000),
            ('1 gb', 10**9),
            ('1.5 GB', 1_500_000_000),
            ('1000', 1000),
        ):
            self.assertEqual(expected, parse_size(text))
        for text in ('', '50', '12345', '5 parsecs', '-500MB', '5 MiB'):
            self.assertRaises(errors.InputError, parse_size, text)
