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


class NetworkTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        if os.geteuid() or not shutil.which('ip'):
            self.skipTest('needs root and iproute2')
        state = self.useFixture(fixtures.TempDir()).path
        self.env = {**os.environ, 'HVSTACK_STATE_DIR': state}
        done = self.inside('ip link add hv-x type bridge')
        if done.returncode:
            self.skipTest(f'no bridge can be made: {done.stderr}')

    def inside(self, *steps: str) -> subprocess.CompletedProcess[str]:
        """Run steps of Python (network.x) and of a shell, print links."""
        lines = []
        for step in steps:
            if step.startswith('network.'):
                code = f'from hvstack.lab import network; {step}'
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
            'network.ensure()',
            'network.remove()',
        )
        self.assertEqual({'hv-backup', 'hv-mgmt9'}, links)

    def test_ensure_twice(self) -> None:
        links = self.links('network.ensure()', 'network.ensure()')
        self.assertEqual({'hv-mgmt', 'hv-prov', 'hv-tun'}, links)

    def test_bridge_of_another_program(self) -> None:
        done = self.inside(
            'ip link add hv-prov type bridge', 'network.ensure()'
        )
        self.assertEqual(1, done.returncode)
        self.assertIn('Cannot create the bridge hv-prov', done.stderr)
        self.assertFalse(Path('/sys/class/net/hv-x').exists())

    def test_without_a_lab(self) -> None:
        links = self.links(
            'ip link add hv-mgmt type bridge',
            'ip link set hv-mgmt alias hvstack:None',
            'network.remove()',
        )
        self.assertEqual({'hv-mgmt'}, links)
        state = Path(self.env['HVSTACK_STATE_DIR'])
        self.assertEqual([], list(state.iterdir()))
