# SPDX-License-Identifier: Apache-2.0
"""A sweep of one configuration by Rally, from the command to its report."""

import json
import os
import sys
from pathlib import Path

import testtools

from hvstack import processutils
from hvstack.cloud import connection, journal
from hvstack.report import telemetry_checks
from hvstack.results import percentages
from hvstack.results.record_data import RunRecord
from hvstack.results.telemetry import compute_retransmitted_shares
from hvstack.sweep import sweep_store

HVSTACK = str(Path(sys.executable).with_name('hvstack'))


class SweepTest(testtools.TestCase):
    """Takes about 600 s."""

    def setUp(self) -> None:
        super().setUp()
        if not os.environ.get('HVSTACK_LAB'):
            self.skipTest('needs a lab that is up (make test)')

    def test_percent_of_bare_metal(self) -> None:
        entries = journal.entries()
        processutils.run(
            [
                *(HVSTACK, 'sweep', 'run', '--os-cloud', 'hvstack-lab'),
                *('--host', 'lab-worker'),
                *('--values', 'instances=1', '--size', '10MB', '--runs', '1'),
                *('--strategy', 'one-at-a-time'),
            ],
            timeout=1200,
        )
        report = processutils.run([HVSTACK, 'report', '-f', 'json']).stdout
        rows = {row['label']: row for row in json.loads(report)['rows']}
        self.assertEqual(
            [('bare metal', 'ok'), ('i1', 'ok')],
            [(label, row['status']) for label, row in rows.items()],
        )
        percent = rows['i1']['percent_of_bare_metal']
        self.assertEqual(1, percent['runs'])
        self.assertGreater(percent['percent'], 0)
        self.check_records()
        self.assertEqual(entries, journal.entries())
        cloud = connection.connect('hvstack-lab')
        self.addCleanup(cloud.close)
        self.assertEqual([], list(cloud.orchestration.stacks()))

    def check_records(self) -> None:
        """Check that each run had a cluster, and a network that drops little.

        The runs are bare metal, i1 and bare metal again.
        """
        records = sweep_store.load_records(sweep_store.list_sweeps()[-1].id)
        self.assertEqual(3, len(records))
        self.assertEqual(3, len(percentages.group_by_cluster(records)))
        for record in records:
            self.assertTrue(record.observations.cluster.startswith('CID-'))
            shares = compute_retransmitted_shares(record)
            self.assertEqual(3, len(shares))
            self.assertLess(
                max(shares.values()), telemetry_checks.MAX_RETRANSMITTED_SHARE
            )
            self.check_application_masters(record)

    def check_application_masters(self, record: RunRecord) -> None:
        """Check that they alone ran on the controller, as on bare metal."""
        self.assertEqual('controller', record.sut.facts['application_masters'])
        telemetry = record.observations.telemetry
        assert telemetry is not None
        controllers = {
            name
            for name, node in telemetry.nodes.items()
            if node.role == 'controller'
        }
        self.assertEqual(1, len(controllers))
        phases = [phase for phase in record.phases if phase.job.job_id]
        self.assertEqual(3, len(phases))
        for phase in phases:
            job = phase.job
            self.assertEqual(tuple(controllers), phase.master_nodes)
            self.assertEqual(set(), controllers & job.nodes.keys())
            for task_type in ('maps', 'reduces'):
                self.assertEqual(
                    getattr(job, task_type),
                    sum(node.get(task_type, 0) for node in job.nodes.values()),
                )
