# SPDX-License-Identifier: Apache-2.0
"""Samples as sysstat wrote them, and as the shell loop writes them."""

import gc
import json
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import fixtures
import testtools

from hvstack import errors, processutils, shell_scripts
from hvstack.cluster import sampler
from hvstack.cluster.command_node import CommandNode
from hvstack.results.telemetry import NETWORK_COUNTERS, Telemetry

SADF = Path(__file__).parent / 'telemetry' / 'sadf.json'
LOOP = """1000.5 100.0
100.0 1000000000 500000000 1000 10 2000 20 0 7:0 8 16 100
105.0 3500000000 - 6000 15 4000 30 5 7:0 18 216 1100
110.0 6000000000 500000000 6000 15 4000 30 5 7:0 18 216 1100 8:0 1 1 1
"""


class Parse(testtools.TestCase):
    def test_loop(self) -> None:
        times, rates, disks, cpus = sampler.cgroup(LOOP)
        self.assertEqual([1000.5, 1005.5, 1010.5], times)
        self.assertEqual([0.5, 0.5], rates['cpu'])
        self.assertEqual([1000, 0], rates['rx'])
        self.assertEqual([2, 0], rates['tx_packets'])
        self.assertEqual([1, 0], rates['swap'])
        self.assertNotIn('throttled', rates)
        self.assertIsNone(cpus)
        self.assertNotIn('steal', rates)
        self.assertEqual(
            {
                '7:0': {
                    'read': [1024, 0],
                    'write': [20480, 0],
                    'busy': [0.2, 0],
                }
            },
            disks,
        )

    def test_throttled(self) -> None:
        _, rates, *_ = sampler.cgroup(LOOP.replace(' - ', ' 3000000000 '))
        self.assertEqual([0.5, -0.5], rates['throttled'])

    def test_torn_line_is_left_out(self) -> None:
        times, *_ = sampler.cgroup(LOOP + '115.0 60000')
        self.assertEqual(3, len(times))

    def test_too_few(self) -> None:
        for text in ('', LOOP.splitlines()[0], LOOP[:80]):
            self.assertRaises(ValueError, sampler.cgroup, text)

    def test_sysstat(self) -> None:
        sadf_output = json.loads(SADF.read_text())
        samples = sadf_output['sysstat']['hosts'][0]['statistics']
        times, rates, disks, cpus = sampler.sysstat(
            # The others of the host are offline.
            f'eth0\n1\n{SADF.read_text()}'
        )
        self.assertEqual(len(samples) + 1, len(times))
        self.assertEqual(1.0, times[1] - times[0])
        self.assertEqual(1, cpus)
        self.assertEqual(['vda'], list(disks))
        load = samples[0]['cpu-load'][0]
        busy = 100 - load['idle'] - load['iowait'] - load['steal']
        self.assertAlmostEqual(busy / 100, rates['cpu'][0] or 0, 4)
        self.assertEqual(
            [1024 * sample['disk'][1]['wkB'] for sample in samples],
            disks['vda']['write'],
        )
        for values in rates.values():
            self.assertEqual(len(samples), len(values))

    def test_sysstat_without_digits_of_binary_fractions(self) -> None:
        """They would double the size of the file."""
        document = json.loads(SADF.read_text())
        for sample in document['sysstat']['hosts'][0]['statistics']:
            for disk in sample['disk']:
                disk.update({'wkB': 12.34, 'rkB': 0.07, 'util-percent': 0.07})
        _, _, disks, _ = sampler.sysstat(f'eth0\n2\n{json.dumps(document)}')
        self.assertEqual(
            {'read': {71.68}, 'write': {12636.16}, 'busy': {0.0007}},
            {name: set(values) for name, values in disks['vda'].items()},
        )
        self.assertNotEqual(0.0007, 0.01 * 0.07)

    def test_disks_with_several_paths(self) -> None:
        """The collector has a line of the same name for each hidden path."""
        document = json.loads(SADF.read_text())
        for sample in document['sysstat']['hosts'][0]['statistics']:
            path = sample['disk'][0] | {'disk-device': 'dev0-0'}
            sample['disk'] += [path, path]
        _, _, disks, _ = sampler.sysstat(f'eth0\n2\n{json.dumps(document)}')
        self.assertEqual({}, disks)

    def test_sysstat_of_another_interface(self) -> None:
        self.assertRaises(
            LookupError, sampler.sysstat, f'eth7\n2\n{SADF.read_text()}'
        )

    def test_source(self) -> None:
        for facts, expected in (
            ({'backend': 'lxc', 'caps': {'h': 1}}, 'cgroup'),
            ({'backend': 'qemu', 'caps': {'h': 1}}, 'sysstat'),
            ({'backend': 'kvm'}, 'sysstat'),
            ({'caps': {'h': 1}}, 'cgroup'),
            ({}, 'sysstat'),
        ):
            self.assertEqual(expected, sampler.source(facts))


