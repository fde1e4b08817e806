# SPDX-License-Identifier: Apache-2.0
"""Four studies: killed, resumed, and judged; and one that scales clusters.

The first is killed while its second cluster is created, the second in the
middle of a sort, the third while a host has no power, and the fourth while two
compute clusters sort. The last one removes and adds a compute worker while
sorts run.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import processutils
from hvstack.cloud import connection, journal
from hvstack.lab import hosts, settings
from hvstack.lab.hosts import host
from hvstack.study import study_store
from hvstack.study.study_store import StartedStudy
from hvstack.sweep import sweep_store
from tests.long import labs

HVSTACK = str(Path(sys.executable).with_name('hvstack'))
SLOW_START = """\
question: Does a late start of the reduces pay off?
passes: 1
size: 10MB
varied:
  hadoop.mapreduce.job.reduce.slowstart.completedmaps: [0.05, 1.0]
claims:
- text: A late start of the reduces is faster.
  variant: 1.0
  against: 0.05
  rule: faster
"""
NODE_GROUPS = """\
question: Do two replicas share a host without node groups?
base: {configuration: i2, replication: 2}
passes: 1
size: 10MB
variants:
  HVE on: {node_groups: true}
  HVE off: {node_groups: false}
claims:
- text: With node groups, no block has two replicas on one host.
  variant: HVE on
  measure: blocks on one host
  rule: none
"""
LOSS = """\
question: Does a second replica keep all blocks when a host is lost?
base: {configuration: i1, lost_hosts: 1}
passes: 1
size: 10MB
variants:
  one replica: {replication: 1}
  two replicas: {replication: 2}
claims:
- text: With one replica, blocks are missing after the loss of a host.
  variant: one replica
  measure: missing blocks
  rule: some
- text: With two replicas, no block is missing after the loss of a host.
  variant: two replicas
  measure: missing blocks
  rule: none
"""
ELASTIC = """\
question: Can a compute worker go and come while sorts run?
base: {configuration: i2, deployment: 3, workload: terasort, scaled_compute: 1}
passes: 1
size: 10MB
variants:
  HVE on: {node_groups: true}
  HVE off: {node_groups: false}
claims:
- text: The added compute worker gets tasks.
  variant: HVE on
  measure: tasks on added workers
  rule: some
- text: No block is lost.
  variant: HVE on
  measure: missing blocks
  rule: none
- text: Without node groups, the added compute worker gets tasks, too.
  variant: HVE off
  measure: tasks on added workers
  rule: some
"""
SECOND = """\
question: Can two compute clusters use one HDFS?
base: {configuration: i2, deployment: 3, workload: terasort, second_cluster: 1}
passes: 1
size: 10MB
variants:
  HVE on: {node_groups: true}
  HVE off: {node_groups: false}
claims:
- text: The second cluster runs tasks.
  variant: HVE on
  measure: tasks of a second cluster
  rule: some
- text: Without node groups, the second cluster runs tasks, too.
  variant: HVE off
  measure: tasks of a second cluster
  rule: some
