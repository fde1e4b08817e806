# SPDX-License-Identifier: Apache-2.0
"""``hvstack image upload``: which build goes where."""

import types
from pathlib import Path
from typing import Any

import fixtures
import testtools

from tests.unit.cli.runner import run_command
from tests.unit.cloud import fake


class UploadTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fake.CloudsFile('mine', 'hvstack-lab'))
        self.useFixture(fake.FakeCloud())
        host = types.SimpleNamespace(backend='lxc')
        for name, value in (
            ('images.build', self.build),
            ('images.upload', self.upload),
            ('settings.load', lambda: None),
            ('hosts.planned', lambda _: [host]),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.lab.{name}', value))
        self.built: list[list[str]] = []
        self.names: list[str] = []
        self.uploaded: list[str] = []

    def build(self, name: str, _: Any, *, outputs: list[str]) -> str:
        self.built.append(outputs)
        self.names.append(name)
        return name

    def upload(
        self,
        _: Any,
        image: Any,
        output: str,
        *,
        visibility: str,
        title: str = '',
        properties: dict[str, str] | None = None,
    ) -> str:
        self.uploaded.append(output)
        self.visibility = visibility
        self.title, self.properties = title, properties or {}
        return f'id-of-{getattr(image, "name", image)}'

    def call(self, *args: str, status: int = 0) -> str:
        """Return the standard output, or the errors if they are expected."""
        actual, out, err = run_command('image', 'upload', *args)
        self.assertEqual(status, actual, err)
        return err if status else out

    def test_machines_for_a_cloud_of_ones_own(self) -> None:
        self.assertEqual('id-of-hadoop\n', self.call('--os-cloud', 'mine'))
        self.assertEqual(['qemu'], self.uploaded)
        # Bare metal's build comes with it.
        self.assertEqual([['lxc', 'qemu']], self.built)

    def test_what_the_labs_hosts_take(self) -> None:
        self.call('--os-cloud', 'hvstack-lab')
        self.assertEqual((['lxc'], [['lxc']]), (self.uploaded, self.built))

    def test_what_is_asked_for(self) -> None:
        self.call('--os-cloud', 'hvstack-lab', '--output', 'qemu')
        self.assertEqual(['qemu'], self.uploaded)
        self.assertEqual('public', self.visibility)
        self.call('--os-cloud', 'mine', '--visibility', 'private')
        self.assertEqual('private', self.visibility)

    def test_kernel_for_physical_machines(self) -> None:
        args = ('--os-cloud', 'mine', '--kernel', 'hardware')
        self.assertEqual('id-of-hadoop-hardware\n', self.call(*args))
        self.assertEqual((['qemu'], [['qemu']]), (self.uploaded, self.built))
        message = self.call(*args, '--output', 'lxc', status=2)
        self.assertIn('only the output qemu contains a kernel', message)
        self.call('--os-cloud', 'mine', '--kernel', 'cloud')
        self.assertEqual(['hadoop-hardware', 'hadoop'], self.names)

    def test_disk_of_the_operator(self) -> None:
        disk = Path(self.useFixture(fixtures.TempDir()).path) / 'disk.qcow2'
        disk.write_bytes(b'QFI\xfb' + bytes(60))
        args = ['--os-cloud', 'mine', '--disk', str(disk)]
        self.assertIn('Set --name', self.call(*args, status=2))
        args += ['--name', 'hvstack-ubuntu']
        self.assertEqual('id-of-disk\n', self.call(*args))
        self.assertNotIn('hw_firmware_type', self.properties)
        self.assertEqual('debian', self.properties['os_distro'])
        self.call(
            *(*args, '--firmware', 'uefi', '--os-distro', 'ubuntu'),
            *('--os-version', '24.04'),
        )
        self.assertEqual('hvstack-ubuntu', self.title)
        self.assertEqual(
            {
                'architecture': 'x86_64',
                'os_distro': 'ubuntu',
                'os_version': '24.04',
                'hw_firmware_type': 'uefi',
                'hw_machine_type': 'q35',
            },
            self.properties,
        )
        self.assertEqual([], self.built)
        self.assertIn('lxc', self.call(*args, '--output', 'lxc', status=2))
        message = self.call(*args, '--kernel', 'hardware', status=2)
        self.assertIn('its own kernel', message)

    def test_file_that_is_not_a_disk(self) -> None:
        disk = Path(self.useFixture(fixtures.TempDir()).path) / 'disk.raw'
        args = ('--os-cloud', 'mine', '--disk', str(disk), '--name', 'x')
        self.assertIn('No such file', self.call(*args, status=2))
        disk.write_bytes(bytes(64))
        self.assertIn('qemu-img convert', self.call(*args, status=2))
        self.assertEqual([], self.uploaded)

    def test_options_of_a_disk_require_it(self) -> None:
        for args in (('--firmware', 'uefi'), ('--name', 'x')):
            message = self.call('--os-cloud', 'mine', *args, status=2)
            self.assertIn('Set --disk', message)
        self.assertEqual([], self.uploaded)


class BuildTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.builds: list[tuple[str, list[str]]] = []
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.lab.images.build', self.build)
        )

    def build(
        self, name: str, _: Any, *, outputs: list[str], **options: Any
    ) -> Any:
        self.builds.append((name, outputs))
        return types.SimpleNamespace(outputs={})

    def call(self, *args: str, status: int = 0) -> str:
        actual, _, err = run_command('image', 'build', *args)
        self.assertEqual(status, actual, err)
        return err

    def test_default(self) -> None:
        self.call()
        self.assertEqual([('hadoop', ['lxc']), ('tiny', ['lxc'])], self.builds)

    def test_kernel_for_physical_machines(self) -> None:
        self.call('--kernel', 'hardware')
        self.call('hadoop', '--kernel', 'hardware', '--output', 'qemu')
        self.assertEqual([('hadoop-hardware', ['qemu'])] * 2, self.builds)
        message = self.call('tiny', '--kernel', 'hardware', status=2)
        self.assertIn("image 'tiny' with --kernel hardware", message)
        message = self.call(
            'hadoop', '--kernel', 'hardware', '--output', 'lxc', status=2
        )
        self.assertIn('only the output qemu contains a kernel', message)


class ElementsTest(testtools.TestCase):
    def test_path_contains_the_element(self) -> None:
        status, out, err = run_command('image', 'elements')
        self.assertEqual(0, status, err)
        directory = Path(out.strip())
        self.assertTrue((directory / 'hvstack-hadoop/element-deps').is_file())


class ExportTest(testtools.TestCase):
    def test_prints_the_digest(self) -> None:
        calls: list[Any] = []

        def export(target: Path, _: Any, **options: Any) -> str:
            calls.append((target, options))
            return 'a' * 64

        self.useFixture(
            fixtures.MonkeyPatch('hvstack.lab.images.export', export)
        )
        status, out, _ = run_command(
            *('image', 'export', '/srv/files.tar', '--maven')
        )
        self.assertEqual((0, 'a' * 64 + '\n'), (status, out))
        self.assertEqual(
            [(Path('/srv/files.tar'), {'tarball': None, 'maven': True})], calls
        )