COUNTERS = """Tcp: RtoAlgorithm MaxConn OutSegs RetransSegs
Tcp: 1 -1 1000 20
TcpExt: SyncookiesSent TCPTimeouts
TcpExt: 0 3
Link: RxDropped TxDropped
Link: 4 5
1000.5 100.0
"""


class CountersTest(testtools.TestCase):
    def test_parse(self) -> None:
        counters, remainder = sampler.parse_counters(COUNTERS)
        self.assertEqual(
            {
                'segments': 1000,
                'retransmitted_segments': 20,
                'retransmission_timeouts': 3,
                'dropped_rx_packets': 4,
                'dropped_tx_packets': 5,
            },
            counters,
        )
        self.assertEqual(set(NETWORK_COUNTERS), set(counters))
        self.assertEqual('1000.5 100.0\n', remainder)

    def test_without_counters(self) -> None:
        text = 'Link: RxDropped TxDropped\nLink: \n1 2\n'
        self.assertEqual(({}, '1 2\n'), sampler.parse_counters(text))

    def test_of_a_node_that_was_restarted(self) -> None:
        before = {'segments': 5, 'retransmitted_segments': 1}
        after = {'segments': 9, 'retransmitted_segments': 0, 'other': 1}
        self.assertEqual({'segments': 4}, sampler._subtract(after, before))


class SampledNode:
    """A node that prints samples, and counts what Python never collects.

    :param counts: receives the number of objects that are no garbage.
    """

    role, host = 'worker', 'h'

    def __init__(self, name: str, counts: list[int]) -> None:
        self.name = self.address = name
        self.counts = counts

    def run(self, *_args: Any, **_kwargs: Any) -> processutils.Result:
        self.counts.append(gc.get_freeze_count())
        return processutils.Result(0, LOOP, '')


class IntervalTest(testtools.TestCase):
    """Intervals of minutes, and of fractions of a second."""

    def collect(self, source: str, interval: float) -> tuple[float, str]:
        """Return the interval of the record, and the collection's call."""
        calls: list[tuple[str, float]] = []

        class RecordingNode(SampledNode):
            def run(self, *args: Any, **kwargs: Any) -> processutils.Result:
                calls.append((args[0].splitlines()[-1], kwargs['timeout']))
                return super().run(*args, **kwargs)

        nodes: Any = [RecordingNode('w1', [])]
        collector = sampler.Sampler(
            nodes,
            *(source, interval),
            offsets={'w1': 0.0},
            counters={'w1': {}},
        )
        recorded = collector.collect(1000.0, {})
        ((command, timeout_seconds),) = calls
        # The program sleeps for an interval before it prints the samples.
        self.assertGreater(timeout_seconds, recorded.interval + 60)
        return recorded.interval, command

    def test_minutes(self) -> None:
        interval, command = self.collect('sysstat', 300.0)
        self.assertEqual(300, interval)
        self.assertIn(' 300 288', command)

    def test_sysstat_knows_no_fractions(self) -> None:
        interval, command = self.collect('sysstat', 2.5)
        self.assertEqual(3, interval)
        self.assertIn(' 3 28800', command)

    def test_shell_loop_knows_fractions(self) -> None:
        interval, command = self.collect('cgroup', 2.5)
        self.assertEqual(2.5, interval)
        self.assertIn(' 2.5 34560', command)


class ManyNodesTest(testtools.TestCase):
    def test_few_are_parsed_at_the_same_time(self) -> None:
        """Objects of 32 nodes after a day would take 16 GB."""
        active: list[str] = []
        counts: list[int] = []
        parse = sampler.cgroup

        def count_and_parse(text: str) -> sampler.Parsed:
            active.append(text)
            counts.append(len(active))
            time.sleep(0.005)
            active.pop()
            return parse(text)

        self.useFixture(
            fixtures.MockPatchObject(sampler, 'cgroup', count_and_parse)
        )
        nodes: Any = [SampledNode(f'w{n}', []) for n in range(40)]
        names = [node.name for node in nodes]
        collector = sampler.Sampler(
            nodes,
            *('cgroup', 5.0),
            offsets=dict.fromkeys(names, 0.0),
            counters={name: {} for name in names},
        )
        self.assertEqual(40, len(collector.collect(1000.0, {}).nodes))
        self.assertLessEqual(max(counts), 4)

    def test_garbage_is_not_searched_in_the_samples(self) -> None:
        """A search in those of 640 nodes for each node is quadratic."""
        counts: list[int] = []
        nodes: Any = [SampledNode(f'w{n}', counts) for n in range(100)]
        names = [node.name for node in nodes]
        collector = sampler.Sampler(
            nodes,
            *('cgroup', 5.0),
            offsets=dict.fromkeys(names, 0.0),
            counters={name: {} for name in names},
        )
        samples = collector.collect(1000.0, {})
        self.assertEqual(100, len(samples.nodes))
        self.assertLess(0, counts[-1])
        self.assertEqual(0, gc.get_freeze_count())


