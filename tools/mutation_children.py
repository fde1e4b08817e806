# SPDX-License-Identifier: Apache-2.0
"""Child processes that run unit tests in a copy of the tree."""

import importlib
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import unittest
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

TOP = Path(__file__).resolve().parent.parent
TESTS = 'tests.unit'
#: Limit of a test with a mutant: seconds, plus a multiple of its usual time.
LIMIT_SECONDS, LIMIT_FACTOR = 5.0, 5.0
#: Address space of a child: a loop that never ends must not fill the memory.
MAX_ADDRESS_BYTES = 8 * 2**30
#: Signals that end the check.
SIGNALS = {signal.SIGINT, signal.SIGTERM}
#: Result of a child that exceeds a time limit.
TIMEOUT = 'timed out'
#: Key of the result of a child whose function raised an exception.
ERROR = 'error'


@dataclass
class Test:
    """Test with the lines that it executes.

    :param seconds: duration in seconds while the lines were recorded.
    :param lines: numbers of the lines by the path of the module.
    """

    seconds: float
    lines: dict[str, list[int]]

    def executes(self, path: str, lines: range) -> bool:
        """Return whether the test executes one of the lines of a module."""
        return not set(lines).isdisjoint(self.lines.get(path, ()))


@dataclass
class TestModule:
    """Test module with the tests that pass.

    :param name: dotted name of the module.
    :param digest: digest of the module and of all mutated modules.
    :param imported: pseudo test with the lines that an import executes.
    :param tests: tests by their IDs.
    :param failed: IDs of the tests that fail without any change.
    """

    name: str
    digest: str
    imported: Test
    tests: dict[str, Test]
    failed: list[str]


@dataclass(frozen=True)
class Job:
    """Work of a child process.

    :param work: function that the child calls; its result is plain data.
    :param limit: time limit in seconds of the clock.
    :param change: path of a module and its content for this child.
    """

    work: Callable[[Path], Any]
    limit: float
    change: tuple[str, str] | None = None


class Pool:
    """Child processes, each in a copy of the tree of its own.

    :param scratch: temporary directory.
    :param count: number of children at the same time.
    :param on_wait: function that is called at least every second.
    """

    def __init__(
        self, scratch: Path, count: int, on_wait: Callable[[], None]
    ) -> None:
        self._idle = [scratch / str(index) for index in range(count)]
        self._on_wait = on_wait
        #: Process ID, directory, job and deadline by file descriptor.
        self._running: dict[int, tuple[int, Path, Job, float]] = {}
        for directory in self._idle:
            copy_tree(directory / 'tree')

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Any]]:
        """Yield jobs with their results as they end.

        The result of a job that exceeds its limit is ``TIMEOUT``, that of a
        job that raises an exception is a mapping with the key ``ERROR``, and
        None if the child ends without a result.
        """
        pending = iter(jobs)
        while True:
            while self._idle and (job := next(pending, None)) is not None:
                self._start(job, self._idle.pop())
            if not self._running:
                return
            ready, _, _ = select.select(list(self._running), [], [], 1.0)
            self._on_wait()
            now = time.monotonic()
            for descriptor in list(self._running):
                job, deadline = self._running[descriptor][2:]
                if descriptor in ready:
                    yield job, self._end(descriptor)
                elif now > deadline:
                    self._end(descriptor)
                    yield job, TIMEOUT

    def kill(self) -> None:
        """End all children."""
        for descriptor in list(self._running):
            self._end(descriptor)

    def _start(self, job: Job, directory: Path) -> None:
        tree = directory / 'tree'
        (directory / 'answer').unlink(missing_ok=True)
        if job.change is not None:
            path, source = job.change
            (tree / path).replace(directory / 'original')
            (tree / path).write_text(source, encoding='utf-8')
        # Ctrl-C must not come before the child can be ended.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        pid = os.fork()
        if pid == 0:
            run_child(job, directory)
        deadline = time.monotonic() + job.limit
        self._running[os.pidfd_open(pid)] = (pid, directory, job, deadline)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def _end(self, descriptor: int) -> Any:
        """Return the result of a child after all its processes have ended."""
        pid, directory, job, _ = self._running.pop(descriptor)
        try:
            # Before the child is waited for: its process ID is still its own.
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        os.close(descriptor)
        if job.change is not None:
            path = directory / 'tree' / job.change[0]
            (directory / 'original').replace(path)
        shutil.rmtree(directory / 'tmp', ignore_errors=True)
        self._idle.append(directory)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF:
            return TIMEOUT
        try:
            return json.loads((directory / 'answer').read_text('utf-8'))
        except (FileNotFoundError, ValueError):
            return None


