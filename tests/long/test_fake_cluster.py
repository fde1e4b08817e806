# SPDX-License-Identifier: Apache-2.0
"""A cluster of 32 nodes on hosts without guests: where Nova puts them.

The lab is up, and gets ``--fake-hosts 8 --fake-profile vsphere6``.
"""

import sys
from collections import Counter
from pathlib import Path

from hvstack import errors, host_profiles, processutils, share
from hvstack.cloud import cluster_flavors, connection, journal, stacks, undo
from hvstack.cluster import heat_environment
from hvstack.lab import clouds_yaml
from hvstack.model.configuration import parse
from hvstack.model.flavor import derive_flavor
from tests.functional.test_hosts import HostsTest
from tests.long import labs

HVSTACK = str(Path(sys.executable).with_name('hvstack'))
HOSTS, SLOTS, WORKERS = 8, 4, 30
TEMPLATE = share.HEAT_TEMPLATES / heat_environment.TEMPLATE


class FakeClusterTest(HostsTest):
    def setUp(self) -> None:
        super().setUp()
        labs.fake_hosts(self, HOSTS)
        self.conn = connection.connect(clouds_yaml.ADMIN_CLOUD)
        self.addCleanup(undo.undo_own, [self.conn])
        self.no_system()
        profile, configuration = (
            host_profiles.load('vsphere6'),
            parse('i4-dedicated'),
        )
        self.flavors = [
            cluster_flavors.publish(
                self.conn,
                derive_flavor(profile, configuration, role),
                [str(self.conn.current_project_id)],
            ).name
            for role in ('worker', 'controller')
        ]

    def environment(self, workers: int) -> Path:
        """Write the cluster's environment."""
        worker, controller = self.flavors
        path = self.temp_dir / 'cluster.yaml'
        processutils.run(
            [
                *(HVSTACK, 'cluster', 'environment', str(path)),
                *('--configuration', f'i{SLOTS}-dedicated'),
                *('--worker-flavor', worker),
                *('--controller-flavor', controller),
                *('--key-name', self.name, '--image', self.name),
                *('--hosts', str(HOSTS), '--workers', str(workers)),
                *('--controllers', 'separate', '--controller-slots', '2'),
            ],
            env={'OS_CLOUD': clouds_yaml.ADMIN_CLOUD},
        )
        return path

    def servers(self) -> Counter[str]:
        """Return how many of the stack's workers each host has."""
        return Counter(
            str(server.compute_host)
            for server in self.cloud.compute.servers(
                name=f'{self.name}-worker'
            )
        )

    def test_30_workers_and_2_controllers(self) -> None:
        error = self.assertRaises(
            errors.CommandError, self.environment, WORKERS + 1
        )
        self.assertIn('Use 1 to 30', error.tail)
        path = self.environment(WORKERS)
        self.addCleanup(stacks.delete, self.conn, self.name, timeout=600)
        # Servers on fake hosts have no host keys.
        stack_id = stacks.create(
            self.conn,
            self.name,
            TEMPLATE,
            {'host_keys': False},
            [path],
            timeout=900,
        )
        outputs = stacks.wait(self.conn, stack_id, timeout=900)
        self.assertEqual(WORKERS, len(outputs['workers']))
        by_host = self.servers()
        self.assertEqual([4] * 6 + [3] * 2, sorted(by_host.values())[::-1])
        for role in ('controller', 'resourcemanager'):
            server = self.cloud.compute.get_server(outputs[role]['server_id'])
            self.assertEqual(3, by_host[server.compute_host], role)
        self.assertNotEqual(
            outputs['controller']['host_id'],
            outputs['resourcemanager']['host_id'],
        )
        # What tenants see of it: one hostId for each host.
        groups = Counter(worker['host_id'] for worker in outputs['workers'])
        self.assertEqual(sorted(by_host.values()), sorted(groups.values()))
        self.assertIn('not waited for', outputs['readiness'])
        # Nova's own answer to one more.
        processutils.run(
            [
                Path(HVSTACK).with_name('openstack'),
                *('stack', 'update', '--existing', '--wait'),
                # Heat would take what a file says over the parameter.
                *('-t', TEMPLATE),
                *('--parameter', f'worker_count={WORKERS + 1}', self.name),
            ],
            env={'OS_CLOUD': clouds_yaml.ADMIN_CLOUD},
            timeout=600,
            check=False,
        )
        (stack,) = self.conn.orchestration.stacks(name=self.name)
        self.assertEqual('UPDATE_FAILED', stack.status)
        self.assertIn('No valid host', stacks.reason(self.conn, stack))
        stacks.delete(self.conn, self.name, timeout=600)
        undo.undo_own([self.conn])
        self.assertEqual([], journal.own())
