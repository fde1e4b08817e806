# SPDX-License-Identifier: Apache-2.0
"""The program that gets a guest's metadata from Nova's service."""

import json
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import fixtures
import testtools

from hvstack.lab.images import recipes

DIRECTORY = recipes.FILES / 'common/usr/lib/hvstack'
PATHS = {
    'instance-id': 'i-7',
    'local-hostname': 'w1.novalocal',
    'public-keys/': '0=key',
    'public-keys/0/openssh-key': 'ssh-ed25519 AAAA',
}
#: A clock by which each look takes a while, as on a machine with much to do.
CLOCK = """
seconds() {
    echo . >>%s
    echo $((%d * $(wc -l <%s)))
}
"""


class Nova(BaseHTTPRequestHandler):
    """The service; refuses the first request for each path."""

    refused: ClassVar[set[str]] = set()
    #: Number of requests that an agent answers before it knows the port.
    unknown = 0

    def do_GET(self) -> None:
        path = self.path.removeprefix('/latest/')
        text = PATHS.get(path.removeprefix('meta-data/'))
        if path == 'user-data':
            text = '#!/bin/sh'
        status = 200 if text is not None else 404
        if Nova.unknown and path == 'meta-data/instance-id':
            Nova.unknown -= 1
            status = 404
        if path not in self.refused and path != 'meta-data/instance-id':
            self.refused.add(path)
            status = 503
        self.send_response(status)
        self.end_headers()
        if status == 200:
            self.wfile.write((text or '').encode())

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


class MetadataTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        if shutil.which('busybox') is None:
            self.skipTest('busybox, which guest images have, is missing')
        Nova.refused.clear()
        self.server = HTTPServer(('127.0.0.1', 0), Nova)
        self.addCleanup(self.server.server_close)
        threading.Thread(
            target=self.server.serve_forever, args=(0.01,), daemon=True
        ).start()
        self.addCleanup(self.server.shutdown)
        self.root = Path(self.useFixture(fixtures.TempDir()).path)
        self.fetched = self.root / 'run'
        (self.root / 'state').mkdir()

    def fetch(self, seconds: int) -> str:
        """Run the program with a clock, and return its output."""
        ticks = self.root / 'ticks'
        functions = self.root / 'functions'
        replacements = {
            'http://169.254.169.254': (
                f'http://127.0.0.1:{self.server.server_address[1]}'
            ),
            '/run/hvstack': str(self.fetched),
            '/var/lib/hvstack': str(self.root / 'state'),
            '/usr/lib/hvstack/functions': str(functions),
            'sleep 1': 'sleep 0.01',
            '>/dev/console': '>/dev/null',
        }
        for name in ('functions', 'metadata'):
            text = (DIRECTORY / name).read_text()
            for old, new in replacements.items():
                text = text.replace(old, new)
            (self.root / name).write_text(text)
        with functions.open('a') as stream:
            stream.write(CLOCK % (ticks, seconds, ticks))
        return subprocess.run(
            ['busybox', 'sh', str(self.root / 'metadata'), 'service'],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            text=True,
        ).stdout

    def test_slow_service(self) -> None:
        self.assertEqual('', self.fetch(60))
        self.assertEqual('i-7', (self.fetched / 'instance-id').read_text())
        self.assertEqual('#!/bin/sh', (self.fetched / 'user-data').read_text())
        self.assertIn('AAAA', (self.fetched / 'keys').read_text())

    def test_service_that_knows_the_guest_late(self) -> None:
        """A new guest asks for longer than five minutes."""
        self.useFixture(fixtures.MonkeyPatch(f'{__name__}.Nova.unknown', 5))
        self.assertIn('after 300 s, still asking', self.fetch(60))
        self.assertEqual('i-7', (self.fetched / 'instance-id').read_text())

    def test_network_without_service(self) -> None:
        self.useFixture(fixtures.MonkeyPatch(f'{__name__}.Nova.unknown', 99))
        self.assertIn('within 1800 s', self.fetch(1000))
        self.assertFalse((self.fetched / 'instance-id').exists())

    def test_service_that_does_not_come_back(self) -> None:
        """A later boot must ask for the user-data again."""
        self.assertIn('no answer from http://127.0.0.1', self.fetch(100_000))
        self.assertFalse((self.fetched / 'instance-id').exists())


