# SPDX-License-Identifier: Apache-2.0
"""Execution of the tests of mutants, and a file that stores the results."""

import hashlib
import importlib
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tools.mutants import Mutant
from tools.mutation_children import (
    ERROR,
    TIMEOUT,
    TOP,
    Job,
    Plan,
    Pool,
    Test,
    TestModule,
    list_imported,
    record_lines,
    run_plan,
)

#: Time limit of a mutant in seconds, which includes time without a CPU.
MUTANT_SECONDS = 1200.0
#: Time limit in seconds of a test module while lines are recorded.
RECORD_SECONDS = 600.0
#: Seconds between two lines about the progress.
PROGRESS_SECONDS = 5.0
#: Status of a mutant.
KILLED, SURVIVED, NOT_EXECUTED = 'killed', 'survived', 'not executed'


@dataclass(frozen=True)
class Statement:
    """A mutant in its module.

    :param group: name of the group of the module.
    :param path: path of the module, such as ``hvstack/results/stats.py``.
    :param source: content of the module.
    :param mutant: module without the statement.
    :param first_tests: names of the test modules that run first.
    """

    group: str
    path: str
    source: str
    mutant: Mutant
    first_tests: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Digest of the module and the position of the statement."""
        text = f'{self.path}\n{self.mutant.span}\n{self.source}'
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def identity(self) -> tuple[str, str, str, int]:
        """What a list of accepted survivors names."""
        mutant = self.mutant
        return self.path, mutant.function, mutant.statement, mutant.occurrence


@dataclass
class Answer:
    """Result of the tests of a mutant.

    :param status: killed, timed out, survived or not executed.
    :param tests: number of tests that ran.
    :param modules: names of the test modules that execute the statement.
    :param killer: ID of the test that failed; empty without any.
    :param digest: digest of the tests that execute the statement.
    :param seconds: duration in seconds.
    """

    status: str
    tests: int = 0
    modules: list[str] = field(default_factory=list)
    killer: str = ''
    digest: str = ''
    seconds: float = 0.0

    @property
    def lives(self) -> bool:
        """Whether no test noticed the deletion."""
        return self.status in (SURVIVED, NOT_EXECUTED)


def make_plan(statement: Statement, modules: Sequence[TestModule]) -> Plan:
    """Return the tests of a mutant in their order.

    First the tests that execute the statement, then the other tests of their
    modules: the result of a cached function comes from another test.
    """
    mutant, path = statement.mutant, statement.path
    lines = range(mutant.line, mutant.last_line + 1)
    first = statement.first_tests
    executing: Plan = []
    others: Plan = []
    for module in modules:
        passed = {
            test_id: test.seconds
            for test_id, test in module.tests.items()
            if test_id not in module.failed
        }
        is_imported = module.imported.executes(path, lines)
        selected = {
            test_id: seconds
            for test_id, seconds in passed.items()
            if is_imported or module.tests[test_id].executes(path, lines)
        }
        if selected:
            executing.append((module.name, selected))
            remainder = {
                test_id: seconds
                for test_id, seconds in passed.items()
                if test_id not in selected
            }
            others += [(module.name, remainder)] if remainder else []

    def rank(item: tuple[str, dict[str, float]]) -> tuple[int, float]:
        name, seconds = item
        position = first.index(name) if name in first else len(first)
        return position, sum(seconds.values())

    return sorted(executing, key=rank) + sorted(others, key=rank)


class State:
    """File with the results of earlier invocations, one JSON object a line.

    :param path: path of the file; None stores nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._modules: dict[str, dict[str, Any]] = {}
        self._answers: dict[str, dict[str, Any]] = {}
        if path is None or not path.exists():
            return
        for line in path.read_text('utf-8').splitlines():
            # A hard power-off can leave half of the last line.
            with suppress(ValueError):
                item = json.loads(line)
                if 'answer' in item:
                    self._answers[item['key']] = item['answer']
                else:
                    self._modules[item['module']['name']] = item['module']

    def get_module(self, name: str, digest: str) -> TestModule | None:
        """Return a test module; None if it or a mutated module differs."""
        data = self._modules.get(name)
        if data is None or data['digest'] != digest:
            return None
        return read_module(data)

    def get_answer(self, statement: Statement, digest: str) -> Answer | None:
        """Return the result of a mutant; None if it has to run.

        It has to run again if its tests differ: the test that killed it may
        be deleted.

        :param digest: digest of the tests that execute the statement.
        """
        data = self._answers.get(statement.key)
        if data is None:
            return None
        answer = Answer(**data)
        return answer if answer.digest == digest else None

    def add(self, item: dict[str, Any]) -> None:
        """Append a result to the file."""
        if self._path is not None:
            with self._path.open('a', encoding='utf-8') as file:
                file.write(json.dumps(item) + '\n')


def read_module(data: Mapping[str, Any]) -> TestModule:
    """Return a test module that a child or the state file contains."""
    tests = {key: Test(**value) for key, value in data['tests'].items()}
    imported = Test(**data['imported'])
    return TestModule(
        data['name'], data['digest'], imported, tests, data['failed']
    )


