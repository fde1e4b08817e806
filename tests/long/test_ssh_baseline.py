# SPDX-License-Identifier: Apache-2.0
"""A baseline over SSH, against lab hosts that run sshd."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import fixtures
import testtools
import yaml

from hvstack import processutils
from hvstack.cluster import (
    acquired_hosts,
    actions,
    baseline_hosts,
)
from hvstack.lab import images
from hvstack.results import record
from tests.long import ssh_hosts

HVSTACK = str(Path(sys.executable).with_name('hvstack'))
#: Web port of the NameNode.
NAMENODE_PORT = 9870
#: Connects to a host and port, with a limit of three seconds.
CONNECT = 'timeout 3 bash -c "</dev/tcp/$0/$1"'
LIMIT_SECONDS = 1800


class SSHBaselineTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        if not os.environ.get('HVSTACK_LAB'):
            self.skipTest('needs a lab that is up (make test)')
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.key = self.directory / 'key'
        processutils.run(
            ['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', self.key]
        )
        program = shutil.which('nft')
        if program is None:
            self.skipTest('needs nft (Debian package nftables)')
        acquired_hosts.recover()
        self.hosts = baseline_hosts.read()
        for host in self.hosts:
            assert host.release
            self.addCleanup(processutils.run, host.release.argv(), timeout=300)
            self.addCleanup(self.forget, host.address)
            ssh_hosts.start_sshd(
                host, self.key.with_suffix('.pub').read_text()
            )
            ssh_hosts.copy_nft(host, program, self.directory)

    def tables(self) -> list[str]:
        """Return the tables of the firewalls of all hosts."""
        return [
            line
            for host in self.hosts
            for line in processutils.run(
                [*host.enter, 'nft', 'list', 'tables'], check=False
            ).stdout.splitlines()
        ]

    def watch(self, process: subprocess.Popen[str]) -> dict[str, int]:
        """Try to connect to the NameNode until the measurement ends.

        :return: largest number of firewall tables, and the connections that
            succeeded from a member and from the machine, which is none.
        """
        controller = next(h for h in self.hosts if h.role != 'worker')
        worker = next(h for h in self.hosts if h.role == 'worker')
        address = controller.address
        counts = {'tables': 0, 'member': 0, 'stranger': 0}
        end = time.monotonic() + LIMIT_SECONDS
        while process.poll() is None:
            if time.monotonic() > end:
                process.terminate()
                self.fail(f'no record after {LIMIT_SECONDS} s')
            counts['tables'] = max(counts['tables'], len(self.tables()))
            connected = processutils.run(
                [
                    *(*worker.enter, 'sh', '-c', CONNECT),
                    *(address, str(NAMENODE_PORT)),
                ],
                check=False,
            )
            counts['member'] += connected.returncode == 0
            with (
                suppress(OSError),
                socket.create_connection((address, NAMENODE_PORT), 3),
            ):
                counts['stranger'] += 1
            time.sleep(5)
        return counts

    def forget(self, address: str) -> None:
        """Remove the host key: the next file system has another one."""
        processutils.run(
            [
                *('ssh-keygen', '-R', address),
                *('-f', actions.SSH / 'known_hosts'),
            ],
            check=False,
        )

    def inventory(self, **fields: str) -> Path:
        path = self.directory / 'hosts.yaml'
        names = ('name', 'role', 'address', 'vcpus', 'memory_mib')
        caps = ('cpu_cap', 'memory_cap_mib')
        data = {
            'key': str(self.key),
            'first_contact': 'accept',
            **fields,
            'hosts': [
                {
                    name: getattr(host, name)
                    for name in (*names, *caps)
                    if getattr(host, name) is not None
                }
                for host in self.hosts
            ],
        }
        path.write_text(yaml.safe_dump(data))
        return path

    def test_the_same_record(self) -> None:
        built = images.find('hadoop')
        assert built
        path = self.inventory(rootfs=str(built.outputs['rootfs']))
        log = self.directory / 'stderr'
        with (
            log.open('w') as stderr,
            subprocess.Popen(
                [
                    *(HVSTACK, 'baseline', 'run', '--hosts', str(path)),
                    *('--size', '20MB', '--runs', '1', '-f', 'json'),
                    *('--records', str(self.directory / 'records')),
                ],
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            ) as process,
        ):
            counts = self.watch(process)
            output, _ = process.communicate()
        self.assertEqual(0, process.returncode, log.read_text()[-3000:])
        (row,) = json.loads(output)
        self.assertEqual('yes', row['Valid'])
        (run_record,) = record.load_all(self.directory / 'records')
        self.assertEqual('baseline', run_record.kind)
        self.assertEqual(
            baseline_hosts.environment(self.hosts)['caps'],
            run_record.sut.facts['caps'],
        )
        # Only members reached Hadoop.
        print(f'firewall: {counts}', file=sys.stderr)
        self.assertEqual(len(self.hosts), counts['tables'])
        self.assertTrue(counts['member'])
        self.assertEqual(0, counts['stranger'])
        self.assertEqual([], self.tables())
        # Released: no process of it runs, no disk is mounted.
        for host in self.hosts:
            mounts = processutils.run(
                [*host.enter, 'grep', 'hvstack-bare', '/proc/mounts'],
                check=False,
            )
            self.assertEqual('', mounts.stdout)
