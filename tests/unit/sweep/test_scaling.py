# SPDX-License-Identifier: Apache-2.0
"""A workload's cluster loses a compute worker: ssh, Heat and Nova are fake."""

import io
import re
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import conf, errors, processutils
from hvstack.cloud import connection, journal, stacks
from hvstack.cluster.plan import ClusterSpec
from hvstack.cluster.ssh import SSHAccess
from hvstack.cluster.stack import StackCluster
from hvstack.model.configuration import parse
from hvstack.rally_plugins import scaling, task_state
from hvstack.rally_plugins.workload_args import parse_args
from tests.unit.cloud import fake
from tests.unit.cloud.test_host_keys import key
from tests.unit.cloud.test_stack_updates import URL, group, stack
from tests.unit.cluster.fake import FakeCluster, FakeNode
from tests.unit.cluster.test_launch import vsan_plan

PARAMETERS = {'removed_workers': '', 'removed_compute': ''}


class ScalingTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        for name, value in (
            ('cloud.stacks._INTERVAL', 0.0),
            ('cloud.keypairs.DIRECTORY', self.directory),
            ('cloud.host_keys.DIRECTORY', self.directory),
            ('processutils.run', self.run_ssh),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.{name}', value))
        self.cloud = self.useFixture(fake.FakeCloud())
        self.hadoop = FakeCluster(('w0', 'k0', 'k1'))
        for node, role in zip(
            self.hadoop.workers, ('data', 'compute', 'compute'), strict=True
        ):
            node.role = role
        self.serve_stack()
        self.state = task_state.TaskState(
            self.cloud.connect(), self.cloud.connect(), conf.load(())
        )
        self.state.progress.stream = io.StringIO()
        self.cluster = StackCluster.from_outputs(
            self.outputs, SSHAccess(Path('key')), name='hv-x', processors=1
        )
        self.addCleanup(self.cluster.close)
        self.state.cluster = self.cluster

    def run_ssh(self, argv: list[str], **options: Any) -> processutils.Result:
        """Run a command on the node to which ssh would connect."""
        if argv[0] != 'ssh' or '-O' in argv:
            return processutils.Result(0, '', '')
        address, command = argv[-2].removeprefix('root@'), argv[-1]
        (node,) = [
            node
            for node in (self.hadoop.gateway, *self.hadoop.workers)
            if node.address == address
        ]
        if match := re.search(r'cat >(\S+)\.new', command):
            node.put(options['stdin'], match[1])
            return processutils.Result(0, '', '')
        result = node.run(command, check=False)
        # An excluded worker has left at the second answer.
        for name, state in self.hadoop.states.items():
            if state == 'DECOMMISSIONING' and 'cluster/nodes' in command:
                self.hadoop.states[name] = 'DECOMMISSIONED'
        return result

    @property
    def outputs(self) -> dict[str, Any]:
        nodes = {
            node.name: {
                'name': node.name,
                'address': node.address,
                'server_id': f'id-{node.name}',
                'host_key': key('a'),
            }
            for node in (self.hadoop.gateway, *self.hadoop.workers)
        }
        return {
            'controller': nodes['c'],
            'workers': [nodes['w0']],
            'compute': [
                nodes[node.name]
                for node in self.hadoop.workers
                if node.role == 'compute'
            ],
        }

    def show_stack(self, status: str, updated: str | None) -> dict[str, Any]:
        return stack(
            status,
            updated,
            parameters=PARAMETERS,
            outputs=[
                {'output_key': name, 'output_value': value}
                for name, value in self.outputs.items()
            ],
        )

    def serve_stack(self) -> None:
        """Have Nova and Heat show the cluster, and Heat take an update."""
        http = self.cloud.http
        names = {'c': 'h0', 'w0': 'h1', 'k0': 'h1', 'k1': 'h2'}
        servers = [
            {
                'id': f'id-{name}',
                'hostId': host,
                'OS-EXT-AZ:availability_zone': 'nova',
            }
            for name, host in names.items()
        ]
        http.get(f'{fake.NOVA}/servers/detail', json={'servers': servers})
        updated: list[str] = []

        def show(*_: Any) -> dict[str, Any]:
            if updated:
                return self.show_stack('UPDATE_COMPLETE', 'now')
            return self.show_stack('CREATE_COMPLETE', None)

        def update(request: Any, *_: Any) -> dict[str, Any]:
            updated.append('now')
            index = request.json()['parameters']['removed_compute']
            self.hadoop.workers = [
                node
                for node in self.hadoop.workers
                if node.name != f'k{index}'
            ]
            return {}

        for name in ('hv-x', 's1'):
            http.get(f'{URL}/{name}', json=show)
        rows = [*group('workers', 0), *group('compute', 0, 1)]
        for row in rows:
            for group_name, prefix in (('workers', 'w'), ('compute', 'k')):
                row['physical_resource_id'] = re.sub(
                    rf'^{group_name}(\d)$',
                    rf'id-{prefix}\1',
                    row['physical_resource_id'],
                )
        http.get(f'{URL}/hv-x/s1/resources', json={'resources': rows})
        self.update_mock = http.patch(
            f'{URL}/hv-x/s1', json=update, status_code=202
        )

    def test_a_compute_worker_goes(self) -> None:
        changed = scaling.resize(self.state, 1, 60)
        self.addCleanup(changed.close)
        self.assertIs(self.state.cluster, changed)
        parameters = self.update_mock.last_request.json()['parameters']
        self.assertEqual(1, parameters['compute_count'])
        (name,) = {'k0', 'k1'} - {node.name for node in changed.workers}
        self.assertEqual(parameters['removed_compute'], name[1])
        self.assertEqual(
            ['data', 'compute'], [node.role for node in changed.workers]
        )
        # The sorts that still run use the connections of the old cluster.
        assert self.cluster.directory is not None
        self.assertTrue(self.cluster.directory.exists())
        self.assertNotEqual(self.cluster.directory, changed.directory)

    def plan(self, **setup: Any) -> Any:
        args = parse_args(
            {
                'sweep': 's',
                'configuration': 'i2',
                'sizes': [10**8],
                'setup': setup,
            }
        )
        return scaling.plan_scaling(self.state, args)

    def plan_second(self, **setup: Any) -> Any:
        args = parse_args(
            {
                'sweep': 's',
                'configuration': 'i2',
                'sizes': [10**8],
                'setup': setup,
            }
        )
        return scaling.plan_second_cluster(self.state, args)

    def test_a_second_cluster(self) -> None:
        """Its stack is deleted, whether it was of use or not."""
        self.assertIsNone(self.plan_second(deployment=3))
        self.state.plan = vsan_plan(ClusterSpec(parse('i4')))
        spec = self.plan_second(deployment=3, second_cluster=1)
        name = 'hv-x-second'
        other = journal.note(stacks.KIND, {'name': 'hv-x'}, 'here')
        failing = [False]

        def create(tenant: Any, plan: Any, *_: Any) -> StackCluster:
            self.assertEqual('hv-x', plan.stack.key_name)
            journal.note(
                stacks.KIND,
                {'name': name, 'id': 's9'},
                connection.scope(tenant),
            )
            if failing[0]:
                raise errors.CloudError('Heat refused.')
            return StackCluster.from_outputs(
                self.outputs, SSHAccess(Path('key')), name=name, processors=1
            ).with_hdfs(self.cluster)

        for attribute, value in (
            ('create', create),
            ('plan_on_hdfs', lambda _, plan, *__: plan),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'hvstack.cluster.compute_cluster.{attribute}', value
                )
            )
        looked = self.cloud.http.get(
            re.compile(rf'{URL}\?.*name={name}'), json={'stacks': []}
        )
        with spec.create(self.cluster) as second:
            # Its jobs start on its own controller.
            self.assertEqual('controller', second.gateway.role)
            self.assertIs(second.gateway, second.manager)
            self.assertEqual(0, looked.call_count)
            self.assertEqual(2, len(journal.entries()))
        self.assertGreater(looked.call_count, 0)
        self.assertEqual([other], journal.entries())
        failing[0] = True
        with (
            testtools.ExpectedException(errors.CloudError, 'Heat refused.'),
            spec.create(self.cluster),
        ):
            self.fail('it was created')
        self.assertEqual([other], journal.entries())

    def test_only_what_was_requested(self) -> None:
        self.assertIsNone(self.plan())
        spec = self.plan(deployment=3, scaled_compute=1)
        self.assertEqual(1, spec.workers)
        spec.release(self.cluster)
        assert self.cluster.directory is not None
        self.assertFalse(self.cluster.directory.exists())
        self.state.cluster = None
        self.assertIsNone(self.plan(deployment=3, scaled_compute=1))
        self.assertRaises(errors.InputError, scaling.resize, self.state, 1, 60)
        self.assertIsInstance(self.hadoop.gateway, FakeNode)
