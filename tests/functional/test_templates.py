# SPDX-License-Identifier: Apache-2.0
"""The templates, as a member uses them with OpenStack's own client."""

import itertools
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import fixtures
import testtools

from hvstack import host_profiles, processutils, share
from hvstack.cloud import (
    cluster_flavors,
    connection,
    keypairs,
    stack_resources,
    stack_updates,
    stacks,
    undo,
)
from hvstack.cluster import heat_environment
from hvstack.cluster.ssh import SSHAccess
from hvstack.cluster.stack import StackCluster
from hvstack.hadoop import daemons
from hvstack.lab import clouds_yaml, identity, images
from hvstack.model.configuration import Configuration, parse
from hvstack.model.flavor import derive_flavor
from hvstack.progress import Progress
from tests.functional.test_cluster import LabTest

NAME = 'hv-test-templates'
HVSTACK = str(Path(sys.executable).with_name('hvstack'))
OPENSTACK = str(Path(sys.executable).with_name('openstack'))
MEMBER = {'OS_CLOUD': clouds_yaml.MEMBER_CLOUD}
#: What needs more than the member's network, or its own parameters.
_MORE: dict[str, dict[str, Any]] = {
    'network-new': {'external_network': 'provider'},
    'deployment-3': {'compute_count': 2, 'compute_env': 'x'},
    'deployment-4': {'compute_count': 2, 'compute_env': 'x'},
    'disk-pinning-on': {'volume_types': [['ceph']] * 20},
}


def environment(name: str) -> Path:
    """Return one of the environment files."""
    return share.HEAT_TEMPLATES / 'environments' / f'{name}.yaml'


def published(
    admin: Any, tenant: Any, configuration: Configuration
) -> dict[str, str]:
    """Have a configuration's flavors for a tenant; return names by role."""
    project = str(tenant.current_project_id)
    return {
        role: cluster_flavors.publish(
            admin,
            derive_flavor(host_profiles.load(profile), configuration, role),
            [project],
        ).name
        for role, profile in (
            ('worker', 'lab-worker'),
            ('controller', 'lab-controller'),
        )
    }


def written(path: Path, names: Mapping[str, str], *args: str) -> Path:
    """Write what Heat's own client needs, as the member.

    :param names: of flavors, by role.
    """
    processutils.run(
        [
            *(HVSTACK, 'cluster', 'environment', str(path)),
            *('--worker-flavor', names['worker']),
            *('--controller-flavor', names['controller'], *args),
        ],
        env=MEMBER,
    )
    return path


def created(name: str, path: Path) -> None:
    """Create a stack with Heat's own client, as the member."""
    processutils.run(
        [
            *(OPENSTACK, 'stack', 'create', '--wait', '-e', str(path)),
            *('-e', str(environment('lab')), '-t'),
            *(str(share.HEAT_TEMPLATES / heat_environment.TEMPLATE), name),
        ],
        env=MEMBER,
        timeout=900,
    )


def ready(
    test: testtools.TestCase, cluster: StackCluster, started_at: float
) -> None:
    """Wait for all workers; tell the seconds since the stack was begun."""
    daemons.wait_ready(cluster, 300)
    count = len(cluster.workers)
    text = (
        f'create to ready, 1 controller and {count} workers: '
        f'{time.monotonic() - started_at:.0f} s'
    )
    test.addDetail('create-to-ready', testtools.content.text_content(text))
    Progress().say(text)
    report = cluster.gateway.run('hdfs dfsadmin -report').stdout
    test.assertIn(f'Live datanodes ({count})', report)
    nodes = cluster.gateway.run('yarn node -list').stdout
    # That of the controller runs ApplicationMasters.
    total = count + 1
    test.assertIsNotNone(re.search(f'Total Nodes: *{total}', nodes), nodes)


