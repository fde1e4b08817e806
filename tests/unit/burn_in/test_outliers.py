# SPDX-License-Identifier: Apache-2.0
"""Outliers among equal parts of a cluster."""

import dataclasses
import random
from itertools import combinations

import testtools

from hvstack.burn_in.outliers import (
    NOT_COMPARED,
    OK,
    OUTLIER,
    RowVerdict,
    Subject,
    compare,
    compute_round_deviation,
)

_CLUSTERS = 200
_ROUNDS = 3


def node(name: str, host: str, where: str = 'node') -> Subject:
    return Subject((name,), (host,), where, 'worker')


def pair(first: str, second: str) -> Subject:
    return Subject((first, second), (first, second), 'pair', 'worker')


def compare_all(
    subjects: list[Subject], values: list[float], host_rows: int = 1
) -> list[RowVerdict]:
    """Compare parts that have the same value in each round."""
    return compare(
        subjects,
        [[value] * _ROUNDS for value in values],
        threshold=10,
        host_rows=host_rows,
    )


class SimulationTest(testtools.TestCase):
    """Clusters of equal nodes whose values have a standard deviation of 3 %.

    The nodes differ by it, and the rounds of a node.
    """

    def count_named(self, count: int, slow: float) -> tuple[int, int]:
        """Return the clusters with a wrong outlier, and with the right one.

        :param count: number of nodes.
        :param slow: rate of the first node, as a fraction of the others'.
        """
        generator = random.Random(7)
        subjects = [node(f'n{n}', f'h{n}') for n in range(count)]
        errors = hits = 0
        for _ in range(_CLUSTERS):
            rates = [100 * generator.gauss(1, 0.03) for _ in subjects]
            rates[0] *= slow
            verdicts = compare(
                subjects,
                [
                    [rate * generator.gauss(1, 0.03) for _ in range(_ROUNDS)]
                    for rate in rates
                ],
                threshold=10,
            )
            errors += any(verdict.is_outlier for verdict in verdicts[1:])
            hits += verdicts[0].is_outlier
        return errors, hits

    def test_equal_nodes(self) -> None:
        for count in (3, 4, 8, 32):
            errors, hits = self.count_named(count, 1)
            self.assertLessEqual(errors + hits, 0.05 * _CLUSTERS, count)

    def test_a_node_that_is_slower_by_30_percent(self) -> None:
        for count in (4, 8, 32):
            errors, hits = self.count_named(count, 0.7)
            self.assertGreaterEqual(hits, 0.95 * _CLUSTERS, count)
            self.assertLessEqual(errors, 0.05 * _CLUSTERS, count)


class NodesTest(testtools.TestCase):
    SUBJECTS = [node(f'n{n}', f'h{n}') for n in range(4)]

    def test_percent_of_the_others(self) -> None:
        verdicts = compare_all(self.SUBJECTS, [60, 100, 100, 110])
        self.assertEqual(
            [60, 100, 100, 110],
            [round(verdict.of_others or 0) for verdict in verdicts],
        )
        self.assertEqual(
            [OUTLIER, OK, OK, OK], [verdict.text for verdict in verdicts]
        )

    def test_threshold(self) -> None:
        self.assertEqual(
            [OK] * 4,
            [
                verdict.text
                for verdict in compare_all(self.SUBJECTS, [90, 100, 100, 100])
            ],
        )

    def test_values_that_scatter(self) -> None:
        """A difference above the threshold that others have, too."""
        verdicts = compare_all(self.SUBJECTS, [80, 90, 105, 120])
        self.assertEqual([OK] * 4, [verdict.text for verdict in verdicts])

    def test_a_slow_disk_among_values_that_scatter(self) -> None:
        """MB/s of direct reads that a cache of the host answered, but one."""
        subjects = [node(f'n{n}', f'h{n}') for n in range(6)]
        values = [6396.3, 8.4, 4920.2, 4264.2, 7107.0, 6396.3]
        verdicts = compare(
            subjects,
            [[0.75 * value, value, 1.3 * value] for value in values],
            threshold=10,
        )
        self.assertEqual(
            [OK, OUTLIER, OK, OK, OK, OK],
            [verdict.text for verdict in verdicts],
        )

    def test_rounds_that_scatter(self) -> None:
        rounds = [
            [60, 80, 110],
            [70, 100, 120],
            [80, 100, 125],
            [75, 100, 118],
        ]
        verdicts = compare(self.SUBJECTS, rounds, threshold=10)
        self.assertFalse(any(verdict.is_outlier for verdict in verdicts))

    def test_smaller_is_better(self) -> None:
        verdicts = compare(
            self.SUBJECTS,
            [[140], [100], [100], [60]],
            threshold=10,
            larger_is_better=False,
        )
        self.assertEqual(
            [OUTLIER, OK, OK, OK], [verdict.text for verdict in verdicts]
        )

    def test_two_values(self) -> None:
        verdicts = compare(self.SUBJECTS, [[50], [100], [], []], threshold=10)
        self.assertEqual(
            [NOT_COMPARED] * 4, [verdict.text for verdict in verdicts]
        )

    def test_groups(self) -> None:
        """A smaller controller is not compared with workers."""
        controller = Subject(('c',), ('h9',), 'node', 'controller')
        verdicts = compare_all(
            [controller, *self.SUBJECTS], [20, 100, 100, 100, 100]
        )
        self.assertEqual(NOT_COMPARED, verdicts[0].text)
        self.assertFalse(any(verdict.is_outlier for verdict in verdicts))

    def test_a_value_of_zero(self) -> None:
        verdicts = compare_all(self.SUBJECTS, [0, 100, 100, 100])
        self.assertTrue(verdicts[0].is_outlier)
        verdicts = compare_all(self.SUBJECTS, [0, 0, 0, 0])
        self.assertFalse(any(verdict.is_outlier for verdict in verdicts))

    def test_round_deviation(self) -> None:
        """An odd round does not count, nor a part with a single one."""
        self.assertEqual(0, compute_round_deviation([[5], [6]]))
        self.assertAlmostEqual(
            0.01,
            compute_round_deviation(
                [[99, 100, 101], [198, 200, 202], [50, 100, 101]]
            ),
        )


