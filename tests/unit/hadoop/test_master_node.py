# SPDX-License-Identifier: Apache-2.0
"""ApplicationMasters on the controller: its NodeManager, label and waits."""

import json
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import shell_scripts
from hvstack.hadoop import daemons, master_node, site_files, tuning_profiles
from hvstack.hadoop.properties import MAPRED, YARN
from hvstack.hadoop.sizing import size_node
from tests.unit.cluster.fake import FakeCluster, FakeNode
from tests.unit.hadoop.test_site_files import parse_properties

#: Properties that the NodeManager of the controller has otherwise.
MEMORY = 'yarn.nodemanager.resource.memory-mb'
PROVIDER = 'yarn.nodemanager.node-labels.provider'


def read_fields(message: bytes) -> dict[int, Any]:
    """Return the fields of a message of Protocol Buffers by number.

    Lengths and numbers are below 128.
    """
    values: dict[int, Any] = {}
    rest = list(message)
    while rest:
        number, wire_type = rest[0] >> 3, rest[0] & 7
        if wire_type == 0:
            values[number], rest = rest[1], rest[2:]
        else:
            end = 2 + rest[1]
            values[number], rest = bytes(rest[2:end]), rest[end:]
    return values


def render(tuning: str, name: str) -> dict[str, str]:
    """Return the properties in a site file of a tuning profile."""
    files = site_files.render_site_files(
        size_node(2, 4096, tuning=tuning, controller_mib=16384), tuning=tuning
    )
    return parse_properties(files[name])


class SiteFilesTest(testtools.TestCase):
    def test_jobs_ask_for_the_label(self) -> None:
        for tuning in ('hvstack', 'lab'):
            mapred = render(tuning, MAPRED)
            self.assertEqual(master_node.LABEL, mapred[master_node.EXPRESSION])
            # No task asks for a label, on whatever nodes the files are.
            labels = [name for name in mapred if 'label' in name]
            self.assertEqual([master_node.EXPRESSION], labels)

    def test_the_queue_may_use_the_label(self) -> None:
        yarn = render('hvstack', YARN)
        queue = 'yarn.scheduler.capacity.root.default.accessible-node-labels'
        self.assertEqual(master_node.LABEL, yarn[queue])
        self.assertEqual('100', yarn[f'{queue}.{master_node.LABEL}.capacity'])
        self.assertEqual('true', yarn['yarn.node-labels.enabled'])
        self.assertEqual(
            f'file://{master_node.STORE}',
            yarn['yarn.node-labels.fs-store.root-dir'],
        )
        # A worker has no label.
        self.assertNotIn(PROVIDER, yarn)

    def test_the_largest_container_fits_the_controller(self) -> None:
        largest = render('hvstack', YARN)[
            'yarn.scheduler.maximum-allocation-mb'
        ]
        sizing = size_node(2, 4096, controller_mib=16384)
        self.assertEqual(str(sizing.master_node_mib), largest)
        self.assertGreater(sizing.master_node_mib, sizing.yarn_mib)

    def test_all_parts_of_a_profile_agree(self) -> None:
        for tuning in tuning_profiles.list_names():
            sizing = size_node(8, 16384, tuning=tuning, controller_mib=16384)
            names = {*render(tuning, MAPRED), *render(tuning, YARN)}
            self.assertEqual(
                sizing.has_master_node,
                any('label' in name for name in names),
                tuning,
            )
            self.assertEqual(
                sizing.has_master_node,
                'nodemanager' in site_files.list_manager_roles(sizing),
            )
            self.assertEqual(
                sizing.has_master_node, bool(master_node.render_setup(sizing))
            )

    def test_the_heap_fits_into_the_container(self) -> None:
        for tuning in tuning_profiles.list_names():
            job = render(tuning, MAPRED)
            options = job['yarn.app.mapreduce.am.command-opts']
            (heap,) = re.findall(r'-Xmx(\d+)m', options)
            container = int(job['yarn.app.mapreduce.am.resource.mb'])
            self.assertLessEqual(int(heap), 0.8 * container, tuning)

    def test_only_papers_with_yarn_have_masters_on_workers(self) -> None:
        """The others have a JobTracker, which is on the controller."""
        for tuning in tuning_profiles.list_names():
            sizing = size_node(8, 16384, tuning=tuning, controller_mib=16384)
            self.assertEqual(
                tuning not in ('vsan', 'stock'),
                sizing.has_master_node,
                tuning,
            )


