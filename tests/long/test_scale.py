# SPDX-License-Identifier: Apache-2.0
"""A member's cluster gets smaller under a job, larger, and other workers."""

import threading
from collections import Counter

from hvstack import processutils
from hvstack.cluster import topology_refresh
from tests.long.biglab import BigLabTest

ROWS = 1_000_000
EXAMPLES = 'hadoop jar /opt/hadoop/lib/hadoop-mapreduce-examples-*.jar'


class ScaleTest(BigLabTest):
    NAME = 'hv-test-scale'
    HOSTS = 4
    MEMORY_MIB = 4096
    REPLICATION = 2

    def test_scale(self) -> None:
        cluster = self.create('i2')
        gateway = cluster.gateway
        gateway.run(f'{EXAMPLES} teragen -Dmapreduce.job.maps=6 {ROWS} /in')
        self.assertEqual([], self.done('topology', '--check'))
        servers, scripts = self.server_ids(), self.script_ids()
        self.assertEqual(7, len(servers))
        self.assertEqual(['worker_script'], list(scripts))

        # In by two under a sort, by the member alone.
        results: list[processutils.Result] = []
        sort = threading.Thread(
            target=lambda: results.append(
                gateway.run(
                    f'{EXAMPLES} terasort -Dmapreduce.job.reduces=4 /in /out',
                    timeout=1200,
                    check=False,
                )
            )
        )
        sort.start()
        self.until(
            lambda: topology_refresh.running_jobs(gateway) == 1, 'the job', 120
        )
        output = self.done('scale', '--workers', '4')
        sort.join(1200)
        self.assertEqual(0, results[0].returncode, results[0].stderr[-2000:])
        self.assertEqual(2, len(output['removed']))
        self.assertEqual(4, len(output['workers_now']))
        for name in output['removed']:
            self.assertNotIn(name, output['workers_now'])
        self.check_kept(servers, scripts)
        self.assertEqual(5, len(self.server_ids()))
        # Of what Heat has taken away it hears no more, a while later.
        self.until(lambda: self.live(cluster) == 4, 'HDFS to notice')
        self.assertIn('Status: HEALTHY', self.fsck(cluster))
        self.assertTrue(self.whole(cluster), self.fsck(cluster))
        gateway.run(f'{EXAMPLES} teravalidate /out /report', timeout=600)
        self.assertEqual([], self.done('topology', '--check'))
        gateway.run('hdfs balancer -threshold 1', timeout=600)
        self.assertEqual([], self.done('topology', '--check'))

        # Nothing more may go where three hosts would be one.
        self.assertEqual(2, self.hvstack('scale', '--workers', '1').returncode)

        # Out by one: it knows its host before its first block.
        output = self.done('scale', '--workers', '5')
        self.assertEqual(5, len(output['workers_now']))
        self.assertEqual(5, self.live(cluster))
        self.assertEqual([], self.done('topology', '--check'))
        self.check_kept(servers, scripts)
        self.assertEqual(6, len(self.server_ids()))

        self.replace()
        self.assertEqual([], self.done('topology', '--check'))
        self.assertTrue(self.whole(cluster), self.fsck(cluster))

    def replace(self) -> None:
        """Mark a worker unhealthy, and disable its host."""
        rows = [
            row for row in self.done('topology') if row['Role'] == 'worker'
        ]
        # Five of six places are taken: the free one is on another host than
        # those that have two.
        counts = Counter(row['Host'] for row in rows)
        row = next(row for row in rows if counts[row['Host']] == 2)
        server = self.member.compute.find_server(row['Node'])
        service = next(
            self.conn.compute.services(
                binary='nova-compute', host=self.host_of(server.id)
            )
        )
        self.conn.compute.disable_service(service)
        self.addCleanup(self.conn.compute.enable_service, service)
        output = self.done('scale', '--replace', row['Node'])
        self.assertEqual([row['Node']], output['replaced'])
        self.assertEqual(5, len(output['workers_now']))
        now = {row['Node']: row['Host'] for row in self.done('topology')}
        self.assertNotEqual(row['Host'], now[row['Node']])
