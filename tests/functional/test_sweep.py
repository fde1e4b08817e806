# SPDX-License-Identifier: Apache-2.0
"""A sweep of one configuration by Rally, from the command to its report."""

import json
import os
import sys
from pathlib import Path

import testtools

from hvstack import shell
from hvstack.cloud import connection, journal

HVSTACK = str(Path(sys.executable).with_name('hvstack'))


class SweepTest(testtools.TestCase):
    """Takes about 600 s."""

    def setUp(self) -> None:
        super().setUp()
        if not os.environ.get('HVSTACK_LAB'):
            self.skipTest('needs a lab that is up (make test)')

    def test_percent_of_bare_metal(self) -> None:
        entries = journal.entries()
        shell.run(
            [
                *(HVSTACK, 'sweep', 'run', '--os-cloud', 'hvstack-lab'),
                *('--host', 'lab-worker', '--backend', 'lxc'),
                *('--values', 'instances=1', '--size', '10MB', '--runs', '1'),
            ],
            timeout=1200,
        )
        report = shell.run([HVSTACK, 'report', '-f', 'json']).stdout
        rows = {row['label']: row for row in json.loads(report)['rows']}
        self.assertEqual(
            [('bare metal', 'ok'), ('i1', 'ok')],
            [(label, row['status']) for label, row in rows.items()],
        )
        percent = rows['i1']['percent_of_bare_metal']
        self.assertEqual(1, percent['runs'])
        self.assertGreater(percent['percent'], 0)
        self.assertEqual(entries, journal.entries())
        cloud = connection.connect('hvstack-lab')
        self.addCleanup(cloud.close)
        self.assertEqual([], list(cloud.orchestration.stacks()))
