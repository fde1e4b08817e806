# SPDX-License-Identifier: Apache-2.0
"""The topology of a member's cluster: shown, checked, mended."""

import json
import sys
from pathlib import Path

from hvstack import processutils
from hvstack.cloud import connection, undo
from hvstack.cluster import launch, planner
from hvstack.cluster.plan import ClusterSpec
from hvstack.hadoop.site_files import TABLE
from hvstack.hadoop.sizing import LAB
from hvstack.lab import clouds_yaml, identity, images
from hvstack.model.configuration import parse
from tests.functional.test_cluster import LabTest

HVSTACK = str(Path(sys.executable).with_name('hvstack'))
NAME = 'hv-test-topology'


class TopologyTest(LabTest):
    def hvstack(self, *args: str) -> processutils.Result:
        """Run a command for the cluster as the member."""
        command, *options = args
        return processutils.run(
            [
                *(HVSTACK, 'cluster', command, NAME),
                *(
                    '--os-cloud',
                    clouds_yaml.MEMBER_CLOUD,
                    '-f',
                    'json',
                    *options,
                ),
            ],
            timeout=400,
            check=False,
        )

    def setUp(self) -> None:
        super().setUp()
        images.upload(identity.connect(), images.build('hadoop'), 'lxc')
        member = connection.connect(clouds_yaml.MEMBER_CLOUD)
        self.addCleanup(undo.undo_own, [self.conn, member])
        plan = planner.plan_cluster(
            self.conn, ClusterSpec(parse('i1'), tuning=LAB), self.options
        )
        self.cluster, _ = launch.launch(
            self.conn,
            member,
            plan,
            launch.publish(self.conn, plan, [str(member.current_project_id)]),
            NAME,
            self.options,
        )
        self.addCleanup(self.cluster.close)

    def test_topology(self) -> None:
        rows = json.loads(self.hvstack('topology').stdout)
        roles = [row['Role'] for row in rows]
        self.assertEqual(['controller', 'worker', 'worker'], roles)
        self.assertEqual(3, len({row['Host'] for row in rows}))

        gateway = self.cluster.gateway
        gateway.run('hdfs dfs -put /opt/hadoop/log4j.properties /a')
        clean = self.hvstack('topology', '--check')
        self.assertEqual((0, []), (clean.returncode, json.loads(clean.stdout)))

        worker = self.cluster.workers[0].name
        gateway.run(f"sed -i 's:^{worker} .*:{worker} /r/ng-x:' {TABLE}")
        done = self.hvstack('topology', '--check')
        self.assertEqual(1, done.returncode)
        (mismatch,) = json.loads(done.stdout)
        self.assertEqual(
            (worker, '/r/ng-x'), (mismatch['Where'], mismatch['Found'])
        )

        self.assertEqual(0, self.hvstack('topology', '--refresh').returncode)
        self.assertEqual(0, self.hvstack('topology', '--check').returncode)

        refused = self.hvstack('scale', '--workers', '1', '--dry-run')
        self.assertEqual(2, refused.returncode)
        self.assertIn('on 1 hosts', refused.stderr)
        same = json.loads(self.hvstack('scale', '--dry-run').stdout)
        self.assertEqual((2, []), (same['workers'], same['removed']))
