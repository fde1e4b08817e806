# SPDX-License-Identifier: Apache-2.0
"""Test how the facts of nodes and hosts are read."""

import contextlib
import re
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors, processutils, shell_scripts
from hvstack.cluster import probe
from hvstack.cluster.command_node import CommandNode
from tests.unit.cluster.lab_tree import LabTree

#: Seconds in which a shell must handle a signal.
HANDLER_SECONDS = 30
BUSY = """\
5000.00 100.00
5003.10 100.00
0m0.000000s 0m0.010000s
0m1.900000s 0m0.115000s
"""

#: Lines of a kernel's log, from killed tasks.
LOG = """\
[1.0] nova-scheduler: invoked oom-killer: gfp_mask=0x140cca, order=0
[2.0] oom-kill:constraint=CONSTRAINT_NONE,cpuset=/,global_oom,task=python,pid=3
[2.1] Out of memory: Killed process 3 (python) total-vm:20732832kB
[3.0] oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/hv-host2,task=java,pid=4
[3.1] Memory cgroup out of memory: Killed process 4 (java) total-vm:2073283kB
"""


def node(name: str) -> CommandNode:
    return CommandNode(
        name=name,
        address='127.0.0.1',
        role='worker',
        host=name,
        enter=('env',),
    )


def list_processes(directory: Path) -> list[str]:
    """Return the processes that have a directory as an argument."""
    argument = f'{directory}\0'.encode()
    pids = []
    for path in Path('/proc').glob('[0-9]*/cmdline'):
        # The process may have ended.
        with contextlib.suppress(OSError):
            if argument in path.read_bytes():
                pids.append(path.parent.name)
    return pids


def wait_for_handler(pid: int, number: int) -> None:
    """Wait until a process handles a signal, or has ended."""
    end = time.monotonic() + HANDLER_SECONDS
    while time.monotonic() < end:
        status = Path(f'/proc/{pid}/status').read_text(encoding='utf-8')
        caught = re.search(r'SigCgt:\s*(\w+)', status)
        if caught is None or int(caught[1], 16) >> (number - 1) & 1:
            return
        time.sleep(0.05)


@dataclass
class LateNode:
    """A node that takes a while to get a command, as ssh does.

    :param told_at: when it got the command that starts later.
    :param starts_at: when it starts the command.
    """

    name: str
    told_at: float = 0.0
    starts_at: float = 0.0
    address: str = '127.0.0.1'
    role: str = 'worker'
    host: str = 'h1'

    def run(self, command: str, **_options: Any) -> processutils.Result:
        received_at = time.monotonic()
        if 'setsid' not in command:
            return processutils.Result(0, BUSY, '')
        delay = re.match(r'set -- ([\d.]+) ', command)
        assert delay
        self.told_at = received_at
        self.starts_at = received_at + float(delay[1])
        time.sleep(0.05)
        return processutils.Result(0, '/tmp/x\n', '')

    def put(self, text: str, path: str, mode: int = 0o644) -> None:
        raise NotImplementedError

    def argv(self, command: str) -> list[str]:
        raise NotImplementedError


