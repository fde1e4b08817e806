# SPDX-License-Identifier: Apache-2.0
"""Test the tables of a report."""

import json
from html import unescape
from xml.etree import ElementTree

import testtools

from hvstack import errors
from hvstack.model.configuration import parse
from hvstack.report import (
    build_page,
    build_results,
    chart_base,
    csv_junit,
    format_details,
    format_table,
    formats,
    sweep_rows,
)
from hvstack.report.growth import Growth, compute_growth
from hvstack.report.provenance import DERIVED_NOTE, list_provenance_notes
from hvstack.report.sweep_report import build_report
from hvstack.results import run_id
from hvstack.results.decision import SearchDecision
from hvstack.results.record_data import RunRecord
from tests.unit.results import factory
from tests.unit.results.factory import run

OOM = 'OOM kill of java (pid 12) in hv-host2 <script>alert(1)</script>'


def sweep() -> list[RunRecord]:
    """Return a sweep as the lab leaves it."""
    times = [
        ('bare-metal', 0, 122.0, 10**9),
        ('i1', 0, 125.0, 10**9),
        ('i1', 1, 128.0, 10**9),
        ('bare-metal', 1, 130.0, 10**9),
        ('i2', 0, 155.0, 10**9),
        ('i2', 1, 158.0, 10**9),
        ('bare-metal', 2, 117.0, 10**9),
        ('bare-metal', 3, 200.0, 2 * 10**9),
    ]
    records = [
        run(
            name,
            index,
            seconds,
            size=size,
            started=f'2026-11-21T06:{minute:02d}:00Z',
            observations={'caps': {'hv-host2': {'cpu': 0.65}}}
            | ({} if name == 'bare-metal' else {'guest_vcpus': 1}),
        )
        for minute, (name, index, seconds, size) in enumerate(times)
    ]
    failed = run('i2-m1.2', 0, 40, reason=OOM, started='2026-11-21T07:00:00Z')
    return [*records, failed]


class Json(testtools.TestCase):
    """``results.json``."""

    def setUp(self) -> None:
        super().setUp()
        self.data = build_results(build_report(sweep()))
        self.rows = {row['label']: row for row in self.data['rows']}

    def test_is_json(self) -> None:
        json.dumps(self.data, allow_nan=False)

    def test_bare_metal_comes_first_at_100(self) -> None:
        first = self.data['rows'][0]
        self.assertEqual('bare metal', first['label'])
        self.assertEqual(100, first['percent_of_bare_metal']['percent'])
        self.assertEqual(3, first['runs'])

    def test_order_is_that_of_the_runs(self) -> None:
        self.assertEqual(
            ['bare metal', 'i1', 'i2', 'i2-m1.2'], list(self.rows)
        )

    def test_percent(self) -> None:
        percent = self.rows['i1']['percent_of_bare_metal']
        # The third run on bare metal is alone in its pass.
        geometric = (122 * 130) ** (1 / 2) / (125 * 128) ** (1 / 2)
        self.assertAlmostEqual(100 * geometric, percent['percent'])
        # 7 clusters, 3 rows and 3 passes.
        self.assertEqual(2, percent['degrees_of_freedom'])
        self.assertIn('not told apart', self.rows['i1']['verdict'])
        self.assertEqual('slower', self.rows['i2']['verdict'])

    def test_failed_row_has_its_evidence(self) -> None:
        row = self.rows['i2-m1.2']
        self.assertEqual(
            ('failed', 0, 1, [OOM], None),
            (
                row['status'],
                row['runs'],
                row['failed_runs'],
                row['reasons'],
                row['percent_of_bare_metal'],
            ),
        )

    def test_growth_of_doubled_data(self) -> None:
        growth = self.data['growth'][0]['phases']['HSSort']
        self.assertAlmostEqual(61.5, growth['seconds'][0])
        self.assertAlmostEqual(100, growth['seconds'][1])
        self.assertAlmostEqual(100 / 61.5, growth['ratio'])
        self.assertAlmostEqual(2 * 61.5 - 100, growth['fixed_seconds'])

    def test_growth_on_another_system(self) -> None:
        small = run('bare-metal', 0, 100)
        large = run('bare-metal', 1, 200, size=2 * 10**9, kernel='7.0')
        error = self.assertRaises(
            errors.NotComparableError, compute_growth, [small], [large]
        )
        self.assertIn('kernel', str(error))
        self.assertEqual(
            1, len(compute_growth([small], [large], allow=('kernel',)))
        )

    def test_no_line_through_runs_of_a_machine_that_changed(self) -> None:
        growth = Growth(
            1000,
            2000,
            {'HSGen': (56, 92), 'HSSort': (142, 313), 'HSValidate': (80, 70)},
        )
        self.assertEqual(
            [20, None, None],
            [growth.fixed_seconds(phase) for phase in growth.seconds],
        )

    def test_doubled_run_is_no_baseline(self) -> None:
        self.assertEqual(10**9, self.data['size_bytes'])
        self.assertEqual(3, len(self.data['rows'][0]['records']))

    def test_seconds_of_each_phase(self) -> None:
        self.assertAlmostEqual(
            0.5 * 126.5, self.rows['i1']['seconds']['HSSort']
        )
        self.assertAlmostEqual(126.5, self.rows['i1']['total_seconds'])

    def test_provenance(self) -> None:
        self.assertEqual(['lxc'], self.data['backends'])
        self.assertEqual('34.0.0', self.data['versions']['nova'])
        self.assertEqual('TPCx-HS-derived rate', self.data['rate_name'])
        self.assertTrue(
            any(DERIVED_NOTE in note for note in self.data['notes'])
        )
        self.assertEqual(
            {'hv-host2': {'cpu': 0.65}}, self.rows['i1']['seen']['caps']
        )


