# SPDX-License-Identifier: Apache-2.0
"""Results of TestDFSIO and NNBench, with outputs written by hand.

See :mod:`tests.unit.burn_in.outputs`.
"""

import testtools

from hvstack.hadoop import micro_benchmarks
from tests.unit.burn_in import outputs


class ParsersTest(testtools.TestCase):
    def test_dfsio(self) -> None:
        """The rate of a task, in units of 10**6 bytes."""
        self.assertAlmostEqual(
            52.4288, micro_benchmarks.parse_dfsio(outputs.DFSIO)
        )
        for text in ('', outputs.DFSIO.replace(': 50', ': NaN')):
            self.assertRaises(ValueError, micro_benchmarks.parse_dfsio, text)

    def parse_nnbench(
        self, late: int = 0, exceptions: int = 0, operations: int = 816
    ) -> float:
        return micro_benchmarks.parse_nnbench(
            outputs.NNBENCH.format(
                late=late, exceptions=exceptions, operations=operations
            )
        )

    def test_nnbench(self) -> None:
        self.assertEqual(816, self.parse_nnbench())

    def test_nnbench_without_a_result(self) -> None:
        self.assertRaises(ValueError, micro_benchmarks.parse_nnbench, '')
        for changes, part in (
            ({'operations': 0}, 'no operations'),
            ({'late': 1}, '1 map tasks started too late'),
            ({'exceptions': 2}, '2 operations failed'),
        ):
            error = self.assertRaises(
                ValueError, self.parse_nnbench, **changes
            )
            self.assertIn(part, str(error))
