# SPDX-License-Identifier: Apache-2.0
"""Phases after their deadline: stalled ones are stopped.

On the lab's hosts without guests, about 270 s. The tests in tests/long have
more data, longer limits, phases that are slow and continue, and a program in
the place of TPC's kit.
"""

import contextlib
import os
import re
import threading
import time
from collections.abc import Iterator

import testtools

from hvstack import processutils
from hvstack.cluster import acquired_hosts, bare_metal
from hvstack.cluster.base import Cluster
from hvstack.hadoop import daemons, job_progress
from hvstack.hadoop.sizing import LAB
from hvstack.progress import Progress
from hvstack.tpcxhs import run
from hvstack.tpcxhs.deadlines import Limits
from hvstack.tpcxhs.workload import Workload

#: Programs of Hadoop by a part of their command lines.
TASKS, NODE_MANAGERS = 'mapred.YarnChild', '-Dproc_nodemanager'
#: Sends a signal to the JVMs of a program in the network namespace of a lab
#: host, whose file system may have no pkill.
SIGNAL = """
own=$(readlink /proc/self/ns/net)
for file in $(grep -la -e {program} /proc/[0-9]*/cmdline 2>/dev/null); do
    entry=${{file%/cmdline}}
    [ "$(readlink "$entry/ns/net")" = "$own" ] || continue
    case $(readlink "$entry/exe") in
    */java) kill -{name} "${{entry#/proc/}}" || : ;;
    esac
done
"""
#: Seconds of each turn in which the tasks are stopped, and in which they run.
STOPPED, RUNNING = 4.0, 1.0


def signal_programs(cluster: Cluster, program: str, name: str) -> None:
    """Send a signal to programs of Hadoop on all workers.

    :param program: part of their command lines.
    :param name: name of the signal.
    """
    for worker in cluster.workers:
        worker.run(SIGNAL.format(program=program, name=name))


class SortProgress(Progress):
    """Progress with an event that is set while HSSort runs."""

    def __init__(self) -> None:
        super().__init__()
        self.sorting = threading.Event()

    def say(self, text: str, *, is_important: bool = False) -> None:
        super().say(text, is_important=is_important)
        if text == 'HSSort ...':
            self.sorting.set()
        elif re.match(r'HSSort: \d', text):
            self.sorting.clear()


@contextlib.contextmanager
def slow_tasks(
    cluster: Cluster, slow: threading.Event, stopped: float = STOPPED
) -> Iterator[None]:
    """Let the tasks run for a second of each turn only.

    :param slow: event that is set while tasks are to be slow.
    :param stopped: seconds of each turn in which the tasks are stopped.
    """
    end = threading.Event()

    def run_turns() -> None:
        while not end.is_set():
            if not slow.wait(RUNNING):
                continue
            signal_programs(cluster, TASKS, 'STOP')
            end.wait(stopped)
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
def stopped_nodes(
    cluster: Cluster, sorting: threading.Event
) -> Iterator[None]:
    """Stop all NodeManagers as soon as the ApplicationMaster of HSSort runs.

    :param sorting: event that is set when HSSort starts.
    """

    def stop() -> None:
        sorting.wait(600)
        processutils.wait_for(
            lambda: any(
                state == 'RUNNING'
                for state, _, _ in job_progress.load_progress(
                    cluster.manager
                ).values()
            ),
            'the ApplicationMaster',
            timeout=120,
            interval=0.5,
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
    """Runs whose deadline is forced to a few seconds."""

    work = Workload(60_000_000, 2, 6, 6)
    #: Deadline and stall limit in seconds.
    limits = Limits(15, 45)

    def setUp(self) -> None:
        super().setUp()
        if not os.environ.get('HVSTACK_LAB'):
            self.skipTest('needs a lab that is up (make test)')
        acquired_hosts.recover()
        self.cluster = self.enterContext(
            bare_metal.BareHosts.from_file(tuning=LAB, progress=Progress())
        )
        run.warm_up(self.cluster, self.work)

    def test_stalled_phase_is_stopped(self) -> None:
        begin = time.monotonic()
        progress = SortProgress()
        with stopped_nodes(self.cluster, progress.sorting):
            run_result = run.run(
                self.cluster,
                self.work,
                progress=progress,
                limits=self.limits,
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
