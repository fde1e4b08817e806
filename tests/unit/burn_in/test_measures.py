# SPDX-License-Identifier: Apache-2.0
"""Parsers of a burn-in, with outputs that were written by hand.

See :mod:`tests.unit.burn_in.outputs`.
"""

import testtools

from hvstack.burn_in import measures
from hvstack.burn_in.measures import NodeParts
from tests.unit.burn_in import outputs


class ParsersTest(testtools.TestCase):
    def test_fio(self) -> None:
        self.assertEqual(
            123.0, measures.parse_fio_write(outputs.fio('write', 123e6))
        )
        self.assertEqual(
            98.5, measures.parse_fio_read(outputs.fio('read', 98.5e6))
        )

    def test_fio_without_a_rate(self) -> None:
        for text in ('', 'fio: broken', '{', '{"jobs": []}', '{"jobs": 1}'):
            error = self.assertRaises(
                ValueError, measures.parse_fio_write, text
            )
            self.assertEqual('fio reports no rate', str(error))
        self.assertRaises(
            ValueError, measures.parse_fio_read, outputs.fio('write', 1e6)
        )
        error = self.assertRaises(
            ValueError, measures.parse_fio_read, outputs.fio('read', 1e6, 5)
        )
        self.assertEqual('fio: error 5', str(error))

    def test_refused_direct_io(self) -> None:
        self.assertEqual(
            'the file system refuses direct=1',
            measures.explain_failure(
                measures.DISK_READ, '', outputs.FIO_REFUSED
            ),
        )

    def test_stream(self) -> None:
        """All processes together, in units of 10**6 bytes."""
        self.assertAlmostEqual(
            7500 * 1.048576, measures.parse_stream(outputs.STREAM)
        )

    def test_stream_of_other_versions(self) -> None:
        self.assertAlmostEqual(
            4 * 5000 * 1.048576, measures.parse_stream(outputs.STREAM_NEW)
        )

    def test_stream_without_a_rate(self) -> None:
        for text, part in (
            (outputs.STREAM_SHORT, 'too short'),
            ('processes 1\nno memory', 'no memory'),
            ('', 'no output'),
        ):
            error = self.assertRaises(ValueError, measures.parse_stream, text)
            self.assertIn(part, str(error))

    def test_hashed(self) -> None:
        self.assertEqual(500.0, measures.parse_hashed(outputs.BUSY))

    def test_hashed_bytes_that_are_not_counted(self) -> None:
        text = outputs.BUSY.replace('hashed 1500000000\n', '').replace(
            'hashed 1000000000\n', ''
        )
        error = self.assertRaises(ValueError, measures.parse_hashed, text)
        self.assertIn('does not count', str(error))
        self.assertRaises(ValueError, measures.parse_hashed, 'sh: broken')

    def test_iperf3(self) -> None:
        """The slower direction counts, in what was received."""
        self.assertEqual(
            900.0, measures.parse_iperf3(outputs.iperf3(940e6, 900e6))
        )

    def test_iperf3_without_a_direction(self) -> None:
        error = self.assertRaises(
            ValueError, measures.parse_iperf3, outputs.iperf3(940e6)
        )
        self.assertIn('1 directions', str(error))
        text = outputs.iperf3(940e6) + outputs.IPERF3_ERROR
        error = self.assertRaises(ValueError, measures.parse_iperf3, text)
        self.assertIn('Connection refused', str(error))
        self.assertIn(
            'Connection refused',
            measures.explain_failure(
                measures.NETWORK, outputs.IPERF3_ERROR, ''
            ),
        )

    def test_other_failures(self) -> None:
        self.assertEqual(
            'sh: 1: stress-ng: not found',
            measures.explain_failure(
                measures.MEMORY, '', 'first\nsh: 1: stress-ng:  not found\n'
            ),
        )


class NodeTest(testtools.TestCase):
    TEXT = (
        'disk 4000 /srv/data/0\ndisk 5000 /srv/data/mount-1 x\n'
        'processors 6\ncells 2\ncell 1 2\ncell 0 4\nmissing iperf3\n'
    )

    def test_parse(self) -> None:
        self.assertEqual(
            NodeParts(
                {'/srv/data/0': 4096000, '/srv/data/mount-1 x': 5120000},
                6,
                2,
                {0: 4, 1: 2},
                frozenset({'iperf3'}),
            ),
            measures.parse_node(self.TEXT),
        )

    def test_no_node(self) -> None:
        for text in ('', 'processors 2', 'disk 1 /srv\nprocessors x'):
            self.assertRaises(ValueError, measures.parse_node, text)

    def list_parts(
        self, measure: measures.Measure, node: NodeParts
    ) -> list[tuple[str, tuple[str | int, ...]]]:
        return [
            (part.where, part.args)
            for part in measures.list_parts(measure, node, 'ab12', 244)
        ]

    def test_parts(self) -> None:
        node = measures.parse_node(self.TEXT)
        self.assertEqual(
            [
                ('/srv/data/0', ('write', '/srv/data/0', 'ab12', 244, 60)),
                (
                    '/srv/data/mount-1 x',
                    ('write', '/srv/data/mount-1 x', 'ab12', 244, 60),
                ),
            ],
            self.list_parts(measures.DISK_WRITE, node),
        )
        self.assertEqual(
            'read', self.list_parts(measures.DISK_READ, node)[0][1][0]
        )
        self.assertEqual(
            [
                ('NUMA cell 0', (0, 4, 10, 2)),
                ('NUMA cell 1', (1, 2, 10, 2)),
            ],
            self.list_parts(measures.MEMORY, node),
        )
        self.assertEqual(
            [('node', (6, 5))], self.list_parts(measures.CPU, node)
        )

    def test_a_single_cell_is_the_node(self) -> None:
        for cells in ({}, {0: 4}):
            self.assertEqual(
                [('node', ('all', 4, 10, 1))],
                self.list_parts(
                    measures.MEMORY, NodeParts({'/srv': 1}, 4, 1, cells)
                ),
            )

    def test_missing_programs(self) -> None:
        missing = frozenset({'numactl', 'fio'})
        for measure, cells, program in (
            (measures.DISK_READ, 1, 'fio'),
            (measures.MEMORY, 1, ''),
            (measures.MEMORY, 2, 'numactl'),
            (measures.CPU, 2, ''),
            (measures.NETWORK, 2, ''),
        ):
            node = NodeParts({'/srv': 1}, 4, cells, {}, missing)
            self.assertEqual(
                program, measures.find_missing_program(measure, node)
            )
