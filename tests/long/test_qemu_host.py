# SPDX-License-Identifier: Apache-2.0
"""A host with emulated guests beside lxc ones. The lab is up."""

import time
from pathlib import Path
from typing import Any

import testtools

from hvstack import processutils
from hvstack.cluster.sampler import Sampler, source
from hvstack.cluster.ssh import SSHNode
from hvstack.lab import hosts, images, settings
from hvstack.lab.hosts import cgroups
from hvstack.report import findings, sweep_report
from hvstack.results import telemetry
from tests.functional.test_hosts import LAST, HostsTest
from tests.long import labs
from tests.unit.results.factory import run

#: Until an emulated guest with Debian answers, in seconds.
BOOT_SECONDS = 900
#: For how long disks are written, and past the page cache.
WRITE_SECONDS = 40
WRITE = (
    f'timeout {WRITE_SECONDS} sh -c "while dd if=/dev/zero of=/root/x bs=1M '
    'count=64 oflag=direct conv=notrunc 2>/dev/null; do :; done"; rm /root/x'
)


class QemuTest(HostsTest):
    """Has the last host emulate its guests.

    :cvar dedicated: its CPUs for pinned guests.
    :cvar image_name: the image that its guests boot.
    """

    dedicated = ''
    image_name = 'tiny'

    def setUp(self) -> None:
        super().setUp()
        self.image = images.upload(
            self.cloud,
            images.build(self.image_name, outputs=['lxc', 'qemu']),
            'qemu',
            title=f'hvstack-{self.image_name}-vm',
        )
        labs.emulated(self, self.dedicated)


class QemuHostTest(QemuTest):
    dedicated = '1'

    def emulators(self) -> dict[str, int]:
        """Return pids of emulators in the last host by instance name."""
        emulator_pids = {}
        for pid in cgroups.members(LAST):
            args = Path(f'/proc/{pid}/cmdline').read_bytes().split(b'\0')
            for word in args:
                if word.startswith(b'guest='):
                    name = word.partition(b'=')[2].partition(b',')[0]
                    emulator_pids[name.decode()] = pid
        return emulator_pids

    def threads_on(self, pid: int) -> set[str]:
        """Return the CPUs that a process' threads may run on."""
        return {
            line.split()[1]
            for status in Path(f'/proc/{pid}/task').glob('*/status')
            for line in status.read_text().splitlines()
            if line.startswith('Cpus_allowed_list:')
        }

    def test_dedicated_and_shared_cpus(self) -> None:
        sizes_by_name = {
            size.name: size for size in hosts.planned(self.settings())
        }
        self.assertEqual('qemu', sizes_by_name[LAST].backend)
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

    def test_subnet_without_dhcp(self) -> None:
        """The guest takes its address and its key from a config drive."""
        network = self.cloud.network.find_network('provider')
        [subnet_id] = network.subnet_ids
        subnet = self.cloud.network.get_subnet(subnet_id)
        self.addCleanup(
            self.cloud.network.update_subnet, subnet, is_dhcp_enabled=True
        )
        self.cloud.network.update_subnet(subnet, is_dhcp_enabled=False)
        self.cloud.image.update_image(self.image, img_config_drive='mandatory')
        server = self.active(
            self.start(self.flavor('-static'), LAST, self.image)
        )
        self.answers(server, 180)
        self.wait(server, 'hostname', self.name)
        self.wait(
            server,
            'ip route show',
            f'default via {subnet.gateway_ip}',
        )

    def settings(self) -> Any:
        """Return the lab's settings."""
        return settings.load() or settings.LabSettings()


class SlowDiskTest(QemuTest):
    """A disk that Nova throttles is found from what the guests' sysstat saw.

    No Hadoop: the same telemetry, around writes past the page cache.
    """

    image_name = 'hadoop'

    def node(self, suffix: str, **specs: str) -> SSHNode:
        """Return a guest with a disk as its flavor's extra specs say."""
        flavor = self.flavor(suffix, ram=768, disk=3, **specs)
        server = self.active(self.start(flavor, LAST, self.image))
        return SSHNode(
            name=f'worker{suffix}',
            address=self.address(server),
            role='worker',
            host=server.host_id,
            key=self.temp_dir / 'key',
            directory=self.temp_dir / suffix,
        )

    def test_throttled_disk_is_found(self) -> None:
        nodes = [
            self.node('-fast'),
            self.node('-slow', **{'quota:disk_write_bytes_sec': '2000000'}),
        ]
        for node in nodes:
            self.addCleanup(node.close)
            processutils.wait_for(
                lambda guest=node: (
                    guest.run('true', timeout=60, check=False).returncode == 0
                ),
                f'{node.name} to answer ssh',
                timeout=BOOT_SECONDS,
            )
        sampler = Sampler(nodes, source({'backend': 'qemu'}), 5)
        started_at = time.time()
        sampler.start()
        for node in nodes:
            # One after the other: below them is one disk.
            node.run(WRITE, timeout=3 * WRITE_SECONDS)
        node_telemetry = sampler.collect(
            started_at, {'HSGen': (started_at, time.time())}
        )
        summary = telemetry.summarize(node_telemetry)
        self.addDetail('seen', testtools.content.text_content(str(summary)))
        self.assertEqual([], node_telemetry.gaps)
        record = run(
            'i1', 0, 100, backend='qemu', observations={'telemetry': summary}
        )
        slow = [
            finding.evidence
            for finding in findings.list_findings(
                sweep_report.build_report([record])
            )
            if finding.title == 'slow disk'
        ]
        self.assertEqual(1, len(slow), summary)
        self.assertIn('of worker-slow moved', slow[0])