def copy_tree(tree: Path) -> None:
    """Copy the package and its tests; link all other files of the clone."""
    tree.mkdir(parents=True)
    for path in TOP.iterdir():
        if path.is_symlink():
            (tree / path.name).symlink_to(path.readlink())
        elif path.name in ('hvstack', 'tests'):
            shutil.copytree(path, tree / path.name, symlinks=True)
        elif not path.name.startswith('.') or path.name == '.stestr.conf':
            (tree / path.name).symlink_to(path)


def run_child(job: Job, directory: Path) -> NoReturn:
    """Execute a job in a child process, and write its result to a file."""
    status = 1
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        tree, tmp = directory / 'tree', directory / 'tmp'
        tmp.mkdir(exist_ok=True)
        tempfile.tempdir = str(tmp)
        with (directory / 'log').open('w', encoding='utf-8') as log:
            for descriptor in (1, 2):
                os.dup2(log.fileno(), descriptor)
        with Path(os.devnull).open(encoding='utf-8') as nothing:
            os.dup2(nothing.fileno(), 0)
        limits = (MAX_ADDRESS_BYTES, MAX_ADDRESS_BYTES)
        resource.setrlimit(resource.RLIMIT_AS, limits)
        os.chdir(tree)
        os.environ.pop('HVSTACK_LAB', None)
        os.environ |= {
            'PYTHONPATH': str(tree),
            'PYTHONDONTWRITEBYTECODE': '1',
            'TMPDIR': str(tmp),
        }
        own = {'', str(TOP), str(TOP / 'tools')}
        sys.path[:] = [str(tree), *(p for p in sys.path if p not in own)]
        # Two mutants of the same second and size would share a bytecode file.
        sys.dont_write_bytecode = job.change is not None
        answer = json.dumps(job.work(tree))
        (directory / 'answer').write_text(answer, encoding='utf-8')
        status = 0
    except BaseException:
        (directory / 'answer').write_text(
            json.dumps({ERROR: traceback.format_exc()}), encoding='utf-8'
        )
    finally:
        os._exit(status)


def load_tests(name: str) -> list[unittest.TestCase]:
    """Return the tests of a module; Hypothesis gives them the same input.

    :param name: dotted name of the module.
    """
    importlib.import_module(TESTS)
    from hypothesis import Phase, settings

    # Repeatable, and without the search for the smallest input that fails.
    settings.register_profile(
        'mutants',
        settings.get_profile('hvstack'),
        derandomize=True,
        database=None,
        phases=(Phase.explicit, Phase.generate),
    )
    settings.load_profile('mutants')
    importlib.invalidate_caches()
    suites: list[Any] = [unittest.defaultTestLoader.loadTestsFromName(name)]
    tests = []
    while suites:
        item = suites.pop()
        if isinstance(item, unittest.TestSuite):
            suites += reversed(list(item))
        else:
            tests.append(item)
    return tests


def list_failed(result: unittest.TestResult) -> list[str]:
    """Return the IDs of the tests that failed."""
    failed = [test for test, _ in result.failures + result.errors]
    # A part of a test has an ID of its own.
    return [
        getattr(test, 'test_case', test).id()
        for test in [*failed, *result.unexpectedSuccesses]
    ]


