# SPDX-License-Identifier: Apache-2.0
"""Volumes on known disks of Ceph's, in an emulated guest. The lab is up."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import openstack

from hvstack import errors, processutils
from hvstack.lab import (
    ceph,
    clouds_yaml,
    hosts,
    images,
    pools,
    process_cgroup,
    settings,
)
from tests.functional.test_hosts import HostsTest
from tests.long import labs

HVSTACK = str(Path(sys.executable).with_name('hvstack'))
#: The volume's slot, and the number of its disk.
SLOT, DISK = 'disk-slot-2', 1
#: What the guest writes, in MiB.
WRITTEN = 48
#: The image's own check of a data disk: a file system on a blank one, a file
#: written and read back, the one of before compared.
CHECK = (
    'HVSTACK_MACHINE=1 /usr/lib/hvstack/after-boot >/dev/null; '
    'cat /run/hvstack/data-disk'
)

STACK = """
heat_template_version: wallaby
resources:
  server:
    type: OS::Nova::Server
    properties:
      image: {image}
      flavor: {flavor}
      availability_zone: nova:{host}
      networks: [{{network: provider}}]
  first:
    type: OS::Cinder::Volume
    properties: &volume
      name: {{get_param: OS::stack_name}}
      size: 1
      volume_type: disk-slot-1
      scheduler_hints: {{local_to_instance: {{get_resource: server}}}}
  second:
    type: OS::Cinder::Volume
    properties: {{<<: *volume, volume_type: disk-slot-3}}
  first_attached:
    type: OS::Cinder::VolumeAttachment
    properties:
      instance_uuid: {{get_resource: server}}
      volume_id: {{get_resource: first}}
  second_attached:
    type: OS::Cinder::VolumeAttachment
    properties:
      instance_uuid: {{get_resource: server}}
      volume_id: {{get_resource: second}}
