# SPDX-License-Identifier: Apache-2.0
"""Readers of the counters of compute hosts during a run.

The samplers of :mod:`hvstack.cluster.sampler` write files on their nodes, and
run for up to a day if no process stops them. On a compute host nothing may
be written or remain. The program of :class:`SSHReader` therefore prints a
sample for each line of its input, and ends with its input: when this process
closes it, is killed, or loses its connection.
"""

import contextlib
import itertools
import os
import shlex
import signal
import subprocess
import tempfile
from dataclasses import dataclass, field
from typing import IO, Protocol

from hvstack import processutils, shell_scripts
from hvstack.cluster import host_samples
from hvstack.cluster.lab_groups import HostGroup
from hvstack.cluster.ssh import SSHNode
from hvstack.results import run_clock
from hvstack.results.host_telemetry import HostSeries
from hvstack.results.telemetry import Values

#: Seconds without a request after which a program on a host ends. The kernel
#: notices a lost connection hours later.
_IDLE_SECONDS = 60.0
#: Intervals without a request, if they are longer.
_IDLE_INTERVALS = 4
_END = b'\nend\n'


class HostReader(Protocol):
    """Reader of the counters of a compute host."""

    @property
    def name(self) -> str:
        """Name of the host, as Placement reports it."""

    @property
    def has_answered(self) -> bool:
        """Whether the first sample is complete."""

    @property
    def has_ended(self) -> bool:
        """Whether there can be no further sample."""

    def start(self) -> None:
        """Start the reader, and request the first sample."""

    def request(self) -> None:
        """Request a sample, without waiting for it."""

    def end(self) -> None:
        """Request the last sample, without waiting for it."""

    def finish(self, seconds: float) -> HostSeries:
        """Return the samples, after :meth:`end`.

        :param seconds: maximum seconds to wait for the last sample.
        :raises ValueError: the host printed no samples.
        :raises LookupError: a sample lacks a field.
        """

    def abort(self) -> str:
        """End the reader without its samples, and return why it failed."""


