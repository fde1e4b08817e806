# SPDX-License-Identifier: Apache-2.0
"""Test the HTML page of a report."""

import base64
import io
import json
import re
import tarfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack.report import build_page, hadoop_properties, html
from hvstack.report.chart_base import Chart
from hvstack.report.provenance import DERIVED_NOTE
from hvstack.report.sweep_report import build_report
from hvstack.results import record
from hvstack.results.record_data import RunRecord
from tests.unit.report.test_report import OOM, sweep
from tests.unit.results import factory
from tests.unit.results.factory import run

EVIL = '<script>alert(1)</script>'


class Page(HTMLParser):
    """Collects what a page holds."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.attributes: dict[str, list[str]] = {}
        self.text = ''
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(
        self, tag: str, attrs: list[tuple[str, str | None]]
    ) -> None:
        self.tags.append(tag)
        if tag == 'script':
            self.scripts.append('')
        for name, value in attrs:
            self.attributes.setdefault(name, []).append(value or '')
        self.links += [v or '' for k, v in attrs if k in ('src', 'href')]

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == 'script':
            self.scripts[-1] += data
        else:
            self.text += data

    @property
    def charts(self) -> dict[str, Any]:
        """The charts that the page's script draws."""
        charts = json.loads(self.scripts[0])
        assert isinstance(charts, dict)
        return charts


def counted(record_: RunRecord, **counters: int) -> RunRecord:
    """Give a record's HSSort counters of a clean run, then these."""
    defaults = {
        'DATA_LOCAL_MAPS': 4,
        'RACK_LOCAL_MAPS': 2,
        'MAP_OUTPUT_RECORDS': 100,
        'MAP.SPILLED_RECORDS': 100,
        'SPILLED_RECORDS': 200,
        'REDUCE_INPUT_RECORDS': 100,
        'HDFS_BYTES_WRITTEN': record_.size_bytes,
    }
    phases = factory.stored_phases(record_)
    for phase in phases:
        if phase['name'] in ('HSGen', 'HSSort'):
            phase['counters'] = defaults | counters
        if phase['name'] == 'HSSort':
            phase['map_shuffle_seconds'] = 0.6 * phase['seconds']
            phase['reduce_merge_seconds'] = 0.3 * phase['seconds']
    return factory.edit(record_, 'phases', phases)


