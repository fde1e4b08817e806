# SPDX-License-Identifier: Apache-2.0
"""Bare metal in the lab: inside the caps, without Nova, given back."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import fixtures
import openstack
import testtools

from hvstack import shell
from hvstack.cluster import hosts
from hvstack.results import record
from hvstack.results.benchmark import PHASES

HVSTACK = str(Path(sys.executable).with_name('hvstack'))
#: Takes the hosts and waits to be killed.
HOLDER = """
import time
from hvstack.cluster import hosts
def wait(_nodes):
    print('taken', flush=True)
    time.sleep(600)
hosts.daemons.start = wait
hosts.BareHosts.from_file().__enter__()
"""


class BaselineTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        if not os.environ.get('HVSTACK_LAB'):
            self.skipTest('needs a lab that is up (make test)')
        hosts.recover()
        self.cloud = openstack.connect(cloud='hvstack-lab')
        self.addCleanup(self.cloud.close)

    def states(self) -> dict[str, Any]:
        """Return what Nova says of each host's compute service."""
        names = {host.name for host in hosts.read()}
        return {
            one.host: one.state
            for one in self.cloud.compute.services(binary='nova-compute')
            if one.host in names
        }

    def assert_given_back(self) -> None:
        self.assertEqual({'up'}, set(self.states().values()))
        self.assertEqual([], list(hosts.TAKEN.glob('*.json')))
        for host in hosts.read():
            found = shell.run([*host.enter, 'true'], check=False)
            self.assertNotEqual(0, found.returncode, host.name)


class RunTest(BaselineTest):
    def test_run(self) -> None:
        """The command line's run, and what it leaves."""
        folder = self.useFixture(fixtures.TempDir()).path
        words = ['--size', '10MB', '--runs', '1', '--records', folder]
        result = shell.run(
            [HVSTACK, 'baseline', 'run', '-f', 'json', *words], timeout=900
        )
        (shown,) = json.loads(result.stdout)
        (found,) = record.load_all(Path(folder))
        self.assertEqual(found.id, shown['ID'])
        self.assertTrue(found.valid, found.reason)
        self.assertEqual(
            list(PHASES), [phase['name'] for phase in found.phases]
        )
        self.assertEqual(2, found.replication)
        self.assertEqual(0, found.seen['blocks_on_one_host'])
        caps = found.environment['caps']
        for name, share in found.seen['host_cpu_share'].items():
            self.assertLess(share, caps[name]['cpu'] * 1.1)
        self.assert_given_back()


class KilledTest(BaselineTest):
    def test_hosts_of_a_killed_process_are_given_back(self) -> None:
        process = subprocess.Popen(
            [sys.executable, '-c', HOLDER], stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        assert process.stdout is not None
        self.assertEqual('taken\n', process.stdout.readline())
        process.stdout.close()
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assertEqual(
            {host.name for host in hosts.read()}, set(hosts.recover())
        )
        self.assert_given_back()
