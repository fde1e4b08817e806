# SPDX-License-Identifier: Apache-2.0
"""CPUs and NUMA cells that a flavor requests of its host."""

import testtools

from hvstack.model.flavor import Flavor
from hvstack.model.guest_shape import list_guest_cells, parse_guest_cpus


class GuestCellsTest(testtools.TestCase):
    def list_cells(
        self, vcpus: int, ram: int, **specs: str
    ) -> list[tuple[int, int]] | None:
        extra_specs = {
            f'hw:numa_{name.replace("_", ".")}': value
            for name, value in specs.items()
        }
        extra_specs['hw:numa_nodes'] = '2'
        return list_guest_cells(
            Flavor('f', 'worker', vcpus, ram, 20, extra_specs=extra_specs)
        )

    def test_even_cells(self) -> None:
        self.assertEqual([(2, 3), (2, 3)], self.list_cells(4, 6))

    def test_what_does_not_divide_has_to_be_listed(self) -> None:
        self.assertIsNone(self.list_cells(5, 6))
        self.assertIsNone(self.list_cells(4, 7))
        cpus = {'cpus_0': '0-2', 'cpus_1': '3,4'}
        self.assertEqual([(3, 3), (2, 3)], self.list_cells(5, 6, **cpus))
        memory = {'mem_0': '4', 'mem_1': '3'}
        self.assertEqual([(2, 4), (2, 3)], self.list_cells(4, 7, **memory))


class GuestCpusTest(testtools.TestCase):
    def test_list(self) -> None:
        self.assertEqual({0, 1, 3, 7}, parse_guest_cpus('0-3,^2,7'))

    def test_what_is_no_list_is_empty(self) -> None:
        for text in ('', 'a', '0-', '-1', '3-1', '0-99999999', '0-65536'):
            self.assertEqual(set(), parse_guest_cpus(text), text)
