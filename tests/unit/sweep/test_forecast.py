# SPDX-License-Identifier: Apache-2.0
"""Estimates from the records of earlier runs."""

import dataclasses
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

import fixtures
import testtools

from hvstack.model.target import BARE_METAL
from hvstack.results import later_changes
from hvstack.results.cloud_identity import parse_cloud
from hvstack.results.record_data import RunRecord
from hvstack.sweep import forecast, run_times
from tests.unit.results import factory


class MedianTimesTest(testtools.TestCase):
    def run_record(self, minute: int, cluster: str) -> RunRecord:
        """Return a record of 100 s that begins at a minute."""
        return factory.run(
            'i1',
            minute,
            100,
            started=f'2026-11-21T05:{minute:02}:00Z',
            observations={'cluster': cluster},
        )

    def times(self, *clusters: str) -> tuple[float | None, float | None]:
        return run_times.compute_median_times(
            [
                self.run_record(5 * index, cluster)
                for index, cluster in enumerate(clusters)
            ],
            10**9,
        )

    def test_records_of_a_cloud(self) -> None:
        """What a sweep measures later does not change what counted."""
        own = [self.run_record(0, 'CID-a')]
        other = [
            factory.tell(
                self.run_record(minute, 'CID-b'),
                cloud=asdict(parse_cloud(cloud)),
            )
            for minute, cloud in ((5, ''), (10, 'https://two'))
        ]
        for ended_by, records in (
            ('', own),
            ('2026-11-21T05:08:00Z', [*own, other[0]]),
        ):
            self.assertEqual(
                records,
                list(
                    run_times.iter_records_of_cloud(
                        [own, other], 'https://one', ended_by
                    )
                ),
            )
        self.assertEqual(
            [*own, *other],
            list(run_times.iter_records_of_cloud([own, other], '')),
        )

    def test_change_of_the_cluster(self) -> None:
        """Each pass has another cluster of the same configuration."""
        self.assertEqual((100, 200), self.times('CID-a', 'CID-b'))

    def test_sweeps_that_take_turns(self) -> None:
        """The runs of other variants are not part of a change."""
        for names in (
            ('study-x-1-v1', 'study-x-1-v2', 'study-x-1-v10'),
            ('trials-x-1-a', 'trials-x-1-b', 'trials-x-2-a'),
        ):
            records = []
            for position, sweep in enumerate(names):
                for minute in (5 * position, 20 + 5 * position):
                    item = self.run_record(minute, f'CID-{minute}')
                    records.append(
                        dataclasses.replace(
                            item,
                            run=dataclasses.replace(item.run, sweep=sweep),
                        )
                    )
            _, setup = run_times.compute_median_times(records, 10**9)
            self.assertEqual(200, setup)

    def test_backends(self) -> None:
        """The guests of another backend are not a change of the cluster."""
        records = [
            factory.run(
                *(name, 0, 100),
                started=f'2026-11-21T05:{5 * index:02}:00Z',
                observations={'cluster': f'CID-{index}'},
            )
            for index, name in enumerate((BARE_METAL, 'i1', BARE_METAL))
        ]
        for backend, times in (('lxc', (100, 200)), ('kvm', (100, None))):
            self.assertEqual(
                times,
                run_times.compute_median_times(
                    records, 10**9, backend=backend
                ),
            )

    def test_no_more_sweeps_are_read_than_needed(self) -> None:
        sweeps: list[str] = []

        def read() -> Iterator[RunRecord]:
            for sweep in ('third', 'second', 'first'):
                sweeps.append(sweep)
                for minute, cluster in ((0, 'CID-a'), (5, 'CID-b')):
                    run_record = self.run_record(minute, f'{cluster}-{sweep}')
                    yield dataclasses.replace(
                        run_record,
                        run=dataclasses.replace(run_record.run, sweep=sweep),
                    )

        for max_runs, names in (
            (1, ['third', 'second']),
            (3, ['third', 'second', 'first']),
            (None, ['third', 'second', 'first']),
        ):
            sweeps.clear()
            self.assertEqual(
                (100, 200),
                run_times.compute_median_times(read(), 10**9, max_runs),
            )
            self.assertEqual(names, sweeps)

    def test_losses_of_hosts(self) -> None:
        """They follow a run, and belong to no change of the cluster."""
        self.assertIsNone(
            run_times.compute_median_change_seconds([], later_changes.HostLoss)
        )
        losses = [{'hosts': 1, 'seconds': seconds} for seconds in (30, 50, 70)]
        records = [
            factory.edit(
                self.run_record(minute, f'CID-{minute}'),
                'seen/host_losses',
                losses,
            )
            for minute in (0, 5)
        ]
        self.assertEqual(
            50,
            run_times.compute_median_change_seconds(
                records, later_changes.HostLoss
            ),
        )
        # 300 s between the starts, without a run and three losses.
        self.assertEqual(
            (100, 50), run_times.compute_median_times(records, 10**9)
        )

    def test_changes_of_compute_workers(self) -> None:
        self.assertIsNone(
            run_times.compute_median_change_seconds(
                [], later_changes.ComputeScaling
            )
        )
        records = [
            factory.edit(
                self.run_record(minute, f'CID-{minute}'),
                'seen/compute_scaling',
                {'seconds': 120.0},
            )
            for minute in (0, 5)
        ]
        self.assertEqual(
            120,
            run_times.compute_median_change_seconds(
                records, later_changes.ComputeScaling
            ),
        )
        self.assertEqual(
            (100, 80), run_times.compute_median_times(records, 10**9)
        )

    def test_second_clusters(self) -> None:
        self.assertIsNone(
            run_times.compute_median_change_seconds(
                [], later_changes.SecondCluster
            )
        )
        records = [
            factory.edit(
                self.run_record(minute, f'CID-{minute}'),
                'seen/second_cluster',
                {'seconds': 130.0},
            )
            for minute in (0, 5)
        ]
        self.assertEqual(
            130,
            run_times.compute_median_change_seconds(
                records, later_changes.SecondCluster
            ),
        )
        self.assertEqual(
            (100, 70), run_times.compute_median_times(records, 10**9)
        )

    def test_same_cluster(self) -> None:
        self.assertEqual((100, None), self.times('CID-a', 'CID-a'))


class EndTimeTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(time.tzset)
        self.useFixture(fixtures.EnvironmentVariable('TZ', 'Europe/Berlin'))
        time.tzset()

    def test_day(self) -> None:
        """A day of the week is that of the next days alone."""
        now = datetime(2026, 10, 20, 20, 0, tzinfo=UTC)
        for hours, expected in (
            (1, '23:00'),
            (10, 'Wed 08:00'),
            (5 * 24, '2026-10-25 21:00'),
            (30 * 24, '2026-11-19 21:00'),
        ):
            seconds = timedelta(hours=hours).total_seconds()
            self.assertEqual(
                expected, forecast.format_end_time(seconds, now), hours
            )
