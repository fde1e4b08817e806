# SPDX-License-Identifier: Apache-2.0
"""Test what local volumes need of a kernel, with a root of the test's."""

from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors
from hvstack.lab import kernel_modules

FILES = {name: file for name, _, file in kernel_modules.PARTS}


class KernelModulesTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.root = Path(self.useFixture(fixtures.TempDir()).path)
        self.swap('_ROOT', self.root)
        self.bin_dir = self.root / 'bin'
        self.bin_dir.mkdir()
        path = f'{self.bin_dir}:/bin:/usr/bin'
        self.useFixture(fixtures.EnvironmentVariable('PATH', path))
        self.swap_search_path(path)
        mounts = self.root / 'mounts'
        mounts.write_text('configfs /sys/kernel/config configfs rw 0 0\n')
        self.swap('_MOUNTS', mounts)

    def swap(self, name: str, value: Any) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(f'{kernel_modules.__name__}.{name}', value)
        )

    def swap_search_path(self, path: str) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.processutils.search_path', lambda: path
            )
        )

    def create_modprobe(self, *names: str) -> None:
        """Create a modprobe that finds modules, and creates their files."""
        cases = ''.join(
            f'*" {name}") file={self.root}{FILES[name]} ;;\n' for name in names
        )
        program = self.bin_dir / 'modprobe'
        program.write_text(
            f'#!/bin/sh\ncase "$*" in\n{cases}*) exit 1 ;;\nesac\n'
            'case "$*" in *--dry-run*) exit 0 ;; esac\n'
            'mkdir -p "$file"\n'
        )
        program.chmod(0o755)

    def create(self, name: str) -> None:
        (self.root / FILES[name][1:]).mkdir(parents=True)

    def test_each_missing_part_is_named(self) -> None:
        for missing in FILES:
            self.create_modprobe(*(set(FILES) - {missing}))
            exc = self.assertRaises(
                errors.MissingPrerequisiteError, kernel_modules.check
            )
            self.assertIn(f'no module {missing} (', str(exc))
            self.assertIn('--with ceph', str(exc))
            self.assertNotIn('\n', str(exc))
        self.create_modprobe(*FILES)
        kernel_modules.check()
        created = [file for file in FILES.values() if self.exists(file)]
        self.assertEqual([], created)

    def exists(self, file: str) -> bool:
        return (self.root / file[1:]).exists()

    def test_part_of_the_kernel_itself(self) -> None:
        self.create_modprobe('nvmet', 'nvmet-tcp', 'nvme-tcp')
        for name in ('loop', 'dm-mod', 'configfs'):
            self.assertNotEqual('', kernel_modules.find_missing())
            self.create(name)
        self.assertEqual('', kernel_modules.find_missing())

    def test_machine_without_modprobe(self) -> None:
        path = str(self.bin_dir)
        self.useFixture(fixtures.EnvironmentVariable('PATH', path))
        self.swap_search_path(path)
        self.assertIn('loop', kernel_modules.find_missing())

    def test_load(self) -> None:
        self.create_modprobe(*FILES)
        kernel_modules.load()
        for file in FILES.values():
            self.assertTrue(self.exists(file), file)

    def test_module_that_cannot_be_loaded(self) -> None:
        self.create_modprobe('loop', 'dm-mod', 'configfs')
        exc = self.assertRaises(
            errors.MissingPrerequisiteError, kernel_modules.load
        )
        self.assertIn("'modprobe nvmet'", str(exc))

    def test_configfs_is_mounted_once(self) -> None:
        self.create_modprobe(*FILES)
        calls = self.root / 'calls'
        mount = self.bin_dir / 'mount'
        mount.write_text(f'#!/bin/sh\necho "$*" >>{calls}\n')
        mount.chmod(0o755)
        kernel_modules.load()
        self.assertFalse(calls.exists())
        (self.root / 'mounts').write_text('proc /proc proc rw 0 0\n')
        kernel_modules.load()
        self.assertEqual(
            '-t configfs configfs /sys/kernel/config\n', calls.read_text()
        )
