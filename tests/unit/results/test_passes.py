# SPDX-License-Identifier: Apache-2.0
"""Pass and position of a run, and the scatter of earlier sweeps."""

from collections.abc import Iterator
from dataclasses import asdict

import testtools

from hvstack import errors
from hvstack.model.target import BARE_METAL
from hvstack.results import percentages, record_data, run_id
from hvstack.results.cloud_identity import parse_cloud
from hvstack.results.estimator import History
from hvstack.results.history import (
    collect_earlier,
    collect_history,
    collect_recent,
)
from hvstack.results.passes import (
    Location,
    get_location,
    locate_run,
    require_location,
)
from hvstack.results.record_data import RunRecord
from tests.unit.results import factory


def run_in_order(*names: str, sweep: str = 'quick') -> list[RunRecord]:
    """Return the runs of a sweep, each on a new cluster."""
    records: list[RunRecord] = []
    for index, name in enumerate(names):
        configuration, _, reason = name.partition(':')
        run = factory.run(
            configuration, index, 100, sweep=sweep, reason=reason
        )
        location = locate_run(
            records,
            run.configuration,
            run.size_bytes,
            run.observations.cluster,
        )
        records.append(
            record_data.add_observations(
                run,
                {
                    'pass': location.pass_number,
                    'position': location.position,
                },
            )
        )
    return records


def list_passes(records: list[RunRecord]) -> list[tuple[int, int]]:
    """Return the pass and the position of each run."""
    locations = map(require_location, records)
    return [
        (location.pass_number, location.position) for location in locations
    ]


class LocationTest(testtools.TestCase):
    def test_a_pass_ends_with_the_second_run_of_a_configuration(self) -> None:
        records = run_in_order(
            *(BARE_METAL, 'i1', 'i2', BARE_METAL),
            *('i2', BARE_METAL, 'i1', BARE_METAL),
        )
        self.assertEqual(
            [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3)],
            list_passes(records),
        )

    def test_a_failed_run_is_repeated_in_its_pass(self) -> None:
        records = run_in_order(
            BARE_METAL, 'i1:its cluster died', 'i1', 'i2', 'i1'
        )
        self.assertEqual(
            [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)], list_passes(records)
        )

    def test_configurations_of_a_later_step(self) -> None:
        """One-at-a-time measures them long after the first ones."""
        records = run_in_order('i1', 'i1', 'i2', 'i4', 'i4', 'i2')
        self.assertEqual(
            [0, 1, 1, 1, 2, 2], [number for number, _ in list_passes(records)]
        )

    def test_a_pair_of_the_kit_is_on_one_cluster(self) -> None:
        first = factory.run('i1', 0, 100, observations={'cluster': 'a'})
        location = locate_run(
            [first], first.configuration, first.size_bytes, 'a'
        )
        self.assertEqual(Location('a', 0, 1), location)

    def test_other_sizes_have_passes_of_their_own(self) -> None:
        first = factory.run('i1', 0, 100, size=2 * 10**9)
        self.assertEqual(
            Location('b', 0, 0),
            locate_run([first], first.configuration, 10**9, 'b'),
        )


class OldRecordsTest(testtools.TestCase):
    def test_they_have_no_interval(self) -> None:
        for name in ('cluster', 'pass', 'position'):
            runs = [factory.run('i1', index, 100) for index in range(3)]
            base = [factory.run(BARE_METAL, index, 90) for index in range(3)]
            runs[1] = factory.edit(runs[1], f'seen/{name}', ...)
            self.assertIsNone(get_location(runs[1]))
            error = self.assertRaises(
                errors.InputError,
                percentages.compute_percents,
                {'i1': runs},
                base,
            )
            self.assertIn(runs[1].id, str(error))
            self.assertIn('cluster, pass and position', str(error))
            self.assertNotIn('\n', str(error))


class Sweeps:
    """Sweeps that count how many of them are read."""

    def __init__(self, sweeps: list[list[RunRecord]]) -> None:
        self.sweeps = sweeps
        self.count = 0

    def __iter__(self) -> Iterator[list[RunRecord]]:
        for records in self.sweeps:
            self.count += 1
            yield records


