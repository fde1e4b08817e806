# SPDX-License-Identifier: Apache-2.0
"""Rally's environment is made of an entry of clouds.yaml."""

from pathlib import Path

import fixtures
import testtools
import yaml

from hvstack import errors
from hvstack.sweep import rallyenv

CLOUDS = {
    'clouds': {
        'here': {
            'auth': {
                'auth_url': 'http://keystone.test/v3',
                'username': 'admin',
                'password': 'secret-of-test',
                'project_name': 'admin',
                'user_domain_name': 'Default',
                'project_domain_name': 'Default',
            },
            'region_name': 'RegionOne',
            'verify': False,
        }
    }
}


class _Clouds(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.path = self.directory / 'clouds.yaml'
        self.path.write_text(yaml.safe_dump(CLOUDS))
        for name, value in (
            ('openstack.config.loader.CONFIG_FILES', [str(self.path)]),
            ('hvstack.paths.STATE', self.directory / 'state'),
            ('hvstack.sweep.rallyenv.VARIABLES', {}),
        ):
            self.useFixture(fixtures.MonkeyPatch(name, value))
        for name in ('OS_CLIENT_CONFIG_FILE', 'OS_REGION_NAME'):
            self.useFixture(fixtures.EnvironmentVariable(name))


class SpecTest(_Clouds):
    def test_spec_has_no_secret(self) -> None:
        self.assertEqual(
            {
                'hvstack@openstack': {
                    'cloud': 'here',
                    'auth_url': 'http://keystone.test/v3',
                    'config_file': str(self.path),
                    'region_name': 'RegionOne',
                }
            },
            rallyenv.build_spec('here'),
        )

    def test_region(self) -> None:
        """The environment of another region has another specification."""
        entry = dict(CLOUDS['clouds']['here'], regions=['A', 'B'])
        self.path.write_text(yaml.safe_dump({'clouds': {'here': entry}}))
        for variable, region in ((None, 'A'), ('B', 'B')):
            self.useFixture(
                fixtures.EnvironmentVariable('OS_REGION_NAME', variable)
            )
            spec = rallyenv.build_spec('here')['hvstack@openstack']
            self.assertEqual(region, spec['region_name'])

    def test_openrc(self) -> None:
        for name, value in (
            ('AUTH_URL', 'http://openrc.test/v3'),
            ('USERNAME', 'ann'),
            ('PASSWORD', 'secret-of-test'),
        ):
            self.useFixture(fixtures.EnvironmentVariable(f'OS_{name}', value))
        self.assertEqual(
            {'cloud': 'envvars', 'auth_url': 'http://openrc.test/v3'},
            rallyenv.build_spec('envvars')['hvstack@openstack'],
        )

    def test_application_credential(self) -> None:
        entry = {
            'auth_type': 'v3applicationcredential',
            'auth': {
                'auth_url': 'http://keystone.test/v3',
                'application_credential_id': 'a1',
                'application_credential_secret': 'secret-of-test',
            },
        }
        self.path.write_text(yaml.safe_dump({'clouds': {'here': entry}}))
        text = str(rallyenv.build_spec('here'))
        self.assertIn("'cloud': 'here'", text)
        self.assertNotIn('secret-of-test', text)

    def test_unknown(self) -> None:
        error = self.assertRaises(
            errors.InputError, rallyenv.build_spec, 'there'
        )
        self.assertIn('there', str(error))

    def test_the_users_rally_conf_comes_first(self) -> None:
        """The file of hvstack replaces the connection only."""
        users = self.directory / 'rally.conf'
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.sweep.rallyenv._USERS_CONFIG',
                (self.directory / 'missing', users),
            )
        )
        own = str(self.directory / 'state' / 'rally' / 'rally.conf')
        self.assertEqual(['--config-file', own], rallyenv.build_config_args())
        users.write_text('[DEFAULT]\ndebug = true\n')
        self.assertEqual(
            ['--config-file', str(users), '--config-file', own],
            rallyenv.build_config_args(),
        )

    def test_a_secret_is_not_in_errors(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.sweep.rallyenv.find_program',
                lambda: Path('/bin/false'),
            )
        )
        error = self.assertRaises(
            errors.CommandError, rallyenv.ensure_environment, 'here'
        )
        self.assertNotIn('secret-of-test', str(error))


#: What Rally 5.1.1 prints, and with what status.
LOCKED = """\
(sqlite3.OperationalError) database is locked
[SQL: PRAGMA main.table_info("alembic_version")]
Looks like Rally can't connect to its DB.
Make sure the connection string in rally.conf is proper:
sqlite:////root/.rally/rally.sqlite
"""
OLD = """\
Database seems to be outdated. Run upgrade from revision ca3626f62937 to \
bc908ac9a1fc by command `rally db upgrade'
"""


class DatabaseTest(_Clouds):
    def failure(
        self, error_class: type[Exception], output: str, at: str
    ) -> str:
        """Return the message if Rally prints this at one command."""
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        (directory / 'output').write_text(output)
        program = directory / 'rally'
        program.write_text(
            '#!/bin/sh\n'
            f'case "$*" in *"{at}"*) '
            f'cat {directory}/output >&2; exit 1 ;; esac\n'
        )
        program.chmod(0o755)
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.sweep.rallyenv.find_program', lambda: program
            )
        )
        error = str(
            self.assertRaises(error_class, rallyenv.ensure_environment, 'here')
        )
        self.assertNotIn('\n', error)
        return error

    def test_locked(self) -> None:
        for at in ('db ensure', 'env show'):
            message = self.failure(errors.BusyError, LOCKED, at)
            self.assertIn('(/root/.rally/rally.sqlite)', message)

    def test_of_an_older_release(self) -> None:
        message = self.failure(
            errors.MissingPrerequisiteError, OLD, 'env show'
        )
        self.assertIn("rally.conf db upgrade'", message)

    def test_broken(self) -> None:
        message = self.failure(
            errors.MissingPrerequisiteError,
            '(sqlite3.DatabaseError) file is not a database\n',
            'db ensure',
        )
        self.assertIn('Move it to another directory', message)

    def test_anything_else_is_as_rally_says(self) -> None:
        message = self.failure(errors.CommandError, 'no idea\n', 'db ensure')
        self.assertIn(
            "'rally db ensure' exited with status 1: no idea", message
        )
