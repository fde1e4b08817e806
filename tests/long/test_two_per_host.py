# SPDX-License-Identifier: Apache-2.0
"""Two workers on each host, with plain OpenStack, by a member.

The lab is up. It becomes one of three lxc hosts, the first for the
controller, and what it was before at the end.
"""

import time
from collections import Counter
from pathlib import Path

import fixtures

from hvstack.cloud import keypairs, stacks
from hvstack.cluster.ssh import SSHAccess
from hvstack.cluster.stack import StackCluster
from hvstack.model.configuration import parse
from tests.functional import test_templates as templates
from tests.long import jobs
from tests.long.biglab import BigLabTest


class TwoPerHostTest(BigLabTest):
    NAME = 'hv-test-two'
    HOSTS = 3
    MEMORY_MIB = 4096
    REPLICATION = 2

    def test_two_per_host(self) -> None:
        chosen = parse('i2')
        names = templates.published(self.conn, self.member, chosen)
        key = keypairs.create(self.member, self.NAME)
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        path = templates.written(
            directory / 'cluster.yaml',
            names,
            *('--configuration', 'i2', '--hosts', '2'),
            *('--key-name', self.NAME),
        )
        self.addCleanup(stacks.delete, self.member, self.NAME)
        started_at = time.monotonic()
        templates.created(self.NAME, path)
        outputs = stacks.outputs(self.member, self.NAME)
        # By Nova's own answer, to the administrator and to the member.
        self.assertEqual(
            {'hv-host2': 2, 'hv-host3': 2},
            Counter(
                self.host_of(worker['server_id'])
                for worker in outputs['workers']
            ),
        )
        self.assertEqual(
            [2, 2],
            list(
                Counter(
                    worker['host_id'] for worker in outputs['workers']
                ).values()
            ),
        )
        self.assertEqual(
            'hv-host1', self.host_of(outputs['controller']['server_id'])
        )
        with StackCluster.from_outputs(
            outputs, SSHAccess(key), name=self.NAME, processors=1
        ) as cluster:
            templates.ready(self, cluster, started_at)
            jobs.sort(self, cluster)
        self.done('topology', '--refresh')
        self.assertEqual([], self.done('topology', '--refresh', '--dry-run'))
        self.assertEqual([], self.done('topology', '--check'))
        stacks.delete(self.member, self.NAME)
        self.assertEqual([], list(self.member.compute.servers()))