class SamplerTest(testtools.TestCase):
    """The programs run here, on this machine's own control group."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        samples_dir = self.directory / 'samples'
        self.useFixture(
            fixtures.MockPatchObject(sampler, '_DIRECTORY', str(samples_dir))
        )

    def sampled(self, script: str) -> tuple[sampler.Sampler, Telemetry]:
        node = CommandNode('n', '127.0.0.1', 'worker', 'h')
        load = shell_scripts.load
        programs = {'cgroup-sampler': script}
        with mock.patch.object(
            shell_scripts,
            'load',
            lambda name: programs.get(name) or load(name),
        ):
            run_sampler = sampler.Sampler([node], 'cgroup', 0.1)
            run_sampler.start()
            run_telemetry = run_sampler.collect(time.time(), {'HSGen': (1, 2)})
        return run_sampler, run_telemetry

    def test_start_and_collect(self) -> None:
        loop = (
            'echo "$(date +%s.%N) 5.0"; n=5\n'
            'sample() { echo "$((n += 1)) 1 - 1 1 1 1 1"; }\n'
            "trap 'sample; exit' TERM\n"
            'sample; while :; do sleep 0.1; done'
        )
        run_sampler, run_telemetry = self.sampled(loop)
        self.assertEqual([], run_telemetry.gaps)
        self.assertLess(abs(run_sampler.offsets['n']), 1)
        self.assertEqual([0.0], run_telemetry.nodes[0].rates['cpu'])
        self.assertEqual(
            set(NETWORK_COUNTERS), set(run_telemetry.nodes[0].network)
        )
        self.assertFalse((self.directory / 'samples').exists())

    def test_control_groups_that_the_sampler_mounted_stay(self) -> None:
        """The deletion entered the kernel's tree of groups (version 2)."""
        if os.geteuid() != 0:
            self.skipTest('Only root can mount.')
        samples, groups = self.directory / 'samples', self.directory / 'groups'
        for name in ('cpu', 'cpuacct', 'unified'):
            (groups / name / 'group').mkdir(parents=True)
            (samples / name).mkdir(parents=True)
        (samples / 'samples').write_text(LOOP)
        node = CommandNode('n', '127.0.0.1', 'worker', 'h')
        collect = sampler.Sampler([node], 'cgroup', 1)._command(
            'collect', node
        )
        done = processutils.run(
            [
                *('unshare', '-m', '--propagation', 'private', 'sh', '-ec'),
                'for name in cpu cpuacct unified; do\n'
                f'mount --bind {groups}/$name {samples}/$name\n'
                f'done\n{collect}',
            ]
        )
        self.assertIn(LOOP, done.stdout)
        self.assertEqual('', done.stderr)
        self.assertFalse(samples.exists())
        self.assertEqual(3, len(list(groups.glob('*/group'))))

    def test_samples_of_sysstat_have_a_file_system(self) -> None:
        """Those of many CPUs filled /run of the image after some hours."""
        if os.geteuid() != 0:
            self.skipTest('Only root can mount.')
        samples, tools = self.directory / 'samples', self.directory / 'tools'
        tools.mkdir()
        for name, text in (
            ('sadc', 'echo samples >"$5"; while :; do sleep 0.1; done'),
            ('sadf', 'cat "$2"'),
        ):
            (tools / name).write_text(f'#!/bin/sh\n{text}\n')
            (tools / name).chmod(0o755)
        node = CommandNode('n', '127.0.0.1', 'worker', 'h')
        collector = sampler.Sampler([node], 'sysstat', 1)
        for verb in ('start', 'collect'):
            path = self.directory / verb
            path.write_text(collector._command(verb, node))
        (self.directory / 'program').write_text(
            shell_scripts.load('sysstat-sampler').replace(
                '/usr/lib/sysstat', str(tools)
            )
        )
        done = processutils.run(
            [
                *('unshare', '-m', '--propagation', 'private', 'sh', '-ec'),
                f'cd {self.directory}; export PATH="{tools}:$PATH"\n'
                'sh start <program >/dev/null\n'
                f'mountpoint {samples}/records\nsh collect\n'
                f'! mountpoint -q {samples}/records',
            ],
            timeout=20,
        )
        self.assertTrue(done.stdout.endswith('\nsamples\n'), done.stdout)
        self.assertEqual('', done.stderr)
        self.assertFalse(samples.exists())

    def test_no_sampler(self) -> None:
        _, run_telemetry = self.sampled('echo "no group" >&2; exit 1')
        self.assertEqual([], run_telemetry.nodes)
        self.assertIn('n: no sampler', run_telemetry.gaps[0])
        self.assertIn('no group', run_telemetry.gaps[0])


