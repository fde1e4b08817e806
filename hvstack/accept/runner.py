# SPDX-License-Identifier: Apache-2.0
"""Running the acceptance tests with stestr, and reading what came of it."""

import datetime
import fcntl
import os
import re
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hvstack import errors, shell
from hvstack.accept import outcome
from hvstack.accept.outcome import Result
from hvstack.accept.settings import Workspace

_LIST_SECONDS = 300
#: Seconds for tests to clean up once they were interrupted.
_END_SECONDS = 60
_DESTRUCTIVE = r'\[.*\bdestructive\b'


@dataclass(frozen=True)
class Selection:
    """Which tests.

    :param rings: of :data:`hvstack.accept.outcome.RINGS`.
    :param smoke: those that change nothing, only.
    :param destructive: also those that take a host away.
    :param only: those whose name has this regular expression.
    """

    rings: Collection[str]
    smoke: bool = False
    destructive: bool = False
    only: str = ''

    @property
    def words(self) -> list[str]:
        """The selection as stestr's arguments."""
        rings = '|'.join(sorted(self.rings))
        words = [f'{re.escape(outcome.PACKAGE)}\\.({rings})\\.']
        if self.only:
            words[0] += f'.*({self.only})'
        if self.smoke:
            words[0] += r'.*\[.*\bsmoke\b'
        if not self.destructive:
            words += ['--exclude-regex', _DESTRUCTIVE]
        return words


def _stestr(workspace: Workspace, *words: str) -> shell.Result:
    return shell.run(
        [sys.executable, '-m', 'stestr', *words],
        timeout=_LIST_SECONDS,
        env=workspace.environment(),
        cwd=workspace.folder,
    )


def listed(workspace: Workspace, chosen: Selection) -> list[str]:
    """Return the ids of the chosen tests.

    :raises hvstack.errors.CommandFailed: tempest.conf is wrong, or the
        tests cannot be loaded.
    """
    if not (workspace.folder / '.stestr').is_dir():
        _stestr(workspace, 'init')
    done = _stestr(workspace, 'list', *chosen.words)
    return [
        line for line in done.stdout.splitlines() if outcome.PACKAGE in line
    ]


def run(
    workspace: Workspace, chosen: Selection, concurrency: int
) -> list[Result]:
    """Run the chosen tests, one line each on standard error.

    :param concurrency: so many at the same time; those that need the whole
        cloud wait for the others.
    :raises hvstack.errors.RunFailed: no test was begun.
    """
    expected = listed(workspace, chosen)
    if not expected:
        raise errors.RunFailed('no test is chosen: give other --ring or tags')
    argv = [sys.executable, '-m', 'stestr', 'run']
    argv += ['--concurrency', str(concurrency), *chosen.words]
    with subprocess.Popen(
        argv,
        cwd=workspace.folder,
        env={**os.environ, **workspace.environment()},
        stdin=subprocess.DEVNULL,
        # Standard output is the report's alone.
        stdout=sys.stderr,
        start_new_session=True,
    ) as process:
        try:
            process.wait()
        except BaseException:
            _end(process)
            raise
    return last(workspace, expected)


def last(workspace: Workspace, expected: Collection[str] = ()) -> list[Result]:
    """Return what came of the last run, ``tempest run``'s included.

    :param expected: ids of the tests that should have run.
    :raises hvstack.errors.RunFailed: there was none.
    """
    # The first run's name; stestr keeps all.
    if not (expected or (workspace.folder / '.stestr' / '0').exists()):
        raise errors.RunFailed(
            f'no test was run in {workspace.folder}: run them first, or give '
            'another --workspace'
        )
    done = subprocess.run(
        [sys.executable, '-m', 'stestr', 'last', '--subunit'],
        cwd=workspace.folder,
        env={**os.environ, **workspace.environment()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=False,
        timeout=_LIST_SECONDS,
    )
    return outcome.read(done.stdout, expected)


def kept(workspace: Workspace) -> datetime.datetime:
    """Return when stestr kept the last run."""
    path = workspace.folder / '.stestr' / 'next-stream'
    return datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End stestr and its workers: first asked, then forced."""
    for number in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(_END_SECONDS)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


@contextmanager
def alone(workspace: Workspace) -> Iterator[None]:
    """Hold a workspace: a second run of tests would clean up the first's.

    :raises hvstack.errors.Busy: somebody else holds it.
    """
    workspace.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (workspace.folder / 'held').open('w') as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise errors.Busy(
                f"another 'hvstack accept' runs in {workspace.folder}: wait "
                'for it, or give another --workspace'
            ) from exc
        yield
