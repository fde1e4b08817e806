# SPDX-License-Identifier: Apache-2.0
"""Which files are checked before openstacksdk reads them."""

import os
from pathlib import Path

import fixtures
import testtools

from hvstack import errors
from hvstack.cloud import clouds_file


class CloudsFileTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        for prefix, name in (('CONFIG', 'clouds'), ('SECURE', 'secure')):
            variable = f'OS_CLIENT_{prefix}_FILE'
            self.useFixture(fixtures.EnvironmentVariable(variable, None))
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'openstack.config.loader.{prefix}_FILES',
                    [str(self.directory / f'{name}.yaml')],
                )
            )

    def test_region_that_is_no_text(self) -> None:
        path = self.directory / 'clouds.yaml'
        for value in ('', 'null', '[a]'):
            path.write_text(
                f'clouds:\n  a:\n    region_name: {value}\n', encoding='utf-8'
            )
            exc = self.assertRaises(
                errors.InputError, clouds_file.check_all, 'a'
            )
            self.assertIn(f"{path}:3: 'clouds.a.region_name'", str(exc))

    def test_credentials_that_openstacksdk_accepts(self) -> None:
        """An entry that no command uses must not stop all commands."""
        path = self.directory / 'clouds.yaml'
        for auth_type, auth in (
            ('v3oidcpassword', 'openid_scope: openid profile'),
            ('password', 'project-name: p'),
            ('v3multifactor', 'username: u'),
            ('v3multifactor', 'auth_methods: [v3password, v3totp]'),
        ):
            path.write_text(
                f'clouds:\n  a:\n    auth_type: {auth_type}\n    auth:\n'
                f'      {auth}\n',
                encoding='utf-8',
            )
            clouds_file.check_all('a')
        for auth_type, auth in (
            ('password', 'auth_methods: [v3password]'),
            ('v3multifactor', 'auth_methods: [[v3password]]'),
            ('v3multifactor', 'username: [u]'),
            ('password', 'project--name: p'),
        ):
            path.write_text(
                f'clouds:\n  a:\n    auth_type: {auth_type}\n    auth:\n'
                f'      {auth}\n',
                encoding='utf-8',
            )
            self.assertRaises(errors.InputError, clouds_file.check_all, 'a')

    def test_other_entries(self) -> None:
        """An entry of another program does not stop the command."""
        path = self.directory / 'clouds.yaml'
        for entry in (
            '{auth_type: v3of-a-vendor, auth: {token: {file: /t}}}',
            '{auth_type: password, auth: {auth_methods: [v3password]}}',
            '{region_name: null}',
        ):
            path.write_text(
                f'clouds:\n  a: {{auth: {{username: u}}}}\n  b: {entry}\n',
                encoding='utf-8',
            )
            clouds_file.check_all()
            clouds_file.check_all('a')
            self.assertRaises(errors.InputError, clouds_file.check_all, 'b')

    def test_aliases_cannot_blow_up(self) -> None:
        lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x]']
        lines += [
            f'a{level}: &a{level} [' + f'*a{level - 1},' * 9 + ']'
            for level in range(1, 20)
        ]
        path = self.directory / 'clouds.yaml'
        for text in ('\n'.join(lines), 'a: &a [*a]'):
            path.write_text(text, encoding='utf-8')
            exc = self.assertRaises(errors.InputError, clouds_file.check_all)
            self.assertIn(str(path), str(exc))
        path.write_text('x: &x {a: 1}\nclouds: {b: {auth: *x}}\n')
        exc = self.assertRaises(errors.InputError, clouds_file.check_all, 'b')
        self.assertIn("'clouds.b.auth.a' is unknown", str(exc))

    def test_both_files_are_checked(self) -> None:
        clouds_file.check_all()
        for name in ('clouds', 'secure'):
            path = self.directory / f'{name}.yaml'
            os.mkfifo(path)
            exc = self.assertRaises(errors.InputError, clouds_file.check_all)
            self.assertIn(str(path), str(exc))
            path.unlink()
            path.write_text('clouds: {}\n', encoding='utf-8')
            clouds_file.check_all()