class PageTest(testtools.TestCase):
    """What a page holds."""

    def page(self, *records: RunRecord) -> Page:
        return Page(build_page(build_report(list(records))))

    def test_offline_and_alone(self) -> None:
        text = build_page(build_report(sweep()))
        page = Page(text)
        outside = [
            link for link in page.links if not link.startswith(('#', 'data:'))
        ]
        self.assertEqual([], outside)
        self.assertIn("default-src 'none'", text)
        self.assertLess(len(text), 10_000_000)

    def test_answer_comes_first(self) -> None:
        page = self.page(*sweep())
        text = page.text
        self.assertLess(
            text.index('i1 is best: 99.6 %'), text.index('Search path')
        )
        for fragment in (DERIVED_NOTE, 'lxc', 'Scale model', 'slower'):
            self.assertIn(fragment, text)

    def test_every_run_is_a_point(self) -> None:
        points = self.page(*sweep()).charts['instances']['data'][0]
        self.assertEqual(['1', '1', '2', '2'], points['x'])
        self.assertEqual(4, len(set(points['y'])))

    def test_every_chart_has_its_table(self) -> None:
        records = [counted(record_) for record_ in sweep()]
        page = self.page(*records)
        self.assertEqual(
            {'percent', 'way', 'gains', 'instances', 'phases', 'locality'},
            set(page.charts),
        )
        for name in page.charts:
            self.assertIn(f'chart-{name}', page.attributes['id'])
        text = build_page(build_report(records))
        for name in page.charts:
            section = re.search(
                f'<section id="{name}">.*?</section>', text, re.S
            )
            assert section
            self.assertIn('<table>', section[0])

    def test_what_is_not_drawn_is_listed_once(self) -> None:
        page = self.page(*sweep())
        self.assertIn('Storage: only local has runs', page.text)
        self.assertNotIn('storage', page.attributes['id'])

    def test_parameters_that_are_no_defaults(self) -> None:
        records = sweep()
        for index, record_ in enumerate(records):
            size = '2' if record_.configuration.startswith('i1-') else '1'
            parameters = {
                'namenode': {'dfs.blocksize': '64', EVIL: 'x'},
                'job': {'dfs.blocksize': '64', 'io.sort.mb': size},
                'unread': ['datanode: no answer'],
            }
            records[index] = factory.tell(record_, parameters=parameters)
        page_report = build_report(records)
        properties = {
            (property_value.name, property_value.value): (
                property_value.daemons,
                property_value.rows,
            )
            for property_value in hadoop_properties.list_property_values(
                page_report
            )
        }
        self.assertEqual(
            {
                (EVIL, 'x'): (('namenode',), ()),
                ('dfs.blocksize', '64'): (('namenode', 'job'), ()),
                ('io.sort.mb', '1'): (
                    ('job',),
                    ('bare metal', 'i2', 'i2-m1.2'),
                ),
                ('io.sort.mb', '2'): (('job',), ('i1',)),
            },
            properties,
        )
        text = self.page(*records).text
        self.assertIn('are not its defaults (4 values)', text)
        self.assertIn('i1: datanode: no answer', text)

    def test_parameters_of_some_runs(self) -> None:
        unread = hadoop_properties.list_unread(build_report(sweep()))
        self.assertIn('i1: its runs tell no parameters', unread)

    def test_papers_are_told_apart(self) -> None:
        page = self.page(*sweep())
        traces = [
            trace for chart in page.charts.values() for trace in chart['data']
        ]
        papers = [
            trace for trace in traces if 'Paper' in trace.get('name', '')
        ]
        self.assertEqual(5, len(papers))
        for trace in papers:
            self.assertIn('not measured', trace['name'])
            self.assertEqual('diamond-open', trace['marker']['symbol'])
        self.assertEqual(
            [90.9, 104.2], [round(value, 1) for value in papers[0]['x']]
        )

    def test_phases_against_bare_metal(self) -> None:
        page = self.page(
            counted(run('bare-metal', 0, 100)), counted(run('i1', 0, 110))
        )
        bar = page.charts['phases']['data'][0]
        self.assertEqual(
            [
                'HSGen',
                'HSDataCheck',
                'HSSort',
                'map-shuffle',
                'reduce-merge',
                'HSDataCheck 2',
                'HSValidate',
            ],
            bar['y'][0],
        )
        self.assertEqual([1.1] * 7, [round(ratio, 3) for ratio in bar['x']])

    def test_script_in_a_name_is_harmless(self) -> None:
        records = [
            run('bare-metal', 0, 100, cpu_model=EVIL),
            run('i1', 0, 110, cpu_model=EVIL, observations={EVIL: EVIL}),
            run('i2', 0, 40, reason=OOM),
        ]
        page_report = build_report(records)
        # A record cannot have such a sweep.
        page_report.sweep = EVIL
        text = html.build_page(page_report)
        self.assertNotIn(EVIL, text)
        self.assertIn(EVIL, Page(text).text)
        self.assertIn(OOM, Page(text).text)
        self.assertEqual(3, Page(text).tags.count('script'))

    def test_no_text_ends_a_charts_data(self) -> None:
        trace = {'name': '</script><script>alert(1)</script>'}
        data = html.build_script_data([Chart('a', 'a', '', [trace])])
        self.assertNotIn('<', data)
        self.assertEqual([trace], json.loads(data)['a']['data'])

    def test_records_come_out_as_they_went_in(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        for record_ in sweep():
            factory.save(record_, directory / 'in')
        before = record.load_all(directory / 'in')
        page = Page(build_page(build_report(before)))
        packed = next(
            link.partition('base64,')[2]
            for link in page.links
            if 'x-xz' in link
        )
        with tarfile.open(fileobj=io.BytesIO(base64.b64decode(packed))) as tar:
            tar.extractall(directory / 'out')
        after = record.load_all(directory / 'out' / 'records')
        self.assertEqual(before, after)
        self.assertIn(before[0].digest, page.text)

    def test_same_records_make_the_same_page(self) -> None:
        records = sweep()
        self.assertEqual(
            build_page(build_report(records)),
            build_page(build_report(records)),
        )


class NotDrawn(testtools.TestCase):
    """A page says what it could not draw, and why."""

    def test_no_telemetry(self) -> None:
        text = Page(build_page(build_report(sweep()))).text
        self.assertIn('the records hold no telemetry', text)
        self.assertIn('bare metal: run 2 holds no single tasks', text)
        self.assertIn('bare metal: no valid run has counters', text)

    def test_a_parameter_with_one_value(self) -> None:
        page = Page(build_page(build_report(sweep())))
        self.assertNotIn('storage', page.charts)
        self.assertIn('only local has runs with a percentage', page.text)

    def test_without_a_baseline(self) -> None:
        records = [
            record_ for record_ in sweep() if record_.kind == 'configuration'
        ]
        page = Page(build_page(build_report(records)))
        self.assertEqual({}, page.charts)
        self.assertIn('i1: no baseline', page.text)

    def test_one_run(self) -> None:
        page = Page(build_page(build_report([run('i1', 0, 100)])))
        self.assertEqual({}, page.charts)

    def test_one_run_each(self) -> None:
        page = Page(
            build_page(
                build_report([run('bare-metal', 0, 9), run('i1', 0, 9)])
            )
        )
        self.assertIn('too few runs for an interval', page.text)
        bars = page.charts['percent']['data'][0]['error_x']
        self.assertEqual([None, None], bars['array'])

    def test_all_invalid(self) -> None:
        page = Page(
            build_page(build_report([run('i1', 0, 9, reason='no space left')]))
        )
        self.assertEqual({}, page.charts)
        self.assertIn('no space left', page.text)

    def test_left_out(self) -> None:
        page = Page(
            build_page(
                build_report(sweep(), ["x.json: 'digest' does not fit"])
            )
        )
        self.assertIn("Left out: x.json: 'digest' does not fit", page.text)

    def test_a_phase_without_its_parts_is_not_guessed(self) -> None:
        records = [counted(run('bare-metal', 0, 9)), run('i1', 0, 9)]
        bar = Page(build_page(build_report(records))).charts['phases']['data'][
            0
        ]
        self.assertIsNone(bar['x'][bar['y'][0].index('map-shuffle')])
