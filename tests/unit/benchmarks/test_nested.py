# SPDX-License-Identifier: Apache-2.0
"""The components of a nested experiment, and what resumes it."""

import json
import math
import random
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors
from hvstack.cloud import journal
from tests.unit.benchmarks import load

nested = load('nested')
nested_results = load('nested_results')
fresh_clusters = load('fresh_clusters')
#: True standard deviations of blocks, stacks, restarts and runs.
DEVIATIONS = (0.03, 0.02, 0.015, 0.04)
SMALL = nested.Design(2, 2, 2, 2)


def simulate(
    source: random.Random,
    counts: tuple[int, ...],
    deviations: tuple[float, ...] = DEVIATIONS,
    mean: float = 4.0,
) -> Any:
    """Return logarithms of seconds of a nested experiment."""
    if not counts:
        return mean
    return [
        simulate(
            source,
            counts[1:],
            deviations[1:],
            mean + source.gauss(0, deviations[0]),
        )
        for _ in range(counts[0])
    ]


class ComponentsTest(testtools.TestCase):
    def test_mean_squares(self) -> None:
        """By hand: only one stack and one run differ from the others."""
        data = [
            [[[0.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [1.0, 1.0]]],
            [[[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 2.0]]],
        ]
        squares = nested.compute_mean_squares(data)
        self.assertEqual([8, 4, 2, 1], [square.copies for square in squares])
        self.assertEqual([1, 2, 4, 8], [square.degrees for square in squares])
        for value, square in zip(
            (0.25, (2 + 0.5) / 2, 1.0 / 4, 2.0 / 8), squares, strict=True
        ):
            self.assertAlmostEqual(value, square.value)
        variances = nested_results.split_variance(squares)
        for value, variance in zip(
            (-1 / 8, 1 / 4, 0, 1 / 4, 1 / 2), variances, strict=True
        ):
            self.assertAlmostEqual(value, variance)

    def test_true_components(self) -> None:
        """Each within its own scatter: the blocks have the fewest."""
        data = simulate(random.Random(1), (60, 4, 8, 4))
        components = nested.estimate_components(
            nested.compute_mean_squares(data), draws=200
        )
        truth = (*DEVIATIONS, math.hypot(*DEVIATIONS[1:]))
        for component, deviation in zip(components, truth, strict=True):
            self.assertAlmostEqual(
                1, component.percent / 100 / deviation, delta=0.2
            )
            self.assertLess(component.low, component.percent)
            self.assertGreater(component.high, component.percent)

    def test_coverage(self) -> None:
        """The 90 % intervals of the default design contain the truth."""
        source = random.Random(7)
        truth = (*DEVIATIONS, math.hypot(*DEVIATIONS[1:]))
        count, contain = 100, [0] * len(truth)
        for _ in range(count):
            data = simulate(source, (4, 4, 2, 2))
            components = nested.estimate_components(
                nested.compute_mean_squares(data), draws=200
            )
            for index, component in enumerate(components):
                contain[index] += (
                    component.low <= 100 * truth[index] <= component.high
                )
        for share in (number / count for number in contain):
            # Two and a half standard errors, and a bit for few draws.
            self.assertGreater(share, 0.81, contain)
            self.assertLess(share, 0.99, contain)

    def test_no_component(self) -> None:
        """Without differences between stacks, their interval begins at 0."""
        data = simulate(
            random.Random(3), (4, 4, 2, 2), (0.02, 0.0, 0.0, 0.001)
        )
        components = nested.estimate_components(
            nested.compute_mean_squares(data), draws=500
        )
        self.assertEqual(0, components[1].low)
        self.assertLess(components[1].high, 0.1)
        self.assertIn(
            'is below 1 %: the upper limit of its 90 % interval is 0.0',
            nested.describe_stacks(components),
        )

    def test_stacks_that_differ(self) -> None:
        data = simulate(random.Random(4), (4, 4, 2, 2))
        components = nested.estimate_components(
            nested.compute_mean_squares(data), draws=500
        )
        self.assertIn(
            'is not shown to be below 1 %', nested.describe_stacks(components)
        )
        table = nested.format_components(components).splitlines()
        self.assertEqual(6, len(table))
        self.assertEqual('12', table[2].split()[-1])

    def test_the_seed_decides(self) -> None:
        data = simulate(random.Random(5), (2, 2, 2, 2))
        squares = nested.compute_mean_squares(data)
        first, second, other = (
            nested.estimate_components(squares, draws=50, seed=seed)
            for seed in (1, 1, 2)
        )
        self.assertEqual(first, second)
        self.assertNotEqual(first, other)


def run(stack: int, cluster: str, restart: int, seconds: float = 50.0) -> Any:
    """Return a run of a block."""
    return nested.NestedRun(stack, cluster, restart, seconds, 'id')


class StateTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)

    def test_missing_runs_of_a_stack(self) -> None:
        runs = [run(1, 'x', 10), run(1, 'x', 10), run(1, 'x', 20)]
        self.assertIsNone(nested.find_stack(runs, 1, SMALL))
        runs += [run(2, 'y', 30), run(1, 'x', 20, 60.0)]
        self.assertEqual(
            [[50.0, 50.0], [50.0, 60.0]], nested.find_stack(runs, 1, SMALL)
        )
        self.assertIsNone(nested.find_stack(runs, 2, SMALL))

    def test_restart_that_has_too_few_runs(self) -> None:
        """Runs of a restart that ended too soon do not count."""
        runs = [
            run(1, 'x', restart) for restart in (10, 20, 20, 30, 30, 40, 40)
        ]
        self.assertEqual(2, len(nested.list_restarts(runs, SMALL)))
        self.assertIsNotNone(nested.find_stack(runs, 1, SMALL))
        self.assertIsNone(nested.find_stack(runs[:4], 1, SMALL))

    def test_cluster_that_was_deleted(self) -> None:
        """Runs of two clusters are never those of one stack."""
        runs = [run(1, 'x', 10), run(1, 'x', 10), run(1, 'y', 20)]
        runs += [run(1, 'y', 20)]
        self.assertIsNone(nested.find_stack(runs, 1, SMALL))
        runs += [run(1, 'y', 30, 1.0), run(1, 'y', 30, 2.0)]
        self.assertEqual(
            [[50.0, 50.0], [1.0, 2.0]], nested.find_stack(runs, 1, SMALL)
        )

    def test_restart_before_the_first_run(self) -> None:
        runs = [run(1, 'x', 10)]
        self.assertTrue(nested.needs_restart([], 10, SMALL))
        self.assertFalse(nested.needs_restart(runs, 10, SMALL))
        self.assertTrue(nested.needs_restart(runs * 2, 10, SMALL))
        # Hadoop was restarted since.
        self.assertTrue(nested.needs_restart(runs, 11, SMALL))

    def test_complete_blocks_alone(self) -> None:
        whole = [
            run(stack, f'x{stack}', restart, math.e)
            for stack in (1, 2)
            for restart in (10, 20)
            for _ in range(2)
        ]
        self.assertEqual(
            [[[[1.0, 1.0], [1.0, 1.0]]] * 2],
            nested.list_complete([whole, whole[:-1], []], SMALL),
        )

    def test_pace_of_the_machine(self) -> None:
        """Runs whose work took twice the CPU time took twice the time."""
        runs = [
            nested.NestedRun(stack, 'c', 1, seconds, record)
            for stack, seconds, record in (
                (1, 50.0, 'a'), (1, 100.0, 'b'), (2, 75.0, 'c'), (2, 1.0, 'd')
            )
        ]  # fmt: skip
        cpu_seconds = {'a': 10.0, 'b': 20.0, 'c': 15.0}
        self.assertEqual(
            [(1, 5.0), (1, 5.0), (2, 5.0)],
            [
                (item.stack, item.seconds)
                for item in nested.divide_by_cpu(runs, cpu_seconds)
            ],
        )

    def test_file_of_a_block(self) -> None:
        path = nested.get_path(self.directory, 3)
        self.assertEqual([], nested.load_runs(path))
        runs = [run(1, 'x', 10), run(2, 'y', 20, 60.5)]
        for item in runs:
            nested.append_run(path, item)
        self.assertEqual(runs, nested.load_runs(path))
        lines = path.read_text(encoding='utf-8').splitlines()
        self.assertEqual('block-3.jsonl', path.name)
        self.assertEqual(60.5, json.loads(lines[1])['seconds'])
        self.assertEqual([path], list(self.directory.iterdir()))

    def test_line_that_is_not_a_run(self) -> None:
        path = nested.get_path(self.directory, 1)
        nested.append_run(path, run(1, 'x', 10))
        for line in ('{"stack": 1', '{"stack": 1}', '[]', '3'):
            path.write_text(
                path.read_text(encoding='utf-8').splitlines()[0] + f'\n{line}',
                encoding='utf-8',
            )
            error = self.assertRaises(
                errors.InputError, nested.load_runs, path
            )
            self.assertIn(f'{path}, line 2', str(error))

    def test_cluster_of_another_block(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cloud.journal.DIRECTORY', self.directory / 'journal'
            )
        )
        nested.check_clusters('x', 2)
        for name in ('x-b1-s4', 'x-2-b3-s1', 'y-b1-s1'):
            journal.hand_over([journal.note('stack', {})], f'cluster {name}')
        for block in (None, 1):
            nested.check_clusters('x', block)
        error = self.assertRaises(
            errors.InputError, nested.check_clusters, 'x', 2
        )
        self.assertIn('Run block 1 first', str(error))
        self.assertIn("'hvstack cluster delete x-b1-s4'", str(error))

    def test_minutes_of_the_default(self) -> None:
        design = nested.Design()
        minutes = design.blocks * design.estimate_minutes(10**8)
        self.assertAlmostEqual(153, minutes, delta=1)

    def test_design_without_a_variance(self) -> None:
        error = self.assertRaises(errors.InputError, nested.Design, 4, 4, 1, 2)
        self.assertIn('--restarts 1', str(error))

    def test_name_of_the_directory(self) -> None:
        self.assertEqual('x1', fresh_clusters.get_name(self.directory / 'x1'))
        for name in ('X', '1x', 'a_b', 'a' * 26):
            self.assertRaises(
                errors.InputError,
                fresh_clusters.get_name,
                self.directory / name,
            )

    def test_other_design_in_the_directory(self) -> None:
        plan = {'configuration': 'i1', 'runs': 2}
        for _ in range(2):
            fresh_clusters.check_plan(self.directory, plan)
        error = self.assertRaises(
            errors.InputError,
            fresh_clusters.check_plan,
            self.directory,
            {**plan, 'runs': 3},
        )
        self.assertIn('plan.json', str(error))
