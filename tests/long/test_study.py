# SPDX-License-Identifier: Apache-2.0
"""A study of a user: killed between two runs, resumed, and judged."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import fixtures
import testtools

from hvstack import processutils
from hvstack.cloud import connection, journal
from hvstack.study import study_store
from hvstack.study.study_store import StartedStudy
from hvstack.sweep import sweep_store

HVSTACK = str(Path(sys.executable).with_name('hvstack'))
STUDY = """\
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
CLOUD = ('--os-cloud', 'hvstack-lab')


class StudyTest(testtools.TestCase):
    """Takes about 400 s."""

    def setUp(self) -> None:
        super().setUp()
        if not os.environ.get('HVSTACK_LAB'):
            self.skipTest('needs a lab that is up (make test)')
        self.path = Path(self.useFixture(fixtures.TempDir()).path) / 'own.yaml'
        self.path.write_text(STUDY, encoding='utf-8')

    def test_kill_and_resume(self) -> None:
        entries = journal.entries()
        first = self.kill_after_first_run()
        started = study_store.list_started()[0][-1]
        self.assertFalse(started.finished)
        processutils.run(
            [HVSTACK, 'study', 'resume', started.id, *CLOUD], timeout=1200
        )
        self.assertTrue(study_store.load(started.id).finished)
        records = self.list_records(started)
        self.assertEqual(2, len(records))
        self.assertIn(first, records)
        report = processutils.run(
            [HVSTACK, 'study', 'report', started.id, '-f', 'json']
        ).stdout
        data = json.loads(report)
        self.assertEqual([1, 1], [item['runs'] for item in data['variants']])
        (claim,) = data['claims']
        self.assertEqual('not decided', claim['verdict'])
        self.assertEqual('too few runs for an interval', claim['reason'])
        self.assertGreater(claim['percent']['percent'], 0)
        self.assertEqual(entries, journal.entries())
        cloud = connection.connect('hvstack-lab')
        self.addCleanup(cloud.close)
        self.assertEqual([], list(cloud.orchestration.stacks()))

    def kill_after_first_run(self) -> str:
        """Kill the study with SIGKILL while the second run is prepared.

        :returns: ID of the record of the first run.
        """
        with subprocess.Popen(
            [HVSTACK, 'study', 'run', str(self.path), *CLOUD],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                assert process.stderr is not None
                for line in process.stderr:
                    if '(1 of 2 runs remain)' in line:
                        # Rally starts to prepare the next cluster.
                        time.sleep(2)
                        break
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        started = study_store.list_started()[0][-1]
        (first,) = self.list_records(started)
        return first

    def list_records(self, started: StartedStudy) -> list[str]:
        """Return the IDs of the valid records of a study."""
        return [
            run.id
            for variant in started.study.variants
            for run in sweep_store.load_records(started.get_sweep(variant))
            if run.valid
        ]
