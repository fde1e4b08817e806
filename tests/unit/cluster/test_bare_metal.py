# SPDX-License-Identifier: Apache-2.0
"""Inventories of bare-metal hosts, and what makes such a host ready."""

import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import fixtures
import testtools
import yaml

from hvstack import errors
from hvstack.cluster import (
    actions,
    bare_metal,
    baseline_hosts,
    host_inventory,
    host_script,
)
from hvstack.cluster.ssh import SSHNode
from hvstack.hadoop import sizing
from hvstack.sweep import platform_slots


class InventoryTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        for name in ('key', 'rootfs.tar'):
            (self.directory / name).touch()
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cluster.actions.SSH', self.directory / 'ssh'
            )
        )
        self.data: dict[str, Any] = {
            'key': str(self.directory / 'key'),
            'first_contact': 'accept',
            'rootfs': str(self.directory / 'rootfs.tar'),
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

    def read(self) -> list[host_inventory.Host]:
        path = self.directory / 'hosts.yaml'
        path.write_text(yaml.safe_dump(self.data))
        return baseline_hosts.read(path)

    def test_ssh_runs_all_of_it_in_the_guests_file_system(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cluster.ssh.SSHNode._connect', lambda _: None
            )
        )
        controller, worker = self.read()
        assert worker.reach
        self.assertIsInstance(worker.reach, SSHNode)
        argv = worker.reach.argv('echo "a b"; date')
        self.assertEqual('root@192.0.2.12', argv[-2])
        self.assertTrue(
            argv[-1].endswith(
                'chroot /var/lib/hvstack-bare/root sh -c \'echo "a b"; date\''
            ),
            argv[-1],
        )
        # Hadoop's user reads what root writes there.
        self.assertTrue(argv[-1].startswith('umask 022; '), argv[-1])
        self.assertEqual(20.5, worker.cpu_cap)
        self.assertIsNone(controller.cpu_cap)
        assert isinstance(controller.release, actions.ReleaseSSHHost)
        self.assertEqual('root@192.0.2.11', controller.release.argv()[-2])

    def test_user_without_root_behind_a_jump_host(self) -> None:
        """Programs take the places of ssh, which is sshd, too, and of sudo."""
        programs = self.directory / 'bin'
        programs.mkdir()
        for name, text in (
            ('ssh', 'for last; do :; done\nexec sh -c "$last"\n'),
            ('sudo', 'echo "sudo $1 $2 $3"\nshift 2\nexec "$@"\n'),
            ('chroot', 'shift\nexec "$@"\n'),
        ):
            program = programs / name
            program.write_text(f'#!/bin/sh\n{text}')
            program.chmod(0o755)
        path = f'{programs}:{os.environ["PATH"]}'
        for name, value in (
            ('hvstack.cluster.ssh.SSHNode._connect', lambda _: None),
            ('hvstack.cluster.host_inventory._PATH', path),
        ):
            self.useFixture(fixtures.MonkeyPatch(name, value))
        self.useFixture(fixtures.EnvironmentVariable('PATH', path))
        config = self.directory / 'ssh_config'
        config.write_text('Host 192.0.2.*\n  ProxyJump me@192.0.2.1\n')
        self.data |= {'user': 'operator', 'ssh_config': str(config)}
        _, worker = self.read()
        assert worker.reach
        output = worker.reach.run('echo "a \'b\'"').stdout
        self.assertEqual("sudo -n -- sh\na 'b'\n", output)
        action = worker.release
        assert isinstance(action, actions.ReleaseSSHHost)
        stored = actions.load(actions.dump(action), self.directory / 'mark')
        self.assertEqual(action, stored)
        for argv in (
            worker.reach.argv('x'),
            worker.reach.build_own_argv('x'),
            action.argv(),
        ):
            self.assertEqual(['-F', str(config)], argv[argv.index('-F') :][:2])
            self.assertEqual('operator@192.0.2.12', argv[-2])
            self.assertTrue(argv[-1].startswith('sudo -n -- sh -c '), argv)
        result = subprocess.run(
            action.on_host('echo "$0"'), capture_output=True, text=True
        )
        self.assertEqual('sudo -n -- sh\nsh\n', result.stdout)

    def test_users_that_are_none(self) -> None:
        for name in ('-oProxyCommand=x', 'a b', '', 7):
            self.data['user'] = name
            error = self.assertRaises(errors.InputError, self.read)
            self.assertIn("'user'", str(error))

    def test_workers_of_different_sizes(self) -> None:
        """The containers of a job did not fit on smaller workers."""
        self.data['hosts'].append(
            {
                **self.data['hosts'][1],
                'name': 'node3',
                'address': '192.0.2.13',
                'vcpus': 48,
                'memory_mib': 131072,
            }
        )
        self.read()
        path = self.directory / 'hosts.yaml'
        cluster = bare_metal.BareHosts.from_file(path)
        self.assertEqual(40, cluster.processors)
        self.assertEqual(
            sizing.size_node(40, 131072, native=True, controller_mib=262144),
            cluster.sized('hvstack'),
        )
        # Another part of a sweep computes the tasks from the same hosts.
        self.assertEqual(
            cluster.sized('hvstack').containers * 2,
            platform_slots.count_bare_metal(
                cluster.hosts, 'hvstack'
            ).containers,
        )

    def test_no_root_file_system(self) -> None:
        del self.data['rootfs']
        error = self.assertRaises(errors.InputError, self.read)
        self.assertIn('rootfs', str(error))

    def test_hdfs_has_a_directory_of_its_own_below_data(self) -> None:
        controller, worker = self.read()
        assert isinstance(controller.release, actions.ReleaseSSHHost)
        assert isinstance(worker.release, actions.ReleaseSSHHost)
        self.assertEqual('', controller.release.data)
        self.assertEqual('/data/1/hvstack-bare', worker.release.data)
        for release in (controller.release, worker.release):
            stored = actions.dump(release)
            self.assertEqual(
                release, actions.load(stored, self.directory / 'mark')
            )

    def test_disks(self) -> None:
        names = ['/dev/disk/by-id/ata-A', '/srv/disk.img', '/data2']
        self.data['hosts'][1]['disks'] = names
        for after in (None, 'keep', 'clear'):
            if after:
                self.data['hosts'][1]['after'] = after
            action = self.read()[1].release
            assert isinstance(action, actions.ReleaseSSHHost)
            self.assertEqual(names, list(action.disks))
            self.assertEqual(after or 'keep', action.after)
            stored = actions.dump(action)
            path = self.directory / 'mark'
            self.assertEqual(action, actions.load(stored, path))
            used = [f'used.{action.disks[name]}={name}' for name in names]
            self.assertLess(set(used), set(action.changes()))
            command = action.argv()[-1]
            self.assertIn(f' {action.data} {after or "keep"} used.', command)
        stored['after'] = 'erase'
        self.assertRaises(errors.InputError, actions.load, stored, path)

    def test_erased_disks(self) -> None:
        names = ['/dev/disk/by-id/ata-A', '/dev/disk/by-id/ata-B']
        self.data['hosts'][1]['disks'] = names
        hosts = self.read()
        chosen = host_inventory.select_wiped(hosts, [f'node2:{names[1]}'])
        self.assertEqual([set(), {names[1]}], [set(h.wiped) for h in chosen])
        action = chosen[1].release
        assert isinstance(action, actions.ReleaseSSHHost)
        for host, wipe in ((hosts[1], "''"), (chosen[1], 'wipe')):
            command = host_inventory.commands(host, action, [], 'amd')['check']
            uuid = action.disks[names[1]]
            self.assertTrue(
                command.text.endswith(f' {names[1]} {uuid} {wipe}'),
                command.text[-100:],
            )
            self.assertIn(' hv-amd ', command.text)
        for text in (
            *('node2', 'node1:/dev/disk/by-id/ata-A', 'node2:/dev/sdb'),
            *(f'node3:{names[0]}', f'node2:{names[0]}x', ':', ''),
        ):
            error = self.assertRaises(
                errors.InputError, host_inventory.select_wiped, hosts, [text]
            )
            self.assertIn(f"'{text}' (--wipe)", str(error))
            self.assertEqual(1, len(str(error).splitlines()))

    def test_a_cluster_of_them(self) -> None:
        path = self.directory / 'hosts.yaml'
        path.write_text(yaml.safe_dump(self.data))
        cluster = bare_metal.BareHosts.from_file(path)
        self.assertEqual(['node2'], [node.name for node in cluster.workers])
        self.assertEqual(1, cluster.replication)
        # Their caches are their own, not this machine's.
        self.assertIsNone(cluster.facts.drop_command)

    def test_refused(self) -> None:
        for change, word in (
            ({'root': '/'}, 'root'),
            ({'root': '/etc'}, 'root'),
            ({'root': '/srv; reboot'}, 'root'),
            ({'root': '/srv/../etc'}, 'root'),
            ({'address': 'node2; reboot'}, 'address'),
            ({'name': 'a b'}, 'name'),
            ({'name': 'node1'}, 'name'),
            ({'disks': ['/dev/sdb']}, 'by-id'),
            ({'disks': ['/dev/loop0']}, 'by-id'),
            ({'disks': ['/dev/disk/by-id/../../sdb']}, 'by-id'),
            ({'disks': ['sdb']}, 'by-id'),
            ({'disks': ['/srv/disk.img'] * 2}, 'twice'),
            ({'disks': ['/dev/mapper/vg-data']}, 'by-id'),
            ({'disks': ['/srv/../etc']}, 'by-id'),
            ({'disks': ['/']}, 'mount point'),
            ({'disks': '/srv/1'}, 'Name each disk'),
            ({'disks': ['/data/1']}, "as 'data'"),
            ({'after': 'erase'}, "'erase'. Use one of keep, clear"),
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

    def test_machine_with_two_names(self) -> None:
        """Its DataNode would register once, and count as two hosts."""
        worker = self.data['hosts'][1]
        self.data['hosts'].append(
            {**worker, 'name': 'node3', 'address': '192.0.2.13'}
        )
        self.assertEqual(3, len(self.read()))
        self.data['hosts'][2]['address'] = worker['address']
        error = self.assertRaises(errors.InputError, self.read)
        self.assertIn("node2 and node3 have the 'address'", str(error))

    def test_host_keys(self) -> None:
        """Whoever answered was believed."""
        reach = self.read()[0].reach
        assert reach
        self.assertIn('StrictHostKeyChecking=accept-new', reach.options())
        del self.data['first_contact']
        error = self.assertRaises(errors.InputError, self.read)
        self.assertIn("'known_hosts' is missing", str(error))
        known_hosts = self.directory / 'known_hosts'
        self.data['known_hosts'] = str(known_hosts)
        self.assertRaises(errors.InputError, self.read)
        known_hosts.touch()
        host = self.read()[0]
        assert host.reach and isinstance(host.release, actions.ReleaseSSHHost)
        stored = actions.dump(host.release)
        release = actions.load(stored, self.directory / 'mark')
        for options in (host.reach.options(), release.argv()):
            self.assertIn('StrictHostKeyChecking=yes', options)
            self.assertIn(f'UserKnownHostsFile={known_hosts}', options)

    def test_names_that_are_no_files(self) -> None:
        for name in ('x' * 300, '~no-such-user/key', '/dev/null'):
            self.data['key'] = name
            error = self.assertRaises(errors.InputError, self.read)
            self.assertIn("'key' is '", str(error))

    def test_no_key(self) -> None:
        (self.directory / 'key').unlink()
        error = self.assertRaises(errors.InputError, self.read)
        self.assertIn('key', str(error))


class HostScriptTest(testtools.TestCase):
    """The program for hosts, run on this one in a temporary directory."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(
            self.useFixture(fixtures.TempDir()).path
        ).resolve()
        self.root = self.directory / 'host' / 'root'
        self.archive = self.directory / 'rootfs.tar'

    def run_verb(
        self, *args: str | Path, before: str = '', stdin: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        verb, *operands = map(str, args)
        text = f'{before}\n{host_script.command(verb, *operands)}\n'
        argv = ['sh', '-c', text]
        if before:
            if os.geteuid() != 0:
                self.skipTest('Only root can mount.')
            argv = ['unshare', '-m', '--propagation', 'private', *argv]
        with (stdin or Path('/dev/null')).open() as stream:
            return subprocess.run(
                argv, stdin=stream, capture_output=True, text=True, check=False
            )

    def refused(self, part: str, *args: str | Path, before: str = '') -> None:
        done = self.run_verb(*args, before=before)
        self.assertEqual(1, done.returncode, done.stdout)
        self.assertEqual(1, done.stderr.count('\n'), done.stderr)
        self.assertIn(part, done.stderr)

    def unpack(self, stamp: str, content: str) -> None:
        source = self.directory / 'file'
        source.write_text(content)
        with tarfile.open(self.archive, 'w') as tar:
            tar.add(source, 'file')
        self.assertEqual(0, self.run_verb('claim', self.root, '').returncode)
        done = self.run_verb('unpack', self.root, stamp, stdin=self.archive)
        self.assertEqual('', done.stderr)

    def test_unpacked_once(self) -> None:
        self.unpack('1', 'one')
        self.assertEqual('one', (self.root / 'file').read_text())
        (self.root / 'mine').touch()
        done = self.run_verb('claim', self.root, '')
        self.assertEqual('1\n', done.stdout)
        self.unpack('2', 'two')
        self.assertFalse((self.root / 'mine').exists())
        self.assertEqual('two', (self.root / 'file').read_text())

    def test_hosts_with_a_private_umask(self) -> None:
        """Hadoop's user could not enter /srv, nor read /etc/hosts."""
        data = self.directory / 'disk' / 'data'
        programs = self.directory / 'bin'
        programs.mkdir()
        (programs / 'mount').write_text('#!/bin/sh\n')
        (programs / 'mount').chmod(0o755)
        hosts = self.root / 'etc' / 'hosts'
        for verb, *args in (
            ('claim', self.root, data),
            ('mount_root', self.root, data, '192.0.2.12', 'node2'),
        ):
            text = host_script.command(verb, *map(str, args))
            done = subprocess.run(
                ['sh', '-c', f'umask 077; PATH={programs}:$PATH; {text}'],
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual((0, ''), (done.returncode, done.stderr))
            # What an earlier release of hvstack left.
            hosts.parent.mkdir(exist_ok=True)
            hosts.touch(mode=0o600)
        for path, mode in ((self.root, 0o755), (data, 0o755), (hosts, 0o644)):
            self.assertEqual(mode, path.stat().st_mode & 0o777, path)

    def test_directories_that_are_not_hvstacks(self) -> None:
        """The content of root was deleted, whatever it was."""
        self.root.mkdir(parents=True)
        (self.root / 'file').write_text("an operator's")
        stamp = f'hvstack directory {self.root.stat().st_ino + 1}\n'
        for name, text in (('file', None), ('.hvstack', stamp)):
            if text:
                (self.root / name).write_text(text)
            self.refused('did not create it', 'claim', self.root, '')
            self.refused('did not create it', 'unpack', self.root, '1')
            self.refused(
                'did not create it', 'claim', self.directory / 'a', self.root
            )
            done = self.run_verb('release', self.root, self.root, 'keep')
            self.assertEqual((0, ''), (done.returncode, done.stderr))
            self.assertTrue((self.root / 'file').exists())

    def test_links(self) -> None:
        self.unpack('1', 'one')
        link = self.directory / 'link'
        link.symlink_to(self.root)
        self.refused('symbolic link', 'claim', link, '')
        self.refused('symbolic link', 'claim', link / 'x', '')
        self.refused('did not create it', 'unpack', link, '2')
        self.assertTrue((self.root / 'file').exists())

    def test_a_copy_is_not_hvstacks(self) -> None:
        self.unpack('1', 'one')
        copy = self.directory / 'copy'
        shutil.copytree(self.root, copy)
        self.refused('did not create it', 'unpack', copy, '2')
        self.assertTrue((copy / 'file').exists())

    def test_what_is_mounted_is_not_emptied(self) -> None:
        """A mount that was busy was deleted through: an operator's data."""
        self.unpack('1', 'one')
        data_of_others = self.directory / 'data_of_others'
        data_of_others.mkdir()
        (data_of_others / 'file').touch()
        (self.root / 'srv').mkdir()
        mount = f'mount --bind {data_of_others} {self.root}/srv'
        self.refused('is mounted', 'unpack', self.root, '2', before=mount)
        busy = f'mount --bind {self.root} {self.root}; {mount}'
        busy += f'; exec 8<{self.root}/file'
        self.refused(
            *('Cannot unmount', 'release', self.root, '', 'keep'), before=busy
        )
        self.assertTrue((data_of_others / 'file').exists())
        self.assertTrue((self.root / 'file').exists())

    def test_released(self) -> None:
        self.unpack('1', 'one')
        data = self.directory / 'disk' / 'hvstack-bare'
        data_of_others = data.parent / 'data_of_others'
        self.assertEqual(0, self.run_verb('claim', self.root, data).returncode)
        data_of_others.touch()
        (data / 'hdfs').mkdir()
        for path in ('srv', 'proc', 'sys', 'dev', 'run', 'etc'):
            (self.root / path).mkdir()
        mount = host_script.command(
            'mount_root', str(self.root), str(data), '192.0.2.1', 'node1'
        )
        look = f'touch {self.root}/srv/inside; ls {data}/inside >&2'
        done = self.run_verb(
            'release', self.root, data, 'keep', before=f'{mount}; {look}'
        )
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(f'{data}/inside\n', done.stderr)
        self.assertEqual([data_of_others], list(data.parent.iterdir()))
        self.assertEqual('one', (self.root / 'file').read_text())
        self.assertIn('192.0.2.1 node1', (self.root / 'etc/hosts').read_text())