#: Commands of a guest that needs no device and no network interface.
COMMANDS = """
findfs() { echo drive; }
mount() { :; }
umount() { :; }
hostname() { echo w1; }
write_hosts() { :; }
udhcpc() { echo udhcpc; }
ip() { echo "ip $*"; }
"""


def describe_network(**subnet: Any) -> dict[str, Any]:
    """Return the network data of Nova for a server with a port."""
    network = {'id': 'network0', 'link': 'tap1', 'network_id': 'n'}
    return {
        'links': [{'id': 'tap1', 'type': 'ovs', 'mtu': 8942, 'vif_id': 'v'}],
        'networks': [network | subnet],
        'services': [{'type': 'dns', 'address': '10.0.0.3'}],
    }


STATIC = {
    'type': 'ipv4',
    'ip_address': '10.0.16.20',
    'netmask': '255.255.240.0',
    'routes': [
        {
            'network': '0.0.0.0',
            'netmask': '0.0.0.0',
            'gateway': '10.0.16.1',
        },
        {
            'network': '10.9.0.0',
            'netmask': '255.255.255.128',
            'gateway': '10.0.16.2',
        },
    ],
    'services': [
        {'type': 'dns', 'address': '10.0.0.3'},
        {'type': 'dns', 'address': '10.0.0.4'},
    ],
}


class ConfigDriveTest(testtools.TestCase):
    """Programs metadata and network of a guest with a config drive."""

    def setUp(self) -> None:
        super().setUp()
        if shutil.which('busybox') is None:
            self.skipTest('busybox, which guest images have, is missing')
        self.root = Path(self.useFixture(fixtures.TempDir()).path)
        self.run_directory = self.root / 'run'
        for name, data in (
            (
                'ec2/latest/meta-data.json',
                {'instance-id': 'i-7', 'local-hostname': 'w1'},
            ),
            ('openstack/latest/network_data.json', {}),
        ):
            path = self.run_directory / 'drive' / name
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps(data))
        self.network_data = path
        (self.root / 'net/eth0').mkdir(parents=True)
        replacements = {
            '/run/hvstack': str(self.run_directory),
            '/usr/lib/hvstack/functions': str(self.root / 'functions'),
            '/sys/class/net': str(self.root / 'net'),
            '/etc/resolv.conf': str(self.root / 'resolv.conf'),
        }
        for name in ('functions', 'metadata', 'network'):
            text = (DIRECTORY / name).read_text()
            for old, new in replacements.items():
                text = text.replace(old, new)
            (self.root / name).write_text(text)
        with (self.root / 'functions').open('a') as stream:
            stream.write(COMMANDS)

    def boot(self, network_data: Any) -> list[str]:
        """Return the commands that set up the network."""
        self.network_data.write_text(json.dumps(network_data))
        lines = []
        for name, argument in (('metadata', 'drive'), ('network', '')):
            lines += subprocess.run(
                ['busybox', 'sh', str(self.root / name), argument],
                capture_output=True,
                check=True,
                text=True,
                env={'HVSTACK_MACHINE': 'y'},
            ).stdout.splitlines()
        return lines

    def test_subnet_without_dhcp(self) -> None:
        self.assertEqual(
            [
                'ip link set eth0 up',
                'ip addr replace 10.0.16.20/20 dev eth0',
                'ip link set eth0 mtu 8942',
                'ip route replace 0.0.0.0/0 via 10.0.16.1 dev eth0',
                'ip route replace 10.9.0.0/25 via 10.0.16.2 dev eth0',
            ],
            self.boot(describe_network(**STATIC)),
        )
        self.assertEqual(
            '10.0.16.20\n', (self.run_directory / 'network').read_text()
        )
        self.assertEqual(
            'nameserver 10.0.0.3\nnameserver 10.0.0.4\n',
            (self.root / 'resolv.conf').read_text(),
        )

    def test_subnet_with_dhcp(self) -> None:
        for network_data in (
            {},
            describe_network(type='ipv4_dhcp'),
            describe_network(type='ipv6', ip_address='fd00::2'),
        ):
            lines = self.boot(network_data)
            self.assertEqual('ip link set eth0 up', lines[0])
            self.assertFalse(any('addr' in line for line in lines))

    def test_subnet_without_gateway_and_a_second_network(self) -> None:
        """Only the first network is that of the interface."""
        data = describe_network(**(STATIC | {'routes': [], 'services': []}))
        data['networks'].append(STATIC)
        lines = self.boot(data)
        self.assertEqual(3, len(lines))
        self.assertIn('10.0.16.20/20', lines[1])
