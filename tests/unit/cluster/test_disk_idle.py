# SPDX-License-Identifier: Apache-2.0
"""Disks are waited for by what Linux counts of them."""

from dataclasses import dataclass, field

import testtools

from hvstack import processutils
from hvstack.cluster import disk_idle

#: Of a Debian 12 guest; sectors written are the tenth word.
DISKSTATS = """\
   7       0 loop0 11 0 28 0 0 0 0 0 0 4 0 0 0 0 0 0 0
 254       0 vda 12904 3530 1041010 3811 8112 9032 {vda} 9 0 9 9 0 0 0 0 9 9
 254       1 vda1 12755 3530 1034370 3796 8092 9032 {vda} 9 0 9 9 0 0 0 0 0 0
 254      16 vdb 190 0 8160 50 3 0 {vdb} 4 0 92 54 0 0 0 0 0 0
 253       0 dm-0 9 0 9 9 9 9 999999 9 9 9 9 9 9 9 9 9 9
"""


@dataclass
class Disks:
    """A node with the number of sectors that each inspection finds."""

    name: str
    sectors: list[int]
    looks: list[str] = field(default_factory=list)

    def run(self, command: str, **_: object) -> processutils.Result:
        self.looks.append(command)
        count = self.sectors[min(len(self.looks), len(self.sectors)) - 1]
        text = DISKSTATS.format(vda=1000, vdb=count)
        return processutils.Result(0, text if count else '', '')


def wait_until_idle(*nodes: Disks, max_seconds: float = 10) -> str:
    return disk_idle.wait_until_idle(
        nodes, quiet=0.01, max_seconds=max_seconds, interval=0.005
    )  # type: ignore[arg-type]


class DisksTest(testtools.TestCase):
    def test_whole_disks_count_once(self) -> None:
        node = Disks('n', [24])
        self.assertEqual([1024 * 512], disk_idle._written([node]))  # type: ignore[list-item]

    def test_disk_of_several_paths(self) -> None:
        """Linux before 6.2 counts what is written on the path alone."""
        text = (
            '   0       0 nvme0c0n1 9 0 9 9 8 0 {0} 4 0 9 5 0 0 0 0 0 0\n'
            ' 259       0 nvme0n1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n'
            ' 259       1 nvme0n1p1 0 0 0 0 0 0 7 0 0 0 0 0 0 0 0 0 0\n'
        )

        class NVMe(Disks):
            def run(self, *_: object, **__: object) -> processutils.Result:
                return processutils.Result(0, text.format(24), '')

        self.assertEqual([24 * 512], disk_idle._written([NVMe('n', [])]))  # type: ignore[list-item]

    def test_until_all_are_idle(self) -> None:
        busy = Disks('busy', [1, 10**6, 2 * 10**6, 3 * 10**6])
        self.assertEqual('', wait_until_idle(Disks('idle', [5]), busy))
        self.assertGreater(len(busy.looks), 4)

    def test_a_node_that_never_stops_is_named(self) -> None:
        busy = Disks('busy', [n * 10**6 for n in range(1, 10**4)])
        message = wait_until_idle(Disks('idle', [5]), busy, max_seconds=0.05)
        self.assertIn('disks of busy were still written to with', message)

    def test_a_little_is_none(self) -> None:
        node = Disks('n', list(range(1, 20)))
        self.assertEqual('', wait_until_idle(node))

    def test_nodes_without_disks(self) -> None:
        node = Disks('n', [0])
        self.assertEqual('', wait_until_idle(node))
        self.assertEqual(1, len(node.looks))
