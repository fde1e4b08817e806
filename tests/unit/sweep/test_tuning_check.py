# SPDX-License-Identifier: Apache-2.0
"""Runs with another tuning profile do not continue a measurement."""

from typing import Any

import fixtures
import testtools

from hvstack import errors, host_profiles
from hvstack.hadoop import site_files
from hvstack.progress import Progress
from hvstack.study import definition, study_run, study_store
from hvstack.sweep import (
    executor,
    search_space,
    sweep_store,
    tuning_check,
)
from hvstack.sweep.sweep_store import SweepSpec
from tests.unit.results import factory
from tests.unit.sweep.directories import SweepDirectories

SIZE = 1_000_000
CONTENT: dict[str, Any] = {
    'question': 'Is a single replica written faster?',
    'size': '1MB',
    'variants': {'one': {'replication': 1}, 'two': {'replication': 2}},
    'claims': [
        {
            'text': 'A single replica is written faster.',
            'variant': 'one',
            'against': 'two',
            'rule': 'faster',
        }
    ],
}
OLD = {'tuning': 'lab', 'hadoop_profile': '0123456789ab'}


class RallyStartedError(Exception):
    """Rally was started."""


def start_rally(*_: object, **__: object) -> None:
    raise RallyStartedError


class TuningCheckTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.useFixture(SweepDirectories())
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.sweep.rallytask.run_task', start_rally
            )
        )
        self.current = {
            'tuning': 'lab',
            'hadoop_profile': site_files.digest_settings('lab'),
        }

    def check_refused(self, subject: str, *args: Any, **kwargs: Any) -> None:
        error = self.assertRaises(errors.InputError, *args, **kwargs)
        self.assertEqual(
            f"Cannot continue {subject}: the tuning profile 'lab' has changed "
            'since the start (digest 0123456789ab, now '
            f'{self.current["hadoop_profile"]}), and new runs would not be '
            'comparable with the earlier ones. Use the release of hvstack or '
            'the profile that measured these, or start again.',
            str(error),
        )

    def test_records(self) -> None:
        def check(*facts: dict[str, str], **options: Any) -> None:
            records = [
                factory.run('i1', index, 100.0, **options, **item)
                for index, item in enumerate(facts)
            ]
            tuning_check.check_unchanged(records, "sweep 'a'")

        check()
        check({})
        # Two profiles of a study.
        check(
            self.current,
            {
                'tuning': 'hvstack',
                'hadoop_profile': site_files.digest_settings('hvstack'),
            },
        )
        # The run is repeated in any case.
        check(OLD, reason='its cluster died')
        self.check_refused("sweep 'a'", check, self.current, OLD)
        error = self.assertRaises(
            errors.InputError, check, {**OLD, 'tuning': 'gone'}
        )
        self.assertIn("'gone'", str(error))

    def test_study(self) -> None:
        study = definition.parse_study('mine', CONTENT, 'mine.yaml')
        started = study_store.create(study, 'lab', 'lxc', {})
        self.assertRaises(
            RallyStartedError, study_run.run_study, started, Progress()
        )
        variant = started.measured_variants[0]
        for number, facts in enumerate((self.current, OLD)):
            factory.save(
                factory.run(
                    *(variant.target.name, number, 100.0),
                    sweep=started.get_sweep(variant),
                    size=SIZE,
                    **facts,
                ),
                sweep_store.RECORDS_DIR,
            )
            if facts is self.current:
                self.assertRaises(
                    RallyStartedError, study_run.run_study, started, Progress()
                )
        self.check_refused(
            *(f"study '{started.id}'", study_run.run_study, started),
            Progress(),
        )

    def test_sweep(self) -> None:
        area = search_space.explore_space(
            search_space.parse_space(['instances=1,2']),
            host_profiles.load('vsphere6'),
            'kvm',
        )

        def begin(*allow: str) -> sweep_store.Sweep:
            spec = SweepSpec(
                *('one-at-a-time', area.parameter_values, area.start),
                *('vsphere6', 'kvm'),
                allow=allow,
            )
            sweep = executor.begin_sweep(area, spec, 2, SIZE)
            factory.save(
                factory.run(
                    *(area.possible[0].name, 0, 100.0),
                    sweep=sweep.id,
                    size=SIZE,
                    **OLD,
                ),
                sweep_store.RECORDS_DIR,
            )
            return sweep

        sweep = begin()
        self.check_refused(
            f"sweep '{sweep.id}'", executor.run_sweep, sweep, Progress()
        )
        self.assertRaises(
            RallyStartedError,
            executor.run_sweep,
            begin('hadoop_profile'),
            Progress(),
        )
