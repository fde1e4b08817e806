# SPDX-License-Identifier: Apache-2.0
"""Running the lab's programs under supervisord.

One supervisord, from the services' virtual environment, so that it outlives
the clone that started it. Where systemd is PID 1, supervisord itself runs as
the transient unit ``hvstack-lab`` in ``hvstack.slice``.
"""

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from xmlrpc import client

from hvstack import errors, paths, pid_files, processutils
from hvstack.lab import (
    constants,
    process_cgroup,
    render,
    settings,
    systemd,
    venv,
)

SOCKET = paths.RUN / 'supervisor.sock'
_PID = paths.RUN / 'supervisord.pid.json'
_CONFIG = settings.LAB / 'supervisord.conf'
_PROGRAMS = settings.LAB / 'supervisord.d'

#: Faults of supervisord's XML-RPC interface that are no failure here.
_BAD_NAME, _NOT_RUNNING, _ALREADY_STARTED, _ALREADY_ADDED = 10, 70, 60, 90


@dataclass(frozen=True)
class Program:
    """One program to keep running.

    :param name: its name for supervisord, and of its log file.
    :param command: the program and its arguments, in the foreground.
    :param env: variables beside supervisord's.
    :param user: who runs it; root if ``None``.
    :param stop_seconds: from SIGTERM to SIGKILL.
    :param stop_signal: what asks it to end.
    :param start_seconds: it must live so long to count as started.
    """

    name: str
    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    stop_seconds: int = 15
    stop_signal: str = 'TERM'
    start_seconds: int = 1


@dataclass(frozen=True)
class State:
    """What supervisord says of a program.

    :param name: the program.
    :param state: ``RUNNING``, ``STOPPED``, ``STARTING``, ``BACKOFF``,
        ``FATAL``, ``EXITED`` or ``STOPPING``.
    :param pid: 0 unless it runs.
    :param uptime: seconds since it was started; 0 unless it runs.
    """

    name: str
    state: str
    pid: int
    uptime: int


def _rpc() -> Any:
    # Only this function needs the extra 'lab': help and other commands
    # import this module without it.
    from supervisor.xmlrpc import SupervisorTransport

    transport = SupervisorTransport(None, None, f'unix://{SOCKET}')
    # The address is a placeholder: the transport goes through the socket.
    proxy = client.ServerProxy('http://127.0.0.1', transport=transport)
    return proxy.supervisor


def _call(name: str, *args: Any, fine: Iterable[int] = ()) -> Any:
    try:
        return getattr(_rpc(), name)(*args)
    except client.Fault as exc:
        if exc.faultCode in fine:
            return None
        raise errors.CommandError(
            ['supervisord', name, *map(str, args)],
            exc.faultCode,
            exc.faultString,
        ) from exc
    except PermissionError as exc:
        raise errors.MissingPrerequisiteError(
            f'Cannot connect to {SOCKET}: only root can use it. Run the '
            'command with sudo.'
        ) from exc
    except (OSError, client.Error) as exc:
        raise errors.CommandError(
            ['supervisord', name], 1, f'{SOCKET}: {exc}'
        ) from exc


def alive() -> bool:
    """Tell whether our supervisord runs and answers."""
    if pid_files.read(_PID) is None:
        return False
    try:
        return bool(_call('getState')['statecode'] == 1)
    except errors.CommandError:
        return False


def ensure() -> None:
    """Start supervisord if it does not run.

    Orphans of one that was killed are ended first.

    :raises hvstack.errors.DeadlineExceededError: it does not answer.
    """
    if alive():
        return
    stale = pid_files.read(_PID)
    if stale is not None:
        pid_files.end([stale], grace=0)
    process_cgroup.end(grace=10)
    SOCKET.unlink(missing_ok=True)
    paths.make_directory(settings.LAB / 'log')
    _PROGRAMS.mkdir(parents=True, exist_ok=True)
    paths.make_directory(paths.RUN)
    render.write('supervisord.conf.j2', _CONFIG)
    argv = [venv.program('supervisord'), '--configuration', str(_CONFIG)]
    if systemd.owns_cgroups():
        unit = [
            *('systemd-run', '--collect', '--quiet'),
            *('--unit', systemd.CONTROL_UNIT, '--slice', systemd.SLICE),
            # One program that the kernel kills must not stop all others.
            '--property=OOMPolicy=continue',
            # As constants.FIRST_VICTIM.
            '--property=OOMScoreAdjust=500',
        ]
        names = [f'--setenv={k}={v}' for k, v in environment().items()]
        processutils.run([*unit, *names, *argv, '--nodaemon'])
    else:
        _spawn(argv)
    processutils.wait_for(
        lambda: bool(_call('getState')['statecode'] == 1),
        'supervisord to answer',
        timeout=20,
        interval=0.1,
        get_reason=lambda: log_tail('supervisord'),
    )
    pid_files.write(_PID, int(_call('getPID')))
    process_cgroup.record()