class Refusals(testtools.TestCase):
    """What cannot be compared gets no percent."""

    def test_no_records(self) -> None:
        self.assertRaises(errors.InputError, build_report, [])

    def test_bare_metal_that_disagrees_with_itself(self) -> None:
        records = [
            run('bare-metal', 0, 100),
            run('bare-metal', 1, 100, kernel='7.0'),
        ]
        exc = self.assertRaises(
            errors.NotComparableError, build_report, records
        )
        self.assertIn('kernel', str(exc))

    def test_another_environment(self) -> None:
        records = [*sweep(), run('i4', 0, 90, cpu_model='Opteron')]
        rows = build_results(build_report(records))['rows']
        row = next(row for row in rows if row['label'] == 'i4')
        self.assertEqual('not comparable', row['status'])
        self.assertIsNone(row['percent_of_bare_metal'])
        self.assertIn('cpu_model is Opteron', row['reasons'][0])
        self.assertIn(
            'cpu_model is Opteron', format_table(build_report(records))
        )

    def test_runs_of_a_search(self) -> None:
        """A search repeats the configurations that had high rates."""
        name = run_id.format_search_name('quick')
        records = [*sweep(), run('i4', 0, 90, sweep=name)]
        rows = build_results(build_report(records))['rows']
        row = next(row for row in rows if row['label'] == 'i4')
        self.assertEqual(
            (sweep_rows.SEARCH, None),
            (row['status'], row['percent_of_bare_metal']),
        )

    def test_a_failed_run_on_bare_metal_has_its_reason(self) -> None:
        failed = run('bare-metal', 7, 9, reason='no space')
        row = build_results(build_report([*sweep(), failed]))['rows'][0]
        self.assertEqual(
            ('ok', 1, ['no space']),
            (row['status'], row['failed_runs'], row['reasons']),
        )

    def test_two_releases_of_nova_among_configurations(self) -> None:
        records = [*sweep(), run('i4', 0, 90, nova='33.0.0')]
        rows = build_results(build_report(records))['rows']
        self.assertEqual(
            [('not comparable', 'i4')],
            [
                (row['status'], row['label'])
                for row in rows
                if row['status'] not in ('ok', 'failed')
            ],
        )

    def test_its_runs_do_not_widen_the_others_intervals(self) -> None:
        odd = [
            run('i4', index, seconds, cpu_model='Opteron')
            for index, seconds in enumerate((10, 500))
        ]
        self.assertEqual(
            build_results(build_report(sweep()))['pooled'],
            build_results(build_report([*sweep(), *odd]))['pooled'],
        )

    def test_history_has_one_size_of_data(self) -> None:
        """The last run on bare metal of a quick sweep is no row of it."""
        earlier, own = (
            [
                run(
                    *(name, index, 100 + 7 * (index % 2)),
                    size=size,
                    sweep=name_of_sweep,
                    started=f'2026-11-{day}T06:00:00Z',
                    # It is on the cluster of the run before.
                    observations={
                        'cluster': f'{name_of_sweep}-{name}-{min(index, 2)}',
                        'pass': min(index, 2),
                    },
                )
                for name, indexes, size in (
                    ('bare-metal', (0, 1, 2), 10**9),
                    ('i1', (0, 1, 2), 10**9),
                    ('bare-metal', (3,), 2 * 10**9),
                )
                for index in indexes
            ]
            for name_of_sweep, day in (('earlier', 20), ('own', 21))
        )
        histories = []
        for count in (6, 7):
            fit = build_report(
                own, history_records=[earlier[:count]]
            ).corrected_rates.fit
            assert fit
            histories.append(fit.history)
        self.assertEqual(2, histories[0].total.degrees)
        self.assertEqual(histories[0], histories[1])

    def test_no_baseline_yet(self) -> None:
        records = [
            record for record in sweep() if record.kind == 'configuration'
        ]
        rows = build_results(build_report(records))['rows']
        self.assertEqual('no baseline', rows[0]['status'])
        self.assertIsNone(rows[0]['percent_of_bare_metal'])

    def test_only_baseline(self) -> None:
        data = build_results(build_report([run('bare-metal', 0, 100)]))
        self.assertEqual('ok', data['rows'][0]['status'])
        self.assertIsNone(data['rows'][0]['percent_of_bare_metal']['low'])

    def test_storage_is_swept(self) -> None:
        records = [*sweep(), run('i2-ceph', 0, 90, storage='ceph')]
        rows = build_results(build_report(records))['rows']
        self.assertEqual('failed', rows.pop()['status'])
        self.assertEqual({'ok'}, {row['status'] for row in rows})

    def test_a_figure_names_the_way_to_its_volumes(self) -> None:
        pinned = [run('i2-pinned', n, 90 + n, storage='ceph') for n in (0, 1)]
        data = build_results(build_report([*sweep(), *pinned]))
        label = 'i2-pinned'
        (row,) = (
            candidate
            for candidate in data['rows']
            if candidate['label'] == label
        )
        self.assertEqual(
            ('ok', 'i2-pinned (ceph)'), (row['status'], row['title'])
        )
        self.assertIn('i2-pinned (ceph) is best', data['headline'])
        self.assertIn(
            'i2-pinned (ceph)  ',
            format_table(build_report([*sweep(), *pinned])),
        )
        # One of two ways is no figure; which one an older run had, who knows.
        for options, status in (
            ({'storage': 'iSCSI'}, 'not comparable'),
            ({}, 'ok'),
        ):
            other = run('i2-pinned', 2, 91, **options)
            rows = build_results(build_report([*sweep(), *pinned, other]))[
                'rows'
            ]
            (row,) = (
                candidate for candidate in rows if candidate['label'] == label
            )
            self.assertEqual(status, row['status'])

    def test_a_failed_run_beside_good_ones(self) -> None:
        records = [*sweep(), run('i1', 2, 9, reason='a worker went away')]
        rows = build_results(build_report(records))['rows']
        self.assertEqual(('ok', 2, 1), (*_counts(rows[1]),))
        self.assertIn(
            'a worker went away', format_details(build_report(records))
        )

    def test_too_few_runs(self) -> None:
        records = [run('bare-metal', 0, 100), run('i1', 0, 100)]
        rows = build_results(build_report(records))['rows']
        self.assertEqual('too few runs for an interval', rows[1]['verdict'])


