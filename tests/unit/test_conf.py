# SPDX-License-Identifier: Apache-2.0
"""Options: defaults, files, mistakes in one line."""

import json
import sys
import typing
from pathlib import Path

import fixtures
import testtools
from oslo_config import cfg, generator

from hvstack import conf, errors, processutils, share
from hvstack.hadoop import os_profiles, tuning_profiles

SAMPLE = share.ROOT / 'hvstack.conf.sample'
TOP = Path(__file__).parents[2]
#: Prints the records database and the directory of profiles of a process.
READ = """
import json
from hvstack import conf, host_profiles
directories = [str(path) for path in host_profiles.directories()]
print(json.dumps([conf.load().records.connection, directories]))
"""


class ConfTest(testtools.TestCase):
    def file(self, text: str) -> Path:
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'hvstack.conf'
        path.write_text(text)
        return path

    def test_defaults(self) -> None:
        config = conf.load((Path('/none/hvstack.conf'),))
        self.assertEqual('lab-worker', config.cloud.host_profile)
        self.assertIsNone(config.cloud.backend)

    def test_profiles_are_those_that_there_are(self) -> None:
        choices = {
            option.name: option.type.choices
            for option in dict(conf.list_opts())['hadoop']
        }
        self.assertEqual(
            set(tuning_profiles.list_names()), set(choices['tuning'])
        )
        self.assertEqual(
            set(os_profiles.list_names()), set(choices['os_profile'])
        )
        hadoop_config = conf.load((Path('/none/hvstack.conf'),)).hadoop
        self.assertIsNone(hadoop_config.tuning)
        self.assertEqual(os_profiles.DEFAULT, hadoop_config.os_profile)

    def test_the_later_file_wins(self) -> None:
        first = self.file('[cloud]\nimage = a\nnetwork = n\n')
        two = self.file('[cloud]\nimage = b\n')
        config = conf.load((first, two))
        self.assertEqual(
            ('b', 'n'), (config.cloud.image, config.cloud.network)
        )

    def test_another_process_takes_options_before_the_files(self) -> None:
        options = {'cloud': {'backend': 'qemu'}, 'hadoop': {'tuning': 'vsan'}}
        for name, value in conf.variables(options).items():
            self.useFixture(fixtures.EnvironmentVariable(name, value))
        config = conf.load((self.file('[cloud]\nbackend = kvm\n'),))
        self.assertEqual('qemu', config.cloud.backend)
        self.assertEqual('vsan', config.hadoop.tuning)

    def test_dollar_signs(self) -> None:
        """oslo.config would replace names of options, also in a password."""
        command = r'for h in a b; do ssh $h \$x ${image} $$ {mode}; done'
        url = 'postgresql+psycopg://hv:S3$cret@db/hv'
        path = self.file(
            f'[sweep]\nhost_mode_command = {command}\n'
            f'[records]\nconnection = {url}\n'
        )
        options = conf.load((path,))
        self.assertEqual(command, options.sweep.host_mode_command)
        self.assertEqual(url, options.records.connection)
        self.useFixture(
            fixtures.EnvironmentVariable('OS_CLOUD__SSH_CONFIG', '$HOME/ssh')
        )
        self.assertEqual('$HOME/ssh', conf.load((path,)).cloud.ssh_config)
        options.set_override('network', 'a$b', 'cloud')
        self.assertEqual('a$b', options.cloud.network)

    def test_mistakes(self) -> None:
        for text in (
            '[cloud]\nstack_timeout = soon\n',
            '[cloud]\nbackend = xen\n',
            'no section\n',
        ):
            error = self.assertRaises(
                errors.InputError, conf.load, (self.file(text),)
            )
            self.assertIn('hvstack.conf', str(error))

    def test_unknown_names_and_values_that_are_no_numbers(self) -> None:
        for text, line, word in (
            ('[clod]\nimage = a\n', 1, 'clod'),
            ('[cloud]\nimag = a\n', 2, 'imag'),
            ('[cloud]\ninterval = 5\n', 2, '[telemetry]'),
            ('[telemetry]\ninterval = nan\n', 2, 'nan'),
            ('[telemetry]\ninterval =\n', 2, 'interval'),
            ('[cloud]\n\nstack_timeout = \u0666\u0660\n', 3, 'timeout'),
            ('[cloud]\nimage = a\nimage = b\n', 3, 'duplicated'),
            ('[cloud]\nimage = a\x1b[31m\n', 2, 'control'),
            (f'[cloud]\nimage = {"x" * 5000}\n', 2, '4096 characters'),
        ):
            path = self.file(text)
            error = self.assertRaises(errors.InputError, conf.load, (path,))
            self.assertIn(f'{path}:{line}: ', str(error))
            self.assertIn(word, str(error))

    def test_variables_are_checked_as_files_are(self) -> None:
        self.useFixture(
            fixtures.EnvironmentVariable('OS_TELEMETRY__INTERVAL', 'nan')
        )
        error = self.assertRaises(errors.InputError, conf.load, ())
        self.assertIn('OS_TELEMETRY__INTERVAL', str(error))

    def test_secrets_are_not_shown(self) -> None:
        url = 'postgresql://user:the-secret@host/'
        self.useFixture(
            fixtures.EnvironmentVariable(
                'OS_RECORDS__CONNECTION', f'{url}\x07'
            )
        )
        path = self.file(f'[records]\nconnection = {url}{"x" * 5000}\n')
        for files in ((), (path,)):
            error = self.assertRaises(errors.InputError, conf.load, files)
            self.assertNotIn('the-secret', str(error))

    def read(self, imports: str, **variables: str) -> list[typing.Any]:
        """Return the database and the directories that a process reads."""
        result = processutils.run(
            [sys.executable, '-c', f'{imports}\n{READ}'],
            cwd=TOP,
            env={'PYTHONPATH': str(TOP), 'HVSTACK_LAB': '', **variables},
        )
        answer: list[typing.Any] = json.loads(result.stdout)
        return answer

    def test_directory_of_the_administrator(self) -> None:
        path = self.file('[records]\nconnection = sqlite:////etc.db\n')
        variables = {'HVSTACK_ETC_DIR': str(path.parent)}
        connection, directories = self.read('', **variables)
        self.assertEqual('sqlite:////etc.db', connection)
        self.assertIn(f'{path.parent}/hosts', directories)
        self.assertNotIn('/etc/hvstack/hosts', directories)

    def test_unit_tests_read_no_configuration_of_the_machine(self) -> None:
        path = self.file('[records]\nconnection = sqlite:////etc.db\n')
        for variables in (
            {'OS_RECORDS__CONNECTION': 'sqlite:////variable.db'},
            {'HVSTACK_ETC_DIR': str(path.parent)},
            {'HVSTACK_STATE_DIR': str(path.parent)},
        ):
            connection, directories = self.read(
                'import tests.unit', **variables
            )
            self.assertIsNone(connection)
            self.assertNotIn('/etc/hvstack/hosts', directories)

    def test_sample_is_current(self) -> None:
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'sample'
        generator.main(['--namespace', 'hvstack', '--output-file', str(path)])
        self.assertEqual(path.read_text(), SAMPLE.read_text())

    def test_types_of_options(self) -> None:
        """Each option has the type of its class in oslo.config."""
        types: dict[type[cfg.Opt], type] = {
            cfg.BoolOpt: bool,
            cfg.FloatOpt: float,
            cfg.IntOpt: int,
            cfg.StrOpt: str,
        }
        groups = typing.get_type_hints(conf.ConfOptions)
        self.assertEqual(groups.keys(), {name for name, _ in conf.list_opts()})
        for name, options in conf.list_opts():
            expected = {}
            for option in options:
                option_type = types[type(option)]
                is_set = option.default is not None
                expected[option.dest] = (
                    option_type if is_set else option_type | None
                )
            self.assertEqual(expected, typing.get_type_hints(groups[name]))