@dataclass
class SSHReader:
    """Reader of a compute host that ssh reaches.

    :param name: name of the host, as Placement reports it.
    :param node: the host.
    :param interval: seconds between samples.
    """

    name: str
    node: SSHNode
    interval: float
    _requests: list[float] = field(default_factory=list)
    _files: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _output: IO[bytes] | None = None
    _errors: IO[bytes] | None = None
    _process: subprocess.Popen[bytes] | None = None
    _failure: str = ''

    def start(self) -> None:
        """Start the program on the host, and request the first sample."""
        idle_seconds = max(_IDLE_SECONDS, _IDLE_INTERVALS * self.interval)
        command = shlex.join(
            [
                *('sh', '-c', shell_scripts.load('compute-host-sampler')),
                *('hvstack-sampler', f'{idle_seconds:.0f}'),
                host_samples.PROCESSES,
            ]
        )
        # The program writes to them until the run ends.
        with contextlib.ExitStack() as files:
            self._output = files.enter_context(tempfile.TemporaryFile())
            self._errors = files.enter_context(tempfile.TemporaryFile())
            self._files = files.pop_all()
        try:
            # The last sample must not fail because Ctrl-C has ended ssh.
            self._process = subprocess.Popen(
                self.node.build_own_argv(command),
                stdin=subprocess.PIPE,
                stdout=self._output,
                stderr=self._errors,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as exc:
            self._failure = str(exc)
        self.request()

    @property
    def has_answered(self) -> bool:
        """Whether the first sample is complete."""
        return _END in _read(self._output)

    @property
    def has_ended(self) -> bool:
        """Whether the connection has ended."""
        return self._process is None or self._process.poll() is not None

    def request(self) -> None:
        """Request a sample, without waiting for it."""
        if self._process is None or self._process.stdin is None:
            return
        moment = run_clock.now()
        # A connection that has ended takes no requests; its end is reported
        # with the samples.
        with contextlib.suppress(OSError):
            self._process.stdin.write(b'\n')
            self._requests.append(moment)

    def end(self) -> None:
        """Request the last sample, without waiting for it."""
        if self.has_ended and not self._failure:
            self._failure = self._describe_end()
        self.request()
        self._close_input()

    def finish(self, seconds: float) -> HostSeries:
        """Return the samples, after :meth:`end`.

        :param seconds: maximum seconds to wait for the last sample.
        :raises ValueError: the host printed no samples.
        :raises LookupError: a sample lacks a field.
        """
        self._wait(seconds)
        try:
            text = _read(self._output).decode('utf-8', 'replace')
            return host_samples.build_series(
                self.name, host_samples.parse(text), self._requests
            )
        finally:
            self._close_files()

    def abort(self) -> str:
        """End the reader without its samples, and return why it failed."""
        failure = self._failure or self._describe_end()
        self._close_input()
        self._wait(0)
        self._close_files()
        return failure

    def _describe_end(self) -> str:
        """Return why the connection has ended, or that it has not."""
        text = processutils.tail(
            _read(self._errors).decode('utf-8', 'replace'), 3
        )
        if text:
            return ' '.join(text.split())[:300].removesuffix('.')
        if self._process is None or self._process.poll() is None:
            return 'it did not answer in time'
        return f'ssh exited with status {self._process.returncode}'

    def _close_input(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.stdin = None

    def _wait(self, seconds: float) -> None:
        """Wait until ssh has ended, and end it after the given time."""
        if self._process is None:
            return
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _close_files(self) -> None:
        self._files.close()
        self._output = self._errors = None


@dataclass
class LabReader:
    """Reader of a lab host, whose control group is on this machine.

    The group contains the guests, the agents and the switch of the host; its
    kernel, disks and network interfaces are those of this machine.

    :param group: control group of the host.
    :param has_containers: whether the guests are containers, without an
        emulator.
    """

    group: HostGroup
    has_containers: bool
    _samples: list[tuple[float, float, float]] = field(default_factory=list)
    _failure: str = ''

    @property
    def name(self) -> str:
        """Name of the host."""
        return self.group.name

    @property
    def has_answered(self) -> bool:
        """Whether the first sample was taken."""
        return bool(self._samples)

    @property
    def has_ended(self) -> bool:
        """Whether the host was powered off."""
        return bool(self._failure)

    def start(self) -> None:
        """Take the first sample."""
        self.request()

    def request(self) -> None:
        """Take a sample."""
        if self._failure:
            return
        try:
            self._samples.append(
                (
                    run_clock.now(),
                    self.group.read_cpu_seconds(),
                    self.group.read_guest_seconds(),
                )
            )
        except (OSError, ValueError, KeyError) as exc:
            self._failure = f'its control group cannot be read ({exc})'

    def end(self) -> None:
        """Take the last sample."""
        self.request()

    def finish(self, seconds: float) -> HostSeries:
        """Return the samples.

        :param seconds: not used: no sample is outstanding.
        :raises ValueError: there are fewer than two samples.
        """
        if len(self._samples) < 2:
            raise ValueError('fewer than two samples')
        busy = self._compute_rates(1)
        guests = self._compute_rates(2)
        rates: dict[str, Values] = {
            'busy': busy,
            'guests': guests,
            'agents': [
                None
                if total is None or part is None
                else max(0.0, round(total - part, 4))
                for total, part in zip(busy, guests, strict=True)
            ],
        }
        if self.has_containers:
            rates['guest_time'] = guests
        return HostSeries(
            name=self.name,
            role='compute host',
            host=self.name,
            times=[sample[0] for sample in self._samples],
            rates=rates,
        )

    def abort(self) -> str:
        """Return why no sample could be taken."""
        return self._failure

    def _compute_rates(self, column: int) -> Values:
        """Return cores that a group used; None if its counter restarted."""
        return [
            round((new[column] - old[column]) / (new[0] - old[0]), 4)
            if new[0] > old[0] and new[column] >= old[column]
            else None
            for old, new in itertools.pairwise(self._samples)
        ]


def _read(file: IO[bytes] | None) -> bytes:
    """Return the content of a file to which a program still writes.

    The program shares the position of the file, which stays as it is.

    :param file: file; None before it is created.
    """
    if file is None:
        return b''
    number = file.fileno()
    return os.pread(number, os.fstat(number).st_size, 0)
