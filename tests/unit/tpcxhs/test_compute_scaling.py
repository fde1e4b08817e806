# SPDX-License-Identifier: Apache-2.0
"""Compute workers go and come, while sorts run on a cluster like Hadoop."""

import io
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import fixtures
import testtools

from hvstack import errors, processutils
from hvstack.cluster.base import ClusterNodes
from hvstack.progress import Progress
from hvstack.results import observations, typed_json
from hvstack.results.workload_types import TERASORT
from hvstack.tpcxhs import compute_scaling
from hvstack.tpcxhs.compute_scaling import ComputeScalingSpec
from hvstack.tpcxhs.deadlines import DEFAULT_LIMITS
from hvstack.tpcxhs.workload import Workload

WORKLOAD = Workload(10_000_000, 2, 4, 2, type=TERASORT)


@dataclass
class Worker:
    """A worker, on which nothing runs in these tests."""

    name: str
    address: str
    host: str
    role: str = 'compute'

    def run(self, command: str, **_options: Any) -> processutils.Result:
        raise NotImplementedError

    def put(self, text: str, path: str, mode: int = 0o644) -> None:
        raise NotImplementedError


@dataclass
class Controller(Worker):
    """A controller with the daemons; each sort has a task on each worker.

    :param addresses: addresses of the current compute workers.
    :param checksums: checksums of the outputs, the last one again and again.
    :param missing: number of blocks without a replica.
    :param history: addresses of the tasks of each sort.
    :param sorted: whether YARN has run a job.
    """

    role: str = 'controller'
    addresses: list[str] = field(default_factory=list)
    checksums: list[str] = field(default_factory=lambda: ['ff'])
    missing: int = 0
    history: dict[str, list[str]] = field(default_factory=dict)
    sorted: threading.Event = field(default_factory=threading.Event)

    def run(self, command: str, **_options: Any) -> processutils.Result:
        return processutils.Result(0, self.answer(command), '')

    def answer(self, command: str) -> str:
        if 'terasort' in command and 'hadoop jar' in command:
            job = f'job_1_{len(self.history):04}'
            self.history[job] = list(self.addresses)
            self.sorted.set()
            return f'Running job: {job}\n'
        if 'teravalidate' in command:
            return 'Running job: job_2_0001\n'
        if 'op=LISTSTATUS' in command:
            statuses = {'FileStatus': [{'pathSuffix': 'part-r-00000'}]}
            return json.dumps({'FileStatuses': statuses})
        if 'op=OPEN' in command:
            checksum = self.checksums[0]
            del self.checksums[: len(self.checksums) > 1]
            return f'checksum\t{checksum}\n'
        if 'cluster/metrics' in command:
            metrics = {'appsRunning': int(self.sorted.is_set())}
            return json.dumps({'clusterMetrics': metrics})
        if 'NameNodeInfo' in command:
            bean = {'NumberOfMissingBlocks': self.missing}
            return json.dumps({'beans': [bean]})
        if 'topology.table' in command:
            return ''.join(self.list_events(command))
        return '{}'

    def list_events(self, command: str) -> list[str]:
        """Return the lines of the history files of jobs."""
        lines = []
        for job in sorted(set(self.history)):
            if job not in command:
                continue
            for number, address in enumerate(self.history[job]):
                attempt = f'attempt_{job[4:]}_m_{number:06}_0'
                task = f'task_{job[4:]}_m_{number:06}'
                start = {
                    'taskid': task,
                    'attemptId': attempt,
                    'startTime': 1000,
                }
                end = {
                    'taskid': task,
                    'attemptId': attempt,
                    'taskType': 'MAP',
                    'taskStatus': 'SUCCEEDED',
                    'hostname': address,
                    'finishTime': 2000,
                    'counters': {'name': 'TOTAL', 'groups': []},
                }
                for name, event in (
                    ('MapAttemptStarted', start),
                    ('MapAttemptFinished', end),
                ):
                    lines.append(
                        json.dumps(
                            {'type': name.upper(), 'event': {name: event}}
                        )
                        + '\n'
                    )
        return lines


class ScalingTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.controller = Controller('c', '10.0.0.1', 'h1')
        self.released: list[ClusterNodes] = []
        self.sizes: list[int] = []
        self.fail: Callable[[int], None] = lambda _: None
        self.new_address = 9

    def build_cluster(self, *numbers: int) -> ClusterNodes:
        """Return a cluster with a data worker and some compute workers."""
        self.controller.addresses = [f'10.0.1.{number}' for number in numbers]
        return ClusterNodes(
            'x',
            self.controller,
            [
                Worker('d0', '10.0.0.2', 'h2', 'data'),
                *(
                    Worker(f'k{number}', f'10.0.1.{number}', 'h2')
                    for number in numbers
                ),
            ],
            1,
        )

    def resize(self, count: int, job_seconds: float) -> ClusterNodes:
        # A worker that goes waits for the job that runs.
        self.assertGreater(job_seconds, 60)
        self.fail(count)
        self.sizes.append(count)
        if count == 1:
            return self.build_cluster(1)
        return self.build_cluster(1, self.new_address)

    def scale(self, workers: int = 1) -> dict[str, Any]:
        spec = ComputeScalingSpec(workers, self.resize, self.release)
        observed: Any = compute_scaling.scale(
            *(self.build_cluster(1, 2), spec, WORKLOAD, DEFAULT_LIMITS),
            Progress(stream=io.StringIO()),
        )
        self.assertEqual(['compute_scaling'], list(observed))
        read = typed_json.read(observations.Observations, observed)
        assert read.compute_scaling is not None
        return observed['compute_scaling']

    def release(self, cluster: Any) -> None:
        self.released.append(cluster)

    def test_workers_go_and_come(self) -> None:
        observed = self.scale()
        self.assertEqual([1, 2], self.sizes)
        self.assertEqual((1, 1), (observed['removed'], observed['added']))
        # A sort for each change at least, and one afterwards.
        self.assertGreaterEqual(observed['sorts'], 3)
        self.assertEqual(len(self.controller.history), observed['sorts'])
        self.assertEqual(1, observed['tasks_after'])
        self.assertEqual(0, observed['missing'])
        # Both clusters on which no sort runs any more.
        self.assertEqual(
            [3, 2], [len(cluster.workers) for cluster in self.released]
        )

    def test_a_worker_that_joins_no_job(self) -> None:
        """YARN has it, and no task runs on it."""
        self.new_address = 1
        self.assertEqual((0, 0), self.count_tasks(self.scale()))

    def count_tasks(self, observed: dict[str, Any]) -> tuple[int, int]:
        return observed['added'], observed['tasks_after']

    def test_missing_blocks(self) -> None:
        self.controller.missing = 2
        self.assertEqual(2, self.scale()['missing'])

    def test_a_sort_that_is_not_correct(self) -> None:
        for checksums, word in (
            (['ff', 'fe'], 'its checksum is fe, not ff'),
            (['ff\nmisorder x'], 'is not sorted: HSValidate reports'),
        ):
            self.controller.checksums = list(checksums)
            error = self.assertRaises(errors.RunFailedError, self.scale)
            self.assertIn(word, str(error))

    def test_a_change_that_fails(self) -> None:
        """The sort ends, and the cluster stays open."""

        def fail(_count: int) -> None:
            raise errors.CloudError('Heat refused.')

        self.fail = fail
        error = self.assertRaises(errors.CloudError, self.scale)
        self.assertEqual('Heat refused.', str(error))
        self.assertEqual([], self.released)

    def test_too_few_compute_workers(self) -> None:
        error = self.assertRaises(errors.RunFailedError, self.scale, 2)
        self.assertIn('the cluster has 2. Use more hosts', str(error))
        self.assertEqual({}, self.controller.history)

    def test_no_history(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(
                'tests.unit.tpcxhs.test_compute_scaling.Controller.'
                'list_events',
                lambda *_: [],
            )
        )
        error = self.assertRaises(errors.RunFailedError, self.scale)
        self.assertIn('no history of job_1_', str(error))
