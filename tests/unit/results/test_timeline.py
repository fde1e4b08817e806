# SPDX-License-Identifier: Apache-2.0
"""Timelines account for the time of a sweep, each second once."""

import json
from pathlib import Path
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
