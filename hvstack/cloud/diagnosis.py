# SPDX-License-Identifier: Apache-2.0
"""Diagnoses of a cloud, and what a cluster requires of it."""

from dataclasses import dataclass

from hvstack.model.configuration import Configuration
from hvstack.model.flavor import Flavor
from hvstack.model.host import HostProfile

OK, NOTE, FAULT, UNCHECKED = 'ok', 'note', 'fault', 'not checked'


@dataclass(frozen=True)
class Diagnosis:
    """What a check saw.

    :param check: what was inspected.
    :param state: ``ok``, ``note``, ``fault`` or ``not checked``.
    :param detail: what was seen.
    :param remedy: what to do; empty where all is well.
    :param nova_conf: lines to set, with their section.
    :param refused: it could be inspected, but a service refused or is missing.
    """

    check: str
    state: str
    detail: str
    remedy: str = ''
    nova_conf: str = ''
    refused: bool = False

    @property
    def bad(self) -> bool:
        """Whether a cloud may not be called ready for it."""
        return self.state == FAULT or self.refused


def build_finding(
    check: str, good: bool, detail: str, remedy: str, nova_conf: str = ''
) -> Diagnosis:
    """Return a finding that is ok or a fault; only a fault has a remedy."""
    if good:
        return Diagnosis(check, OK, detail)
    return Diagnosis(check, FAULT, detail, remedy, nova_conf)


@dataclass(frozen=True)
class CloudNeeds:
    """The cluster that a cloud is inspected for.

    :param profile: of the workers' hosts.
    :param nodes: flavor and number of each role, the workers first.
    :param image: name or id of the guest image.
    :param network: name or id of the clusters' network.
    :param volume_types: those that the cluster's volumes need.
    :param zone: availability zone of the nodes; empty for any.
    :param sends_host_keys: whether nodes send their ssh host keys to Heat.
    """

    profile: HostProfile
    configuration: Configuration
    nodes: tuple[tuple[Flavor, int], ...]
    image: str
    network: str
    volume_types: tuple[str, ...] = ()
    zone: str = ''
    sends_host_keys: bool = False

    @property
    def servers(self) -> int:
        """All nodes."""
        return sum(count for _, count in self.nodes)

    @property
    def volumes(self) -> tuple[int, int]:
        """Volumes of all nodes, and their GB together."""
        totals = [
            (flavor.disks * count, flavor.disks * count * flavor.disk_size_gb)
            for flavor, count in self.nodes
        ]
        return sum(n for n, _ in totals), sum(size for _, size in totals)

    @property
    def needs_volumes(self) -> bool:
        """Whether the workers' data is on volumes."""
        flavor, _ = self.nodes[0]
        # Disks that are passed through come with the flavor.
        return 'pci_passthrough:alias' not in flavor.extra_specs and (
            self.configuration.storage == 'ceph'
            or self.configuration.disk_pinning
        )

    @property
    def dedicated(self) -> bool:
        """Whether guests get CPUs of their own."""
        return self.configuration.cpu_policy == 'dedicated'
