# SPDX-License-Identifier: Apache-2.0
"""Test the published figures of the papers."""

import testtools

from hvstack.report import paper_figures


class Conversions(testtools.TestCase):
    """Percents are computed from the papers' seconds."""

    def setUp(self) -> None:
        super().setUp()
        self.papers = paper_figures.load_figures()
        self.table = self.papers.find_table('vsphere6', 'Table 2')

    def test_table_2_is_as_printed(self) -> None:
        self.assertEqual(
            {
                'Native': (1072, 3825, 697, 2616, 1209),
                '1 VM': (1134, 4292, 728, 2979, 1313),
                '2 VMs': (1077, 3568, 723, 2343, 1225),
                '4 VMs': (1072, 3355, 695, 2151, 1204),
                '10 VMs': (1098, 3460, 649, 2195, 1265),
                '20 VMs': (1289, 3562, 633, 2083, 1479),
            },
            self.table.rows,
        )

    def test_percent_of_the_whole_suite(self) -> None:
        self.assertEqual(5594, self.table.sum_suite_seconds('Native'))
        self.assertEqual(
            {
                '1 VM': 90.9,
                '2 VMs': 104.2,
                '4 VMs': 109.2,
                '10 VMs': 107.4,
                '20 VMs': 102.0,
            },
            {k: round(v, 1) for k, v in self.table.compute_percents().items()},
        )

    def test_single_replica(self) -> None:
        table = self.papers.find_table('vsphere6', 'Table 3')
        self.assertEqual(
            {'4 VMs': 109.1, '20 VMs': 112.8},
            {k: round(v, 1) for k, v in table.compute_percents().items()},
        )

    def test_twelve_percent_is_terasorts_time_alone(self) -> None:
        ratio = self.table.compute_phase_ratios('4 VMs')['TeraSort']
        self.assertEqual(12, round(100 * (1 - ratio)))

    def test_phases_add_up_to_terasort(self) -> None:
        for table in self.papers.tables:
            if 'map-shuffle' not in table.columns:
                continue
            for row in table.rows:
                self.assertEqual(
                    table.get_number(row, 'TeraSort'),
                    table.get_number(row, 'map-shuffle')
                    + table.get_number(row, 'reduce-merge'),
                    (table.source, row),
                )

    def test_table_4s_throughput_is_data_over_terasort(self) -> None:
        seconds, throughput = (
            table for table in self.papers.tables if table.source == 'Table 4'
        )
        for row in seconds.rows:
            size = 1000 * float(row.removesuffix(' TB'))
            self.assertAlmostEqual(
                throughput.get_number(row, 'throughput'),
                size / seconds.get_number(row, 'TeraSort'),
                delta=0.0051,
            )

    def test_dells_steps(self) -> None:
        self.assertEqual(
            [5, -2, -13, -64, 22, 2, 15],
            [gain.gain for gain in self.papers.gains],
        )
        chain = self.papers.compute_dell_chain()
        self.assertEqual(
            ['Ceph', 'local storage', 'CPU pinning', 'disk pinning'],
            list(chain),
        )
        self.assertEqual(94, chain['disk pinning'])
        self.assertAlmostEqual(94 / 1.15 / 1.02 / 1.22, chain['Ceph'])


class Contradictions(testtools.TestCase):
    """Each is shown by the papers' own numbers."""

    def setUp(self) -> None:
        super().setUp()
        self.papers = paper_figures.load_figures()

    def less(self, source: str, row: str, than: str, column: str) -> float:
        paper = 'vsan' if 'section' in source else 'vsphere6'
        table = self.papers.find_table(paper, source)
        return 100 * (
            1 - table.get_number(row, column) / table.get_number(than, column)
        )

    def test_28_percent_are_30(self) -> None:
        best = max(
            self.less('Table 2', row, '1 VM', 'map-shuffle')
            for row in ('2 VMs', '4 VMs', '10 VMs', '20 VMs')
        )
        self.assertEqual(30, round(best))

    def test_capacity_tier_is_not_constant(self) -> None:
        table = self.papers.find_table('vsan', 'Table 7')
        self.assertEqual(
            [14, 12, 12],
            [table.get_number(row, 'capacity') for row in table.rows],
        )

    def test_vsans_own_percentages_fit(self) -> None:
        self.assertEqual(
            [30, 34],
            [
                int(
                    self.less(
                        'section 3.1, Figure 4',
                        '4 disk groups',
                        '2 disk groups',
                        'TeraSort',
                    )
                ),
                int(
                    self.less('section 3.4, Figure 7', 'on', 'off', 'TeraSort')
                ),
            ],
        )

    def test_both_are_noted(self) -> None:
        text = ' '.join(
            contradiction.finds for contradiction in self.papers.contradictions
        )
        self.assertIn('30 %', text)
        self.assertIn('14, 12 and 12 disks', text)


class Form(testtools.TestCase):
    """Every figure says where it is from."""

    def test_every_entry_has_paper_source_and_statistic(self) -> None:
        papers = paper_figures.load_figures()
        for figure in (*papers.tables, *papers.gains, *papers.figures):
            self.assertTrue(figure.source and figure.statistic, figure)
        self.assertEqual(
            {'vsphere6', 'vsan', 'dell', 'hve', 'amd'},
            {
                figure.paper
                for figure in (*papers.tables, *papers.gains, *papers.figures)
            },
        )
        self.assertEqual(
            'best run',
            papers.tables[0].statistic[:8],
        )

    def test_every_row_has_a_value_for_each_column(self) -> None:
        for table in paper_figures.load_figures().tables:
            for name, row in table.rows.items():
                self.assertEqual(len(table.columns), len(row), name)

    def test_hves_tasks_add_up(self) -> None:
        table = paper_figures.load_figures().find_table('hve', 'Table 3')
        for row in table.rows.values():
            self.assertEqual(400, sum(value or 0 for value in row))
