# SPDX-License-Identifier: Apache-2.0
"""Sampling of compute hosts: which hosts, and what ends it."""

import dataclasses
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import fixtures
import testtools
import yaml

from hvstack import processutils
from hvstack.cluster import host_readers, host_sampler
from hvstack.cluster.host_readers import LabReader, SSHReader
from hvstack.cluster.host_sampler import HostSampler
from hvstack.cluster.ssh import SSHNode
from hvstack.results.compute_hosts import CGROUP, PROC
from hvstack.results.host_telemetry import HostsTelemetry
from tests.unit.cluster import lab_tree
from tests.unit.cluster.lab_tree import LabTree

#: Takes the command after the options, as sshd would. A file with the name
#: of the address contains the message of a host that refuses the login.
SSH = """#!/bin/sh
for last; do target=$command; command=$last; done
echo "$*" >>"$0.log"
refusal=$(dirname "$0")/${target#root@}
[ ! -e "$refusal" ] || { cat "$refusal" >&2; exit 255; }
exec sh -c "$command"
"""


def list_session(session: int) -> list[str]:
    """Return the names of the processes of a session."""
    names = []
    for path in Path('/proc').glob('[0-9]*/stat'):
        try:
            head, _, tail = path.read_text().rpartition(')')
        except OSError:
            continue
        state, _, _, session_id, *_ = tail.split()
        if int(session_id) == session and state != 'Z':
            names.append(head)
    return names


def wait_for_session(session: int) -> list[str]:
    """Return the names of the processes that do not end in five seconds.

    Processes of a killed session can end after its leader.
    """
    end = time.monotonic() + 5
    while (names := list_session(session)) and time.monotonic() < end:
        time.sleep(0.02)
    return names


