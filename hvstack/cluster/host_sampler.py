# SPDX-License-Identifier: Apache-2.0
"""Sampling of the compute hosts of a run, from its start to its end.

Nothing here ever fails a run: a host that cannot be measured is a reason in
the record.
"""

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hvstack import errors, speed
from hvstack.cluster import baseline_hosts, lab_groups
from hvstack.cluster.host_inventory import Host
from hvstack.cluster.host_readers import HostReader, LabReader, SSHReader
from hvstack.results.compute_hosts import CGROUP, PROC
from hvstack.results.host_telemetry import HostsTelemetry

#: Seconds for the login to all hosts at once, and their first samples.
_START_SECONDS = 20.0
#: Seconds for the last samples of all hosts.
_END_SECONDS = 15.0
_LOOK_SECONDS = 0.05
#: Number of hosts that a sentence names.
_MAX_NAMED_HOSTS = 5
_NOT_MEASURED = 'The compute hosts were not measured:'
#: Backends whose guests are processes of an emulator.
_EMULATORS = ('kvm', 'qemu')


@dataclass
class HostSampler:
    """Samplers of the compute hosts of a run, from start to collection.

    :param readers: readers of the hosts.
    :param method: :data:`hvstack.results.compute_hosts.PROC` or
        :data:`~hvstack.results.compute_hosts.CGROUP`.
    :param interval: seconds between samples.
    :param inventory: file with the addresses of the hosts.
    :param reasons: hosts and times that are not measured, in whole sentences
        with the remedy.
    """

    readers: Sequence[HostReader]
    method: str
    interval: float
    inventory: Path
    reasons: list[str] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the samplers of all hosts, and wait for the first samples."""
        try:
            self._start_readers()
        except BaseException:
            for reader in self.readers:
                reader.abort()
            raise
        if self.readers:
            # No process waits for the thread: its end closes the input of
            # the programs on the hosts.
            self._thread = threading.Thread(
                target=self._request_samples, daemon=True
            )
            self._thread.start()

    def _start_readers(self) -> None:
        for reader in self.readers:
            reader.start()
        end = time.monotonic() + _START_SECONDS * speed.factor()
        while time.monotonic() < end and not all(
            reader.has_answered or reader.has_ended for reader in self.readers
        ):
            time.sleep(_LOOK_SECONDS)
        answered = []
        for reader in self.readers:
            if reader.has_answered:
                answered.append(reader)
                continue
            self.reasons.append(
                f'Compute host {reader.name} was not measured: '
                f'{reader.abort()}. {self._remedy}'
            )
        self.readers = answered

    @property
    def _remedy(self) -> str:
        if self.method == CGROUP:
            return "Check the lab with 'hvstack lab status'."
        return (
            'Check that root can log in to it by ssh as '
            f'{self.inventory} describes it.'
        )

    def _request_samples(self) -> None:
        while not self._stopping.wait(self.interval):
            for reader in self.readers:
                reader.request()

    def collect(self, started_at: float) -> HostsTelemetry:
        """End the samplers, and return the samples.

        :param started_at: Unix time of the start of the run.
        """
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        ended = {reader.name for reader in self.readers if reader.has_ended}
        for reader in self.readers:
            reader.end()
        end = time.monotonic() + _END_SECONDS * speed.factor()
        hosts = []
        for reader in self.readers:
            try:
                series = reader.finish(max(0.0, end - time.monotonic()))
            except (ValueError, LookupError) as exc:
                self.reasons.append(
                    f'Compute host {reader.name} was not measured: its '
                    f'samples cannot be read ({exc}). {self._remedy}'
                )
                continue
            hosts.append(series)
            if reader.name in ended:
                self.reasons.append(
                    f'Compute host {reader.name} was measured only until '
                    f'{series.times[-1] - started_at:.0f} s after the start '
                    'of the run: its sampler ended before the run did. '
                    f'{self._remedy}'
                )
        return HostsTelemetry(
            self.method if hosts else '', self.interval, hosts, self.reasons
        )


def create_sampler(
    names: Iterable[str], inventory: Path, backend: str, interval: float
) -> HostSampler:
    """Return the sampler of the compute hosts of a run.

    :param names: names of the hosts, as Placement reports them.
    :param inventory: file with the addresses of physical hosts, see
        :func:`hvstack.cluster.baseline_hosts.read`.
    :param backend: compute backend.
    :param interval: seconds between samples.
    """
    host_names = sorted(names)
    sampler = HostSampler([], '', interval, inventory)
    if not host_names:
        sampler.reasons.append(
            f'{_NOT_MEASURED} Placement shows their names to administrators '
            'only. Use the credentials of an administrator.'
        )
        return sampler
    groups = lab_groups.find_hosts(host_names)
    if groups:
        sampler.method = CGROUP
        sampler.readers = [
            LabReader(group, backend == 'lxc') for group in groups
        ]
        return sampler
    sampler.method = PROC
    if backend not in _EMULATORS:
        sampler.reasons.append(
            f'{_NOT_MEASURED} the guests of the backend {backend} are '
            'processes like others of a host. Measure the hosts with '
            'guests of kvm.'
        )
        return sampler
    hosts, reason = _read_inventory(inventory)
    if reason:
        sampler.reasons.append(reason)
        return sampler
    missing = []
    readers = []
    for name in host_names:
        host = _find_host(name, hosts)
        if host is None or host.reach is None:
            missing.append(name)
        else:
            readers.append(SSHReader(name, host.reach, interval))
    sampler.readers = readers
    if missing:
        others = len(missing) - _MAX_NAMED_HOSTS
        text = ', '.join(missing[:_MAX_NAMED_HOSTS])
        sampler.reasons.append(
            f'Compute hosts were not measured ({text}'
            + (f' and {others} others' if others > 0 else '')
            + f'): {inventory} has no addresses for ssh of these names. Add '
            "the hosts to 'hosts' of the inventory."
        )
    return sampler


def _read_inventory(inventory: Path) -> tuple[list[Host], str]:
    """Return the hosts of an inventory, or why it cannot be used."""
    if not inventory.exists():
        return [], (
            f'{_NOT_MEASURED} {inventory} does not exist. Set '
            "'baseline_hosts' in [sweep] of hvstack.conf to an inventory "
            'with the addresses of the compute hosts.'
        )
    try:
        return baseline_hosts.read(inventory), ''
    except errors.HVStackError as exc:
        return [], f'{_NOT_MEASURED} {exc}'


def _find_host(name: str, hosts: Sequence[Host]) -> Host | None:
    """Return the host of a name; Nova may name it with its domain."""
    for host in hosts:
        if host.name == name:
            return host
    short = name.partition('.')[0]
    same = [host for host in hosts if host.name.partition('.')[0] == short]
    return same[0] if len(same) == 1 else None
