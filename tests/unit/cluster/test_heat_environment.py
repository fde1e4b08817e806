# SPDX-License-Identifier: Apache-2.0
"""What the template is given fits it, in whole and in part."""

import base64
import json
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import testtools
import yaml
from fixtures import MonkeyPatch, TempDir
from openstack.orchestration.util import template_utils

from hvstack import errors, share
from hvstack.cloud import host_keys, user_data
from hvstack.cluster import heat_environment, node_counts
from hvstack.cluster.plan import (
    CONTROLLERS,
    ClusterFlavors,
    ClusterPlan,
    ClusterSpec,
    NodeCounts,
    StackResources,
)
from hvstack.hadoop import os_profiles
from hvstack.hadoop.sizing import size_node
from hvstack.model.configuration import parse
from hvstack.model.flavor import Flavor
from tests.unit.cloud.test_template import load, walk
from tests.unit.cluster import worker_script
from tests.unit.cluster.test_shared_hdfs import HDFS

DIRECTORY = share.HEAT_TEMPLATES / 'environments'
TEMPLATE = load(heat_environment.TEMPLATE)
PLAN = ClusterPlan(
    ClusterSpec(parse('i2')),
    NodeCounts(workers=6, workers_per_host=2, replication=3),
    ClusterFlavors(
        Flavor('w', 'worker', 4, 8192, 20),
        Flavor('c', 'controller', 4, 8192, 20),
    ),
    size_node(4, 8192),
    StackResources('image', 'net', 'key'),
    secondary_namenode=True,
)


def change_spec(plan: ClusterPlan, **changes: Any) -> ClusterPlan:
    """Return a plan of another specification."""
    return replace(plan, spec=replace(plan.spec, **changes))


def change_nodes(plan: ClusterPlan, **changes: Any) -> ClusterPlan:
    """Return a plan with other numbers of nodes."""
    return replace(plan, nodes=replace(plan.nodes, **changes))


HOST_KEY = f'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{43 * "k"}'
#: What Heat's handle has for an attribute, JSON as text.
SIGNAL = '{"alarm_url": "http://heat/signal?a=b&c=d"}'


def aliases() -> set[str]:
    """Return the types that environments must say what they are."""
    return {
        node['type']
        for path in share.HEAT_TEMPLATES.glob('*.yaml')
        for node in walk(load(path.name))
        if str(node.get('type')).startswith('HVStack::')
    }


class FileTest(testtools.TestCase):
    def test_they_set_what_the_template_has(self) -> None:
        for path in DIRECTORY.glob('*.yaml'):
            content = yaml.safe_load(path.read_text())
            self.assertEqual(
                set(), set(content) - {'resource_registry', 'parameters'}
            )
            registry = content.get('resource_registry', {})
            self.assertEqual(set(), set(registry) - aliases(), path.name)
            for target in registry.values():
                if target.endswith('.yaml'):
                    self.assertTrue((DIRECTORY / target).is_file(), path.name)
            for name, value in content.get('parameters', {}).items():
                self.assertIn(name, TEMPLATE['parameters'], path.name)
                self.check(name, value)

    def check(self, name: str, value: Any) -> None:
        """Check that the template allows a value."""
        for constraint in TEMPLATE['parameters'][name].get('constraints', ()):
            self.assertIn(
                value, constraint.get('allowed_values', [value]), name
            )
            bounds = constraint.get('range', {})
            self.assertGreaterEqual(value, bounds.get('min', value), name)
            self.assertLessEqual(value, bounds.get('max', value), name)

    def test_every_value_of_a_configuration_has_one(self) -> None:
        for label in ('i2', 'i4-ceph', 'i2-dedicated', 'i2-ceph-pinned'):
            for controllers in CONTROLLERS:
                for deployment in range(1, 5):
                    plan = change_spec(
                        change_nodes(PLAN, gateway=True),
                        configuration=parse(label),
                        controllers=controllers,
                        deployment=deployment,
                    )
                    for path in heat_environment.files(plan):
                        self.assertTrue(path.is_file(), path)


