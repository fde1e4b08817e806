# SPDX-License-Identifier: Apache-2.0
import hypothesis
import testtools
from hypothesis import strategies

from hvstack import errors
from hvstack.hadoop.sizing import size_node


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
            found = size_node(vcpus, memory)
            self.assertEqual(8, nodes * found.containers, (vcpus, memory))
            self.assertEqual(vcpus, found.processors)

    def test_host_of_the_paper(self) -> None:
        """vsphere6: a map and a reduce task per CPU; heaps under half."""
        found = size_node(40, 256 * 1024)
        self.assertEqual(80, found.containers)
        self.assertLess(found.containers * found.heap_mib, 128 * 1024)

    def test_too_small(self) -> None:
        failure = self.assertRaises(errors.InputError, size_node, 1, 700)
        self.assertIn('MiB are the least', str(failure))
        self.assertRaises(errors.InputError, size_node, 0, 4096)

    @hypothesis.given(
        strategies.integers(1, 256), strategies.integers(1152, 4 * 1024 * 1024)
    )
    def test_fits(self, vcpus: int, memory: int) -> None:
        found = size_node(vcpus, memory)
        self.assertLessEqual(found.yarn_mib, memory - 640)
        self.assertLessEqual(found.containers, 2 * vcpus)
        self.assertLess(found.heap_mib, found.container_mib)
        self.assertLess(found.sort_mib, found.heap_mib)
