# SPDX-License-Identifier: Apache-2.0
"""Daemons of nodes whose answers come from a real cluster's."""

import json
from dataclasses import dataclass, field
from typing import Any

import fixtures
import testtools

from hvstack import errors, processutils, shell_scripts
from hvstack.hadoop import daemons

LIVE = {
    '10.0.0.2:9866': {'xferaddr': '10.0.0.2:9866', 'capacity': 9},
    '10.0.0.3:9866': {'xferaddr': '10.0.0.3:9866', 'capacity': 9},
}


@dataclass
class Answering:
    """A node that answers the questions of its daemons' REST interfaces."""

    name: str
    address: str
    live: dict[str, object] = field(default_factory=lambda: dict(LIVE))
    states: dict[str, str] = field(
        default_factory=lambda: {'10.0.0.2': 'RUNNING', '10.0.0.3': 'RUNNING'}
    )
    safe_mode: str = ''
    cluster_id: str = 'CID-own'
    running: bool = True
    role: str = 'worker'
    #: Whether it runs once somebody has inspected it.
    late: bool = False
    files: dict[str, str] = field(default_factory=dict)

    def run(self, command: str, **_options: Any) -> processutils.Result:
        if command.endswith('/srv/hdfs/name/current/VERSION'):
            return processutils.Result(0, 'CID-own\n', '')
        if ':9870/jmx' in command:
            if not self.running:
                raise errors.CommandError(['wget'], 1, 'refused')
            bean = {
                'LiveNodes': json.dumps(self.live),
                'Safemode': self.safe_mode,
                'ClusterId': self.cluster_id,
            }
            return processutils.Result(0, json.dumps({'beans': [bean]}), '')
        if ':8088/ws/v1/cluster/nodes' in command:
            nodes = [
                {'nodeHostName': name, 'state': state}
                for name, state in self.states.items()
            ]
            text = json.dumps({'nodes': {'node': nodes} if nodes else None})
            return processutils.Result(0, text, '')
        if ':19888/' in command:
            return processutils.Result(0, '{"historyInfo": {}}', '')
        if command.endswith('node status'):
            state = 'running 7' if self.running else 'dead -'
            self.running = self.running or self.late
            return processutils.Result(0, f'namenode {state}\n', '')
        return processutils.Result(0, 'No such\nlast words', '')

    def put(self, text: str, path: str, mode: int = 0o644) -> None:
        self.files[path] = text


@dataclass
class Some:
    gateway: Answering
    workers: list[Answering]
    resourcemanager: Answering | None = None

    @property
    def manager(self) -> Answering:
        return self.resourcemanager or self.gateway


