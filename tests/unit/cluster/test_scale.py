# SPDX-License-Identifier: Apache-2.0
"""Which workers go, and what is refused."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import testtools
from hypothesis import given, settings
from hypothesis import strategies as st

from hvstack import errors
from hvstack.cloud.updates import Member
from hvstack.cluster.scale import Change, Worker, plan, workers
from hvstack.cluster.topology import Node
from tests.unit.cloud import fake
from tests.unit.cloud.test_updates import URL, group, stack


def made(hosts: Iterable[str]) -> list[Worker]:
    """Return a worker on each of these hosts; a capital is unhealthy."""
    return [
        Worker(
            f'w{number}',
            host.lower(),
            Member(str(number), '', (f's{number}',), host.isupper()),
        )
        for number, host in enumerate(hosts)
    ]


def removed(change: Change) -> list[str]:
    """Return the names of the workers that go."""
    return [one.name for one in change.remove]


class PlanTest(testtools.TestCase):
    def test_hosts_keep_equal_numbers(self) -> None:
        change = plan(made('aabbcc'), 3, 3)
        left = {'w0', 'w1', 'w2', 'w3', 'w4', 'w5'} - set(removed(change))
        hosts = {one.name: one.host for one in made('aabbcc')}
        self.assertEqual({'a', 'b', 'c'}, {hosts[name] for name in left})

    def test_unhealthy_ones_go_first(self) -> None:
        self.assertEqual(['w0'], removed(plan(made('Aabbcc'), 5, 3)))

    def test_then_those_that_have_begun(self) -> None:
        change = plan(made('aabbcc'), 4, 2, going={'w1', 'w2'})
        self.assertEqual({'w1', 'w2'}, set(removed(change)))

    def test_fewer_hosts_than_replicas(self) -> None:
        failure = self.assertRaises(errors.InputError, plan, made('abc'), 2, 3)
        self.assertIn('2 workers would be on 2 hosts', str(failure))
        self.assertIn('setrep', str(failure))
        self.assertEqual(1, len(plan(made('abc'), 2, 2).remove))

    def test_one_that_was_never_made_counts_for_no_host(self) -> None:
        workers = [*made('ab'), *made(['', ''])]
        self.assertRaises(errors.InputError, plan, workers, 3, 3)

    def test_out(self) -> None:
        change = plan(made('ab'), 4, 3)
        self.assertEqual((), change.leaving)
        self.assertEqual(2, change.to_mapping()['added'])

    def test_replace(self) -> None:
        change = plan(made('aBc'), 3, 3, replace=['w2'])
        self.assertEqual(['w1', 'w2'], change.to_mapping()['replaced'])
        self.assertEqual((), change.remove)

    def test_one_is_removed_or_replaced(self) -> None:
        change = plan(made('aBcD'), 3, 2)
        self.assertEqual(1, len(change.remove))
        self.assertEqual(1, len(change.replace))
        self.assertEqual(2, len({one.name for one in change.leaving}))

    def test_no_such_worker(self) -> None:
        failure = self.assertRaises(
            errors.InputError, plan, made('ab'), 2, 2, replace=['w7']
        )
        self.assertIn("'w7'", str(failure))

    @settings(max_examples=100, deadline=None)
    @given(st.text('abcd', min_size=1, max_size=12), st.data())
    def test_as_many_go_as_must(self, hosts: str, data: Any) -> None:
        after = data.draw(st.integers(1, len(hosts)))
        workers = made(hosts)
        change = plan(workers, after, 1)
        self.assertEqual(len(hosts) - after, len(set(change.remove)))
        kept = Counter(one.host for one in workers if one not in change.remove)
        lost = {one.host for one in change.remove}
        # Nobody is taken from a host that has fewer than another one.
        for host in lost:
            self.assertTrue(kept[host] >= max(kept.values()) - 1)


class WorkersTest(testtools.TestCase):
    """Heat's members and the nodes of the outputs, put together."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        # The second member's server could not be made.
        rows = group('workers', 0, 1)[:-2]
        self.cloud.http.get(
            f'{URL}/hv-x/s1/resources', json={'resources': rows}
        )

    def workers(self, **parameters: str) -> list[Worker]:
        """Return the workers of a stack with these parameters."""
        answer = stack('UPDATE_FAILED', None, parameters=parameters)
        self.cloud.http.get(f'{URL}/s1', json=answer)
        conn = self.cloud.connect()
        return workers(
            conn,
            conn.orchestration.get_stack('s1'),
            [
                Node(
                    'hv-x-worker-0',
                    '10.0.0.2',
                    'worker',
                    'workers0',
                    host='aa',
                )
            ],
        )

    def test_one_that_was_never_made(self) -> None:
        """It counts as a member, or Heat would take a healthy one away."""
        found = self.workers(removed_workers='')
        self.assertEqual(
            [('hv-x-worker-0', False), ('hv-x-worker-1', True)],
            [(one.name, one.unhealthy) for one in found],
        )
        self.assertEqual(['hv-x-worker-1'], removed(plan(found, 1, 1)))

    def test_another_template(self) -> None:
        failure = self.assertRaises(errors.InputError, self.workers)
        self.assertIn('removed_workers', str(failure))
