# SPDX-License-Identifier: Apache-2.0
"""Timelines account for the time of a sweep, each second once."""

import json
from pathlib import Path
from typing import Any
from unittest import mock

import fixtures
import testtools

from hvstack.report import html, sweep_report
from hvstack.results import record, timeline
from hvstack.results.file_run_store import FileRunStore
from hvstack.results.timeline import Span, Timeline
from tests.unit.cli.runner import run_command
from tests.unit.results import factory


class TimelineTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.results.timeline.TIMELINES_DIR',
                self.directory / 'timelines',
            )
        )
        self.now = 0.0
        self.useFixture(
            fixtures.MockPatchObject(
                timeline.time, 'monotonic', side_effect=lambda: self.now
            )
        )

    def write(self) -> None:
        """Write the timeline of a run in a cluster."""
        with Timeline('mine').span(timeline.RALLY):
            self.now += 10
            inner = Timeline()
            # The sweep is not known before the first workload.
            with inner.span('creation of clusters'):
                self.now += 60
                inner.sweep = 'mine'
                with inner.span('start of Hadoop'):
                    self.now += 20
            with inner.span(timeline.RUN):
                self.now += 110
            self.now += 5

    def test_each_second_counts_once(self) -> None:
        self.write()
        spans = timeline.read_spans('mine')
        run = factory.run('i1', 0, 100.0, sweep='mine')
        summary = timeline.summarize(spans, [run])
        seconds = {
            share.name: round(share.seconds, 6) for share in summary.shares
        }
        phases = sum(phase.seconds for phase in run.phases)
        self.assertEqual(60, seconds['creation of clusters'])
        self.assertEqual(20, seconds['start of Hadoop'])
        self.assertEqual(round(110 - phases, 6), seconds[timeline.RUN])
        self.assertEqual(15, seconds[timeline.RALLY])
        self.assertEqual(205, round(summary.total_seconds, 6))
        self.assertEqual(
            round((205 - phases) / 205, 6), round(summary.outside_share, 6)
        )

    def test_a_failed_block_counts(self) -> None:
        def fail() -> None:
            with Timeline('mine').span('warm-up jobs'):
                self.now += 7
                raise ValueError

        self.assertRaises(ValueError, fail)
        (span,) = timeline.read_spans('mine')
        self.assertEqual(7, span.seconds)

    def test_incomplete_lines_are_left_out(self) -> None:
        self.write()
        path = timeline.TIMELINES_DIR / 'mine.jsonl'
        with path.open('a') as stream:
            stream.write('{"name": "war')
        self.assertEqual(4, len(timeline.read_spans('mine')))
        self.assertEqual([], timeline.read_spans('other'))

    def test_a_full_disk_stops_nothing(self) -> None:
        full = OSError(28, 'No space left on device')
        with (
            mock.patch.object(Path, 'open', side_effect=full),
            Timeline('mine').span('warm-up jobs'),
        ):
            self.now += 7
        self.assertEqual([], timeline.read_spans('mine'))

    def test_report(self) -> None:
        self.write()
        records = self.directory / 'records'
        records.mkdir()
        run = factory.run('i1', 0, 100.0, sweep='mine')
        record.save(run, records)
        arguments = ['mine', '--records', str(records), '--timeline']
        status, output, error = run_command('report', *arguments)
        self.assertEqual(0, status, error)
        self.assertIn('creation of clusters', output)
        self.assertIn('% of 205 s are outside', output)
        _, output, _ = run_command('report', *arguments, '-f', 'json')
        data = json.loads(output)
        self.assertEqual(205, round(data['total_seconds']))
        self.assertEqual(2, run_command('report', 'mine', *arguments)[0])
        built = sweep_report.build_report([run])
        page = html.build_page(built, FileRunStore(records))
        self.assertIn('Where the time went', page)

    def report(
        self, sizes: dict[int, float], other: dict[int, float], **facts: Any
    ) -> tuple[list[str], dict[str, Any]]:
        """Return the last lines of the timeline, and its formula.

        :param sizes: seconds of a run on bare metal by size in MB, in the
            sweep; i1 takes 100 s with 400 MB.
        :param other: the same in another sweep.
        :param facts: facts of the other sweep.
        """
        records = Path(self.useFixture(fixtures.TempDir()).path)
        for sweep, seconds_by_size in (('mine', sizes), ('other', other)):
            for index, (size, seconds) in enumerate(seconds_by_size.items()):
                run = factory.run(
                    *('bare-metal', index, seconds),
                    size=size * 10**6,
                    sweep=sweep,
                    **(facts if sweep == 'other' else {}),
                )
                factory.save(run, records)
        run = factory.run('i1', 0, 100.0, sweep='mine', size=400 * 10**6)
        factory.save(run, records)
        arguments = ['mine', '--records', str(records), '--timeline']
        status, output, error = run_command('report', *arguments)
        self.assertEqual(0, status, error)
        _, data, _ = run_command('report', *arguments, '-f', 'json')
        return output.splitlines()[-2:], json.loads(data)['growth']

    def test_share_outside_at_other_sizes(self) -> None:
        with Timeline('mine').span(timeline.RALLY):
            self.now += 500
        # 3 runs, 260 s in phases; 40 s of 80 s on bare metal do not grow.
        lines, data = self.report({400: 80.0, 200: 60.0}, {})
        outside = (500 - 240) / 3
        phases = 90.0
        self.assertEqual(
            [
                'The share outside of the phases is 49.1 % at 400 MB; 15 % '
                'from about 4 GB; 0.077 % at 1 TB.',
                'It assumes that the 87 s outside of the phases of a run do '
                'not grow with the data, and that its phases take 45 s + '
                '112.5 s x GB, by runs on bare metal with 200 MB and 400 MB.',
            ],
            lines,
        )
        self.assertAlmostEqual(outside, data['outside_seconds'])
        self.assertEqual([200 * 10**6, 400 * 10**6], data['measured_bytes'])
        self.assertAlmostEqual(outside / (outside + phases), data['share'])
        size = data['bytes_at_15_percent']
        self.assertAlmostEqual(
            0.15, outside / (outside + 45 + 45 * size / (400 * 10**6))
        )

    def test_second_size_of_another_sweep(self) -> None:
        with Timeline('mine').span(timeline.RALLY):
            self.now += 500
        lines, data = self.report({400: 80.0}, {800: 120.0, 1600: 200.0})
        # The size that is the farthest away.
        self.assertIn('with 400 MB and 1.6 GB', lines[1])
        self.assertAlmostEqual(45, data['fixed_seconds'])

    def test_one_size(self) -> None:
        with Timeline('mine').span(timeline.RALLY):
            self.now += 500
        for sizes, other, facts in (
            ({400: 80.0}, {}, {}),
            ({}, {800: 120.0}, {}),
            # Other hosts, and a line with a negative part.
            ({400: 80.0}, {800: 120.0}, {'cpu_model': 'Epyc'}),
            ({400: 80.0, 200: 30.0}, {}, {}),
        ):
            lines, data = self.report(sizes, other, **facts)
            self.assertIn('the formula rests on one size', lines[1])
            self.assertEqual(0, data['fixed_seconds'])
            self.assertEqual([400 * 10**6], data['measured_bytes'])

    def test_phases_that_do_not_grow(self) -> None:
        with Timeline('mine').span(timeline.RALLY):
            self.now += 500
        lines, data = self.report({400: 80.0, 200: 80.0}, {})
        self.assertIn('; 15 % at no size; ', lines[0])
        self.assertIsNone(data['bytes_at_15_percent'])
        self.assertEqual(data['share'], data['share_at_1_tb'])

    def test_little_time_outside(self) -> None:
        with Timeline('mine').span(timeline.RALLY):
            self.now += 250
        lines, data = self.report({400: 80.0, 200: 60.0}, {})
        self.assertIn('; less than 15 % at any size; ', lines[0])
        self.assertEqual(0, data['bytes_at_15_percent'])

    def test_search_belongs_to_its_sweep(self) -> None:
        self.write()
        with Timeline('mine-search').span('warm-up jobs'):
            self.now += 30
        records = self.directory / 'records'
        records.mkdir()
        store = FileRunStore(records)
        summary = timeline.read_summary('mine', store)
        assert summary is not None
        names = [share.name for share in summary.shares]
        self.assertIn('warm-up jobs', names)
        self.assertIsNone(timeline.read_summary('other', store))

    def test_spans_have_a_form(self) -> None:
        self.write()
        first = timeline.read_spans('mine')[0]
        self.assertIsInstance(first, Span)
        self.assertEqual('start of Hadoop', first.name)