class WideInterval(testtools.TestCase):
    """Two clusters on each side leave a single degree of freedom."""

    def setUp(self) -> None:
        super().setUp()
        self.records = [
            run(name, index, seconds)
            for name, *times in (('bare-metal', 100, 200), ('i1', 210, 110))
            for index, seconds in enumerate(times)
        ]
        self.row = build_results(build_report(self.records))['rows'][1]

    def test_the_data_has_the_bounds(self) -> None:
        percent = self.row['percent_of_bare_metal']
        self.assertEqual(1, percent['degrees_of_freedom'])
        self.assertGreater(percent['high'], 10**4)
        self.assertLess(percent['low'], 1)

    def test_text_and_page_have_none(self) -> None:
        high = f'{self.row["percent_of_bare_metal"]["high"]:.1f}'
        page = build_page(build_report(self.records))
        for text in (
            format_table(build_report(self.records)),
            format_details(build_report(self.records)),
            # The packed records and the script of Plotly are no text.
            page[: page.index('<script')],
        ):
            self.assertNotIn(high, text)
            self.assertNotIn('points)', text)
            self.assertIn(
                'i1 is best: 93.0 % of bare metal (too few runs for an '
                'interval, 2 against 2 clusters)',
                ' '.join(text.split()),
            )

    def test_other_cells(self) -> None:
        built = build_report(self.records)
        for row in built.rows:
            assert row.percent
            self.assertEqual('-', formats.format_interval(row.percent))
        bars = chart_base.build_error_bars(row.percent for row in built.rows)
        self.assertEqual([None, None], bars['array'])
        line = csv_junit.format_csv(built).splitlines()[2]
        percent = self.row['percent_of_bare_metal']['percent']
        self.assertIn(f',{percent:.6g},,,', line)

    def test_progress_says_why_the_first_percentage_has_none(self) -> None:
        too_few = 'too few runs for an interval'
        for names, text in (
            (('bare-metal', 'i1'), 'one run a side, no interval yet'),
            (('bare-metal', 'i1', 'i1'), too_few),
            (('bare-metal', 'i1', 'bare-metal'), too_few),
        ):
            records = [
                run(name, names[:index].count(name), 100)
                for index, name in enumerate(names)
            ]
            percent = build_report(records).rows[1].percent
            assert percent
            self.assertEqual(text, formats.describe_interim_interval(percent))
            # A report is not written while the sweep runs.
            self.assertEqual(too_few, formats.describe_interval(percent))

    def test_no_cause_is_named_and_has_bounds(self) -> None:
        data = build_results(build_report(self.records))['explanation']
        self.assertIn('too few clusters for an interval', data['sentence'])
        text = format_details(build_report(self.records))
        (line,) = [
            line for line in text.splitlines() if line.startswith('whole gap')
        ]
        self.assertEqual('-', line.split()[3])


