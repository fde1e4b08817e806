# SPDX-License-Identifier: Apache-2.0
"""Tasks and templates are found by name, wherever hvstack is installed."""

import json

import testtools

from hvstack import share
from tests.unit.cli.runner import run_command


class TaskTest(testtools.TestCase):
    """``hvstack task`` and ``hvstack template``."""

    def test_list_has_each_task_with_its_description(self) -> None:
        _, stdout, _ = run_command('task', 'list', '-f', 'json')
        tasks = {row['Name']: row['Description'] for row in json.loads(stdout)}
        paths = share.RALLY_TASKS.glob('*.yaml')
        self.assertEqual({path.stem for path in paths}, set(tasks))
        for name, description in tasks.items():
            self.assertGreater(len(description), 20, name)
            self.assertNotIn('rally task start', description)

    def test_show(self) -> None:
        _, stdout, _ = run_command('task', 'show', 'quick', '-f', 'json')
        task = json.loads(stdout)
        self.assertEqual('quick', task['name'])
        self.assertIn('rally task start', task['usage'])
        self.assertIn('size_bytes', task['usage'])
        self.assertEqual(str(share.RALLY_TASKS / 'quick.yaml'), task['path'])

    def test_path(self) -> None:
        for argv, path in (
            (('task',), share.RALLY_TASKS),
            (('task', 'quick'), share.RALLY_TASKS / 'quick.yaml'),
            (('task', 'quick.yaml'), share.RALLY_TASKS / 'quick.yaml'),
            (('template',), share.HEAT_TEMPLATES),
            (
                ('template', 'hadoop-cluster'),
                share.HEAT_TEMPLATES / 'hadoop-cluster.yaml',
            ),
            (
                ('template', 'environments/lab.yaml'),
                share.HEAT_TEMPLATES / 'environments' / 'lab.yaml',
            ),
        ):
            status, stdout, _ = run_command(argv[0], 'path', *argv[1:])
            self.assertEqual(f'{path}\n', stdout)
            self.assertEqual(0, status)

    def test_catalogue_of_the_package_by_its_name(self) -> None:
        status, stdout, _ = run_command('flavor', 'lint', 'vsphere6')
        self.assertEqual(0, status)
        self.assertIn('vsphere6', stdout)

    def test_unknown_names(self) -> None:
        for subject in ('task', 'template'):
            for name in ('../x', 'unknown'):
                status, _, stderr = run_command(subject, 'path', name)
                self.assertEqual(2, status)
                self.assertIn(f"Cannot find the {subject} '{name}'", stderr)
                self.assertEqual(1, len(stderr.splitlines()))
