# SPDX-License-Identifier: Apache-2.0
"""Test the numbers of containers and the sizes of heaps."""

import hypothesis
import testtools
from hypothesis import strategies

from hvstack import errors, host_profiles
from hvstack.hadoop import tuning_profiles
from hvstack.hadoop.sizing import (
    NodeSizing,
    count_tasks,
    size_node,
    sort_buffer_mib,
)
from hvstack.model.cluster_size import compute_cluster_size
from hvstack.model.configuration import Configuration
from hvstack.model.flavor import derive_flavor


class SizingTest(testtools.TestCase):
    def test_lab_has_as_many_containers_however_it_is_cut(self) -> None:
        """Two hosts of 2 CPUs: bare, i1, i2, i2-c2, i2-m1.2."""
        for nodes, vcpus, memory in (
            (2, 2, 4864),
            (2, 2, 4096),
            (4, 1, 2048),
            (4, 2, 2048),
            (4, 1, 2457),
        ):
            sizing = size_node(vcpus, memory)
            self.assertEqual(8, nodes * sizing.containers, (vcpus, memory))
            self.assertEqual(vcpus, sizing.processors)
            self.assertEqual(8, sizing.count_slots(nodes))

    def test_master_takes_nothing_from_a_worker(self) -> None:
        """It runs on the controller, also with the smallest workers."""
        for vcpus, memory in (
            *((1, 1152), (1, 2048), (2, 8216)),
            (40, 256 * 1024),
        ):
            sizing = size_node(vcpus, memory)
            self.assertTrue(sizing.has_master_node)
            self.assertGreater(sizing.map_mib, sizing.master_mib)
            self.assertEqual(
                sizing.yarn_mib, sizing.containers * sizing.map_mib
            )
            self.assertEqual(4 * sizing.containers, sizing.count_slots(4))
            for size in (sizing.map_mib, sizing.master_mib):
                # YARN rounds up to multiples of it.
                self.assertEqual(0, size % sizing.allocation_mib)
            self.assertGreater(sizing.heap_mib, sizing.master_heap_mib)
        for tuning in ('vsan', 'stock'):
            sizing = size_node(2, 4864, tuning=tuning, controller_mib=8192)
            self.assertFalse(sizing.has_master_node)
            self.assertEqual(0, sizing.master_node_mib)
            self.assertEqual(sizing.yarn_mib, sizing.master_room_mib)
            self.assertEqual(sizing.container_mib, sizing.master_container_mib)
            self.assertEqual(sizing.map_mib, sizing.allocation_mib)
            self.assertEqual(4 * sizing.containers - 1, sizing.count_slots(4))

    def test_node_of_the_masters(self) -> None:
        """What four daemons leave of the controller, or one of them."""
        for controller, tuning, room in (
            (3840, 'lab', 3840 - 128 - 2 * 512),
            (1280, 'lab', 384),
            # The JobHistory server has 3 GiB.
            (65536, 'hvstack', 65536 - 128 - 3 * 1024 - 3072),
            (8192, 'hvstack', 8192 - 128 - 4 * 1024),
        ):
            worker = 2048 if tuning == 'lab' else 65536
            sizing = size_node(
                2, worker, tuning=tuning, controller_mib=controller
            )
            # YARN rounds requests up: nothing would fit into the remainder.
            expected = room - room % sizing.allocation_mib
            self.assertEqual(expected, sizing.master_node_mib)
            self.assertLessEqual(sizing.master_mib, expected)
            self.assertEqual(
                max(sizing.yarn_mib, expected), sizing.largest_mib
            )
            self.assertEqual(expected, sizing.master_room_mib)

    def test_a_controller_too_small_for_its_daemons(self) -> None:
        """The kernel ended them while they ran."""
        for tuning, namenode, least_mib in (
            ('hvstack', True, 128 + 4 * 1024 + 1536),
            ('hvstack', False, 128 + 3 * 1024 + 1536),
            # ApplicationMasters are on workers.
            ('vsan', True, 128 + 3 * 512),
            ('vsan', False, 128 + 2 * 512),
        ):

            def size(
                controller_mib: int,
                tuning: str = tuning,
                namenode: bool = namenode,
            ) -> NodeSizing:
                return size_node(
                    8,
                    262144,
                    tuning=tuning,
                    controller_mib=controller_mib,
                    namenode=namenode,
                )

            size(least_mib)
            # It is unknown.
            size(0)
            failure = self.assertRaises(errors.InputError, size, least_mib - 1)
            self.assertEqual(
                f'Cannot run the controllers on {least_mib - 1} MiB (tuning '
                f"profile '{tuning}'): the heaps of their daemons do not fit. "
                f'Use a larger flavor, with at least {least_mib} MiB.',
                str(failure),
            )
        # The heaps of the guest image are smaller.
        size_node(8, 65536, tuning='lab', controller_mib=1024)

    def test_history_server(self) -> None:
        """1.2 GB for 100,000 tasks; a sort of 30 TB has 112,000 maps."""
        for memory, tuning, expected in (
            (256 * 1024, 'hvstack', 3072),
            (256 * 1024, 'vsan', 3072),
            (16384, 'hvstack', 1820),
            (2048, 'lab', None),
        ):
            sizing = size_node(8, memory, tuning=tuning)
            self.assertEqual(expected, sizing.history_mib, tuning)

    def test_host_of_the_paper(self) -> None:
        """vsphere6: a map and a reduce task per CPU; heaps under half."""
        sizing = size_node(40, 256 * 1024)
        self.assertEqual(80, sizing.containers)
        self.assertLess(sizing.containers * sizing.heap_mib, 128 * 1024)

    def test_steps_of_amd(self) -> None:
        """The containers and heaps are those of the guide.

        Step 3.1.1 has two maps and one reduce per core with 1 GiB each, step
        3.1.8 has one map with 1 GiB and one reduce with 2 GiB.
        """
        for tuning, containers, heap in (
            ('amd-3.1.1', 48, 1024),
            ('amd-3.1.6', 48, 1024),
            ('amd', 32, 2048),
        ):
            sizing = size_node(16, 16 * 4096, tuning=tuning)
            self.assertEqual(containers, sizing.containers, tuning)
            self.assertEqual(
                (1024, heap), (sizing.map_heap_mib, sizing.heap_mib)
            )

    def test_slots_of_vsphere6(self) -> None:
        """Table 1: map slots, and as many reduce slots, of each platform."""
        host = host_profiles.load('vsphere6')
        for instances, per_worker, in_cluster in (
            (0, 22, 682),
            (1, 20, 620),
            (2, 11, 682),
            (4, 6, 756),
            (10, 3, 954),
            (20, 1, 636),
        ):
            native = instances == 0
            configuration = Configuration(instances=instances or 1)
            size = compute_cluster_size(host, configuration, 32, native=native)
            vcpus, memory = host.cpus, host.memory_mib
            if not native:
                flavor = derive_flavor(host, configuration, 'worker')
                vcpus, memory = flavor.vcpus, flavor.ram
            sizing = size_node(vcpus, memory, tuning='vsphere6', native=native)
            self.assertEqual(2 * per_worker, sizing.containers, instances)
            self.assertEqual(
                in_cluster,
                count_tasks(size.workers * sizing.containers, 'vsphere6'),
                instances,
            )
            # "Less than half of OS memory was used for all the Java heaps".
            heaps = per_worker * (sizing.heap_mib + sizing.map_heap_mib)
            self.assertLess(heaps, memory / 2)
            self.assertEqual(
                (1200, 800, 400, 1300),
                (
                    sizing.heap_mib,
                    sizing.map_heap_mib,
                    sizing.sort_mib,
                    sizing.daemon_mib,
                ),
            )

    def test_containers_of_vsan(self) -> None:
        """Table 3 and 6: 27 workers of 14 vCPUs and 48 GiB."""
        sizing = size_node(14, 48 * 1024, tuning='vsan')
        self.assertEqual((14, 2150), (sizing.containers, sizing.container_mib))
        self.assertEqual(400, sizing.sort_mib)
        self.assertEqual(377, count_tasks(27 * sizing.containers, 'vsan'))
        self.assertLess(sizing.containers * sizing.heap_mib, 24 * 1024)

    def test_heaps_of_amd(self) -> None:
        """3.1.1 and 3.1.8: 3 GiB of heap a core, of 4 GiB."""
        sizing = size_node(32, 128 * 1024, tuning='amd')
        self.assertEqual(64, sizing.containers)
        self.assertEqual((1024, 2048), (sizing.map_heap_mib, sizing.heap_mib))
        self.assertEqual(32 * 3840, sizing.yarn_mib)
        self.assertEqual(4 * 32, count_tasks(4 * sizing.containers, 'amd'))

    def test_buffer_of_amd(self) -> None:
        """3.1.6: 316 MiB for a block of 256 MiB, with room to spare."""
        self.assertIn(sort_buffer_mib(256, 0.99), range(300, 317))
        # What Hadoop's default of 0.8 would need.
        self.assertEqual(378, sort_buffer_mib(256, 0.8))

    def test_stock_takes_eight_gib_at_most(self) -> None:
        sizing = size_node(40, 256 * 1024, tuning='stock')
        self.assertEqual(8192, sizing.yarn_mib)

    def test_no_such_tuning(self) -> None:
        for call in (
            lambda: size_node(2, 4096, tuning='best'),
            lambda: count_tasks(8, 'best'),
        ):
            failure = self.assertRaises(errors.InputError, call)
            self.assertIn("tuning profile 'best'", str(failure))

    def test_too_small(self) -> None:
        failure = self.assertRaises(errors.InputError, size_node, 1, 700)
        self.assertIn('is too small', str(failure))
        self.assertRaises(errors.InputError, size_node, 0, 4096)

    @hypothesis.given(
        strategies.sampled_from(tuning_profiles.list_names()),
        strategies.integers(1, 256),
        strategies.integers(2176, 4 * 1024 * 1024),
    )
    def test_every_tuning_fits(
        self, tuning: str, vcpus: int, memory: int
    ) -> None:
        sizing = size_node(vcpus, memory, tuning=tuning)
        self.assertLessEqual(sizing.yarn_mib, memory - 640)
        self.assertLess(sizing.heap_mib, sizing.container_mib)
        self.assertLess(sizing.map_heap_mib, sizing.map_mib)
        self.assertLess(sizing.sort_mib, sizing.map_heap_mib)
        self.assertEqual(0, sizing.container_mib % sizing.map_mib)

    @hypothesis.given(
        strategies.integers(1, 256), strategies.integers(1152, 4 * 1024 * 1024)
    )
    def test_fits(self, vcpus: int, memory: int) -> None:
        sizing = size_node(vcpus, memory)
        self.assertLessEqual(sizing.yarn_mib, memory - 640)
        self.assertLessEqual(sizing.containers, 2 * vcpus)
        self.assertLess(sizing.heap_mib, sizing.container_mib)
        self.assertLess(sizing.sort_mib, sizing.heap_mib)