"""
CLOUD = ('--os-cloud', 'hvstack-lab')


class StudyTest(testtools.TestCase):
    """Takes about 3300 s."""

    def setUp(self) -> None:
        super().setUp()
        if not os.environ.get('HVSTACK_LAB'):
            self.skipTest('needs a lab that is up (make test)')
        self.path = Path(self.useFixture(fixtures.TempDir()).path) / 'own.yaml'
        self.entries = journal.entries()

    def test_kill_while_a_cluster_is_created(self) -> None:
        # Rally starts to prepare the next cluster.
        data = self.kill_and_resume(SLOW_START, '(1 of 2 runs remain)', 1)
        (claim,) = data['claims']
        self.assertEqual('not decided', claim['verdict'])
        self.assertEqual('too few runs for an interval', claim['reason'])
        self.assertGreater(claim['percent']['percent'], 0)

    def test_kill_in_a_sort(self) -> None:
        data = self.kill_and_resume(NODE_GROUPS, 'HSSort ...', 0)
        (claim,) = data['claims']
        self.assertEqual('holds', claim['verdict'])

    def test_kill_while_a_host_has_no_power(self) -> None:
        data = self.kill_and_resume(LOSS, 'loss 1 of 1: 1 host,', 0)
        first, second = data['claims']
        self.assertEqual(
            ['holds', 'holds'], [first['verdict'], second['verdict']]
        )

    def test_kill_with_two_compute_clusters(self) -> None:
        labs.change(self, hosts=4, controllers=2)
        data = self.kill_and_resume(SECOND, 'both clusters sort ...', 0)
        self.assertEqual(
            ['holds'] * 2, [claim['verdict'] for claim in data['claims']]
        )

    def test_compute_workers_go_and_come(self) -> None:
        self.path.write_text(ELASTIC, encoding='utf-8')
        processutils.run(
            [HVSTACK, 'study', 'run', str(self.path), *CLOUD], timeout=4800
        )
        started = study_store.list_started()[0][-1]
        self.assertEqual(2, len(self.list_records(started)))
        data = self.read_report(started)
        self.assertEqual(
            ['holds'] * 3,
            [claim['verdict'] for claim in data['claims']],
            data['claims'],
        )
        self.check_cloud()

    def read_report(self, started: StartedStudy) -> dict[str, Any]:
        """Return the report of a study as plain data."""
        report = processutils.run(
            [HVSTACK, 'study', 'report', started.id, '-f', 'json']
        ).stdout
        data: dict[str, Any] = json.loads(report)
        return data

    def kill_and_resume(
        self, text: str, line: str, run_count: int
    ) -> dict[str, Any]:
        """Kill a study, resume it, and check what both leave.

        :param text: study with two variants and one pass.
        :param line: part of the line of progress after which it is killed.
        :param run_count: number of valid runs before that.
        :returns: report of the study.
        """
        self.path.write_text(text, encoding='utf-8')
        self.kill_after(line)
        started = study_store.list_started()[0][-1]
        self.assertFalse(started.finished)
        first = self.list_records(started)
        self.assertEqual(run_count, len(first))
        processutils.run(
            [HVSTACK, 'study', 'resume', started.id, *CLOUD], timeout=2400
        )
        self.assertTrue(study_store.load(started.id).finished)
        records = self.list_records(started)
        self.assertEqual(2, len(records))
        self.assertLessEqual(set(first), set(records))
        self.check_cloud()
        data = self.read_report(started)
        self.assertEqual([1, 1], [item['runs'] for item in data['variants']])
        return data

    def kill_after(self, text: str) -> None:
        """Start the study, and kill it with SIGKILL after a line."""
        with subprocess.Popen(
            [HVSTACK, 'study', 'run', str(self.path), *CLOUD],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                assert process.stderr is not None
                lines = []
                for line in process.stderr:
                    lines.append(line)
                    if text in line:
                        time.sleep(2)
                        break
                else:
                    self.fail(f'no line with {text!r}: {"".join(lines)}')
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def check_cloud(self) -> None:
        """Check that the studies have left nothing, and all hosts run."""
        self.assertEqual(self.entries, journal.entries())
        cloud = connection.connect('hvstack-lab')
        self.addCleanup(cloud.close)
        self.assertEqual([], list(cloud.orchestration.stacks()))
        self.assertEqual([], list(cloud.compute.servers(all_projects=True)))
        for size in hosts.planned(settings.load() or settings.LabSettings()):
            states = set(host.agents(size.name).values())
            self.assertEqual({'RUNNING'}, states, size.name)

    def list_records(self, started: StartedStudy) -> list[str]:
        """Return the IDs of the valid records of a study."""
        return [
            run.id
            for variant in started.study.variants
            for run in sweep_store.load_records(started.get_sweep(variant))
            if run.valid
        ]
