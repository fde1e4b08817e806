# SPDX-License-Identifier: Apache-2.0
"""Which cloud is chosen, and from which file its credentials come."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fixtures
import testtools
import yaml

from hvstack import errors
from hvstack.cloud import named, selection


def entry(host: str, **auth: str) -> dict[str, Any]:
    return {
        'auth': {
            'auth_url': f'http://{host}.test/v3',
            'username': 'ann',
            'password': 'secret-of-test',
            'project_name': 'p',
            **auth,
        }
    }


class _Clouds(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.users = self.directory / 'clouds.yaml'
        self.lab = self.directory / 'lab' / 'clouds.yaml'
        self.lab.parent.mkdir()
        self.configured: str | None = None
        options = SimpleNamespace(
            cloud=SimpleNamespace(os_cloud=self.configured)
        )
        self.options = options.cloud
        for name, value in (
            ('hvstack.paths.STATE', self.directory),
            ('hvstack.conf.load', lambda: options),
            ('openstack.config.loader.CONFIG_FILES', [str(self.users)]),
        ):
            self.useFixture(fixtures.MonkeyPatch(name, value))
        for name in ('CLOUD', 'CLOUD_NAME', 'CLIENT_CONFIG_FILE', 'AUTH_URL'):
            self.variable(f'OS_{name}', None)
        self.variable('OS_REGION_NAME', None)
        self.log = self.useFixture(fixtures.FakeLogger())

    def variable(self, name: str, value: str | None) -> None:
        self.useFixture(fixtures.EnvironmentVariable(name, value))

    def openrc(self) -> None:
        for name, value in (
            ('AUTH_URL', 'http://openrc.test/v3'),
            ('USERNAME', 'ann'),
            ('PASSWORD', 'secret-of-test'),
            ('PROJECT_NAME', 'p'),
        ):
            self.variable(f'OS_{name}', value)

    def have(self, path: Path, **clouds: dict[str, Any]) -> None:
        text = yaml.safe_dump({'clouds': clouds})
        path.write_text(text, encoding='utf-8')

    def refused(self, *args: Any, function: Any = selection.choose) -> str:
        error = self.assertRaises(errors.InputError, function, *args)
        self.assertNotIn('\n', str(error))
        self.assertNotIn('secret-of-test', str(error))
        return str(error)


class ChooseTest(_Clouds):
    def test_option(self) -> None:
        self.assertEqual('mine', selection.choose('mine'))
        self.assertEqual('', self.log.output)

    def test_option_and_another_cloud_in_the_variables(self) -> None:
        self.openrc()
        self.variable('OS_CLOUD', 'other')
        self.assertEqual('mine', selection.choose('mine'))
        self.assertIn("OS_CLOUD ('other')", self.log.output)
        self.assertIn(
            'OS_* variables (http://openrc.test/v3)', self.log.output
        )
        self.assertEqual('envvars', selection.choose('envvars'))

    def test_an_empty_option(self) -> None:
        self.assertIn('--os-cloud is empty', self.refused(''))

    def test_variable(self) -> None:
        self.variable('OS_CLOUD', 'other')
        self.options.os_cloud = 'configured'
        self.assertEqual('other', selection.choose(None))

    def test_variable_and_openrc_contradict(self) -> None:
        self.openrc()
        self.variable('OS_CLOUD', 'other')
        error = self.refused(None)
        self.assertIn("OS_CLOUD names 'other'", error)
        self.assertIn('--os-cloud envvars', error)

    def test_openrc(self) -> None:
        """It wins over a single other cloud in clouds.yaml."""
        self.have(self.users, mine=entry('mine'))
        self.openrc()
        self.assertEqual('envvars', selection.choose(None))
        region: Any = selection.region('envvars')
        self.assertEqual(
            'http://openrc.test/v3', region.config['auth']['auth_url']
        )
        self.assertIsNone(selection.file_of('envvars'))

    def test_openrc_and_hvstack_conf(self) -> None:
        self.options.os_cloud = 'configured'
        self.openrc()
        self.assertEqual('envvars', selection.choose(None))
        self.assertIn('not os_cloud of hvstack.conf', self.log.output)

    def test_hvstack_conf(self) -> None:
        self.options.os_cloud = 'configured'
        self.assertEqual('configured', selection.choose(None))
        self.assertEqual('', self.log.output)
        self.have(self.users, mine=entry('mine'))
        self.assertEqual('configured', selection.choose(None))
        self.assertIn("'configured' of hvstack.conf", self.log.output)

    def test_the_only_entry_is_used_and_logged(self) -> None:
        self.have(self.users, mine=entry('mine'))
        self.variable('OS_CLOUD__BACKEND', 'qemu')
        self.assertEqual('mine', selection.choose(None))
        self.assertIn("only cloud of clouds.yaml, 'mine'", self.log.output)

    def test_two_entries_or_none_are_refused(self) -> None:
        self.assertIn('entries: none', self.refused(None))
        self.have(self.users, a=entry('a'), b=entry('b'))
        self.assertIn('entries: a, b', self.refused(None))


class RegionTest(_Clouds):
    def test_tls_in_the_credential_of_rally(self) -> None:
        self.variable('HOME', str(self.directory))
        for fields, expected in (
            ({'insecure': True}, (True, None)),
            ({'cacert': '~/ca.pem'}, (False, f'{self.directory}/ca.pem')),
        ):
            clouds = {'clouds': {'a': entry('a') | fields}}
            self.users.write_text(yaml.safe_dump(clouds))
            credential = named.credential('a')
            self.assertEqual(
                expected,
                (credential['https_insecure'], credential['https_cacert']),
            )

    def url(self, name: str, config_file: str | None = None) -> str:
        region: Any = selection.region(name, config_file)
        self.assertEqual(name, region.name)
        return str(region.config['auth']['auth_url'])

    def region(self, name: str, *args: str | None) -> str:
        cloud_region: Any = selection.region(name, *args)
        return str(cloud_region.get_region_name())

    def test_variable_of_the_region(self) -> None:
        clouds = {
            'many': {**entry('a'), 'regions': ['One', 'Two']},
            'none': entry('a'),
        }
        self.have(self.users, **clouds)
        self.have(self.lab, lab={**entry('lab'), 'region_name': 'Lab'})
        self.assertEqual('One', self.region('many'))
        self.variable('OS_REGION_NAME', 'Two')
        self.assertEqual('Two', self.region('many'))
        self.assertEqual('Two', self.region('many', str(self.users)))
        self.assertEqual('Two', self.region('none'))
        self.assertEqual('Lab', self.region('lab'))
        self.assertEqual('Lab', self.region('lab', str(self.lab)))
        self.variable('OS_REGION_NAME', 'Three')
        error = self.refused('many', function=selection.region)
        self.assertIn('Valid choices are One,Two', error)
        self.assertIn('or OS_REGION_NAME', error)
        # The variables of an openrc are those of another cloud.
        self.openrc()
        self.assertEqual('One', self.region('many'))
        # A credential of Rally has a region of its own.
        self.assertEqual('One', self.region('many', None, ''))
        self.assertEqual('Two', self.region('many', None, 'Two'))

    def test_region_of_the_credential_of_rally(self) -> None:
        """The variable counts when the environment is created."""
        self.have(self.users, a={**entry('a'), 'regions': ['One', 'Two']})
        self.variable('OS_REGION_NAME', 'Two')
        credential = named.credential('a')
        self.assertEqual('Two', credential['region_name'])
        self.variable('OS_REGION_NAME', None)
        region: Any = named.region_of(credential)
        self.assertEqual('Two', region.get_region_name())
        self.assertEqual(
            'One', named.credential('a', None, None, 'One')['region_name']
        )

    def test_openrc_with_a_region(self) -> None:
        self.openrc()
        self.variable('OS_REGION_NAME', 'Two')
        self.assertEqual('Two', self.region('envvars'))

    def test_a_value_of_a_type_that_openstacksdk_does_not_expect(self) -> None:
        for field in ('networks', 'profile'):
            self.have(self.users, mine={**entry('mine'), field: 7})
            message = self.refused('mine', function=selection.region)
            self.assertIn(str(self.users), message)
            self.assertNotIn('object', message)

    def test_both_files(self) -> None:
        self.have(self.users, mine=entry('mine'))
        self.have(self.lab, **{'hvstack-lab': entry('lab')})
        self.assertEqual('http://mine.test/v3', self.url('mine'))
        self.assertEqual('http://lab.test/v3', self.url('hvstack-lab'))
        self.assertEqual(str(self.users), selection.file_of('mine'))
        self.assertEqual(str(self.lab), selection.file_of('hvstack-lab'))

    def test_the_same_entry_in_both(self) -> None:
        for path in (self.users, self.lab):
            self.have(path, **{'hvstack-lab': entry('lab')})
        self.assertEqual('http://lab.test/v3', self.url('hvstack-lab'))

    def test_different_entries_of_a_name_are_refused(self) -> None:
        self.have(self.users, **{'hvstack-lab': entry('lab', password='old')})
        self.have(self.lab, **{'hvstack-lab': entry('lab')})
        error = self.refused('hvstack-lab', function=selection.region)
        self.assertIn(f'{self.users} and {self.lab} have different', error)

    def test_the_variable_names_the_labs_file(self) -> None:
        self.have(self.lab, **{'hvstack-lab': entry('lab')})
        self.variable('OS_CLIENT_CONFIG_FILE', str(self.lab))
        self.assertEqual('http://lab.test/v3', self.url('hvstack-lab'))

    def test_one_file(self) -> None:
        self.have(self.users, mine=entry('mine'))
        other = self.directory / 'other.yaml'
        self.have(other, mine=entry('other'))
        self.variable('OS_CLIENT_CONFIG_FILE', str(self.users))
        self.assertEqual('http://other.test/v3', self.url('mine', str(other)))

    def test_unknown_names(self) -> None:
        self.have(self.users, mine=entry('mine'))
        self.have(self.lab, **{'hvstack-lab': entry('lab')})
        for name in ('other', 'envvars', 'defaults'):
            error = self.refused(name, function=selection.region)
            self.assertIn(f"Cannot use the cloud '{name}'", error)
            self.assertIn('entries: hvstack-lab, mine', error)

    def test_a_file_that_is_not_yaml(self) -> None:
        """The library warns, and continues without the file."""
        self.users.write_text('clouds:\n  a: {password: secret-of-test]\n')
        self.assertIn('entries: none', self.refused(None))
        self.assertIn(f'Skipping config file {self.users}', self.log.output)
        self.assertNotIn('secret-of-test', self.log.output)
