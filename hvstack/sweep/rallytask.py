# SPDX-License-Identifier: Apache-2.0
"""Rally tasks: output of Rally goes to a log, its events to the user."""

import collections
import contextlib
import io
import json
import os
import selectors
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hvstack import conf, interrupts, paths, processutils, share
from hvstack.cluster import baseline_hosts, cpu_caps, lab_groups
from hvstack.progress import Progress
from hvstack.results import timeline
from hvstack.results.timeline import Timeline
from hvstack.sweep import rallyenv, sweep_store, task_events
from hvstack.sweep.run_order import Step

#: Seconds without a line after which an interrupted Rally is killed.
_END_SECONDS = 600.0
_READ_BYTES = 65536
#: SQLAlchemy prints a statement and many other lines after its message.
_MAX_CHECKED_LINES = 60
#: Argument of a task.
TaskArgument = (
    str | int | Sequence['TaskArgument'] | Mapping[str, 'TaskArgument']
)


def list_arguments(
    workloads: Iterable[Sequence[Step]],
) -> list[dict[str, TaskArgument]]:
    """Return workloads as arguments of ``rally-tasks/sweep.yaml``."""
    return [
        {
            'configuration': workload[0].configuration,
            'first_index': workload[0].index,
            'sizes': [step.size_bytes for step in workload],
        }
        for workload in workloads
    ]


def run_task(
    task: str,
    arguments: Mapping[str, TaskArgument],
    sweep: str,
    progress: Progress,
    options: Mapping[str, Mapping[str, str]] | None = None,
    *,
    records_sweep: str = '',
) -> None:
    """Run a task until it ends; the run records contain the results.

    :param task: name of the file of the task.
    :param arguments: arguments of the task.
    :param sweep: name of the log without its suffix.
    :param progress: receives the progress lines.
    :param options: options by group that replace those of hvstack.conf in
        the process of Rally; None replaces nothing.
    :param records_sweep: name of the sweep in the run records, whose timeline
        gets the time of Rally; empty for that of the log.
    :raises hvstack.errors.HVStackError: Rally executed no run, because its
        database is locked, outdated or damaged.
    """
    log = paths.STATE / 'logs' / f'{sweep}.log'
    paths.make_directory(log.parent)
    progress.say(f"Rally's own output: {log}")
    records_sweep = records_sweep or sweep
    before = _count_records(records_sweep)
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
    ]
    with (
        Timeline(records_sweep).span(timeline.RALLY),
        log.open('ab', buffering=0) as stream,
        _lift_caps(options or {}),
        _start(argv, arguments, options or {}) as (process, events),
    ):
        follower = _Follower(process, events, stream, progress)
        try:
            follower.follow()
        except BaseException:
            follower.terminate()
            raise
    # The pipe may have been lost.
    if not follower.saved_count and _count_records(records_sweep) == before:
        output = '\n'.join(follower.last_lines)
        rallyenv.check_database(output)
        message = processutils.tail(output, 8)
        progress.warn(f'Rally ended without a run ({log}): {message}')


@dataclass
class _Follower:
    """Reads the output and the events of Rally.

    :param process: process of Rally.
    :param events: file descriptor of its events.
    :param log: receives its output.
    :param progress: receives its messages.
    """

    process: subprocess.Popen[bytes]
    events: int
    log: io.RawIOBase
    progress: Progress
    saved_count: int = 0
    last_lines: collections.deque[str] = field(
        default_factory=lambda: collections.deque(maxlen=_MAX_CHECKED_LINES)
    )

    def follow(self, silence: float | None = None) -> None:
        """Read until Rally ends.

        :param silence: seconds without a line after which to stop.
        :raises TimeoutError: no line came for so long.
        """
        assert self.process.stdout is not None
        output = self.process.stdout.fileno()
        for line, is_event in _read_lines(output, self.events, silence):
            if not is_event:
                _write(self.log, f'{line}\n'.encode())
                self.last_lines.append(line)
                continue
            event = task_events.parse_event(line)
            if isinstance(event, task_events.Message):
                self.progress.say(f'  {event.text}')
            self.saved_count += isinstance(event, task_events.SavedRecord)

    def terminate(self) -> None:
        """End Rally, first by SIGINT so that it undoes its changes.

        A cluster of many nodes takes long to delete. Only a Rally process
        that says nothing for :data:`_END_SECONDS` is killed.
        """
        activity = 'Rally is undoing the changes of its task'
        self.progress.say(activity)
        with (
            contextlib.suppress(ProcessLookupError),
            interrupts.deferred(activity, self.progress),
        ):
            os.killpg(self.process.pid, signal.SIGINT)
            try:
                self.follow(_END_SECONDS)
            except TimeoutError:
                self.progress.say(
                    f'Rally printed no line for {_END_SECONDS:g} s and is '
                    'killed. The next hvstack command undoes what remains.'
                )
                os.killpg(self.process.pid, signal.SIGKILL)


