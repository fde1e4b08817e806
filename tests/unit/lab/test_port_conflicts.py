# SPDX-License-Identifier: Apache-2.0
"""Test the detection of programs on the ports of the lab."""

import os
import socket

import testtools

from hvstack.lab import port_conflicts


class PortsTest(testtools.TestCase):
    def listen(self, address: str) -> int:
        server = socket.create_server((address, 0))
        self.addCleanup(server.close)
        return int(server.getsockname()[1])

    def test_finds_a_listener_with_name_and_pid(self) -> None:
        port = self.listen('127.0.0.1')
        (listener,) = [x for x in port_conflicts.listeners() if x.port == port]
        self.assertEqual(os.getpid(), listener.pid)
        self.assertIn('python', listener.name)

    def test_wildcard_takes_every_address(self) -> None:
        port = self.listen('0.0.0.0')
        service_ports = {('10.251.0.1', port): 'nova'}
        (conflict,) = port_conflicts.conflicts(
            port_conflicts.listeners(), set(), service_ports
        )
        self.assertEqual(('nova', os.getpid()), (conflict[0], conflict[1].pid))

    def test_another_address_is_no_conflict(self) -> None:
        port = self.listen('127.0.0.1')
        service_ports = {('10.251.0.1', port): 'nova'}
        self.assertEqual(
            [],
            port_conflicts.conflicts(
                port_conflicts.listeners(), set(), service_ports
            ),
        )

    def test_our_own_programs_are_no_conflict(self) -> None:
        port = self.listen('127.0.0.1')
        service_ports = {('127.0.0.1', port): 'memcached'}
        listeners = port_conflicts.listeners()
        self.assertEqual(
            [],
            port_conflicts.conflicts(listeners, {os.getpid()}, service_ports),
        )
        self.assertEqual(
            1, len(port_conflicts.conflicts(listeners, set(), service_ports))
        )

    def test_nothing_needed_is_open_to_the_world(self) -> None:
        for address, _ in port_conflicts.needed():
            self.assertIn(address, ('127.0.0.1', '10.251.0.1'))
