# SPDX-License-Identifier: Apache-2.0
"""Test the published figures of the papers."""

import itertools
import re
import runpy
import tempfile
from pathlib import Path

import testtools

from hvstack import errors
from hvstack.report import paper_figures
from tests.unit.report import derivations

ROOT = Path(__file__).parents[3]
PAGE = 'doc/source/reference/published.md'
#: Number of tables and figures of each paper.
SOURCES = {
    'vsphere6': (5, 6),
    'vsan': (7, 7),
    'hve': (3, 11),
    'amd': (0, 7),
}


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

    def test_every_number_has_its_own_description(self) -> None:
        """A derivation names a number by its paper and description."""
        names = [
            (figure.paper, figure.description)
            for figure in paper_figures.load_figures().all_figures
        ]
        self.assertEqual(sorted(set(names)), sorted(names))

    def test_every_table_and_figure_is_named(self) -> None:
        papers = paper_figures.load_figures()
        named = {
            (item.paper, f'{word} {number}')
            for item in (
                *papers.all_tables,
                *papers.all_figures,
                *papers.without_numbers,
            )
            for word, first, last in re.findall(
                r'(Table|Figure)s? (\d+)(?: to (\d+))?', item.source
            )
            for number in range(int(first), int(last or first) + 1)
        }
        self.assertEqual(
            {
                (paper, f'{word} {number}')
                for paper, counts in SOURCES.items()
                for word, count in zip(
                    ('Table', 'Figure'), counts, strict=True
                )
                for number in range(1, count + 1)
            },
            named,
        )

    def test_further_rows_have_a_value_for_each_column(self) -> None:
        for table in paper_figures.load_figures().further_tables:
            for name, row in table.rows.items():
                self.assertEqual(len(table.columns), len(row), name)

    def test_page_shows_what_a_sweep_can_be_compared_with(self) -> None:
        papers = paper_figures.load_figures()
        self.assertEqual(9, len(papers.tables))
        self.assertEqual(37, len(papers.figures))
        self.assertEqual(6, len(papers.contradictions))


class Derivations(testtools.TestCase):
    """Derived numbers are computed again from the other numbers."""

    def setUp(self) -> None:
        super().setUp()
        self.papers = paper_figures.load_figures()
        self.derived = list(derivations.list_derived(self.papers))

    def derive(
        self, printed: float, select: str, rule: str = 'less'
    ) -> derivations.Derived:
        """Return a number from the map-shuffle times of Table 2."""
        shuffle = [
            paper_figures.NumberReference(cell=('Table 2', row, 'map-shuffle'))
            for row in ('2 VMs', '4 VMs', '10 VMs', '20 VMs', '1 VM')
        ]
        figure = paper_figures.PublishedFigure(
            'vsphere6', '', '', 'number', '%', printed
        )
        return derivations.Derived(
            self.papers,
            figure,
            paper_figures.Derivation(
                rule, tuple(shuffle[:-1]), tuple(shuffle[-1:]), select
            ),
        )

    def test_numbers_fit_or_are_contradictions(self) -> None:
        self.assertEqual(
            {
                (contradiction.paper, contradiction.number)
                for contradiction in self.papers.all_contradictions
                if contradiction.number
            },
            {
                (number.item.paper, number.name)
                for number in self.derived
                if not number.fits()
            },
        )

    def test_all_kinds_of_numbers_are_derived(self) -> None:
        names = {number.name for number in self.derived}
        for name in (
            'Table 1, 4 VMs, map tasks',
            'Table 4, 3 TB, throughput',
            'section Single Replica, 20 VMs, average',
            'section CPU Utilization, 4 VMs, hosts',
            '4 VMs: more hosts that run workers than native and 1 VM',
            'Time of the previous paper over the current one, 8 TB',
            'XFS, agcount=1: drop in write throughput',
        ):
            self.assertIn(name, names)
        self.assertGreater(len(self.derived), 130)

    def test_rules_are_those_of_the_file(self) -> None:
        self.assertEqual(
            paper_figures.RULES,
            {*derivations.TOTALS, *derivations.COMPARISONS},
        )
        self.assertEqual(
            paper_figures.RULES,
            {number.derivation.rule for number in self.derived},
        )
        self.assertFalse(
            derivations.TOTALS.keys() & derivations.COMPARISONS.keys()
        )

    def test_other_numbers_do_not_fit(self) -> None:
        """20 VMs need 30.08 % less time, 2 VMs 21.3 %."""
        for printed, select, fits in (
            (30, 'most', True),
            (28, 'most', False),
            (31, 'most', False),
            (21, 'least', True),
            (22, 'least', False),
            (21, 'above', True),
            (22, 'above', False),
            (31, 'below', True),
            (30, 'below', False),
            (30, 'all', False),
        ):
            with self.subTest(printed=printed, select=select):
                self.assertEqual(fits, self.derive(printed, select).fits())

    def test_last_digit_counts(self) -> None:
        self.assertTrue(self.derive(30.1, 'most').fits())
        self.assertFalse(self.derive(30.2, 'most').fits())
        self.assertFalse(self.derive(30.1, 'most', 'more').fits())

    def test_reference_to_no_number(self) -> None:
        number = self.derive(30, 'most')
        for reference in (
            paper_figures.NumberReference('no such figure'),
            paper_figures.NumberReference(
                cell=('Table 2', '3 VMs', 'TeraGen')
            ),
            paper_figures.NumberReference(cell=('Table 9', '*', 'TeraGen')),
        ):
            self.assertRaises(KeyError, number.find, reference)


