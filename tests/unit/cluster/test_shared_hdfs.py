# SPDX-License-Identifier: Apache-2.0
"""Compute clusters on the HDFS of another stack."""

from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors
from hvstack.cluster import shared_hdfs, topology_refresh
from hvstack.cluster.plan import SharedHDFS
from hvstack.cluster.ssh import SSHAccess
from hvstack.cluster.stack import StackCluster
from hvstack.model.topology import Topology
from tests.unit.cloud import fake

HEAT = f'{fake.HEAT}/stacks'
#: Hosts of the servers by server ID.
HOSTS = {'c': 'hc', 'w0': 'ha', 'w1': 'hb', 'p': 'ha', 'q0': 'hb', 'q1': 'hz'}


def node(name: str) -> dict[str, str]:
    """Return a node of the outputs."""
    return {
        'name': name,
        'address': f'10.0.0.{list(HOSTS).index(name) + 1}',
        'server_id': name,
        'host_id': HOSTS[name],
    }


FIRST: dict[str, Any] = {
    'controller': node('c'),
    'workers': [node('w0'), node('w1')],
    'configuration': {'workers_per_host': 1},
    'hdfs': {
        'stack': 's1',
        'namenode_address': '10.0.0.1',
        'namenode_port': 8020,
        'security_group': 'g1',
        'network': 'provider',
        'image': 'hvstack-hadoop',
        'node_groups': True,
    },
}
SECOND: dict[str, Any] = {
    'controller': node('p'),
    'compute': [node('q0'), node('q1')],
    'hdfs_stack': 's1',
}
HDFS = SharedHDFS(
    stack_id='s1',
    address='10.0.0.1',
    port=8020,
    security_group='g1',
    image='hvstack-hadoop',
    network='provider',
    replication=2,
    worker_hosts=2,
    deployment=3,
)


def have_stack(
    cloud: fake.FakeCloud,
    name: str,
    stack_id: str,
    outputs: dict[str, Any],
    status: str = 'CREATE_COMPLETE',
) -> None:
    """Let Heat have a stack, by its name and its ID."""
    site = '<name>dfs.replication</name><value>2</value>'
    stack = {
        'id': stack_id,
        'stack_name': name,
        'stack_status': status,
        'parameters': {'hdfs_site': site},
        'outputs': [
            {'output_key': key, 'output_value': value}
            for key, value in outputs.items()
        ],
        'links': [],
    }
    for key in (name, stack_id):
        cloud.http.get(f'{HEAT}/{key}', json={'stack': stack})


def have_rules(cloud: fake.FakeCloud, *descriptions: str | None) -> None:
    """Let the security group of the first stack have rules."""
    cloud.http.get(
        f'{fake.NEUTRON}/security-group-rules?security_group_id=g1',
        json={
            'security_group_rules': [
                {'id': str(index), 'description': description}
                for index, description in enumerate(descriptions)
            ]
        },
    )


