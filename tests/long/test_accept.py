# SPDX-License-Identifier: Apache-2.0
"""Acceptance sees each sabotage with the right test and with no other.

The lab is up with three lxc hosts; a host becomes a qemu one for the pins.
"""

import json
import sys
from pathlib import Path
from typing import Any

import fixtures
import yaml

from hvstack import shell
from hvstack.cloud import connection, placement, publish
from hvstack.lab import hosts, images, settings
from hvstack.lab.hosts import sizes
from tests.functional.test_hosts import LAST, HostsTest

HVSTACK = str(Path(sys.executable).with_name('hvstack'))
MEMBER = 'hvstack-lab-member'


class AcceptTest(HostsTest):
    """Publishes catalogues of the lab, and takes them back."""

    def setUp(self) -> None:
        super().setUp()
        # With the microversions that Placement's traits need.
        self.cloud = connection.connect('hvstack-lab')
        self.workspace = Path(self.useFixture(fixtures.TempDir()).path)
        self.image = images.upload(self.cloud, images.build('tiny'), 'lxc')
        self.catalogues = sorted(sizes.CATALOGUES.glob('*.yaml'))
        self.addCleanup(self.retire)

    def publish(self) -> None:
        """Publish all catalogues."""
        for path in self.catalogues:
            shell.run(
                [
                    *(HVSTACK, 'flavor', 'publish', path, '--no-lint'),
                    *('--include-candidates', '--project', 'tenant'),
                ]
            )

    def retire(self) -> None:
        """Leave none of the flavors on the cloud."""
        for flavor in publish.existing(self.cloud).values():
            if publish.ours(flavor):
                self.cloud.compute.delete_flavor(flavor)

    def accept(self, *words: str) -> dict[str, Any]:
        """Run the tests and return the report; nothing may be left."""
        shell.run(
            [
                *(HVSTACK, 'accept', '--workspace', self.workspace),
                *('--include-candidates', '--image', self.image),
                *(
                    word
                    for path in self.catalogues
                    for word in ('--catalogue', path)
                ),
                *words,
            ],
            timeout=900,
            check=False,
        )
        text = (self.workspace / 'report.json').read_text()
        return dict(json.loads(text))

    def failed(self, *words: str) -> set[str]:
        """Return the tests that failed."""
        report = self.accept(*words)
        self.assertNotEqual(0, report['stestr']['run'])
        return {
            one['test'].rpartition('.')[2]
            for one in report['results']
            if one['verdict'] == 'failed'
        }

    def provider(self) -> str:
        """Return the path of a worker host's inventory of CPUs."""
        uuid = placement.providers(self.cloud, sizes.WORKER_TRAIT)[LAST]
        return f'/resource_providers/{uuid}/inventories'

    def set_ratio(self, ratio: float) -> None:
        """Set a host's ratio behind everybody's back."""
        path = self.provider()
        content = self.cloud.placement.get(path).json()
        self.cloud.placement.put(
            f'{path}/VCPU',
            json={
                **content['inventories']['VCPU'],
                'allocation_ratio': ratio,
                'resource_provider_generation': content[
                    'resource_provider_generation'
                ],
            },
        ).raise_for_status()


class FlavorsTest(AcceptTest):
    def setUp(self) -> None:
        super().setUp()
        self.publish()
        name = yaml.safe_load(self.catalogues[-1].read_text())['flavors'][0]
        self.promised = publish.existing(self.cloud)[name['name']]

    def test_as_promised(self) -> None:
        report = self.accept('--smoke')
        self.assertEqual('passed', report['verdict'], report)
        self.assertEqual(0, report['stestr']['skipped'])

    def test_changed_extra_spec(self) -> None:
        self.cloud.compute.create_flavor_extra_specs(
            self.promised, {'hw:cpu_sockets': '7'}
        )
        self.assertEqual({'test_promised_flavors'}, self.failed('--smoke'))

    def test_extra_public_flavor(self) -> None:
        made = self.cloud.compute.create_flavor(
            name=f'{self.promised.name}-mine', vcpus=1, ram=128, disk=1
        )
        self.addCleanup(self.cloud.compute.delete_flavor, made)
        self.assertEqual({'test_no_others'}, self.failed('--smoke'))

    def test_ratio_on_one_host(self) -> None:
        self.addCleanup(self.set_ratio, 1.0)
        self.set_ratio(1.5)
        self.assertEqual({'test_inventories'}, self.failed('--smoke'))

    def test_full_host(self) -> None:
        found = {
            one['test'].rpartition('.')[2]: one
            for one in self.accept('--ring', 'operator')['results']
        }
        for name in (
            'test_worker_too_many',
            'test_misfit',
            'test_over_commitment',
        ):
            self.assertEqual('passed', found[name]['verdict'], found[name])
        # Containers have no CPUs of their own: that must not look passed.
        self.assertEqual('not checked', found['test_pins']['verdict'])