class DaemonsTest(testtools.TestCase):
    def cluster(self, **fields: object) -> Some:
        return Some(
            Answering('c', '10.0.0.1', **fields),  # type: ignore
            [Answering('w0', '10.0.0.2'), Answering('w1', '10.0.0.3')],
        )

    def test_all_there(self) -> None:
        self.assertEqual([], daemons.find_unmet_conditions(self.cluster()))

    def test_names_who_is_missing_where(self) -> None:
        for other in ({}, {'y': {'xferaddr': '10.0.0.3:9866', 'capacity': 0}}):
            live = {'x': {'xferaddr': '10.0.0.2:9866', 'capacity': 9}, **other}
            self.assertEqual(
                ['w1 in HDFS'],
                daemons.find_unmet_conditions(self.cluster(live=live)),
            )
        self.assertEqual(
            ['w0 in YARN', 'w1 in YARN'],
            daemons.find_unmet_conditions(
                self.cluster(states={'10.0.0.3': 'LOST'})
            ),
        )
        self.assertEqual(
            ['HDFS out of safe mode'],
            daemons.find_unmet_conditions(
                self.cluster(safe_mode='Safe mode is ON.')
            ),
        )

    def test_namenode_of_another_hadoop(self) -> None:
        """The jobs of a Hadoop that ran there before were killed."""
        daemons.check_namenode(self.cluster())
        error = self.assertRaises(
            errors.BusyError,
            daemons.check_namenode,
            self.cluster(cluster_id='CID-other'),
        )
        self.assertEqual(
            'Cannot use HDFS on c (10.0.0.1): another NameNode answers there, '
            "with the cluster ID 'CID-other' instead of 'CID-own'. Stop the "
            'other Hadoop.',
            str(error),
        )

    def test_separate_controllers(self) -> None:
        cluster = self.cluster(states={})
        cluster.resourcemanager = Answering('rm', '10.0.0.9', live={})
        self.assertEqual([], daemons.find_unmet_conditions(cluster))
        daemons.wait_ready(cluster, 5)
        self.assertIn(
            '/etc/hadoop/topology.table', cluster.resourcemanager.files
        )
        cluster.resourcemanager.states.clear()
        self.assertEqual(
            ['w0 in YARN', 'w1 in YARN'],
            daemons.find_unmet_conditions(cluster),
        )

    def test_data_and_compute_workers(self) -> None:
        cluster = self.cluster(live={}, states={})
        for node, role in zip(
            cluster.workers, ('data', 'compute'), strict=True
        ):
            node.role = role
        self.assertEqual(
            ['w0 in HDFS', 'w1 in YARN'],
            daemons.find_unmet_conditions(cluster),
        )

    def test_no_node_at_all(self) -> None:
        conditions = daemons.find_unmet_conditions(
            self.cluster(live={}, states={})
        )
        self.assertEqual(4, len(conditions))

    def test_time_out_names_the_worker(self) -> None:
        failure = self.assertRaises(
            errors.DeadlineExceededError,
            daemons.wait_ready,
            self.cluster(states={'10.0.0.2': 'RUNNING'}),
            -1,
        )
        self.assertIn('w1 in YARN', str(failure))
        self.assertIn('nodemanager of w1: No such last words', str(failure))

    def test_ready_hands_out_the_table(self) -> None:
        cluster = self.cluster()
        daemons.wait_ready(cluster, 5)
        for worker in cluster.workers:
            self.assertIn('/etc/hadoop/topology.table', worker.files)
        self.assertEqual({}, cluster.gateway.files)

    def test_dead(self) -> None:
        node = Answering('c', '10.0.0.1', running=False)
        self.assertEqual(['c: namenode'], daemons.find_dead_daemons([node]))

    def look_often(self) -> None:
        """Look at the daemons themselves each time, at once."""
        for name, value in (
            ('_POLLS_BEFORE_CHECK', 1),
            ('_INTERVAL_SECONDS', 0.0),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(f'hvstack.hadoop.daemons.{name}', value)
            )

    def test_a_controller_that_was_not_started_yet(self) -> None:
        self.look_often()
        cluster = self.cluster(running=False, late=True)
        daemons.wait_ready(cluster, 60)
        self.assertTrue(cluster.gateway.running)

    def test_dead_controller_is_not_waited_for(self) -> None:
        self.look_often()
        failure = self.assertRaises(
            errors.CommandError,
            daemons.wait_ready,
            self.cluster(running=False),
            60,
        )
        self.assertIn('dead: c: namenode', str(failure))
        self.assertIn('last words', str(failure))


class HostsFileTest(testtools.TestCase):
    """The script that names all members, run on a copy of a file."""

    def test_names_come_first_and_once(self) -> None:
        lines = '10.0.0.2 10.0.0.2 w0\n10.0.0.3 10.0.0.3 w1\n'
        script = (
            'f=$(mktemp); printf "127.0.0.1 localhost\\n10.0.0.2 w0\\n" >$f\n'
            + shell_scripts.load('hosts-file')
            .replace('/etc/hosts', '$f')
            .replace('$(cat)', f'"{lines.rstrip()}"')
        )
        once = script.split('f=$(mktemp)')[1].split('\n', 1)[1]
        result = processutils.run(
            ['sh', '-c', f'set -- 10.0.0.2\n{script}\n{once}\ncat $f; rm $f']
        )
        own = processutils.run(['hostname']).stdout.strip()
        host_lines = [
            line for line in result.stdout.splitlines() if own not in line
        ]
        self.assertEqual(
            [
                '10.0.0.2 10.0.0.2 w0',
                '10.0.0.3 10.0.0.3 w1',
                '127.0.0.1 localhost',
                '10.0.0.2 w0',
            ],
            [line for line in host_lines if line],
        )
