# SPDX-License-Identifier: Apache-2.0
"""A power cycle that did not happen is no proof of what a disk keeps."""

import contextlib
import os
from pathlib import Path
from types import SimpleNamespace

import fixtures
import testtools

from hvstack.cluster.ssh import SSHNode
from hvstack.tempest_plugin.tests.tenant import test_disk
from tests.unit.accept.tempestconf import configure

#: Runs the command here, with files of the test's own for the guest's.
SSH = """#!/bin/sh
here=${0%/*}
for command; do :; done
case "$*" in *"-O check"*|*"-O exit"*) exit 0;; esac
sh -c "$(echo "$command" | sed "s,/proc/[^ ]*/\\([a-z_]*\\),$here/\\1,g")"
"""


class PowerCycleTest(testtools.TestCase):
    """What is judged once Nova says that a guest was rebooted."""

    def cycle(self, boot_id: str, start: int, text: str = 'x') -> list[str]:
        """Return the failed checks.

        :param boot_id: of the guest afterwards, ``1`` before.
        :param start: when its PID 1 was started afterwards, 7 before.
        :param text: on its disk afterwards, ``x`` before.
        """
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(
            fixtures.EnvironmentVariable(
                'PATH', f'{directory}:{os.environ["PATH"]}'
            )
        )
        (directory / 'ssh').write_text(SSH)
        (directory / 'ssh').chmod(0o755)

        def boot(boot_id: str, start: int) -> None:
            (directory / 'boot_id').write_text(f'{boot_id}\n')
            fields = ' '.join(map(str, [*range(3, 22), start, 23]))
            (directory / 'stat').write_text(f'1 (init x) {fields}\n')

        def reboot(*_: str, **__: str) -> None:
            boot(boot_id, start)
            (directory / 'disk').write_text(text)

        boot('1', 7)
        configure(self, {'hvstack': {'server_timeout': 0}})
        test = test_disk.DiskTest('test_power_cycle')
        test.check_results = []
        test.servers_client = SimpleNamespace(
            reboot_server=reboot,
            show_server=lambda _: {'server': {'status': 'ACTIVE'}},
        )
        node = SSHNode(
            name='g',
            address='g',
            role='',
            host='',
            directory=directory / 'own',
        )
        commands = (f'printf x >{directory}/disk', f'md5sum <{directory}/disk')
        # The judgements tell more than that one is bad.
        with contextlib.suppress(AssertionError):
            test.check_power_cycle(node, 'id', {'disk': commands})
        return [
            check.subject for check in test.check_results if not check.good
        ]

    def test_virtual_machine(self) -> None:
        self.assertEqual([], self.cycle('2', 7))

    def test_container(self) -> None:
        self.assertEqual([], self.cycle('1', 8))

    def test_lost_bytes(self) -> None:
        self.assertEqual(
            ['disk: checksum after the power cycle'], self.cycle('2', 8, 'y')
        )

    def test_no_reboot(self) -> None:
        self.assertIn('boot after the power cycle', self.cycle('1', 7))


class RoomTest(testtools.TestCase):
    """A guest that no host has room for is not a bad disk."""

    def start(self, message: str) -> None:
        """Start a guest that Nova rejects.

        :param message: fault of the server.
        """
        zone = {'availability_zone': 'az1'}
        configure(self, {'hvstack': {'server_timeout': 0, **zone}})
        test = test_disk.DiskTest('test_power_cycle')
        test.check_results = []
        test.create_key = lambda _: None
        test.worker = lambda: 'hv-worker'
        test.servers_client = SimpleNamespace(
            create_server=lambda availability_zone, **_: {
                'server': {'id': f's-{availability_zone}'}
            },
            show_server=lambda _: {
                'server': {'status': 'ERROR', 'fault': {'message': message}}
            },
        )
        test.os_primary = SimpleNamespace(
            security_groups_client=SimpleNamespace(
                create_security_group=lambda **_: {
                    'security_group': {'id': 'g'}
                },
                delete_security_group=None,
            ),
            security_group_rules_client=SimpleNamespace(
                create_security_group_rule=lambda **_: None
            ),
            ports_client=SimpleNamespace(
                create_port=lambda **_: {'port': {'id': 'p'}},
                delete_port=None,
            ),
            flavors_client=SimpleNamespace(
                list_flavors=lambda: {
                    'flavors': [{'id': 'f', 'name': 'hv-worker'}]
                }
            ),
        )
        test.guest()

    def test_no_room(self) -> None:
        skip = self.assertRaises(
            self.skipException, self.start, 'No valid host was found. '
        )
        self.assertIn('no host has room for a guest of hv-worker', str(skip))

    def test_another_fault(self) -> None:
        self.assertRaises(AssertionError, self.start, 'Build aborted')