class EnvironmentTest(testtools.TestCase):
    def test_time_for_signals(self) -> None:
        """Nodes of a slow cloud boot as slowly as its stacks grow."""
        for seconds, factor, expected in (
            (900, 1.0, None),
            (3600, 1.0, 3600),
            (900, 20.0, 18_000),
            (21_600, 20.0, 43_200),
        ):
            self.useFixture(
                MonkeyPatch('hvstack.speed.factor', lambda value=factor: value)
            )
            stack = replace(PLAN.stack, signal_seconds=seconds)
            values = heat_environment.parameters(replace(PLAN, stack=stack))
            self.assertEqual(expected, values.get('readiness_timeout'))

    def test_it_is_all_that_the_template_needs(self) -> None:
        environment = heat_environment.environment(PLAN)
        self.assertEqual(aliases(), set(environment['resource_registry']))
        for target in environment['resource_registry'].values():
            self.assertTrue(
                target == 'OS::Heat::None' or Path(target).is_file(), target
            )
        needed = {
            name
            for name, value in TEMPLATE['parameters'].items()
            if 'default' not in value
        }
        self.assertEqual(set(), needed - set(environment['parameters']))
        self.assertEqual(
            set(), set(environment['parameters']) - set(TEMPLATE['parameters'])
        )
        self.assertEqual(2, environment['parameters']['workers_per_host'])

    def test_application_masters_on_the_controller(self) -> None:
        values = heat_environment.parameters(PLAN)
        self.assertEqual(
            'resourcemanager historyserver nodemanager',
            values['manager_roles'],
        )
        self.assertIn('node-labels', values['manager_setup'])
        for name in ('manager_roles', 'manager_setup'):
            self.assertIn(name, TEMPLATE['parameters'])
        self.assertIn(
            values['manager_roles'],
            TEMPLATE['parameters']['manager_roles']['constraints'][0][
                'allowed_values'
            ],
        )
        # A paper's profile gives it a task's container.
        sizing = size_node(4, 8192, tuning='vsan')
        values = heat_environment.parameters(replace(PLAN, sizing=sizing))
        self.assertNotIn('manager_roles', values)
        self.assertNotIn('manager_setup', values)

    def test_every_nested_template_is_sent(self) -> None:
        plan = change_spec(PLAN, configuration=parse('i2-ceph-pinned'))
        sent, _ = template_utils.process_multiple_environments_and_files(
            [str(path) for path in heat_environment.files(plan)]
        )
        main, _ = template_utils.get_template_contents(
            template_file=str(share.HEAT_TEMPLATES / heat_environment.TEMPLATE)
        )
        self.assertEqual(
            {
                'hadoop-access-direct.yaml',
                'hadoop-disk.yaml',
                'hadoop-disks-volumes.yaml',
                'hadoop-network-existing.yaml',
                'hadoop-node.yaml',
                'hadoop-stateless-group.yaml',
            },
            {Path(url).name for url in {**sent, **main}},
        )

    def test_compute_workers_beside_data_workers(self) -> None:
        parameters = heat_environment.environment(
            replace(
                change_spec(
                    change_nodes(PLAN, compute_workers=12, compute_per_host=4),
                    deployment=3,
                ),
                flavors=replace(
                    PLAN.flavors,
                    compute=Flavor('small', 'compute', 2, 4096, 20),
                ),
            )
        )['parameters']
        self.assertEqual('datanode', parameters['worker_roles'])
        self.assertEqual((12, 4), (parameters['compute_count'], 4))
        self.assertEqual('small', parameters['compute_flavor'])
        self.assertIn('JAVA_PROCESSORS=', parameters['compute_env'])

    def test_a_compute_cluster(self) -> None:
        """It has what the template needs, and directories of its own."""
        plan = replace(
            change_spec(
                change_nodes(
                    PLAN,
                    workers=0,
                    workers_per_host=1,
                    compute_workers=4,
                    compute_per_host=2,
                    controllers_first=True,
                ),
                deployment=3,
            ),
            hdfs=HDFS,
        )
        environment = heat_environment.environment(plan)
        self.assertEqual(aliases(), set(environment['resource_registry']))
        parameters = environment['parameters']
        needed = {
            name
            for name, value in TEMPLATE['parameters'].items()
            if 'default' not in value
        }
        self.assertEqual(set(), needed - set(parameters))
        self.assertEqual(set(), set(parameters) - set(TEMPLATE['parameters']))
        self.assertEqual(
            ('s1', '10.0.0.1', 8020, 'g1'),
            tuple(
                parameters[f'hdfs_{name}']
                for name in ('stack', 'address', 'port', 'security_group')
            ),
        )
        self.assertEqual((4, 2), (parameters['compute_count'], 2))
        self.assertTrue(parameters['controllers_first'])
        for name in ('yarn_site', 'mapred_site'):
            self.assertIn('/compute-clusters/%STACK%/', parameters[name])
            self.assertNotIn(
                '%STACK%', heat_environment.parameters(PLAN)[name]
            )

    def test_without_node_groups(self) -> None:
        """No class for node groups, of which every node would be in one."""
        for groups in (True, False):
            parameters = heat_environment.environment(
                replace(PLAN, node_groups=groups)
            )['parameters']
            self.assertIs(groups, parameters['node_groups'])
            for name in ('core_site', 'hdfs_site'):
                self.assertEqual(
                    groups, 'WithNodeGroup' in parameters[name], name
                )

    def test_gateway(self) -> None:
        for requested in (True, False):
            environment = heat_environment.environment(
                change_nodes(PLAN, gateway=requested)
            )
            gateway = environment['parameters'].get('gateway', False)
            self.assertIs(requested, gateway)
            self.assertEqual(6, environment['parameters']['worker_count'])

    def test_ironic_after_files_with_node_groups(self) -> None:
        """Classes for node groups go where a later file has none."""
        parameters = heat_environment.parameters(PLAN)
        ironic = load('environments/ironic.yaml')['parameters']
        self.assertFalse(ironic['node_groups'])
        sent = TEMPLATE['resources']['files']['properties']['value'][
            'str_replace'
        ]['params']
        for name in ('core_site', 'hdfs_site'):
            text = parameters[name]
            for key, value in sent[f'%{name.upper()}%']['str_replace'][
                'params'
            ].items():
                if 'if' in value:
                    self.assertEqual(['node_groups', key], value['if'][:2])
                    text = text.replace(key, value['if'][2])
            self.assertNotIn('WithNodeGroup', text)
            class_names = 'NetworkTopology<', 'BlockPlacementPolicyDefault<'
            self.assertIn(class_names[name == 'hdfs_site'], text)

    def test_disks(self) -> None:
        kinds = node_counts.get_disk_types
        self.assertEqual(((),), kinds(parse('i2'), 3))
        self.assertEqual((('ceph', 'ceph'),), kinds(parse('i2-ceph'), 2))
        self.assertEqual(
            (('disk-slot-1', 'disk-slot-2'), ('disk-slot-3', 'disk-slot-4')),
            kinds(parse('i2-pinned'), 2),
        )


