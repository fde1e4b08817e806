# SPDX-License-Identifier: Apache-2.0
"""The control plane survives kills and full disks.

The test is slow: it stops and starts the control plane several times. The lab
is up before and after it.
"""

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import openstack
import testtools

from hvstack import paths, pid_files, processutils
from hvstack.lab import control_plane, process_cgroup, services, supervisord

HVSTACK = str(Path(sys.executable).with_name('hvstack'))


class KillTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        if not os.environ.get('HVSTACK_LAB'):
            self.skipTest('needs a lab that is up (make test-long)')
        # Whatever a test leaves, the next one finds a lab.
        self.addCleanup(self.lab, 'up')
        self.name = f'hv-test-{uuid.uuid4().hex[:8]}'
        cloud = openstack.connect(cloud='hvstack-lab-member')
        cloud.compute.create_server_group(
            name=self.name, policy='anti-affinity'
        )
        cloud.close()

    def lab(self, *args: str) -> None:
        processutils.run([HVSTACK, 'lab', *args], timeout=600)

    def assertAllIsWell(self) -> None:
        """Everything answers, and the data is that of before."""
        for service in services.everything():
            self.assertTrue(control_plane.api_answers(service), service.name)
        cloud = openstack.connect(cloud='hvstack-lab-member')
        self.addCleanup(cloud.close)
        group = cloud.compute.find_server_group(self.name)
        self.assertIsNotNone(group)
        cloud.compute.delete_server_group(group)

    def test_down_keeps_data_and_leaves_no_process(self) -> None:
        self.lab('down')
        self.assertEqual(set(), process_cgroup.members())
        self.assertFalse(supervisord.alive())
        self.lab('down')
        self.lab('up')
        self.assertAllIsWell()

    def test_supervisor_killed(self) -> None:
        pid = pid_files.read(paths.RUN / 'supervisord.pid.json')
        assert pid
        os.kill(pid, signal.SIGKILL)
        processutils.wait_for(
            lambda: not supervisord.alive(), 'its end', timeout=10
        )
        orphans = process_cgroup.members()
        self.assertNotEqual(set(), orphans)
        self.lab('up')
        self.assertEqual(set(), orphans & process_cgroup.members())
        self.assertAllIsWell()

    def test_everything_killed_at_once(self) -> None:
        for pid in process_cgroup.members():
            os.kill(pid, signal.SIGKILL)
        self.lab('up')
        self.assertAllIsWell()

    def test_start_killed_again_and_again(self) -> None:
        self.lab('down')
        for seconds in (1, 3, 6, 9):
            with subprocess.Popen(
                [HVSTACK, 'lab', 'up'],
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            ) as process:
                time.sleep(seconds)
                process.kill()
        self.lab('up')
        self.assertAllIsWell()

    def test_down_after_a_killed_start(self) -> None:
        self.lab('down')
        with subprocess.Popen(
            [HVSTACK, 'lab', 'up'],
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            time.sleep(4)
            process.kill()
        self.lab('down')
        self.assertEqual(set(), process_cgroup.members())
        self.lab('up')
        self.assertAllIsWell()