"""


class CephTest(HostsTest):
    def setUp(self) -> None:
        super().setUp()
        self.image = images.upload(
            self.cloud,
            images.build('tiny', outputs=['lxc', 'qemu']),
            'qemu',
            title='hvstack-tiny-vm',
        )
        labs.emulated(self, ceph=True)
        # With Cinder in its catalogue.
        self.cloud = openstack.connect(cloud=clouds_yaml.ADMIN_CLOUD)
        self.addCleanup(self.cloud.close)

    def lab_up(self, *args: str) -> None:
        """Change the lab."""
        processutils.run([HVSTACK, 'lab', 'up', *args], timeout=600)

    def emulated(self) -> str:
        """Return a host with emulated guests."""
        lab_settings = settings.load() or settings.LabSettings()
        return next(
            size.name
            for size in reversed(hosts.planned(lab_settings))
            if size.backend != 'lxc'
        )

    def volume(self, volume_type: str) -> Any:
        """Return a volume of 1 GiB."""
        storage = self.cloud.block_storage
        volume = storage.create_volume(
            name=self.name, size=1, volume_type=volume_type
        )
        self.addCleanup(self.remove, volume)
        return storage.wait_for_status(volume, 'available', wait=60)

    def remove(self, volume: Any) -> None:
        """Delete a volume, and wait until it is gone."""
        self.cloud.block_storage.delete_volume(volume)
        self.cloud.block_storage.wait_for_delete(volume, wait=60)

    def attached(self, server: Any, volume: Any) -> None:
        """Give a server a volume, and wait until it has it."""
        self.cloud.compute.create_volume_attachment(server, volume=volume)
        self.cloud.block_storage.wait_for_status(volume, 'in-use', wait=60)

    def with_volume(self, volume: Any) -> Any:
        """Return an emulated server with a volume that it has written."""
        server = self.active(
            self.start(self.flavor(), self.emulated(), self.image)
        )
        self.wait(server, 'hostname', self.name)
        self.attached(server, volume)
        self.wait(server, 'cat /proc/partitions', 'vdb')
        self.wait(server, CHECK, 'ok new 2097152')
        return server

    def images_in(self, pool: str) -> list[str]:
        """Return the RBD images of a pool."""
        conf = str(settings.LAB / 'etc' / 'ceph' / 'ceph.conf')
        out = processutils.run(['rbd', '--conf', conf, 'ls', pool]).stdout
        return out.split()

    def used(self) -> list[int]:
        """Return each disk's data in MiB, as Ceph reports it."""
        usage = json.loads(ceph.ceph('osd', 'df', '--format', 'json'))
        return [node['kb_used_data'] // 1024 for node in usage['nodes']]

    def test_volume_is_on_its_disk_only(self) -> None:
        volume = self.volume(SLOT)
        name = f'volume-{volume.id}'
        holders = [p for p in labs.POOLS if name in self.images_in(p)]
        self.assertEqual([SLOT], holders)
        groups = json.loads(
            ceph.ceph('pg', 'ls-by-pool', SLOT, '--format', 'json')
        )['pg_stats']
        self.assertEqual({(DISK,)}, {tuple(pg['acting']) for pg in groups})

        before = self.used()
        server = self.with_volume(volume)
        self.ssh(
            server,
            f'dd if=/dev/urandom of=/srv/data/much bs=1M count={WRITTEN}; '
            'umount /srv/data',
        )
        processutils.wait_for(
            lambda: self.used()[DISK] - before[DISK] >= WRITTEN,
            f'disk {DISK} to hold what was written',
            timeout=90,
            get_reason=lambda: f'MiB before {before}, now {self.used()}',
        )
        for index, (old, new) in enumerate(
            zip(before, self.used(), strict=True)
        ):
            if index != DISK:
                self.assertLess(new - old, WRITTEN // 4, index)

        # Not from under a server; refused, and nothing is changed.
        exc = self.assertRaises(
            errors.CommandError, self.lab_up, '--without', 'ceph'
        )
        self.assertIn(volume.id, str(exc))
        self.lab_up()
        self.wait(server, CHECK, 'ok kept 2097152')

    def test_layouts_of_the_studies(self) -> None:
        labs.change(self, ceph_layouts=settings.CEPH_LAYOUTS)
        lab_settings = settings.load()
        assert lab_settings is not None
        for pool in pools.list_pools(lab_settings):
            groups = json.loads(
                ceph.ceph('pg', 'ls-by-pool', pool.name, '--format', 'json')
            )['pg_stats']
            disks = [placed['acting'] for placed in groups]
            for numbers in disks:
                self.assertEqual(pool.copies, len(set(numbers)), pool.name)
            if pool.host:
                own = int(pool.host.removeprefix('hv-host')) - 1
                self.assertEqual({own}, {numbers[0] for numbers in disks})
            elif pool.name.startswith('ceph-groups-'):
                count = int(pool.name[-1])
                self.assertLessEqual(set().union(*disks), set(range(count)))
        volume = self.volume('ceph-groups-3')
        self.assertIn(f'volume-{volume.id}', self.images_in('ceph-groups-3'))

    def test_content_outlives_kills_and_a_power_cut(self) -> None:
        volume = self.volume(SLOT)
        server = self.with_volume(volume)
        where = self.emulated()
        self.ssh(server, 'umount /srv/data')
        for pid in process_cgroup.members():
            os.kill(pid, signal.SIGKILL)
        self.lab_up()
        self.wait(server, CHECK, 'ok kept 2097152')
        for word in ('off', 'on'):
            processutils.run(
                [HVSTACK, 'lab', 'host', word, where], timeout=300
            )
        # It was mounted: the guest's own start checks it.
        self.wait(server, 'cat /run/hvstack/data-disk', 'ok kept 2097152')

    def test_stack_has_a_volume_on_each_of_two_disks(self) -> None:
        slots = pools.SLOTS[0], pools.SLOTS[2]
        file = self.temp_dir / 'stack.yaml'
        file.write_text(
            STACK.format(
                image=self.image,
                flavor=self.flavor().name,
                host=self.emulated(),
            )
        )
        self.cloud.create_stack(
            self.name, template_file=str(file), wait=True, timeout=300
        )
        try:
            volumes_by_type = {
                volume.volume_type: volume
                for volume in self.cloud.block_storage.volumes()
                if volume.name.startswith(self.name)
            }
            self.assertEqual(set(slots), set(volumes_by_type))
            for slot, volume in volumes_by_type.items():
                self.assertEqual('in-use', volume.status)
                self.assertIn(f'volume-{volume.id}', self.images_in(slot))
        finally:
            self.cloud.delete_stack(self.name, wait=True)
        for slot in slots:
            self.assertEqual([], self.images_in(slot))

    def test_member_makes_volumes_over_all_disks(self) -> None:
        self.cloud = openstack.connect(cloud='hvstack-lab-member')
        self.addCleanup(self.cloud.close)
        volume = self.volume(pools.SHARED_POOL)
        self.assertIn(f'volume-{volume.id}', self.images_in(pools.SHARED_POOL))