class UserDataTest(testtools.TestCase):
    """Nova takes 65535 characters of base64."""

    def plan(self, workers: int) -> ClusterPlan:
        return replace(
            change_spec(
                change_nodes(PLAN, workers=workers), tuning='vsphere6'
            ),
            node_setup=os_profiles.fragment('vsphere6'),
        )

    def characters(self, plan: ClusterPlan, name: str = 41 * 'x') -> int:
        """Return the length of what a late controller gets."""
        values = {
            f'%{key.upper()}%': value
            for key, value in heat_environment.parameters(plan).items()
        }
        template = load('hadoop-node.yaml')['outputs']['topology']['value']
        locations = ''.join(
            template['str_replace']['template']
            .replace('%PATH%', f'/rack1/ng-{56 * "f"}')
            .replace('%ADDRESS%', '255.255.255.255')
            .replace('%NAME%', f'{name}-worker-{index}')
            for index in range(plan.nodes.workers)
        )
        text = '%FILES%'
        for resource in ('controller_files', 'files'):
            content = TEMPLATE['resources'][resource]['properties']['value']
            text = text.replace(
                '%FILES%', content['str_replace']['template'], 1
            )
        for key, value in (
            *(('%TOPOLOGY%', locations), ('%NODE_ENV%', '%CONTROLLER_ENV%')),
            *values.items(),
            ('%CONTROLLER%', '255.255.255.255'),
        ):
            text = text.replace(key, str(value))
        return len(base64.b64encode(text.encode()))

    def test_late_controllers_are_not_cut(self) -> None:
        max_workers = next(
            count
            for count in range(100, 400)
            if heat_environment.controllers_first(self.plan(count + 1))
        )
        self.assertGreater(max_workers, 100)
        self.assertGreater(65536, self.characters(self.plan(max_workers)))

    def test_large_clusters(self) -> None:
        """Those of vsphere6's Table 1 with 10 and 20 workers a host."""
        for workers in (318, 636):
            plan = self.plan(workers)
            self.assertTrue(heat_environment.controllers_first(plan))
            self.assertGreater(self.characters(plan, 'hadoop'), 65535)
            user_data.check(heat_environment.parameters(plan))

    def test_too_much_all_the_same(self) -> None:
        plan = replace(self.plan(2), node_setup=40000 * '#')
        error = self.assertRaises(
            errors.InputError,
            user_data.check,
            heat_environment.parameters(plan),
        )
        self.assertIn('Nova accepts 49149 bytes', str(error))

    def test_workers_count_where_controllers_are_late(self) -> None:
        parameters = {'worker_count': 300, 'compute_count': 18}
        first = user_data.compute_size(
            parameters | {'controllers_first': True}
        )
        self.assertEqual(318 * 208, user_data.compute_size(parameters) - first)


