# SPDX-License-Identifier: Apache-2.0
"""Settings of switches, and what pairs of clusters say about them."""

import io
import os
import socket
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import fixtures
import testtools

from hvstack import errors
from hvstack.lab.hosts import switch_setup
from tests.unit.benchmarks import load
from tests.unit.results import factory

switch_losses = load('switch_losses')
switch_settings = load('switch_settings')


class ProgramTest(testtools.TestCase):
    """On a packet socket and on the threads of this process."""

    def test_change_and_restore(self) -> None:
        try:
            switch_setup.check_kernel()
            # Protocol 0 receives nothing.
            packet_socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        except OSError as exc:
            self.skipTest(f'needs root and pidfd_getfd: {exc}')
        self.addCleanup(packet_socket.close)
        default = packet_socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        self.assertEqual(default, 2 * switch_settings.USUAL.buffer_bytes)
        priority = os.getpriority(os.PRIO_PROCESS, 0)
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        pid_file = directory / 'pid'
        pid_file.write_text(str(os.getpid()))
        (directory / 'switch_setup.py').write_text(
            Path(switch_setup.__file__).read_text(encoding='utf-8')
            + f"\nPID_FILE = Path('{pid_file}')\n"
        )
        for size, value in ((2**24, priority), (default // 2, priority)):
            subprocess.run(
                [
                    *(sys.executable, '-I', '-S', '-c'),
                    switch_settings._PROGRAM,
                    *(directory, str(size), str(value)),
                ],
                check=True,
                timeout=20,
            )
            self.assertEqual(
                2 * size,
                packet_socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF),
            )
            self.assertEqual(priority, os.getpriority(os.PRIO_PROCESS, 0))


class OrderTest(testtools.TestCase):
    def test_both_sides_in_each_pair(self) -> None:
        order = switch_losses.order_sides('x', 20)
        self.assertEqual(order, switch_losses.order_sides('x', 20))
        pairs = [tuple(order[start : start + 2]) for start in range(0, 40, 2)]
        for index, pair in enumerate(pairs):
            self.assertEqual({('a', index), ('b', index)}, set(pair))
        self.assertEqual({'a', 'b'}, {pair[0][0] for pair in pairs})


class ResultTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path) / 'x'
        self.directory.mkdir()

    def add(self, side: str, index: int, seconds: float, **facts: int) -> None:
        record = factory.run(
            *('i1', index, seconds),
            sweep=f'x-{side}',
            started=f'2026-11-29T0{index}:00:00Z',
            **facts,
        )
        switch_losses.fresh_clusters.open_store(self.directory).append(record)

    def print_result(self) -> str:
        output = io.StringIO()
        with redirect_stdout(output):
            switch_losses.print_result(self.directory)
        return output.getvalue()

    def test_rate_of_a_in_percent_of_b(self) -> None:
        for index, seconds in enumerate((100, 102, 101)):
            self.add('a', index, seconds)
            self.assertNotIn('of the rate', self.print_result())
        for index, seconds in enumerate((111, 112, 110)):
            self.add('b', index, seconds)
        self.assertIn('A has 109.9 % of the rate of B', self.print_result())

    def test_pending(self) -> None:
        self.add('a', 0, 100)
        pending = switch_losses.list_pending(self.directory, 2)
        self.assertEqual(
            [('a', 1), ('b', 0), ('b', 1)],
            sorted(pending),
        )
        self.assertEqual(('b', 0), pending[0])

    def test_other_hosts(self) -> None:
        self.add('a', 0, 100)
        self.add('b', 0, 100, hosts=5)
        self.assertRaises(errors.NotComparableError, self.print_result)
