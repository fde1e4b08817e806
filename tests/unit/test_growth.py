# SPDX-License-Identifier: Apache-2.0
"""Plan, stored results and report of benchmarks/growth.py."""

import argparse
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import fixtures
import testtools

RESULTS = Path(__file__).parents[2] / 'benchmarks/growth_results.py'


def load_module() -> ModuleType:
    """Return the module, which is not part of a package."""
    spec = importlib.util.spec_from_file_location('growth_results', RESULTS)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks its module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


growth = load_module()


class GrowthTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.path = Path(self.useFixture(fixtures.TempDir()).path) / 'r.json'
        self.sizes = growth.parse_sizes('160,40')

    def store(self, seconds: dict[int, dict[str, float]]) -> None:
        results = growth.Results.load(self.path)
        for size in self.sizes:
            for stage, duration in seconds[size.workers].items():
                results.add(
                    size,
                    stage,
                    {
                        'seconds': duration,
                        'servers': size.servers,
                        'pss_mib': 2500.0,
                        'databases_mib': {'nova': 30.0, 'heat': 12.5},
                    },
                )

    def test_hosts_have_slots_for_all(self) -> None:
        for workers, hosts in ((40, 3), (160, 9), (640, 34)):
            size = growth.Size(workers)
            self.assertEqual(hosts, size.hosts)
            self.assertEqual(workers // 20, size.added)
            self.assertGreaterEqual(20 * hosts, workers + size.added + 4)

    def test_exponent(self) -> None:
        squares = [(x, 0.5 * x * x) for x in (42, 162, 642)]
        self.assertAlmostEqual(2.0, growth.fit_exponent(squares))
        self.assertIsNone(growth.fit_exponent(squares[:1]))
        self.assertIsNone(growth.fit_exponent([*squares[:1], squares[0]]))

    def test_stored_stages_are_not_repeated(self) -> None:
        self.store({40: {'hosts': 9, 'boots': 100}, 160: {}})
        results = growth.Results.load(self.path)
        small, large = self.sizes
        self.assertEqual('create', results.list_pending(small)[0])
        self.assertEqual(list(growth.STAGES), results.list_pending(large))
        results.forget(small, 'boots')
        self.assertEqual(['boots', 'create'], results.list_pending(small)[:2])
        # Only a new result changes the file.
        again = growth.Results.load(self.path)
        self.assertIsNotNone(again.get(small, 'boots'))

    def test_plan(self) -> None:
        self.store({40: {'boots': 100}, 160: {}})
        lines = growth.format_plan(growth.Results.load(self.path), self.sizes)
        self.assertIn(f'  boots      stored in {self.path}', lines)
        self.assertIn('160 workers and 2 controllers on 9 fake hosts', lines)
        boots = growth.estimate(self.sizes[1], 'boots') / 60
        self.assertIn(f'  boots      about {boots:6.1f} min', lines)
        self.assertIn('not measured', lines[-1])

    def test_goals_are_met(self) -> None:
        self.store(
            {
                40: {'boots': 100, 'create': 120},
                160: {'boots': 400, 'create': 500},
            }
        )
        lines, is_missed = growth.format_table(
            growth.Results.load(self.path), self.sizes
        )
        text = '\n'.join(lines)
        self.assertFalse(is_missed, text)
        self.assertRegex(text, r'create +120\.0 +500\.0 +1\.06\n')
        self.assertRegex(text, r'create / boots +1\.20 +1\.25 +goal 1\.3')
        self.assertRegex(text, r'topology +- +- +-\n')
        self.assertRegex(text, r'boots +42\.5 +42\.5\n')

    def test_exponent_above_the_goal(self) -> None:
        self.store({40: {'delete': 50}, 160: {'delete': 800}})
        results = growth.Results.load(self.path)
        self.assertTrue(growth.format_table(results, self.sizes)[1])

    def test_ratio_above_the_goal(self) -> None:
        self.store(
            {
                40: {'boots': 100, 'create': 131},
                160: {'boots': 400, 'create': 400},
            }
        )
        results = growth.Results.load(self.path)
        self.assertTrue(growth.format_table(results, self.sizes)[1])

    def test_invalid_sizes(self) -> None:
        for text in ('', 'x', '0,40', '40,'):
            self.assertRaises(
                argparse.ArgumentTypeError, growth.parse_sizes, text
            )