class Emulated(testtools.TestCase):
    """Backend qemu has no percentage in any form; kvm has one."""

    def setUp(self) -> None:
        super().setUp()
        qemu = [
            run(
                *('i2', n, 900 + n),
                started='2026-11-21T09:00:00Z',
                backend='qemu',
            )
            for n in (0, 1)
        ]
        self.records = [*sweep()[:4], *qemu]
        self.answer = build_report(self.records)

    def test_row(self) -> None:
        _, valid_row, row = self.answer.rows
        self.assertEqual(
            ('ok', sweep_rows.EMULATED, None),
            (valid_row.status, row.status, row.percent),
        )
        # Nor do its runs make others odd, win, or widen intervals.
        self.assertEqual(build_report(sweep()[:4]).pooled, self.answer.pooled)
        for index in (1, 2):
            self.records[index] = factory.edit(
                self.records[index], 'environment/backend', 'kvm'
            )
        _, valid_row, _ = build_report(self.records).rows
        self.assertEqual('ok', valid_row.status)
        alone = [*self.records[:1], *self.records[-2:]]
        self.assertIn('emulated CPUs', build_report(alone).headline)
        self.assertIsNone(build_report(alone).choice)
        # A sweep of them alone measures no bare metal.
        self.assertIn(
            'emulated CPUs',
            build_report(self.records[-2:]).headline,
        )

    def test_each_form(self) -> None:
        data = build_results(build_report(self.records))
        self.assertEqual(
            'emulated, not compared',
            data['rows'][2]['percent_of_bare_metal'],
        )
        (line,) = [
            line
            for line in format_table(build_report(self.records)).splitlines()
            if line.startswith('i2 ')
        ]
        self.assertEqual(2, line.count('emulated, not compared'))
        (line,) = [
            line
            for line in csv_junit.format_csv(self.answer).splitlines()
            if line.startswith('i2-')
        ]
        self.assertIn(',2,0,"emulated, not compared",,,,', line)
        suite = ElementTree.fromstring(csv_junit.format_junit(self.answer))
        self.assertEqual('0', suite.get('errors'))
        (case,) = suite.iterfind("testcase[@name='i2']")
        self.assertEqual(
            [('system-out', 'emulated, not compared')],
            [(child.tag, child.text) for child in case],
        )
        page = build_page(build_report(self.records))
        self.assertIn('<td>emulated, not compared</td>', page)


