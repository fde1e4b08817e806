# SPDX-License-Identifier: Apache-2.0
"""A host with emulated guests beside lxc ones. The lab is up."""

import sys
from pathlib import Path
from typing import Any

from hvstack import shell
from hvstack.lab import hosts, images, settings
from hvstack.lab.hosts import cgroups
from tests.functional.test_hosts import LAST, HostsTest

HVSTACK = str(Path(sys.executable).with_name('hvstack'))


class QemuHostTest(HostsTest):
    def setUp(self) -> None:
        super().setUp()
        wanted = settings.load() or settings.LabSettings()
        self.before = wanted.host_compute.get(LAST, wanted.compute)
        self.image = images.upload(
            self.cloud,
            images.build('tiny', outputs=['lxc', 'qemu']),
            'qemu',
            title='hvstack-tiny-vm',
        )
        self.addCleanup(self.lab_up, self.before, '--dedicated', f'{LAST}=')
        self.lab_up('qemu', '--dedicated', f'{LAST}=1')

    def lab_up(self, backend: str, *more: str) -> None:
        """Give the last host a backend."""
        shell.run(
            [
                *(HVSTACK, 'lab', 'up', '--host-compute'),
                *(f'{LAST}={backend}', *more),
            ],
            timeout=400,
        )

    def emulators(self) -> dict[str, int]:
        """Return pids of emulators in the last host by instance name."""
        found = {}
        for pid in cgroups.members(LAST):
            words = Path(f'/proc/{pid}/cmdline').read_bytes().split(b'\0')
            for word in words:
                if word.startswith(b'guest='):
                    name = word.partition(b'=')[2].partition(b',')[0]
                    found[name.decode()] = pid
        return found

    def threads_on(self, pid: int) -> set[str]:
        """Return the CPUs that a process' threads may run on."""
        return {
            line.split()[1]
            for status in Path(f'/proc/{pid}/task').glob('*/status')
            for line in status.read_text().splitlines()
            if line.startswith('Cpus_allowed_list:')
        }

    def test_dedicated_and_shared_cpus(self) -> None:
        shown = {one.name: one for one in hosts.planned(self.settings())}
        self.assertEqual('qemu', shown[LAST].backend)
        shared = self.flavor('-shared')
        pinned = self.flavor('-pinned', **{'hw:cpu_policy': 'dedicated'})
        first = self.active(self.start(shared, LAST, self.image))
        second = self.active(self.start(pinned, LAST, self.image))
        emulators = self.emulators()
        self.assertEqual(
            {'0'}, self.threads_on(emulators[first.instance_name])
        )
        self.assertEqual(
            {'1'}, self.threads_on(emulators[second.instance_name])
        )
        self.answers(first, 180)
        self.answers(second, 180)
        self.wait(second, 'hostname', self.name)

    def settings(self) -> Any:
        """Return the lab's settings."""
        return settings.load() or settings.LabSettings()