class ScriptTest(testtools.TestCase):
    """What nodes run at their first boot."""

    def setUp(self) -> None:
        super().setUp()
        self.root = Path(self.useFixture(TempDir()).path)
        directory = self.root / 'usr/lib/hvstack'
        directory.mkdir(parents=True)
        node = directory / 'node'
        node.write_text(f'#!/bin/sh\necho "$@" >>{self.root}/started\n')
        node.chmod(0o755)
        key = self.root / 'etc/ssh/ssh_host_ed25519_key.pub'
        key.parent.mkdir(parents=True)
        key.write_text(f'{HOST_KEY} root@guest\n')
        (self.root / 'dev').mkdir()
        self.curl = self.root / 'bin/curl'
        self.curl.parent.mkdir()
        self.curl.write_text(
            f'#!/bin/sh\n{{ echo "$@"; cat; }} >{self.root}/new\n'
            f'mv {self.root}/new {self.root}/sent\n'
        )
        self.curl.chmod(0o755)

    def files(self, **values: str) -> str:
        """Return the start of every node's script."""
        return self.filled('files', values)

    def filled(self, resource: str, values: dict[str, str]) -> str:
        content = TEMPLATE['resources'][resource]['properties']['value']
        text = str(content['str_replace']['template'])
        for name in content['str_replace']['params']:
            text = text.replace(name, values.get(name.strip('%'), ''))
        return text

    def run_script(self, text: str) -> None:
        for path in ('/etc/', '/usr/lib/hvstack/', '/dev/console'):
            text = text.replace(path, f'{self.root}{path}')
        text = text.replace('curl -', f'{self.curl} -')
        done = subprocess.run(
            ['/bin/bash', '-c', text],
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        )
        self.assertEqual(0, done.returncode, done.stderr)

    def until(self, name: str) -> str:
        """Return a file's content once the script has written to it."""
        path = self.root / name
        for _ in range(200):
            # A shell creates the file before it writes to it.
            if path.exists() and path.stat().st_size:
                break
            time.sleep(0.05)
        return path.read_text()

    def test_a_host_key_is_sent_and_shown(self) -> None:
        signal = SIGNAL.replace('signal', 'keys')
        self.run_script(self.worker().replace('%HOST_KEY_SIGNAL%', signal))
        sent = self.until('sent')
        # The URL is no argument, which all users of the node could see.
        arguments, url = sent.splitlines()
        self.assertEqual('url = "http://heat/keys?a=b&c=d"', url)
        self.assertNotIn('heat', arguments)
        body = json.loads(arguments[arguments.index('{') :])
        self.assertEqual({'id': 'host_key', 'data': HOST_KEY}, body)
        console = (self.root / 'dev/console').read_text()
        self.assertEqual(HOST_KEY, host_keys.on_console(console))

    def test_a_host_key_is_shown_alone(self) -> None:
        self.run_script(self.worker())
        self.until('dev/console')
        self.assertFalse((self.root / 'sent').exists())

    def written(self, name: str) -> str:
        return (self.root / 'etc' / name).read_text()

    def worker(self, signal: str = '', **values: str) -> str:
        text = (
            worker_script.get_config()
            .replace('%FILES%', self.files(**values))
            .replace('%NODE_ENV%', 'ROLES="none"\nJAVA_PROCESSORS=2\n')
        )
        return (
            worker_script.unpack(text)
            .replace('%ROLES%', 'datanode nodemanager ')
            .replace('%READY_SIGNAL%', signal)
        )

    def test_a_worker(self) -> None:
        self.run_script(
            self.worker(
                CORE_SITE='<configuration/>',
                DISKS='2',
                NODE_SETUP='echo was here',
            )
        )
        self.assertEqual(
            '<configuration/>\n', self.written('hadoop/core-site.xml')
        )
        env = self.written('hvstack/node.env')
        self.assertIn("\nROLES='datanode nodemanager '\n", env)
        self.assertIn("DISKS='2'\n", env)
        self.assertNotIn('READY_URL', env)
        # The node itself runs it before its daemons, after every boot.
        self.assertEqual('echo was here\n', self.written('hvstack/node-setup'))
        self.assertEqual('start\n', (self.root / 'started').read_text())

    def test_a_url_is_for_root_alone(self) -> None:
        self.run_script(self.worker(SIGNAL, READY_TIMEOUT='7200'))
        path = self.root / 'etc/hvstack/node.env'
        self.assertIn(
            "READY_URL='http://heat/signal?a=b&c=d'", path.read_text()
        )
        # Heat waits as long.
        self.assertIn("READY_TIMEOUT='7200'", path.read_text())
        self.assertEqual(0o600, path.stat().st_mode & 0o777)
        self.assertEqual(
            0o644,
            (self.root / 'etc/hadoop/core-site.xml').stat().st_mode & 0o777,
        )

    def test_a_node_without_daemons_never_says_that_they_run(self) -> None:
        text = self.worker(SIGNAL)
        self.run_script(text.replace('datanode nodemanager ', ''))
        self.assertNotIn('READY_URL', self.written('hvstack/node.env'))

    def test_a_url_is_in_no_value(self) -> None:
        """Whoever may see a stack sees the values of OS::Heat::Value.

        Only properties of servers, and what leads there, have it.
        """
        holders = {
            name
            for name, resource in TEMPLATE['resources'].items()
            for node in walk(resource)
            if node.get('get_attr') == ['ready_handle', 'signal']
        }
        self.assertEqual(
            {'workers', 'compute', 'controller', 'resourcemanager'}, holders
        )
        node = load('hadoop-node.yaml')
        self.assertTrue(node['parameters']['ready_signal']['hidden'])
        users = {
            name
            for name, resource in node['resources'].items()
            for subtree in walk(resource)
            if subtree.get('get_param') == 'ready_signal'
        }
        self.assertEqual({'server'}, users)

    def test_a_server_that_gets_no_url(self) -> None:
        self.run_script(self.worker('%READY_SIGNAL%'))
        self.assertNotIn('READY_URL', self.written('hvstack/node.env'))

    def controller(self, first: str) -> str:
        return (
            self.filled(
                'controller_files',
                {
                    'FILES': self.files(),
                    'NODE_ENV': 'JAVA_PROCESSORS=2\n',
                    'FIRST': first,
                    'TOPOLOGY': ''
                    if first
                    else '10.0.0.2 /rack1/ng-a\nw /rack1/ng-a\n',
                    'CONTROLLER_ADDRESS': '10.0.0.1',
                    'CONTROLLER_NAME': 'c',
                    'PATH': '/rack1/ng-controller',
                    'MANAGER': '\n10.0.0.3 /rack1/ng-resourcemanager',
                },
            )
            + "\nbegin 'namenode'\n"
        ).replace('%READY_SIGNAL%', SIGNAL)

    def test_a_controller_after_the_workers(self) -> None:
        self.run_script(self.controller(''))
        self.assertEqual(
            '10.0.0.2 /rack1/ng-a\nw /rack1/ng-a\n'
            '10.0.0.1 /rack1/ng-controller\nc /rack1/ng-controller\n'
            '10.0.0.3 /rack1/ng-resourcemanager\n',
            self.written('hadoop/topology.table'),
        )
        env = self.written('hvstack/node.env')
        self.assertIn("ROLES='namenode'", env)
        self.assertIn("READY_URL='http://heat/signal?a=b&c=d'", env)
        self.assertNotIn('DISKS', env)
        self.assertEqual('start\n', (self.root / 'started').read_text())

    def test_a_controller_before_them_waits(self) -> None:
        self.run_script(self.controller('yes'))
        self.assertFalse((self.root / 'started').exists())
        # A reboot ends the shell that waits: the file has the roles for it.
        self.assertEqual('', self.read_roles())
        (self.root / 'etc/hadoop/topology.table').write_text('w /rack1/a\n')
        self.assertEqual('start\n', self.until('started'))
        self.assertEqual('namenode', self.read_roles())

    def read_roles(self) -> str:
        """Return the roles that the node program reads from node.env."""
        return subprocess.run(
            ['sh', '-euc', f'. {self.root}/etc/hvstack/node.env; echo $ROLES'],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
