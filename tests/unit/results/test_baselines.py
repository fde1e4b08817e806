# SPDX-License-Identifier: Apache-2.0
"""Recorded runs on bare metal that a configuration is compared with."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors
from hvstack.model.target import BARE_METAL
from hvstack.results import baselines, record
from hvstack.results.cloud_identity import parse_cloud
from hvstack.results.file_run_store import FileRunStore
from hvstack.results.record_data import RunRecord
from hvstack.results.run_store import iter_records
from hvstack.results.sql_run_store import SqlRunStore
from tests.unit.results import factory


def set_hosts(run: RunRecord, names: Sequence[str]) -> RunRecord:
    """Return a run whose tasks ran on hosts."""
    counts = {'workers': 1, 'maps': 1, 'reduces': 1}
    hosts = dict.fromkeys(names, counts)
    return factory.edit(run, 'phases/0/hosts', hosts)


class ReferenceTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.run_ = factory.run('i1', 0, 60)

    def test_names_of_files(self) -> None:
        for name in ('', 'auto', 'lent'):
            self.assertEqual(name, baselines.make_absolute(name))
        self.assertEqual(
            str(Path.cwd() / 'x.json'), baselines.make_absolute('x.json')
        )

    def test_name_of_the_runs_that_a_sweep_was_compared_with(self) -> None:
        records = [
            factory.run(
                *('i1', index, 60),
                started=f'2026-11-21T05:4{index}:00Z',
                observations={'compared_with': name} if name else {},
                reason=reason,
            )
            for index, name, reason in (
                (2, 'second', ''),
                (1, 'first', ''),
                (3, '', ''),
                (4, 'third', 'killed'),
            )
        ]
        self.assertEqual('second', baselines.find_name(records))
        self.assertEqual('', baselines.find_name(records[2:]))
        # Its own runs on bare metal are the baseline.
        own = factory.run(BARE_METAL, 0, 50)
        self.assertEqual('', baselines.find_name([*records, own]))

    def save_baseline(
        self,
        sweep: str,
        day: int,
        hosts_of_tasks: Sequence[str] = (),
        **kwargs: Any,
    ) -> Path:
        run = factory.run(
            BARE_METAL,
            day,
            50,
            sweep=sweep,
            started=f'2026-11-{day:02}T05:45:00Z',
            **kwargs,
        )
        return factory.save(set_hosts(run, hosts_of_tasks), self.directory)

    def test_auto_is_the_newest_comparable_sweep(self) -> None:
        self.save_baseline('old', 1)
        self.save_baseline('new', 2)
        self.save_baseline('new', 3)
        self.save_baseline('other-machine', 4, cpu_model='EPYC')
        self.save_baseline('failed', 5, reason='killed')
        runs = baselines.choose_runs(
            baselines.AUTO, self.run_, FileRunStore(self.directory)
        )
        self.assertEqual(['new', 'new'], [record_.sweep for record_ in runs])

    def test_auto_reads_only_comparable_systems(self) -> None:
        self.save_baseline('new', 1)
        for day in range(2, 6):
            self.save_baseline('other-machine', day, cpu_model='EPYC')
        file_store = FileRunStore(self.directory)
        sql_store = SqlRunStore(
            f'sqlite:///{self.directory}/records.sqlite', self.directory
        )
        sql_store.add(list(iter_records(file_store)), {})
        for store in (file_store, sql_store):
            for choose in (
                lambda store=store: baselines.choose_runs(
                    baselines.AUTO, self.run_, store
                ),
                lambda store=store: baselines.replace_baseline(
                    baselines.AUTO, [self.run_], store
                )[1:],
            ):
                (run,) = choose()
                self.assertEqual('new', run.sweep)
            # Each time one run of each system, and those of the first.
            self.assertLessEqual(store.read_count, 6)
        # Without a comparable run, the error is about the newest run.
        odd = factory.run('i1', 0, 60, cpu_model='Opteron')
        for store in (file_store, sql_store):
            error = self.assertRaises(
                errors.NotComparableError,
                *(baselines.choose_runs, baselines.AUTO, odd, store),
            )
            self.assertIn('EPYC', str(error))

    def test_required(self) -> None:
        store = FileRunStore(self.directory)
        for name in (baselines.AUTO, 'old'):
            error = self.assertRaises(
                errors.InputError, baselines.require_candidates, name, store
            )
            self.assertIn('no such valid run', str(error))
            self.save_baseline('failed', 1, reason='killed')
        self.save_baseline('old', 2)
        for name in (baselines.AUTO, 'old'):
            baselines.require_candidates(name, store)

    def test_named(self) -> None:
        path = self.save_baseline('old', 1)
        self.save_baseline('new', 2)
        for name in (str(path), 'old', record.load(path).id):
            runs = baselines.choose_runs(
                name, self.run_, FileRunStore(self.directory)
            )
            self.assertEqual(['old'], [record_.sweep for record_ in runs])

    def test_what_a_configuration_changes_may_differ(self) -> None:
        self.save_baseline('bare', 1, data_disks='1')
        for label in ('i1-ceph', 'i1-pinned'):
            run_ = factory.run(label, 0, 60, data_disks='5')
            self.assertEqual(
                ['bare'],
                [
                    record_.sweep
                    for record_ in baselines.choose_runs(
                        'auto', run_, FileRunStore(self.directory)
                    )
                ],
            )
        local = factory.run('i1', 0, 60, data_disks='5')
        self.assertRaises(
            errors.NotComparableError,
            *(
                baselines.choose_runs,
                'auto',
                local,
                FileRunStore(self.directory),
            ),
        )
        self.assertEqual(
            1,
            len(
                baselines.choose_runs(
                    'auto', local, FileRunStore(self.directory), ['data_disks']
                )
            ),
        )

    def test_what_auto_was_when_the_sweep_ended(self) -> None:
        self.save_baseline('before', 1)
        self.save_baseline('later', 28)
        store = FileRunStore(self.directory)
        for is_recorded, expected in ((True, 'before'), (False, 'later')):
            *_, baseline = baselines.replace_baseline(
                'auto', [self.run_], store, is_recorded=is_recorded
            )
            self.assertEqual(expected, baseline.sweep)

    def test_only_a_later_baseline_is_comparable(self) -> None:
        self.save_baseline('other-machine', 1, cpu_model='EPYC')
        self.save_baseline('later', 28)
        store = FileRunStore(self.directory)
        *_, baseline = baselines.replace_baseline(
            'auto', [self.run_], store, is_recorded=True
        )
        self.assertEqual('later', baseline.sweep)

    def test_auto_prefers_the_same_hosts(self) -> None:
        """Guests do not know the CPU model of their hosts."""
        self.save_baseline('here', 1, hosts_of_tasks=['a1', 'a2'])
        self.save_baseline('other-site', 2, hosts_of_tasks=['b1', 'b2'])
        store = FileRunStore(self.directory)
        for names, expected in (
            (['a1.example.org', 'a2.example.org'], 'here'),
            (['c1'], 'other-site'),
        ):
            run = set_hosts(self.run_, names)
            (baseline,) = baselines.choose_runs('auto', run, store)
            self.assertEqual(expected, baseline.sweep)

    def test_auto_is_of_the_same_cloud(self) -> None:
        """Clouds that share a store can have hosts with the same facts."""

        def build_observations(cloud: str) -> dict[str, Any]:
            return {'cloud': asdict(parse_cloud(cloud))}

        for sweep, day, cloud in (('south', 1, 'https://two'), ('any', 2, '')):
            self.save_baseline(
                sweep, day, observations=build_observations(cloud)
            )
        self.save_baseline(
            'north', 3, observations=build_observations('https://one')
        )
        store = FileRunStore(self.directory)
        for cloud, expected in (
            ('https://one', 'north'),
            ('https://two', 'any'),
            ('', 'north'),
        ):
            run = factory.tell(self.run_, **build_observations(cloud))
            (baseline,) = baselines.choose_runs('auto', run, store)
            self.assertEqual(expected, baseline.sweep)
        run = factory.tell(self.run_, **build_observations('https://two'))
        # A baseline that was named can be of another cloud.
        (baseline,) = baselines.choose_runs('north', run, store)
        self.assertEqual('north', baseline.sweep)

    def test_auto_without_a_baseline_of_the_cloud(self) -> None:
        self.save_baseline(
            'north',
            1,
            observations={'cloud': asdict(parse_cloud('https://one'))},
        )
        run = factory.tell(self.run_, cloud=asdict(parse_cloud('https://two')))
        error = self.assertRaises(
            errors.NotComparableError,
            baselines.choose_runs,
            *('auto', run, FileRunStore(self.directory)),
        )
        self.assertEqual(
            'not comparable: cloud: all comparable runs on bare metal are of '
            'other clouds',
            str(error),
        )

    def test_instead_of_the_sweeps_own(self) -> None:
        self.save_baseline('elsewhere', 1)
        self.save_baseline('elsewhere', 2)
        own = factory.run(BARE_METAL, 0, 90, sweep='quick')
        odd = factory.run('i1', 0, 60, jre='8')
        killed = factory.run('i2', 0, 60, reason='killed')
        runs = [odd, killed, self.run_, own]
        replaced = baselines.replace_baseline(
            'elsewhere', runs, FileRunStore(self.directory)
        )
        self.assertEqual([odd, killed, self.run_], replaced[:3])
        self.assertEqual(
            ['elsewhere'] * 2, [record_.sweep for record_ in replaced[3:]]
        )
        error = self.assertRaises(
            errors.NotComparableError,
            *(
                baselines.replace_baseline,
                'elsewhere',
                [odd, own],
                FileRunStore(self.directory),
            ),
        )
        self.assertIn('jre', str(error))
        error = self.assertRaises(
            errors.InputError,
            *(
                baselines.replace_baseline,
                'elsewhere',
                [killed, own],
                FileRunStore(self.directory),
            ),
        )
        self.assertIn('no valid run of a configuration', str(error))

    def test_none(self) -> None:
        error = self.assertRaises(
            errors.InputError,
            baselines.list_candidates,
            'auto',
            FileRunStore(self.directory),
        )
        self.assertIn('baseline run', str(error))

    def test_a_record_that_does_not_count_is_named(self) -> None:
        path = self.save_baseline('old', 1)
        text = path.read_text(encoding='utf-8')
        path.write_text(text.replace('Xeon', 'Xenon'), encoding='utf-8')
        for name in ('old', 'auto'):
            error = self.assertRaises(
                errors.InputError,
                baselines.list_candidates,
                name,
                FileRunStore(self.directory),
            )
            self.assertIn(
                f'left out: Cannot use the record ({path})', str(error)
            )
        error = self.assertRaises(
            errors.InputError,
            baselines.list_candidates,
            'new',
            FileRunStore(self.directory),
        )
        self.assertIn('no such valid run on bare metal. Run', str(error))

    def test_none_comparable_says_why(self) -> None:
        self.save_baseline('new', 2, size=2 * 10**9)
        error = self.assertRaises(
            errors.NotComparableError,
            baselines.choose_runs,
            'auto',
            self.run_,
            FileRunStore(self.directory),
        )
        self.assertIn('size_bytes', str(error))
