# SPDX-License-Identifier: Apache-2.0
"""A baseline over SSH, against lab hosts that run sshd."""

import json
import os
import subprocess
import sys
from pathlib import Path

import fixtures
import testtools
import yaml

from hvstack import processutils
from hvstack.cluster import actions, bare_metal
from hvstack.lab import images
from hvstack.results import record

HVSTACK = str(Path(sys.executable).with_name('hvstack'))
#: Starts sshd in the file system that the lab has mounted on the bare host.
SSHD = """
mkdir -p /run/sshd /root/.ssh
chmod 700 /root/.ssh
cat >/root/.ssh/authorized_keys
key=/etc/ssh/ssh_host_ed25519_key
[ -s $key ] || ssh-keygen -q -t ed25519 -N '' -f $key
/usr/sbin/sshd
"""


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
        bare_metal.recover()
        self.hosts = bare_metal.read()
        for host in self.hosts:
            assert host.release
            self.addCleanup(processutils.run, host.release.argv(), timeout=300)
            self.addCleanup(self.forget, host.address)
            processutils.run(host.prepare, timeout=300)
            processutils.run(
                [*host.enter, 'sh', '-c', SSHD],
                stdin=self.key.with_suffix('.pub').read_text(),
                timeout=60,
            )

    def forget(self, address: str) -> None:
        """The next file system on that host has another host key."""
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
            # The guests' root file system has neither nft nor iptables, and
            # the lab's hosts are in namespaces of their own.
            'firewall': 'none',
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
        done = subprocess.run(
            [
                *(HVSTACK, 'baseline', 'run', '--hosts', str(path)),
                *('--size', '20MB', '--runs', '1', '-f', 'json'),
                *('--records', str(self.directory / 'records')),
            ],
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
        self.assertEqual(0, done.returncode, done.stderr[-3000:])
        (row,) = json.loads(done.stdout)
        self.assertEqual('yes', row['Valid'])
        (run_record,) = record.load_all(self.directory / 'records')
        self.assertEqual('baseline', run_record.kind)
        self.assertEqual(
            bare_metal.environment(self.hosts)['caps'],
            run_record.environment['caps'],
        )
        # Given back: nothing of it runs or is mounted.
        for host in self.hosts:
            mounts = processutils.run(
                [*host.enter, 'grep', 'hvstack-bare', '/proc/mounts'],
                check=False,
            )
            self.assertEqual('', mounts.stdout)
