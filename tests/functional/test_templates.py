# SPDX-License-Identifier: Apache-2.0
"""The templates, as a member uses them with OpenStack's own client."""

import dataclasses
import itertools
import json
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import fixtures
import testtools
import yaml

from hvstack import conf, errors, profiles, shell
from hvstack.cloud import connection, flavors, keys, stacks, undo
from hvstack.cluster import environments
from hvstack.cluster.ssh import SSHNode
from hvstack.cluster.stack import StackCluster
from hvstack.hadoop import daemons
from hvstack.lab import clouds, identity, images
from hvstack.model.configuration import Configuration, parse
from hvstack.model.flavor import derive
from hvstack.progress import Progress
from tests.functional.test_cluster import LabTest

NAME = 'hv-test-templates'
HVSTACK = str(Path(sys.executable).with_name('hvstack'))
OPENSTACK = str(Path(sys.executable).with_name('openstack'))
MEMBER = {'OS_CLOUD': clouds.MEMBER_CLOUD}
#: What needs more than the member's network, or its own parameters.
_MORE: dict[str, dict[str, Any]] = {
    'network-new': {'external_network': 'provider'},
    'deployment-3': {'compute_count': 2, 'compute_env': 'x'},
    'deployment-4': {'compute_count': 2, 'compute_env': 'x'},
    'disk-pinning-on': {'volume_types': [['ceph']] * 20},
}


#: 100 MB of them are sorted.
_ROWS, _ROW_BYTES = 1_000_000, 100
_JOB_SECONDS = 600


def environment(name: str) -> Path:
    """Return one of the environment files."""
    return environments.folder() / 'environments' / f'{name}.yaml'


def published(
    admin: Any, tenant: Any, configuration: Configuration
) -> dict[str, str]:
    """Have a configuration's flavors for a tenant; return names by role."""
    project = str(tenant.current_project_id)
    return {
        role: flavors.publish(
            admin,
            derive(
                profiles.load(profile), configuration, role, cpu_shares=True
            ),
            [project],
        ).name
        for role, profile in (
            ('worker', 'lab-worker'),
            ('controller', 'lab-controller'),
        )
    }


def written(path: Path, names: Mapping[str, str], *words: str) -> Path:
    """Write what Heat's own client needs, as the member.

    :param names: of flavors, by role.
    """
    shell.run(
        [
            *(HVSTACK, 'cluster', 'environment', str(path)),
            *('--worker-flavor', names['worker']),
            *('--controller-flavor', names['controller'], *words),
        ],
        env=MEMBER,
    )
    return path


def created(name: str, path: Path) -> None:
    """Create a stack with Heat's own client, as the member."""
    shell.run(
        [
            *(OPENSTACK, 'stack', 'create', '--wait', '-e', str(path)),
            *('-e', str(environment('lab')), '-t'),
            *(str(environments.folder() / environments.TEMPLATE), name),
        ],
        env=MEMBER,
        timeout=900,
    )


def ready(
    test: testtools.TestCase, cluster: StackCluster, began: float
) -> None:
    """Wait for all workers; tell the seconds since the stack was begun."""
    daemons.wait_ready(cluster, 300)
    count = len(cluster.workers)
    text = (
        f'create to ready, 1 controller and {count} workers: '
        f'{time.monotonic() - began:.0f} s'
    )
    test.addDetail('create-to-ready', testtools.content.text_content(text))
    Progress().say(text)
    report = cluster.gateway.run('hdfs dfsadmin -report').stdout
    test.assertIn(f'Live datanodes ({count})', report)
    nodes = cluster.gateway.run('yarn node -list').stdout
    test.assertIsNotNone(re.search(f'Total Nodes: *{count}', nodes), nodes)