def _write(log: io.RawIOBase, output: bytes) -> None:
    """Write to a log. No space for it must not end a measurement."""
    with contextlib.suppress(OSError):
        log.write(output)


def _lift_caps(
    options: Mapping[str, Mapping[str, str]],
) -> contextlib.AbstractContextManager[None]:
    """Lift the CPU caps of lab hosts while the task measures nothing.

    :param options: options of hvstack.conf that the task replaces.
    """
    configured = conf.load()
    if not configured.benchmark.lift_caps:
        return contextlib.nullcontext()
    profile = (
        options.get('cloud', {}).get('host_profile')
        or configured.cloud.host_profile
    )
    return cpu_caps.lifted(
        lab_groups.find_hosts(baseline_hosts.list_capped(profile))
    )


def _count_records(sweep: str) -> int:
    """Return the number of records of a sweep, usable or not."""
    records, invalid_records = sweep_store.open_store().read_sweep(sweep)
    return len(records) + len(invalid_records)


@contextlib.contextmanager
def _start(
    argv: list[str],
    arguments: Mapping[str, TaskArgument],
    options: Mapping[str, Mapping[str, str]],
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start Rally with a pipe for its events.

    :param argv: command line of Rally, without the arguments of the task.
    :param arguments: arguments of the task.
    :param options: options of hvstack.conf that the task replaces.
    :returns: process of Rally, and file descriptor of its events.
    """
    with contextlib.ExitStack() as stack:
        events, event_sink = os.pipe()
        stack.callback(os.close, events)
        # A file in memory: an argument of a program has 128 KiB at most, and
        # those of all runs of a sweep can be longer.
        source = stack.enter_context(
            os.fdopen(os.memfd_create('hvstack-task-arguments'), 'wb')
        )
        source.write(json.dumps(arguments).encode())
        source.flush()
        number = source.fileno()
        try:
            process = subprocess.Popen(
                [*argv, '--task-args-file', f'/dev/fd/{number}'],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(event_sink, number),
                env={
                    **os.environ,
                    **rallyenv.VARIABLES,
                    **conf.variables(options),
                    'PYTHONUNBUFFERED': '1',
                    task_events.VARIABLE: task_events.format_variable(
                        event_sink
                    ),
                },
            )
        finally:
            os.close(event_sink)
        yield stack.enter_context(process), events


def _read_lines(
    output: int, events: int, silence: float | None = None
) -> Iterator[tuple[str, bool]]:
    """Yield the lines of Rally's output and of its events as they come.

    The output ends the task, because a program that Rally started could keep
    the pipe of the events open.

    :param output: file descriptor of the output.
    :param events: file descriptor of the events.
    :param silence: seconds without output after which to stop.
    :returns: lines, and whether a line is that of an event.
    :raises TimeoutError: no output came for so long.
    """
    buffers = {output: b'', events: b''}
    with selectors.DefaultSelector() as selector:
        for descriptor in buffers:
            selector.register(descriptor, selectors.EVENT_READ)
        while output in buffers or selector.select(0):
            ready = selector.select(silence)
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                data = os.read(key.fd, _READ_BYTES)
                *lines, buffers[key.fd] = (buffers[key.fd] + data).split(b'\n')
                if not data:
                    selector.unregister(key.fd)
                    lines = list(filter(None, [buffers.pop(key.fd)]))
                for line in lines:
                    yield line.decode(errors='replace'), key.fd == events
