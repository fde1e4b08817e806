# SPDX-License-Identifier: Apache-2.0
"""Trials go on over several sittings, and count what they found."""

from typing import Any

import fixtures
import testtools

from hvstack import errors, share
from hvstack.cli import sweep_trials
from hvstack.model.target import parse_target
from hvstack.progress import Progress
from hvstack.results import record
from hvstack.results.stats import Percent
from hvstack.sweep import sweep_store, trials
from hvstack.sweep.run_order import Step
from tests.unit.cli.runner import run_command
from tests.unit.results import factory
from tests.unit.sweep.directories import SweepDirectories

SIZE = 1_000_000
CAPS = {'hv-host2': {'cpu': 0.65}}


def create_trials(*args: Any, **options: Any) -> trials.Trials:
    """Return new trials with a marker."""
    trial_series = trials.build_trials(*args, **options)
    trials.save_trials(trial_series)
    return trial_series


class TrialsTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = self.useFixture(SweepDirectories()).path
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.sweep.rallytask.run_task', self.rally
            )
        )
        self.sides: list[str] = []
        # The order in a pair, which is random, has a test of its own.
        self.order = trials._order_sides
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.sweep.trials._order_sides',
                lambda _trials, number, index: (
                    trials.SIDES if (number + index) % 2 else 'ba'
                ),
            )
        )
        self.max_runs = 100
        #: Seconds of a run of A, of B, and how much each further one takes.
        self.seconds = (100.0, 100.0, 1.0)
        self.overrides: dict[str, Any] = {}
        #: How often the second run of A fails, and what is seen then.
        self.fails = 0
        self.failure_seen: dict[str, Any] = {}

    def rally(
        self,
        task: str,
        task_args: dict,
        log: str,
        _: Progress,
        options: Any,
        *,
        records_sweep: str,
    ) -> None:
        """Stand in for Rally: leave the records of its runs."""
        self.options = options
        (workload,) = task_args['workloads']
        sweep = task_args['sweep']
        self.assertEqual(sweep, records_sweep)
        self.sides.append(sweep[-3:])
        first = self.seconds[0 if sweep.endswith('-a') else 1]
        first_side = sweep.endswith('-a')
        overrides = {} if sweep.endswith('-a') else self.overrides
        for index, size in enumerate(
            workload['sizes'], workload['first_index']
        ):
            if self.max_runs == 0:
                return
            self.max_runs -= 1
            step = Step(parse_target(workload['configuration']), index, size)
            if sweep_store.find_records(sweep, step)[0]:
                continue
            bad = self.fails and index == 1 and sweep.endswith('-a')
            self.fails -= bool(bad)
            record_ = factory.run(
                workload['configuration'],
                index,
                # Not alike on both sides, or nothing would scatter.
                first
                + self.seconds[2]
                * (index if first_side else (0, 2, 1)[index]),
                sweep=sweep,
                size=size,
                reason='its cluster died' if bad else '',
                observations=self.failure_seen if bad else None,
                **overrides,
            )
            factory.save(record_, sweep_store.RECORDS_DIR)

    def begin(self, count: int = 2) -> trials.Trials:
        return create_trials(('i1', 'i1'), count, 3, SIZE)

    def test_sides_take_turns(self) -> None:
        trials.run_trials(self.begin(), Progress())
        self.assertEqual(
            [
                *('1-a', '1-b', '1-b', '1-a', '1-a', '1-b'),
                *('2-b', '2-a', '2-a', '2-b', '2-b', '2-a'),
            ],
            self.sides,
        )

    def test_order_in_a_pair_is_random_and_repeatable(self) -> None:
        trial_series = self.begin()
        orders = [
            ''.join(self.order(trial_series, number, index))
            for number in range(20)
            for index in range(3)
        ]
        self.assertEqual({'ab', 'ba'}, set(orders))
        again = trials.load_trials(trial_series.id)
        self.assertEqual(orders[0], ''.join(self.order(again, 0, 0)))

    def test_a_second_sitting_goes_on(self) -> None:
        trial_series = self.begin(3)
        trials.run_trials(trial_series, Progress(), max_trials=1)
        first = ['1-a', '1-b', '1-b', '1-a', '1-a', '1-b']
        self.assertEqual(first, self.sides)
        self.max_runs = 4
        self.assertRaises(
            errors.RunFailedError,
            trials.run_trials,
            trials.load_trials(trial_series.id),
            Progress(),
        )
        self.assertEqual(['2-b', '2-a', '2-a', '2-b', '2-b'], self.sides[6:])
        before = {
            path: path.read_bytes()
            for path in sweep_store.RECORDS_DIR.glob('*.json')
        }
        self.max_runs = 100
        # Rally's plugin leaves valid runs out; this one stands in for that.
        for path in sweep_store.RECORDS_DIR.glob('*.json'):
            if record.load(path).sweep.endswith('2-a'):
                path.unlink()
                del before[path]
        trials.run_trials(trials.load_trials(trial_series.id), Progress())
        self.assertEqual(
            ['2-a', '2-a', '2-b', '2-a', '3-a', '3-b'], self.sides[11:17]
        )
        for path, content in before.items():
            self.assertEqual(content, path.read_bytes())

    def test_host_profile_of_all_invocations(self) -> None:
        """Runs on other hardware were in the same interval."""
        path = self.directory / 'own.yaml'
        profile = share.HOST_PROFILES / 'vsphere6.yaml'
        text = profile.read_text()
        path.write_text(text)
        trial_series = create_trials(('i1', 'i1'), 2, 2, SIZE, host=str(path))
        trials.run_trials(trial_series, Progress(), max_trials=1)
        self.assertEqual({'cloud': {'host_profile': str(path)}}, self.options)
        path.write_text(text.replace('262144', '131072'))
        stored = trials.load_trials(trial_series.id)
        count = len(self.sides)
        error = self.assertRaises(
            errors.InputError, trials.run_trials, stored, Progress()
        )
        self.assertIn(f"the host profile '{path}' has changed", str(error))
        self.assertEqual(count, len(self.sides))
        path.write_text(text)
        trials.run_trials(stored, Progress())

    def test_tuning_profile_of_all_invocations(self) -> None:
        """An upgrade between two trials would be part of the interval."""
        trial_series = create_trials(('i1', 'i1'), 2, 2, SIZE)
        self.overrides = {
            'tuning': 'lab',
            'hadoop_profile': '0123456789ab',
        }
        trials.run_trials(trial_series, Progress(), max_trials=1)
        count = len(self.sides)
        error = self.assertRaises(
            errors.InputError, trials.run_trials, trial_series, Progress()
        )
        self.assertIn(
            f"Cannot continue trials '{trial_series.id}': the tuning profile "
            "'lab' has changed since the start",
            str(error),
        )
        self.assertEqual(count, len(self.sides))

    def test_alike(self) -> None:
        trial_series = self.begin()
        trials.run_trials(trial_series, Progress())
        gathered = trials.gather_trials(trial_series)
        summary = trials.summarize_trials(gathered)
        self.assertEqual((2, 2), (summary.trials, summary.contain))
        assert summary.half_width
        self.assertTrue(0 < summary.half_width < 15)

    def test_a_difference_is_found_and_must_be_allowed(self) -> None:
        self.seconds = (100.0, 140.0, 1.0)
        self.overrides = {'caps': CAPS}
        trial_series = self.begin()
        trials.run_trials(trial_series, Progress())
        error = self.assertRaises(
            errors.NotComparableError, trials.gather_trials, trial_series
        )
        self.assertIn('caps', str(error))
        gathered = trials.gather_trials(trial_series, ['caps'])
        self.assertEqual(0, trials.summarize_trials(gathered).contain)
        self.assertIn('caps', gathered[0].allowed[0])

    def test_before_anything_ran(self) -> None:
        trial_series = self.begin()
        summary = trials.summarize_trials(trials.gather_trials(trial_series))
        self.assertEqual((0, None), (summary.trials, summary.half_width))

    def test_commands_before_the_sides(self) -> None:
        log = self.directory / 'log'
        trial_series = create_trials(
            ('i1', 'i1'), 1, 2, SIZE, (f'echo a >>{log}', f'echo b >>{log}')
        )
        trials.run_trials(trial_series, Progress())
        self.assertEqual(['a', 'b', 'b', 'a'], log.read_text().split())

    def test_a_failed_run_is_tried_once_more(self) -> None:
        self.fails = 1
        trials.run_trials(self.begin(1), Progress())
        self.assertEqual(
            ['1-a', '1-b', '1-b', '1-a', '1-a', '1-a', '1-b'], self.sides
        )
        self.sides.clear()
        self.fails = 2
        trial_series = self.begin(1)
        self.assertRaises(
            errors.RunFailedError, trials.run_trials, trial_series, Progress()
        )
        self.assertEqual(['1-a', '1-b', '1-b', '1-a', '1-a'], self.sides)
        self.sides.clear()
        self.fails, self.failure_seen = 1, {'killed': ['java']}
        self.assertRaises(
            errors.RunFailedError, trials.run_trials, self.begin(1), Progress()
        )
        self.assertEqual(['1-a', '1-b', '1-b', '1-a'], self.sides)

    def test_a_command_after_each_sitting(self) -> None:
        log = self.directory / 'log'
        trial_series = create_trials(
            *(('i1', 'i1'), 1, 2, SIZE, ('', ''), f'echo x >>{log}')
        )
        self.max_runs = 0
        self.assertRaises(
            errors.RunFailedError, trials.run_trials, trial_series, Progress()
        )
        self.assertEqual('x\n', log.read_text())
        self.max_runs = 100
        trials.run_trials(trials.load_trials(trial_series.id), Progress())
        self.assertEqual('x\nx\n', log.read_text())
        # The message is about the first failure, not about this one.
        broken = create_trials(
            *(('i1', 'i1'), 1, 2, SIZE, ('', 'exit 3'), 'exit 4')
        )
        exc = self.assertRaises(
            errors.CommandError, trials.run_trials, broken, Progress()
        )
        self.assertIn('exit 3', str(exc))

    def test_seconds_of_the_longest_run(self) -> None:
        self.seconds = (60.0, 70.0, 1.0)
        trial_series = self.begin(1)
        trials.run_trials(trial_series, Progress())
        gathered = trials.gather_trials(trial_series)
        self.assertEqual(72, gathered[0].seconds)
        self.assertEqual(72, trials.summarize_trials(gathered).seconds)
        _, out, err = run_command(
            *('sweep', 'trials', 'show', trial_series.id, '-f', 'csv')
        )
        self.assertIn(
            'data of 1000000 bytes, the longest run took 72.0 s', err
        )
        self.assertIn('"Longest s"', out.splitlines()[0])
        self.assertIn('1,3,3,72.0,', out)

    def test_an_interval_that_is_too_wide(self) -> None:
        """Only forms for programs have its bounds."""
        trial_series = create_trials(('i1', 'i2'), 1, 2, SIZE)
        intervals = [(0.0, 379104.5), (90.0, 110.0), (0.0, 400.0)]
        series = [
            trials.Trial(
                number,
                (2, 2),
                Percent(101.0, *bounds, 2, 2, None, 1, 100.0),
            )
            for number, bounds in enumerate(intervals, 1)
        ]
        for name, result in (
            ('load_trials', trial_series),
            ('gather_trials', series),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'hvstack.sweep.trials.{name}',
                    lambda *_, result=result: result,
                )
            )
        texts = {}
        for form in ('csv', 'json'):
            _, texts[form], error = run_command(
                *('sweep', 'trials', 'show', 'id', '-f', form)
            )
            self.assertIn(
                '3 of 3 intervals hold 100 %, 2 have too few runs for an '
                'interval\n',
                error,
            )
        self.assertNotIn('379104.5', texts['csv'])
        self.assertEqual(2, texts['csv'].count('too few runs for an interval'))
        self.assertIn('inside', texts['csv'])
        self.assertIn('379104.5', texts['json'])
        self.assertEqual(
            '1 of 1 intervals hold 100 %, median half-width 10.0 points',
            sweep_trials._describe_summary(
                trials.summarize_trials(series[1:2])
            ),
        )

    def test_refused(self) -> None:
        for count, runs, name in ((0, 3, 'i1'), (5, 1, 'i1'), (5, 3, 'x')):
            self.assertRaises(
                errors.InputError,
                trials.build_trials,
                (name, name),
                count,
                runs,
                SIZE,
            )
        for name in ('../state', 'trials-none'):
            self.assertRaises(errors.InputError, trials.load_trials, name)
