# SPDX-License-Identifier: Apache-2.0
"""Tests of hvstack.tpcxhs.job_memory."""

import json
import re
from typing import Any

import testtools

from hvstack import processutils
from hvstack.tpcxhs import job_memory


class Manager:
    """A ResourceManager with NodeManagers of some sizes in MiB.

    Its JobHistory server has the options of a tuning profile.
    """

    name = 'c'
    address = '10.0.0.1'
    role = 'controller'

    def __init__(
        self, *sizes: int, labelled: int = 0, options: str = '-Xmx249m'
    ) -> None:
        self.sizes = sizes
        self.labelled = labelled
        self.options = options
        self.queries = 0

    def put(self, text: str, path: str, mode: int = 0o644) -> None:
        raise NotImplementedError

    def run(self, command: str, **_: Any) -> processutils.Result:
        self.queries += 1
        name = 'yarn.app.mapreduce.am.command-opts'
        if f'/conf?name={name}' in command:
            answer = {'property': {'key': name, 'value': self.options}}
            return processutils.Result(0, json.dumps(answer), '')
        nodes = [
            {'usedMemoryMB': 512, 'availMemoryMB': size - 512}
            for size in self.sizes
        ]
        if self.labelled:
            node = {'usedMemoryMB': 0, 'availMemoryMB': self.labelled}
            nodes.append({**node, 'nodeLabels': ['am']})
        text = json.dumps({'nodes': {'node': nodes}})
        return processutils.Result(0, text, '')


class JobMemoryTest(testtools.TestCase):
    def test_small_job(self) -> None:
        manager = Manager(4096)
        self.assertEqual([], job_memory.master_options(manager, 1364, 40))
        self.assertEqual(0, job_memory.client_mib(682, 2_000_000))
        self.assertEqual(0, manager.queries)

    def test_table_1(self) -> None:
        """vsphere6: 111,848 map tasks and 682 reduce tasks for 30 TB."""
        resource, command, limit = job_memory.master_options(
            Manager(33_000, 66_000), 111_848 + 682, 40
        )
        heap = int(re.search(r'-Xmx(\d+)m', command)[1])  # type: ignore[index]
        self.assertGreater(heap, 3072)
        self.assertLess(heap, 8192)
        self.assertEqual(
            f'-Dyarn.app.mapreduce.am.resource.mb={int(heap / 0.8)}', resource
        )
        self.assertIn('-XX:ActiveProcessorCount=40', command)
        # 223,600 splits of 128 MiB have 12 MB; Hadoop's limit is 10 MB.
        self.assertEqual('-Dmapreduce.job.split.metainfo.maxsize=-1', limit)
        client = job_memory.client_mib(111_848, 2_000_000)
        self.assertGreater(client, 512)

    def test_tuning_profile_has_more(self) -> None:
        """vsan, Table 6, has 1720 MiB, of which 3 TB need 621."""
        tasks = 11_390 + 377
        for options, count in (
            ('-Xmx1720m -XX:+UseSerialGC', 0),
            ('-Xmx1720m -Xmx615m', 2),
            ('-XX:MaxRAMPercentage=80', 2),
        ):
            *memory, limit = job_memory.master_options(
                Manager(33_000, options=options), tasks, 40
            )
            self.assertIn('metainfo.maxsize', limit)
            self.assertEqual(count, len(memory), options)
        self.assertIsNone(job_memory.master_mib(tasks, 33_000, 1720))

    def test_node_is_smaller(self) -> None:
        """vsphere6, 20 VMs: two containers of 1500 MiB on each worker."""
        resource, command, _ = job_memory.master_options(
            Manager(3000, 3000), 111_936 + 636, 2
        )
        self.assertEqual('-Dyarn.app.mapreduce.am.resource.mb=3000', resource)
        self.assertIn('-Xmx2400m', command)

    def test_node_of_the_masters_counts_alone(self) -> None:
        for labelled, expected in ((2000, 2000), (66_000, 4716)):
            resource, *_ = job_memory.master_options(
                Manager(3000, 33_000, labelled=labelled), 111_936 + 636, 2
            )
            self.assertEqual(
                f'-Dyarn.app.mapreduce.am.resource.mb={expected}', resource
            )
