# SPDX-License-Identifier: Apache-2.0
"""Intervals count clusters, not runs."""

import testtools

from hvstack.model.target import BARE_METAL
from hvstack.results import percentages
from hvstack.results.record_data import RunRecord
from tests.unit.results import factory


def run(
    configuration: str, index: int, seconds: float, cluster: str = ''
) -> RunRecord:
    """Return the record of a valid run."""
    observations = {'cluster': cluster} if cluster else {}
    return factory.run(
        configuration, index, seconds, observations=observations
    )


class ClustersTest(testtools.TestCase):
    def test_runs_of_a_cluster_are_one_value(self) -> None:
        runs = [
            run('i1', 0, 100, 'CID-a'),
            run('i1', 1, 400, 'CID-a'),
            run('i1', 2, 100, 'CID-b'),
        ]
        rates = percentages.list_cluster_rates(runs)
        self.assertEqual(2, len(rates))
        # The geometric mean of 100 and 400 s is 200 s.
        self.assertAlmostEqual(2, rates[1] / rates[0], 9)

    def test_each_run_on_its_own_cluster(self) -> None:
        runs = [run('i1', index, 100) for index in range(3)]
        self.assertEqual(3, len(percentages.group_by_cluster(runs)))

    def test_one_cluster_of_each_side_has_no_interval(self) -> None:
        rows = {'i1': [run('i1', index, 100 + index, 'a') for index in (0, 1)]}
        base = [run(BARE_METAL, index, 90 + index, 'b') for index in (0, 1)]
        percent = percentages.compute_percents(rows, base).rows['i1']
        self.assertEqual((None, None), (percent.low, percent.high))
        self.assertEqual((2, 2), (percent.runs, percent.baseline_runs))
        self.assertEqual((1, 1), (percent.clusters, percent.baseline_clusters))

    def test_a_configuration_without_valid_runs_has_no_percentage(
        self,
    ) -> None:
        rows = {'i1': [run('i1', 0, 100)], 'i2': []}
        base = [run(BARE_METAL, 0, 90)]
        percents = percentages.compute_percents(rows, base)
        self.assertEqual(['i1'], list(percents.rows))

    def test_performance_run_is_a_run(self) -> None:
        rows = {'i1': [run('i1', 0, 100, 'a'), run('i1', 1, 200, 'a')]}
        base = [run(BARE_METAL, 0, 100, 'b')]
        percent = percentages.compute_percents(rows, base).rows['i1']
        self.assertAlmostEqual(75, percent.performance_ratio, 6)
