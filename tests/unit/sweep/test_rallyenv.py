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
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'clouds.yaml'
        path.write_text(yaml.safe_dump(CLOUDS))
        self.useFixture(
            fixtures.MonkeyPatch(
                'openstack.config.loader.CONFIG_FILES', [str(path)]
            )
        )


class SpecTest(_Clouds):
    def test_spec(self) -> None:
        found = rallyenv.spec('here')['existing@openstack']
        self.assertEqual('http://keystone.test/v3', found['auth_url'])
        self.assertEqual('secret-of-test', found['admin']['password'])
        # The stacks are where 'openstack stack list' looks for them.
        self.assertEqual([found['admin']], found['users'])
        self.assertTrue(found['https_insecure'])

    def test_unknown(self) -> None:
        error = self.assertRaises(errors.InputError, rallyenv.spec, 'there')
        self.assertIn('there', str(error))

    def test_a_secret_is_not_in_errors(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.sweep.rallyenv.program', lambda: Path('/bin/false')
            )
        )
        error = self.assertRaises(
            errors.CommandFailed, rallyenv.ensure, 'here'
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
    def failure(self, kind: type[Exception], output: str, at: str) -> str:
        """Return what is said when Rally prints this at one command."""
        folder = Path(self.useFixture(fixtures.TempDir()).path)
        (folder / 'output').write_text(output)
        program = folder / 'rally'
        program.write_text(
            '#!/bin/sh\n'
            f'case "$*" in "{at}"*) cat {folder}/output >&2; exit 1 ;; esac\n'
        )
        program.chmod(0o755)
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.sweep.rallyenv.program', lambda: program
            )
        )
        error = str(self.assertRaises(kind, rallyenv.ensure, 'here'))
        self.assertNotIn('\n', error)
        return error

    def test_locked(self) -> None:
        for at in ('db ensure', 'env show'):
            said = self.failure(errors.Busy, LOCKED, at)
            self.assertIn('(/root/.rally/rally.sqlite) is locked', said)

    def test_of_an_older_release(self) -> None:
        said = self.failure(errors.MissingPrerequisite, OLD, 'env show')
        self.assertIn("'rally db upgrade'", said)

    def test_broken(self) -> None:
        said = self.failure(
            errors.MissingPrerequisite,
            '(sqlite3.DatabaseError) file is not a database\n',
            'db ensure',
        )
        self.assertIn('move it away', said)

    def test_anything_else_is_as_rally_says(self) -> None:
        said = self.failure(errors.CommandFailed, 'no idea\n', 'db ensure')
        self.assertIn("'rally db ensure' ended with status 1: no idea", said)
