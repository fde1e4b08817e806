# SPDX-License-Identifier: Apache-2.0
"""Phases after their deadline: slow ones continue, stalled ones are stopped.

On the lab's hosts without guests, about 15 minutes.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterator

import fixtures
import testtools

from hvstack import processutils
from hvstack.cluster import acquired_hosts, actions, bare_metal
from hvstack.cluster.base import Cluster
from hvstack.hadoop import daemons, job_progress
from hvstack.hadoop.sizing import LAB
from hvstack.progress import Progress
from hvstack.tpcxhs import kit, preparation, run
from hvstack.tpcxhs.deadlines import Limits, StallWatch
from hvstack.tpcxhs.phases import INPUT
from hvstack.tpcxhs.workload import Workload

WORK = Workload(400_000_000, 2, 6, 6)
#: Deadline and stall limit in seconds.
DEADLINE, STALL = 60, 90
#: Programs of Hadoop by a part of their command lines.
TASKS, NODE_MANAGERS = '[Y]arnChild', '[p]roc_nodemanager'
#: Seconds of each turn in which the tasks are stopped, and in which they run.
STOPPED, RUNNING = 4.0, 1.0
#: A program in the place of the kit's, which must not be distributed.
PROGRAM = f"""
hadoop jar /opt/hadoop/hadoop-mapreduce-examples.jar terasort \\
    -Dmapreduce.job.reduces=6 {INPUT} {preparation.BASE}/kit-output &&
    echo 'sorted' >TPCx-HS-result-1TB.log
"""


def signal_programs(cluster: Cluster, program: str, name: str) -> None:
    """Send a signal to programs on all workers.

    :param program: part of their command lines.
    :param name: name of the signal.
    """
    for worker in cluster.workers:
        # Hadoop has a user of its own on hosts without guests.
        worker.run(f'pkill -{name} -u {actions.UID} -f {program}', check=False)


@contextlib.contextmanager
def slow_tasks(cluster: Cluster) -> Iterator[None]:
    """Let the tasks run for a fifth of the time only."""
    end = threading.Event()

    def run_turns() -> None:
        while not end.is_set():
            signal_programs(cluster, TASKS, 'STOP')
            end.wait(STOPPED)
            signal_programs(cluster, TASKS, 'CONT')
            end.wait(RUNNING)

    thread = threading.Thread(target=run_turns)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


@contextlib.contextmanager
def stopped_nodes(cluster: Cluster) -> Iterator[None]:
    """Stop all NodeManagers as soon as HSSort has read data."""

    def stop() -> None:
        processutils.wait_for(
            lambda: any(
                counters.get('MAP_INPUT_RECORDS')
                and counters.get('REDUCE_INPUT_RECORDS') is not None
                for _, _, counters in job_progress.load_progress(
                    cluster.manager
                ).values()
            ),
            'HSSort to read data',
            timeout=600,
            interval=2,
        )
        signal_programs(cluster, NODE_MANAGERS, 'STOP')

    thread = threading.Thread(target=stop)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        signal_programs(cluster, NODE_MANAGERS, 'CONT')
        signal_programs(cluster, TASKS, 'KILL')


class DeadlineTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        if not os.environ.get('HVSTACK_LAB'):
            self.skipTest('needs the lab (make test-long)')
        acquired_hosts.recover()
        self.cluster = self.enterContext(
            bare_metal.BareHosts.from_file(tuning=LAB, progress=Progress())
        )
        run.warm_up(self.cluster, WORK)

    def test_slow_phase_continues(self) -> None:
        with slow_tasks(self.cluster):
            run_result = run.run(
                self.cluster,
                WORK,
                progress=Progress(),
                limits=Limits(DEADLINE, STALL),
            )
        self.assertEqual('', run_result.reason)
        seconds = {
            phase['name']: phase['seconds'] for phase in run_result.phases
        }
        self.assertGreater(seconds['HSSort'], 3 * DEADLINE, seconds)

    def test_stalled_phase_is_stopped(self) -> None:
        begin = time.monotonic()
        with stopped_nodes(self.cluster):
            run_result = run.run(
                self.cluster,
                WORK,
                progress=Progress(),
                limits=Limits(DEADLINE, STALL),
            )
        self.addDetail(
            'reason', testtools.content.text_content(run_result.reason)
        )
        self.assertIn('HSSort was stopped after', run_result.reason)
        self.assertIn('progress had not changed for', run_result.reason)
        self.assertLess(time.monotonic() - begin, 900)
        daemons.wait_ready(self.cluster, 180)
        self.assertEqual(
            {}, dict(job_progress.load_progress(self.cluster.manager))
        )

    def test_kit(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.tpcxhs.kit._REQUIRED_PROGRAMS', ())
        )
        gateway = self.cluster.gateway
        gateway.put(PROGRAM, f'{kit.KIT_DIR}/{kit.PROGRAM}')
        self.addCleanup(gateway.run, f'rm -rf {kit.KIT_DIR}')
        generator = run.PhaseRunner(
            self.cluster, WORK, run.RunResult(WORK), Progress()
        )
        preparation.purge(self.cluster)
        generator.generate()
        late: list[float] = []
        begin = time.monotonic()
        watch = StallWatch(
            self.cluster.manager,
            STALL,
            lambda: late.append(time.monotonic() - begin),
        )
        with slow_tasks(self.cluster):
            log = kit.execute_kit(gateway, 10**12, DEADLINE, watch)
        self.assertEqual('sorted\n', log)
        self.assertEqual(1, len(late))
        self.assertGreater(time.monotonic() - begin, 2 * DEADLINE)
