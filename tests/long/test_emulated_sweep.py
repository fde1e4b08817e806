# SPDX-License-Identifier: Apache-2.0
"""A sweep over what only virtual machines have. The lab is up.

It becomes two emulated hosts with Ceph, and what it was before at the end.
"""

import json
import os
import sys
from pathlib import Path

import testtools

from hvstack import processutils
from hvstack.cloud import connection, journal
from hvstack.cluster import acquired_hosts
from hvstack.lab import clouds_yaml
from hvstack.report.sweep_rows import EMULATED
from hvstack.sweep import recovery, sweep_store
from tests.long import labs

HVSTACK = str(Path(sys.executable).with_name('hvstack'))
#: Clusters are up after some six minutes, a run takes ten.
SECONDS = 4 * 3600


class EmulatedSweepTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        if not os.environ.get('HVSTACK_LAB'):
            self.skipTest('needs a lab that is up (make test)')
        # A host with servers does not change.
        recovery.recover([connection.connect(clouds_yaml.ADMIN_CLOUD)])
        labs.change(
            self,
            {'dedicated': {}, 'host_sizes': {}},
            hosts=2,
            fake_hosts=0,
            racks=0,
            compute='qemu',
            host_compute={},
            ceph=True,
            ceph_copies=1,
        )
        self.cloud = connection.connect(clouds_yaml.ADMIN_CLOUD)
        self.addCleanup(self.cloud.close)
        self.addCleanup(recovery.recover, [self.cloud])

    def test_storage_cpu_policy_and_disk_pinning(self) -> None:
        done = processutils.run(
            [
                *(
                    HVSTACK,
                    'sweep',
                    'run',
                    '--os-cloud',
                    clouds_yaml.ADMIN_CLOUD,
                ),
                *('--host', 'lab-worker', '--backend', 'qemu'),
                *('--size', '1MB', '--runs', '1', '--values'),
                *('storage=ceph,local', 'cpu_policy=shared,dedicated'),
                'disk_pinning=off,on',
                *('--strategy', 'full-factorial'),
            ],
            timeout=SECONDS,
            check=False,
        )
        output = done.stdout + done.stderr[-3000:]
        self.addDetail('said', testtools.content.text_content(output))
        self.assertEqual(0, done.returncode)
        records = sweep_store.load_records(sweep_store.list_sweeps()[-1].id)
        names = {run_record.configuration for run_record in records}
        for part in ('ceph', 'local', 'shared', 'dedicated', 'pinned'):
            self.assertTrue(
                any(part in name.split('-') for name in names), part
            )
        for run_record in records:
            self.assertTrue(run_record.valid, run_record.reason)
            self.assertEqual('configuration', run_record.kind)
        report = processutils.run(
            [HVSTACK, 'report', records[0].sweep, '-f', 'json']
        )
        rows = json.loads(report.stdout)['rows']
        self.assertEqual(len(names), len(rows))
        for row in rows:
            self.assertEqual(EMULATED, row['percent_of_bare_metal'])
        # Nothing is left.
        self.assertEqual([], journal.entries())
        self.assertEqual([], list(self.cloud.orchestration.stacks()))
        self.assertEqual([], list(self.cloud.block_storage.volumes()))
        self.assertEqual(
            [], list(acquired_hosts.ACQUIRED_HOSTS_DIR.glob('*.json'))
        )
