# SPDX-License-Identifier: Apache-2.0
"""Tests of hvstack.hadoop.job_settings."""

import testtools

from hvstack import errors
from hvstack.hadoop import job_settings


class JobSettingsTest(testtools.TestCase):
    def test_values(self) -> None:
        self.assertEqual(
            {
                'mapreduce.task.io.sort.factor': '64',
                'mapreduce.job.reduce.slowstart.completedmaps': '1.0',
                'mapreduce.map.output.compress': 'true',
                'mapreduce.map.output.compress.codec': 'a.b.Codec',
                'mapreduce.terasort.partitions.sample': '2000000',
                'mapreduce.map.java.opts': '-Xmx800m -Xmn256m',
            },
            job_settings.check(
                {
                    'mapreduce.task.io.sort.factor': 64,
                    'mapreduce.job.reduce.slowstart.completedmaps': 1.0,
                    'mapreduce.map.output.compress': True,
                    'mapreduce.map.output.compress.codec': 'a.b.Codec',
                    'mapreduce.terasort.partitions.sample': 2000000,
                    'mapreduce.map.java.opts': '-Xmx800m -Xmn256m',
                }
            ),
        )

    def test_refused(self) -> None:
        for name, value, reason in (
            (
                'mapreduce.task.io.sort.facter',
                64,
                "Use 'mapreduce.task.io.sort.factor'",
            ),
            ('nothing', 1, 'Correct the name'),
            ('mapreduce.jobhistory.address', 'a', 'property of daemons'),
            ('dfs.datanode.handler.count', 1, 'property of daemons'),
            ('mapreduce.job.maps', 4, 'hvstack computes it'),
            (
                'yarn.app.mapreduce.am.command-opts',
                '-Xmx1g',
                'hvstack computes it',
            ),
            ('mapreduce.map.node-label-expression', 'am', 'tasks on workers'),
            ('mapreduce.job.node-label-expression', 'am', 'tasks on workers'),
            ('dfs.replication', 1, "it is the workload's 'replication'"),
            ('mapreduce.task.io.sort.factor', 'many', 'not a whole number'),
            ('mapreduce.task.io.sort.factor', 1.5, 'not a whole number'),
            ('mapreduce.map.output.compress', 'yes', 'not true or false'),
            (
                'mapreduce.job.reduce.slowstart.completedmaps',
                'soon',
                'not a number',
            ),
            ('mapreduce.map.java.opts', '-Xmx1m\n', 'a control character'),
            # YAML has these for an empty value and for brackets.
            ('mapreduce.map.java.opts', None, 'not a single value'),
            ('mapreduce.map.java.opts', ['-Xmx1m'], 'not a single value'),
            ('mapreduce.map.java.opts', {}, 'not a single value'),
            ('mapreduce.terasort.num-rows', 1, "it follows from 'size'"),
        ):
            failure = self.assertRaises(
                errors.InputError, job_settings.check, {name: value}
            )
            self.assertIn(f"property '{name}'", str(failure))
            self.assertIn(reason, str(failure))
