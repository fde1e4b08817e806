# SPDX-License-Identifier: Apache-2.0
"""Receive buffers of packet sockets, on sockets of this process."""

import os
import socket
from pathlib import Path

import fixtures
import testtools

from hvstack import errors
from hvstack.lab import requirements
from hvstack.lab.hosts import switch_setup


class BuffersTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        try:
            switch_setup.check_kernel()
            self.packet_socket = self.open_socket()
        except OSError as exc:
            self.skipTest(f'needs root and pidfd_getfd: {exc}')

    def open_socket(self) -> socket.socket:
        # Protocol 0 receives nothing.
        packet_socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.addCleanup(packet_socket.close)
        return packet_socket

    def test_enlarge_also_later_sockets(self) -> None:
        pid, checked = os.getpid(), set[str]()
        before = switch_setup.read_sizes(pid)
        self.assertLess(max(before), switch_setup.BUFFER_BYTES)
        switch_setup.enlarge(pid, checked)
        self.open_socket()
        self.assertLess(
            min(switch_setup.read_sizes(pid)), switch_setup.BUFFER_BYTES
        )
        switch_setup.enlarge(pid, checked)
        self.assertEqual(
            [switch_setup.BUFFER_BYTES] * 2, switch_setup.read_sizes(pid)
        )

    def test_other_sockets_stay(self) -> None:
        with socket.socket() as other:
            before = other.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
            switch_setup.enlarge(os.getpid(), set())
            self.assertEqual(
                before, other.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
            )

    def test_process_has_ended(self) -> None:
        self.assertRaises(OSError, switch_setup.enlarge, 2**22 + 1, set())


class TunnelTest(testtools.TestCase):
    def test_index_of_the_interface(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(
            fixtures.MockPatchObject(switch_setup, '_INTERFACES', directory)
        )
        self.assertEqual(0, switch_setup.read_interface())
        (directory / 'br-tun').mkdir()
        (directory / 'br-tun' / 'ifindex').write_text('7\n')
        self.assertEqual(7, switch_setup.read_interface())


class KernelTest(testtools.TestCase):
    def test_kernel_without_the_system_call(self) -> None:
        self.useFixture(
            fixtures.MockPatchObject(switch_setup, '_PIDFD_GETFD', 9999)
        )
        error = self.assertRaises(
            errors.MissingPrerequisiteError, requirements.check_switch
        )
        self.assertIn('Linux 5.6', str(error))
