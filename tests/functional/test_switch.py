# SPDX-License-Identifier: Apache-2.0
"""The switches of lab hosts lose next to nothing. The lab is up.

Takes about 140 s.
"""

import json
from typing import Any

from hvstack import processutils
from hvstack.lab.hosts import host, switch_setup
from hvstack.report import telemetry_checks
from hvstack.results.telemetry import NETWORK_COUNTERS
from tests.functional.test_hosts import LAST, HostsTest

HOSTS = ('hv-host2', LAST)
#: In each direction, in transfers that fit the time limit of a command.
_TRANSFERS, _TRANSFER_BYTES = 5, 100 * 2**20
_PORT = 5001
#: Guests compete with their own switch for the host's share.
_BUSY = '(while :; do :; done) >/dev/null 2>&1 </dev/null &'


class SwitchTest(HostsTest):
    def setUp(self) -> None:
        super().setUp()
        flavor = self.flavor()
        requests = [self.start(flavor, name) for name in HOSTS]
        self.guests = [self.active(server) for server in requests]
        for guest in self.guests:
            self.answers(guest)
            self.wait(guest, 'echo $HOME', '/')
            self.ssh(guest, _BUSY)

    def read_counters(self, guest: Any) -> dict[str, int]:
        """Return the guest's TCP segments, and those that it sent again."""
        lines = self.ssh(guest, 'grep ^Tcp: /proc/net/snmp').stdout
        names, numbers = (line.split()[1:] for line in lines.splitlines())
        counters = dict(zip(names, map(int, numbers), strict=True))
        return {
            'segments': counters['OutSegs'],
            NETWORK_COUNTERS[1]: counters['RetransSegs'],
        }

    def send(self, sender: Any, receiver: Any) -> None:
        """Send data from a guest to another one."""
        # The sender would stop if the receiver's standard input ended first.
        self.ssh(
            receiver,
            f'(sleep 50 | nc -l -p {_PORT} >/dev/null) '
            '>/dev/null 2>&1 </dev/null & sleep 1',
        )
        self.ssh(
            sender,
            f'head -c {_TRANSFER_BYTES} /dev/zero | '
            f'nc {self.address(receiver)} {_PORT}',
        )

    def check_transfer(self) -> None:
        """Send data each way, and check how much was sent again."""
        pairs = (self.guests, list(reversed(self.guests)))
        for sender, receiver in pairs:
            before = self.read_counters(sender)
            for _ in range(_TRANSFERS):
                self.send(sender, receiver)
            after = self.read_counters(sender)
            segments, retransmitted = (
                after[name] - before[name] for name in NETWORK_COUNTERS[:2]
            )
            # A segment has at most 64 KiB before the kernel divides it.
            self.assertGreater(segments, _TRANSFERS * _TRANSFER_BYTES / 65536)
            self.assertLess(
                retransmitted / segments,
                telemetry_checks.MAX_RETRANSMITTED_SHARE,
            )

    def check_buffers(self, name: str) -> None:
        """Check the buffer of each packet socket of a host's switch."""
        argv = ('python3', switch_setup.__file__, 'show')

        def is_large() -> bool:
            result = host.enter(name, *argv, check=False)
            sizes = json.loads(result.stdout or '[]')
            return bool(sizes) and min(sizes) == switch_setup.BUFFER_BYTES

        processutils.wait_for(is_large, f'large buffers of {name}', timeout=30)

    def test_next_to_nothing_is_sent_again(self) -> None:
        for name in HOSTS:
            self.check_buffers(name)
        self.check_transfer()
        host.supervisorctl(LAST, 'restart', 'ovs')
        self.check_buffers(LAST)
        for guest in self.guests:
            self.answers(guest)
        self.check_transfer()