class HostsTest(testtools.TestCase):
    def test_all_nodes_of_a_host(self) -> None:
        subjects = [node(f'n{n}', f'h{n // 2}') for n in range(6)]
        verdicts = compare_all(subjects, [70, 70, 70, 100, 100, 100])
        self.assertEqual(
            ['h0', 'h0', '', '', '', ''],
            [verdict.host for verdict in verdicts],
        )
        self.assertEqual(3, sum(verdict.is_outlier for verdict in verdicts))

    def test_disks(self) -> None:
        """The only disk of a host is named itself."""
        subjects = [node(f'n{n}', f'h{n}', '/srv/data/0') for n in range(4)]
        verdicts = compare_all(subjects, [50, 100, 100, 100], host_rows=2)
        self.assertEqual(
            (True, ''), (verdicts[0].is_outlier, verdicts[0].host)
        )


class PairsTest(testtools.TestCase):
    def compare(self, hosts: str, slow: set[str]) -> list[RowVerdict]:
        """Compare all pairs; those with a slow host, or a slow pair."""
        pairs = list(combinations(hosts, 2))
        return compare_all(
            [pair(*names) for names in pairs],
            [
                40.0 if slow & {*names, ''.join(names)} else 100.0
                for names in pairs
            ],
        )

    def test_a_slow_host(self) -> None:
        """Its pairs are two thirds, half or a third of all pairs."""
        for hosts in ('abc', 'abcd', 'abcdef'):
            verdicts = self.compare(hosts, {'a'})
            self.assertEqual(
                len(hosts) - 1, sum(verdict.is_outlier for verdict in verdicts)
            )
            self.assertEqual({'a', ''}, {verdict.host for verdict in verdicts})
            self.assertEqual(40, verdicts[0].of_others)

    def test_a_slow_pair(self) -> None:
        verdicts = self.compare('abcd', {'bc'})
        self.assertEqual(
            [False, False, False, True, False, False],
            [verdict.is_outlier for verdict in verdicts],
        )
        self.assertEqual({''}, {verdict.host for verdict in verdicts})

    def compare_roles(self, slow: str) -> list[RowVerdict]:
        """Compare all pairs of a controller on host a, and three workers."""
        pairs = list(combinations('abcd', 2))
        return compare_all(
            [
                dataclasses.replace(
                    pair(*names),
                    group='controller-worker' if 'a' in names else 'worker',
                )
                for names in pairs
            ],
            [40.0 if slow in names else 100.0 for names in pairs],
        )

    def test_a_slow_host_of_a_controller(self) -> None:
        """Its pairs are a group of their own, without a faster pair."""
        verdicts = self.compare_roles('a')
        self.assertEqual(
            ['a', 'a', 'a', '', '', ''], [verdict.host for verdict in verdicts]
        )
        self.assertEqual(
            [40.0] * 3, [verdict.of_others for verdict in verdicts[:3]]
        )

    def test_a_slow_host_of_a_worker(self) -> None:
        """Its pair with the controller is slow for the same reason."""
        self.assertEqual(
            ['b', '', '', 'b', 'b', ''],
            [verdict.host for verdict in self.compare_roles('b')],
        )

    def test_a_single_pair(self) -> None:
        self.assertEqual(NOT_COMPARED, self.compare('ab', set())[0].text)

    def test_the_only_pair_of_a_host(self) -> None:
        """It can be slow because of the other host."""
        subjects = [pair('a', 'b'), pair('c', 'd'), pair('e', 'f')]
        verdicts = compare_all(subjects, [40, 100, 100])
        self.assertEqual(
            (True, ''), (verdicts[0].is_outlier, verdicts[0].host)
        )


class SlowHostTest(testtools.TestCase):
    def test_nodes_of_a_slow_host_do_not_hide_each_other(self) -> None:
        """MB/s of SHA-256 on a busy lab of four hosts, one at half its cap."""
        values = [117.7, 96.1, 116.9, 54.4, 54.9, 104.6, 118.6, 102.5]
        hosts = ['h1', 'h2', 'h2', 'h3', 'h3', 'h4', 'h4', 'h1']
        subjects = [node(f'n{n}', host) for n, host in enumerate(hosts)]
        verdicts = compare_all(subjects, values, host_rows=2)
        self.assertEqual(
            ['', '', '', 'h3', 'h3', '', '', ''],
            [verdict.host for verdict in verdicts],
        )
        self.assertEqual(52, round(verdicts[3].of_others or 0))

    def test_disks_of_two_hosts(self) -> None:
        """Among all others, the slow ones are too many to be found."""
        subjects = [
            node(f'{host}n{n}', host) for host in ('h1', 'h2') for n in 'abc'
        ]
        verdicts = compare_all(subjects, [100, 115, 105, 60, 62, 61], 3)
        self.assertEqual(
            ['', '', '', 'h2', 'h2', 'h2'],
            [verdict.host for verdict in verdicts],
        )
        # The median of the other host, not of all others.
        self.assertEqual(57, round(verdicts[3].of_others or 0))

    def test_one_host(self) -> None:
        subjects = [node(f'n{n}', 'h') for n in range(5)]
        verdicts = compare_all(subjects, [100, 101, 99, 60, 100], host_rows=2)
        self.assertEqual(
            [OK, OK, OK, OUTLIER, OK], [verdict.text for verdict in verdicts]
        )
