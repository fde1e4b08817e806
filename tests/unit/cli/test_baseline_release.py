# SPDX-License-Identifier: Apache-2.0
"""Test the confirmation of erased disks and ``hvstack baseline release``."""

import io
import json
import os
from contextlib import redirect_stderr
from pathlib import Path

import fixtures
import testtools
import yaml

from hvstack import errors
from hvstack.cli import baseline_release
from hvstack.cluster import acquired_hosts, baseline_hosts, host_inventory
from hvstack.progress import Progress
from tests.unit.cli.runner import run_command

DISK = '/dev/disk/by-id/ata-A'
#: Notes the last argument, and answers as a host with one disk.
SSH = """#!/bin/sh
for last; do :; done
echo "$last" | tail -n 1 | sed 's/^.* hvstack //' >>{directory}/log
case $last in
*"hvstack describe "*) printf '{disk}\\text4 ledger\\n' ;;
esac
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class HostsTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        programs = self.directory / 'bin'
        programs.mkdir()
        ssh = programs / 'ssh'
        ssh.write_text(SSH.format(directory=self.directory, disk=DISK))
        ssh.chmod(0o755)
        self.log = self.directory / 'log'
        self.log.touch()
        path = fixtures.EnvironmentVariable('PATH', f'{programs}:/usr/bin')
        self.useFixture(path)
        for name, value in (
            ('actions.SSH', self.directory / 'ssh'),
            ('acquired_hosts.ACQUIRED_HOSTS_DIR', self.directory / 'taken'),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(f'hvstack.cluster.{name}', value)
            )
        for name in ('key', 'rootfs.tar'):
            (self.directory / name).touch()
        host = {'address': '192.0.2.1', 'vcpus': 2, 'memory_mib': 4096}
        self.inventory = self.directory / 'hosts.yaml'
        self.inventory.write_text(
            yaml.safe_dump(
                {
                    'key': str(self.directory / 'key'),
                    'first_contact': 'accept',
                    'rootfs': str(self.directory / 'rootfs.tar'),
                    'hosts': [
                        {'name': 'c', 'role': 'controller', **host},
                        {
                            **{'name': 'w', 'role': 'worker', **host},
                            **{'disks': [DISK], 'after': 'clear'},
                        },
                    ],
                }
            )
        )

    def confirm(
        self, answer: str, yes: bool = False, terminal: bool = True
    ) -> str:
        """Return the output of the confirmation; errors are raised."""
        hosts = host_inventory.select_wiped(
            baseline_hosts.read(self.inventory), [f'w:{DISK}']
        )
        stream = Terminal if terminal else io.StringIO
        stderr = stream()
        with (
            fixtures.MonkeyPatch('sys.stdin', stream(answer)),
            redirect_stderr(stderr),
        ):
            baseline_release.confirm_wipe(hosts, yes, Progress(stderr))
        return stderr.getvalue()

    def test_confirmed(self) -> None:
        for answer in ('y\n', 'YES\n'):
            text = self.confirm(answer)
            self.assertIn(f'w:{DISK}, which contains ext4 ledger', text)
            self.assertIn('[y/N]', text)
        with fixtures.MonkeyPatch('hvstack.progress.Progress.is_quiet', True):
            text = self.confirm('', yes=True, terminal=False)
        self.assertIn('ext4 ledger', text)
        self.assertNotIn('[y/N]', text)

    def test_not_confirmed(self) -> None:
        for answer in ('', '\n', 'n\n', 'yess\n'):
            exc = self.assertRaises(errors.InputError, self.confirm, answer)
            self.assertIn('not to be erased', str(exc))
        self.log.write_text('')
        exc = self.assertRaises(
            errors.InputError, self.confirm, 'y\n', False, False
        )
        self.assertIn('Use --yes', str(exc))
        self.assertEqual('', self.log.read_text())

    def test_nothing_to_erase(self) -> None:
        hosts = baseline_hosts.read(self.inventory)
        baseline_release.confirm_wipe(hosts, False, Progress())
        self.assertEqual('', self.log.read_text())

    def release(self, *args: str) -> tuple[int, str, str]:
        return run_command(
            *('baseline', 'release', '--hosts', str(self.inventory)),
            *('-f', 'json', *args),
        )

    def test_release(self) -> None:
        """The hosts undo what they have recorded themselves."""
        status, out, err = self.release()
        self.assertEqual((0, ''), (status, err))
        self.assertEqual(['c', 'w'], [row['Host'] for row in json.loads(out)])
        root = '/var/lib/hvstack-bare/root'
        self.assertEqual(
            {f"release {root} '' keep", f"release {root} '' clear"},
            set(self.log.read_text().splitlines()),
        )

    def test_dry_run(self) -> None:
        status, out, _ = self.release('--dry-run')
        self.assertEqual((0, ''), (status, self.log.read_text()))
        commands = [row['Command'] for row in json.loads(out)]
        for command, after in zip(commands, ('keep', 'clear'), strict=True):
            self.assertIn('"$SCRIPT" hvstack release', command)
            self.assertTrue(command.endswith(f" '' {after}"), command)

    def test_inventory_of_hvstack_conf(self) -> None:
        """Sweeps measure bare metal on these hosts as well."""
        self.useFixture(
            fixtures.EnvironmentVariable(
                'OS_SWEEP__BASELINE_HOSTS', str(self.inventory)
            )
        )
        dry_run = ('--dry-run', '-f', 'json')
        status, out, err = run_command('baseline', 'release', *dry_run)
        self.assertEqual((0, ''), (status, err))
        self.assertEqual(['c', 'w'], [row['Host'] for row in json.loads(out)])
        args = (*dry_run, '--tuning', 'hvstack')
        status, out, err = run_command('baseline', 'run', *args)
        self.assertEqual((0, ''), (status, err))
        self.assertIn('192.0.2.1', out)

    def test_hosts_in_use(self) -> None:
        with acquired_hosts.open_lock() as lock:
            self.assertTrue(acquired_hosts.try_lock(lock))
            status, _, err = self.release()
        self.assertNotEqual(0, status)
        self.assertIn(f'(pid {os.getpid()})', err)
        self.assertEqual('', self.log.read_text())
