# SPDX-License-Identifier: Apache-2.0
"""Bare metal in the lab: inside the caps, without Nova, released."""

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

from hvstack import processutils
from hvstack.cluster import acquired_hosts, baseline_hosts
from hvstack.results import record
from hvstack.results.benchmark import PHASES

HVSTACK = str(Path(sys.executable).with_name('hvstack'))
#: Takes the hosts and waits to be killed.
HOLDER = """
import time
from hvstack.cluster import acquired_hosts, bare_metal, baseline_hosts
def wait(*_):
    print('taken', flush=True)
    time.sleep(600)
bare_metal.daemons.start = wait
bare_metal.BareHosts.from_file(tuning='lab').__enter__()
"""


class BaselineTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        if not os.environ.get('HVSTACK_LAB'):
            self.skipTest('needs a lab that is up (make test)')
        acquired_hosts.recover()
        self.cloud = openstack.connect(cloud='hvstack-lab')
        self.addCleanup(self.cloud.close)

    def states(self) -> dict[str, Any]:
        """Return the state of each host's compute service in Nova."""
        names = {host.name for host in baseline_hosts.read()}
        return {
            service.host: service.state
            for service in self.cloud.compute.services(binary='nova-compute')
            if service.host in names
        }

    def assert_given_back(self) -> None:
        self.assertEqual({'up'}, set(self.states().values()))
        self.assertEqual(
            [], list(acquired_hosts.ACQUIRED_HOSTS_DIR.glob('*.json'))
        )
        for host in baseline_hosts.read():
            done = processutils.run([*host.enter, 'true'], check=False)
            self.assertNotEqual(0, done.returncode, host.name)


class RunTest(BaselineTest):
    def test_run(self) -> None:
        """The command line's run, and what it leaves."""
        directory = self.useFixture(fixtures.TempDir()).path
        args = ['--size', '10MB', '--runs', '1', '--records', directory]
        result = processutils.run(
            [HVSTACK, 'baseline', 'run', '-f', 'json', *args], timeout=900
        )
        (row,) = json.loads(result.stdout)
        (run_record,) = record.load_all(Path(directory))
        self.assertEqual(run_record.id, row['ID'])
        self.assertTrue(run_record.valid, run_record.reason)
        self.assertEqual(
            list(PHASES), [phase.name for phase in run_record.phases]
        )
        self.assertEqual(2, run_record.replication)
        facts = run_record.observations.facts
        self.assertEqual(0, facts['blocks_on_one_host'])
        caps = run_record.sut.caps
        for name, share in facts['host_cpu_share'].items():
            self.assertLess(share, caps[name].cpu * 1.1)
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
            {host.name for host in baseline_hosts.read()},
            set(acquired_hosts.recover()),
        )
        self.assert_given_back()