class Progress:
    """Lines on standard error while child processes run."""

    def __init__(self) -> None:
        self._next = time.monotonic() + PROGRESS_SECONDS
        self.text = ''

    def show(self) -> None:
        """Print the text if the last line is some seconds old."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PROGRESS_SECONDS
            print(self.text, file=sys.stderr, flush=True)


def compute_digest(*texts: str) -> str:
    """Return the SHA-256 digest of texts."""
    return hashlib.sha256('\0'.join(texts).encode()).hexdigest()


class Run:
    """Execution of the tests of mutants.

    :param pool: child processes.
    :param state: results of earlier invocations.
    :param progress: progress on standard error.
    """

    def __init__(self, pool: Pool, state: State, progress: Progress) -> None:
        self._pool = pool
        self._state = state
        self._progress = progress

    def import_packages(self, names: Sequence[str]) -> None:
        """Import the packages of others here, so that no child has to.

        :param names: names of the test modules.
        """
        self._progress.text = 'Importing the test modules.'
        job = Job(lambda tree: list_imported(names), RECORD_SECONDS)
        for _, result in self._pool.run([job]):
            for name in require_result(result, 'import the test modules'):
                # Some modules are parts of a package alone.
                with suppress(Exception):
                    importlib.import_module(name)
        for name in list(sys.modules):
            # Each child imports these from its own copy.
            if name.partition('.')[0] in ('hvstack', 'tests'):
                del sys.modules[name]

    def load_modules(
        self, names: Sequence[str], paths: Sequence[str]
    ) -> list[TestModule]:
        """Return the test modules with the lines that each test executes.

        :param names: names of the test modules.
        :param paths: paths of all modules that are mutated.
        """
        root = TOP / 'tests' / 'unit'
        common = [
            path.read_text('utf-8')
            for path in (
                *(TOP / path for path in paths),
                *sorted(
                    set(root.rglob('*.py')) - set(root.rglob('test_*.py'))
                ),
            )
        ]
        common_digest = compute_digest(*common)
        modules, jobs = [], []
        for name in names:
            path = TOP / f'{name.replace(".", "/")}.py'
            digest = compute_digest(common_digest, path.read_text('utf-8'))
            module = self._state.get_module(name, digest)
            if module is not None:
                modules.append(module)
                continue
            work = partial(record_lines, name=name, digest=digest, paths=paths)
            jobs.append(Job(work, RECORD_SECONDS))
        for count, (_, result) in enumerate(self._pool.run(jobs), 1):
            data = require_result(result, 'run the unmodified tests')
            self._state.add({'module': data})
            modules.append(read_module(data))
            self._progress.text = (
                f'Recorded the lines of {count} of {len(jobs)} test modules.'
            )
        for module in modules:
            for test_id in module.failed:
                print(
                    f'{test_id} fails without any change and is not used.',
                    file=sys.stderr,
                )
        return modules

    def run(
        self,
        statements: Sequence[Statement],
        modules: Sequence[TestModule],
        names_by_group: Mapping[str, Sequence[str]],
    ) -> Iterator[tuple[Statement, Answer]]:
        """Yield the mutants with their results.

        :param modules: test modules of all groups.
        :param names_by_group: names of the test modules by group.
        """
        running: dict[int, tuple[Statement, Answer, float]] = {}
        stored: list[tuple[Statement, Answer]] = []

        def list_jobs() -> Iterator[Job]:
            for statement in statements:
                names = names_by_group[statement.group]
                plan = make_plan(
                    statement, [m for m in modules if m.name in names]
                )
                answer = Answer(
                    NOT_EXECUTED if not plan else SURVIVED,
                    modules=list(dict.fromkeys(name for name, _ in plan)),
                    digest=digest_plan(plan, modules),
                )
                old = self._state.get_answer(statement, answer.digest)
                if old is not None or not plan:
                    stored.append((statement, old or answer))
                    continue
                mutant = statement.mutant
                job = Job(
                    partial(run_tests, plan=plan),
                    MUTANT_SECONDS,
                    (statement.path, mutant.apply(statement.source)),
                )
                running[id(job)] = (statement, answer, time.monotonic())
                yield job

        for job, result in self._pool.run(list_jobs()):
            statement, answer, started_at = running.pop(id(job))
            answer.seconds = round(time.monotonic() - started_at, 2)
            complete_answer(answer, result)
            item = {'key': statement.key, 'answer': asdict(answer)}
            self._state.add(item)
            yield statement, answer
            while stored:
                yield stored.pop()
        yield from stored


def run_tests(tree: Path, plan: Plan) -> tuple[int, str]:
    """Run the tests of a mutant in a child process."""
    return run_plan(plan)


def complete_answer(answer: Answer, result: Any) -> None:
    """Store the result of a child in that of its mutant."""
    match result:
        case None:
            answer.status, answer.killer = KILLED, 'the process ended'
        case str():
            answer.status = TIMEOUT
        case {'error': str(text)}:  # The key is ERROR.
            answer.status = KILLED
            answer.killer = text.strip().rpartition('\n')[2]
        case [int(count), str(killer)]:
            answer.tests, answer.killer = count, killer
            if killer:
                answer.status = KILLED


def digest_plan(plan: Plan, modules: Iterable[TestModule]) -> str:
    """Return a digest of the tests of a mutant and of their modules."""
    digests = {module.name: module.digest for module in modules}
    return compute_digest(*(f'{name} {digests[name]}' for name, _ in plan))


def require_result(result: Any, task: str) -> Any:
    """Return the result of a child that must not fail.

    :raises SystemExit: the child failed.
    """
    if result is None or result == TIMEOUT:
        raise SystemExit(f'Cannot {task}: the process {result or "ended"}.')
    if isinstance(result, dict) and ERROR in result:
        raise SystemExit(f'Cannot {task}: {result[ERROR]}')
    return result
