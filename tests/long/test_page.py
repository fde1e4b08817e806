# SPDX-License-Identifier: Apache-2.0
"""The pages in a browser: no error, no request, charts and tables there."""

import json
import os
import re
from pathlib import Path

import fixtures
import testtools

from hvstack import processutils
from hvstack.lab import packages
from hvstack.report import build_page, format_comparison
from hvstack.report.sweep_report import build_report
from hvstack.results import telemetry_files
from hvstack.results.file_run_store import FileRunStore
from hvstack.results.record_data import RunRecord
from tests.unit.report.test_findings import tasked
from tests.unit.report.test_page import EVIL, Page, counted
from tests.unit.report.test_report import sweep
from tests.unit.report.test_telemetry import build_telemetry
from tests.unit.results import factory
from tests.unit.results.factory import run

#: Chromium without what it fetches for itself.
CHROMIUM = (
    'chromium',
    *('--headless', '--no-sandbox', '--disable-gpu', '--no-first-run'),
    *('--disable-background-networking', '--disable-component-update'),
    *('--disable-sync', '--disable-default-apps', '--disable-extensions'),
    '--host-resolver-rules=MAP * ~NOTFOUND',
    *('--enable-logging=stderr', '--virtual-time-budget=20000'),
)


#: Who starts what Chromium fetches for itself.
NO_ORIGIN = 'not an origin'


class BrowserTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        if not os.environ.get('HVSTACK_LAB'):
            self.skipTest('installs chromium with apt (make test-long)')
        packages.install(['chromium'])
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)

    def opened(self, text: str) -> tuple[str, list[str], list[str]]:
        """Return a page's elements, its console, and what it fetched."""
        path = self.directory / 'page.html'
        path.write_text(text)
        log = self.directory / 'net.json'
        done = processutils.run(
            [
                *CHROMIUM,
                f'--user-data-dir={self.directory / "profile"}',
                f'--log-net-log={log}',
                '--dump-dom',
                path.as_uri(),
            ],
            timeout=300,
        )
        console = [
            line for line in done.stderr.splitlines() if 'CONSOLE' in line
        ]
        # Chromium asks for things of its own; those have no origin.
        fetched = [
            event['params']['url']
            for event in json.loads(log.read_text())['events']
            if event.get('params', {}).get('initiator', NO_ORIGIN) != NO_ORIGIN
            and not event['params']['url'].startswith(('file:', 'data:'))
        ]
        return done.stdout, console, fetched

    def assert_drawn(self, text: str, charts: int) -> str:
        page = Page(text)
        self.assertEqual(charts, len(page.charts))
        elements, console, fetched = self.opened(text)
        self.assertEqual([], console)
        self.assertEqual([], fetched)
        rendered_page = Page(elements)
        for name in page.charts:
            self.assertIn(f'chart-{name}', rendered_page.attributes['id'])
        self.assertEqual(
            charts,
            sum(
                'js-plotly-plot' in css_class.split()
                for css_class in rendered_page.attributes['class']
            ),
        )
        self.assertEqual(
            page.tags.count('table'), rendered_page.tags.count('table')
        )
        self.assertGreaterEqual(page.tags.count('table'), charts)
        return elements

    def test_what_is_wrong_is_seen(self) -> None:
        _, console, fetched = self.opened(
            '<img src="http://elsewhere.example/x.png">'
            '<script>undefined.x</script>'
        )
        self.assertEqual(['http://elsewhere.example/x.png'], [*set(fetched)])
        self.assertIn('TypeError', ' '.join(console))

    def test_page(self) -> None:
        records = [counted(run_record) for run_record in sweep()]
        elements = self.assert_drawn(build_page(build_report(records)), 6)
        points = re.findall(r'<path class="point', elements)
        self.assertGreater(len(points), 20)

    def test_telemetry(self) -> None:
        records = [tasked(counted(run_record)) for run_record in sweep()]
        for index, run_record in enumerate(records):
            if run_record.valid:
                summary = telemetry_files.save(
                    build_telemetry(),
                    FileRunStore(self.directory),
                    run_record.id,
                )
                records[index] = factory.tell(run_record, telemetry=summary)
        self.assert_drawn(
            build_page(
                build_report(records), store=FileRunStore(self.directory)
            ),
            10,
        )

    def test_script_in_a_name(self) -> None:
        records: list[RunRecord] = [
            counted(run(name, 0, 100, cpu_model=EVIL))
            for name in ('bare-metal', 'i1')
        ]
        elements = self.assert_drawn(build_page(build_report(records)), 4)
        self.assertNotIn(EVIL, elements)
        self.assertIn('&lt;script&gt;alert(1)', elements)

    def test_two_sweeps(self) -> None:
        first = build_report([run('i1', 0, 90, sweep='a')])
        second = build_report([run('i1', 0, 100, sweep='b')])
        self.assert_drawn(format_comparison(first, second, form='html'), 1)
