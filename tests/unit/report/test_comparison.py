# SPDX-License-Identifier: Apache-2.0
"""Test the comparison of two sweeps."""

import json
import math

import testtools

from hvstack import errors
from hvstack.report import comparison, format_comparison
from hvstack.report.comparison import Comparison
from hvstack.report.sweep_report import build_report
from hvstack.results import run_id
from hvstack.results.record_data import RunRecord
from tests.unit.report.test_page import Page
from tests.unit.results.factory import run


def runs(sweep: str, i1: float, **environment: object) -> list[RunRecord]:
    """Return two runs on bare metal and two of i1, one per cent apart."""
    return [
        run(name, index, seconds * (1 + index / 100), sweep=sweep, **facts)
        for name, seconds, facts in (
            ('bare-metal', 100.0, {}),
            ('i1', i1, environment),
        )
        for index in (0, 1)
    ]


def both(
    before: list[RunRecord], after: list[RunRecord], *changed: str
) -> Comparison:
    return comparison.build_comparison(
        build_report(before),
        build_report(after),
        changed,
    )


class Compare(testtools.TestCase):
    """Two sweeps with the statistics and refusals of one."""

    def test_after_in_percent_of_before(self) -> None:
        base, i1 = both(runs('a', 120), runs('b', 100)).deltas
        self.assertEqual(
            ('no difference', 'faster'), (base.verdict, i1.verdict)
        )
        assert i1.percent and i1.percent.low and i1.percent.high
        self.assertAlmostEqual(120, i1.percent.percent)
        self.assertEqual(4, i1.percent.degrees_of_freedom)
        # Four rows with a pair each, one per cent apart: by hand. Two rows
        # are compared, each at 97.5 %.
        half = 3.4954059 * math.log(1.01) / math.sqrt(2)
        self.assertAlmostEqual(120 * math.exp(half), i1.percent.high, 4)

    def test_the_same_baseline(self) -> None:
        """It is no second measurement."""
        before, after = runs('a', 120), runs('b', 100)
        base, i1 = both(before, before[:2] + after[2:]).deltas
        self.assertEqual('not compared', base.verdict)
        assert i1.percent
        self.assertEqual(2, i1.percent.degrees_of_freedom)

    def test_a_single_row(self) -> None:
        before = [r for r in runs('a', 120) if r.kind == 'configuration']
        after = [r for r in runs('b', 100) if r.kind == 'configuration']
        (i1,) = both(before, after).deltas
        assert i1.percent and i1.percent.high
        half = 4.3026527 * math.log(1.01) / math.sqrt(2)
        self.assertAlmostEqual(120 * math.exp(half), i1.percent.high, 4)

    def test_emulated_cpus_are_not_compared(self) -> None:
        deltas = both(
            runs('a', 120, backend='qemu'), runs('b', 100, backend='qemu')
        ).deltas
        self.assertIsNone(deltas[1].percent)
        self.assertEqual('not compared', deltas[1].verdict)
        self.assertIn('emulated CPUs', deltas[1].reasons[0])

    def test_runs_of_a_search_are_not_compared(self) -> None:
        """A sweep that is still searching has no percentage."""
        search = run_id.format_search_name('b')
        after = [r for r in runs(search, 100) if r.kind == 'configuration']
        for sweeps, which in (
            ((runs('a', 120), after), 'later'),
            ((after, runs('a', 120)), 'earlier'),
        ):
            _, delta = sorted(both(*sweeps).deltas, key=lambda o: o.label)
            self.assertEqual('i1', delta.label)
            self.assertIsNone(delta.percent)
            self.assertIn(
                f'the {which} sweep has runs of its search', delta.reasons[0]
            )

    def test_a_changed_size_is_told(self) -> None:
        after = [run('bare-metal', 0, 200, size=2 * 10**9, sweep='b')]
        named = both(runs('a', 100), after, 'size_bytes')
        self.assertIsNotNone(named.deltas[0].percent)
        self.assertIn(
            'size_bytes: 1000000000 before, 2000000000 after.', named.notes
        )

    def test_a_mistyped_name_of_a_fact(self) -> None:
        error = self.assertRaises(
            errors.InputError, both, runs('a', 1), runs('b', 1), 'kernl'
        )
        self.assertIn("Cannot use --changed 'kernl'", str(error))

    def test_notes_name_their_sweep(self) -> None:
        after = [*runs('b', 100), run('i2', 1, 90, sweep='b')]
        notes = both(runs('a', 100), after).notes
        own = [note for note in notes if 'run 0 has no record' in note]
        self.assertEqual(1, len(own), notes)
        self.assertTrue(own[0].startswith('b: Missing: i2'), own)
        common = [note for note in notes if 'derived from' in note]
        self.assertEqual(1, len(common))
        self.assertTrue(common[0].startswith('These figures'))

    def test_what_changed_must_be_named(self) -> None:
        before, after = runs('a', 120), runs('b', 100, nova='35.0.0')
        refused = both(before, after).deltas[1]
        self.assertIsNone(refused.percent)
        self.assertEqual(
            ('not compared', 'not compared'), (refused.verdict, refused.kind)
        )
        self.assertIn(
            'nova is 35.0.0 here and 34.0.0 there', refused.reasons[0]
        )
        self.assertIn('--changed', refused.reasons[0])
        named = both(before, after, 'nova')
        self.assertEqual('faster', named.deltas[1].verdict)
        self.assertIn('nova: 34.0.0 before, 35.0.0 after.', named.notes)

    def test_another_size_is_refused(self) -> None:
        after = [run('bare-metal', 0, 9, size=2 * 10**9, sweep='b')]
        change = both(runs('a', 100), after).deltas[0]
        self.assertIn('size_bytes', change.reasons[0])

    def test_a_row_of_one_sweep_alone(self) -> None:
        after = [*runs('b', 100), run('i2', 0, 90, sweep='b')]
        change = both(runs('a', 100), after).deltas[2]
        self.assertEqual(
            ['the earlier sweep does not have it'], change.reasons
        )

    def test_no_valid_run(self) -> None:
        after = [run('i1', 0, 90, sweep='b', reason='no space')]
        change = both(runs('a', 100), after).deltas[1]
        self.assertEqual(
            ['the later sweep has no valid run of it'], change.reasons
        )

    def test_forms(self) -> None:
        reports = (
            build_report(runs('a', 120)),
            build_report(runs('b', 100)),
        )
        text = format_comparison(*reports)
        self.assertIn('b against a: 1 no difference, 1 faster of 2', text)
        data = json.loads(format_comparison(*reports, form='json'))
        self.assertEqual('faster', data['rows'][1]['verdict'])
        page = Page(format_comparison(*reports, form='html'))
        self.assertEqual({'after'}, set(page.charts))
        self.assertIn('1 faster', page.text)
