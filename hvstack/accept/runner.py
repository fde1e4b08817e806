# SPDX-License-Identifier: Apache-2.0
"""Run the acceptance tests with stestr, and read the results."""

import contextlib
import datetime
import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from hvstack import errors, jsonfile, paths, pid_files, processutils
from hvstack.accept import test_results
from hvstack.accept.tempest_conf import Workspace
from hvstack.accept.test_results import AcceptanceTestResult

_LIST_SECONDS = 300
#: Seconds for tests to clean up after an interruption.
_END_SECONDS = 60
#: Seconds between two polls of the output of stestr.
_LOOK_SECONDS = 0.3
_DESTRUCTIVE = r'\[.*\bdestructive\b'


@dataclass(frozen=True)
class Selection:
    """Selection of tests.

    :param scopes: scopes in :data:`hvstack.accept.test_results.SCOPES`.
    :param smoke: whether only tests without changes run.
    :param destructive: whether tests that power a host off run too.
    :param only: regular expression for the names; empty selects all.
    """

    scopes: Collection[str]
    smoke: bool = False
    destructive: bool = False
    only: str = ''

    @property
    def stestr_args(self) -> list[str]:
        """The selection as stestr's arguments."""
        scopes = '|'.join(sorted(self.scopes))
        args = [f'{re.escape(test_results.PACKAGE)}\\.({scopes})\\.']
        if self.only:
            args[0] += f'.*({self.only})'
        if self.smoke:
            args[0] += r'.*\[.*\bsmoke\b'
        if not self.destructive:
            args += ['--exclude-regex', _DESTRUCTIVE]
        return args


def _stestr(workspace: Workspace, *args: str) -> processutils.Result:
    return processutils.run(
        [sys.executable, '-m', 'stestr', *args],
        timeout=_LIST_SECONDS,
        env=workspace.process_env(),
        cwd=workspace.directory,
    )


def list_tests(workspace: Workspace, chosen: Selection) -> list[str]:
    """Return the IDs of the selected tests.

    :raises hvstack.errors.CommandError: tempest.conf is not valid, or the
        tests cannot be loaded.
    """
    if not (workspace.directory / '.stestr').is_dir():
        _stestr(workspace, 'init')
    done = _stestr(workspace, 'list', *chosen.stestr_args)
    return [
        line
        for line in done.stdout.splitlines()
        if test_results.PACKAGE in line
    ]


def run_tests(
    workspace: Workspace,
    chosen: Selection,
    concurrency: int,
    held: Collection[int] = (),
) -> list[AcceptanceTestResult]:
    """Run the selected tests, with a line per test on standard error.

    :param workspace: workspace of the tests.
    :param chosen: selected tests.
    :param concurrency: number of tests that run at the same time; tests that
        need the whole cloud run alone.
    :param held: file descriptors of locks to hold as long as stestr runs.
    :raises hvstack.errors.RunFailedError: no test was started, or stestr
        failed.
    """
    expected = list_tests(workspace, chosen)
    if not expected:
        raise errors.RunFailedError(
            'Cannot run tests: no test is selected. Use another --scope or '
            'other tags.'
        )
    before = _next_stream(workspace)
    argv = [sys.executable, '-m', 'stestr', 'run']
    argv += ['--concurrency', str(concurrency), *chosen.stestr_args]
    with (
        workspace.log.open('wb') as log,
        subprocess.Popen(
            argv,
            cwd=workspace.directory,
            env={**os.environ, **workspace.process_env()},
            stdin=subprocess.DEVNULL,
            # With a pipe, stestr would end with this process, but its workers
            # would not.
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=tuple(held),
        ) as process,
    ):
        try:
            # It may have ended already.
            with contextlib.suppress(errors.CommandError):
                pid_files.write(workspace.pid, process.pid)
            _follow(process, workspace.log)
        except BaseException:
            _end_session(process.pid)
            raise
    if _next_stream(workspace) == before:
        # stestr failed or was killed, so the last results are of another run.
        _end_session(process.pid)
        output = processutils.tail(
            workspace.log.read_text(errors='replace', encoding='utf-8'), 3
        )
        raise errors.RunFailedError(
            f'Cannot read the results of the tests ({workspace.log}): stestr '
            f'exited with status {process.returncode} without results: '
            f'{" ".join(output.split()) or "it printed nothing"}. Check the '
            'log.'
        )
    return load_last_results(workspace, expected)


def _next_stream(workspace: Workspace) -> str:
    """Return the number of stestr's next run, which grows when a run ends."""
    path = workspace.directory / '.stestr' / 'next-stream'
    return path.read_text(encoding='utf-8').strip() if path.exists() else ''


def _follow(process: subprocess.Popen[bytes], log: Path) -> None:
    """Copy the log of a program to standard error until the program ends."""
    with log.open(encoding='utf-8', errors='replace') as stream:
        ended = False
        while not ended:
            ended = process.poll() is not None
            # Standard output is reserved for the report.
            sys.stderr.write(stream.read())
            sys.stderr.flush()
            if not ended:
                time.sleep(_LOOK_SECONDS)


