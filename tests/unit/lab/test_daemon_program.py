# SPDX-License-Identifier: Apache-2.0
"""The program that runs a daemon of OpenStack without a master process."""

import json
import sys
from pathlib import Path

import fixtures
import testtools

from hvstack import processutils, share
from hvstack.lab import services

PROGRAM = share.LAB / services.DAEMON.template
#: The part of oslo.service that daemons call.
SERVICE = """
def launch(conf, service, workers=1, no_fork=False):
    print('launch', workers, no_fork)
    return ProcessLauncher(conf, no_fork=no_fork)

class ProcessLauncher:
    def __init__(self, conf, restart_method='reload', no_fork=False):
        print('launcher', restart_method, no_fork)

    def launch_service(self, service, workers=1):
        print('service', workers)
"""
DAEMONS = """
import json, sys, threading, time
from oslo_messaging import server
from oslo_service import service

def scheduler():
    print(json.dumps(sys.argv))
    threading.Event.wait = lambda self: print('waits')
    # Nova says it in any case.
    service.launch(None, None, workers=2, no_fork=False).wait()

def engine():
    from heat.engine import service as heat, stack
    threading.Event.wait = lambda self: None
    service.launch(None, None).wait()
    group = heat.ThreadGroup()
    first, second = group.add_thread(print, 1), group.add_thread(print, 2)
    first.end()
    first.end()
    print(group.threads == [second])

def busy_engine():
    from heat.engine import service as heat, stack
    threading.Event.wait = lambda self: None
    service.launch(None, None)
    pool = server.MessageHandlingServer(1)._executor_cls(64)
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        pool.num_workers -= 1

    time.sleep = sleep
    pool.num_workers = 41
    for _ in range(8):
        stack.time.sleep(1)
    print(len(pauses), pool.num_workers)
    stack.time.sleep(1)
    print(len(pauses), pool.num_workers)
    stack.time.sleep(0)
    print(pauses[-1])

def maintenance():
    launcher = service.ProcessLauncher(None, restart_method='mutate')
    launcher.launch_service(None, 1)
    threading.Event.wait = lambda self: print('waits')
    launcher.wait()
"""

#: The part of heat.engine.service that keeps threads.
HEAT = """
class Thread:
    def link(self, callback):
        self.end = lambda: callback(self)

class ThreadGroup:
    def __init__(self):
        self.threads = []

    def add_thread(self, function, *args):
        self.threads.append(Thread())
        return self.threads[-1]
"""

#: The part of oslo.messaging that chooses a pool of threads.
MESSAGING = """
class MessageHandlingServer:
    def __init__(self, transport):
        self._executor_cls = transport
"""
FUTURIST = """
class ThreadPoolExecutor:
    def __init__(self, size):
        self.num_workers = size

    def get_num_idle_workers(self):
        return 1
"""


class DaemonTest(testtools.TestCase):
    def run_daemon(self, *args: str) -> list[str]:
        """Return the lines of a daemon's output."""
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        for package, module, text in (
            ('oslo_service', 'service', SERVICE),
            ('heat/engine', 'service', HEAT),
            ('heat/engine', 'stack', 'import time'),
            ('oslo_messaging', 'server', MESSAGING),
        ):
            path = directory / package / f'{module}.py'
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (directory / 'futurist.py').write_text(FUTURIST)
        (directory / 'daemons.py').write_text(DAEMONS)
        result = processutils.run(
            [sys.executable, PROGRAM, *args],
            env={'PYTHONPATH': str(directory)},
        )
        return result.stdout.splitlines()

    def test_service_is_launched_without_fork(self) -> None:
        argv, *lines = self.run_daemon(
            *('nova-scheduler', 'daemons', 'scheduler'),
            *('--config-file', 'nova.conf'),
        )
        self.assertEqual(
            ['nova-scheduler', '--config-file', 'nova.conf'], json.loads(argv)
        )
        self.assertEqual(
            ['launch 2 True', 'launcher reload True', 'waits'], lines
        )

    def test_launcher_waits_for_threads(self) -> None:
        self.assertEqual(
            ['launcher mutate True', 'service 1', 'waits'],
            self.run_daemon('neutron-x', 'daemons', 'maintenance'),
        )

    def test_busy_heat_engine_begins_nothing(self) -> None:
        """A worker's own resources begin in any case: others wait for it."""
        self.assertEqual(
            ['launch 1 True', 'launcher reload True', '8 33', '16 25', '0'],
            self.run_daemon('heat-engine', 'daemons', 'busy_engine'),
        )

    def test_heat_engine_releases_threads_that_ended(self) -> None:
        self.assertEqual(
            ['launch 1 True', 'launcher reload True', 'True'],
            self.run_daemon('heat-engine', 'daemons', 'engine'),
        )