class MemberTest(LabTest):
    """Gives a test the member's key pair, flavors and stack."""

    tenant: ClassVar[Any]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        if os.environ.get('HVSTACK_LAB'):
            cls.tenant = connection.connect(clouds_yaml.MEMBER_CLOUD)

    def setUp(self) -> None:
        super().setUp()
        image = images.build('hadoop', Progress())
        images.upload(identity.connect(), image, 'lxc')
        self.addCleanup(self.undo_tenant)
        self.temp_dir = Path(self.useFixture(fixtures.TempDir()).path)
        keypairs.create(self.tenant, NAME)
        self.flavors = published(self.conn, self.tenant, parse('i1'))

    def undo_tenant(self) -> None:
        undo.undo_own([self.conn, self.tenant])

    def environment(self, *args: str) -> Path:
        """Write what Heat's own client needs, as the member."""
        return written(
            self.temp_dir / 'cluster.yaml',
            self.flavors,
            *('--key-name', NAME, '--hosts', '2', *args),
        )

    def create(self, path: Path) -> dict[str, Any]:
        """Create the stack with OpenStack's own client, return its outputs."""
        self.addCleanup(stacks.delete, self.tenant, NAME)
        created(NAME, path)
        return stacks.outputs(self.tenant, NAME)


class TemplatesTest(MemberTest):
    base: Path

    def preview(self, names: Sequence[str]) -> Any:
        """Have Heat check a combination of environment files."""
        content = self.tenant.orchestration.read_env_and_templates(
            template_file=str(
                share.HEAT_TEMPLATES / heat_environment.TEMPLATE
            ),
            environment_files=[
                str(path)
                for path in (self.base, *(environment(n) for n in names))
            ],
        )
        parameters: dict[str, Any] = {}
        for name in names:
            parameters |= _MORE.get(name, {})
        return self.tenant.orchestration.create_stack(
            preview=True, name=NAME, parameters=parameters, **content
        )

    def list_combinations(self) -> list[tuple[str, ...]]:
        """Return the combinations of environment files, and each alone."""
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
                [f'deployment-{index}' for index in range(1, 5)],
            )
        }
        environment_names = {
            path.stem for path in environment('lab').parent.glob('*.yaml')
        }
        alone = environment_names - {
            name for names in combined for name in names
        }
        return [*sorted(combined), *((name,) for name in sorted(alone))]

    def test_environment_files_combine(self) -> None:
        self.base = self.environment()
        for names in self.list_combinations():
            if 'storage-ceph' not in names:
                self.assertTrue(self.preview(names), names)

    def test_environment_files_with_ceph_combine(self) -> None:
        # Heat rejects resources whose service does not exist.
        if not self.tenant.has_service('block-storage'):
            self.skipTest('needs a lab with Cinder (lab up --with ceph)')
        self.base = self.environment()
        for names in self.list_combinations():
            if 'storage-ceph' in names:
                self.assertTrue(self.preview(names), names)

    def test_plain_create(self) -> None:
        configs = self.list_configs()
        path = self.environment()
        started_at = time.monotonic()
        outputs = self.create(path)
        self.check_secrets(outputs)
        hosts = [node['host_id'] for node in outputs['workers']]
        self.assertEqual(2, len(hosts))
        self.assertEqual(2, len(set(hosts)))
        self.assertIn('dfsadmin -report', outputs['readiness'])
        self.assertEqual('shared', outputs['configuration']['cpu_policy'])
        # A tenant sees the host keys without hvstack.
        node_keys = [
            node['host_key']
            for node in (outputs['controller'], *outputs['workers'])
        ]
        self.assertEqual(3, len(set(node_keys)))
        for key in node_keys:
            self.assertRegex(key, '^ssh-ed25519 [A-Za-z0-9+/]{68}$')
        with StackCluster.from_outputs(
            outputs,
            SSHAccess(keypairs.DIRECTORY / NAME),
            name=NAME,
            processors=2,
        ) as cluster:
            ready(self, cluster, started_at)
            self.check_script(cluster)
        self.check_other_script()
        stacks.delete(self.tenant, NAME)
        self.assertEqual([], list(self.tenant.compute.servers()))
        self.assertEqual(configs, self.list_configs())

    def list_configs(self) -> list[str]:
        """Return the IDs of the project's software configs."""
        answer = self.tenant.orchestration.get(
            '/software_configs', raise_exc=True
        ).json()
        return sorted(config['id'] for config in answer['software_configs'])

    def list_stack(self) -> list[stack_resources.StackResource]:
        """Return the resources of the stack and of its nested stacks."""
        (stack,) = self.tenant.orchestration.stacks(name=NAME)
        return stack_resources.require_resources(self.tenant, stack)

    def check_script(self, cluster: StackCluster) -> None:
        """Check that the stack has the script once, and workers all of it.

        The template of the group has no copy for each of its members.
        """
        resources = self.list_stack()
        types = Counter(item['resource_type'] for item in resources)
        self.assertEqual(1, types['OS::Heat::SoftwareConfig'])
        self.assertEqual(2, types['OS::Heat::MultipartMime'])
        (group_id,) = (
            item['physical_resource_id']
            for item in resources
            if item['resource_name'] == 'workers'
        )
        group = self.tenant.orchestration.get_stack(group_id)
        template = self.tenant.orchestration.get(
            f'/stacks/{group.name}/{group.id}/template', raise_exc=True
        ).text
        self.assertIn('script_config', template)
        self.assertNotIn('core-site.xml', template)
        self.assertLess(len(template), 10_000)
        texts = [
            node.run('cat /var/lib/hvstack/user-data').stdout
            for node in cluster.workers
        ]
        signals = set()
        for text in texts:
            lines = text.splitlines()
            self.assertEqual('#!/bin/bash', lines[0])
            self.assertEqual('exec /usr/lib/hvstack/node start', lines[-1])
            self.assertNotIn('%SCRIPT%', text)
            self.assertNotIn('Content-Type: text', text)
            (signal,) = re.findall("echo '({.*})' [|] cut", text)
            signals.add(signal)
            (roles,) = re.findall("^prepare '(.*)' <<", text, re.MULTILINE)
            self.assertIn('datanode nodemanager', roles)
        self.assertEqual(2, len(signals))

    def check_other_script(self) -> None:
        """Check that another script replaces its config and no server."""

        def identify() -> tuple[dict[str, str], str]:
            servers = {
                server.name: server.id
                for server in self.tenant.compute.servers()
            }
            (config,) = (
                str(item['physical_resource_id'])
                for item in self.list_stack()
                if item['resource_name'] == 'worker_script'
            )
            return servers, config

        (stack,) = self.tenant.orchestration.stacks(name=NAME)
        servers, config = identify()
        self.assertEqual(3, len(servers))
        stack_updates.update(
            self.tenant,
            self.tenant.orchestration.get_stack(stack.id),
            {'hadoop_env': 'export HVSTACK_TEST=1'},
            timeout=600,
        )
        servers_now, config_now = identify()
        self.assertEqual(servers, servers_now)
        self.assertNotEqual(config, config_now)

    def check_secrets(self, outputs: dict[str, Any]) -> None:
        """Neither outputs nor events have a password or a private key."""
        (stack,) = self.tenant.orchestration.stacks(name=NAME)
        events = self.tenant.orchestration.get(
            f'/stacks/{NAME}/{stack.id}/events?nested_depth=5',
            raise_exc=True,
        ).text
        self.assertIn('CREATE_COMPLETE', events)
        key = (keypairs.DIRECTORY / NAME).read_text().splitlines()[1]
        passwords = [
            cloud['auth']['password']
            for cloud in clouds_yaml.entries().values()
        ]
        for secret in (key, *passwords):
            self.assertNotIn(secret, events)
            self.assertNotIn(secret, json.dumps(outputs))