class ProbeTest(testtools.TestCase):
    def test_cores(self) -> None:
        self.assertEqual(0.65, probe.parse_busy(BUSY).cores)

    def test_cores_of_nonsense(self) -> None:
        for text in (
            '',
            'no\nsuch\nthing\nhere',
            BUSY.replace('5003', '5000'),
        ):
            if '5000.10' in text:
                continue
            self.assertRaises(errors.CommandError, probe.parse_busy, text)

    def list_timestamps(self, log: str) -> list[str]:
        return sorted(line[:5] for line in probe.oom(log))

    def test_oom_lines_of_the_run_only(self) -> None:
        self.useFixture(LabTree(1))
        self.assertEqual(['[3.0]', '[3.1]'], self.list_timestamps(LOG))

    def test_oom_lines_of_other_owners_on_a_machine_with_a_lab(self) -> None:
        self.useFixture(LabTree(1, 'hv-host2'))
        self.assertEqual(['[3.0]'], self.list_timestamps(LOG))
        for group, expected in (
            ('/hv-host2/machine/lxc-1', ['[3.0]']),
            ('/hvstack.slice/hvstack-hv-host2.scope', ['[3.0]']),
            ('/docker/hv-host22', []),
            ('/system.slice/search.service', []),
        ):
            log = LOG.replace('/hv-host2', group)
            self.assertEqual(expected, self.list_timestamps(log))

    def test_facts_of_this_machine(self) -> None:
        facts = probe.facts(node('here'))
        self.assertIn('kernel', facts)
        self.assertIn('os_release', facts)
        self.assertNotIn('image_digest', facts)
        self.assertLess(0, int(facts['data_disks']))
        self.assertRegex(facts['libhadoop'], 'none|[0-9a-f]{12}')

    def test_what_guests_do_not_see_of_this_machine(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        program = directory / 'libvirtd'
        program.write_text('#!/bin/sh\necho "libvirtd (libvirt) 9.0.0"\n')
        program.chmod(0o755)
        self.useFixture(
            fixtures.EnvironmentVariable('PATH', f'{directory}:/usr/bin:/bin')
        )
        host_facts = probe.host(node('here'))
        self.assertEqual('9.0.0', host_facts['libvirt'])
        self.assertNotIn('kernel', host_facts)
        guest_facts = probe.facts(node('here'))
        for name in ('cpu_model', 'smt', 'thp'):
            self.assertEqual(guest_facts.get(name), host_facts.get(name))
        self.assertNotIn('libvirt', guest_facts)

    def test_disks_of_hosts(self) -> None:
        """All hosts count, not the first of them alone."""
        twenty = ''.join(f'sd{n} rotational 600\n' for n in range(20))
        for outputs, expected in (
            ([twenty, twenty], (20, 'rotational', 600)),
            (
                [twenty, 'sdb ssd 480\n'],
                ('1 or 20', 'rotational or ssd', '480 or 600'),
            ),
            ([twenty, ''], (None, None, None)),
        ):
            done = [processutils.Result(0, text, '') for text in outputs]
            self.useFixture(
                fixtures.MonkeyPatch(
                    'hvstack.cluster.probe.run_on_nodes',
                    lambda *_, done=done, **_options: done,
                )
            )
            use = probe.disks([node('w1'), node('w2')])
            self.assertEqual(expected, (use.count, use.kind, use.size_gb))
            self.assertEqual('bare metal', use.access)

    def test_many_nodes_run_a_command_together(self) -> None:
        """Their output is that of the command, and no file remains."""
        self.start_soon()
        directory = self.useFixture(fixtures.TempDir()).path
        self.useFixture(fixtures.EnvironmentVariable('TMPDIR', directory))
        results = probe.run_together(
            [node('w1'), node('w2')], 'echo "busy $$"; echo e >&2', timeout=9
        )
        self.assertEqual(2, len({result.stdout for result in results}))
        for result in results:
            self.assertRegex(result.stdout, r'^busy \d+\n$')
            self.assertEqual('e\n', result.stderr)
        self.assertEqual([], list(Path(directory).iterdir()))

    def test_a_command_of_many_nodes_that_fails(self) -> None:
        self.start_soon()
        failure = self.assertRaises(
            errors.CommandError,
            probe.run_together,
            [node('w1')],
            'echo reason >&2; exit 3',
            timeout=9,
        )
        self.assertIn('reason', str(failure))

    def test_output_is_deleted_in_any_case(self) -> None:
        """The program does not end in time, or the connection ends."""
        # A shell cannot handle a signal that nohup ignores.
        before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
        self.addCleanup(signal.signal, signal.SIGHUP, before)
        program = shell_scripts.load('collect-output')
        for seconds, number, status in (
            ('0', 0, 124),
            ('9', signal.SIGTERM, 143),
            ('9', signal.SIGHUP, 129),
        ):
            directory = Path(self.useFixture(fixtures.TempDir()).path) / 'out'
            directory.mkdir()
            (directory / 'out').write_text('incomplete')
            with subprocess.Popen(
                ['sh', '-c', program, 'sh', directory, seconds],
                stderr=subprocess.DEVNULL,
            ) as process:
                if number:
                    wait_for_handler(process.pid, number)
                    process.send_signal(number)
                process.wait(timeout=60)
            self.assertEqual(status, process.returncode)
            self.assertFalse(directory.exists(), seconds)

    def run_later(self, command: str, keep_seconds: int) -> Path:
        """Start a program at once; return the directory of its output."""
        directory = self.useFixture(fixtures.TempDir()).path
        self.useFixture(fixtures.EnvironmentVariable('TMPDIR', directory))
        program = shell_scripts.render('run-later', 0, command, keep_seconds)
        return Path(processutils.run(['sh', '-c', program]).stdout.strip())

    def wait_for(self, condition: Callable[[], bool]) -> None:
        processutils.wait_for(condition, 'it', timeout=60, interval=0.1)

    def test_output_that_is_not_collected_is_deleted(self) -> None:
        """Some seconds after the end of the program, and not earlier."""
        directory = self.run_later('sleep 3; echo x', 1)
        time.sleep(2.5)
        self.assertFalse((directory / 'status').exists())
        self.wait_for((directory / 'status').exists)
        self.wait_for(lambda: not directory.exists())
        self.assertEqual([], list(directory.parent.iterdir()))
        self.wait_for(lambda: not list_processes(directory))

    def test_output_is_kept_until_it_is_collected(self) -> None:
        """No process remains afterwards, however long it is kept."""
        directory = self.run_later('echo x', 300)
        self.wait_for((directory / 'status').exists)
        time.sleep(3)
        self.assertTrue(list_processes(directory))
        program = shell_scripts.render('collect-output', directory, 9)
        done = processutils.run(['sh', '-c', program])
        self.assertEqual('x\n', done.stdout)
        self.wait_for(lambda: not list_processes(directory))

    def start_soon(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cluster.probe._START_SECONDS', 0)
        )

    def test_many_nodes_start_at_the_same_time(self) -> None:
        """A node that gets the command later waits for fewer seconds."""
        nodes = [LateNode(f'w{index}') for index in range(5)]
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cluster.probe.MAX_NODES_AT_ONCE', 1)
        )
        results = probe.measure_busy(nodes, 1)
        self.assertEqual(
            {item.name: 0.65 for item in nodes},
            {name: result.cores for name, result in results.items()},
        )
        starts = [item.starts_at for item in nodes]
        self.assertLess(max(starts) - min(starts), 0.15)
        self.assertGreater(min(starts), max(item.told_at for item in nodes))

    def test_memory_of_this_machine(self) -> None:
        self.assertLess(0, probe.memory([node('here')])['here'])