class SharedHDFSTest(testtools.TestCase):
    """A stack with an HDFS, a compute cluster, and a rule for it."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(
            fake.FakeCloud(
                services={'network': fake.NEUTRON, 'image': fake.GLANCE}
            )
        )
        self.cloud.resources()
        have_stack(self.cloud, 'first', 's1', FIRST)
        have_stack(self.cloud, 'second', 's2', SECOND)
        have_rules(self.cloud, None, 'mine', *['hvstack stack s2'] * 3)
        self.have_servers()
        self.conn = self.cloud.connect()

    def have_servers(self, **zones: str) -> None:
        """Let Nova have the servers, all but these in one zone."""
        rows = [
            {
                'id': name,
                'hostId': host,
                'OS-EXT-AZ:availability_zone': zones.get(name, 'nova'),
            }
            for name, host in HOSTS.items()
        ]
        self.cloud.http.get(
            f'{fake.NOVA}/servers/detail', json={'servers': rows}
        )
        self.cloud.http.get(
            f'{fake.NOVA}/servers/c',
            json={'server': {'id': 'c', 'image': {'id': 'i1'}}},
        )


class FindTest(SharedHDFSTest):
    def test_compute_clusters(self) -> None:
        for outputs, names in ((FIRST, ['second']), (SECOND, []), ({}, [])):
            self.assertEqual(
                names, shared_hdfs.list_compute_clusters(self.conn, outputs)
            )

    def test_a_rule_that_remained(self) -> None:
        self.cloud.http.get(f'{HEAT}/s2', status_code=404)
        self.assertEqual(
            [], shared_hdfs.list_compute_clusters(self.conn, FIRST)
        )

    def test_the_stack_with_the_hdfs(self) -> None:
        stack = shared_hdfs.find_hdfs_stack(self.conn, SECOND)
        self.assertEqual(('first', FIRST), (stack.name, stack.outputs))
        self.cloud.http.get(f'{HEAT}/s1', status_code=404)
        failure = self.assertRaises(
            errors.CloudError, shared_hdfs.find_hdfs_stack, self.conn, SECOND
        )
        self.assertIn("HDFS of stack 's1'", str(failure))

    def test_deletion(self) -> None:
        failure = self.assertRaises(
            errors.InputError, shared_hdfs.refuse_deletion, self.conn, 'first'
        )
        self.assertIn("'openstack stack delete second'", str(failure))
        shared_hdfs.refuse_deletion(self.conn, 'second')
        self.cloud.http.get(f'{HEAT}/no', status_code=404)
        shared_hdfs.refuse_deletion(self.conn, 'no')
        have_rules(self.cloud)
        shared_hdfs.refuse_deletion(self.conn, 'first')

    def test_commands_for_an_hdfs(self) -> None:
        shared_hdfs.refuse_compute_cluster('first', FIRST)
        failure = self.assertRaises(
            errors.InputError,
            shared_hdfs.refuse_compute_cluster,
            'second',
            SECOND,
        )
        self.assertIn("cluster 'second'", str(failure))


class CombineTest(SharedHDFSTest):
    def combine(self, outputs: dict[str, Any], text: str = '') -> Topology:
        """Return the topology of a stack and of those with the same HDFS."""
        path = None
        if text:
            directory = Path(self.useFixture(fixtures.TempDir()).path)
            path = directory / 'map.yaml'
            path.write_text(text)
        nodes = topology_refresh.nodes(self.conn, outputs, path)
        return shared_hdfs.combine(self.conn, outputs, nodes, path)

    def test_both_stacks_have_the_same_topology(self) -> None:
        expected = {
            '/rack1/ng-hc': ['c'],
            '/rack1/ng-ha': ['w0', 'p'],
            '/rack1/ng-hb': ['w1', 'q0'],
            # It has no node of the first stack, and no data.
            '/rack1/ng-hz': ['q1'],
        }
        for outputs in (FIRST, SECOND):
            self.assertEqual(expected, self.combine(outputs).groups)

    def test_zones(self) -> None:
        self.have_servers(w0='a', w1='b b', p='a', q0='b b', q1='z/z')
        paths = self.combine(SECOND).map_paths()
        self.assertEqual(
            ['/a/ng-ha', '/b-b/ng-hb', '/z-z/ng-hz'],
            [paths[name] for name in ('p', 'q0', 'q1')],
        )

    def test_a_map(self) -> None:
        lines = [f'{name}: {{host: {name}, rack: r{name}}}' for name in HOSTS]
        paths = self.combine(FIRST, '\n'.join(lines)).map_paths()
        self.assertEqual('/rq1/ng-q1', paths['q1'])
        self.assertEqual('/rw0/ng-w0', paths['w0'])
        # Each command with a map names the nodes of all these stacks.
        failure = self.assertRaises(
            errors.InputError, self.combine, FIRST, '\n'.join(lines[:-1])
        )
        self.assertIn("node 'q1'", str(failure))

    def test_a_compute_cluster_that_is_not_complete(self) -> None:
        have_stack(self.cloud, 'second', 's2', {}, 'CREATE_IN_PROGRESS')
        self.assertNotIn('q0', self.combine(FIRST).map_paths())


class ReadTest(SharedHDFSTest):
    def read(self, name: str = 'first', **request: Any) -> SharedHDFS:
        """Return the values for a compute cluster."""
        defaults = {'image': None, 'network': None, 'node_groups': True}
        return shared_hdfs.read(self.conn, name, **{**defaults, **request})

    def refused(self, name: str = 'first', **request: Any) -> str:
        failure = self.assertRaises(
            errors.InputError, self.read, name, **request
        )
        return str(failure)

    def test_values(self) -> None:
        self.assertEqual(HDFS, self.read())
        outputs = {**FIRST, 'configuration': {'workers_per_host': 2}}
        have_stack(self.cloud, 'first', 's1', outputs)
        self.assertEqual(4, self.read().deployment)

    def test_a_compute_cluster(self) -> None:
        self.assertIn('Use --hdfs-of s1', self.refused('second'))

    def test_a_stack_of_an_older_release(self) -> None:
        outputs = {key: FIRST[key] for key in FIRST if key != 'hdfs'}
        have_stack(self.cloud, 'first', 's1', outputs)
        self.assertIn("outputs lack 'hdfs'", self.refused())

    def test_a_stack_that_does_not_exist(self) -> None:
        self.cloud.http.get(f'{HEAT}/no', status_code=404)
        failure = self.assertRaises(errors.CloudError, self.read, 'no')
        self.assertIn("'no', which does not exist", str(failure))

    def test_another_image(self) -> None:
        self.cloud.http.get(f'{fake.GLANCE}/images/new', json={'id': 'i2'})
        self.assertIn('Use --image i1', self.refused(image='new'))
        self.cloud.http.get(f'{fake.GLANCE}/images/i1', json={'id': 'i1'})
        self.assertEqual('i1', self.read(image='i1').image)
        # Its name is now that of another image.
        self.cloud.http.get(
            f'{fake.GLANCE}/images/hvstack-hadoop', json={'id': 'i2'}
        )
        self.assertIn('Use --image i1', self.refused())

    def test_another_network(self) -> None:
        for network_id in ('n1', 'n2'):
            self.cloud.http.get(
                f'{fake.NEUTRON}/networks/{network_id}',
                json={'network': {'id': network_id, 'name': network_id}},
            )
        self.assertEqual('provider', self.read(network='n1').network)
        self.assertIn("not in 'n2'", self.refused(network='n2'))

    def test_node_groups(self) -> None:
        self.assertIn('Use --node-groups', self.refused(node_groups=False))
        hdfs = {**FIRST['hdfs'], 'node_groups': False}
        have_stack(self.cloud, 'first', 's1', {**FIRST, 'hdfs': hdfs})
        self.assertIn('Use --no-node-groups', self.refused())


class ClusterTest(testtools.TestCase):
    def test_a_compute_cluster(self) -> None:
        """HDFS is asked on the other controller, and YARN on its own."""
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cloud.host_keys.DIRECTORY', directory
            )
        )
        first, second = (
            StackCluster.from_outputs(
                outputs, SSHAccess(Path(key)), name=name, processors=1
            )
            for name, outputs, key in (
                ('first', FIRST, '/key1'),
                ('second', SECOND, '/key2'),
            )
        )
        cluster = second.with_hdfs(first)
        self.assertEqual(
            [
                ('c', 'shared-hdfs', '/key1', 'first'),
                ('p', 'controller', '/key2', 'second'),
                ('q0', 'compute', '/key2', 'second'),
                ('q1', 'compute', '/key2', 'second'),
            ],
            [
                (
                    item.name,
                    item.role,
                    str(item.key),
                    item.known_hosts.name,
                )
                for item in cluster.nodes
            ],
        )
        self.assertEqual('p', cluster.manager.name)
        directories = [item.directory for item in (first, cluster)]
        cluster.close()
        for path in directories:
            assert path is not None
            self.assertFalse(path.exists())
