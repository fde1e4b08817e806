# SPDX-License-Identifier: Apache-2.0
"""Trials go on over several sittings, and count what they found."""

from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors
from hvstack.progress import Progress
from hvstack.results import record
from hvstack.sweep import state, trials
from tests.unit.results import factory

SIZE = 1_000_000
CAPS = {'hv-host2': {'cpu': 0.65}}


class TrialsTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.useFixture(fixtures.TempDir()).path)
        for name in ('state.FOLDER', 'state.RECORDS', 'trials.FOLDER'):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'hvstack.sweep.{name}', self.folder / name
                )
            )
        state.RECORDS.mkdir()
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.sweep.rallytask.start', self.rally)
        )
        self.sides: list[str] = []
        self.most = 100
        #: Seconds of a run of A, of B, and how much each further one takes.
        self.seconds = (100.0, 100.0, 1.0)
        self.more: dict[str, Any] = {}

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
            made = factory.run(
                one['configuration'],
                number,
                first + self.seconds[2] * number,
                sweep=sweep,
                size=size,
                **more,
            )
            record.save(made, state.RECORDS)

    def begin(self, count: int = 2) -> trials.Trials:
        return trials.begin(('i1', 'i1'), count, 3, SIZE)

    def test_sides_take_turns(self) -> None:
        trials.run(self.begin(), Progress())
        self.assertEqual(['1-a', '1-b', '2-b', '2-a'], self.sides)

    def test_a_second_sitting_goes_on(self) -> None:
        begun = self.begin(3)
        trials.run(begun, Progress(), most=1)
        self.assertEqual(['1-a', '1-b'], self.sides)
        self.most = 4
        self.assertRaises(
            errors.RunFailed, trials.run, trials.load(begun.id), Progress()
        )
        self.assertEqual(['2-b', '2-a'], self.sides[2:])
        before = {
            path: path.read_bytes() for path in state.RECORDS.glob('*.json')
        }
        self.most = 100
        # Rally's plugin leaves valid runs out; this one stands in for that.
        for path in state.RECORDS.glob('*.json'):
            if record.load(path).sweep.endswith('2-a'):
                path.unlink()
                del before[path]
        trials.run(trials.load(begun.id), Progress())
        self.assertEqual(['2-a', '3-a', '3-b'], self.sides[4:])
        for path, content in before.items():
            self.assertEqual(content, path.read_bytes())

    def test_alike(self) -> None:
        begun = self.begin()
        trials.run(begun, Progress())
        found = trials.gather(begun)
        told = trials.summary(found)
        self.assertEqual((2, 2), (told.trials, told.contain))
        assert told.half_width
        self.assertTrue(0 < told.half_width < 15)

    def test_a_difference_is_found_and_must_be_allowed(self) -> None:
        self.seconds = (100.0, 140.0, 1.0)
        self.more = {'caps': CAPS}
        begun = self.begin()
        trials.run(begun, Progress())
        error = self.assertRaises(errors.NotComparable, trials.gather, begun)
        self.assertIn('caps', str(error))
        found = trials.gather(begun, ['caps'])
        self.assertEqual(0, trials.summary(found).contain)
        self.assertIn('caps', found[0].allowed[0])

    def test_before_anything_ran(self) -> None:
        begun = self.begin()
        told = trials.summary(trials.gather(begun))
        self.assertEqual((0, None), (told.trials, told.half_width))

    def test_commands_before_the_sides(self) -> None:
        log = self.folder / 'log'
        begun = trials.begin(
            ('i1', 'i1'), 1, 2, SIZE, (f'echo a >>{log}', f'echo b >>{log}')
        )
        trials.run(begun, Progress())
        self.assertEqual(['a', 'b'], log.read_text().split())

    def test_refused(self) -> None:
        for count, runs, name in ((0, 3, 'i1'), (5, 1, 'i1'), (5, 3, 'x')):
            self.assertRaises(
                errors.InputError,
                trials.begin,
                (name, name),
                count,
                runs,
                SIZE,
            )
        for name in ('../state', 'trials-none'):
            self.assertRaises(errors.InputError, trials.load, name)
