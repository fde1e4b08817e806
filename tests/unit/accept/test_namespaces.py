# SPDX-License-Identifier: Apache-2.0
"""Programs of daemons whose container no engine of the host names."""

import os
import shutil
import subprocess
from pathlib import Path

import fixtures
import testtools

from hvstack import errors, processutils, shell_scripts


class NamespaceTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        if os.geteuid() or not shutil.which('nsenter'):
            self.skipTest('needs root and nsenter')
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.tools = self.directory / 'tools'
        self.tools.mkdir()
        for tool in ('sh', 'nsenter', 'tr'):
            path = shutil.which(tool)
            assert path
            (self.tools / tool).symlink_to(path)

    def start(self, daemon: str, program: str, script: str) -> None:
        """Start a daemon with a program that the host does not have.

        :param daemon: name of the process.
        :param program: name of the program.
        :param script: what the program executes.
        """
        own = self.directory / 'own'
        own.mkdir()
        process = subprocess.Popen(
            [
                *('unshare', '--mount', '--', 'sh', '-c'),
                'mount -t tmpfs none "$0" && printf "%s\n" "$2" >"$0/$1" && '
                'chmod 755 "$0/$1" && echo done && exec sleep 60',
                *(own, program, f'#!/bin/sh\n{script}'),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        assert process.stdout is not None
        if process.stdout.readline() != 'done\n':
            self.skipTest('no mount namespaces on this machine')
        for number, comm in ((6, 'sshd'), (7, daemon), (8, daemon)):
            entry = self.directory / 'processes' / str(number)
            (entry / 'ns').mkdir(parents=True)
            (entry / 'comm').write_text(f'{comm}\n')
            target = process.pid if number == 7 else 'self'
            (entry / 'ns' / 'mnt').symlink_to(f'/proc/{target}/ns/mnt')

    def execute(self, script: str) -> str:
        """Execute a script on the host; return its output."""
        script = shell_scripts.load('find-namespace') + script
        script = script.replace(' /proc/', f' {self.directory}/processes/')
        path = f'{self.directory / "own"}:{self.tools}'
        return processutils.run(
            ['sh', '-c', script], env={'PATH': path}
        ).stdout

    def test_virsh(self) -> None:
        self.start('virtqemud', 'virsh', 'echo "<$*>"')
        script = shell_scripts.render('virsh', 'dumpxml', '--domain=a b')
        self.assertEqual('<dumpxml --domain=a b>\n', self.execute(script))
        virsh = self.tools / 'virsh'
        virsh.write_text('#!/bin/sh\necho host\n')
        virsh.chmod(0o755)
        self.assertEqual('host\n', self.execute(script))

    def test_bridges(self) -> None:
        self.start(
            'ovs-vswitchd',
            'ovs-vsctl',
            'case $2 in list-br) echo br-int;; *) echo \'"netdev"\';; esac',
        )
        self.assertEqual(
            'br-int netdev\n',
            self.execute(shell_scripts.load('ovs-bridges')),
        )

    def test_without_daemon(self) -> None:
        (self.directory / 'processes').mkdir()
        for script in ('virsh', 'ovs-bridges'):
            done = self.assertRaises(
                errors.CommandError, self.execute, shell_scripts.load(script)
            )
            self.assertIn('not found', str(done))
