# SPDX-License-Identifier: Apache-2.0
"""Sampling of a compute host by ssh: this machine, which runs an sshd.

It needs root and the program sshd, but no lab; without them, the tests are
skipped. The sshd of the tests has a port, keys and user accounts of its own,
in a mount namespace. All tests together take about 8 s.
"""

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fixtures
import testtools
import yaml

from hvstack import processutils
from hvstack.cluster import host_sampler
from hvstack.cluster.host_readers import SSHReader
from hvstack.cluster.host_sampler import HostSampler
from hvstack.results import host_telemetry
from hvstack.results.compute_hosts import PROC, ComputeHosts
from hvstack.results.observations import Phase
from hvstack.results.typed_json import read
from tests.unit.cluster import lab_tree

NAME = 'compute1'
#: Last argument of the programs of the sampler on the host.
MARK = b'\0hvstack-sampler\0'
TICKS = os.sysconf('SC_CLK_TCK')
#: sshd needs a user and a directory of its own, which this machine may lack.
START = """
mount --bind "$1/passwd" /etc/passwd
mount --bind "$1/shadow" /etc/shadow
mount -t tmpfs tmpfs /run
mkdir -m 755 /run/sshd
exec "$2" -D -e -f "$1/sshd_config"
"""
CONFIG = """
ListenAddress 127.0.0.1
Port {port}
HostKey {directory}/host_key
AuthorizedKeysFile {directory}/key.pub
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile none
"""


def list_samplers() -> list[int]:
    """Return the processes of samplers on this machine."""
    pids = []
    for path in Path('/proc').glob('[0-9]*/cmdline'):
        with contextlib.suppress(OSError):
            if MARK in path.read_bytes():
                pids.append(int(path.parent.name))
    return pids


def list_children(pid: int) -> list[str]:
    """Return the names of the children of a process."""
    names = []
    for path in Path('/proc').glob('[0-9]*/stat'):
        with contextlib.suppress(OSError):
            head, _, tail = path.read_text().rpartition(')')
            if int(tail.split()[1]) == pid:
                names.append(head)
    return names


