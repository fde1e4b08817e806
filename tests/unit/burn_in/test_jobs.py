# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of Hadoop in a burn-in, with outputs written by hand.

See :mod:`tests.unit.burn_in.outputs`.
"""

import io

import testtools

from hvstack import errors, processutils
from hvstack.burn_in import jobs, measures
from hvstack.burn_in.runner import (
    BurnIn,
    BurnInPlan,
    BurnInRow,
    compare_rows,
)
from hvstack.progress import Progress
from tests.unit.burn_in import fake
from tests.unit.cluster.fake import FakeCluster


class JobsTest(testtools.TestCase):
    """A controller that starts jobs, and two workers."""

    def setUp(self) -> None:
        super().setUp()
        self.log = io.StringIO()
        self.nodes = fake.make_nodes(3)
        self.controller = self.nodes[0]
        self.controller.role = 'controller'
        self.cluster = FakeCluster()
        self.cluster.gateway = self.cluster.manager = self.controller
        self.cluster.workers = [*self.nodes[1:]]

    def make(
        self,
        *chosen: measures.Measure,
        rounds: int = 1,
        size_bytes: int = 256_000_000,
    ) -> BurnIn:
        return BurnIn(
            self.nodes,
            BurnInPlan(chosen, rounds, size_bytes),
            Progress(stream=self.log),
            self.cluster,
        )

    def run_all(
        self, *chosen: measures.Measure, rounds: int = 1
    ) -> list[BurnInRow]:
        burn_in = self.make(*chosen, rounds=rounds)
        self.token = burn_in.processes.token
        rows = burn_in.prepare()
        burn_in.run(rows)
        return rows

    def list_commands(self, part: str) -> list[str]:
        return [
            command for command in self.controller.commands if part in command
        ]

    def test_row_of_the_cluster(self) -> None:
        rows = self.run_all(jobs.DFSIO_WRITE, rounds=2)
        (row,) = rows
        self.assertEqual(((), ()), (row.subject.nodes, row.subject.hosts))
        self.assertEqual(2, len(row.values))
        tag = f'hvstack-burn-in-{self.token}'
        self.assertEqual(
            (
                *('write', f'/benchmarks/{tag}', 2, '244MB'),
                f'-Dmapreduce.job.tags={tag}',
            ),
            row.args,
        )
        (verdict,) = compare_rows(rows, 10)
        self.assertEqual('not compared (fewer than 3)', verdict.text)

    def test_files_are_deleted(self) -> None:
        self.run_all(jobs.DFSIO_READ)
        path = f'/benchmarks/hvstack-burn-in-{self.token}'
        (command,) = self.list_commands('/webhdfs/')
        self.assertIn(path, command)
        self.assertEqual([], self.list_commands('application -kill'))

    def test_other_measures_do_not_use_hadoop(self) -> None:
        self.run_all(measures.CPU)
        self.assertEqual([], self.list_commands('/ws/v1/'))

    def test_files_that_would_fill_hdfs(self) -> None:
        """4 GB are free, for two files with two replicas."""
        self.make(jobs.DFSIO_READ, size_bytes=900_000_000).prepare()
        for chosen in (jobs.DFSIO_WRITE, jobs.DFSIO_READ):
            burn_in = self.make(chosen, size_bytes=950_000_000)
            error = self.assertRaises(errors.InputError, burn_in.prepare)
            self.assertIn('3814 MiB are free, and 3982 MiB', str(error))
            self.assertIn('--size', str(error))
        self.make(jobs.NNBENCH, size_bytes=950_000_000).prepare()

    def test_hdfs_that_does_not_answer(self) -> None:
        """The job has the reason."""
        self.answer('capacity', None)
        (row,) = self.make(jobs.DFSIO_READ, size_bytes=950_000_000).prepare()
        self.assertEqual((self.controller,), row.nodes)

    def answer(self, failing: str, action: BaseException | None) -> None:
        """Let a program of the controller fail, and YARN run a job."""

        def answer(program: str) -> processutils.Result | None:
            if program == failing:
                if action is not None:
                    raise action
                return processutils.Result(1, '', 'no curl')
            if program == 'apps':
                return processutils.Result(
                    0, '{"apps": {"app": [{"id": "application_1_7"}]}}', ''
                )
            return None

        self.controller.answer = answer

    def test_jobs_are_ended(self) -> None:
        """Also after Ctrl-C; only those with the tag of the burn-in."""
        self.answer('job', KeyboardInterrupt())
        self.assertRaises(KeyboardInterrupt, self.run_all, jobs.NNBENCH)
        (command,) = self.list_commands('/ws/v1/cluster/apps')
        self.assertIn(
            f'applicationTags=hvstack-burn-in-{self.token}&states=', command
        )
        (command,) = self.list_commands('application -kill')
        self.assertIn('application_1_7', command)

    def test_time_out(self) -> None:
        self.answer('job', errors.DeadlineExceededError('Too slow.'))
        (row,) = self.run_all(jobs.NNBENCH)
        self.assertEqual('the program did not end in time', row.reason)
        # At once, and in the end.
        self.assertEqual(2, len(self.list_commands('application -kill')))

    def test_a_node_without_curl(self) -> None:
        self.answer('delete', None)
        self.run_all(jobs.NNBENCH)
        (command,) = self.list_commands('hdfs dfs -rm')
        self.assertIn(f'/benchmarks/hvstack-burn-in-{self.token}', command)

    def test_files_that_remain_are_named(self) -> None:
        self.answer('apps', None)
        self.run_all(jobs.NNBENCH)
        self.assertIn(
            f'/benchmarks/hvstack-burn-in-{self.token} may remain',
            self.log.getvalue(),
        )

    def test_a_controller_that_does_not_answer(self) -> None:
        self.answer('node', None)
        (row,) = self.run_all(jobs.NNBENCH)
        self.assertEqual('no curl', row.reason)
        self.assertEqual(['node'], self.controller.programs)

    def test_nodes_without_hadoop(self) -> None:
        burn_in = BurnIn(
            self.nodes, BurnInPlan(jobs.JOBS), Progress(stream=self.log)
        )
        self.assertEqual([], burn_in.prepare())
