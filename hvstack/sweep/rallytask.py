# SPDX-License-Identifier: Apache-2.0
"""Rally tasks: Rally's output goes to a log, progress lines to the user."""

import collections
import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from hvstack import conf, paths, processutils, share
from hvstack.progress import Progress
from hvstack.sweep import rallyenv, sweep_store

#: Progress lines of hvstack in Rally's output.
_PROGRESS_LINE = re.compile(r'\[\d{2,}:\d\d\] ')
_END_SECONDS = 180.0
#: SQLAlchemy prints a statement and many other lines after its message.
_MAX_CHECKED_LINES = 60


def run_task(
    task: str,
    arguments: Mapping[str, Any],
    sweep: str,
    progress: Progress,
    options: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """Run a task until it ends; the run records contain the results.

    :param task: name of the file of the task.
    :param arguments: arguments of the task.
    :param sweep: name of the log without its suffix.
    :param progress: receives the progress lines.
    :param options: options by group that replace those of hvstack.conf in
        the process of Rally; None replaces nothing.
    :raises hvstack.errors.HVStackError: Rally executed no run, because its
        database is locked, outdated or damaged.
    """
    log = paths.STATE / 'logs' / f'{sweep}.log'
    paths.make_directory(log.parent)
    progress.say(f"Rally's own output: {log}")
    before = len(list(sweep_store.RECORDS_DIR.glob('*.json')))
    last_lines: collections.deque[str] = collections.deque(
        maxlen=_MAX_CHECKED_LINES
    )
    argv = [
        # Shells have what they start in the background ignore SIGINT, which
        # Rally would inherit.
        *('env', '--default-signal=INT'),
        # Rally must end with this process, even after SIGKILL: otherwise, a
        # second sweep would measure at the same time.
        *('setpriv', '--pdeathsig', 'KILL', '--'),
        *(str(rallyenv.find_program()), *rallyenv.build_config_args()),
        # --no-use: the default task is the user's.
        *('task', 'start', '--no-use', str(share.RALLY_TASKS / task)),
        *('--task-args', json.dumps(arguments)),
    ]
    with (
        log.open('a', encoding='utf-8') as stream,
        subprocess.Popen(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            encoding='utf-8',
            errors='replace',
            start_new_session=True,
            env={
                **os.environ,
                **rallyenv.VARIABLES,
                **conf.variables(options or {}),
                'PYTHONUNBUFFERED': '1',
            },
        ) as process,
        _terminate_on_error(process, stream),
    ):
        assert process.stdout is not None
        for line in process.stdout:
            stream.write(line)
            stream.flush()
            last_lines.append(line)
            if _PROGRESS_LINE.match(line):
                progress.say(f'  {_PROGRESS_LINE.sub("", line).rstrip()}')
    if len(list(sweep_store.RECORDS_DIR.glob('*.json'))) == before:
        rallyenv.check_database(''.join(last_lines))
        message = processutils.tail(''.join(last_lines), 8)
        progress.say(f'Rally ended without a run ({log}): {message}')


@contextlib.contextmanager
def _terminate_on_error(
    process: subprocess.Popen[str], log: TextIO
) -> Iterator[None]:
    """End Rally after an exception, first by SIGINT so that it can clean up.

    :param process: process of Rally.
    :param log: receives the remaining output of Rally.
    """
    try:
        yield
    except BaseException:
        for signal_number in (signal.SIGINT, signal.SIGKILL):
            with contextlib.suppress(
                ProcessLookupError, subprocess.TimeoutExpired
            ):
                os.killpg(process.pid, signal_number)
                log.write(process.communicate(timeout=_END_SECONDS)[0])
                break
        raise
