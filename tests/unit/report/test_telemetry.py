# SPDX-License-Identifier: Apache-2.0
"""What the page shows of telemetry, and what it says it could not draw."""

import base64
import io
import json
import lzma
import re
import tarfile
from dataclasses import replace
from pathlib import Path
from random import Random
from unittest import mock

import fixtures
import testtools

from hvstack.report import build_page, html, node_chart, telemetry_charts
from hvstack.report.sweep_report import build_report
from hvstack.results import record, record_data, telemetry_files
from hvstack.results.file_run_store import FileRunStore
from hvstack.results.record_data import RunRecord
from hvstack.results.telemetry import NodeTelemetry, Telemetry
from tests.unit.report.test_findings import tasked
from tests.unit.report.test_page import Page, counted
from tests.unit.report.test_report import sweep
from tests.unit.results import factory

#: Samples of one node, and seconds between two.
COUNT, EVERY = 30, 5.0


def node(name: str, count: int = COUNT) -> NodeTelemetry:
    """Return a worker that uses half a core, then one and so on."""
    level = [0.5 if n % 2 else 1.0 for n in range(count)]
    rates: dict[str, list[float | None]] = {
        series: [*level]
        for series in ('cpu', 'rx', 'tx', 'rx_packets', 'tx_packets', 'swap')
    }
    disk: dict[str, list[float | None]] = {
        series: [*level] for series in ('read', 'write', 'busy')
    }
    return NodeTelemetry(
        name,
        'worker',
        'h',
        [EVERY * n for n in range(count + 1)],
        rates,
        {'7:0': disk},
    )


def build_telemetry(count: int = COUNT) -> Telemetry:
    """Return two workers' telemetry."""
    end = EVERY * count
    return Telemetry(
        'cgroup',
        EVERY,
        [('HSGen', 0.0, end / 2), ('HSSort', end / 2, end)],
        [node('w0', count), node('w1', count)],
    )


def with_nodes(record_: RunRecord, count: int) -> RunRecord:
    """Give a record's map tasks nodes; each is 1 MB/s faster than the last."""
    phases = factory.stored_phases(record_)
    for phase in phases:
        if phase['name'] in ('HSGen', 'HSSort'):
            phase['nodes'] = {
                f'w{n}': {
                    'maps': 2,
                    'map_seconds': 10,
                    'map_bytes': 10_000_000 * (n + 1),
                }
                for n in range(count)
            }
    return factory.edit(record_, 'phases', phases)


class PageTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.records = [counted(tasked(record_)) for record_ in sweep()]

    def saved(self, run_telemetry: Telemetry) -> None:
        for index, record_ in enumerate(self.records):
            if record_.valid:
                summary = telemetry_files.save(
                    run_telemetry, FileRunStore(self.directory), record_.id
                )
                record_ = factory.tell(record_, telemetry=summary)
            path = factory.save(record_, self.directory)
            self.records[index] = record_data.from_document(
                json.loads(path.read_text()), str(path)
            )

    def page(self, records: list[RunRecord] | None = None) -> Page:
        return Page(
            build_page(
                build_report(records or self.records),
                store=FileRunStore(self.directory),
            )
        )

    def test_drawn_with_tables(self) -> None:
        self.saved(build_telemetry())
        page = self.page()
        self.assertLessEqual(
            {'cpu', 'disk', 'network', 'nodes'}, set(page.charts)
        )
        self.assertNotIn('throttled', page.charts)
        first = page.charts['cpu']['data'][0]
        self.assertEqual([2.0, 1.0], first['y'][:2])
        self.assertEqual([2.5, 7.5], first['x'][:2])
        text = build_page(
            build_report(self.records), store=FileRunStore(self.directory)
        )
        for name in ('cpu', 'disk', 'network', 'nodes'):
            section = re.search(
                f'<section id="{name}">.*?</section>', text, re.S
            )
            assert section
            self.assertIn('<table>', section[0])
        self.assertIn('bare metal: run 2 has no such series', page.text)

    def test_many_samples_are_averaged_and_said(self) -> None:
        self.saved(build_telemetry(1200))
        page = self.page()
        first = page.charts['cpu']['data'][0]
        self.assertEqual(240, len(first['y']))
        self.assertEqual(1.6, first['y'][0])
        self.assertIn('a point is the mean of 25 s', page.text)

    def test_missing_samples_are_not_drawn(self) -> None:
        run_telemetry = build_telemetry()
        run_telemetry.nodes[1].rates['cpu'][3] = None
        width, values = telemetry_charts.sample_series(
            run_telemetry, 'cpu'
        ) or (0, [])
        self.assertEqual(EVERY, width)
        self.assertEqual([2.0, 1.0, 2.0, None, 2.0], values[:5])

    def test_drawn_without_a_baseline(self) -> None:
        self.saved(build_telemetry())
        records = [self.records[1]]
        self.assertIn('cpu', self.page(records).charts)

    def test_one_file_is_missing(self) -> None:
        self.saved(build_telemetry())
        last = [
            record_
            for record_ in self.records
            if record_.configuration[:2] == 'i1'
        ]
        for record_ in last:
            assert record_.observations.telemetry
            (self.directory / record_.observations.telemetry.file).unlink()
        text = self.page().text
        self.assertIn(f'{last[0].id}.json): ', text)

    def test_edited_file(self) -> None:
        self.saved(build_telemetry())
        for path in (self.directory / telemetry_files.DIRECTORY).iterdir():
            path.write_text('{}')
        page = self.page()
        self.assertNotIn('cpu', page.charts)
        self.assertIn("'sha256' of the record", page.text)

    def test_files_of_drawn_runs_are_packed(self) -> None:
        self.records = sweep()
        self.saved(build_telemetry())
        packed = next(
            link.partition('base64,')[2]
            for link in self.page().links
            if 'x-xz' in link
        )
        with tarfile.open(fileobj=io.BytesIO(base64.b64decode(packed))) as tar:
            tar.extractall(self.directory / 'out')
        out = self.directory / 'out' / 'records'
        files = {
            path.stem for path in (out / telemetry_files.DIRECTORY).iterdir()
        }
        again = [
            record_ for record_ in record.load_all(out) if record_.id in files
        ]
        self.assertEqual(3, len(again))
        for record_ in again:
            self.assertEqual(
                build_telemetry(),
                telemetry_files.load(record_, FileRunStore(out)),
            )

    def test_locality_of_single_tasks(self) -> None:
        for index, record_ in enumerate(self.records):
            phases = factory.stored_phases(record_)
            for phase in phases:
                if phase['name'] == 'HSSort':
                    phase['locality'] = {
                        'node': 3,
                        'node_group': 1,
                        'rack': 0,
                        'off_rack': 1,
                    }
            self.records[index] = factory.edit(record_, 'phases', phases)
        bars = self.page().charts['locality']['data']
        self.assertEqual(4, len(bars))
        self.assertEqual([60, 20, 0, 20], [bar['x'][0] for bar in bars])

    def test_samples_of_drawn_runs_do_not_stay_in_memory(self) -> None:
        """Those of four runs of 640 nodes would need gigabytes."""
        sizes = []
        for count in (2, 20):
            run_telemetry = replace(
                build_telemetry(), nodes=[node(f'w{n}') for n in range(count)]
            )
            self.saved(run_telemetry)
            runs, _ = telemetry_charts.select_runs(
                build_report(self.records),
                FileRunStore(self.directory),
            )
            self.assertEqual(3, len(runs))
            for run in runs:
                values = vars(run).values()
                self.assertFalse(
                    [value for value in values if isinstance(value, Telemetry)]
                )
            sizes.append(len(json.dumps([run.lines for run in runs])))
        self.assertLess(sizes[1], 1.5 * sizes[0])

    def test_compression_ends_at_the_limit(self) -> None:
        """The file of 640 nodes has 60 MB, and the page 2.5 MB for it."""
        random = Random(1)
        text = ''.join(random.choices('0123456789', k=400_000))
        with mock.patch.object(html, '_CHUNK', 10_000):
            whole = html.measure_compressed(text, 10**6)
            size = html.measure_compressed(text, 100_000)
        self.assertEqual(len(lzma.compress(text.encode(), preset=1)), whole)
        self.assertLess(100_000, size)
        self.assertLess(size, whole)

    def test_nodes_of_a_large_report(self) -> None:
        """From 41 nodes on percentiles, from 401 on also in the table."""
        for count, row_count in ((20, 40), (200, 400), (201, 30)):
            records = [
                with_nodes(record_, count)
                for record_ in (
                    factory.run('bare-metal', 0, 9),
                    self.records[1],
                )
            ]
            built = build_report(records)
            chart = node_chart.build_chart(built)
            points = chart.traces[0]
            self.assertEqual(row_count, len(chart.rows))
            if count == 20:
                self.assertEqual([], chart.missing)
                self.assertEqual(40, len(points['y']))
                continue
            labels = [row.label for row in built.rows]
            self.assertEqual(labels, points['y'])
            low, high = (
                round(share * (count - 1)) + 1 for share in (0.05, 0.95)
            )
            median = round(0.5 * (count - 1)) + 1
            self.assertEqual([median] * 2, points['x'])
            self.assertEqual([high - median] * 2, points['error_x']['array'])
            self.assertEqual(
                [median - low] * 2, points['error_x']['arrayminus']
            )
            self.assertIn(f'the report has {2 * count}.', chart.missing[0])
            size = len(json.dumps([chart.traces, chart.rows]))
            self.assertLess(size, 200 * row_count + 2000)
        self.assertEqual(
            [
                'least (201 nodes)',
                '5 % of nodes below (201 nodes)',
                'median (201 nodes)',
                '95 % of nodes below (201 nodes)',
                'greatest (201 nodes)',
                *(f'w{n}' for n in range(10)),
            ],
            [row[1] for row in chart.rows[:15]],
        )
        self.assertEqual(
            (labels[0], *('median (201 nodes)', '2', '101.00')),
            chart.rows[2][:4],
        )

    def test_nodes(self) -> None:
        points = self.page().charts['nodes']['data'][0]
        self.assertEqual('HSGen&#39;s maps', points['name'])
        self.assertEqual('bare metal: w0', points['y'][0])
        self.assertEqual(1.0, points['x'][0])