class GroupTest(testtools.TestCase):
    """The shell loop, on groups that have the kernel's files."""

    def setUp(self) -> None:
        super().setUp()
        if not shutil.which('findmnt') or not shutil.which('ip'):
            self.skipTest('needs util-linux and iproute2')
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            path = self.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def sample(self) -> list[str]:
        """Return the first sample's fields."""
        script = self.directory / 'sampler'
        script.write_text(
            shell_scripts.load('cgroup-sampler')
            .replace('/proc/self/cgroup', f'{self.directory}/groups')
            .replace('/proc/self/mountinfo', f'{self.directory}/mounts')
        )
        result = processutils.run(['sh', script, '0.01', '1', '127.0.0.1'])
        return result.stdout.splitlines()[1].split()

    def mount(self, root: str, file_system: str, options: str) -> str:
        return (
            f'34 25 0:30 {root} {self.directory}/tree rw,relatime shared:9 - '
            f'{file_system} {file_system} {options}\n'
        )

    def test_version_2(self) -> None:
        """The host has the quota, its group of agents is measured."""
        for root, own in (('/', '/agents'), ('/host', '/host/agents')):
            self.write(
                {
                    'groups': f'0::{own}\n',
                    'mounts': self.mount(root, 'cgroup2', 'rw'),
                    'tree/cpu.max': '65000 100000\n',
                    'tree/cpu.stat': 'usage_usec 9\nthrottled_usec 7\n',
                    'tree/agents/cpu.max': 'max 100000\n',
                    'tree/agents/cpu.stat': 'usage_usec 5000\n'
                    'throttled_usec 0\n',
                }
            )
            self.assertEqual(['5000000', '7000'], self.sample()[1:3])

    def test_version_1_of_a_machine_with_both(self) -> None:
        self.write(
            {
                'groups': '2:cpu,cpuacct:/guest\n0::/\n',
                'mounts': self.mount('/', 'cgroup', 'rw,cpu,cpuacct'),
                'tree/guest/cpuacct.usage': '5000000\n',
                'tree/guest/cpu.cfs_quota_us': '65000\n',
                'tree/guest/cpu.stat': 'nr_throttled 1\nthrottled_time 7\n',
            }
        )
        self.assertEqual(['5000000', '7'], self.sample()[1:3])


class Answers:
    """A node that dies between start and collection."""

    name = address = host = 'w'
    role = 'worker'

    def __init__(self, answers: Sequence[Any]) -> None:
        self.answers = list(answers)

    def run(self, *_args: Any, **_more: Any) -> processutils.Result:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return processutils.Result(0, answer, '')

    def put(self, text: str, path: str, mode: int = 0o644) -> None:
        raise NotImplementedError


class Gaps(testtools.TestCase):
    def collected(self, *answers: Any) -> Telemetry:
        run_sampler = sampler.Sampler([Answers(answers)], 'cgroup', 5)
        run_sampler.start()
        return run_sampler.collect(1000.5, {})

    def test_node_that_died(self) -> None:
        dead = errors.CommandError(['w:', 'sh'], 255, 'refused')
        run_telemetry = self.collected(f'{time.time()}\n', dead)
        self.assertEqual([], run_telemetry.nodes)
        self.assertIn('w: no samples', run_telemetry.gaps[0])

    def test_half_an_answer(self) -> None:
        self.assertIn('fewer', self.collected('1\n', '1 2\n').gaps[0])

    def test_a_pause_is_no_figure(self) -> None:
        late = LOOP.replace('110.0', '140.0')
        run_telemetry = self.collected(f'{time.time()}\n', late)
        self.assertEqual([0.5, None], run_telemetry.nodes[0].rates['cpu'])
        self.assertEqual(
            [20480, None], run_telemetry.nodes[0].disks['7:0']['write']
        )
        self.assertEqual(['w: no samples from 5 to 40 s'], run_telemetry.gaps)
