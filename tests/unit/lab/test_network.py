# SPDX-License-Identifier: Apache-2.0
"""Interfaces, in a network namespace of their own: names prove nothing."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import fixtures
import testtools

#: Runs a program with a network, and a /sys, of its own.
_UNSHARE = ('unshare', '--net', '--mount', 'sh', '-c')
_SCRIPT = 'mount -t sysfs sysfs /sys && exec "$@"'
_LINKS = ('ip', '-json', 'link', 'show')
#: Connects to ports of the management address from a guest's network, from a
#: lab host's, and from the machine itself.
_PORTS = """
import socket, subprocess, sys
from hvstack.lab import constants
names = ("keystone", "heat-cfn", "rabbitmq", "ovn-sb")
servers = [
    socket.create_server((constants.MGMT, constants.PORTS[name]))
    for name in names
]
CONNECT = '''
import socket, sys
for word in sys.argv[2:]:
    name, _, port = word.partition("=")
    try:
        socket.create_connection((sys.argv[1], port), 0.3).close()
        print(name)
    except OSError:
        pass
'''
def reached(*before):
    words = [f"{name}={constants.PORTS[name]}" for name in names]
    argv = [*before, sys.executable, "-c", CONNECT, constants.MGMT, *words]
    return subprocess.check_output(argv, text=True).split()
def run(words):
    subprocess.run(words.split(), check=True)
for name, bridge, network in (
    ("guest", "hv-prov", "10.252.0"), ("host", "hv-mgmt", "10.251.0")
):
    process = subprocess.Popen(["unshare", "--net", "cat"], stdin=-1)
    enter = f"nsenter -t {process.pid} -n"
    own = str(subprocess.os.readlink("/proc/self/ns/net"))
    while subprocess.os.readlink(f"/proc/{process.pid}/ns/net") == own:
        pass
    run(f"ip link add {name} type veth peer name eth0 netns {process.pid}")
    run(f"ip link set {name} master {bridge} up")
    run(f"{enter} ip address add {network}.9/24 dev eth0")
    run(f"{enter} ip link set eth0 up")
    if name == "guest":
        run(f"{enter} ip route add default via {network}.1")
    print(f"{name}:", *reached(*enter.split()))
    process.communicate()