def _spawn(argv: Sequence[str]) -> None:
    # A fresh process is put into the cgroup before it becomes supervisord,
    # so nothing it starts can be outside. Its environment is our own choice:
    # services must not inherit the user's OS_* variables or virtual env.
    ready, go = os.pipe()
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    log = os.open(settings.log_path('supervisord-start'), flags, 0o600)
    process = subprocess.Popen(
        [
            *('/bin/sh', '-c', 'read -r _ && exec "$0" "$@"'),
            *(*constants.FIRST_VICTIM, *argv),
        ],
        stdin=ready,
        stdout=log,
        stderr=log,
        start_new_session=True,
        cwd='/',
        env=environment(),
    )
    os.close(log)
    os.close(ready)
    try:
        process_cgroup.join(process.pid)
        os.write(go, b'\n')
    finally:
        os.close(go)
    if process.wait(timeout=30):
        raise errors.CommandError(
            list(argv), process.returncode, log_tail('supervisord-start')
        )


def environment() -> dict[str, str]:
    """Return the variables that every program of the lab starts with."""
    path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
    return {
        'PATH': f'{venv.directory()}/bin:{path}',
        'HOME': str(settings.LAB / 'etc' / 'home'),
        'TMPDIR': str(settings.LAB / 'tmp'),
        'LANG': 'C.UTF-8',
        'PYTHONUNBUFFERED': '1',
        # For programs that get the variables of the user, too.
        **venv.NO_MODULES,
    }


def add_all(programs: Iterable[Program]) -> set[str]:
    """Make several programs known; return the names of changed ones."""
    changed = set()
    for program in programs:
        path = _PROGRAMS / f'{program.name}.conf'
        text = _section(program)
        if not path.exists() or path.read_text(encoding='utf-8') != text:
            paths.write_whole(path, text, mode=0o600)
            changed.add(program.name)
    _update()
    return changed


def remove(name: str) -> None:
    """Stop a program and forget it."""
    (_PROGRAMS / f'{name}.conf').unlink(missing_ok=True)
    if alive():
        _update()


def _update() -> None:
    added, changed, removed = _call('reloadConfig')[0]
    for name in [*removed, *changed]:
        stop(name)
        _call('removeProcessGroup', name, fine=[_BAD_NAME])
    for name in [*added, *changed]:
        _call('addProcessGroup', name, fine=[_ALREADY_ADDED])


def _section(program: Program) -> str:
    # supervisord expands %(...)s in values, and ends one at " ;".
    def quoted(text: str) -> str:
        return text.replace('%', '%%')

    quoted_args = [
        word if word.replace('-', '').isalnum() else f'"{word}"'
        for word in program.command
    ]
    env = ','.join(f'{k}="{v}"' for k, v in program.env.items())
    lines = [
        f'[program:{program.name}]',
        f'command={quoted(" ".join(quoted_args))}',
        *([f'environment={quoted(env)}'] if env else []),
        *([f'user={program.user}'] if program.user else []),
        f'stdout_logfile={settings.log_path(program.name)}',
        f'startsecs={program.start_seconds}',
        f'stopwaitsecs={program.stop_seconds}',
        f'stopsignal={program.stop_signal}',
        'directory=/',
        'autostart=false',
        'autorestart=true',
        'startretries=5',
        'redirect_stderr=true',
        'stdout_logfile_maxbytes=20MB',
        'stdout_logfile_backups=1',
        'killasgroup=true',
    ]
    return '\n'.join(lines) + '\n'


def start(name: str, *, wait: bool = True) -> None:
    """Start a program unless it runs.

    :param wait: until it counts as started.
    :raises hvstack.errors.CommandError: it ended at once; with its log.
    """
    try:
        _call('startProcess', name, wait, fine=[_ALREADY_STARTED])
    except errors.CommandError as exc:
        raise errors.CommandError(
            [name], exc.returncode, f'{exc.tail}\n{log_tail(name)}'
        ) from exc


def stop(name: str, *, wait: bool = True) -> None:
    """Stop a program if it runs."""
    _call('stopProcess', name, wait, fine=[_BAD_NAME, _NOT_RUNNING])


def status() -> dict[str, State]:
    """Return every program's state; empty if supervisord does not run."""
    if not alive():
        return {}
    return {
        info['name']: State(
            info['name'],
            info['statename'],
            info['pid'],
            info['now'] - info['start'] if info['pid'] else 0,
        )
        for info in _call('getAllProcessInfo')
    }


def shutdown(timeout: float = 60) -> None:
    """Stop all programs at once, then supervisord; end what is left."""
    pid = pid_files.read(_PID)
    lab_pids = process_cgroup.members()
    if alive():
        _call('stopAllProcesses', True)
        _call('shutdown')
        processutils.wait_for(
            lambda: pid is None or pid_files.start_time(pid) is None,
            'supervisord to end',
            timeout=timeout,
            interval=0.2,
        )
    elif pid is not None:
        pid_files.end([pid], grace=timeout)
    process_cgroup.end(grace=5)
    process_cgroup.wait_reaped(lab_pids)
    _PID.unlink(missing_ok=True)
    SOCKET.unlink(missing_ok=True)


def log_tail(name: str) -> str:
    """Return a log's last lines and path, for an error message."""
    path = settings.log_path(name)
    try:
        text = path.read_text(errors='replace', encoding='utf-8')[-8000:]
    except FileNotFoundError:
        return f'no log at {path}'
    return f'{processutils.tail(text)}\n(log: {path})'
