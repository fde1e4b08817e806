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
        state = self.useFixture(fixtures.TempDir()).path
        self.env = {**os.environ, 'HVSTACK_STATE_DIR': state}
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

    def test_without_a_lab(self) -> None:
        links = self.links(
            'ip link add hv-mgmt type bridge',
            'ip link set hv-mgmt alias hvstack:None',
            'bridges.remove()',
        )
        self.assertEqual({'hv-mgmt'}, links)
        state = Path(self.env['HVSTACK_STATE_DIR'])
        self.assertEqual([], list(state.iterdir()))
