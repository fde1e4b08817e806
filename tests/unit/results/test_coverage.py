# SPDX-License-Identifier: Apache-2.0
"""The intervals hold the truth as often as they say.

benchmarks/coverage.py simulates many more sweeps of many more kinds.
"""

import importlib.util
import math
import random
from pathlib import Path
from types import ModuleType

import testtools

from hvstack.model.target import BARE_METAL
from hvstack.results import percentages
from hvstack.results.history import collect_history
from hvstack.results.record_data import RunRecord
from tests.unit.results import factory

BENCHMARK = Path(__file__).parents[3] / 'benchmarks/coverage.py'


def load_benchmark() -> ModuleType:
    """Return the benchmark, which is not part of a package."""
    spec = importlib.util.spec_from_file_location('coverage_cells', BENCHMARK)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class SequentialTest(testtools.TestCase):
    """Sweeps that stop at their goal, with and without history."""

    SWEEPS = 250

    def simulate(self, name: str) -> None:
        benchmark = load_benchmark()
        (cell,) = (
            cell for cell in benchmark.list_cells() if cell.name == name
        )
        result, _ = benchmark.simulate(cell, 1, self.SWEEPS)
        self.assertEqual([], benchmark.list_misses(cell, result), result)

    def test_history(self) -> None:
        self.simulate('history right, between 3%, steady')

    def test_no_history_and_a_drift(self) -> None:
        self.simulate('no history, between 0%, 15 %/h')


class RecordsTest(testtools.TestCase):
    """From records to the interval.

    5 % within a cluster, 6 % between clusters and 10 % between passes, two
    runs on each of three clusters a side, with an earlier sweep. Counted by
    run, the coverage would be about 83 %; without passes, it would be 99 %.
    """

    SWEEPS = 300

    def build_sweep(
        self, source: random.Random, sweep: str
    ) -> list[RunRecord]:
        records = []
        for number in range(3):
            pace = source.gauss(0, 0.1)
            for name, ratio in ((BARE_METAL, 1.0), ('i1', 0.8)):
                between = source.gauss(0, 0.06)
                records += [
                    factory.run(
                        name,
                        2 * number + index,
                        100
                        / ratio
                        * math.exp(pace + between + source.gauss(0, 0.05)),
                        sweep=sweep,
                        observations={
                            'cluster': f'{sweep}-{name}-{number}',
                            'pass': number,
                        },
                    )
                    for index in (0, 1)
                ]
        return records

    def is_covered(self, source: random.Random) -> bool:
        own = self.build_sweep(source, 'own')
        earlier = self.build_sweep(source, 'earlier')
        rows: dict[str, list[RunRecord]] = {}
        for record in own:
            rows.setdefault(record.configuration, []).append(record)
        base = rows.pop(BARE_METAL)
        (percent,) = percentages.compute_percents(
            rows, base, collect_history([own, earlier], own)
        ).rows.values()
        assert percent.low is not None and percent.high is not None
        return percent.low <= 80 <= percent.high

    def test_coverage(self) -> None:
        source = random.Random(1)
        count = sum(self.is_covered(source) for _ in range(self.SWEEPS))
        coverage = count / self.SWEEPS
        self.assertTrue(0.93 <= coverage <= 0.97, coverage)
