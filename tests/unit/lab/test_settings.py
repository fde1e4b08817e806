# SPDX-License-Identifier: Apache-2.0
"""Test the settings of the lab and their file."""

import json
import os
from pathlib import Path

import fixtures
import testtools

from hvstack import errors
from hvstack.lab import settings
from hvstack.lab.settings import LabSettings


class LabSettingsTest(testtools.TestCase):
    def test_change_keeps_the_rest(self) -> None:
        before = LabSettings(hosts=4, compute='lxc')
        self.assertEqual(
            LabSettings(hosts=4, compute='lxc', fake_hosts=2),
            before.change(fake_hosts=2),
        )

    def refused(self, message: str, **values: object) -> None:
        exc = self.assertRaises(errors.InputError, LabSettings, **values)
        self.assertIn(message, str(exc))

    def test_refuses_numbers_out_of_range(self) -> None:
        self.refused('--hosts 0', hosts=0)
        self.refused('--fake-hosts -1', fake_hosts=-1)
        self.refused('--racks 4', hosts=3, racks=4)

    def test_refuses_unknown_backend(self) -> None:
        self.refused("compute backend 'xen'", compute='xen')
        self.refused(
            "compute backend 'xen' for hv-host2",
            host_compute={'hv-host2': 'xen'},
        )

    def test_refuses_backend_of_a_host_that_is_not_there(self) -> None:
        self.refused(
            "for 'hv-host4'",
            host_compute={'hv-host4': 'qemu'},
        )


class IDTest(testtools.TestCase):
    def test_no_file(self) -> None:
        """A directory was a traceback, and a FIFO blocked the lab."""
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'id'
        self.useFixture(fixtures.MonkeyPatch('hvstack.lab.settings._ID', path))
        self.assertIsNone(settings.lab_id())
        path.mkdir()
        error = self.assertRaises(errors.InputError, settings.lab_id)
        self.assertIn(f'Cannot read {path}: a directory', str(error))
        path.rmdir()
        os.mkfifo(path)
        error = self.assertRaises(errors.InputError, settings.lab_id)
        self.assertIn(f'Cannot read {path}: a FIFO', str(error))


class FilesTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        for name in ('settings', 'secrets'):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'hvstack.lab.settings._{name.upper()}',
                    self.directory / f'{name}.json',
                )
            )

    def test_none_before_the_first_lab(self) -> None:
        self.assertIsNone(settings.load())

    def test_round_trip(self) -> None:
        lab_settings = LabSettings(hosts=2, host_compute={'hv-host2': 'qemu'})
        settings.save(lab_settings)
        self.assertEqual(lab_settings, settings.load())

    def test_broken_file_is_named(self) -> None:
        (self.directory / 'settings.json').write_text('{"hosts": ')
        exc = self.assertRaises(errors.InputError, settings.load)
        self.assertIn(str(self.directory / 'settings.json'), str(exc))

    def test_field_of_another_version_is_named(self) -> None:
        (self.directory / 'settings.json').write_text('{"hostz": 3}')
        exc = self.assertRaises(errors.InputError, settings.load)
        self.assertIn('hostz', str(exc))

    def test_secrets_stay_and_are_private(self) -> None:
        first = settings.secret('nova')
        self.assertNotEqual(first, settings.secret('heat'))
        self.assertEqual(first, settings.secret('nova'))
        path = self.directory / 'secrets.json'
        self.assertEqual(0o600, path.stat().st_mode & 0o777)
        self.assertEqual({'nova', 'heat'}, set(json.loads(path.read_text())))

    def test_fields_of_other_types_are_named(self) -> None:
        path = self.directory / 'settings.json'
        for name, value in (
            ('hosts', '3'),
            ('hosts', True),
            ('ceph', 'no'),
            ('host_compute', {'hv-host1': 1}),
            ('options', []),
        ):
            path.write_text(json.dumps({name: value}))
            exc = self.assertRaises(errors.InputError, settings.load)
            self.assertIn(f"{path}:1: '{name}", str(exc))

    def test_damaged_secrets_are_not_replaced(self) -> None:
        path = self.directory / 'secrets.json'
        for text in ('', '[]', '{"nova": 1}', '{"nova": "x"'):
            path.write_text(text)
            exc = self.assertRaises(errors.InputError, settings.secret, 'heat')
            self.assertIn(str(path), str(exc))
            self.assertEqual(text, path.read_text())
