# SPDX-License-Identifier: Apache-2.0
"""Guest images as Nova's guests. The lab is up."""

import base64
import os
import uuid
from pathlib import Path
from typing import Any

import fixtures
import openstack
import testtools

from hvstack import processutils
from hvstack.lab import images

TRAIT = {'trait:CUSTOM_HVSTACK_LAB_WORKER': 'required'}


class GuestTest(testtools.TestCase):
    """Gives a test servers of its own, and takes them away."""

    def setUp(self) -> None:
        super().setUp()
        if not os.environ.get('HVSTACK_LAB'):
            self.skipTest('needs a lab that is up (make test)')
        self.cloud = openstack.connect(cloud='hvstack-lab')
        self.addCleanup(self.cloud.close)
        self.temp_dir = Path(self.useFixture(fixtures.TempDir()).path)
        self.name = f'hv-test-{uuid.uuid4().hex[:8]}'
        key = self.temp_dir / 'key'
        processutils.run(
            ['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', key]
        )
        self.cloud.compute.create_keypair(
            name=self.name, public_key=key.with_suffix('.pub').read_text()
        )
        self.addCleanup(self.cloud.compute.delete_keypair, self.name)

    def boot(
        self, image_name: str, ram: int, disk: int, user_data: str
    ) -> Any:
        """Return a running server of an image."""
        image = images.upload(self.cloud, images.build(image_name), 'lxc')
        flavor = self.cloud.compute.create_flavor(
            name=self.name, vcpus=1, ram=ram, disk=disk
        )
        self.addCleanup(self.cloud.compute.delete_flavor, flavor)
        self.cloud.compute.create_flavor_extra_specs(flavor, TRAIT)
        network = self.cloud.network.find_network('provider')
        server = self.cloud.compute.create_server(
            name=self.name,
            image_id=image,
            flavor_id=flavor.id,
            networks=[{'uuid': network.id}],
            key_name=self.name,
            user_data=base64.b64encode(user_data.encode()).decode(),
        )
        self.addCleanup(self.delete, server)
        try:
            return self.cloud.compute.wait_for_server(server, wait=120)
        except openstack.exceptions.ResourceFailure:
            self.fail(str(self.cloud.compute.get_server(server).fault))

    def delete(self, server: Any) -> None:
        """Delete a server, and wait until it is gone."""
        self.cloud.compute.delete_server(server)
        self.cloud.compute.wait_for_delete(server, wait=60)

    def address(self, server: Any) -> str:
        """Return a server's only address."""
        (address,) = (
            entry['addr']
            for entries in server.addresses.values()
            for entry in entries
        )
        return str(address)

    def ssh(
        self, server: Any, command: str, address: str = ''
    ) -> processutils.Result:
        """Run a command in a guest.

        :param address: address to use; by default the server's only one.
        """
        address = address or self.address(server)
        options = (
            *('-o', 'BatchMode=yes', '-o', 'ConnectTimeout=3'),
            *('-o', 'StrictHostKeyChecking=no', '-o', 'LogLevel=ERROR'),
            *('-o', 'UserKnownHostsFile=/dev/null'),
        )
        key = str(self.temp_dir / 'key')
        return processutils.run(
            ['ssh', '-i', key, *options, f'root@{address}', command],
            timeout=60,
        )

    def wait(
        self, server: Any, command: str, expected: str, address: str = ''
    ) -> str:
        """Wait until a command in a guest succeeds with a text in it."""
        out = ''

        def is_printed() -> bool:
            nonlocal out
            out = self.ssh(server, command, address).stdout
            return expected in out

        processutils.wait_for(
            is_printed, f"'{expected}' from the guest", timeout=120
        )
        return out

    def reboot(self, server: Any) -> None:
        """Restart a guest softly, and wait until it is another boot."""
        mark = '/run/hvstack/before'
        self.ssh(server, f'touch {mark}')
        self.cloud.compute.reboot_server(server, 'SOFT')
        self.wait(server, f'[ -e {mark} ] || echo blank', 'blank')


class TinyTest(GuestTest):
    def test_name_key_and_user_data_once(self) -> None:
        server = self.boot(
            'tiny', 64, 1, '#!/bin/sh\necho "ran $(hostname)" >>/root/ran\n'
        )
        self.wait(server, 'cat /root/ran', f'ran {self.name}')
        self.reboot(server)
        self.wait(server, 'cat /var/log/boot.log', 'going down')
        out = self.wait(server, 'tail -n 1 /var/log/boot.log', 'ready')
        self.assertIn('ready', out)
        ran = self.ssh(server, 'cat /root/ran; hostname').stdout
        self.assertEqual(f'ran {self.name}\n{self.name}\n', ran)