def read_cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process."""
    text = Path(f'/proc/{pid}/stat').read_text(encoding='utf-8')
    return sum(map(int, text.rpartition(')')[2].split()[11:13])) / TICKS


class ComputeHostTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        path = f'{os.environ["PATH"]}:/usr/sbin:/usr/local/sbin'
        sshd = shutil.which('sshd', path=path)
        if sshd is None or os.getuid() != 0:
            self.skipTest('needs root and sshd (Debian: openssh-server)')
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        for name in ('key', 'host_key'):
            processutils.run(
                [
                    *('ssh-keygen', '-q', '-t', 'ed25519', '-N', ''),
                    *('-f', self.directory / name),
                ]
            )
        with socket.socket() as probe:
            probe.bind(('127.0.0.1', 0))
            self.port = probe.getsockname()[1]
        self.write('passwd', 'root:x:0:0:root:/root:/bin/sh\n')
        with (self.directory / 'passwd').open('a') as passwd:
            passwd.write('sshd:x:65534:65534::/run/sshd:/usr/sbin/nologin\n')
        self.write('shadow', 'root:*:19000:0:99999:7:::\n')
        self.write(
            'sshd_config',
            CONFIG.format(port=self.port, directory=self.directory),
        )
        self.write('ssh_config', f'Port {self.port}\n')
        host_key = (self.directory / 'host_key.pub').read_text()
        self.write('known_hosts', f'[127.0.0.1]:{self.port} {host_key}')
        self.write('rootfs', '')
        self.sshd = subprocess.Popen(
            [
                *('unshare', '-m', 'sh', '-e', '-c', START, 'sshd'),
                *(self.directory, sshd),
            ],
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(self.sshd.wait)
        self.addCleanup(self.sshd.terminate)
        processutils.wait_for(
            self.is_listening, 'sshd', timeout=20, interval=0.05
        )

    def write(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.write_text(text)
        return path

    def is_listening(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(('127.0.0.1', self.port)) == 0

    def make_sampler(self, interval: float = 0.5) -> HostSampler:
        """Return a sampler of this machine, as an inventory describes it."""
        inventory = self.write(
            'hosts.yaml',
            yaml.safe_dump(
                {
                    **{
                        name: str(self.directory / name)
                        for name in ('key', 'known_hosts', 'rootfs')
                    },
                    'hosts': [
                        {
                            'name': name,
                            'role': role,
                            'address': '127.0.0.1',
                            'vcpus': 1,
                            'memory_mib': 1024,
                        }
                        for name, role in (
                            (NAME, 'worker'),
                            ('other', 'controller'),
                        )
                    ],
                }
            ),
        )
        sampler = host_sampler.create_sampler(
            [NAME], inventory, 'kvm', interval
        )
        (reader,) = sampler.readers
        assert isinstance(reader, SSHReader)
        # Inventories have no port.
        reader.node = dataclasses.replace(
            reader.node, config=self.directory / 'ssh_config'
        )
        return sampler

    def assert_nothing_remains(self) -> None:
        processutils.wait_for(
            lambda: not list_samplers() and not list_children(self.sshd.pid),
            'the sampler and its login to end',
            timeout=10,
            interval=0.1,
        )

    @contextmanager
    def busy_loop(self) -> Iterator[int]:
        """Run a busy loop that has the name of a guest."""
        program = self.directory / 'qemu-busy'
        program.symlink_to('/bin/sh')
        with subprocess.Popen([program, '-c', 'while :; do :; done']) as loop:
            try:
                yield loop.pid
            finally:
                loop.kill()

    def test_cpu_seconds_of_a_busy_loop(self) -> None:
        sampler = self.make_sampler()
        sampler.start()
        self.assertEqual([], sampler.reasons)
        begin = time.time()
        with self.busy_loop() as pid:
            time.sleep(3)
            min_seconds = read_cpu_seconds(pid)
            telemetry = sampler.collect(begin)
            max_seconds = read_cpu_seconds(pid)
        self.assertEqual([], telemetry.reasons)
        (series,) = telemetry.hosts
        self.assertGreaterEqual(len(series.times), 6)
        seconds = series.total(series.rates['guests'])
        assert seconds is not None
        self.assertGreater(min_seconds, 0.1)
        self.assertGreaterEqual(seconds, min_seconds - 0.05)
        self.assertLessEqual(seconds, max_seconds + 0.05)
        busy = series.total(series.rates['busy'])
        assert busy is not None
        self.assertGreaterEqual(busy, seconds - 0.1)
        summary = host_telemetry.summarize(
            telemetry, [Phase('HSGen', 3, begin)]
        )
        hosts = read(ComputeHosts, json.loads(json.dumps(summary)))
        self.assertEqual(PROC, hosts.method)
        run = hosts.hosts[NAME].run
        assert run.guests is not None and run.other is not None
        self.assertAlmostEqual(seconds, run.guests, delta=0.5)
        self.assertGreaterEqual(run.rx or 0, 0)
        self.assert_nothing_remains()

    def test_killed_process(self) -> None:
        @contextmanager
        def started() -> Iterator[None]:
            self.make_sampler().start()
            yield

        pid = lab_tree.enter_in_child(started())
        try:
            self.assertNotEqual([], list_samplers())
        finally:
            lab_tree.kill(pid)
        self.assert_nothing_remains()

    def test_network_that_carries_no_packets(self) -> None:
        """A stopped ssh neither sends requests nor closes its connection."""
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cluster.host_readers._IDLE_SECONDS', 1.0
            )
        )
        sampler = self.make_sampler(0.2)
        sampler.start()
        # Time for further samples.
        time.sleep(1)
        (reader,) = sampler.readers
        assert isinstance(reader, SSHReader) and reader._process
        os.kill(reader._process.pid, signal.SIGSTOP)
        try:
            processutils.wait_for(
                lambda: not list_samplers(),
                'the sampler to end',
                timeout=10,
                interval=0.1,
            )
        finally:
            os.kill(reader._process.pid, signal.SIGCONT)
        reader._process.wait(10)
        telemetry = sampler.collect(time.time())
        self.assertIn('was measured only until', telemetry.reasons[0])
        self.assert_nothing_remains()

    def test_host_with_another_key(self) -> None:
        self.write(
            'known_hosts',
            f'[127.0.0.1]:{self.port} '
            + (self.directory / 'key.pub').read_text(),
        )
        sampler = self.make_sampler()
        sampler.start()
        telemetry = sampler.collect(time.time())
        self.assertEqual([], telemetry.hosts)
        self.assertIn('Host key verification failed', telemetry.reasons[0])
        self.assert_nothing_remains()