def load_last_results(
    workspace: Workspace, expected: Collection[str] = ()
) -> list[AcceptanceTestResult]:
    """Return the results of the last run, which may be a ``tempest run``.

    :param workspace: workspace of the tests.
    :param expected: IDs of the tests that should have run.
    :raises hvstack.errors.RunFailedError: no test was run.
    """
    # The first run's name; stestr keeps all.
    if not (expected or (workspace.directory / '.stestr' / '0').exists()):
        raise errors.RunFailedError(
            f'Cannot report the last run ({workspace.directory}): no test was '
            'run. Run the tests, or use another --workspace.'
        )
    done = subprocess.run(
        [sys.executable, '-m', 'stestr', 'last', '--subunit'],
        cwd=workspace.directory,
        env={**os.environ, **workspace.process_env()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=False,
        timeout=_LIST_SECONDS,
    )
    return test_results.read_results(done.stdout, expected)


def last_run_time(workspace: Workspace) -> datetime.datetime:
    """Return the time when stestr stored the last run."""
    path = workspace.directory / '.stestr' / 'next-stream'
    return datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC)


def _end_session(session: int) -> None:
    """End stestr and its workers with SIGINT, and then with SIGKILL."""
    for signal_number in (signal.SIGINT, signal.SIGKILL):
        if not _session_processes(session):
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(session, signal_number)
        deadline = time.monotonic() + _END_SECONDS
        while _session_processes(session) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)


def _session_processes(session: int) -> list[int]:
    """Return the running processes of a session."""
    process_ids = []
    # Path.glob() raises ProcessLookupError for a process that just ended.
    for directory in Path('/proc').iterdir():
        if not directory.name.isdigit():
            continue
        try:
            text = (directory / 'stat').read_text(encoding='utf-8')
        except OSError:
            continue
        # After the name in parentheses: state, parent, group, session.
        state, _, _, session_id = text.rpartition(')')[2].split()[:4]
        if state != 'Z' and int(session_id) == session:
            process_ids.append(int(directory.name))
    return process_ids


@contextmanager
def lock_workspace(workspace: Workspace) -> Iterator[None]:
    """Lock a workspace, so that only a single run uses its files.

    :raises hvstack.errors.BusyError: another process has locked it.
    :raises hvstack.errors.InputError: hvstack did not create the directory.
    """
    try:
        paths.claim(workspace.directory)
    except OSError as exc:
        raise errors.InputError(
            f'Cannot use {workspace.directory} as the workspace: '
            f'{exc.strerror}. Use another --workspace.'
        ) from exc
    with paths.open_lock(workspace.directory / 'held') as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise errors.BusyError(
                f'Cannot use the workspace {workspace.directory}: another '
                "'hvstack accept' runs in it. Wait until it has ended, or use "
                'another --workspace for another cloud.'
            ) from exc
        yield


@contextmanager
def lock_cloud(workspace: Workspace, url: str) -> Iterator[int]:
    """Lock a cloud: a second run would delete the resources of the first one.

    :param workspace: workspace of the tests.
    :param url: URL of its Keystone.
    :returns: a file descriptor for :func:`run_tests`, which holds the lock
        until the tests end, even if this process is killed.
    :raises hvstack.errors.BusyError: tests of another workspace run on the
        cloud.
    """
    with _open_lock_file(workspace, url) as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            stream.seek(0)
            other = stream.read() or 'another workspace'
            raise errors.BusyError(
                f"Cannot use the cloud {url}: 'hvstack accept', or tests that "
                f"a killed 'hvstack accept' left, use it from {other}. Wait "
                "until the tests end, or end such tests with 'hvstack accept "
                f"--cleanup --workspace {other}'."
            ) from exc
        stream.truncate(0)
        stream.write(str(workspace.directory))
        stream.flush()
        yield stream.fileno()


def _open_lock_file(workspace: Workspace, url: str) -> TextIO:
    """Open the lock file of a cloud in the directory of the workspaces."""
    address = url.rpartition('://')[2].rstrip('/').removesuffix('/v3')
    name = re.sub(r'[^\w.-]', '_', address) + '.held'
    try:
        directory = paths.STATE / 'accept'
        paths.make_directory(paths.STATE)
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        return paths.open_lock(directory / name)
    except OSError:
        # Users other than root: the parent directory of the workspace.
        return paths.open_lock(workspace.directory.parent / name)


def handle_orphans(workspace: Workspace, *, end: bool) -> None:
    """End or report the tests of a run that was killed.

    :param workspace: workspace of the tests.
    :param end: whether to end such tests.
    :raises hvstack.errors.BusyError: such tests run, and ``end`` is not set.
    """
    process_ids = _find_orphans(workspace)
    if process_ids and not end:
        raise errors.BusyError(
            f"Cannot use {workspace.directory}: tests of a killed 'hvstack "
            f"accept' still run there (process {min(process_ids)}). Wait "
            "until the tests end, or end them with 'hvstack accept --cleanup'."
        )
    if process_ids:
        _end_session(os.getsid(process_ids[0]))
    workspace.pid.unlink(missing_ok=True)


def _find_orphans(workspace: Workspace) -> list[int]:
    """Return the running processes of the last run of the tests.

    The caller holds the lock of the workspace, so the 'hvstack accept' of
    these processes no longer runs.
    """
    record = jsonfile.load_if_whole(workspace.pid)
    session = record.get('pid')
    if record.get('boot') != pid_files.boot() or not isinstance(session, int):
        return []
    # A session can outlive its leader, and its ID can be reused later.
    mark = f'TEMPEST_CONFIG_DIR={workspace.directory}'.encode()
    process_ids = []
    for pid in _session_processes(session):
        with contextlib.suppress(OSError):
            content = Path(f'/proc/{pid}/environ').read_bytes()
            if mark in content.split(b'\0'):
                process_ids.append(pid)
    return process_ids
