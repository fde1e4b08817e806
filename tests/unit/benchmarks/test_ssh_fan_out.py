# SPDX-License-Identifier: Apache-2.0
"""The nodes and the verdict of the benchmark of ssh connections."""

import contextlib
import io
import json
from pathlib import Path

import fixtures
import testtools

from hvstack.cluster import topology_refresh
from tests.unit.benchmarks import load

ssh_fan_out = load('ssh_fan_out')
Size = load('growth_results').Size


class NodesTest(testtools.TestCase):
    def test_workers_have_places_of_their_own(self) -> None:
        nodes = ssh_fan_out.create_nodes(Size(640))
        self.assertEqual(642, len({node.address for node in nodes}))
        self.assertEqual(
            ['controller', 'controller', 'worker'],
            [node.role for node in nodes[:3]],
        )
        workers = nodes[2:]
        self.assertEqual(32, len({node.host for node in workers}))
        self.assertEqual('host0', workers[19].host)
        self.assertEqual('host1', workers[20].host)

    def test_answers_are_those_of_all_workers(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        nodes = ssh_fan_out.create_nodes(Size(3))
        topology = topology_refresh.of_nodes(nodes)
        ssh_fan_out.write_answers(directory, nodes, topology)
        (bean,) = json.loads((directory / 'hdfs.json').read_text())['beans']
        live = json.loads(bean['LiveNodes'])
        self.assertEqual(['node2', 'node3', 'node4'], sorted(live))
        paths = topology.map_paths(node_groups=True)
        self.assertEqual(paths['127.1.0.3'], live['node2']['location'])
        running = json.loads((directory / 'yarn.json').read_text())
        self.assertEqual(3, len(running['nodes']['node']))


class TableTest(testtools.TestCase):
    def print_table(self, exponent: float) -> tuple[bool, str]:
        sizes = [Size(40), Size(160)]
        rows = [
            {
                stage: {
                    'seconds': float(size.servers) ** exponent,
                    'cpu_seconds': float(size.servers),
                    'mib': float(size.servers) ** 2,
                }
                for stage in ssh_fan_out.STAGES
            }
            for size in sizes
        ]
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            is_missed = ssh_fan_out.print_table(sizes, rows)
        return is_missed, out.getvalue()

    def test_time_in_proportion_to_nodes_meets_the_goal(self) -> None:
        is_missed, text = self.print_table(1.0)
        self.assertFalse(is_missed)
        self.assertIn('1.00', text)

    def test_square_of_the_nodes_misses_the_goal(self) -> None:
        is_missed, text = self.print_table(2.0)
        self.assertTrue(is_missed)
        self.assertIn('2.00', text)
