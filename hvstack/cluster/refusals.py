# SPDX-License-Identifier: Apache-2.0
"""What cannot work is refused before Heat is asked, with the remedy."""

import math
from collections.abc import Mapping
from typing import Protocol

from hvstack import errors
from hvstack.cloud.quotas import Need
from hvstack.cloud.volumes import Volumes
from hvstack.cluster.environments import Layout
from hvstack.model.configuration import Configuration
from hvstack.model.host import HostProfile

#: What a worker's wish for dedicated CPUs looks like in its flavor (Nova,
#: "CPU topologies").
_DEDICATED = ('hw:cpu_policy', 'dedicated')


class Size(Protocol):
    """What a flavor takes."""

    @property
    def vcpus(self) -> int:
        """Virtual CPUs."""

    @property
    def ram(self) -> int:
        """Memory in MiB."""


def workers(
    count: int, slots: int, configuration: Configuration, hosts: int
) -> None:
    """Refuse more workers than slots.

    :param slots: that no controller takes.
    :param hosts: that workers may be on.
    :raises hvstack.errors.InputError: there are more, or none at all.
    """
    if 1 <= count <= slots:
        return
    raise errors.InputError(
        f'{count} workers cannot be: {hosts} hosts of '
        f'{configuration.instances} slots leave {slots} for workers, take 1 '
        f'to {slots}, or more hosts or instances'
    )


def replication(replicas: int, hosts: int, node_groups: bool = True) -> None:
    """Refuse more replicas than physical hosts that carry workers.

    :param node_groups: whether Hadoop keeps replicas on different hosts.
    :raises hvstack.errors.InputError: there are more, or none at all.
    """
    if replicas >= 1 and (replicas <= hosts or not node_groups):
        return
    raise errors.InputError(
        f'replication {replicas} cannot be: no two replicas share one of the '
        f'{hosts} hosts that carry workers, take 1 to {hosts}'
    )


def disks(profile: HostProfile, configuration: Configuration) -> None:
    """Refuse disk pinning where disks would be left over.

    :raises hvstack.errors.InputError: they do not divide.
    """
    if not configuration.disk_pinning or profile.disks is None:
        return
    count, instances = profile.disks.count, configuration.instances
    if count % instances:
        good = [str(i) for i in range(1, count + 1) if not count % i]
        raise errors.InputError(
            f"{configuration.label}: the {count} data disks of '{profile.name}"
            f"' do not divide among {instances} workers, take "
            f'{", ".join(good)} instances'
        )


def volumes(configuration: Configuration, asked: Volumes | None) -> None:
    """Refuse volumes on Ceph for a configuration without them.

    :raises hvstack.errors.InputError: its disks are not to be chosen.
    """
    if asked is None:
        return
    if configuration.storage != 'ceph' or configuration.disk_pinning:
        raise errors.InputError(
            f'{configuration.label}: its disks are those of the hosts, '
            "volume type and number of volumes cannot be chosen: take 'ceph' "
            'without disk pinning'
        )


def flavor(
    name: str,
    extra_specs: Mapping[str, str] | None,
    configuration: Configuration,
) -> None:
    """Refuse a worker's flavor with another CPU policy than is asked for.

    :param extra_specs: None where the cloud does not show them.
    :raises hvstack.errors.InputError: shared instead of dedicated, or the
        other way round.
    """
    if extra_specs is None:
        return
    key, value = _DEDICATED
    dedicated = extra_specs.get(key) == value
    if configuration.cpu_policy == 'dedicated' and not dedicated:
        raise errors.InputError(
            f"flavor '{name}' is not dedicated: take one with {key}={value} "
            "('hvstack flavor publish' makes them), or cpu_policy shared"
        )
    if configuration.cpu_policy == 'shared' and dedicated:
        raise errors.InputError(
            f"flavor '{name}' has {key}={value}: take cpu_policy dedicated, "
            'or a flavor without it'
        )


def needs(
    layout: Layout, worker: Size, controller: Size, compute: Size | None = None
) -> Need:
    """Return what a cluster takes of its project's quota.

    :param compute: flavor of compute workers; the workers' if None.
    """
    nodes = (
        (layout.workers, worker),
        (layout.compute_workers, compute or worker),
        (2 if layout.controllers == 'separate' else 1, controller),
    )
    slots = layout.workers_per_host if layout.configuration.disk_pinning else 1
    types = layout.disk_types
    volumes = sum(
        len(types[number % len(types)]) for number in range(layout.workers)
    )
    return Need(
        instances=sum(count for count, _ in nodes),
        cores=sum(count * size.vcpus for count, size in nodes),
        ram=sum(count * size.ram for count, size in nodes),
        server_groups=slots
        + bool(layout.compute_workers)
        + (layout.controllers == 'separate'),
        server_group_members=max(
            math.ceil(layout.workers / slots), layout.compute_workers
        ),
        volumes=volumes,
        gigabytes=volumes * layout.disk_gb,
    )
