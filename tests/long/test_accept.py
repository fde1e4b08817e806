# SPDX-License-Identifier: Apache-2.0
"""Acceptance sees each sabotage with the right test and with no other.

The lab is up with three lxc hosts: ``hvstack lab up --hosts 3 --compute lxc``.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import fixtures
import yaml

from hvstack import processutils
from hvstack.accept.tempest_conf import Workspace
from hvstack.cloud import (
    catalogue_publisher,
    connection,
    nova_flavors,
    placement,
)
from hvstack.lab import clouds_yaml, images
from hvstack.lab.hosts import sizes
from tests.functional.test_hosts import LAST, HostsTest
from tests.long import ratios

HVSTACK = str(Path(sys.executable).with_name('hvstack'))
NODE = '/usr/lib/hvstack/node'
#: What Tempest and stestr print at the end.
COUNT = re.compile(r'^ - (Passed|Skipped|Failed): (\d+)$', re.MULTILINE)
#: What they print of a test that failed, and its reason.
FAILED = re.compile(
    r'^.*\.\.\. FAILED$|^ *\S*(?:Error|Exception).*', re.MULTILINE
)
CONF = '/etc/hadoop'
#: Takes HVE's properties from the NameNode alone; they are lines of their own.
HVE_OFF = f"""
cd {CONF} && cp core-site.xml core-site.good && cp hdfs-site.xml hdfs-site.good
sed -i '/net.topology.impl/d' core-site.xml
sed -i -e '/dfs.use.dfs.network.topology/d' \
    -e '/dfs.block.replicator.classname/d' hdfs-site.xml
{NODE} stop namenode; {NODE} start namenode
"""
HVE_ON = f"""
cd {CONF} && mv core-site.good core-site.xml
mv hdfs-site.good hdfs-site.xml
{NODE} stop namenode; {NODE} start namenode
"""


class AcceptTest(HostsTest):
    """Publishes catalogues of the lab, and takes them back."""

    def setUp(self) -> None:
        super().setUp()
        # With the microversions that Placement's traits need.
        self.cloud = connection.connect(clouds_yaml.ADMIN_CLOUD)
        self.workspace = self.directory()
        self.image = images.upload(self.cloud, images.build('tiny'), 'lxc')
        self.catalogues = sorted(sizes.CATALOGUES.glob('*.yaml'))
        # Another's would be strangers.
        self.retire()
        self.addCleanup(self.retire)

    def directory(self) -> Path:
        """Return a new directory; a workspace must begin as an empty one."""
        return Path(self.useFixture(fixtures.TempDir()).path)

    def hadoop(self) -> None:
        """Have the image that clusters are made of."""
        images.upload(self.cloud, images.build('hadoop'), 'lxc')

    def publish(self) -> None:
        """Publish all catalogues."""
        for path in self.catalogues:
            processutils.run(
                [
                    *(HVSTACK, 'flavor', 'publish', path, '--no-lint'),
                    *('--include-candidates', '--project', 'tenant'),
                ]
            )

    def retire(self) -> None:
        """Leave none of the flavors on the cloud."""
        for flavor in nova_flavors.list_flavors(self.cloud).values():
            if catalogue_publisher.is_managed(flavor):
                self.cloud.compute.delete_flavor(flavor)

    def command(self, *args: str) -> list[str]:
        """Return the command that accepts these catalogues."""
        return [
            *(HVSTACK, 'accept', '--workspace', str(self.workspace)),
            *('--include-candidates', '--image', self.image),
            *(
                word
                for path in self.catalogues
                for word in ('--catalogue', str(path))
            ),
            *args,
        ]

    def accept(self, *args: str, timeout: float = 1200) -> dict[str, Any]:
        """Run the tests and return the report; nothing may be left."""
        path = self.workspace / 'report.json'
        path.unlink(missing_ok=True)
        done = processutils.run(
            self.command(*args), timeout=timeout, check=False
        )
        self.assertTrue(path.exists(), done.stderr[-2000:])
        self.assertEqual([], self.list_leftovers())
        report = dict(json.loads(path.read_text()))
        good = report['verdict'] == 'passed'
        self.assertEqual(good, done.returncode == 0, done.stderr[-2000:])
        return report

    def list_leftovers(self) -> list[str]:
        """Return the resources that tests created and did not delete."""
        cloud = self.cloud
        resources = [
            *cloud.identity.projects(),
            *cloud.identity.users(),
            *cloud.compute.servers(all_projects=True),
            *cloud.compute.flavors(is_public=None),
            *cloud.network.ports(),
            *cloud.network.security_groups(),
            *cloud.orchestration.stacks(),
            *connection.connect(
                clouds_yaml.MEMBER_CLOUD
            ).orchestration.stacks(),
        ]
        if cloud.has_service('block-storage'):
            resources += [
                resource
                for resource in cloud.block_storage.volumes(all_projects=True)
                # Gone in a moment.
                if resource.status != 'deleting'
            ]
        prefix = Workspace(self.workspace).prefix
        return sorted(
            str(resource.name)
            for resource in resources
            if str(resource.name).startswith(f'{prefix}-')
        )

    @staticmethod
    def verdicts(report: dict[str, Any]) -> dict[str, str]:
        """Return verdicts by test, and by class that could not begin."""
        return {
            row['test'].split('.', 1)[1]: row['verdict']
            for row in report['results']
        }

    def failed(self, *args: str) -> set[str]:
        """Return the tests that failed."""
        report = self.accept(*args)
        self.assertNotEqual(0, report['stestr']['run'])
        return {
            row['test'].rpartition('.')[2]
            for row in report['results']
            if row['verdict'] == 'failed'
        }

    def set_ratio(self, ratio: float) -> None:
        """Set a host's ratio behind everybody's back."""
        uuid = placement.providers(self.cloud, sizes.WORKER_TRAIT)[LAST]
        ratios.set_cpu_ratio(self.cloud, uuid, ratio)


class FlavorsTest(AcceptTest):
    def setUp(self) -> None:
        super().setUp()
        self.publish()
        name = yaml.safe_load(self.catalogues[-1].read_text())['flavors'][0]
        self.expected_flavor = nova_flavors.list_flavors(self.cloud)[
            name['name']
        ]

    def test_as_promised(self) -> None:
        report = self.accept('--smoke')
        self.assertEqual('passed', report['verdict'], str(report))
        self.assertEqual(0, report['stestr']['skipped'])

    def test_changed_extra_spec(self) -> None:
        self.cloud.compute.create_flavor_extra_specs(
            self.expected_flavor, {'hw:cpu_sockets': '7'}
        )
        self.assertEqual({'test_promised_flavors'}, self.failed('--smoke'))

    def test_extra_public_flavor(self) -> None:
        flavor = self.cloud.compute.create_flavor(
            name=f'{self.expected_flavor.name}-mine', vcpus=1, ram=128, disk=1
        )
        self.addCleanup(self.cloud.compute.delete_flavor, flavor)
        self.assertEqual({'test_no_others'}, self.failed('--smoke'))

    def test_ratio_on_one_host(self) -> None:
        self.addCleanup(self.set_ratio, 1.0)
        self.set_ratio(1.5)
        self.assertEqual({'test_inventories'}, self.failed('--smoke'))

    def test_full_host(self) -> None:
        rows_by_test = {
            row['test'].rpartition('.')[2]: row
            for row in self.accept('--test', 'FullHost')['results']
        }
        for name in (
            'test_worker_too_many',
            'test_misfit',
            'test_over_commitment',
        ):
            self.assertEqual(
                'passed', rows_by_test[name]['verdict'], str(rows_by_test)
            )
        # Containers have no CPUs of their own: that must not look passed.
        self.assertEqual('not checked', rows_by_test['test_pins']['verdict'])


class InterruptedTest(AcceptTest):
    """Tests that are ended while they hold servers."""

    def begin_tests(self) -> 'subprocess.Popen[bytes]':
        """Begin tests, and wait until they have a server."""
        process = self.started('--test', 'FullHostTest.test_worker_too_many')
        processutils.wait_for(
            lambda: any(
                server.name.startswith(Workspace(self.workspace).prefix)
                for server in self.cloud.compute.servers(all_projects=True)
            ),
            'a server of a test',
            timeout=180,
        )
        return process

    def started(self, *args: str) -> 'subprocess.Popen[bytes]':
        """Begin tests, which end with this one at the latest."""
        process = subprocess.Popen(
            self.command(*args),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def end_all(self, process: 'subprocess.Popen[bytes]') -> None:
        """Kill the command and its tests."""
        process.kill()
        process.wait(60)
        self.send(signal.SIGKILL, self.running())

    def send(self, signum: signal.Signals, pids: list[int]) -> None:
        """Send a signal to processes that may have ended."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signum)

    def running(self) -> list[int]:
        """Return the processes that run tests in this workspace."""
        test_pids = []
        for path in Path('/proc').glob('[0-9]*/environ'):
            with contextlib.suppress(OSError):
                text = path.read_bytes()
                if f'TEMPEST_CONFIG_DIR={self.workspace}'.encode() in text:
                    test_pids.append(int(path.parent.name))
        return test_pids

    def test_end(self) -> None:
        self.publish()
        process = self.begin_tests()
        # As Ctrl-C, which programs in the background do not hear.
        process.terminate()
        self.assertNotEqual(0, process.wait(300))
        self.assertEqual([], self.running())
        self.assertEqual([], self.list_leftovers())

    def test_kill(self) -> None:
        self.publish()
        self.addCleanup(
            processutils.run,
            self.command('--cleanup'),
            timeout=300,
            check=False,
        )
        self.end_all(self.begin_tests())
        # The test's project and users, beside its server.
        self.assertIn('FullHostTest', str(self.list_leftovers()))
        processutils.run(self.command('--cleanup'), timeout=300)
        self.assertEqual([], self.list_leftovers())

    def test_kill_while_a_host_is_off(self) -> None:
        """A clean-up gives it power, and deletes the member's cluster."""
        self.hadoop()
        self.publish()
        self.addCleanup(
            processutils.run,
            self.command('--cleanup'),
            timeout=600,
            check=False,
        )
        process = self.started(
            *('--scope', 'host', '--destructive', '--test', 'HostStopTest')
        )
        processutils.wait_for(
            lambda: bool(list(self.workspace.glob('without-power-*'))),
            'a host without power',
            timeout=600,
        )
        self.end_all(process)
        self.assertIn('HostStopTest', str(self.list_leftovers()))
        done = processutils.run(self.command('--cleanup'), timeout=600)
        self.assertIn('powered on hv-host', done.stderr)
        self.assertEqual([], self.list_leftovers())

    def test_kill_of_the_command_alone(self) -> None:
        """Its tests continue: no other starts, and a clean-up ends them."""
        self.publish()
        self.addCleanup(
            processutils.run,
            self.command('--cleanup'),
            timeout=300,
            check=False,
        )
        process = self.begin_tests()
        process.kill()
        process.wait(60)
        before = self.running()
        self.assertNotEqual([], before)
        # They must not end by themselves in the meantime.
        self.send(signal.SIGSTOP, before)
        try:
            done = processutils.run(self.command('--smoke'), check=False)
        finally:
            self.send(signal.SIGCONT, before)
        self.assertNotEqual(0, done.returncode)
        self.assertIn('--cleanup', done.stderr)
        processutils.run(self.command('--cleanup'), timeout=300)
        self.assertEqual([], self.running())
        self.assertEqual([], self.list_leftovers())


