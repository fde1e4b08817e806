# SPDX-License-Identifier: Apache-2.0
"""Options of the JVMs of daemons are checked before a cluster is created."""

import subprocess

import testtools

from hvstack import errors
from hvstack.hadoop import daemon_options, site_files
from hvstack.hadoop.sizing import size_node


class DaemonOptionsTest(testtools.TestCase):
    def check_error(self, expected: str, **settings: object) -> None:
        error = self.assertRaises(
            errors.InputError, daemon_options.check, settings
        )
        self.assertNotIn('\n', str(error))
        self.assertIn(expected, str(error))

    def test_valid(self) -> None:
        self.assertEqual((), daemon_options.check({}))
        self.assertEqual(
            (
                ('datanode', '-XX:-UseCompressedOops'),
                ('namenode', '-XX:+UseG1GC -XX:MaxGCPauseMillis=50'),
            ),
            daemon_options.check(
                {
                    'namenode': ' -XX:+UseG1GC  -XX:MaxGCPauseMillis=50',
                    'datanode': '-XX:-UseCompressedOops',
                }
            ),
        )

    def test_errors(self) -> None:
        self.check_error(
            "of the daemon 'zookeeper': hvstack sets options of other daemons",
            zookeeper='-XX:+UseG1GC',
        )
        for value in ('', ' ', True, 1, ['-XX:+UseG1GC']):
            self.check_error('not a text with options', namenode=value)
        for option in (
            *('-XX:+UseConcMarkSweepGC', '-XX:UseG1GC', 'x', '-XX:+UseG1GC;x'),
            *('-XX:NewRatio', '-XX:+NewRatio=2', '-XX:UseG1GC=1', '$(x)'),
        ):
            self.check_error(
                f"'namenode': hvstack does not know '{option}'",
                namenode=f'-XX:+UseNUMA {option}',
            )
        self.check_error(
            "'-XX:TieredStopAtLevel=5' is not 0 to 4",
            datanode='-XX:TieredStopAtLevel=5',
        )
        for option in ('-Xmx1g', '-Xms1g', '-XX:MaxRAMPercentage=50'):
            self.check_error('follows from the tuning', nodemanager=option)
        self.check_error(
            'UseSerialGC and UseG1GC exclude each other',
            resourcemanager='-XX:+UseG1GC -XX:+UseSerialGC',
        )

    def test_lines(self) -> None:
        options = daemon_options.check(
            {
                'namenode': '-XX:+UseG1GC',
                'datanode': '-XX:+UseNUMA -XX:NewRatio=3',
            }
        )
        lab = size_node(2, 4096, tuning='lab')
        text = site_files.render_hadoop_env(lab, options)
        # The guest image selects the serial collector for small JVMs.
        self.assertEqual(
            "JAVA_OPTS_datanode='-XX:+UseNUMA -XX:NewRatio=3'\n"
            "JAVA_OPTS_namenode='-XX:-UseSerialGC -XX:+UseG1GC'\n",
            text,
        )
        result = subprocess.run(
            ['sh', '-c', f'{text}echo "$JAVA_OPTS_datanode"'],
            capture_output=True,
            check=True,
            text=True,
        )
        self.assertEqual('-XX:+UseNUMA -XX:NewRatio=3\n', result.stdout)
