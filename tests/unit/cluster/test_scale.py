# SPDX-License-Identifier: Apache-2.0
"""Which workers go, and what is refused."""

import io
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import fixtures
import testtools
from hypothesis import given, settings
from hypothesis import strategies as st
from testtools import ExpectedException

from hvstack import errors
from hvstack.cloud.stack_updates import Member
from hvstack.cluster.scale import (
    ScaleTimeouts,
    list_live,
    scale,
    workers,
)
from hvstack.cluster.scale_plan import (
    ScalePlan,
    Worker,
    plan,
    refuse_endless_drain,
)
from hvstack.cluster.stack import StackCluster
from hvstack.cluster.topology_refresh import StackNode
from hvstack.hadoop import daemons
from hvstack.hadoop.site_files import TABLE
from hvstack.model.topology import parse_table
from hvstack.progress import Progress
from tests.unit.cloud import fake
from tests.unit.cloud.test_stack_updates import URL, group, stack
from tests.unit.cluster.fake import FakeCluster, FakeNode


def make_workers(hosts: Iterable[str]) -> list[Worker]:
    """Return a worker on each of these hosts; a capital is unhealthy."""
    return [
        Worker(
            f'w{index}',
            host.lower(),
            Member(str(index), '', (f's{index}',), host.isupper()),
        )
        for index, host in enumerate(hosts)
    ]


def removed(change: ScalePlan) -> list[str]:
    """Return the names of the workers that go."""
    return [worker.name for worker in change.remove]