class SetupTest(testtools.TestCase):
    """The shell program, with the directories of a test."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.store = self.directory / 'labels'
        self.site = self.directory / YARN
        files = site_files.render_site_files(size_node(2, 4096))
        self.before = files[YARN]
        self.site.write_text(self.before)

    def run_program(self, shell: str = 'sh') -> None:
        program = shell_scripts.render(
            'master-node', self.directory, self.store, master_node.LABEL, 4711
        )
        subprocess.run([shell, '-c', program], check=True)

    def test_only_the_controller_has_the_label(self) -> None:
        self.run_program()
        before, after = map(
            parse_properties, (self.before, self.site.read_text())
        )
        self.assertEqual(
            {
                MEMORY: '4711',
                PROVIDER: 'config',
                f'{PROVIDER}.configured-node-partition': master_node.LABEL,
            },
            {
                name: value
                for name, value in after.items()
                if before.get(name) != value
            },
        )

    def test_twice_is_once(self) -> None:
        self.run_program()
        first = self.site.read_text()
        (self.store / 'nodelabel.mirror').write_text('of the ResourceManager')
        self.run_program('bash')
        self.assertEqual(first, self.site.read_text())
        # It may have more labels meanwhile.
        self.assertEqual(
            'of the ResourceManager',
            (self.store / 'nodelabel.mirror').read_text(),
        )

    def test_the_label_is_exclusive(self) -> None:
        """A length, and AddToClusterNodeLabelsRequestProto of Hadoop 3.5."""
        for shell in ('sh', 'bash'):
            self.run_program(shell)
            mirror = self.store / 'nodelabel.mirror'
            message = mirror.read_bytes()
            self.assertEqual(len(message) - 1, message[0])
            label = read_fields(read_fields(message[1:])[2])
            self.assertEqual({1: master_node.LABEL.encode(), 2: 1}, label)
            mirror.unlink()


@dataclass
class LabelledCluster(FakeCluster):
    """A cluster whose jobs ask for the label.

    :param nodes: further answers of the ResourceManager about NodeManagers.
    """

    nodes: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        files = site_files.render_site_files(size_node(2, 4096))
        self.manager.files[f'{site_files.CONF}/{MAPRED}'] = files[MAPRED]

    def answer(self, node: FakeNode, command: str) -> str:
        text = super().answer(node, command)
        if '/ws/v1/cluster/nodes' not in command:
            return text
        document = json.loads(text)
        nodes = (document['nodes'] or {}).get('node') or []
        return json.dumps({'nodes': {'node': [*nodes, *self.nodes]}})


class WaitTest(testtools.TestCase):
    def missing(self, separate: bool = False, **node: Any) -> list[str]:
        """Return the unmet conditions with one NodeManager more."""
        cluster = LabelledCluster(separate=separate)
        cluster.gateway.files[site_files.TABLE] = ''.join(
            f'{worker.address} /rack1/ng-a\n' for worker in cluster.workers
        )
        if node:
            cluster.nodes = [{'state': 'RUNNING', **node}]
        return daemons.find_unmet_conditions(cluster)

    def test_the_controllers_is_waited_for(self) -> None:
        self.assertEqual(['c in YARN'], self.missing())
        self.assertEqual(
            [], self.missing(nodeHostName='10.0.0.1', nodeLabels=['am'])
        )
        # Hadoop 3.5 may write a list of one as its element.
        self.assertEqual(
            [], self.missing(nodeHostName='10.0.0.1', nodeLabels='am')
        )

    def test_it_needs_its_label(self) -> None:
        for fields in ({}, {'nodeLabels': None}, {'nodeLabels': ['x']}):
            self.assertEqual(
                ['c in YARN'], self.missing(nodeHostName='10.0.0.1', **fields)
            )
        for name, fields in (
            ('10.0.0.7', {'nodeLabels': ['am']}),
            ('10.0.0.1', {'nodeLabels': ['am'], 'state': 'LOST'}),
        ):
            self.assertEqual(
                ['c in YARN'], self.missing(nodeHostName=name, **fields)
            )

    def test_separate_controllers(self) -> None:
        """The NameNode's has no NodeManager."""
        labels = {'nodeLabels': ['am']}
        self.assertEqual(
            ['rm in YARN'],
            self.missing(True, nodeHostName='10.0.0.1', **labels),
        )
        self.assertEqual(
            [], self.missing(True, nodeHostName='10.0.0.9', **labels)
        )

    def test_fact(self) -> None:
        self.assertEqual('controller', master_node.locate(LabelledCluster()))
        # A cluster of a paper's profile, or not of hvstack.
        self.assertEqual('workers', master_node.locate(FakeCluster()))
        cluster = FakeCluster()
        files = site_files.render_site_files(
            size_node(8, 16384, tuning='vsan'), tuning='vsan'
        )
        cluster.manager.files[f'{site_files.CONF}/{MAPRED}'] = files[MAPRED]
        self.assertEqual('workers', master_node.locate(cluster))

    def test_unused_label_is_not_waited_for(self) -> None:
        cluster = FakeCluster()
        cluster.gateway.files[site_files.TABLE] = ''.join(
            f'{worker.address} /rack1/ng-a\n' for worker in cluster.workers
        )
        self.assertEqual([], daemons.find_unmet_conditions(cluster))