print("machine:", *reached())
"""


class NetworkTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        if os.geteuid() or not (shutil.which('ip') and shutil.which('nft')):
            self.skipTest('needs root, iproute2 and nftables')
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        (self.directory / 'state').mkdir()
        self.env = {
            **os.environ,
            'HVSTACK_STATE_DIR': str(self.directory / 'state'),
        }
        done = self.inside('ip link add hv-x type bridge')
        if done.returncode:
            self.skipTest(f'no bridge can be made: {done.stderr}')

    def inside(self, *steps: str) -> subprocess.CompletedProcess[str]:
        """Run steps of Python (bridges.x) and of a shell, print links."""
        lines = []
        for step in steps:
            if step.startswith('bridges.'):
                code = f'from hvstack.lab import bridges; {step}'
                lines.append(f'"{sys.executable}" -c "{code}"')
            else:
                lines.append(step)
        script = ' &&\n'.join([*lines, ' '.join(_LINKS)])
        return subprocess.run(
            [*_UNSHARE, _SCRIPT, 'unshare', 'sh', '-c', script],
            env=self.env,
            check=False,
            capture_output=True,
            text=True,
        )

    def links(self, *steps: str) -> set[str]:
        done = self.inside(*steps)
        self.assertEqual(0, done.returncode, done.stderr)
        names = {link['ifname'] for link in json.loads(done.stdout)}
        return {name for name in names if name.startswith('hv-')}

    def test_only_the_labs_are_removed(self) -> None:
        """All interfaces with names hv-* were deleted."""
        links = self.links(
            'ip link add hv-backup type bridge',
            'ip link add hv-mgmt9 type bridge',
            'ip link set hv-mgmt9 alias hvstack:another-lab',
            'bridges.ensure()',
            'bridges.remove()',
        )
        self.assertEqual({'hv-backup', 'hv-mgmt9'}, links)

    def test_ensure_twice(self) -> None:
        links = self.links('bridges.ensure()', 'bridges.ensure()')
        self.assertEqual({'hv-mgmt', 'hv-prov', 'hv-data'}, links)

    def test_bridge_of_another_program(self) -> None:
        done = self.inside(
            'ip link add hv-prov type bridge', 'bridges.ensure()'
        )
        self.assertEqual(1, done.returncode)
        self.assertIn('Cannot create the bridge hv-prov', done.stderr)
        self.assertFalse(Path('/sys/class/net/hv-x').exists())

    def test_routes_and_name_servers_that_the_lab_would_hide(self) -> None:
        """A larger network of the machine had its gateway there."""
        lan = (
            'ip link add lan0 type bridge',
            'ip link set lan0 up',
            'ip address add 10.252.7.9/16 dev lan0',
        )
        resolver = self.directory / 'resolv.conf'
        resolver.write_text('# 10.251.0.3\nnameserver 10.251.0.2\n')
        for part, *steps in (
            (
                'the route to default leads through 10.252.0.1',
                *lan,
                'ip route add default via 10.252.0.1',
            ),
            (
                'the route to 192.0.2.0/24 leads through 10.252.0.2',
                *lan,
                'ip route add 192.0.2.0/24 nexthop via 10.252.0.2 '
                'nexthop via 10.252.1.3',
            ),
            (
                'a route to 10.253.0.16/28 exists',
                *lan,
                'ip route add 10.253.0.16/28 dev lan0',
            ),
            (
                '/etc/resolv.conf names 10.251.0.2',
                f'mount --bind {resolver} /etc/resolv.conf',
            ),
        ):
            done = self.inside(*steps, 'bridges.ensure()')
            self.assertEqual(1, done.returncode, part)
            self.assertIn(part, done.stderr)
        # Other routes of the larger network stay as they are.
        done = self.inside(
            *lan, 'ip route add default via 10.252.1.1', 'bridges.ensure()'
        )
        self.assertEqual(0, done.returncode, done.stderr)

    def test_routes_that_precede_those_of_the_lab(self) -> None:
        """Tailscale has table 52, strongSwan 220: hosts did not answer."""
        vpn = (
            'ip link add vpn0 type bridge',
            'ip link set vpn0 up',
            'ip address add 192.0.2.1/24 dev vpn0',
            'ip rule add lookup 220 priority 220',
        )
        for route, interface in (
            ('10.0.0.0/8 dev vpn0', "interface 'vpn0'"),
            ('prohibit 10.253.0.0/24', 'no interface'),
        ):
            steps = (*vpn, f'ip route add {route} table 220')
            done = self.inside(*steps, 'bridges.ensure()')
            self.assertEqual(1, done.returncode)
            self.assertIn(f'machine use {interface} ', done.stderr)
            remedies = [
                f'ip rule add to 10.{number}.0.0/24 lookup main priority 100'
                for number in (251, 252, 253)
            ]
            self.links(*steps, *remedies, 'bridges.ensure()')

    def test_machine_that_ignores_routes_without_carrier(self) -> None:
        """The bridges have no carrier before the first host starts."""
        self.links(
            'echo 1 >/proc/sys/net/ipv4/conf/all/ignore_routes_with_linkdown',
            'bridges.ensure()',
        )

    def test_a_lab_that_runs_is_not_refused(self) -> None:
        links = self.links(
            'bridges.ensure()',
            'ip route add 192.0.2.0/24 via 10.252.0.9',
            'bridges.ensure()',
        )
        self.assertEqual({'hv-mgmt', 'hv-prov', 'hv-data'}, links)

    def test_ports_that_guests_reach(self) -> None:
        """They reached OVN's southbound database, which has no password."""
        script = Path(self.useFixture(fixtures.TempDir()).path) / 'ports.py'
        script.write_text(_PORTS)
        done = self.inside(
            'ip link set lo up',
            'bridges.ensure()',
            f'"{sys.executable}" "{script}" >&2',
            'bridges.remove()',
            'test -z "$(nft list ruleset)"',
        )
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn('guest: keystone heat-cfn\n', done.stderr)
        ports = 'keystone heat-cfn rabbitmq ovn-sb'
        self.assertIn(f'host: {ports}\n', done.stderr)
        self.assertIn(f'machine: {ports}\n', done.stderr)

    def test_packet_filter_that_another_program_removed(self) -> None:
        """'systemctl restart nftables' does so; 'lab doctor' said nothing."""
        code = (
            'import subprocess; from hvstack.lab import bridges, doctor; '
            'show = lambda: print(doctor._packet_filter().state); show(); '
            'bridges.ensure(); show(); '
            "subprocess.run(['nft', 'flush', 'ruleset'], check=True); show(); "
            'bridges.ensure(); show()'
        )
        done = self.inside(f'"{sys.executable}" -c "{code}" >&2')
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(2 * ['fault', 'ok'], done.stderr.split())

    def test_without_a_lab(self) -> None:
        links = self.links(
            'ip link add hv-mgmt type bridge',
            'ip link set hv-mgmt alias hvstack:None',
            'bridges.remove()',
        )
        self.assertEqual({'hv-mgmt'}, links)
        state = Path(self.env['HVSTACK_STATE_DIR'])
        self.assertEqual([], list(state.iterdir()))