class PlanTest(testtools.TestCase):
    def test_hosts_keep_equal_numbers(self) -> None:
        change = plan(make_workers('aabbcc'), 3, 3)
        remaining = {'w0', 'w1', 'w2', 'w3', 'w4', 'w5'} - set(removed(change))
        hosts = {worker.name: worker.host for worker in make_workers('aabbcc')}
        self.assertEqual({'a', 'b', 'c'}, {hosts[name] for name in remaining})

    def test_unhealthy_ones_go_first(self) -> None:
        self.assertEqual(['w0'], removed(plan(make_workers('Aabbcc'), 5, 3)))

    def test_then_those_that_have_begun(self) -> None:
        change = plan(make_workers('aabbcc'), 4, 2, going={'w1', 'w2'})
        self.assertEqual({'w1', 'w2'}, set(removed(change)))

    def test_fewer_hosts_than_replicas(self) -> None:
        failure = self.assertRaises(
            errors.InputError, plan, make_workers('abc'), 2, 3
        )
        self.assertIn('the 2 other workers would be on 2 hosts', str(failure))
        self.assertIn('setrep', str(failure))
        self.assertEqual(1, len(plan(make_workers('abc'), 2, 2).remove))

    def test_without_node_groups_nodes_count(self) -> None:
        """All of Ironic's machines have one hostId."""
        change = plan(make_workers('aaaa'), 3, 3, node_groups=False)
        self.assertEqual(['w3'], removed(change))
        workers = [*make_workers('aaa'), *make_workers([''])]
        for after in (1, 2):
            failure = self.assertRaises(
                errors.InputError, plan, workers, after, 3, node_groups=False
            )
            self.assertIn(f'on {after} nodes', str(failure))

    def test_one_that_was_never_made_counts_for_no_host(self) -> None:
        workers = [*make_workers('ab'), *make_workers(['', ''])]
        self.assertRaises(errors.InputError, plan, workers, 3, 3)

    def test_out(self) -> None:
        change = plan(make_workers('ab'), 4, 3)
        self.assertEqual((), change.leaving)
        self.assertEqual(2, change.to_mapping()['added'])

    def test_a_live_worker_whose_blocks_have_no_other_host(self) -> None:
        """HDFS never ended its decommissioning, which took an hour."""
        for hosts, live, node_groups, is_refused in (
            ('abc', ['w0', 'w1', 'w2'], True, True),
            # Who is marked as unhealthy can be alive.
            ('abC', ['w2'], True, True),
            ('aaa', ['w2'], False, True),
            # HDFS does not wait for a dead one.
            ('abc', ['w0', 'w1'], True, False),
            # Another worker of its host takes its blocks.
            ('abcc', ['w2'], True, False),
            ('aaaa', ['w2'], False, False),
        ):
            workers = make_workers(hosts)
            change = plan(
                *(workers, len(hosts), 3),
                replace=['w2'],
                node_groups=node_groups,
            )
            self.assertEqual(['w2'], change.to_mapping()['replaced'])
            with (
                nullcontext()
                if not is_refused
                else ExpectedException(
                    errors.InputError, 'Cannot replace w2: .* on 2 '
                )
            ):
                refuse_endless_drain(
                    *(workers, change, 3),
                    live=live,
                    node_groups=node_groups,
                )

    def test_slots_of_the_next_numbers_become_free(self) -> None:
        """With disk pinning, worker n is in slot n modulo the slots."""
        # Of two slots; the next worker, 6, is in the slot of 0, 2 and 4.
        workers = [
            replace(worker, slot=index % 2)
            for index, worker in enumerate(make_workers('abcabc'))
        ]
        for after, names in (
            (5, ['w4']),
            (4, ['w4', 'w5']),
            (3, ['w4', 'w5', 'w0']),
        ):
            self.assertEqual(names, removed(plan(workers, after, 1)))

    def test_replace(self) -> None:
        change = plan(make_workers('aBc'), 3, 3, replace=['w2'])
        self.assertEqual(['w1', 'w2'], change.to_mapping()['replaced'])
        self.assertEqual((), change.remove)

    def test_compute_workers_are_replaced_and_none_goes(self) -> None:
        compute = [
            replace(worker, name=f'c{worker.member.name}')
            for worker in make_workers('aBc')
        ]
        change = plan(
            make_workers('abc'), 2, 2, replace=['c2'], compute=compute
        )
        self.assertEqual(['w2'], removed(change))
        self.assertEqual(['c1', 'c2'], change.to_mapping()['replaced'])
        self.assertEqual((3, 2), (change.before, change.after))

    def test_compute_workers_go_and_come(self) -> None:
        compute = [
            replace(worker, name=f'c{worker.member.name}')
            for worker in make_workers('aabB')
        ]
        change = plan(make_workers('abc'), 3, 3, compute=compute)
        self.assertEqual(((), False), (change.remove_compute, change.resized))
        change = plan(
            make_workers('abc'), 3, 3, compute=compute, compute_after=2
        )
        # No replica is on them, so that one host is enough.
        self.assertEqual(['c3', 'c1'], change.to_mapping()['removed'])
        self.assertEqual(('c3', 'c1'), tuple(w.name for w in change.leaving))
        self.assertEqual((4, 2), (change.compute_before, change.compute_after))
        self.assertTrue(change.resized)
        change = plan(
            make_workers('abc'), 4, 3, compute=compute, compute_after=6
        )
        self.assertEqual(3, change.to_mapping()['added'])
        self.assertEqual(['c3'], change.to_mapping()['replaced'])

    def test_no_compute_workers_to_scale(self) -> None:
        failure = self.assertRaises(
            errors.InputError, plan, make_workers('ab'), 2, 2, compute_after=2
        )
        self.assertIn('without compute workers', str(failure))

    def test_a_compute_cluster_has_no_other_workers(self) -> None:
        compute = make_workers('ab')
        change = plan([], 0, 3, compute=compute, compute_after=1)
        self.assertEqual((0, 0), (change.before, change.after))
        self.assertEqual(['w1'], change.to_mapping()['removed'])
        failure = self.assertRaises(
            errors.InputError, plan, [], 2, 3, compute=compute
        )
        self.assertIn('Use --compute-workers', str(failure))

    def test_one_is_removed_or_replaced(self) -> None:
        change = plan(make_workers('aBcD'), 3, 2)
        self.assertEqual(1, len(change.remove))
        self.assertEqual(1, len(change.replace))
        self.assertEqual(2, len({worker.name for worker in change.leaving}))

    def test_no_such_worker(self) -> None:
        failure = self.assertRaises(
            errors.InputError, plan, make_workers('ab'), 2, 2, replace=['w7']
        )
        self.assertIn("'w7'", str(failure))

    @settings(max_examples=100)
    @given(st.text('abcd', min_size=1, max_size=12), st.data())
    def test_as_many_go_as_must(self, hosts: str, data: Any) -> None:
        after = data.draw(st.integers(1, len(hosts)))
        workers = make_workers(hosts)
        change = plan(workers, after, 1)
        self.assertEqual(len(hosts) - after, len(set(change.remove)))
        retained_counts = Counter(
            worker.host for worker in workers if worker not in change.remove
        )
        reduced_hosts = {worker.host for worker in change.remove}
        # No worker is removed from a host that has fewer than another host.
        for host in reduced_hosts:
            self.assertTrue(
                retained_counts[host] >= max(retained_counts.values()) - 1
            )


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

    def workers(
        self, group_name: str = 'workers', **parameters: str
    ) -> list[Worker]:
        """Return the workers of a stack with these parameters."""
        answer = stack('UPDATE_FAILED', None, parameters=parameters)
        self.cloud.http.get(f'{URL}/s1', json=answer)
        conn = self.cloud.connect()
        return workers(
            conn,
            conn.orchestration.get_stack('s1'),
            [
                StackNode(
                    'hv-x-worker-0',
                    '10.0.0.2',
                    'worker',
                    'workers0',
                    host='aa',
                ),
                StackNode(
                    'hv-x-c0', '10.0.0.3', 'compute', 'compute0', host='aa'
                ),
            ],
            group_name,
        )

    def test_one_that_was_never_made(self) -> None:
        """It counts as a member, or Heat would take a healthy one away."""
        stack_workers = self.workers(removed_workers='')
        self.assertEqual(
            [('hv-x-worker-0', False), ('hv-x-worker-1', True)],
            [(worker.name, worker.unhealthy) for worker in stack_workers],
        )
        self.assertEqual(['hv-x-worker-1'], removed(plan(stack_workers, 1, 1)))

    def test_compute_workers(self) -> None:
        rows = [*group('workers', 0), *group('compute', 0, 1)[:-2]]
        self.cloud.http.get(
            f'{URL}/hv-x/s1/resources', json={'resources': rows}
        )
        stack_workers = self.workers(group_name='compute', removed_compute='')
        self.assertEqual(
            [('hv-x-c0', 'aa'), ('hv-x-compute-1', '')],
            [(worker.name, worker.host) for worker in stack_workers],
        )
        self.assertIn('/g-compute/', stack_workers[0].member.path)

    def test_older_template(self) -> None:
        """Without compute workers, a stack needs no parameter for them."""
        self.assertEqual([], self.workers('compute', removed_workers=''))
        rows = [*group('workers', 0), *group('compute', 0)]
        self.cloud.http.get(
            f'{URL}/hv-x/s1/resources', json={'resources': rows}
        )
        failure = self.assertRaises(
            errors.InputError, self.workers, 'compute', removed_workers=''
        )
        self.assertIn("'removed_compute'", str(failure))

    def test_slots(self) -> None:
        """The first one is that of the next worker, after removed workers."""
        self.cloud.http.get(
            f'{URL}/hv-x/s1/resources/workers?with_attr=removed_rsrc_list',
            json={'resource': {'attributes': {'removed_rsrc_list': ['2']}}},
        )
        for disk_pinning, slots in (('True', [1, 0]), ('False', [0, 0])):
            stack_workers = self.workers(
                removed_workers='2',
                disk_pinning=disk_pinning,
                workers_per_host='2',
            )
            self.assertEqual(slots, [worker.slot for worker in stack_workers])

    def test_another_template(self) -> None:
        failure = self.assertRaises(errors.InputError, self.workers)
        self.assertIn('removed_workers', str(failure))