class HistoryTest(testtools.TestCase):
    """Only other sweeps of the same workload on the same hosts count."""

    def build_sweep(
        self, sweep: str, passes: int = 3, noise: int = 1, **facts: object
    ) -> list[RunRecord]:
        """Return passes of two configurations: 3 have 4 degrees of freedom.

        :param noise: factor of the seconds by which runs differ.
        """
        versions = {'hvstack': '1'}
        day = 10 + len(sweep)
        return [
            factory.run(
                name,
                number,
                seconds + noise * ((number * 7 + seconds) % 3),
                sweep=sweep,
                started=f'2026-11-{day}T{number:02d}:{minute:02d}:00Z',
                observations=versions,
                **facts,
            )
            for number in range(passes)
            for minute, (name, seconds) in enumerate(
                ((BARE_METAL, 100), ('i1', 110), ('i2', 120))
            )
        ]

    def count_degrees(self, *others: list[RunRecord]) -> int:
        own = self.build_sweep('own')
        return collect_history([own, *others], own).total.degrees

    def test_its_own_records_are_not_its_history(self) -> None:
        own = self.build_sweep('own')
        self.assertEqual(History(), collect_history([own], own))
        # Neither under another name, nor as another record of a cluster.
        copies = self.build_sweep('copied')
        for index, run in enumerate(own):
            copies[index] = factory.edit(
                copies[index], 'seen/cluster', run.observations.cluster
            )
        self.assertEqual(History(), collect_history([copies], own))

    def test_each_sweep_counts_once(self) -> None:
        self.assertEqual(4, self.count_degrees(self.build_sweep('first')))
        history = collect_history(
            [self.build_sweep('first'), self.build_sweep('second')],
            self.build_sweep('own'),
        )
        self.assertEqual(8, history.total.degrees)
        self.assertEqual(4, history.guests.degrees)
        first, second = (
            collect_history(
                [self.build_sweep(name)], self.build_sweep('own')
            ).total.squares
            for name in ('first', 'second')
        )
        self.assertAlmostEqual(first + second, history.total.squares)

    def test_later_sweeps_do_not_count(self) -> None:
        """They would change the intervals of a sweep without new runs."""
        own = self.build_sweep('second')
        earlier = self.build_sweep('first')
        later = self.build_sweep('seventh')
        newer_baseline = [
            factory.edit(run, 'ended', '2026-11-29T00:00:00Z')
            if run.kind == 'baseline'
            else run
            for run in own
        ]
        for records in (own, newer_baseline):
            history = collect_earlier([later, earlier], records, 10**9)
            self.assertEqual(4, history.total.degrees)
            self.assertEqual(
                history, collect_earlier([earlier], records, 10**9)
            )
        # A report of bare metal alone.
        base = [run for run in own if run.kind == 'baseline']
        self.assertEqual(
            collect_earlier([earlier], base, 10**9),
            collect_earlier([later, earlier], base, 10**9),
        )
        self.assertEqual(
            History(), collect_earlier([later, earlier], [], 10**9)
        )

    def test_search_does_not_count(self) -> None:
        """It repeats the configurations that had high rates."""
        search = self.build_sweep(run_id.format_search_name('first'))
        self.assertEqual(0, self.count_degrees(search))

    def test_recent_sweeps_before_a_new_one(self) -> None:
        first = self.build_sweep('first')
        # Two configurations in three passes: (2 - 1) x (3 - 1).
        self.assertEqual(2, collect_recent([first], 10**9).guests.degrees)
        self.assertEqual(History(), collect_recent([first], 10**8))
        self.assertEqual(History(), collect_recent([], 10**9))
        # The newest run on the cloud of the plan.
        north, south = parse_cloud('https://one'), parse_cloud('https://two')
        sweeps = [
            [
                factory.tell(run, cloud=asdict(identity))
                for run in self.build_sweep(name, noise=noise)
            ]
            for name, identity, noise in (
                ('second', south, 2.0),
                ('first', north, 1.0),
            )
        ]
        history = collect_recent(sweeps, 10**9, north)
        self.assertEqual(
            collect_recent(sweeps[1:], 10**9).guests, history.guests
        )
        self.assertNotEqual(
            history.guests, collect_recent(sweeps, 10**9).guests
        )

    def test_no_more_sweeps_are_read_than_are_needed(self) -> None:
        sweeps = Sweeps(
            [self.build_sweep('s' * length) for length in range(18, 0, -1)]
        )
        history = collect_history(sweeps, self.build_sweep('own'))
        self.assertEqual(20, history.total.degrees)
        self.assertLess(sweeps.count, 9)
        # The newest run is in one of the first sweeps.
        sweeps.count = 0
        self.assertEqual(20, collect_recent(sweeps, 10**9).total.degrees)
        self.assertLess(sweeps.count, 18)

    def test_the_sweep_with_the_newest_comparable_run_counts_first(
        self,
    ) -> None:
        newer = self.build_sweep('second', passes=11, noise=2)
        older = [
            *self.build_sweep('first', passes=11),
            factory.run(
                *('i1', 50, 9),
                sweep='first',
                started='2026-11-28T00:00:00Z',
                reason='its cluster died',
            ),
        ]
        own = self.build_sweep('own')
        history = collect_history([newer], own)
        self.assertEqual(20, history.total.degrees)
        self.assertEqual(history, collect_history([older, newer], own))

    def test_another_workload_does_not_count(self) -> None:
        self.assertEqual(
            0, self.count_degrees(self.build_sweep('first', size=2 * 10**9))
        )
        self.assertEqual(
            0, self.count_degrees(self.build_sweep('first', hadoop='3.5.0'))
        )
        self.assertEqual(
            0,
            self.count_degrees(self.build_sweep('first', hosts=['hv-host9'])),
        )
        for path, value in (('seen/hvstack', '2'), ('replication', 3)):
            other = [
                factory.edit(run, path, value)
                for run in self.build_sweep('first')
            ]
            self.assertEqual(0, self.count_degrees(other))

    def test_hosts_of_another_site_do_not_count(self) -> None:
        """Records contain the number of hosts, which is the same there."""
        own, other = (
            [
                factory.edit(run, 'phases/0/hosts', {name: {'workers': 1}})
                for run in self.build_sweep(sweep, hosts=3)
            ]
            for sweep, name in (('own', 'a1.one.org'), ('first', 'b1'))
        )
        unnamed = self.build_sweep('second', hosts=3)
        # Some of the clusters were on a host of this site.
        mixed = [
            factory.edit(
                *(run, 'phases/0/hosts'),
                {
                    name: {'workers': 1}
                    for name in ('a1', f'a{2 + number % 2}')
                },
            )
            for number, run in enumerate(self.build_sweep('seventh', hosts=3))
        ]
        for records, others, degrees in (
            (own, other, 0),
            (own, mixed, 4),
            (own, unnamed, 4),
            (unnamed, other, 4),
        ):
            history = collect_history([others], records)
            self.assertEqual(degrees, history.total.degrees)

    def test_guests_of_another_cloud_do_not_count(self) -> None:
        """A search has no run on bare metal, whose hosts have names."""

        def build_on(
            sweep: str, cloud: str, *, is_search: bool = True
        ) -> list[RunRecord]:
            identity = asdict(parse_cloud(cloud))
            return [
                run
                if run.kind == 'baseline'
                else factory.tell(run, cloud=identity)
                for run in self.build_sweep(sweep)
                if run.kind != 'baseline' or not is_search
            ]

        own = build_on('own', 'https://one:5000 north')
        for cloud, degrees in (
            ('https://one:5000 north', 2),
            ('https://one:5000', 2),
            ('', 2),
            ('https://one:5000 south', 0),
            ('https://two:5000 north', 0),
        ):
            history = collect_history(
                [build_on('first', cloud, is_search=False)], own
            )
            self.assertEqual(degrees, history.guests.degrees, cloud)
        # Hosts of two clouds can have the same names.
        own, other, elsewhere = (
            [
                factory.edit(run, 'phases/0/hosts', {'compute-1': {}})
                for run in build_on(sweep, cloud, is_search=False)
            ]
            for sweep, cloud in (
                ('own', 'https://one:5000'),
                ('first', 'https://one:5000'),
                ('second', 'https://two:5000'),
            )
        )
        self.assertEqual(4, collect_history([other], own).total.degrees)
        self.assertEqual(History(), collect_history([elsewhere], own))

    def test_ids_of_hosts_of_guests_do_not_matter(self) -> None:
        """They differ between projects, and after a new deployment."""
        own, other, elsewhere = (
            [
                factory.edit(
                    *(run, 'phases/0/hosts'),
                    {
                        name if run.kind == 'baseline' else digit * 56: {
                            'workers': 1
                        }
                    },
                )
                for run in self.build_sweep(sweep, hosts=3)
            ]
            for sweep, name, digit in (
                ('own', 'a1', '0'),
                ('first', 'a1.one.org', '1'),
                ('seventh', 'b1', '0'),
            )
        )
        history = collect_history([other], own)
        self.assertEqual(2, history.guests.degrees)
        self.assertEqual(4, history.total.degrees)
        # A site whose hosts have other names, also for its guests.
        self.assertEqual(History(), collect_history([elsewhere], own))

    def test_records_of_older_releases_do_not_count(self) -> None:
        other = [
            factory.edit(run, 'seen/pass', ...)
            for run in self.build_sweep('first')
        ]
        self.assertEqual(0, self.count_degrees(other))

    def test_invalid_runs_do_not_count(self) -> None:
        other = self.build_sweep('first')
        other[0] = factory.run(
            BARE_METAL, 0, 9, sweep='first', reason='its cluster died'
        )
        self.assertEqual(3, self.count_degrees(other))

    def test_bare_metal_alone_has_no_guests(self) -> None:
        other = [
            run for run in self.build_sweep('first') if run.kind == 'baseline'
        ]
        own = self.build_sweep('own')
        self.assertEqual(0, collect_history([other], own).guests.degrees)
