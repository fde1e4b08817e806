# SPDX-License-Identifier: Apache-2.0
"""Two compute clusters on one HDFS sort at once, on clusters like Hadoop."""

import contextlib
import io
import threading
import time
from collections.abc import Iterator
from typing import Any

import testtools

from hvstack import errors, processutils
from hvstack.cluster.base import ClusterNodes
from hvstack.progress import Progress
from hvstack.results import observations, typed_json
from hvstack.tpcxhs import second_cluster
from hvstack.tpcxhs.deadlines import DEFAULT_LIMITS
from hvstack.tpcxhs.second_cluster import PARENT, SecondClusterSpec
from tests.unit.tpcxhs.test_compute_scaling import (
    WORKLOAD,
    Controller,
    Worker,
)


class SortingController(Controller):
    """A controller that keeps the commands of its jobs.

    :param barrier: where sorts of both clusters wait for each other.
    """

    def __init__(self, barrier: threading.Barrier, *args: str) -> None:
        super().__init__(*args)
        self.barrier = barrier
        self.commands: list[str] = []

    def run(self, command: str, **options: Any) -> processutils.Result:
        if 'hadoop jar' in command or '-skipTrash' in command:
            self.commands.append(command)
        if ' terasort ' in command:
            self.barrier.wait(10)
            time.sleep(0.01)
        return super().run(command, **options)


class SecondClusterTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        # Each sort begins before the other ends.
        barrier = threading.Barrier(2)
        self.controller = SortingController(barrier, 'c', '10.0.0.1', 'h1')
        self.other = SortingController(barrier, 'c2', '10.0.0.2', 'h2')
        self.events: list[str] = []

    def build_cluster(
        self, controller: Controller, *numbers: int
    ) -> ClusterNodes:
        controller.addresses = [f'10.0.1.{number}' for number in numbers]
        return ClusterNodes(
            controller.name,
            controller,
            [
                Worker(f'k{number}', f'10.0.1.{number}', 'h2')
                for number in numbers
            ],
            1,
        )

    def resize(self, count: int, job_seconds: float) -> ClusterNodes:
        self.assertGreater(job_seconds, 60)
        self.events.append(f'resize {count}')
        return self.build_cluster(self.controller, *range(1, count + 1))

    def release(self, cluster: Any) -> None:
        self.events.append(f'release {len(cluster.workers)}')

    @contextlib.contextmanager
    def create(self, first: Any) -> Iterator[ClusterNodes]:
        self.events.append(f'create beside {len(first.workers)}')
        try:
            yield self.build_cluster(self.other, 2)
        finally:
            self.events.append('delete')

    def share(self, workers: int = 1) -> dict[str, Any]:
        spec = SecondClusterSpec(
            workers, self.resize, self.release, self.create
        )
        observed: Any = second_cluster.share_hdfs(
            self.build_cluster(self.controller, 1, 2),
            spec,
            WORKLOAD,
            DEFAULT_LIMITS,
            Progress(stream=io.StringIO()),
        )
        self.assertEqual(['second_cluster'], list(observed))
        read = typed_json.read(observations.Observations, observed)
        assert read.second_cluster is not None
        return observed['second_cluster']

    def test_both_clusters_sort(self) -> None:
        observed = self.share()
        self.assertEqual(
            [
                'resize 1',
                'release 2',
                'create beside 1',
                'delete',
                'resize 2',
                'release 1',
            ],
            self.events,
        )
        self.assertEqual(
            (1, 1, 1, 0),
            tuple(
                observed[name]
                for name in ('workers', 'first_workers', 'tasks', 'missing')
            ),
        )
        self.assertEqual(
            (1, 1), (len(self.controller.history), len(self.other.history))
        )

    def test_each_has_an_output(self) -> None:
        self.share()
        for controller, has_own in (
            (self.controller, False),
            (self.other, True),
        ):
            self.assertEqual(3, len(controller.commands))
            for command in controller.commands:
                self.assertEqual(has_own, PARENT in command, command)
            # The input is the same.
            self.assertIn('/benchmarks/tpcx-hs/input', controller.commands[1])

    def test_missing_blocks(self) -> None:
        self.controller.missing = 2
        self.assertEqual(2, self.share()['missing'])

    def test_outputs_that_differ(self) -> None:
        # The NameNode, which has both reports, is on the first controller.
        self.controller.checksums = ['ff', 'fe']
        error = self.assertRaises(errors.RunFailedError, self.share)
        self.assertIn('differs from that of the first one', str(error))
        self.assertEqual('delete', self.events[-1])

    def test_sorts_one_after_the_other(self) -> None:
        sorts = [
            second_cluster.Sort('', started_at, 5.0)
            for started_at in (10.0, 12.0, 15.0, 20.0)
        ]
        self.assertEqual(
            [5.0, 3.0, 0.0, 0.0],
            [
                second_cluster._compute_overlap(sorts[0], other)
                for other in sorts
            ],
        )

    def test_too_few_compute_workers(self) -> None:
        error = self.assertRaises(errors.RunFailedError, self.share, 2)
        self.assertIn("or a smaller 'second_cluster'", str(error))
        self.assertEqual([], self.events)