class MapTest(testtools.TestCase):
    """A topology that a map told stays that map's."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.cluster = FakeCluster(('w0', 'w1'))
        servers = [
            {
                'id': f'id-{name}',
                'hostId': 'ironic',
                'OS-EXT-AZ:availability_zone': 'nova',
            }
            for name in ('c', 'w0', 'w1')
        ]
        self.cloud.http.get(
            f'{fake.NOVA}/servers/detail', json={'servers': servers}
        )
        for name in ('hv-x', 's1'):
            self.cloud.http.get(
                f'{URL}/{name}', json=self.answer('CREATE_COMPLETE', None)
            )

    def answer(self, status: str, updated: str | None) -> dict[str, Any]:
        """Return Heat's view of the stack."""
        outputs = {
            'controller': self.node(self.cluster.gateway),
            'workers': [self.node(worker) for worker in self.cluster.workers],
        }
        return stack(
            status,
            updated,
            outputs=[
                {'output_key': key, 'output_value': value}
                for key, value in outputs.items()
            ],
        )

    def node(self, node: FakeNode) -> dict[str, str]:
        return {
            'name': node.name,
            'address': node.address,
            'server_id': f'id-{node.name}',
        }

    def table(self, map_file: Path | None) -> dict[str, str]:
        self.scale(map_file, ScalePlan(2, 2))
        return parse_table(self.cluster.gateway.files[TABLE])

    def scale(
        self,
        map_file: Path | None,
        change: ScalePlan,
        ready_timeout: float = 300,
    ) -> None:
        conn = self.cloud.connect()
        scale(
            conn,
            conn.orchestration.get_stack('s1'),
            cast(StackCluster, self.cluster),
            change,
            lambda _: cast(StackCluster, nullcontext(self.cluster)),
            timeouts=ScaleTimeouts(5, ready_timeout),
            progress=Progress(stream=io.StringIO()),
            map_file=map_file,
        )

    def test_map(self) -> None:
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'map.yaml'
        path.write_text('{c: {host: h1}, w0: {host: h2}, w1: {host: h3}}')
        table = self.table(path)
        self.assertEqual(
            ['ng-h2', 'ng-h3'],
            [table[name].rpartition('/')[2] for name in ('w0', 'w1')],
        )

    def test_racks_stay(self) -> None:
        """Nodes that had not moved restarted HDFS, or failed under a job."""
        self.cluster.gateway.files[TABLE] = (
            '10.0.0.1 /rack3/ng-ironic\n10.0.0.2 /rack3/ng-ironic\n'
        )
        self.cluster.join()
        self.cluster.jobs = 1
        table = self.table(None)
        self.assertEqual({'/rack3/ng-ironic'}, set(table.values()))
        self.assertIn('w1', table)

    def test_each_wait_has_the_time_of_the_cluster(self) -> None:
        """They ended after 180 s, 120 s and 300 s, however many workers."""
        waits: dict[str, float] = {}

        def wait_for(
            condition: Callable[[], bool],
            description: str,
            *,
            timeout: float,
            **_: Any,
        ) -> float:
            condition()
            waits[description] = timeout
            return 0

        self.useFixture(
            fixtures.MonkeyPatch('hvstack.processutils.wait_for', wait_for)
        )
        self.scale(None, ScalePlan(2, 2), ready_timeout=938)
        self.assertEqual({938}, set(waits.values()), waits)
        self.assertIn('every worker to answer', waits)
        self.assertIn('Hadoop on c to see every worker', waits)
        starts = [
            worker.timeouts[f'{daemons.NODE} start']
            for worker in self.cluster.workers
        ]
        self.assertEqual([938, 938], starts)

    def test_a_new_worker_that_it_lacks(self) -> None:
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'map.yaml'
        path.write_text('{c: {host: h1}, w0: {host: h2}}')
        failure = self.assertRaises(errors.InputError, self.table, path)
        self.assertIn("node 'w1'", str(failure))

    def serve_update(self) -> Any:
        """Have Heat take an update of the stack; returns its mock."""
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cloud.stacks._INTERVAL', 0.0)
        )
        http = self.cloud.http
        patch_mock = http.patch(f'{URL}/hv-x/s1', status_code=202)
        self.serve_states()
        http.get(f'{URL}/hv-x/s1/resources', json={'resources': []})
        return patch_mock

    def serve_states(self) -> None:
        """Have Heat show the stack before its update, and after it."""
        states = (('CREATE_COMPLETE', None), ('UPDATE_COMPLETE', 'now'))
        self.cloud.http.get(
            f'{URL}/s1',
            [{'json': self.answer(status, at)} for status, at in states],
        )

    def test_an_update_has_time_for_each_worker(self) -> None:
        self.serve_update()
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cloud.stack_times.NODE_SECONDS', -100
            )
        )
        # A smaller cluster removes workers, one after another.
        for change, seconds in (
            (ScalePlan(2, 3), -295),
            (ScalePlan(4, 3), -395),
            (ScalePlan(2, 3, compute_before=2, compute_after=1), -495),
        ):
            self.serve_unfinished()
            error = self.assertRaises(
                errors.DeadlineExceededError, self.scale, None, change
            )
            self.assertIn(f'after {seconds} s', str(error))

    def test_heat_has_longer_for_an_update(self) -> None:
        """The larger of both numbers of workers counts."""
        patch_mock = self.serve_update()
        for change in (ScalePlan(638, 3), ScalePlan(3, 638)):
            self.serve_states()
            self.scale(None, change)
            # 5 s, 6 s for each worker, and ten minutes.
            self.assertEqual(
                74, patch_mock.last_request.json()['timeout_mins']
            )

    def serve_unfinished(self) -> None:
        """Have Heat show the stack before its update, and during it."""
        states = [('CREATE_COMPLETE', None)] * 2
        states += [('UPDATE_IN_PROGRESS', 'now')]
        self.cloud.http.get(
            f'{URL}/s1',
            [{'json': self.answer(status, at)} for status, at in states],
        )

    def test_no_update_waits_for_new_nodes(self) -> None:
        """They are ready when they are in the topology, after the update."""
        patch_mock = self.serve_update()
        self.scale(None, ScalePlan(2, 3))
        self.assertEqual(
            {'worker_count': 3, 'readiness': False},
            patch_mock.last_request.json()['parameters'],
        )
        # The number of compute workers is that of a failed update, too.
        self.serve_states()
        self.scale(None, ScalePlan(2, 3, compute_before=2, compute_after=2))
        self.assertEqual(
            {'worker_count': 3, 'readiness': False, 'compute_count': 2},
            patch_mock.last_request.json()['parameters'],
        )
        self.serve_states()
        (worker,) = make_workers('a')
        self.scale(
            None,
            ScalePlan(
                *(2, 2),
                compute_before=3,
                compute_after=2,
                remove_compute=(replace(worker, name='c0'),),
            ),
        )
        self.assertEqual(
            {
                'worker_count': 2,
                'readiness': False,
                'compute_count': 2,
                'removed_compute': '0',
            },
            patch_mock.last_request.json()['parameters'],
        )

    def test_a_compute_cluster(self) -> None:
        """Its template needs a number of other workers, which stays."""
        patch_mock = self.serve_update()
        self.scale(None, ScalePlan(0, 0, compute_before=2, compute_after=3))
        self.assertEqual(
            {'readiness': False, 'compute_count': 3},
            patch_mock.last_request.json()['parameters'],
        )

    def test_live_data_nodes(self) -> None:
        self.cluster.gateway.files[TABLE] = ''.join(
            f'{node.address} /r/g{node.name}\n'
            for node in self.cluster.workers
        )
        self.cluster.workers[0].answers = False
        self.assertEqual({'w1'}, list_live(cast(StackCluster, self.cluster)))

    def take_away(self, change: ScalePlan) -> list[tuple[str, str]]:
        """Drain a worker, and return the changes of the services."""
        self.cluster.gateway.files[TABLE] = ''.join(
            f'{node.address} /r/g{node.name}\n'
            for node in self.cluster.workers
        )
        if 'w1' in {worker.name for worker in change.leaving}:
            self.cluster.states['10.0.0.3'] = 'DECOMMISSIONED'
        self.serve_update()
        http = self.cloud.http
        http.patch(f'{URL}/name/g/resources/1', json={})
        for url, name in (
            (f'{fake.NOVA}/servers/s1', 'server'),
            (f'{fake.CINDER}/volumes/v1', 'volume'),
        ):
            http.delete(url, status_code=204)
            exists = {'json': {name: {'id': 'x', 'status': 'available'}}}
            http.get(url, [exists, {'status_code': 404}])
        first = len(http.request_history)
        self.scale(None, change, ready_timeout=0)
        return [
            (request.method, request.path.rpartition('/')[2])
            for request in http.request_history[first:]
            if request.method in ('DELETE', 'PATCH')
        ]

    def worker(self, name: str = 'w1') -> Worker:
        """Return a worker with a volume."""
        path = '/stacks/name/g/resources/1'
        return Worker(name, 'a', Member('1', path, ('s1',), False, ('v1',)))

    def test_a_replaced_worker_makes_room(self) -> None:
        """Heat creates its replacement before it deletes the member."""
        self.assertEqual(
            [
                *(('PATCH', '1'), ('DELETE', 's1'), ('DELETE', 'v1')),
                ('PATCH', 's1'),
            ],
            self.take_away(ScalePlan(2, 2, replace=(self.worker(),))),
        )

    def test_a_worker_that_was_not_drained_keeps_its_server(self) -> None:
        """Such as one that no output has."""
        self.assertEqual(
            [('PATCH', '1'), ('PATCH', 's1')],
            self.take_away(ScalePlan(2, 2, replace=(self.worker('x'),))),
        )

    def test_a_removed_worker_on_a_dead_host(self) -> None:
        """Heat would wait for the end of the detachment of its volume."""
        change = ScalePlan(2, 1, remove=(self.worker(),))
        self.assertEqual([('PATCH', 's1')], self.take_away(change))
        self.cluster.workers[1].answers = False
        self.assertEqual(
            [('DELETE', 's1'), ('PATCH', 's1')], self.take_away(change)
        )

    def test_without_one(self) -> None:
        self.assertEqual(
            1,
            len(
                {path.rpartition('/')[2] for path in self.table(None).values()}
            ),
        )