class VolumeTest(testtools.TestCase):
    """A volume that Cinder does not create."""

    def make(self, host: str | None, has_admin: bool) -> None:
        """Make it.

        :param host: where Cinder wanted to create it.
        :param has_admin: whether the accounts have an administrator.
        """
        configure(self, {'hvstack': {'server_timeout': 0}})
        manager = SimpleNamespace(
            volumes_client_latest=SimpleNamespace(
                show_volume=lambda _: {
                    'volume': {'os-vol-host-attr:host': host}
                }
            )
        )
        for name, value in (
            (
                'tempest.common.credentials_factory.is_admin_available',
                lambda **_: has_admin,
            ),
            (
                'hvstack.tempest_plugin.tests.tenant.test_disk.DiskTest.'
                'get_client_manager',
                lambda credential_type: manager,
            ),
        ):
            self.useFixture(fixtures.MonkeyPatch(name, value))
        test = test_disk.DiskTest('test_volumes_after_power_cycle')
        test.check_results = []
        test.os_primary = SimpleNamespace(
            volumes_client_latest=SimpleNamespace(
                create_volume=lambda **_: {'volume': {'id': 'v'}},
                show_volume=lambda _: {'volume': {'status': 'error'}},
                delete_volume=None,
                wait_for_resource_deletion=None,
            )
        )
        test.volume('slot-1')

    def test_no_free_disk(self) -> None:
        """A cluster that uses the disks is not a failure of the disks."""
        for host, has_admin in ((None, True), ('h1@one#one', False)):
            skip = self.assertRaises(
                self.skipException, self.make, host, has_admin
            )
            self.assertIn('no disk of slot-1 is free', str(skip))

    def test_a_disk_without_its_volume(self) -> None:
        failure = self.assertRaises(
            AssertionError, self.make, 'h1@one#one', True
        )
        self.assertIn('slot-1: volume on h1@one#one', str(failure))


class ReachTest(testtools.TestCase):
    def test_ssh_configuration(self) -> None:
        """A guest on a tenant network is behind a jump host."""
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        path = directory / 'ssh_config'
        path.write_text('Host 10.*\n    ProxyJump jump\n')
        for configured, expected in (
            ({}, '/dev/null'),
            ({'ssh_config': str(path)}, str(path)),
        ):
            configure(self, {'hvstack': configured})
            test = test_disk.DiskTest('test_power_cycle')
            test.key = directory / 'key'
            node = test.reach('g', '10.0.0.9', 'ssh-ed25519 A')
            self.assertEqual(['-F', expected], node.options()[:2])
            self.assertEqual(
                '10.0.0.9 ssh-ed25519 A\n', node.host_key_file.read_text()
            )


class HostKeyTest(testtools.TestCase):
    """Which key the test expects of its guest."""

    KEY = f'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{"A" * 43}'
    CONSOLE = (
        f'-----BEGIN SSH HOST KEY KEYS-----\n{KEY}\n'
        '-----END SSH HOST KEY KEYS-----\n'
    )

    def host_key(self, password: str, console: str) -> str:
        """Return the key for what Nova shows of the server."""
        configure(self, {'hvstack': {'server_timeout': 0}})
        test = test_disk.DiskTest('test_power_cycle')
        test.check_results = []
        test.servers_client = SimpleNamespace(
            show_password=lambda _: {'password': password},
            get_console_output=lambda _: {'output': console},
        )
        return test.wait_for_host_key('id')

    def test_metadata_service(self) -> None:
        self.assertEqual(self.KEY, self.host_key(self.KEY, ''))

    def test_console(self) -> None:
        self.assertEqual(self.KEY, self.host_key('', self.CONSOLE))

    def test_another_line(self) -> None:
        text = f'{self.KEY}\n10.0.0.9 {self.KEY}'
        self.assertRaises(self.skipException, self.host_key, text, '')

    def test_no_key(self) -> None:
        self.assertRaises(self.skipException, self.host_key, '', 'booted')
