# SPDX-License-Identifier: Apache-2.0
"""The gate before a run: whether lab hosts get what their caps permit.

All workers are busy for some seconds, and each host must use its cap, with
its agents and its switch. The same counters serve bare metal and guests, so
that the gate favors neither.
"""

import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hvstack.cluster import lab_groups, probe
from hvstack.cluster.base import Node
from hvstack.cluster.lab_groups import HostGroup
from hvstack.cluster.probe import BusyResult
from hvstack.results.typed_json import JsonObject

#: Fraction of its cap that a host must get.
MIN_CAP_SHARE = 0.98
#: Tries before a run is measured in spite of the gate.
MAX_TRIES = 3
_SAMPLE_SECONDS = 0.05
#: Fractions of the used CPU time between which all processes of a host run.
_BUSY_FROM, _BUSY_UNTIL = 0.1, 0.9

#: Times with the CPU seconds that a host had used until then.
Samples = list[tuple[float, float]]


@dataclass(frozen=True)
class ProbeResult:
    """Result of the probe.

    :param shares: CPU seconds per second by node.
    :param facts: result of the gate as the record contains it.
    """

    shares: dict[str, float]
    facts: JsonObject


def measure(
    nodes: Sequence[Node], processors: int, cpu_caps: Mapping[str, float]
) -> ProbeResult:
    """Measure the cores that each node gets, up to three times.

    :param nodes: workers, all busy at the same time.
    :param processors: number of busy processes of each.
    :param cpu_caps: number of CPUs of each capped host by name; without those
        of a lab on this machine, or with caps that leave nothing of it, such
        as those of emulated hosts, the function has no gate and tries once.
    :raises hvstack.errors.CommandError: a node cannot be measured.
    """
    # Hosts cannot all get more than the machine has.
    has_caps = sum(cpu_caps.values()) < (os.cpu_count() or 1)
    groups = lab_groups.find_hosts(cpu_caps) if has_caps else []
    worker_hosts = len({node.host for node in nodes})
    tries = 0
    while True:
        tries += 1
        watch = _GroupWatch(groups)
        with watch:
            results = probe.measure_busy(nodes, processors)
        facts: JsonObject = {'tries': tries}
        if (pace := compute_pace(results.values())) is not None:
            facts['hashed_per_cpu_second'] = pace
        if groups:
            hosts = _select_hosts(
                watch.compute_cores(), cpu_caps, worker_hosts
            )
            facts |= describe_hosts(hosts, results.values())
        if facts.get('passed', True) or tries == MAX_TRIES:
            return ProbeResult(
                {name: result.cores for name, result in results.items()}, facts
            )


def describe_hosts(
    hosts: Mapping[str, Mapping[str, float]], results: Iterable[BusyResult]
) -> JsonObject:
    """Return whether hosts get their caps, and what their agents use.

    :param hosts: cap and used cores of each host with workers.
    :param results: results of all workers.
    """
    used = sum(host['cores'] for host in hosts.values())
    workers = sum(result.cores for result in results)
    return {
        'passed': all(
            host['cores'] >= MIN_CAP_SHARE * host['cap']
            for host in hosts.values()
        ),
        'hosts': dict(hosts),
        'agents_cores': round(max(0.0, used - workers), 4),
    }


def compute_pace(results: Iterable[BusyResult]) -> float | None:
    """Return the bytes that are hashed in a CPU second.

    :param results: results of the busy nodes.
    :returns: None if the kernel does not count the bytes.
    """
    counted = [
        result for result in results if result.hashed_bytes and result.seconds
    ]
    cpu_seconds = sum(result.cpu_seconds for result in counted)
    if not cpu_seconds:
        return None
    hashed_bytes = sum(result.hashed_bytes for result in counted)
    return float(round(hashed_bytes / cpu_seconds))


def _select_hosts(
    cores: Mapping[str, float], caps: Mapping[str, float], count: int
) -> dict[str, dict[str, float]]:
    """Return the hosts with workers, which are the busiest by their caps.

    Guests know their hosts by identifiers of Nova, not by names.

    :param count: number of hosts with workers.
    """
    names = sorted(caps, key=lambda name: cores[name] / caps[name])[-count:]
    return {
        name: {'cap': caps[name], 'cores': round(cores[name], 4)}
        for name in sorted(names)
    }


class _GroupWatch:
    """Thread that samples the CPU time of hosts during the probe."""

    def __init__(self, groups: Sequence[HostGroup]) -> None:
        self._groups = groups
        self._samples: dict[str, Samples] = {
            group.name: [] for group in groups
        }
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        if self._groups:
            self._thread.start()

    def __exit__(self, *_exc: object) -> None:
        self._stop.set()
        if self._groups:
            self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(_SAMPLE_SECONDS):
            for group in self._groups:
                try:
                    seconds = group.read_cpu_seconds()
                except OSError:
                    continue
                self._samples[group.name].append((time.monotonic(), seconds))

    def compute_cores(self) -> dict[str, float]:
        """Return the cores of each host while its workers were busy."""
        return {
            name: compute_cores(samples)
            for name, samples in self._samples.items()
        }


def compute_cores(samples: Samples) -> float:
    """Return CPU seconds per second of the busy part of some samples.

    The slope of a line through all samples hardly depends on the phase of the
    scheduler's periods at the two ends, as a difference would.

    :param samples: times with the CPU seconds used until then.
    """
    if len(samples) < 2:
        return 0.0
    first, last = samples[0][1], samples[-1][1]
    busy = [
        (moment, seconds)
        for moment, seconds in samples
        if _BUSY_FROM * (last - first)
        <= seconds - first
        <= _BUSY_UNTIL * (last - first)
    ]
    mean_time = sum(moment for moment, _ in busy) / max(1, len(busy))
    mean_used = sum(seconds for _, seconds in busy) / max(1, len(busy))
    spread = sum((moment - mean_time) ** 2 for moment, _ in busy)
    if not spread:
        return 0.0
    return (
        sum(
            (moment - mean_time) * (seconds - mean_used)
            for moment, seconds in busy
        )
        / spread
    )
