# SPDX-License-Identifier: Apache-2.0
"""A host without power lets go of its guests' disks. The lab is up."""

from hvstack import processutils
from hvstack.lab.hosts import cgroups
from tests.functional.test_hosts import HVSTACK, LAST, HostsTest


class PowerCutTest(HostsTest):
    def test_disk_is_let_go_after_a_power_cut(self) -> None:
        server = self.active(self.start(self.flavor(), LAST))
        self.answers(server)
        with_guest = self.devices()
        self.assertEqual(1, len(with_guest))
        processutils.run([HVSTACK, 'lab', 'host', 'off', LAST], timeout=60)
        self.assertEqual([], self.devices())
        self.assertFalse(cgroups.exists(LAST))
        self.assertEqual('up', self.service('hv-host2'))
        processutils.wait_for(
            lambda: self.service(LAST) == 'down', 'Nova to miss it', timeout=60
        )
        done = processutils.run(
            [HVSTACK, 'lab', 'host', 'exec', LAST, 'true'], check=False
        )
        self.assertNotEqual(0, done.returncode)
        self.assertIn('lab host on', done.stderr)
        processutils.run([HVSTACK, 'lab', 'host', 'on', LAST], timeout=300)
        self.assertEqual('up', self.service(LAST))
        self.answers(server)
        self.assertEqual(1, len(self.devices()))
        self.delete(server)
        self.assertEqual([], self.devices())

    def devices(self) -> list[str]:
        """Return the loop devices of the last host's guests."""
        output = processutils.run(['losetup', '-n', '-O', 'BACK-FILE']).stdout
        return [line for line in output.splitlines() if self.mine(line)]

    def mine(self, file: str) -> bool:
        """Tell whether a loop device's file is on the last host."""
        return f'/{LAST}/' in file
