# SPDX-License-Identifier: Apache-2.0
"""Running a case in a forked child with limits, and what came of it."""

import contextlib
import csv
import ctypes
import fcntl
import io
import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import stat
import struct
import sys
import time
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.fuzz.cases import Case

CPU_SECONDS = 10
WALL_SECONDS = 20.0
MEMORY_BYTES = 5 * 2**29
FILE_BYTES = 2**26
_CLONE_NEWNET = 0x40000000

#: What no message for an operator says.
PYTHON = re.compile(
    r"Traceback|NoneType|' object |KeyError|ValueError|TypeError|unhashable"
    r'|not supported between|Expecting value|Expecting property|Extra data'
    r'|argument of type|positional argument|unexpected keyword|__init__'
    r'|\[Errno|invalid literal for|could not convert|codec can|list indices'
    r'|indices must be|not iterable|not subscriptable|too many values'
    r'|Exceeds the limit|surrogates not allowed|line \d+ column \d+ \(char'
    r'|embedded null|must be str|object has no|out of range$|cannot convert'
    r'|Invalid isoformat|Invalid control character|MemoryError|<class '
    r'|maximum recursion|Unterminated string'
)
_CONTROL = re.compile(
    '[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]'
)
#: A library's words about a cloud that is away stand behind ours.
_CLOUD = re.compile('Cannot connect to the cloud')
_NO_CLOUD = re.compile('Cannot connect to a cloud')


@dataclass
class Result:
    """What came of a case.

    :param classes: names of the faults; empty if all is well.
    :param status: exit status of the command; -1 if it was killed.
    :param message: last lines of standard error.
    """

    number: int
    group: str
    label: str
    argv: tuple[str, ...]
    status: int
    message: str
    classes: list[str] = field(default_factory=list)
    detail: str = ''

    def line(self) -> str:
        """Return the result as a line of JSON."""
        return json.dumps(asdict(self))


def isolate() -> bool:
    """Leave the machine's network: only a loopback of its own is reached.

    :returns: False where that needs other rights; addresses in the cases
        are those of loopback and of documentation anyway.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() or libc.unshare(_CLONE_NEWNET):
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack('16sh', b'lo', 1 | 64)
        fcntl.ioctl(sock, 0x8914, request)
    return True


def load() -> None:
    """Import what commands need, so that forked children need not."""
    import importlib.metadata

    for entry in importlib.metadata.entry_points(group='hvstack.cli'):
        entry.load()
    for name in (
        'results.record',
        'accept.tempest_conf',
        'rally_plugins.task_state',
    ):
        importlib.import_module(f'hvstack.{name}')
    importlib.import_module('tests.fuzz.calls')


def run(case_index: int, case: Case, root: Path) -> Result:
    """Run a case, and classify what it did."""
    reader = _hold_output(case)
    pid = os.fork()
    if not pid:
        _child(case, root)
    try:
        status = _wait(pid, [] if reader is None else [reader])
    finally:
        if reader is not None:
            os.close(reader)
    return _classify(case_index, case, root, status)


def _hold_output(case: Case) -> int | None:
    """Open the reading end of a FIFO that is written to."""
    if case.output and stat.S_ISFIFO(case.output[1]):
        return os.open(case.output[0], os.O_RDWR | os.O_NONBLOCK)
    return None


def _wait(pid: int, readers: list[int]) -> int | None:
    """Return a child's wait status; None if it took too long.

    :param readers: FIFOs to read from in the meantime: a page of HTML is
        larger than a FIFO.
    """
    handle = os.pidfd_open(pid)
    idle, cpu_seconds = 0.0, -1.0
    ready: list[int] = []
    try:
        # On a busy machine a child may wait long for a CPU: only one that
        # sleeps all the time is stuck.
        while handle not in ready and idle < WALL_SECONDS:
            ready, _, _ = select.select(
                [handle, *readers], [], [], WALL_SECONDS / 4
            )
            for reader in set(readers).intersection(ready):
                os.read(reader, 2**20)
            if not ready:
                before, cpu_seconds = cpu_seconds, _cpu_seconds(pid)
                idle = idle + WALL_SECONDS / 4 if before == cpu_seconds else 0
    finally:
        os.close(handle)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    if handle not in ready:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return status if handle in ready else None


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process; another one if it has none to get.

    :returns: a value that differs from the last one while it is runnable.
    """
    path = Path(f'/proc/{pid}/stat')
    values = path.read_text('utf-8', 'replace').rpartition(')')[2].split()
    if values[0] in 'RD':
        return time.monotonic()
    return int(values[11]) + int(values[12])


def _child(case: Case, root: Path) -> None:
    """Run the command and leave what it did in files; never return."""
    status, failure = 99, ''
    try:
        os.setsid()
        work_dir = root / 'work'
        os.chdir(work_dir)
        _redirect(root)
        for name in list(os.environ):
            if name.startswith(('OS_', 'HVSTACK_')):
                del os.environ[name]
        os.environ |= {
            'HOME': str(root / 'home'),
            'OS_CLIENT_CONFIG_FILE': str(work_dir / 'clouds.yaml'),
            **case.env,
        }
        for limit, value in (
            (resource.RLIMIT_CPU, CPU_SECONDS),
            (resource.RLIMIT_AS, MEMORY_BYTES),
            (resource.RLIMIT_FSIZE, FILE_BYTES),
            (resource.RLIMIT_CORE, 0),
        ):
            resource.setrlimit(limit, (value, value))
        status, failure = _command(case)
    except SystemExit as exc:
        status = exc.code if isinstance(exc.code, int) else 1
    except BaseException:
        failure = traceback.format_exc()
        status = 98
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
        with contextlib.suppress(BaseException):
            sys.stderr.flush()
        with contextlib.suppress(BaseException):
            text = json.dumps([status, failure])
            (root / 'result').write_text(text, encoding='utf-8')
        os._exit(0)


