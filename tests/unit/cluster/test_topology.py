# SPDX-License-Identifier: Apache-2.0
"""A cluster's topology: read from Nova, written, checked."""

import dataclasses
import threading
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors, processutils
from hvstack.cluster import launch, observation, topology_refresh
from hvstack.hadoop import daemons
from hvstack.hadoop.site_files import TABLE
from hvstack.model.topology import Mismatch, Topology, build_topology
from tests.unit.cloud import fake as cloud
from tests.unit.cluster.fake import FakeCluster, FakeNode

ADDRESSES = {'c': '10.0.0.1', 'rm': '10.0.0.9'} | {
    f'w{n}': f'10.0.0.{n + 2}' for n in range(3)
}
OUTPUTS = {
    'controller': {'name': 'c', 'address': '10.0.0.1', 'server_id': 's1'},
    'workers': [
        {
            'name': f'w{n}',
            'address': f'10.0.0.{n + 2}',
            'server_id': f's{n + 2}',
        }
        for n in range(3)
    ],
    'ssh': 'ssh root@10.0.0.1',
    'web_uis': {'namenode': 'http://10.0.0.1:9870'},
}


def make_topology(**groups: str) -> Topology:
    """Return a topology of the fake cluster's nodes in one rack."""
    groups = {'c': 'ng-c', 'w0': 'ng-a', 'w1': 'ng-b', 'w2': 'ng-b'} | groups
    return build_topology(
        {name: ADDRESSES[name] for name in groups},
        groups,
        dict.fromkeys(groups.values(), 'r1'),
    )


