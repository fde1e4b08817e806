# SPDX-License-Identifier: Apache-2.0
"""Two compute clusters on one HDFS, which work at the same time.

HVE paper, "Virtual Hadoop": several compute clusters share a data service. The
lab is up. It becomes one of five lxc hosts, two of them for controllers, and
what it was before at the end. All clusters are the member's, who creates them
with OpenStack's own client.
"""

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fixtures
import testtools
import yaml

from hvstack import errors, processutils
from hvstack.cloud import keypairs, stacks
from hvstack.cluster.base import Node
from hvstack.cluster.ssh import SSHAccess
from hvstack.cluster.stack import StackCluster
from hvstack.hadoop import daemon_http, fsck
from hvstack.lab import clouds_yaml
from hvstack.model.configuration import parse
from tests.functional import test_templates as templates
from tests.long.biglab import HVSTACK, BigLabTest

EXAMPLES = 'hadoop jar /opt/hadoop/lib/hadoop-mapreduce-examples-*.jar'
#: 20 MB, of which each map sorts 5 MB.
ROWS, SPLIT = 200_000, 5_000_000
ROW_BYTES = 100
#: Each of the two programs; both clusters work at once.
JOB_SECONDS = 900


class SharedHDFSTest(BigLabTest):
    NAME = 'hv-test-data'
    COMPUTE = 'hv-test-compute'
    HOSTS = 5
    CONTROLLERS = 2
    MEMORY_MIB = 3584
    CPU_CAP = 1.0
    REPLICATION = 2

    def setUp(self) -> None:
        super().setUp()
        self.temp_dir = Path(self.useFixture(fixtures.TempDir()).path)
        keypairs.create(self.member, self.NAME)
        self.flavors = templates.published(self.conn, self.member, parse('i2'))
        self.addOnException(self.tell)

    def tell(self, _: object) -> None:
        """Keep what the controllers' logs say where the test fails."""
        for name in (self.NAME, self.COMPUTE):
            try:
                with self.opened(name) as cluster:
                    output = cluster.manager.run(
                        'tail -n 60 /var/log/hadoop/*.log /var/log/hadoop/'
                        '*.out; cat /etc/hadoop/topology.table',
                        check=False,
                        timeout=60,
                    ).stdout
            except errors.HVStackError as exc:
                output = str(exc)
            self.addDetail(name, testtools.content.text_content(output))

    def written(self, name: str, *args: str) -> Path:
        """Write the environment of a stack; it has the member's key pair."""
        return templates.written(
            self.temp_dir / f'{name}.yaml',
            self.flavors,
            # One worker with data per host, in one of its two slots.
            *('--configuration', 'i1', '--key-name', self.NAME, *args),
        )

    def create_stack(self, name: str, *args: str) -> dict[str, Any]:
        """Create a stack with OpenStack's own client; return its outputs."""
        path = self.written(name, *args)
        # Later clean-ups run first: the compute cluster's before the other's.
        self.addCleanup(stacks.delete, self.member, name)
        templates.created(name, path)
        # The controller has sent its host key; sshd may need a while more.
        with self.opened(name) as cluster:
            self.until(
                lambda: (
                    not cluster.manager.run('true', check=False).returncode
                ),
                f'the controller of {name} to answer',
            )
        return dict(stacks.outputs(self.member, name))

    def call(self, command: str, name: str, *args: str) -> processutils.Result:
        """Run a command for one of the clusters as the member."""
        return processutils.run(
            [
                *(HVSTACK, 'cluster', command, name, '-f', 'json'),
                *('--os-cloud', clouds_yaml.MEMBER_CLOUD),
                *('--key', str(keypairs.DIRECTORY / self.NAME), *args),
            ],
            timeout=1200,
            check=False,
        )

    def answer(self, command: str, name: str, *args: str) -> Any:
        """Return the answer of a command that must go well."""
        result = self.call(command, name, *args)
        self.assertEqual(0, result.returncode, result.stderr[-2000:])
        return json.loads(result.stdout)

    def opened(self, name: str) -> StackCluster:
        """Return a cluster; its own controller is the manager."""
        return StackCluster.from_outputs(
            stacks.outputs(self.member, name),
            SSHAccess(keypairs.DIRECTORY / self.NAME),
            name=name,
            processors=1,
        )

    def sort(self, client: Node, directory: str) -> None:
        """Generate, sort and validate 20 MB below a directory."""
        for program, operands in (
            ('teragen -Dmapreduce.job.maps=2', f'{ROWS} {directory}/in'),
            (
                'terasort -Dmapreduce.job.reduces=2 '
                f'-Dmapreduce.input.fileinputformat.split.maxsize={SPLIT}',
                f'{directory}/in {directory}/out',
            ),
            ('teravalidate', f'{directory}/out {directory}/report'),
        ):
            client.run(f'{EXAMPLES} {program} {operands}', timeout=JOB_SECONDS)

    def check_sorted(self, client: Node, directory: str) -> None:
        """Check the report, and the size of what was sorted."""
        report = client.run(f"hdfs dfs -cat '{directory}/report/part*'").stdout
        self.assertEqual(1, len(report.strip().splitlines()), report)
        self.assertTrue(report.startswith('checksum'), report)
        parts = client.run(f"hdfs dfs -du '{directory}/out/part-r-*'").stdout
        sizes = [int(line.split()[0]) for line in parts.splitlines()]
        self.assertEqual(ROWS * ROW_BYTES, sum(sizes))

    def sort_at_once(self, clients: Mapping[str, Node]) -> None:
        """Sort on several clusters at the same time.

        :param clients: controllers of the clusters by directory in HDFS.
        """
        failures: list[errors.HVStackError] = []

        def attempt(client: Node, directory: str) -> Callable[[], None]:
            def work() -> None:
                try:
                    self.sort(client, directory)
                except errors.HVStackError as exc:
                    failures.append(exc)

            return work

        threads = [
            threading.Thread(target=attempt(client, directory))
            for directory, client in clients.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(4 * JOB_SECONDS)
        self.assertEqual([], failures)
        for directory, client in clients.items():
            self.check_sorted(client, directory)

    def task_nodes(self, manager: Node) -> set[str]:
        """Return the nodes that ran tasks of the jobs that are recorded.

        ApplicationMasters run on the controller.
        """
        history = '/ws/v1/history/mapreduce/jobs'

        def get(path: str) -> Any:
            return daemon_http.get_json(manager, 'historyserver', path)

        jobs = daemon_http.list_elements((get(history)['jobs'] or {})['job'])
        nodes = set()
        for job in jobs:
            self.assertEqual('SUCCEEDED', job['state'])
            path = f'{history}/{job["id"]}'
            tasks = get(f'{path}/tasks')['tasks']['task']
            for task in daemon_http.list_elements(tasks):
                attempts = get(f'{path}/tasks/{task["id"]}/attempts')
                for attempt in daemon_http.list_elements(
                    attempts['taskAttempts']['taskAttempt']
                ):
                    nodes.add(
                        str(attempt['nodeHttpAddress']).rpartition(':')[0]
                    )
        return nodes

    def count_jobs(self, manager: Node) -> int:
        """Return how many jobs a JobHistory server has."""
        answer = daemon_http.get_json(
            manager, 'historyserver', '/ws/v1/history/mapreduce/jobs'
        )
        jobs = answer['jobs'] or {}
        return len(daemon_http.list_elements(jobs.get('job')))

    def check_placement(self, data: Node, outputs: Mapping[str, Any]) -> None:
        """All blocks are on the workers with data of the first stack."""
        addresses = {worker['address'] for worker in outputs['workers']}
        files = fsck.run(data)
        blocks = [block for file in files for block in file.blocks]
        self.assertTrue(any(file.path.startswith('/b/out') for file in files))
        for block in blocks:
            self.assertTrue(set(block.addresses) <= addresses, block)
        self.assertIn('Status: HEALTHY', self.fsck_of(data))

    def fsck_of(self, data: Node) -> str:
        """Return the output of fsck for everything."""
        return data.run('hdfs fsck /', check=False).stdout

    def nodes_of(self, outputs: Mapping[str, Any]) -> set[str]:
        """Return names and addresses of the compute workers."""
        return {
            worker[key]
            for worker in outputs['compute']
            for key in ('name', 'address')
        }

    def check_refusals(self) -> None:
        """Check that Heat is not asked for what cannot work."""
        for part, *args in (
            ('does not exist', '--hdfs-of', 'hv-no'),
            ('compute cluster itself', '--hdfs-of', self.COMPUTE),
        ):
            failure = self.assertRaises(
                errors.CommandError,
                self.written,
                'refused',
                *('--hosts', '1', *args),
            )
            self.assertIn(part, str(failure))

    def test_two_compute_clusters(self) -> None:
        # Three hosts with two slots each: two workers with data, and two
        # compute workers each for two clusters.
        data_outputs = self.create_stack(
            self.NAME,
            *('--hosts', '2', '--workers', '2', '--deployment', '3'),
            *('--compute-per-host', '1'),
        )
        self.answer('topology', self.NAME, '--refresh')
        self.assertEqual([], self.answer('topology', self.NAME, '--check'))
        data = self.opened(self.NAME)
        self.addCleanup(data.close)

        compute_outputs = self.create_stack(
            self.COMPUTE,
            *('--hosts', '1', '--compute-per-host', '2'),
            *('--hdfs-of', self.NAME),
        )
        path = self.temp_dir / f'{self.COMPUTE}.yaml'
        values = yaml.safe_load(path.read_text())['parameters']
        self.assertEqual(
            data_outputs['controller']['address'], values['hdfs_address']
        )
        self.assertFalse(compute_outputs.get('workers'))
        self.assertEqual(
            data_outputs['hdfs']['stack'], compute_outputs['hdfs_stack']
        )
        self.check_refusals()
        self.answer('topology', self.COMPUTE, '--refresh')
        for name in (self.NAME, self.COMPUTE):
            self.assertEqual([], self.answer('topology', name, '--check'))
        compute = self.opened(self.COMPUTE)
        self.addCleanup(compute.close)
        # The nodes of both are in the NameNode's table.
        table = data.gateway.run('cat /etc/hadoop/topology.table').stdout
        for address in (
            *(node['address'] for node in compute_outputs['compute']),
            *(node['address'] for node in data_outputs['workers']),
        ):
            self.assertIn(f'{address} /', table)

        self.sort_at_once({'/a': data.manager, '/b': compute.manager})
        self.check_placement(data.gateway, data_outputs)
        for manager, outputs in (
            (data.manager, data_outputs),
            (compute.manager, compute_outputs),
        ):
            # A JobHistory server reads a job a while after its end.
            self.until(
                lambda manager=manager: self.count_jobs(manager) == 3,
                'the three jobs of a cluster alone',
            )
            nodes = self.task_nodes(manager)
            self.assertNotEqual(set(), nodes)
            self.assertEqual(set(), nodes - self.nodes_of(outputs))

        # One goes and comes back; HDFS and the other cluster see nothing.
        for count in ('1', '2'):
            after = self.answer(
                'scale', self.COMPUTE, '--compute-workers', count
            )
            self.assertEqual(int(count), len(after['workers_now']))
            for name in (self.NAME, self.COMPUTE):
                self.assertEqual([], self.answer('topology', name, '--check'))
        self.assertEqual(
            '',
            data.gateway.run('cat /etc/hadoop/excluded', check=False).stdout,
        )
        self.assertEqual(
            2, self.call('scale', self.COMPUTE, '--workers', '1').returncode
        )

        stacks.delete(self.member, self.COMPUTE)
        self.answer('topology', self.NAME, '--refresh')
        table = data.gateway.run('cat /etc/hadoop/topology.table').stdout
        self.assertNotIn(self.COMPUTE, table)
        self.assertEqual([], self.answer('topology', self.NAME, '--check'))
        self.sort(data.manager, '/c')
        self.check_sorted(data.manager, '/c')
        self.check_sorted(data.manager, '/b')
        stacks.delete(self.member, self.NAME)
        self.assertEqual([], list(self.member.compute.servers()))