def _redirect(root: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    for descriptor, name in ((1, 'stdout'), (2, 'stderr')):
        os.dup2(os.open(root / name, flags, 0o600), descriptor)
    os.dup2(os.open('/dev/null', os.O_RDONLY), 0)
    sys.stdout = open(1, 'w', encoding='utf-8', closefd=False)  # noqa: SIM115
    sys.stderr = open(  # noqa: SIM115
        2, 'w', encoding='utf-8', closefd=False, errors='backslashreplace'
    )


def _command(case: Case) -> tuple[int, str]:
    """Run in the child; return exit status and traceback of a fault."""
    from hvstack import errors
    from hvstack.cli import app

    name, *args = case.argv
    if name.startswith('call:'):
        from tests.fuzz import calls

        try:
            getattr(calls, name.removeprefix('call:'))(*args)
        except errors.HVStackError as exc:
            print(exc, file=sys.stderr)
            return exc.exit_code, ''
        except calls.RefusedError as exc:
            print(' '.join(str(exc).split()), file=sys.stderr)
            return 1, 'foreign'
        return 0, ''
    if case.is_parsed:
        _only_parse(case.argv)
    running = app.HVStack()
    try:
        status = running.run(list(case.argv))
    finally:
        failure = getattr(running, 'failure', None)
    if failure is None or isinstance(
        failure, errors.HVStackError | SystemExit
    ):
        return int(status), ''
    return int(status), ''.join(traceback.format_exception(failure))


def _only_parse(argv: tuple[str, ...]) -> None:
    """Let a command end after its options are parsed."""
    import importlib.metadata

    for entry in importlib.metadata.entry_points(group='hvstack.cli'):
        command = tuple(entry.name.split('_'))
        if argv[: len(command)] == command:
            entry.load().run = lambda self, parsed_args: 0


def _classify(
    case_index: int, case: Case, root: Path, wait_status: int | None
) -> Result:
    texts = {}
    for name in ('stdout', 'stderr', 'result'):
        path = root / name
        raw = path.read_bytes() if path.exists() else b''
        texts[name] = raw.decode('utf-8', 'replace')
    status, failure = -1, ''
    if texts['result']:
        status, failure = json.loads(texts['result'])
    message = texts['stderr'].strip()[:3000]
    result = Result(
        case_index, case.group, case.label, case.argv, status, message
    )
    if wait_status is None:
        result.classes.append('hang')
        result.detail = f'asleep for {WALL_SECONDS:.0f} s'
    elif not texts['result']:
        killed = os.WTERMSIG(wait_status)
        is_hang = killed in (signal.SIGXCPU, signal.SIGKILL)
        result.classes.append('hang' if is_hang else 'internal')
        result.detail = f'signal {killed}'
    _classify_output(case, result)
    if result.classes:
        return result
    if failure and failure != 'foreign':
        result.classes.append('internal')
        result.detail = failure.strip().splitlines()[-1][:300]
    elif status and failure != 'foreign':
        _classify_message(case, result, texts['stdout'])
    printed = texts['stdout'] + texts['stderr']
    is_named = any(name in printed for name in case.names[:1] if '.' in name)
    if (
        status == 0
        and case.invalid
        and not (is_named and case.group not in ('options', 'environment'))
    ):
        result.classes.append('accepted')
    # The page holds a foreign library's text.
    is_page = 'html' in case.argv or '--html' in case.argv
    if not is_page and _CONTROL.search(printed):
        result.classes.append('terminal')
    if 'csv' in case.argv and _has_formula(texts['stdout']):
        result.classes.append('formula')
    return result


def _classify_message(case: Case, result: Result, stdout: str) -> None:
    text = result.message
    if not case.offline and (
        _CLOUD.search(text)
        or (case.group != 'clouds.yaml' and _NO_CLOUD.search(text))
    ):
        return
    if PYTHON.search(text):
        result.classes += ['python', 'unclear']
        return
    printed = text + stdout
    if not text or not any(name in printed for name in case.names):
        result.classes.append('unclear')


def _classify_output(case: Case, result: Result) -> None:
    if case.output is None:
        return
    path, mode, device = case.output
    after = path.lstat() if os.path.lexists(path) else None
    if (
        after is None
        or stat.S_IFMT(after.st_mode) != stat.S_IFMT(mode)
        or after.st_rdev != device
    ):
        result.classes.append('device')
        result.detail = f'{result.label}: replaced'


def _has_formula(text: str) -> bool:
    try:
        rows = list(csv.reader(io.StringIO(text)))
    except csv.Error:
        return False
    return any(
        cell.startswith(('=', '@', '+')) for row in rows for cell in row
    )


def empty(root: Path) -> None:
    """Remove everything below a directory."""
    for path in root.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