def sort(
    test: testtools.TestCase,
    cluster: StackCluster,
    rows: int = _ROWS,
    settings: str = '',
    timeout: float = _JOB_SECONDS,
) -> None:
    """Sort 100 MB, validated, from where clients are.

    :param rows: of 100 bytes, in place of as many as make 100 MB.
    :param settings: of Hadoop, as ``-D`` words, for each of the three jobs.
    :param timeout: seconds for each of them.
    """
    jar = '/opt/hadoop/hadoop-mapreduce-examples.jar'
    count = len(cluster.workers)
    for program, operands in (
        (f'teragen -Dmapreduce.job.maps={count}', f'{rows} /in'),
        (f'terasort -Dmapreduce.job.reduces={count}', '/in /out'),
        ('teravalidate', '/out /report'),
    ):
        # Of two values for one name, Hadoop takes the last.
        cluster.gateway.run(
            f'hadoop jar {jar} {program} {settings} {operands}',
            timeout=timeout,
        )
    report = cluster.gateway.run("hdfs dfs -cat '/report/part*'").stdout
    # It has a line for each record that is not in its place.
    test.assertEqual(1, len(report.strip().splitlines()), report)
    test.assertTrue(report.startswith('checksum'), report)
    # Beside them is the list of partitions.
    parts = cluster.gateway.run("hdfs dfs -du '/out/part-r-*'").stdout
    sizes = [int(line.split()[0]) for line in parts.splitlines()]
    test.assertEqual(rows * _ROW_BYTES, sum(sizes))