class HostStopTest(AcceptTest):
    """A worker's host loses its power, and gets it back."""

    def test_files_stay_readable(self) -> None:
        self.publish()
        report = self.accept(
            *('--ring', 'host', '--destructive', '--test', 'HostStopTest')
        )
        self.assertEqual('passed', report['verdict'], report)


class ClusterTest(AcceptTest):
    """A cluster that is there, and what is done to it."""

    def setUp(self) -> None:
        super().setUp()
        words = [
            *('--os-cloud', 'hvstack-lab', '--tenant-os-cloud', MEMBER),
            *('-f', 'json'),
        ]
        self.addCleanup(
            shell.run,
            [HVSTACK, 'cluster', 'delete', self.name, *words],
            timeout=600,
        )
        done = shell.run(
            [HVSTACK, 'cluster', 'create', self.name, *words], timeout=900
        )
        self.cluster = json.loads(done.stdout)
        self.key = self.cluster['key']

    def on(self, node: dict[str, Any], command: str) -> None:
        """Run a command on a node."""
        shell.run(
            [
                *('ssh', '-F', '/dev/null', '-i', self.key),
                *('-o', 'StrictHostKeyChecking=no'),
                *('-o', 'UserKnownHostsFile=/dev/null'),
                *(f'root@{node["address"]}', command),
            ],
            timeout=120,
        )

    def failed(self, *words: str) -> set[str]:
        """Return the tests of the cluster that failed."""
        return super().failed(
            *('--ring', 'tenant', '--stack', self.name),
            *('--tenant-os-cloud', MEMBER),
            *('--test', 'test_(topology|all_nodes|nodes_per|replicas)'),
            *words,
        )

    def test_sabotage(self) -> None:
        self.assertEqual(set(), self.failed())

        table = '/etc/hadoop/topology.table'
        self.on(
            self.cluster['controller'],
            f'cp {table} {table}.good; '
            f"sed -i '1s,/[^ /]*$,/ng-of-nobody,' {table}",
        )
        self.assertEqual({'test_topology'}, self.failed())
        self.on(self.cluster['controller'], f'mv {table}.good {table}')

        self.on(self.cluster['workers'][0], '/usr/lib/hvstack/node stop')
        self.assertIn('test_all_nodes_are_in', self.failed())


class PinsTest(AcceptTest):
    """A qemu host with one CPU for guests that ask for their own."""

    def setUp(self) -> None:
        super().setUp()
        wanted = settings.load() or settings.LabSettings()
        self.before = wanted.host_compute.get(LAST, wanted.compute)
        self.image = images.upload(
            self.cloud,
            images.build('tiny', outputs=['lxc', 'qemu']),
            'qemu',
            title='hvstack-tiny-vm',
        )
        self.addCleanup(self.lab_up, self.before, '')
        self.lab_up('qemu', '1')
        self.catalogues = [self.catalogue()]
        self.publish()

    def lab_up(self, backend: str, dedicated: str) -> None:
        """Give the last host a backend, and CPUs for dedicated guests."""
        shell.run(
            [
                *(HVSTACK, 'lab', 'up'),
                *('--host-compute', f'{LAST}={backend}'),
                *('--dedicated', f'{LAST}={dedicated}'),
            ],
            timeout=400,
        )

    def catalogue(self) -> Path:
        """Write a catalogue of one small flavor with a CPU of its own."""
        path = self.workspace / 'pinned.yaml'
        entry = {
            'name': 'hv-lab-worker-pinned',
            'configuration': 'i1-dedicated',
            'vcpus': 1,
            'ram': 128,
            'disk': 1,
            'description': 'one CPU of its own',
            'extra_specs': {
                'hw:cpu_policy': 'dedicated',
                'hw:numa_nodes': '1',
                f'trait:{sizes.WORKER_TRAIT}': 'required',
            },
        }
        path.write_text(
            yaml.safe_dump({'host': 'lab-worker', 'flavors': [entry]})
        )
        return path

    def pinned(self) -> Any:
        """Return a running guest of the flavor."""
        flavor = publish.existing(self.cloud)['hv-lab-worker-pinned']
        return self.active(self.start(flavor, LAST, self.image))

    def test_moved_pin(self) -> None:
        words = ('--ring', 'host', '--libvirt-uri', 'qemu:///system')
        self.assertEqual(set(), self.failed(*words))
        guest = self.pinned()
        self.assertEqual(set(), self.failed(*words))
        one = hosts.find(LAST)
        shell.run(
            [
                *(HVSTACK, 'lab', 'host', 'exec', one.name, '--'),
                *('virsh', '-c', 'qemu:///system', 'vcpupin'),
                *(guest.instance_name, '0', '0'),
            ]
        )
        self.assertEqual({'test_pins'}, self.failed(*words))