class SamplerTest(testtools.TestCase):
    """The program runs on this machine, behind a program instead of ssh."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        program = self.directory / 'ssh'
        program.write_text(SSH)
        program.chmod(0o755)
        self.useFixture(
            fixtures.EnvironmentVariable(
                'PATH', f'{self.directory}:{os.environ["PATH"]}'
            )
        )

    def make_reader(self, name: str) -> SSHReader:
        return SSHReader(
            name,
            SSHNode(
                name=name,
                address=f'address-of-{name}',
                role='worker',
                host=name,
                key=Path('/key'),
                directory=self.directory / 'sockets',
            ),
            0.1,
        )

    def make_sampler(self, *readers: SSHReader) -> HostSampler:
        return HostSampler(readers, PROC, 0.1, Path('hosts.yaml'))

    def test_samples_from_start_to_end(self) -> None:
        reader = self.make_reader('h1')
        sampler = self.make_sampler(reader)
        sampler.start()
        started_at = time.time()
        time.sleep(0.3)
        hosts = sampler.collect(started_at)
        self.assertEqual([], hosts.reasons)
        self.assertEqual((PROC, 0.1), (hosts.method, hosts.interval))
        (series,) = hosts.hosts
        self.assertLessEqual(series.times[0], started_at + 0.1)
        self.assertGreaterEqual(len(series.times), 3)
        self.assertGreaterEqual(series.times[-1], started_at + 0.2)
        self.assertEqual(os.cpu_count(), series.cpus)
        assert reader._process
        self.assertEqual([], list_session(reader._process.pid))
        log = (self.directory / 'ssh.log').read_text()
        # No connection stays for others.
        self.assertIn('-o ControlPath=none', log)
        self.assertLess(log.index('=none'), log.index('/sockets/%C'))

    def test_hosts_that_do_not_answer(self) -> None:
        (self.directory / 'address-of-h2').write_text('No route to host.\n')
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cluster.host_sampler._START_SECONDS', 0.3
            )
        )
        silent = self.make_reader('h3')
        silent.node = dataclasses.replace(silent.node, address='h3')
        (self.directory / 'ssh').write_text(
            SSH.replace('exec ', '[ "$target" != root@h3 ] || sleep 9\nexec ')
        )
        sampler = self.make_sampler(
            self.make_reader('h1'), self.make_reader('h2'), silent
        )
        sampler.start()
        hosts = sampler.collect(time.time())
        self.assertEqual(['h1'], [series.name for series in hosts.hosts])
        remedy = (
            'Check that root can log in to it by ssh as hosts.yaml describes '
            'it.'
        )
        self.assertEqual(
            [
                'Compute host h2 was not measured: No route to host. '
                f'{remedy}',
                'Compute host h3 was not measured: it did not answer in '
                f'time. {remedy}',
            ],
            hosts.reasons,
        )
        assert silent._process
        self.assertEqual([], wait_for_session(silent._process.pid))

    def test_connection_that_is_lost(self) -> None:
        reader = self.make_reader('h1')
        sampler = self.make_sampler(reader)
        started_at = time.time()
        sampler.start()
        processutils.wait_for(
            lambda: host_readers._read(reader._output).count(b'\nend\n') > 1,
            'the second sample',
            timeout=10,
            interval=0.01,
        )
        assert reader._process
        os.killpg(reader._process.pid, 9)
        reader._process.wait()
        # The next request meets the closed connection.
        time.sleep(0.15)
        hosts = sampler.collect(started_at)
        self.assertEqual(1, len(hosts.hosts))
        (reason,) = hosts.reasons
        self.assertIn('only until 0 s after the start of the run', reason)

    def test_output_of_another_program(self) -> None:
        (self.directory / 'ssh').write_text(
            '#!/bin/sh\nprintf "motd\\nend\\n"; cat >/dev/null\n'
        )
        sampler = self.make_sampler(self.make_reader('h1'))
        sampler.start()
        hosts = sampler.collect(time.time())
        self.assertEqual(('', []), (hosts.method, hosts.hosts))
        self.assertIn('its samples cannot be read', hosts.reasons[0])

    @contextmanager
    def started(self, sampler: HostSampler) -> Iterator[None]:
        sampler.start()
        assert isinstance(sampler.readers[0], SSHReader)
        process = sampler.readers[0]._process
        assert process
        (self.directory / 'session').write_text(str(process.pid))
        yield

    def test_killed_process_leaves_no_program(self) -> None:
        sampler = self.make_sampler(self.make_reader('h1'))
        pid = lab_tree.enter_in_child(self.started(sampler))
        session = int((self.directory / 'session').read_text())
        try:
            self.assertNotEqual([], list_session(session))
        finally:
            lab_tree.kill(pid)
        self.assertEqual([], wait_for_session(session))

    def test_interrupt_during_the_start(self) -> None:
        reader = self.make_reader('h1')
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cluster.host_readers._END', b'never printed'
            )
        )
        sampler = self.make_sampler(reader)
        with fixtures.MonkeyPatch(
            'hvstack.cluster.host_sampler.time.sleep', interrupt
        ):
            self.assertRaises(KeyboardInterrupt, sampler.start)
        assert reader._process
        self.assertEqual([], wait_for_session(reader._process.pid))


def interrupt(_seconds: float) -> None:
    raise KeyboardInterrupt


class LabTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.clock = 1000.0
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cluster.host_readers.run_clock',
                SimpleNamespace(now=lambda: self.clock),
            )
        )

    def sample(self, version: int, *, has_containers: bool) -> LabReader:
        """Return a reader of a lab host with 3 s for guests, 2 for others."""
        lab = self.useFixture(LabTree(version, 'hv-host1'))
        (group,) = host_sampler.lab_groups.find_hosts(['hv-host1'])
        reader = LabReader(group, has_containers)
        reader.start()
        self.clock += 10
        lab.set_usage('hv-host1', 5)
        lab.set_usage('hv-host1', 3, group='machine')
        reader.end()
        return reader

    def test_guests_and_agents(self) -> None:
        for version in (1, 2):
            reader = self.sample(version, has_containers=True)
            self.assertTrue(reader.has_answered)
            series = reader.finish(0)
            self.assertEqual(
                {
                    'busy': [0.5],
                    'guests': [0.3],
                    'agents': [0.2],
                    'guest_time': [0.3],
                },
                series.rates,
            )
            self.assertEqual(10, series.times[1] - series.times[0])
            self.assertIsNone(series.cpus)

    def test_emulators_are_no_time_of_guests(self) -> None:
        series = self.sample(2, has_containers=False).finish(0)
        self.assertNotIn('guest_time', series.rates)

    def test_host_that_was_powered_off(self) -> None:
        lab = self.useFixture(LabTree(2, 'hv-host1'))
        sampler = host_sampler.create_sampler(
            ['hv-host1'], Path('/none'), 'lxc', 5
        )
        sampler.start()
        (lab.list_directories('hv-host1')[0] / 'cpu.stat').unlink()
        sampler.readers[0].request()
        hosts = sampler.collect(1000)
        self.assertEqual('', hosts.method)
        self.assertIn('fewer than two samples', hosts.reasons[0])
        self.assertIn("'hvstack lab status'", hosts.reasons[0])


class CreateTest(testtools.TestCase):
    """Which hosts are sampled, and how."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cluster.lab_groups.RECORDS_DIR', self.directory
            )
        )
        self.inventory = self.directory / 'hosts.yaml'
        for name in ('key', 'rootfs', 'known_hosts'):
            (self.directory / name).write_text('')
        host = {'vcpus': 64, 'memory_mib': 524288}
        self.inventory.write_text(
            yaml.safe_dump(
                {
                    'key': str(self.directory / 'key'),
                    'known_hosts': str(self.directory / 'known_hosts'),
                    'rootfs': str(self.directory / 'rootfs'),
                    'hosts': [
                        {
                            'name': f'compute{index}',
                            'role': 'worker' if index else 'controller',
                            'address': f'192.0.2.{index + 1}',
                            **host,
                        }
                        for index in range(3)
                    ],
                }
            )
        )

    def create(self, *names: str, backend: str = 'kvm') -> HostSampler:
        return host_sampler.create_sampler(names, self.inventory, backend, 5)

    def get_reason(self, *names: str, backend: str = 'kvm') -> str:
        sampler = self.create(*names, backend=backend)
        self.assertEqual([], sampler.readers)
        (reason,) = sampler.reasons
        sampler.start()
        self.assertEqual(
            HostsTelemetry('', 5, [], [reason]), sampler.collect(0)
        )
        return reason

    def test_hosts_of_the_inventory(self) -> None:
        sampler = self.create('compute2.example.org', 'compute1', 'other')
        nodes = {}
        for reader in sampler.readers:
            assert isinstance(reader, SSHReader)
            nodes[reader.name] = reader.node
        self.assertEqual(
            {'compute1': '192.0.2.2', 'compute2.example.org': '192.0.2.3'},
            {name: node.address for name, node in nodes.items()},
        )
        self.assertEqual(
            self.directory / 'known_hosts', nodes['compute1'].known_hosts
        )
        (reason,) = sampler.reasons
        self.assertEqual(
            f'Compute hosts were not measured (other): {self.inventory} has '
            "no addresses for ssh of these names. Add the hosts to 'hosts' "
            'of the inventory.',
            reason,
        )

    def test_command_enters_no_chroot(self) -> None:
        """The root file system of bare metal exists on acquired hosts only."""
        (reader,) = self.create('compute1').readers
        assert isinstance(reader, SSHReader)
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.paths.make_directory', lambda _: None
            )
        )
        argv = reader.node.build_own_argv('true')
        self.assertEqual(['root@192.0.2.2', 'true'], argv[-2:])

    def test_many_missing_hosts_are_counted(self) -> None:
        reason = self.get_reason(*(f'h{index}' for index in range(10, 18)))
        self.assertIn('(h10, h11, h12, h13, h14 and 3 others)', reason)

    def test_no_inventory(self) -> None:
        self.inventory.unlink()
        reason = self.get_reason('compute1')
        self.assertIn(f'{self.inventory} does not exist. Set', reason)

    def test_invalid_inventory(self) -> None:
        self.inventory.write_text('key: /none\n')
        reason = self.get_reason('compute1')
        self.assertTrue(
            reason.startswith('The compute hosts were not measured: '), reason
        )
        self.assertIn("'key'", reason)

    def test_names_that_are_not_visible(self) -> None:
        self.assertIn('administrator', self.get_reason())

    def test_containers_of_another_cloud(self) -> None:
        reason = self.get_reason('compute1', backend='lxc')
        self.assertIn('backend lxc', reason)

    def test_lab(self) -> None:
        self.useFixture(LabTree(1, 'hv-host2', 'hv-host3'))
        for backend in ('lxc', 'kvm'):
            sampler = self.create('hv-host2', 'hv-host3', backend=backend)
            self.assertEqual((CGROUP, []), (sampler.method, sampler.reasons))
            for reader in sampler.readers:
                assert isinstance(reader, host_readers.LabReader)
                self.assertEqual(backend == 'lxc', reader.has_containers)