def capped(cpu: float) -> dict[str, dict[str, float]]:
    """Return the caps of a lab with a host."""
    return {'hv-host2': {'cpu': cpu}}


class Allowed(testtools.TestCase):
    """``--allow``, drift, and who wins."""

    def sweep(self, *seconds: float, caps: float = 1.0) -> list[RunRecord]:
        """Return bare metal and two configurations, one an hour."""
        names = ['bare-metal', 'i1', 'i2'] * (len(seconds) // 3)
        return [
            run(
                name,
                hour // 3,
                time,
                started=f'2026-11-21T{hour:02d}:00:00Z',
                caps=capped(1.0 if name == 'bare-metal' else caps),
            )
            for hour, (name, time) in enumerate(
                zip(names, seconds, strict=True)
            )
        ]

    def test_two_replications_are_refused(self) -> None:
        records = [
            factory.edit(record, 'replication', 3)
            if record.configuration.startswith('i2-c1-m1-')
            else record
            for record in sweep()
        ]
        rows = build_results(build_report(records))['rows']
        row = next(row for row in rows if row['label'] == 'i2')
        self.assertEqual('not comparable', row['status'])
        self.assertIn('replication is 3 here and 2 there', row['reasons'])

    def test_a_difference_that_is_allowed_is_said(self) -> None:
        records = self.sweep(100, 101, 102, 100, 102, 101, caps=0.7)
        data = build_results(build_report(records))
        self.assertEqual('not comparable', data['rows'][1]['status'])
        data = build_results(build_report(records, allow=['caps']))
        self.assertEqual('ok', data['rows'][1]['status'])
        self.assertEqual(
            [f'caps is {capped(0.7)} here and {capped(1.0)} there'],
            data['allowed'],
        )
        text = ' '.join(
            format_table(build_report(records, allow=['caps'])).split()
        )
        self.assertIn(f'Allowed to differ: caps is {capped(0.7)} here', text)
        page = build_page(build_report(records, allow=['caps']))
        self.assertIn(f'caps is {capped(0.7)}', unescape(page))

    def test_tie_and_winner(self) -> None:
        text = format_table(
            build_report(self.sweep(100, 101, 100, 99, 100, 102))
        )
        self.assertIn('the cheapest, i1, is taken', ' '.join(text.split()))
        records = self.sweep(100, 151, 101, 99, 150, 100)
        self.assertIn('Winner: i2.', format_details(build_report(records)))
        choice = build_results(build_report(records))['choice']
        self.assertEqual('i2-c1-m1-local-shared-unpinned', choice['winner'])

    def test_drift(self) -> None:
        self.assertIn(
            'it takes 4 clusters',
            ' '.join(
                format_details(build_report(self.sweep(100, 101, 102))).split()
            ),
        )
        slower = [100 * 1.1**hour for hour in range(12)]
        for hour in (3, 5, 8):
            slower[hour] *= 1.01
        last = run(
            *('bare-metal', 4, 100 * 1.1**12),
            started='2026-11-21T12:00:00Z',
            caps=capped(1.0),
        )
        records = [*self.sweep(*slower), last]
        data = build_results(build_report(records))
        self.assertTrue(data['drift']['applied'])
        self.assertAlmostEqual(
            -100 / 11, data['drift']['percent_an_hour'], delta=0.3
        )
        for row in data['rows'][1:]:
            percent = row['percent_of_bare_metal']
            self.assertAlmostEqual(100, percent['percent'], delta=1)
            # 13 clusters, 3 rows and 5 passes.
            self.assertEqual(6, percent['degrees_of_freedom'])
        self.assertEqual(6, data['pooled']['degrees_of_freedom'])
        text = ' '.join(format_details(build_report(records)).split())
        self.assertIn('removed from the rates', text)

    def test_drift_of_another_day(self) -> None:
        base = [
            run(
                *('bare-metal', hour, 100 * 1.1**hour),
                started=f'2026-05-01T{hour:02d}:00:00Z',
                sweep='spring',
            )
            for hour in range(5)
        ]
        runs = [run('i1', index, 121) for index in range(2)]
        data = build_results(build_report([*base, *runs]))
        percent = data['rows'][1]['percent_of_bare_metal']
        self.assertAlmostEqual(100, percent['percent'])
        self.assertFalse(data['drift']['applied'])
        text = ' '.join(format_details(build_report([*base, *runs])).split())
        self.assertIn('not corrected: rows have no pass in common', text)
        self.assertIn('Passes are not taken out', text)

    def test_what_failed_for_good_does_not_win(self) -> None:
        records = self.sweep(100, 151, 101, 99, 150, 100)
        tries = [run('i2', 2, 9, reason='its cluster died') for _ in '12']
        data = build_results(build_report([*records, tries[0]]))
        self.assertIn('i2 is best', data['headline'])
        data = build_results(build_report([*records, *tries]))
        self.assertIn('i1 is best', data['headline'])
        self.assertEqual(
            'i1-c1-m1-local-shared-unpinned', data['choice']['best']
        )
        self.assertEqual([tries[0].configuration], data['given_up'])
        self.assertIn(
            'Not to be taken: i2, a run of it failed for good.', data['notes']
        )
        # A third try that was good makes up for the others.
        good = run('i2', 2, 100, caps=capped(1.0))
        data = build_results(build_report([*records, *tries, good]))
        self.assertIn('i2 is best', data['headline'])
        remaining = [
            record for record in records if record.configuration[:2] != 'i1'
        ]
        self.assertIn(
            'a run failed for good',
            build_report([*remaining, *tries]).headline,
        )

    def test_worker_hosts_on_both_sides(self) -> None:
        records = [
            run('bare-metal', 0, 100, worker_hosts=31),
            run('i1', 0, 100, worker_hosts=31.5),
        ]
        text = ' '.join(format_table(build_report(records)).split())
        self.assertIn('worker hosts: 31.5; bare metal 31', text)


def _counts(row: dict[str, object]) -> tuple[object, ...]:
    return row['status'], row['runs'], row['failed_runs']


class Words(testtools.TestCase):
    """What must stand beside every figure."""

    def test_details(self) -> None:
        text = format_details(build_report(sweep()))
        flat = ' '.join(text.split())
        for fragment in (
            DERIVED_NOTE,
            'compute backend: lxc',
            'no hypervisor is measured',
            'Scale model: hosts report more CPUs than their cap has cores',
            'effective worker hosts: 2',
            'Replication is 2',
            'OOM kill of java',
            'i2: guest_vcpus: 1',
            'Bare metal with 2 times the data',
        ):
            self.assertIn(fragment, flat)

    def test_releases_of_hvstack(self) -> None:
        records = [
            run('i1', index, 100, observations={'hvstack': release})
            for index, release in enumerate(('1.2', '1.10', '1.2', ''))
        ]
        (note,) = [
            note
            for note in list_provenance_notes(records, {10**9})
            if 'releases' in note
        ]
        self.assertIn('1.10 (1), 1.2 (2)', note)
        notes = list_provenance_notes(records[::2], {10**9})
        self.assertNotIn('releases', ' '.join(notes))

    def test_replicas_below_three(self) -> None:
        record = run('i1', 0, 100)
        for inputs, outputs, expected in (
            ((3,), (None,), []),
            ((2, 1, 3), (None, None, 3), ['Replication is 1 and 2: below']),
            (
                (3, 2),
                (1, 1),
                ['Replication is 2', 'Replication of the output is 1: below'],
            ),
        ):
            notes = list_provenance_notes(
                [
                    factory.edit(
                        factory.edit(record, 'replication', replicas),
                        'environment/output_replication',
                        copies,
                    )
                    for replicas, copies in zip(inputs, outputs, strict=True)
                ],
                {10**9},
            )
            low_notes = [note for note in notes if 'Replication' in note]
            self.assertEqual(len(expected), len(low_notes), notes)
            for text, note in zip(expected, low_notes, strict=True):
                self.assertTrue(note.startswith(text), note)

    def test_short_form_ends_with_the_answer(self) -> None:
        records = sweep()
        lines = format_table(
            build_report(records, ['x.json: edited']), skipped=3
        ).splitlines()
        start = lines.index('') + 1
        self.assertEqual(
            ['configuration', '-', 'bare', 'i1', 'i2', 'i2-m1.2', ''],
            [
                line[:13].split(' ')[0].strip('-') or line[:1]
                for line in lines[start : start + 7]
            ],
        )
        self.assertIn('i1 is best: 99.6 %', lines[start + 7])
        self.assertLess(len(lines), 25)
        head = ' '.join(lines[:start])
        for fragment in (
            DERIVED_NOTE,
            'compute backend: lxc',
            'no hypervisor is measured',
            'i2-m1.2, failed: OOM kill of java',
            'Skipped configurations: 3, failed runs: 1, unusable files: 1; '
            '--details shows the reasons.',
        ):
            self.assertIn(fragment, ' '.join(head.split()))
        self.assertNotIn('guest_vcpus', head)

    def test_details_end_with_the_answer(self) -> None:
        lines = format_details(
            build_report(sweep()), ['skipped: i4']
        ).splitlines()
        self.assertIn('skipped: i4', lines)
        self.assertIn('i1 is best', ' '.join(lines[-2:]))

    def test_settings_without_effect(self) -> None:
        setting = 'mapreduce.ifile.readahead.bytes=1: no libhadoop'
        records = [
            run('i1', 0, 100, observations={'without_effect': [setting]}),
            run('bare-metal', 0, 100),
        ]
        notes = build_report(records).notes
        self.assertIn(f'Settings without effect: {setting}.', notes)
        self.assertFalse(
            any('effect' in note for note in build_report(records[1:]).notes)
        )

    def test_lab_tuning(self) -> None:
        for tuning, count in (('lab', 1), ('hvstack', 0)):
            records = [run('i1', 0, 100, tuning=tuning)]
            notes = build_report(records).notes
            self.assertEqual(
                count, sum("Tuning profile 'lab'" in note for note in notes)
            )

    def test_what_could_not_be_had_before_a_run(self) -> None:
        observed = {'before_run': ['caches were not dropped (no rights)']}
        records = [
            run('bare-metal', 0, 9),
            run('bare-metal', 1, 9, observations={'workers': 4, **observed}),
        ]
        flat = ' '.join(format_details(build_report(records)).split())
        self.assertIn(
            'Before 1 of 2 runs not all was as it should be; the last time '
            'caches were not dropped (no rights).',
            flat,
        )
        self.assertNotIn('Before', format_details(build_report(records[:1])))

    def test_table_leaves_hundreds_of_parameters_to_the_page(self) -> None:
        properties = {
            'dfs.replication': {'value': '2', 'source': 'hdfs-site.xml'}
        }
        text = format_details(
            build_report(
                [
                    run(
                        'bare-metal',
                        0,
                        9,
                        observations={'workers': 4, 'parameters': properties},
                    )
                ]
            )
        )
        self.assertIn('bare metal: workers: 4', text)
        self.assertNotIn('hdfs-site.xml', text)

    def test_table_columns_line_up(self) -> None:
        lines = format_table(build_report(sweep())).splitlines()
        start = next(
            n for n, line in enumerate(lines) if line.startswith('config')
        )
        column = lines[start].index('verdict')
        self.assertEqual(
            [
                'the reference',
                'not told apart (±9.3 points)',
                'slower',
                'failed',
            ],
            [line[column:] for line in lines[start + 2 : start + 6]],
        )

    def test_the_kit_at_a_scale_factor_has_a_metric(self) -> None:
        records = [
            run('bare-metal', 0, 3600, size=10**12),
            run('i1', 0, 3600, size=10**12),
        ]
        records = [factory.edit(rec, 'derived', False) for rec in records]
        data = build_results(build_report(records))
        self.assertEqual('HSph@SF1', data['rate_name'])
        self.assertFalse(any(DERIVED_NOTE in note for note in data['notes']))

    def test_headline(self) -> None:
        self.assertEqual(
            'i1 is best: 99.6 % of bare metal (95 % interval 90.7 to 109.3, '
            '2 against 3 clusters). It cannot be told apart from bare metal.',
            build_report(sweep()).headline,
        )

    def test_headline_names_ties(self) -> None:
        records = [*sweep(), run('i4', 0, 126), run('i4', 1, 127)]
        self.assertIn(
            'apart from bare metal, i4.',
            build_report(records).headline,
        )

    def test_answer_of_a_search_without_a_percentage(self) -> None:
        """The best of the others was not selected, whatever its rate is."""
        winner, runner_up = parse('i4').name, parse('i1').name
        decision = SearchDecision(winner, runner_up, 0.004, 9, True)
        other = run('i4', 0, 90, cpu_model='Opteron')
        failed = run('i4', 0, 90, reason='its cluster died')
        for records, reason in (
            (sweep(), 'it has no run there yet'),
            ([*sweep(), other], 'cpu_model is Opteron here and Xeon there'),
            ([*sweep(), failed], 'its cluster died'),
        ):
            built = build_report(records, decision=decision)
            self.assertIsNone(built.choice)
            self.assertEqual([], built.choice_note)
            for part in (
                'i1 is best: 99.6 % of bare metal',
                'The search selects i4',
                f' The confirmation does not select it: {reason}',
            ):
                self.assertIn(part, built.headline)
            self.assertNotIn('is selected', built.headline)
            self.assertNotIn('is slower', built.headline)
        good = [run('i4', 0, 126), run('i4', 1, 127)]
        built = build_report([*sweep(), *good], decision=decision)
        assert built.choice
        self.assertEqual(winner, built.choice.selected)
        self.assertIn('i4 is selected: ', built.headline)
        self.assertNotIn('does not select', built.headline)

    def test_headline_without_a_baseline(self) -> None:
        records = [
            record for record in sweep() if record.kind == 'configuration'
        ]
        self.assertIn(
            'no valid run on bare metal',
            build_report(records).headline,
        )

    def test_missing_and_left_out(self) -> None:
        records = [record for record in sweep() if record.index != 1]
        records.append(run('i1', 2, 125))
        text = ' '.join(
            format_details(build_report(records, ['x.json: edited'])).split()
        )
        self.assertIn('Left out: x.json: edited.', text)
        self.assertIn('Missing: i1-c1-m1-local-shared-unpinned: run 1', text)
        # Of bare metal run 1 is not there either, and nothing says it was.
        self.assertNotIn('bare-metal: run 1', text)
