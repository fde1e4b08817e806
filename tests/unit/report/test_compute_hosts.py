# SPDX-License-Identifier: Apache-2.0
"""What reports show of the compute hosts."""

from typing import Any

import testtools

from hvstack.report import (
    build_page,
    build_results,
    findings,
    format_details,
    format_table,
)
from hvstack.report.sweep_report import build_report
from hvstack.results.record_data import RunRecord
from tests.unit.report.test_page import Page
from tests.unit.report.test_report import sweep
from tests.unit.results import factory

REASON = 'The compute hosts were not measured: x does not exist. Create x.'


def make_use(seconds: float, factor: float = 1.0) -> dict[str, Any]:
    """Return a use of 4 cores: 2.5 of guests, 0.5 of agents, 1 of others."""
    cores = {
        **{'busy': 4.0, 'guests': 2.5, 'guest_time': 2.0, 'agents': 0.5},
        **{'other': 1.0, 'steal': 0.25},
    }
    return {
        'seconds': seconds,
        **{name: value * seconds * factor for name, value in cores.items()},
    }


def measured(
    record: RunRecord, *names: str, factor: float = 1.0, method: str = 'proc'
) -> RunRecord:
    """Return a record with samples of compute hosts."""
    host = {
        'cpus': 64,
        'run': make_use(100, factor),
        'phases': {
            'HSGen': make_use(40, factor),
            'HSSort': make_use(60, 2 * factor),
        },
    }
    return factory.tell(
        record,
        compute_hosts={
            'method': method,
            'interval': 5.0,
            'reasons': [] if names else [REASON],
            'hosts': dict.fromkeys(names, host),
        },
    )


class ReportTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        records = sweep()
        i1 = [index for index, r in enumerate(records) if r.sut.backend][:2]
        records[i1[0]] = measured(records[i1[0]], 'h1', 'h2')
        records[i1[1]] = measured(records[i1[1]], 'h1', 'h2', factor=2)
        records[4] = measured(records[4])
        self.records = records

    def list_rows(self) -> list[dict[str, Any]]:
        rows: Any = build_results(build_report(self.records))['compute_hosts']
        return list(rows['rows'])

    def test_mean_of_the_runs_of_all_hosts(self) -> None:
        whole, hsgen, hssort = self.list_rows()
        self.assertEqual(
            {
                'label': 'i1',
                'phase': 'whole run',
                'hosts': 2,
                'runs': 2,
                'guests': 7.5,
                'agents': 1.5,
                'other': 3.0,
                'steal': 0.75,
                'busy_per_guest': 2.0,
            },
            whole,
        )
        self.assertEqual(('HSGen', 7.5), (hsgen['phase'], hsgen['guests']))
        self.assertEqual(('HSSort', 15.0), (hssort['phase'], hssort['guests']))

    def test_run_with_a_host_that_did_not_answer(self) -> None:
        """It has other sums than the runs with all hosts."""
        self.records[1] = measured(self.records[1], 'h1', factor=9)
        whole = self.list_rows()[0]
        self.assertEqual((1, 10.0), (whole['runs'], whole['guests']))

    def test_emulated_guests_have_no_ratio(self) -> None:
        for index in (1, 2):
            self.records[index] = factory.edit(
                self.records[index],
                'seen/compute_hosts/hosts/h1/run/guest_time',
                None,
            )
        whole = self.list_rows()[0]
        self.assertIsNone(whole['busy_per_guest'])
        self.assertEqual(7.5, whole['guests'])

    def test_reasons_are_in_json_once(self) -> None:
        self.records[5] = measured(self.records[5])
        data: Any = build_results(build_report(self.records))['compute_hosts']
        self.assertEqual(
            [{'configurations': 'i2', 'reason': REASON}], data['not_measured']
        )
        self.assertEqual(['read from /proc of the hosts'], data['methods'])

    def test_details(self) -> None:
        text = format_details(build_report(self.records))
        lines = text.splitlines()
        index = lines.index('Cores of the compute hosts:')
        self.assertIn('host CPU per guest CPU', lines[index + 1])
        self.assertEqual(
            'i1 whole run 2 2 7.50 1.50 3.00 0.75 2.000',
            ' '.join(lines[index + 3].split()),
        )
        self.assertIn(f'i2: {REASON}', text)
        self.assertIn('read from /proc of the hosts', ' '.join(text.split()))
        # The sums of each host would fill screens.
        self.assertNotIn('i1: compute_hosts', text)
        self.assertNotIn('Cores of', format_table(build_report(self.records)))

    def test_records_of_older_releases(self) -> None:
        self.records = sweep()
        self.assertEqual([], self.list_rows())
        self.assertNotIn(
            'Cores of the compute hosts',
            format_details(build_report(self.records)),
        )
        self.assertNotIn(
            'compute-hosts',
            Page(build_page(build_report(self.records))).charts,
        )

    def test_page(self) -> None:
        self.records[1] = measured(
            self.records[1], 'h1', 'h2', factor=2, method='cgroup'
        )
        page = Page(build_page(build_report(self.records)))
        chart = page.charts['compute-hosts']
        self.assertEqual(
            ['guests', 'agents', 'other', 'steal'],
            [trace['name'] for trace in chart['data']],
        )
        self.assertEqual([10.0], chart['data'][0]['x'])
        self.assertIn('whole run', page.text)
        self.assertIn('control groups of lab hosts', page.text)
        self.assertIn(f'i2: {REASON}', page.text)

    def test_runs_without_samples_are_not_checked(self) -> None:
        built = build_report(self.records)
        self.assertIn(
            (
                'CPU time of the compute hosts',
                '3 of 5 runs of guests hold no samples of them',
            ),
            findings.list_unchecked(built),
        )
