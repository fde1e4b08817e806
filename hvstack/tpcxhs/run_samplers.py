# SPDX-License-Identifier: Apache-2.0
"""Samplers of a run: of the nodes, and of the compute hosts below them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from hvstack import conf
from hvstack.cluster import host_sampler
from hvstack.cluster.base import Cluster
from hvstack.cluster.host_sampler import HostSampler
from hvstack.cluster.sampler import Sampler, source
from hvstack.progress import Progress
from hvstack.results import run_clock, telemetry
from hvstack.tpcxhs.result import RunResult


@dataclass(frozen=True)
class SamplingSpec:
    """What is sampled during a run.

    :param interval: seconds between samples; 0 takes no samples.
    :param inventory: file with the addresses of the compute hosts of guests;
        None does not sample the hosts.
    """

    interval: float = 0
    inventory: Path | None = None

    @classmethod
    def load(cls) -> Self:
        """Return the request of the options of ``hvstack.conf`` request."""
        options = conf.load()
        return cls(
            options.telemetry.interval,
            Path(options.sweep.baseline_hosts)
            if options.telemetry.compute_hosts
            else None,
        )


#: A run without any samples.
NO_SAMPLING = SamplingSpec()


@dataclass
class RunSamplers:
    """Context in which the nodes and the compute hosts of a run are sampled.

    When it ends, also by an exception, the samplers end, and the result of
    the run gets the samples.

    :param cluster: cluster that executes the run.
    :param run_result: result with the observations of the cluster.
    :param spec: what is sampled.
    :param progress: where to report; None reports nothing.
    """

    cluster: Cluster
    run_result: RunResult
    spec: SamplingSpec
    progress: Progress | None = None
    _nodes: Sampler | None = None
    _hosts: HostSampler | None = None
    _started_at: float = field(default_factory=run_clock.now)

    def __enter__(self) -> Self:
        """Start the samplers; a sampler that does not start fails no run."""
        sut = self.run_result.sut
        if self.spec.interval:
            self._nodes = Sampler(
                self.cluster.nodes, source(sut), self.spec.interval
            )
            self._nodes.start()
            self._hosts = self._create_host_sampler()
            if self._hosts is not None:
                self._hosts.start()
        self._started_at = run_clock.now()
        return self

    def _create_host_sampler(self) -> HostSampler | None:
        """Return the sampler of the hosts; None without guests."""
        backend = self.run_result.sut.get('backend')
        if self.spec.inventory is None or not isinstance(backend, str):
            return None
        inventory = self.run_result.observations.get('inventory')
        return host_sampler.create_sampler(
            inventory if isinstance(inventory, Mapping) else (),
            self.spec.inventory,
            backend,
            self.spec.interval,
        )

    def __exit__(
        self,
        _exc_type: type[BaseException] | None,
        _exc: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """End the samplers, and add their samples to the result."""
        # The hosts have nothing to do with the collection from the nodes.
        if self._hosts is not None:
            hosts = self._hosts.collect(self._started_at)
            self.run_result.compute_hosts = hosts
            if self.progress and hosts.reasons:
                others = len(hosts.reasons) - 1
                self.progress.say(
                    hosts.reasons[0]
                    + (f' {others} more in the run record.' if others else '')
                )
        if self._nodes is not None:
            self.run_result.telemetry = self._nodes.collect(
                self._started_at,
                telemetry.compute_windows(self.run_result.read_phases()),
            )
