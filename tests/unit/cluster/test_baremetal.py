# SPDX-License-Identifier: Apache-2.0
"""Inventories of bare-metal hosts, and what makes such a host ready."""

import subprocess
import tarfile
from pathlib import Path
from typing import Any

import fixtures
import testtools
import yaml

from hvstack import errors
from hvstack.cluster import actions, baremetal, hosts
from hvstack.cluster.ssh import SSHNode


class InventoryTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.useFixture(fixtures.TempDir()).path)
        for name in ('key', 'rootfs.tar'):
            (self.folder / name).touch()
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cluster.actions.SSH', self.folder / 'ssh'
            )
        )
        self.data: dict[str, Any] = {
            'key': str(self.folder / 'key'),
            'rootfs': str(self.folder / 'rootfs.tar'),
            'hosts': [
                {
                    'name': 'node1',
                    'role': 'controller',
                    'address': '192.0.2.11',
                    'vcpus': 40,
                    'memory_mib': 262144,
                },
                {
                    'name': 'node2',
                    'role': 'worker',
                    'address': '192.0.2.12',
                    'vcpus': 40,
                    'memory_mib': 262144,
                    'data': '/data/1',
                    'cpu_cap': 20.5,
                },
            ],
        }

    def read(self) -> list[baremetal.Host]:
        path = self.folder / 'hosts.yaml'
        path.write_text(yaml.safe_dump(self.data))
        return hosts.read(path)

    def test_ssh_runs_all_of_it_in_the_guests_file_system(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cluster.ssh.SSHNode._connect', lambda _: None
            )
        )
        controller, worker = self.read()
        assert worker.reach
        self.assertIsInstance(worker.reach, SSHNode)
        words = worker.reach.argv('echo "a b"; date')
        self.assertEqual('root@192.0.2.12', words[-2])
        self.assertTrue(
            words[-1].endswith(
                'chroot /var/lib/hvstack-bare/root sh -c \'echo "a b"; date\''
            ),
            words[-1],
        )
        self.assertEqual(20.5, worker.cpu_cap)
        self.assertIsNone(controller.cpu_cap)
        assert isinstance(controller.release, actions.ReleaseSSHHost)
        self.assertEqual('root@192.0.2.11', controller.release.argv()[-2])

    def test_hosts_with_hadoop_of_their_own(self) -> None:
        del self.data['rootfs']
        _, worker = self.read()
        assert worker.reach
        self.assertEqual(
            ((), None, ()),
            (worker.prepare, worker.release, worker.reach.inside),
        )

    def test_a_cluster_of_them(self) -> None:
        path = self.folder / 'hosts.yaml'
        path.write_text(yaml.safe_dump(self.data))
        cluster = hosts.BareHosts.from_file(path)
        self.assertEqual(['node2'], [node.name for node in cluster.workers])
        self.assertEqual(1, cluster.replication)
        # Their caches are their own, not this machine's.
        self.assertIsNone(cluster.drop_command)

    def test_refused(self) -> None:
        for change, word in (
            ({'root': '/'}, 'root'),
            ({'root': '/etc'}, 'root'),
            ({'root': '/srv; reboot'}, 'root'),
            ({'root': '/srv/../etc'}, 'root'),
            ({'address': 'node2; reboot'}, 'address'),
            ({'name': 'a b'}, 'name'),
            ({'name': 'node1'}, 'name'),
            ({'role': 'gateway'}, 'role'),
            ({'vcpus': 0}, 'vcpus'),
            ({'adress': '1'}, 'adress'),
        ):
            good = self.data['hosts'][1]
            self.data['hosts'][1] = {**good, **change}
            error = self.assertRaises(errors.InputError, self.read)
            self.data['hosts'][1] = good
            self.assertIn(word, str(error))
            self.assertEqual(1, len(str(error).splitlines()))

    def test_no_key(self) -> None:
        (self.folder / 'key').unlink()
        error = self.assertRaises(errors.InputError, self.read)
        self.assertIn('key', str(error))


class PrepareTest(testtools.TestCase):
    """The part that runs here, with a shell for the host's."""

    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.useFixture(fixtures.TempDir()).path)
        self.root = self.folder / 'host' / 'root'
        (self.folder / 'file').write_text('one')

    def prepare(self, stamp: str) -> list[str]:
        archive = self.folder / 'rootfs.tar'
        with tarfile.open(archive, 'w') as tar:
            tar.add(self.folder / 'file', 'file')
        log = self.folder / 'log'
        log.write_text('')
        done = subprocess.run(
            [
                *('sh', '-c', baremetal._PREPARE, 'prepare', str(archive)),
                *(stamp, str(self.root), f'echo end >>{log}'),
                *(f'echo mount >>{log}', str(self.folder / 'keys')),
                *('sh', '-c'),
            ],
            check=False,
        )
        self.assertEqual(0, done.returncode)
        return log.read_text().split()

    def test_unpacked_once(self) -> None:
        self.assertEqual(['end', 'mount'], self.prepare('1'))
        self.assertEqual('one', (self.root / 'file').read_text())
        (self.root / 'mine').touch()
        self.prepare('1')
        self.assertTrue((self.root / 'mine').exists())
        (self.folder / 'file').write_text('two')
        self.prepare('2')
        self.assertFalse((self.root / 'mine').exists())
        self.assertEqual('two', (self.root / 'file').read_text())
