# SPDX-License-Identifier: Apache-2.0
"""Trials go on over several sittings, and count what they found."""

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors
from hvstack.cli.app import main
from hvstack.progress import Progress
from hvstack.results import record
from hvstack.sweep import state, trials
from hvstack.sweep.plan import Step
from tests.unit.results import factory

SIZE = 1_000_000
CAPS = {'hv-host2': {'cpu': 0.65}}


class TrialsTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.useFixture(fixtures.TempDir()).path)
        for name in (
            'state.SWEEPS_DIR',
            'state.RECORDS_DIR',
            'trials.TRIALS_DIR',
        ):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'hvstack.sweep.{name}', self.folder / name
                )
            )
        state.RECORDS_DIR.mkdir()
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.sweep.rallytask.run_task', self.rally
            )
        )
        self.sides: list[str] = []
        self.most = 100
        #: Seconds of a run of A, of B, and how much each further one takes.
        self.seconds = (100.0, 100.0, 1.0)
        self.more: dict[str, Any] = {}
        #: How often the second run of A fails, and what is seen then.
        self.fails = 0
        self.seen: dict[str, Any] = {}

    def rally(self, task: str, given: dict, log: str, _: Progress) -> None:
        """Stand in for Rally: leave the records of its runs."""
        (one,) = given['workloads']
        sweep = given['sweep']
        self.sides.append(sweep[-3:])
        first = self.seconds[0 if sweep.endswith('-a') else 1]
        more = {} if sweep.endswith('-a') else self.more
        for number, size in enumerate(one['sizes']):
            if self.most == 0:
                return
            self.most -= 1
            step = Step(one['configuration'], number, size)
            if state.find_records(sweep, step)[0]:
                continue
            bad = self.fails and number == 1 and sweep.endswith('-a')
            self.fails -= bool(bad)
            made = factory.run(
                one['configuration'],
                number,
                first + self.seconds[2] * number,
                sweep=sweep,
                size=size,
                reason='its cluster died' if bad else '',
                seen=self.seen if bad else None,
                **more,
            )
            factory.save(made, state.RECORDS_DIR)

    def begin(self, count: int = 2) -> trials.Trials:
        return trials.create_trials(('i1', 'i1'), count, 3, SIZE)

    def test_sides_take_turns(self) -> None:
        trials.run_trials(self.begin(), Progress())
        self.assertEqual(['1-a', '1-b', '2-b', '2-a'], self.sides)

    def test_a_second_sitting_goes_on(self) -> None:
        begun = self.begin(3)
        trials.run_trials(begun, Progress(), max_trials=1)
        self.assertEqual(['1-a', '1-b'], self.sides)
        self.most = 4
        self.assertRaises(
            errors.RunFailed,
            trials.run_trials,
            trials.load_trials(begun.id),
            Progress(),
        )
        self.assertEqual(['2-b', '2-a'], self.sides[2:])
        before = {
            path: path.read_bytes()
            for path in state.RECORDS_DIR.glob('*.json')
        }
        self.most = 100
        # Rally's plugin leaves valid runs out; this one stands in for that.
        for path in state.RECORDS_DIR.glob('*.json'):
            if record.load(path).sweep.endswith('2-a'):
                path.unlink()
                del before[path]
        trials.run_trials(trials.load_trials(begun.id), Progress())
        self.assertEqual(['2-a', '3-a', '3-b'], self.sides[4:])
        for path, content in before.items():
            self.assertEqual(content, path.read_bytes())

    def test_alike(self) -> None:
        begun = self.begin()
        trials.run_trials(begun, Progress())
        found = trials.gather_trials(begun)
        told = trials.summarize_trials(found)
        self.assertEqual((2, 2), (told.trials, told.contain))
        assert told.half_width
        self.assertTrue(0 < told.half_width < 15)

    def test_a_difference_is_found_and_must_be_allowed(self) -> None:
        self.seconds = (100.0, 140.0, 1.0)
        self.more = {'caps': CAPS}
        begun = self.begin()
        trials.run_trials(begun, Progress())
        error = self.assertRaises(
            errors.NotComparable, trials.gather_trials, begun
        )
        self.assertIn('caps', str(error))
        found = trials.gather_trials(begun, ['caps'])
        self.assertEqual(0, trials.summarize_trials(found).contain)
        self.assertIn('caps', found[0].allowed[0])

    def test_before_anything_ran(self) -> None:
        begun = self.begin()
        told = trials.summarize_trials(trials.gather_trials(begun))
        self.assertEqual((0, None), (told.trials, told.half_width))

    def test_commands_before_the_sides(self) -> None:
        log = self.folder / 'log'
        begun = trials.create_trials(
            ('i1', 'i1'), 1, 2, SIZE, (f'echo a >>{log}', f'echo b >>{log}')
        )
        trials.run_trials(begun, Progress())
        self.assertEqual(['a', 'b'], log.read_text().split())

    def test_a_failed_run_is_tried_once_more(self) -> None:
        self.fails = 1
        trials.run_trials(self.begin(1), Progress())
        self.assertEqual(['1-a', '1-a', '1-b'], self.sides)
        self.sides.clear()
        self.fails = 2
        begun = self.begin(1)
        self.assertRaises(
            errors.RunFailed, trials.run_trials, begun, Progress()
        )
        self.assertEqual(['1-a', '1-a'], self.sides)
        self.sides.clear()
        self.fails, self.seen = 1, {'killed': ['java']}
        self.assertRaises(
            errors.RunFailed, trials.run_trials, self.begin(1), Progress()
        )
        self.assertEqual(['1-a'], self.sides)

    def test_a_command_after_each_sitting(self) -> None:
        log = self.folder / 'log'
        begun = trials.create_trials(
            *(('i1', 'i1'), 1, 2, SIZE, ('', ''), f'echo x >>{log}')
        )
        self.most = 0
        self.assertRaises(
            errors.RunFailed, trials.run_trials, begun, Progress()
        )
        self.assertEqual('x\n', log.read_text())
        self.most = 100
        trials.run_trials(trials.load_trials(begun.id), Progress())
        self.assertEqual('x\nx\n', log.read_text())
        # What ended the sitting is the news, not that this failed too.
        broken = trials.create_trials(
            *(('i1', 'i1'), 1, 2, SIZE, ('', 'exit 3'), 'exit 4')
        )
        exc = self.assertRaises(
            errors.CommandFailed, trials.run_trials, broken, Progress()
        )
        self.assertIn('exit 3', str(exc))

    def test_seconds_of_the_longest_run(self) -> None:
        self.seconds = (60.0, 70.0, 1.0)
        begun = self.begin(1)
        trials.run_trials(begun, Progress())
        found = trials.gather_trials(begun)
        self.assertEqual(72, found[0].seconds)
        self.assertEqual(72, trials.summarize_trials(found).seconds)
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            main(['sweep', 'trials', 'show', begun.id, '-f', 'csv'])
        self.assertIn('data of 1000000 bytes, the longest run took 72.0 s',
                      err.getvalue())  # fmt: skip
        self.assertIn('"Longest s"', out.getvalue().splitlines()[0])
        self.assertIn('1,3,3,72.0,', out.getvalue())

    def test_refused(self) -> None:
        for count, runs, name in ((0, 3, 'i1'), (5, 1, 'i1'), (5, 3, 'x')):
            self.assertRaises(
                errors.InputError,
                trials.create_trials,
                (name, name),
                count,
                runs,
                SIZE,
            )
        for name in ('../state', 'trials-none'):
            self.assertRaises(errors.InputError, trials.load_trials, name)
