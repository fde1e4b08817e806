# SPDX-License-Identifier: Apache-2.0
import os
import socket

import testtools

from hvstack.lab import ports


class PortsTest(testtools.TestCase):
    def listen(self, address: str) -> int:
        server = socket.create_server((address, 0))
        self.addCleanup(server.close)
        return int(server.getsockname()[1])

    def test_finds_a_listener_with_name_and_pid(self) -> None:
        port = self.listen('127.0.0.1')
        (found,) = [x for x in ports.listeners() if x.port == port]
        self.assertEqual(os.getpid(), found.pid)
        self.assertIn('python', found.name)

    def test_wildcard_takes_every_address(self) -> None:
        port = self.listen('0.0.0.0')
        wanted = {('10.251.0.1', port): 'nova'}
        (taken,) = ports.conflicts(ports.listeners(), set(), wanted)
        self.assertEqual(('nova', os.getpid()), (taken[0], taken[1].pid))

    def test_another_address_is_no_conflict(self) -> None:
        port = self.listen('127.0.0.1')
        wanted = {('10.251.0.1', port): 'nova'}
        self.assertEqual([], ports.conflicts(ports.listeners(), set(), wanted))

    def test_our_own_programs_are_no_conflict(self) -> None:
        port = self.listen('127.0.0.1')
        wanted = {('127.0.0.1', port): 'memcached'}
        found = ports.listeners()
        self.assertEqual([], ports.conflicts(found, {os.getpid()}, wanted))
        self.assertEqual(1, len(ports.conflicts(found, set(), wanted)))

    def test_nothing_needed_is_open_to_the_world(self) -> None:
        for address, _ in ports.needed():
            self.assertIn(address, ('127.0.0.1', '10.251.0.1'))
