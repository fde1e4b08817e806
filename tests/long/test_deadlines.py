# SPDX-License-Identifier: Apache-2.0
"""Deadlines of a minute, and those of a program in the place of TPC's kit.

On the lab's hosts without guests, about 20 minutes.
"""

import threading
import time

import fixtures

from hvstack.progress import Progress
from hvstack.tpcxhs import kit, preparation, run
from hvstack.tpcxhs.deadlines import Limits, StallWatch
from hvstack.tpcxhs.phases import INPUT
from hvstack.tpcxhs.workload import Workload
from tests.functional import test_deadlines
from tests.functional.test_deadlines import SortProgress, slow_tasks

#: The kit itself must not be distributed.
PROGRAM = f"""
hadoop jar /opt/hadoop/hadoop-mapreduce-examples.jar terasort \\
    -Dmapreduce.job.reduces=6 {INPUT} {preparation.BASE}/kit-output &&
    echo 'sorted' >TPCx-HS-result-1TB.log
"""


class MinuteTest(test_deadlines.DeadlineTest):
    """HSSort takes three minutes or more, with a deadline of one."""

    work = Workload(560_000_000, 2, 6, 6)
    limits = Limits(60, 90)
    #: Seconds of each turn in which the tasks are stopped: with 4 s, HSSort
    #: took 169 s on a fast machine.
    stopped = 6.0

    def test_slow_phase_continues(self) -> None:
        progress = SortProgress()
        with slow_tasks(self.cluster, progress.sorting, self.stopped):
            run_result = run.run(
                self.cluster,
                self.work,
                progress=progress,
                limits=self.limits,
            )
        self.assertEqual('', run_result.reason)
        seconds = {phase.name: phase.seconds for phase in run_result.phases}
        self.assertGreater(
            seconds['HSSort'], 3 * self.limits.phase_timeout, seconds
        )

    def test_kit(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.tpcxhs.kit._REQUIRED_PROGRAMS', ())
        )
        gateway = self.cluster.gateway
        gateway.put(PROGRAM, f'{kit.KIT_DIR}/{kit.PROGRAM}')
        self.addCleanup(gateway.run, f'rm -rf {kit.KIT_DIR}')
        generator = run.PhaseRunner(
            self.cluster, self.work, run.RunResult(self.work), Progress()
        )
        preparation.purge(self.cluster)
        generator.generate()
        late: list[float] = []
        begin = time.monotonic()
        watch = StallWatch(
            self.cluster.manager,
            self.limits.stall_timeout,
            lambda: late.append(time.monotonic() - begin),
        )
        slow = threading.Event()
        slow.set()
        with slow_tasks(self.cluster, slow, self.stopped):
            log = kit.execute_kit(
                gateway, 10**12, self.limits.phase_timeout, watch
            )
        self.assertEqual('sorted\n', log)
        self.assertEqual(1, len(late))
        self.assertGreater(
            time.monotonic() - begin, 2 * self.limits.phase_timeout
        )
