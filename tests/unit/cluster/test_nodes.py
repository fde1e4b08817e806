# SPDX-License-Identifier: Apache-2.0
"""Test how commands run on the nodes of a cluster."""

import os
import shlex
import socket
from dataclasses import replace
from pathlib import Path
from unittest import mock

import fixtures
import testtools
from testtools import matchers

from hvstack import errors, processutils
from hvstack.cloud import host_keys
from hvstack.cluster.base import ClusterFacts, ClusterNodes
from hvstack.cluster.command_node import CommandNode
from hvstack.cluster.ssh import SSHAccess, SSHNode
from hvstack.cluster.stack import StackCluster
from hvstack.hadoop.daemon_http import run_on_nodes

OUTPUTS = {
    'controller': {
        'name': 'c',
        'address': '10.0.0.1',
        'host_id': 'h1',
        'server_id': 's1',
        'host_key': f'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{43 * "c"}',
    },
    'workers': [
        {'name': f'w{n}', 'address': f'10.0.0.{n}', 'host_id': f'h{n % 2}'}
        for n in (2, 3, 4)
    ],
}


class CommandNodeTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.node = CommandNode(
            name='n1',
            address='10.0.0.1',
            role='worker',
            host='h1',
            enter=('env', 'GREETING=hello'),
        )

    def test_run(self) -> None:
        self.assertEqual('hello\n', self.node.run('echo $GREETING').stdout)
        self.assertEqual('in', self.node.run('cat', stdin='in').stdout)

    def test_error_names_the_node(self) -> None:
        failure = self.assertRaises(
            errors.CommandError, self.node.run, 'echo broken >&2; exit 3'
        )
        self.assertIn('n1', str(failure))
        self.assertIn('broken', str(failure))

    def test_put(self) -> None:
        path = self.directory / "it's new" / 'file'
        self.node.put('text\n', str(path), 0o600)
        self.assertEqual('text\n', path.read_text())
        self.assertEqual(0o600, path.stat().st_mode & 0o777)
        self.assertEqual([path], list(path.parent.iterdir()))

    def test_on_all_keeps_order_and_raises(self) -> None:
        replies = run_on_nodes([self.node, self.node], 'echo $$')
        self.assertEqual(2, len({reply.stdout for reply in replies}))
        self.assertRaises(
            errors.CommandError, run_on_nodes, [self.node], 'exit 1'
        )

    def test_drop_caches_by_a_given_program(self) -> None:
        mark = self.directory / 'dropped'
        cluster = ClusterNodes(
            'c',
            self.node,
            [self.node],
            1,
            ClusterFacts(drop_command=('touch', str(mark))),
        )
        cluster.drop_caches()
        self.assertTrue(mark.exists())


class SSHNodeTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        program = self.directory / 'ssh'
        # Takes what comes after the options as sshd would; "-O check" says
        # that no connection is open.
        program.write_text(
            '#!/bin/sh\necho "$@" >>"$0.log"\n'
            'case "$*" in *"-O check"*) exit 255;; *" -M "*) exit 0;; esac\n'
            '[ ! -e "$0.refusal" ] || { cat "$0.refusal" >&2; exit 255; }\n'
            'for last; do :; done; exec sh -c "$last"\n'
        )
        program.chmod(0o755)
        self.useFixture(
            fixtures.EnvironmentVariable(
                'PATH', f'{self.directory}:/usr/bin:/bin'
            )
        )
        self.node = SSHNode(
            name='w1',
            address='10.0.0.2',
            role='worker',
            host='h1',
            key=Path('/key'),
            directory=self.directory / 'sockets',
        )

    def test_run(self) -> None:
        result = self.node.run('cat; echo done', stdin='in ')
        self.assertEqual('in done\n', result.stdout)
        log = (self.directory / 'ssh.log').read_text()
        self.assertIn('-i /key', log)
        self.assertIn('root@10.0.0.2', log)
        self.assertIn(f'UserKnownHostsFile={self.directory}/sockets', log)

    def refusal(self, message: str, node: SSHNode) -> str:
        """Return the error for what ssh prints when it refuses a key."""
        (self.directory / 'ssh.refusal').write_text(
            f'{message}\nHost key verification failed.\n'
        )
        for check in (True, False):
            error = self.assertRaises(
                errors.HostKeyError, node.run, 'true', check=check
            )
        return str(error)

    def test_refused_host_keys(self) -> None:
        known_hosts = self.directory / 'known'
        node = replace(self.node, known_hosts=known_hosts)
        self.assertIn('StrictHostKeyChecking=yes', node.options())
        self.assertIn(f'UserKnownHostsFile={known_hosts}', node.options())
        message = self.refusal(
            'No ED25519 host key is known for 10.0.0.2 and you have requested '
            'strict checking.',
            node,
        )
        self.assertEqual(
            f'Cannot connect to w1 (10.0.0.2): {known_hosts} has no ssh host '
            "key of the node. Add the line '10.0.0.2 ssh-ed25519 ...' with "
            'the key that the console of the node shows.',
            message,
        )
        message = self.refusal(
            '@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n'
            'Host key for 10.0.0.2 has changed and you have requested strict '
            'checking.',
            node,
        )
        self.assertEqual(
            'Cannot connect to w1 (10.0.0.2): its ssh host key is not the '
            f'one in {known_hosts}. Replace the node, because another machine '
            'may answer for it. If you changed its key yourself, replace its '
            "line with '10.0.0.2 ssh-ed25519 ...'.",
            message,
        )
        # A wait for the node ends at once.
        self.assertRaises(
            errors.HostKeyError,
            processutils.wait_for,
            lambda: node.run('true').returncode == 0,
            'the node',
            timeout=60,
        )

    def behind(self) -> SSHNode:
        """Return the node behind the floating IP of another one."""
        known_hosts = self.directory / 'known'
        entry_node = replace(
            self.node,
            name='c',
            address='10.0.0.1',
            login_address='203.0.113.7',
            known_hosts=known_hosts,
        )
        return replace(self.node, jump=entry_node, known_hosts=known_hosts)

    def test_through_another_node(self) -> None:
        node = self.behind()
        node.run('true')
        lines = (self.directory / 'ssh.log').read_text().splitlines()
        opened = [line for line in lines if ' -M -N -f ' in line]
        self.assertEqual(
            ['root@203.0.113.7', 'root@10.0.0.2'],
            [line.split()[-1] for line in opened],
        )
        self.assertIn('HostKeyAlias=10.0.0.1', opened[0])
        self.assertNotIn('HostKeyAlias', opened[1].split('ProxyCommand')[0])
        # What ssh itself makes of the options, for both connections.
        config = self.evaluate([*node.options(), 'root@10.0.0.2'])
        command = config['proxycommand'].replace('%%', '%')
        self.assertIn(' -i /key ', command)
        self.assertIn('-W [%h]:%p root@203.0.113.7', command)
        command = command.replace('[%h]:%p', '[10.0.0.2]:22')
        expected = {
            **{'hostkeyalias': '10.0.0.1', 'batchmode': 'yes'},
            **{'user': 'root', 'hostname': '203.0.113.7'},
            'stricthostkeychecking': 'true',
            'userknownhostsfile': f'{self.directory}/known',
        }
        jump_config = self.evaluate(shlex.split(command)[1:])
        self.assertEqual(
            expected, {name: jump_config[name] for name in expected}
        )
        self.assertThat(
            jump_config['controlpath'],
            matchers.StartsWith(f'{self.directory}/sockets/'),
        )

    def evaluate(self, args: list[str]) -> dict[str, str]:
        """Return the configuration of the ssh program for arguments."""
        result = processutils.run(['/usr/bin/ssh', '-G', *args])
        return dict(line.split(' ', 1) for line in result.stdout.splitlines())

    def test_refused_host_key_of_the_other_node(self) -> None:
        node = self.behind()
        for address, name in (('10.0.0.1', 'c'), ('10.0.0.2', 'w1')):
            for message in (
                f'No ED25519 host key is known for {address} and you have '
                'requested strict checking.',
                f'Host key for {address} has changed and you have requested '
                'strict checking.',
            ):
                self.assertThat(
                    self.refusal(message, node),
                    matchers.StartsWith(
                        f'Cannot connect to {name} ({address}): '
                    ),
                )

    def test_another_failure_of_ssh(self) -> None:
        (self.directory / 'ssh.refusal').write_text('Connection refused\n')
        failure = self.assertRaises(errors.CommandError, self.node.run, 'true')
        self.assertIn("'w1: true' exited with status 255", str(failure))
        self.assertEqual(255, self.node.run('true', check=False).returncode)

    def test_opens_one_shared_connection(self) -> None:
        self.node.run('true')
        lines = (self.directory / 'ssh.log').read_text().splitlines()
        self.assertEqual(1, sum(' -M -N -f ' in line for line in lines))
        self.assertIn('ControlMaster=no', lines[-1])

    def test_directory_that_is_too_long_for_a_socket(self) -> None:
        """The program ssh ends if the path has more than 107 bytes."""
        longest = 107 - len('/') - 40 - len('.0123456789abcdef')
        for directory, is_shared in (
            ('/' + 'd' * (longest - 1), True),
            ('/' + 'd' * longest, False),
            ('/' + 'ü' * (longest // 2 + 1), False),
            ('/home/' + 'n' * 100 + '/.local/state/hvstack/ssh', False),
        ):
            node = replace(self.node, directory=Path(directory))
            (self.directory / 'ssh.log').unlink(missing_ok=True)
            with mock.patch('hvstack.paths.make_directory'):
                node.run('true')
                node.close()
            log = (self.directory / 'ssh.log').read_text()
            self.assertEqual(is_shared, ' -M -N -f ' in log, directory)
            config = self.evaluate([*node.options(), 'root@10.0.0.2'])
            path = config.get('controlpath', 'none')
            self.assertEqual(is_shared, path != 'none')
            self.assertLess(len(os.fsencode(path)) + 17, 108)


class StackClusterTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cloud.host_keys.DIRECTORY', self.directory
            )
        )

    def test_only_recorded_host_keys(self) -> None:
        cluster = self.make(OUTPUTS)
        path = host_keys.file_of('s')
        for node in cluster.nodes:
            assert isinstance(node, SSHNode)
            self.assertEqual(path, node.known_hosts)
            self.assertIn('StrictHostKeyChecking=yes', node.options())
        self.assertIn('10.0.0.1 ssh-ed25519 AAAA', path.read_text())
        cluster.close()
        self.assertTrue(path.exists())

    def test_close_at_the_same_time(self) -> None:
        """A connection of 640 nodes after another would take minutes."""
        program = self.directory / 'ssh'
        # Each end of a connection waits for that of another node.
        program.write_text(
            '#!/bin/sh\necho "$@" >>"$0.log"\n'
            'for try in 1 2 3 4 5 6 7 8; do\n'
            '    [ "$(wc -l <"$0.log")" -lt 2 ] || exit 0\n'
            '    sleep 0.1\ndone\ntouch "$0.alone"\n'
        )
        program.chmod(0o755)
        self.useFixture(
            fixtures.EnvironmentVariable(
                'PATH', f'{self.directory}:/usr/bin:/bin'
            )
        )
        cluster = self.make(OUTPUTS)
        assert cluster.directory is not None
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(cluster.directory / 'master'))
            cluster.close()
        lines = (self.directory / 'ssh.log').read_text().splitlines()
        self.assertEqual(
            {f'root@10.0.0.{index}' for index in range(1, 5)},
            {line.split()[-1] for line in lines if '-O exit' in line},
        )
        self.assertFalse((self.directory / 'ssh.alone').exists())
        self.assertFalse(cluster.directory.exists())

    def make(self, outputs: dict[str, object]) -> StackCluster:
        cluster = StackCluster.from_outputs(
            outputs, SSHAccess(Path('/key')), name='s', processors=2
        )
        self.addCleanup(cluster.close)
        return cluster

    def test_from_outputs(self) -> None:
        cluster = self.make(OUTPUTS)
        self.assertEqual(2, cluster.worker_hosts)
        self.assertEqual(
            ['c', 'w2', 'w3', 'w4'], [node.name for node in cluster.nodes]
        )
        self.assertEqual('h1', cluster.gateway.host)

    def test_nodes_behind_a_floating_ip(self) -> None:
        outputs = {**OUTPUTS, 'ssh': 'ssh root@203.0.113.7'}
        cluster = self.make(outputs)
        nodes = [node for node in cluster.nodes if isinstance(node, SSHNode)]
        self.assertEqual(
            ['10.0.0.1', '10.0.0.2', '10.0.0.3', '10.0.0.4'],
            [node.address for node in nodes],
        )
        gateway, *workers = nodes
        self.assertEqual('203.0.113.7', gateway.login_address)
        self.assertIn('HostKeyAlias=10.0.0.1', gateway.options())
        for worker in workers:
            self.assertEqual('', worker.login_address)
            self.assertEqual(cluster.entry_node, worker.jump)
        client = {'name': 'client', 'address': '10.0.0.8', 'host_key': ''}
        cluster = self.make({**outputs, 'gateway': client})
        for node in cluster.nodes:
            assert isinstance(node, SSHNode) and node.jump is not None
            self.assertEqual(
                ('10.0.0.8', '203.0.113.7'),
                (node.jump.address, node.jump.login_address),
            )

    def test_nodes_with_addresses_that_this_machine_reaches(self) -> None:
        for text in ('ssh root@10.0.0.1', 'ssh root@-oProxyCommand=x', None):
            for node in self.make({**OUTPUTS, 'ssh': text}).nodes:
                assert isinstance(node, SSHNode)
                self.assertEqual(('', None), (node.login_address, node.jump))

    def test_ssh_configuration(self) -> None:
        config = self.directory / 'config'
        failure = self.assertRaises(
            errors.InputError, SSHAccess.of, Path('/key'), config
        )
        self.assertIn(str(config), str(failure))
        config.write_text('Port 2222\n')
        cluster = StackCluster.from_outputs(
            {**OUTPUTS, 'ssh': 'ssh root@203.0.113.7'},
            SSHAccess.of(Path('/key'), config),
            name='s',
            processors=2,
        )
        self.addCleanup(cluster.close)
        for node in cluster.nodes:
            assert isinstance(node, SSHNode)
            self.assertEqual(['-F', str(config)], node.options()[:2])
        self.assertEqual(
            ['-F', '/dev/null'], self.make(OUTPUTS).gateway.options()[:2]
        )

    def test_separate_controllers_and_compute_workers(self) -> None:
        outputs = dict(OUTPUTS)
        for index, name in ((8, 'resourcemanager'), (9, 'compute')):
            node_output = {
                'name': name,
                'address': f'10.0.0.{index}',
                'host_id': f'h{index}',
            }
            outputs[name] = [node_output] if name == 'compute' else node_output
        cluster = self.make(outputs)
        self.assertEqual('resourcemanager', cluster.manager.name)
        self.assertEqual(
            ['controller'] * 2 + ['data'] * 3 + ['compute'],
            [node.role for node in cluster.nodes],
        )
        # What conditions leave out is there without a value.
        plain = self.make(
            {**OUTPUTS, 'resourcemanager': None, 'compute': None}
        )
        self.assertIs(plain.gateway, plain.manager)

    def test_missing_output(self) -> None:
        for missing in OUTPUTS:
            outputs = {k: v for k, v in OUTPUTS.items() if k != missing}
            failure = self.assertRaises(errors.InputError, self.make, outputs)
            self.assertIn(
                f"stack 's': its outputs lack '{missing}'", str(failure)
            )
