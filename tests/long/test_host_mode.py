# SPDX-License-Identifier: Apache-2.0
r"""The lab's hosts are switched to dedicated CPUs, and restored. It is up.

    HVSTACK_LAB=1 OS_CLOUD=hvstack-lab \
        stestr --test-path ./tests/long run --serial test_host_mode

The lab is made two emulated hosts for the test: 1 to 2 minutes.
"""

import os
import signal
import subprocess
import sys

import testtools

from hvstack import conf, host_profiles
from hvstack.cloud import connection, cpu_mode, journal, placement
from hvstack.lab import settings
from hvstack.model.configuration import parse
from hvstack.sweep import capabilities, recovery
from tests.long import labs

#: Switches the hosts and dies at once, as by SIGKILL in a sweep.
DIES = """
import os, signal
from hvstack import conf, host_profiles
from hvstack.cloud import connection, cpu_mode, placement
from hvstack.sweep import capabilities
options = conf.load()
profile = host_profiles.load('lab-worker')
conn = connection.connect('hvstack-lab')
hosts = placement.providers(conn, profile.traits['worker'])
command = capabilities.get_mode_command(profile, options.sweep)
cpu_mode.switch(conn, hosts, 'dedicated', command)
os.kill(os.getpid(), signal.SIGKILL)
"""
SECONDS = 1200


class HostModeTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        if not os.environ.get('HVSTACK_LAB'):
            self.skipTest('needs a lab that is up (make test)')
        labs.change(
            self,
            {'dedicated': {}},
            hosts=2,
            compute='qemu',
            host_compute={},
            racks=0,
        )
        self.cloud = connection.connect('hvstack-lab')
        self.addCleanup(self.cloud.close)
        self.profile = host_profiles.load('lab-worker')
        self.hosts = placement.providers(
            self.cloud, self.profile.traits['worker']
        )

    def modes(self) -> set[str]:
        return set(cpu_mode.current(self.cloud, self.hosts).values())

    def test_a_dead_process_left_them_dedicated(self) -> None:
        self.assertEqual({'shared'}, self.modes())
        # So a configuration with dedicated CPUs is none that cannot exist.
        self.assertEqual(
            '',
            capabilities.explain_missing(
                *(self.cloud, 'dedicated', self.profile, parse('i1')),
                conf.load().sweep,
            ),
        )
        done = subprocess.run(
            [sys.executable, '-c', DIES], timeout=SECONDS, check=False
        )
        self.assertEqual(-signal.SIGKILL, done.returncode)
        self.assertEqual({'dedicated'}, self.modes())
        lab_settings = settings.load()
        assert lab_settings
        self.assertEqual(
            set(self.hosts), set(lab_settings.options['dedicated'])
        )
        self.assertIn('host_mode dedicated', recovery.recover([self.cloud]))
        self.assertEqual({'shared'}, self.modes())
        self.assertEqual([], journal.entries())