class LineRecorder(unittest.TestResult):
    """Result of tests that records which lines each test executes.

    :param tree: copy of the tree in which the tests run.
    :param paths: paths of the modules whose lines are recorded.
    """

    def __init__(self, tree: Path, paths: Iterable[str]) -> None:
        super().__init__()
        self._paths = {str(tree / path): path for path in paths}
        self._lines: set[tuple[str, int]] = set()
        self._started_at = 0.0
        self.tests: dict[str, Test] = {}

    def trace(self, frame: FrameType, event: str, arg: object) -> Any:
        """Record a line; :func:`sys.settrace` calls it."""
        if frame.f_code.co_filename not in self._paths:
            return None
        if event == 'line':
            self._lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self.trace

    def take_lines(self) -> dict[str, list[int]]:
        """Return the lines since the last call, by the path of the module."""
        lines: dict[str, list[int]] = {}
        for file, line in sorted(self._lines):
            lines.setdefault(self._paths[file], []).append(line)
        self._lines.clear()
        return lines

    def startTest(self, test: unittest.TestCase) -> None:
        """Forget the lines of the import or of the previous test."""
        super().startTest(test)
        self.take_lines()
        self._started_at = time.monotonic()

    def stopTest(self, test: unittest.TestCase) -> None:
        """Store the lines of a test."""
        super().stopTest(test)
        seconds = time.monotonic() - self._started_at
        self.tests[test.id()] = Test(seconds, self.take_lines())


def list_imported(names: Sequence[str]) -> list[str]:
    """Return the modules of other packages that test modules import.

    :param names: dotted names of the test modules.
    """
    before = set(sys.modules)
    for name in names:
        load_tests(name)
    return [
        name
        for name in sys.modules
        if name not in before
        and name.partition('.')[0] not in ('hvstack', 'tests')
    ]


def record_lines(
    tree: Path, name: str, digest: str, paths: Sequence[str]
) -> dict[str, Any]:
    """Run a test module and return it with the lines that it executes.

    :param tree: copy of the tree in which the tests run.
    :param name: dotted name of the module.
    :param digest: digest of the module.
    :param paths: paths of the modules whose lines are recorded.
    """
    result = LineRecorder(tree, paths)
    sys.settrace(result.trace)
    tests = load_tests(name)
    imported = Test(0.0, result.take_lines())
    unittest.TestSuite(tests).run(result)
    sys.settrace(None)
    module = TestModule(
        name, digest, imported, result.tests, list_failed(result)
    )
    return asdict(module)


#: Test modules with the tests to run, in this order: seconds by ID.
Plan = list[tuple[str, dict[str, float]]]


class LimitedResult(unittest.TestResult):
    """Result of tests of which each has a limit of CPU time.

    A loop that never ends is noticed soon, also on a busy machine: SIGPROF
    ends the process.

    :param seconds: usual duration of the tests in seconds.
    """

    def __init__(self, seconds: dict[str, float]) -> None:
        super().__init__()
        self.failfast = True
        self._seconds = seconds
        limit_cpu_time(0.0)

    def startTest(self, test: unittest.TestCase) -> None:
        """Start the limit of a test."""
        super().startTest(test)
        limit_cpu_time(self._seconds.get(test.id(), 0.0))


def limit_cpu_time(seconds: float) -> None:
    """End this process if it uses much more CPU time from now on.

    :param seconds: usual duration in seconds.
    """
    limit = LIMIT_SECONDS + LIMIT_FACTOR * seconds
    signal.setitimer(signal.ITIMER_PROF, limit)


def run_plan(plan: Plan) -> tuple[int, str]:
    """Return the number of tests that ran and the ID of one that failed."""
    count = 0
    for name, seconds in plan:
        result = LimitedResult(seconds)
        selected = [test for test in load_tests(name) if test.id() in seconds]
        if len(selected) < len(seconds):
            return count, f'{name} cannot be imported'
        unittest.TestSuite(selected).run(result)
        count += result.testsRun
        if not result.wasSuccessful():
            return count, list_failed(result)[0]
    return count, ''