ENTRIES = """
papers:
  vsphere6: {title: a title, statistic: best run, system: 32 hosts}
tables:
  - paper: vsphere6
    source: Table 1
    description: Workers
    unit: nodes
    columns: [nodes, tasks]
    derived:
      - {column: tasks, rule: product, of: [nodes, [Table 1, 1 VM, nodes]]}
    rows:
      1 VM: [31, 961]
figures:
  - paper: vsphere6
    source: section Storage
    description: lower throughput
    range: [6, 9]
    unit: "%"
    derived: {rule: less, of: [[Table 1, "*", nodes]], select: above}
contradictions: []
"""


class Reading(testtools.TestCase):
    """Entries that are not valid are rejected with their place."""

    def read(self, old: str, new: str) -> paper_figures.PaperFigures:
        self.assertIn(old, ENTRIES)
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / 'figures.yaml'
            path.write_text(ENTRIES.replace(old, new, 1), encoding='utf-8')
            return paper_figures.read_figures(path)

    def assert_rejected(self, old: str, new: str, name: str) -> None:
        error = self.assertRaises(errors.InputError, self.read, old, new)
        self.assertIn('figures.yaml', str(error))
        self.assertIn(name, str(error))

    def test_entries(self) -> None:
        papers = self.read('', '')
        (figure,) = papers.all_figures
        self.assertEqual((6, 9), figure.bounds)
        self.assertIsNone(figure.value)
        (table,) = papers.all_tables
        (derivation,) = table.derived
        self.assertEqual(
            ('nodes', 'Table 1, 1 VM, nodes'), (*map(str, derivation.of),)
        )

    def test_value_is_both_bounds(self) -> None:
        (figure,) = self.read('range: [6, 9]', 'value: 7').figures
        self.assertEqual((7, 7), figure.bounds)

    def test_invalid_ranges(self) -> None:
        for text in (
            'range: [9, 6]',
            'range: [6]',
            'range: [6, 8, 9]',
            'range: [6, six]',
            'range: 6',
            'value: many',
            'value: true',
            'value: null',
            'note: none',
        ):
            with self.subTest(text=text):
                self.assert_rejected('range: [6, 9]', text, 'section Storage')
        self.assert_rejected(
            'range: [6, 9]', 'range: [6, 9]\n    value: 7', 'section Storage'
        )

    def test_invalid_derivations(self) -> None:
        self.assert_rejected('rule: less', 'rule: guess', 'guess')
        self.assert_rejected('select: above', 'select: some', 'some')
        for text in ('[Table 1, 1 VM]', '[Table 1, 1 VM, 3]', '7'):
            self.assert_rejected('[Table 1, 1 VM, nodes]', text, 'Table 1')

    def test_unknown_fields(self) -> None:
        for old in ('unit: "%"', 'unit: nodes'):
            self.assert_rejected(old, f'{old}\n    colour: red', 'colour')
        self.assert_rejected('select: above', 'part: above', 'part')


class Page(testtools.TestCase):
    """The reference page lists all numbers."""

    def setUp(self) -> None:
        super().setUp()
        self.text = (ROOT / PAGE).read_text(encoding='utf-8')

    def test_page_is_renewed(self) -> None:
        tool = runpy.run_path(str(ROOT / 'tools/publisheddoc.py'))
        self.assertTrue(
            tool['renewed'](self.text) == self.text,
            f'{PAGE} is old: run tools/publisheddoc.py {PAGE}',
        )

    def test_page_has_every_source(self) -> None:
        papers = paper_figures.load_figures()
        for item in itertools.chain(
            papers.all_tables,
            papers.gains,
            papers.all_figures,
            papers.without_numbers,
            papers.all_contradictions,
        ):
            self.assertIn(item.source, self.text)

    def test_page_explains_every_rule(self) -> None:
        prose = self.text.partition('<!--')[0]
        for rule in paper_figures.RULES:
            self.assertRegex(prose, rf'\b{rule}\b')