class HostStopTest(AcceptTest):
    """A worker's host loses its power, and gets it back."""

    def test_files_stay_readable(self) -> None:
        self.hadoop()
        self.publish()
        report = self.accept(
            *('--scope', 'host', '--destructive', '--test', 'HostStopTest')
        )
        self.assertEqual('passed', report['verdict'], str(report))


class StackTest(AcceptTest):
    """Clusters of the tests' own, with Hadoop."""

    def test_as_promised(self) -> None:
        self.hadoop()
        self.publish()
        report = self.accept('--test', 'Stack|FullCluster', timeout=3000)
        self.assertEqual('passed', report['verdict'], str(report))
        self.assertEqual(
            {
                f'StackTest.test_{name}'
                for name in (
                    'outputs',
                    'nodes_per_host',
                    'volumes',
                    'all_nodes_are_in',
                    'topology',
                    'node_groups',
                    'replicas',
                    'small_run',
                )
            }
            | {
                'StackLifeTest.test_scale_and_delete',
                'FullClusterTest.test_worker_too_many',
            },
            set(self.verdicts(report)),
        )


class ClusterTest(AcceptTest):
    """A cluster that is there, and what is done to it."""

    def setUp(self) -> None:
        super().setUp()
        self.hadoop()
        args = [
            *(
                '--os-cloud',
                clouds_yaml.ADMIN_CLOUD,
                '--tenant-os-cloud',
                clouds_yaml.MEMBER_CLOUD,
            ),
            *('-f', 'json'),
        ]
        self.addCleanup(
            processutils.run,
            [HVSTACK, 'cluster', 'delete', self.name, *args],
            timeout=600,
        )
        done = processutils.run(
            [HVSTACK, 'cluster', 'create', self.name, *args], timeout=900
        )
        self.cluster = json.loads(done.stdout)
        self.key = self.cluster['key']

    def on(self, node: dict[str, Any], command: str) -> None:
        """Run a command on a node."""
        processutils.run(
            [
                *('ssh', '-F', '/dev/null', '-i', self.key),
                *('-o', 'StrictHostKeyChecking=no'),
                *('-o', 'UserKnownHostsFile=/dev/null'),
                *(f'root@{node["address"]}', command),
            ],
            timeout=120,
        )

    def failed(self, *args: str) -> set[str]:
        """Return the tests of the cluster that failed."""
        return super().failed(
            *('--scope', 'tenant', '--stack', self.name),
            *('--tenant-os-cloud', clouds_yaml.MEMBER_CLOUD),
            *('--test', 'StackTest.*(topology|node|replicas|outputs)'),
            *args,
        )

    def test_sabotage(self) -> None:
        self.assertEqual(set(), self.failed())
        controller = self.cluster['controller']
        address = self.cluster['workers'][0]['address']

        table = f'{CONF}/topology.table'
        self.on(
            controller,
            f'cp {table} {table}.good; '
            f"sed -i '/^{address} /s,/[^ /]*$,/ng-unknown,' {table}",
        )
        self.assertEqual({'test_topology'}, self.failed())
        self.on(controller, f'mv {table}.good {table}')

        self.on(controller, HVE_OFF)
        self.assertEqual({'test_node_groups'}, self.failed())
        self.on(controller, HVE_ON)
        self.assertEqual(set(), self.failed())

        # Others cannot look without it: not checked, and not failed.
        self.on(self.cluster['workers'][0], f'{NODE} stop')
        self.assertEqual({'test_all_nodes_are_in'}, self.failed())
