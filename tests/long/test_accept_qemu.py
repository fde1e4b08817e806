# SPDX-License-Identifier: Apache-2.0
"""Acceptance of pins and volumes on an emulated host, with tiny guests.

The lab is up, and gets ``--host-compute hv-host3=qemu --dedicated hv-host3=1
--with ceph``.
"""

import sys
from pathlib import Path
from typing import Any

import yaml

from hvstack import processutils
from hvstack.accept.tempest_conf import Workspace
from hvstack.cloud import connection, nova_flavors
from hvstack.lab import clouds_yaml, hosts, images, pools
from hvstack.lab.hosts import sizes
from tests.functional.test_hosts import LAST
from tests.long import labs
from tests.long.test_accept import COUNT, FAILED, HVSTACK, AcceptTest

TEMPEST = str(Path(sys.executable).with_name('tempest'))
STESTR = str(Path(sys.executable).with_name('stestr'))
#: What this lab can show; of clusters it cannot make one.
SHOWN = 'Flavors|Ratios|Volumes|FullHost|Disks?|Configuration|Pins'
URI = ('--libvirt-uri', 'qemu:///system')


class QemuTest(AcceptTest):
    """One host's CPU 1 is for guests that ask for their own."""

    def setUp(self) -> None:
        super().setUp()
        self.image = images.upload(
            self.cloud,
            images.build('tiny', outputs=['lxc', 'qemu']),
            'qemu',
            title='hvstack-tiny-vm',
        )
        labs.emulated(self, '1', ceph=True)
        # With Cinder in its catalog.
        self.cloud = connection.connect(clouds_yaml.ADMIN_CLOUD)
        self.catalogues = [self.catalogue()]
        self.publish()

    def catalogue(self) -> Path:
        """Write a catalogue of one small flavor with a CPU of its own."""
        path = self.directory() / 'pinned.yaml'
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

    def volumes(self) -> tuple[str, ...]:
        """Return the options that promise the lab's volume types."""
        args = [f'--volume-backend={slot}:{slot}' for slot in pools.SLOTS]
        return (*args, '--disk-pinning')

    def pinned(self) -> Any:
        """Return a running guest of the flavor."""
        flavor = nova_flavors.list_flavors(self.cloud)['hv-lab-worker-pinned']
        return self.active(self.start(flavor, LAST, self.image))


class AsPromisedTest(QemuTest):
    def test_nothing_is_skipped(self) -> None:
        report = self.accept(*self.volumes(), *URI, '--test', SHOWN)
        self.assertEqual('passed', report['verdict'], str(report))
        self.assertEqual(0, report['stestr']['skipped'])
        self.counted(report)

    def test_tempest_run(self) -> None:
        """Tempest's own command, two at a time; its skips are told."""
        processutils.run(
            self.command(*self.volumes(), *URI, '--dry-run'), timeout=300
        )
        workspace = Workspace(self.workspace)
        done = processutils.run(
            [
                *(TEMPEST, 'run', '--config-file', str(workspace.conf)),
                *('--regex', 'hvstack', '--concurrency', '2'),
            ],
            cwd=self.workspace,
            env=workspace.process_env(),
            timeout=1200,
            check=False,
        )
        self.assertEqual([], FAILED.findall(done.stdout))
        self.assertEqual(0, done.returncode, done.stdout[-3000:])
        self.assertEqual([], self.list_leftovers())
        report = self.accept('--last')
        printed_counts = {
            name: int(n) for name, n in COUNT.findall(done.stdout)
        }
        self.assertEqual(self.counts(report), printed_counts)
        self.counted(report)
        unchecked = {
            row['test']: row['reason']
            for row in report['results']
            if row['verdict'] == 'not checked'
        }
        # Containers and an emulated host do not make one cluster.
        for test in ('StackTest', 'StackLifeTest', 'FullClusterTest'):
            (reason,) = (
                reason for name, reason in unchecked.items() if test in name
            )
            self.assertIn('types of hypervisors', reason)
        for test in unchecked:
            self.assertNotRegex(test, f'({SHOWN})Test')

    def counts(self, report: dict[str, Any]) -> dict[str, int]:
        """Return a report's counts by stestr's words."""
        return {
            name.capitalize(): report['stestr'][name]
            for name in ('passed', 'skipped', 'failed')
        }

    def counted(self, report: dict[str, Any]) -> None:
        """Compare a report with what stestr counts."""
        done = processutils.run(
            [STESTR, 'last'],
            cwd=self.workspace,
            env=Workspace(self.workspace).process_env(),
            check=False,
        )
        printed_counts = {
            name: int(n) for name, n in COUNT.findall(done.stdout)
        }
        self.assertEqual(
            self.counts(report), printed_counts, done.stdout[-2000:]
        )


class SabotageTest(QemuTest):
    def test_moved_pin(self) -> None:
        args = ('--scope', 'host', *URI)
        guest = self.pinned()
        self.assertEqual(set(), self.failed(*args))
        size = hosts.find(LAST)
        processutils.run(
            [
                *(HVSTACK, 'lab', 'host', 'exec', size.name, '--'),
                *('virsh', '-c', 'qemu:///system', 'vcpupin'),
                *(guest.instance_name, '0', '0'),
            ]
        )
        self.assertEqual({'test_pins'}, self.failed(*args))

    def test_volume_type_of_another_disk(self) -> None:
        args = (
            *('--scope', 'operator', *self.volumes()),
            *('--test', 'Volumes|Flavors|Ratios'),
        )
        self.assertEqual(set(), self.failed(*args))
        first, second = pools.SLOTS[:2]
        self.addCleanup(self.point, first, first)
        self.point(first, second)
        # Its disk is another's, too.
        self.assertEqual(
            {'test_backends', 'test_disks_of_one_node'}, self.failed(*args)
        )

    def point(self, volume_type: str, backend: str) -> None:
        """Have a volume type lead to a backend."""
        storage = self.cloud.block_storage
        storage.update_type_extra_specs(
            storage.find_type(volume_type, ignore_missing=False),
            volume_backend_name=backend,
        )
