# SPDX-License-Identifier: Apache-2.0
"""Rally runs a task of ours: its output to a log, our lines to a person."""

import collections
import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from hvstack import conf, paths, share, shell
from hvstack.progress import Progress
from hvstack.sweep import rallyenv, state

#: Our own lines in what Rally prints.
_PROGRESS_LINE = re.compile(r'\[\d{2,}:\d\d\] ')
_END_SECONDS = 180.0
#: SQLAlchemy's message is followed by the statement and a page of others.
_MAX_CHECKED_LINES = 60


def run_task(
    task: str,
    arguments: Mapping[str, Any],
    sweep: str,
    progress: Progress,
    options: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """Run a task to its end; what came of it is in the records.

    :param task: its file's name.
    :param arguments: the task's.
    :param sweep: names the log.
    :param options: of hvstack.conf, by group, that Rally's process takes
        instead of the files'.
    :raises hvstack.errors.HVStackError: Rally ended without a run, as its
        database is locked, old or broken.
    """
    log = paths.STATE / 'logs' / f'{sweep}.log'
    paths.make_directory(log.parent)
    progress.say(f"Rally's own output: {log}")
    before = len(list(state.RECORDS_DIR.glob('*.json')))
    last_lines: collections.deque[str] = collections.deque(
        maxlen=_MAX_CHECKED_LINES
    )
    argv = [
        # Shells have what they start in the background ignore SIGINT, which
        # Rally would inherit.
        *('env', '--default-signal=INT'),
        # Our death, even by SIGKILL, must be its own: a second sweep would
        # else measure beside it.
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
    if len(list(state.RECORDS_DIR.glob('*.json'))) == before:
        rallyenv.check_database(''.join(last_lines))
        message = shell.tail(''.join(last_lines), 8)
        progress.say(f'Rally ended without a run ({log}): {message}')


@contextlib.contextmanager
def _terminate_on_error(
    process: subprocess.Popen[str], log: TextIO
) -> Iterator[None]:
    """End Rally when we are: first asked, so that it can clean up.

    :param log: gets what it says meanwhile.
    """
    try:
        yield
    except BaseException:
        for number in (signal.SIGINT, signal.SIGKILL):
            with contextlib.suppress(
                ProcessLookupError, subprocess.TimeoutExpired
            ):
                os.killpg(process.pid, number)
                log.write(process.communicate(timeout=_END_SECONDS)[0])
                break
        raise