class NodesTest(testtools.TestCase):
    """Nova's answer to whoever owns the stack."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(cloud.FakeCloud())
        self.servers('aa', 'bb', 'bb', zones=('r1', 'r2', 'r2'))

    def servers(
        self, *hosts: str, zones: tuple[str, ...], volumes: bool = False
    ) -> None:
        """Answer for the controller, and for workers on these hosts."""
        pairs = [('cc', 'nova'), *zip(hosts, zones, strict=True)]
        rows = [
            {
                'id': f's{index}',
                'hostId': host,
                'OS-EXT-AZ:availability_zone': zone,
                'os-extended-volumes:volumes_attached': [{'id': 'v'}]
                if volumes
                else [],
            }
            for index, (host, zone) in enumerate(pairs, start=1)
        ]
        self.cloud.http.get(
            f'{cloud.NOVA}/servers/detail', json={'servers': rows}
        )

    def nodes(
        self, text: str | None = None
    ) -> list[topology_refresh.StackNode]:
        """Return the nodes, perhaps with a map's text."""
        path = None
        if text is not None:
            directory = Path(self.useFixture(fixtures.TempDir()).path)
            path = directory / 'map.yaml'
            path.write_text(text)
        return topology_refresh.nodes(self.cloud.connect(), OUTPUTS, path)

    def test_moved(self) -> None:
        """Nodes that were on a known host, and are on another now."""
        conn = self.cloud.connect()
        outputs: Any = {
            **OUTPUTS,
            'workers': [
                {**worker, 'host_id': host}
                for worker, host in zip(
                    OUTPUTS['workers'], ('aa', 'bb', ''), strict=True
                )
            ],
        }
        self.assertEqual([], observation.list_moved(conn, outputs))
        # w0 was deleted or shelved, and the host of w2 was not known.
        self.servers('', 'dd', 'dd', zones=('r1', 'r2', 'r2'))
        self.assertEqual(['w1'], observation.list_moved(conn, outputs))

    def test_hosts_and_zones(self) -> None:
        nodes = self.nodes()
        self.assertEqual(
            [('c', 'controller'), ('w0', 'worker')],
            [(node.name, node.role) for node in nodes[:2]],
        )
        self.assertEqual(
            {'/nova/ng-cc': ['c'], '/r1/ng-aa': ['w0']}
            | {'/r2/ng-bb': ['w1', 'w2']},
            topology_refresh.of_nodes(nodes).groups,
        )
        self.assertFalse(any(node.on_volumes for node in nodes))

    def test_too_few_hosts_for_the_replicas(self) -> None:
        """The controller's host counts only if it has a worker, too."""
        nodes = self.nodes()
        describe = launch.describe_missing_hosts
        self.assertEqual('', describe(nodes, 2))
        self.assertIn('HDFS stores 2 of 3 replicas', describe(nodes, 3))
        self.servers('bb', 'bb', 'bb', zones=('n', 'n', 'n'))
        self.assertIn(
            'HDFS stores 1 of 2 replicas of each block: the 3 workers run on '
            '1 host,',
            describe(self.nodes(), 2),
        )

    def test_volumes(self) -> None:
        self.servers('aa', 'bb', 'bb', zones=('n', 'n', 'n'), volumes=True)
        self.assertTrue(all(node.on_volumes for node in self.nodes()))

    def test_a_server_on_no_host(self) -> None:
        self.servers('aa', '', 'bb', zones=('n', 'n', 'n'))
        failure = self.assertRaises(
            errors.InputError, topology_refresh.of_nodes, self.nodes()
        )
        self.assertIn('w1', str(failure))

    def test_a_map(self) -> None:
        lines = [f'{name}: {{host: h1, rack: x}}' for name in ('c', 'w0')]
        lines += [f'{name}: {{host: h2, rack: y}}' for name in ('w1', 'w2')]
        node_topology = topology_refresh.of_nodes(self.nodes('\n'.join(lines)))
        self.assertEqual(
            {'/x/ng-h1': ['c', 'w0'], '/y/ng-h2': ['w1', 'w2']},
            node_topology.groups,
        )

    def test_compute_workers_are_no_controllers(self) -> None:
        """Hosts of as many data workers share a rack all the same."""
        hosts = 'aabbccdd'
        nodes = [
            topology_refresh.StackNode(
                f'd{n}', f'10.0.1.{n}', 'worker', '', host
            )
            for n, host in enumerate(hosts)
        ] + [
            topology_refresh.StackNode(
                f'c{n}', f'10.0.2.{n}', 'compute', '', host
            )
            for n, host in enumerate('ade')
        ]
        racks = {
            location.group: location.rack
            for location in topology_refresh.of_nodes(nodes).locations
        }
        self.assertEqual(
            {'ng-a': 'rack1', 'ng-b': 'rack1'}
            | {'ng-c': 'rack2', 'ng-d': 'rack2', 'ng-e': 'rack1'},
            racks,
        )

    def test_a_wrong_map(self) -> None:
        for text, word in (
            ('c: {host: h1}\n', 'w0'),
            ('c: h1\n', 'map.yaml:1'),
            ('c: {host: h1}\nw0: {rack: r}\n', 'map.yaml:2'),
            ('c: {host: 7}\n', "'c.host'"),
            ('c: {host: $(id)}\n', "'c.host'"),
            ('c: {host: "a\\n10.0.0.9 /x"}\n', "'c.host'"),
            ('c: {host: h, rack: a b}\n', "'c.rack'"),
            ('', 'c'),
        ):
            failure = self.assertRaises(errors.InputError, self.nodes, text)
            self.assertIn(word, str(failure))
            self.assertNotIn('\n', str(failure))


class RefreshTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cluster = FakeCluster()

    def refresh(self, node_topology: Topology) -> list[str]:
        """Write a topology without patience."""
        return topology_refresh.refresh(self.cluster, node_topology, timeout=0)

    def restarts(self) -> list[str]:
        """Return the daemons that were restarted, by node."""
        return [
            f'{node.name}: {command.rpartition("start ")[2]}'
            for node in (self.cluster.gateway, *self.cluster.workers)
            for command in node.commands
            if ' stop ' in command
        ]

    def test_new_nodes_come_in(self) -> None:
        """They registered with YARN before anybody placed them."""
        self.cluster.join()
        self.assertEqual({}, self.cluster.hdfs)
        self.assertEqual([], self.refresh(make_topology()))
        self.assertEqual(
            [f'w{n}: nodemanager' for n in range(3)], self.restarts()
        )
        for paths in (self.cluster.hdfs, self.cluster.yarn):
            self.assertEqual(
                {'10.0.0.2': '/r1/ng-a'}
                | dict.fromkeys(('10.0.0.3', '10.0.0.4'), '/r1/ng-b'),
                paths,
            )
        for node in self.cluster.workers:
            self.assertEqual(make_topology().format_table(), node.files[TABLE])

    def test_nothing_new_restarts_nothing(self) -> None:
        self.refresh(make_topology())
        before = self.restarts()
        self.refresh(make_topology())
        self.assertEqual(before, self.restarts())

    def test_a_node_that_moved(self) -> None:
        self.cluster.gateway.files[TABLE] = make_topology().format_table()
        self.cluster.join()
        self.refresh(make_topology(w2='ng-a'))
        self.assertEqual(['c: namenode resourcemanager'], self.restarts())
        self.assertEqual('/r1/ng-a', self.cluster.hdfs['10.0.0.4'])

    def test_a_node_that_moved_under_a_job(self) -> None:
        self.cluster.gateway.files[TABLE] = make_topology().format_table()
        self.cluster.join()
        self.cluster.jobs = 1
        failure = self.assertRaises(
            errors.BusyError, self.refresh, make_topology(w2='ng-a')
        )
        self.assertIn('w2', str(failure))
        self.assertEqual([], self.restarts())

    def test_a_dead_worker_is_passed_over(self) -> None:
        self.cluster.workers[1].answers = False
        self.assertEqual(['w1'], self.refresh(make_topology()))
        self.assertEqual({'10.0.0.2', '10.0.0.4'}, set(self.cluster.hdfs))

    def test_a_dead_controller_is_not(self) -> None:
        self.cluster.gateway.answers = False
        self.assertRaises(errors.CommandError, self.refresh, make_topology())

    def test_other_nodes_get_the_table(self) -> None:
        other = FakeNode('rm', '10.0.0.9', self.cluster)
        topology_refresh.refresh(
            self.cluster, make_topology(rm='ng-c'), others=[other], timeout=0
        )
        self.assertIn('rm /r1/ng-c', other.files[TABLE])

    def test_controllers_that_never_started_start(self) -> None:
        """One that was rebooted before it had its table waits no more."""
        for shared in (False, True):
            self.cluster = FakeCluster(separate=not shared, shared=shared)
            self.refresh(make_topology(rm='ng-d'))
            self.assertIn(
                f'{daemons.NODE} start', self.cluster.manager.commands
            )
            self.assertEqual(
                not shared,
                f'{daemons.NODE} start' in self.cluster.gateway.commands,
            )

    def test_separate_controllers(self) -> None:
        """Both have the table; each is asked for what it knows."""
        self.cluster = FakeCluster(separate=True)
        node_topology = make_topology(rm='ng-d')
        self.refresh(node_topology)
        self.assertEqual(
            node_topology.format_table(),
            self.cluster.manager.files[TABLE],
            'manager',
        )
        self.assertEqual(
            [], topology_refresh.check(self.cluster, node_topology)
        )
        self.refresh(make_topology(rm='ng-d', w2='ng-a'))
        self.assertIn('c: namenode', self.restarts())
        self.assertIn(
            f'{daemons.NODE} stop resourcemanager; '
            f'{daemons.NODE} start resourcemanager',
            self.cluster.manager.commands,
        )

    def test_check_reads_tables_at_the_same_time(self) -> None:
        """Each reader waits for another, as a serial check does not."""
        barrier = threading.Barrier(2, timeout=0.5)

        @dataclasses.dataclass
        class WaitingNode(FakeNode):
            def run(self, command: str, **options: Any) -> processutils.Result:
                if command.startswith('cat '):
                    barrier.wait()
                return super().run(command, **options)

        node_topology = make_topology()
        self.cluster = FakeCluster(names=('w0', 'w1', 'w2'))
        self.refresh(node_topology)
        self.cluster.workers = [
            WaitingNode(**vars(worker)) for worker in self.cluster.workers
        ]
        self.cluster.gateway = WaitingNode(**vars(self.cluster.gateway))
        self.cluster.manager = self.cluster.gateway
        # Four nodes: two pairs.
        self.assertEqual(
            [], topology_refresh.check(self.cluster, node_topology)
        )

    def test_a_compute_cluster(self) -> None:
        """Both controllers have the table; only YARN is restarted."""
        self.cluster = FakeCluster(shared=True)
        node_topology = make_topology(rm='ng-d')
        self.refresh(node_topology)
        for node in (self.cluster.gateway, self.cluster.manager):
            self.assertEqual(
                node_topology.format_table(), node.files[TABLE], node.name
            )
        self.assertEqual({}, self.cluster.hdfs)
        self.assertEqual(
            [], topology_refresh.check(self.cluster, node_topology)
        )
        self.refresh(make_topology(rm='ng-d', w2='ng-a'))
        self.assertEqual(
            [], [text for text in self.restarts() if 'namenode' in text]
        )
        self.assertIn(
            f'{daemons.NODE} stop resourcemanager; '
            f'{daemons.NODE} start resourcemanager',
            self.cluster.manager.commands,
        )

    def test_a_compute_cluster_has_the_addresses_of_all_data(self) -> None:
        """An ApplicationMaster looks up the names of these addresses."""
        cluster = FakeCluster(('w0',), shared=True)
        others = [
            FakeNode('c', '10.0.0.1', cluster),
            FakeNode('d', '10.0.0.77', cluster, 'data'),
        ]
        daemons.distribute_addresses(cluster, others)
        for node in (cluster.gateway, cluster.manager, *cluster.workers):
            (text,) = node.inputs
            self.assertEqual(
                ['10.0.0.1', '10.0.0.9', '10.0.0.2', '10.0.0.77'],
                [line.split()[0] for line in text.splitlines()],
            )
        self.assertEqual([], others[1].inputs)

    def test_a_compute_cluster_has_the_places_of_all_data(self) -> None:
        """Its jobs read from hosts without a compute worker, too."""
        self.cluster = FakeCluster(shared=True)
        self.refresh(make_topology(rm='ng-d'))
        mismatches = topology_refresh.check(
            self.cluster, make_topology(rm='ng-d', c='ng-other')
        )
        self.assertEqual({'c', '10.0.0.1'}, {m.where for m in mismatches})

    def test_the_other_controller_must_answer_too(self) -> None:
        self.cluster = FakeCluster(separate=True)
        self.cluster.manager.answers = False
        self.assertRaises(
            errors.CommandError, self.refresh, make_topology(rm='ng-d')
        )

    def test_compute_beside_data_workers(self) -> None:
        """Neither is asked for the daemon that it does not have."""
        self.cluster.workers[1].role = 'data'
        self.cluster.workers[2].role = 'compute'
        self.refresh(make_topology())
        self.assertEqual({'10.0.0.2', '10.0.0.3'}, set(self.cluster.hdfs))
        self.assertEqual({'10.0.0.2', '10.0.0.4'}, set(self.cluster.yarn))
        self.assertEqual(
            [], topology_refresh.check(self.cluster, make_topology())
        )

    def test_controllers_that_wait_for_their_table(self) -> None:
        self.cluster = FakeCluster(separate=True)
        topology_refresh.provide_topology(
            self.cluster, make_topology(rm='ng-d'), 0
        )
        for node in (self.cluster.gateway, self.cluster.manager):
            self.assertIn('w2 /r1/ng-b', node.files[TABLE])
            # A reboot has ended the shell that waits for the table.
            self.assertEqual(f'{daemons.NODE} start', node.commands[-1])
        self.cluster.manager.answers = False
        failure = self.assertRaises(
            errors.DeadlineExceededError,
            topology_refresh.provide_topology,
            self.cluster,
            make_topology(rm='ng-d'),
            0,
        )
        self.assertIn('rm to answer', str(failure))

    def test_without_node_groups(self) -> None:
        """HDFS has everybody where its template put them."""
        self.cluster.net = 'none'
        self.cluster.gateway.files[TABLE] = ''.join(
            f'{node.address} /default-rack\n' for node in self.cluster.workers
        )
        self.cluster.join()
        self.refresh(make_topology())
        self.assertEqual({'/r1'}, set(self.cluster.hdfs.values()))
        self.assertEqual({'/r1'}, set(self.cluster.yarn.values()))


class CheckTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cluster = FakeCluster(replicas=('10.0.0.2', '10.0.0.3'))
        topology_refresh.refresh(self.cluster, make_topology(), timeout=0)

    def test_clean(self) -> None:
        self.assertEqual(
            [], topology_refresh.check(self.cluster, make_topology())
        )

    def test_two_replicas_on_one_host(self) -> None:
        self.cluster.replicas = ('10.0.0.3', '10.0.0.4')
        self.assertEqual(
            [
                Mismatch(
                    'block',
                    '/f blk_7',
                    'w1 and w2 on ng-b',
                    'hosts of their own',
                )
            ],
            topology_refresh.check(self.cluster, make_topology()),
        )

    def test_a_node_that_moved(self) -> None:
        """Every table, HDFS and YARN are named, and the block's new hosts."""
        mismatches = topology_refresh.check(
            self.cluster, make_topology(w1='ng-a')
        )
        self.assertEqual(
            {'table on c', 'table on w0', 'HDFS', 'YARN', 'block'},
            {mismatch.source for mismatch in mismatches}
            - {'table on w1', 'table on w2'},
        )
        self.assertIn(
            Mismatch('HDFS', 'w1', '/r1/ng-b', '/r1/ng-a'), mismatches
        )

    def test_tables_alone(self) -> None:
        """Daemons that wait for them are not asked."""
        for node in (self.cluster.gateway, *self.cluster.workers):
            node.commands.clear()
        mismatches = topology_refresh.check(
            self.cluster, make_topology(w1='ng-a'), tables_only=True
        )
        self.assertEqual(
            {f'table on {name}' for name in ('c', 'w0', 'w1', 'w2')},
            {mismatch.source for mismatch in mismatches},
        )
        commands = ' '.join(self.cluster.gateway.commands)
        self.assertNotIn('9870', commands)
        self.assertNotIn('fsck', commands)

    def test_one_worker_s_table(self) -> None:
        self.cluster.workers[2].files[TABLE] = 'w0 /r1/ng-x\n'
        mismatches = topology_refresh.check(self.cluster, make_topology())
        self.assertEqual(
            {'table on w2'}, {mismatch.source for mismatch in mismatches}
        )
        self.assertEqual(6, len(mismatches))

    def test_workers_without_a_table(self) -> None:
        """Heat cannot tell workers where the others are."""
        for worker in self.cluster.workers[:2]:
            del worker.files[TABLE]
        self.assertEqual(
            [
                Mismatch(
                    f'table on {name}',
                    'all nodes',
                    topology_refresh.NO_TABLE,
                    'their paths',
                )
                for name in ('w0', 'w1')
            ],
            topology_refresh.check(self.cluster, make_topology()),
        )

    def test_a_controller_s_own_line_is_no_matter(self) -> None:
        self.assertEqual(
            [], topology_refresh.check(self.cluster, make_topology(c='ng-z'))
        )
        self.assertNotEqual(
            [],
            topology_refresh.check(
                self.cluster, make_topology(c='ng-a', w1='ng-b')
            ),
        )

    def test_a_dead_worker(self) -> None:
        self.cluster.workers[0].answers = False
        mismatches = topology_refresh.check(self.cluster, make_topology())
        self.assertEqual(
            ['node', 'HDFS', 'YARN'],
            [mismatch.source for mismatch in mismatches],
        )
        self.assertEqual({'w0'}, {mismatch.where for mismatch in mismatches})