class TemplatesTest(LabTest):
    tenant: ClassVar[Any]
    base: Path

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        if os.environ.get('HVSTACK_LAB'):
            cls.tenant = connection.connect(clouds.MEMBER_CLOUD)

    def setUp(self) -> None:
        super().setUp()
        image = images.build('hadoop', Progress())
        images.upload(identity.connect(), image, 'lxc')
        self.addCleanup(self.undo_tenant)
        self.folder = Path(self.useFixture(fixtures.TempDir()).path)
        keys.create(self.tenant, NAME)
        self.flavors = published(self.conn, self.tenant, parse('i1'))

    def undo_tenant(self) -> None:
        undo.undo_own([self.conn, self.tenant])

    def environment(self, *words: str) -> Path:
        """Write what Heat's own client needs, as the member."""
        return written(
            self.folder / 'cluster.yaml',
            self.flavors,
            *('--key-name', NAME, '--hosts', '2', *words),
        )

    def preview(self, names: Sequence[str]) -> Any:
        """Have Heat check a combination of environment files."""
        content = self.tenant.orchestration.read_env_and_templates(
            template_file=str(environments.folder() / environments.TEMPLATE),
            environment_files=[
                str(one)
                for one in (self.base, *(environment(n) for n in names))
            ],
        )
        more: dict[str, Any] = {}
        for name in names:
            more |= _MORE.get(name, {})
        return self.tenant.orchestration.create_stack(
            preview=True, name=NAME, parameters=more, **content
        )

    def test_environment_files_combine(self) -> None:
        self.base = self.environment()
        storages = [
            ('storage-local',),
            ('storage-ceph',),
            ('storage-ceph', 'disk-pinning-on'),
        ]
        combined = {
            (controllers, *storage, deployment)
            for controllers, storage, deployment in itertools.product(
                ('controllers-combined', 'controllers-separate'),
                storages,
                [f'deployment-{number}' for number in range(1, 5)],
            )
        }
        known = {one.stem for one in environment('lab').parent.glob('*.yaml')}
        alone = known - {name for names in combined for name in names}
        volumes = self.tenant.has_service('block-storage')
        for names in [*sorted(combined), *((one,) for one in sorted(alone))]:
            # Heat does not take what there is no service for.
            if volumes or 'storage-ceph' not in names:
                self.assertTrue(self.preview(names), names)

    def create(self, path: Path) -> dict[str, Any]:
        """Create the stack with OpenStack's own client, return its outputs."""
        self.addCleanup(stacks.delete, self.tenant, NAME)
        created(NAME, path)
        return stacks.outputs(self.tenant, NAME)

    def test_plain_create(self) -> None:
        path = self.environment()
        began = time.monotonic()
        outputs = self.create(path)
        self.check_secrets(outputs)
        hosts = [one['host_id'] for one in outputs['workers']]
        self.assertEqual(2, len(hosts))
        self.assertEqual(2, len(set(hosts)))
        self.assertIn('dfsadmin -report', outputs['readiness'])
        self.assertEqual('shared', outputs['configuration']['cpu_policy'])
        with StackCluster.from_outputs(
            outputs, keys.FOLDER / NAME, name=NAME, processors=2
        ) as cluster:
            ready(self, cluster, began)
            sort(self, cluster)
        stacks.delete(self.tenant, NAME)
        self.assertEqual([], list(self.tenant.compute.servers()))

    def test_readiness_and_gateway(self) -> None:
        """A complete stack is one whose nodes run, seen from a client's."""
        outputs = self.create(
            self.environment('--workers', '1', '--readiness', '--gateway')
        )
        self.assertIn('every node said', outputs['readiness'])
        self.check_signals(outputs)
        worker, client = *outputs['workers'], outputs['gateway']
        self.assertNotEqual(worker['host_id'], client['host_id'])
        self.assertEqual(f'ssh root@{client["address"]}', outputs['ssh'])
        with StackCluster.from_outputs(
            outputs, keys.FOLDER / NAME, name=NAME, processors=2
        ) as cluster:
            assert isinstance(cluster.gateway, SSHNode)
            gateway = dataclasses.replace(
                cluster.gateway,
                name=client['name'],
                address=client['address'],
                role='gateway',
            )
            # It tells Heat nothing, having no daemons.
            shell.wait_for(
                lambda: not gateway.run('true', check=False).returncode,
                'the gateway to answer',
                timeout=120,
            )
            # At once: nobody waits for daemons any more.
            report = gateway.run('hdfs dfsadmin -report').stdout
            self.assertIn('Live datanodes (1)', report)
            nodes = gateway.run('yarn node -list').stdout
            self.assertIsNotNone(re.search('Total Nodes: *1', nodes), nodes)
            running = gateway.run('ls /run/hadoop/*.pid', check=False)
            self.assertEqual('', running.stdout)
            gateway.close()
        stacks.delete(self.tenant, NAME)
        self.assertEqual([], list(self.tenant.compute.servers()))

    def check_signals(self, outputs: dict[str, Any]) -> None:
        """Each node with daemons has said so, and nobody shows the URL."""
        (stack,) = self.tenant.orchestration.stacks(name=NAME)

        def asked(path: str) -> Any:
            return self.tenant.orchestration.get(
                f'/stacks/{NAME}/{stack.id}{path}', raise_exc=True
            ).json()

        handle = asked('/resources/ready_handle')['resource']
        said = asked('/resources/ready_handle/metadata')['metadata']
        self.assertEqual({f'{NAME}-controller', f'{NAME}-worker-0'}, set(said))
        self.assertEqual({'SUCCESS'}, {one['status'] for one in said.values()})
        ready = asked('/resources/ready')['resource']
        self.assertEqual('CREATE_COMPLETE', ready['resource_status'])
        url = json.loads(handle['attributes']['signal'])['alarm_url']
        secret = url.rpartition('Signature=')[2]
        self.assertTrue(secret)
        for shown in (
            outputs,
            asked('')['stack']['parameters'],
            asked('/events?nested_depth=5'),
            asked('/resources/files')['resource'],
            asked('/resources/controller_files')['resource'],
        ):
            self.assertNotIn(secret, json.dumps(shown))

    def check_secrets(self, outputs: dict[str, Any]) -> None:
        """Neither outputs nor events have a password or a private key."""
        (stack,) = self.tenant.orchestration.stacks(name=NAME)
        events = self.tenant.orchestration.get(
            f'/stacks/{NAME}/{stack.id}/events?nested_depth=5',
            raise_exc=True,
        ).text
        self.assertIn('CREATE_COMPLETE', events)
        key = (keys.FOLDER / NAME).read_text().splitlines()[1]
        known = [one['auth']['password'] for one in clouds.entries().values()]
        for secret in (key, *known):
            self.assertNotIn(secret, events)
            self.assertNotIn(secret, json.dumps(outputs))

    def test_what_failed_is_shown(self) -> None:
        """One worker on a host, and two hosts: a third one fails."""
        content = yaml.safe_load(self.environment().read_text())
        content['parameters']['worker_count'] = 3
        path = self.folder / 'cluster.yaml'
        path.write_text(yaml.safe_dump(content))
        stack = stacks.create(
            self.tenant,
            NAME,
            environments.folder() / environments.TEMPLATE,
            {},
            [path],
        )
        error = self.assertRaises(
            errors.CloudError,
            stacks.wait,
            self.tenant,
            stack,
            timeout=conf.load().cloud.stack_timeout,
        )
        self.assertIn('server (OS::Nova::Server)', str(error))
        self.assertIn('No valid host', str(error))
