# SPDX-License-Identifier: Apache-2.0
"""The answer as CSV and as JUnit's XML."""

import csv
from xml.etree import ElementTree

import testtools

from hvstack.model.target import BARE_METAL
from hvstack.report import csv_junit, sweep_report
from hvstack.results.run_id import format_search_name
from tests.unit.results import factory

SKIPPED = [('i4-c4', 'a worker of 8 vCPUs is larger\nthan its host')]


class ExchangeTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.answer = sweep_report.build_report(
            [
                factory.run(BARE_METAL, 0, 50),
                factory.run(BARE_METAL, 1, 51),
                factory.run('i1', 0, 100),
                factory.run('i1', 1, 101),
                factory.run('i2', 0, 100, reason='the disk, <full>\x07'),
                factory.run('i2-c2', 0, 100, cpu_model='EPYC'),
            ]
        )

    def test_csv(self) -> None:
        text = csv_junit.format_csv(self.answer, SKIPPED)
        lines = [line for line in text.splitlines() if line[0] != '#']
        rows = {row['label']: row for row in csv.DictReader(lines)}
        self.assertEqual('2', rows['i1']['runs'])
        self.assertAlmostEqual(
            50.2, float(rows['i1']['percent_of_bare_metal']), delta=0.1
        )
        self.assertEqual('failed', rows['i2']['status'])
        self.assertEqual('', rows['i2']['low'])
        self.assertEqual('not comparable', rows['i2-c2']['status'])
        self.assertEqual('skipped', rows['i4-c4']['status'])
        self.assertEqual(
            'a worker of 8 vCPUs is larger than its host',
            rows['i4-c4']['reason'],
        )
        self.assertEqual({len(rows['i1'])}, set(map(len, rows.values())))
        self.assertIn('# These figures are derived from', text)

    def test_junit_of_a_search(self) -> None:
        answer = sweep_report.build_report(
            [factory.run('i1', 0, 100, sweep=format_search_name('s'))]
        )
        suite = ElementTree.fromstring(csv_junit.format_junit(answer))
        self.assertEqual('0', suite.get('errors'))
        self.assertEqual(
            'search, no percentage', suite.findtext('testcase/system-out')
        )

    def test_junit(self) -> None:
        suite = ElementTree.fromstring(
            csv_junit.format_junit(self.answer, SKIPPED)
        )
        cases = {case.get('name'): case for case in suite.iter('testcase')}
        self.assertEqual(str(len(cases)), suite.get('tests'))
        self.assertEqual(
            ('1', '1', '1'),
            tuple(
                suite.get(name) for name in ('failures', 'errors', 'skipped')
            ),
        )
        self.assertIsNone(cases['i1'].find('failure'))
        failure = cases['i2'].find('failure')
        assert failure is not None
        self.assertIn('<full>', str(failure.get('message')))
        self.assertIsNotNone(cases['i2-c2'].find('error'))
        self.assertIsNotNone(cases['i4-c4'].find('skipped'))
        self.assertIn('not comparable', str(suite.findtext('system-out')))
        self.assertIn(
            '% of bare metal', str(cases['i1'].findtext('system-out'))
        )
