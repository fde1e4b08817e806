# SPDX-License-Identifier: Apache-2.0
"""Checks of the target of a run record: bare metal, or guests on hosts.

They find facts of a cloud in a record of bare metal, and flavors, allocation
ratios and numbers of hosts that another configuration would have.
"""

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hvstack.model import compute_backends
from hvstack.model.configuration import Configuration
from hvstack.model.target import BareMetal
from hvstack.results.observations import ObservedFlavor, ObservedInventory

if TYPE_CHECKING:
    from hvstack.results.record_data import RunRecord
    from hvstack.results.selfcheck import Contradiction

#: Amounts of resources are products of rounded ratios.
_ROUNDING = 0.001
_FLAVOR_NAME = re.compile(r'hv-.+-worker-(i\d[^/]*)-v(\d+)-m(\d+)-d\d+')
#: Facts that only guests have.
_OF_GUESTS = ('guest_vcpus', 'guest_ram_mib', 'inventory', 'allocation_ratio')
_OF_HYPERVISORS = ('backend', 'qemu', 'libvirt')


def check_target(record: 'RunRecord') -> 'Iterator[Contradiction]':
    """Yield facts of guests on bare metal, and the other way round."""
    target = record.run.target
    facts, observed = record.sut.facts, record.observations.facts
    if isinstance(target, BareMetal):
        for source, values, names in (
            ('environment', facts, _OF_HYPERVISORS),
            ('seen', observed, _OF_GUESTS),
        ):
            for name in names:
                if values.get(name) is not None:
                    yield f'{source}.{name}', 'does not exist on bare metal'
        return
    if 'host_vcpus' in observed:
        yield 'seen.host_vcpus', 'is recorded on bare metal only'
    if record.valid:
        yield from _check_guests(record, target)


def _check_guests(
    record: 'RunRecord', configuration: Configuration
) -> 'Iterator[Contradiction]':
    """Yield facts of the cloud that another configuration would have."""
    backend = record.sut.backend
    if backend is None or backend not in compute_backends.BACKENDS:
        yield 'environment.backend', f'is {backend!r:.40}, which is unknown'
        return
    if reason := compute_backends.unsupported_parameter(
        configuration, backend
    ):
        yield 'environment.backend', f'is {backend}: {reason}'
    cloud = record.observations.cloud
    flavor = cloud.flavor.get('worker', ObservedFlavor())
    vcpus, ram = flavor.vcpus, flavor.ram
    if vcpus is None or ram is None or vcpus < 1 or ram < 1:
        yield 'seen.flavor', 'has no vCPUs or memory of a worker'
        return
    policy = flavor.extra_specs.get('hw:cpu_policy', 'shared')
    if policy != configuration.cpu_policy:
        yield (
            'seen.flavor',
            f'has hw:cpu_policy {policy!r:.40}, but the configuration is '
            f'{configuration.cpu_policy}',
        )
    name = _FLAVOR_NAME.fullmatch(flavor.name)
    if name and name.groups() != (
        configuration.name,
        f'{vcpus:.0f}',
        f'{ram:.0f}',
    ):
        yield 'seen.flavor', f"has the name '{name[0]:.120}' of another flavor"
    resource_class = (
        'PCPU' if configuration.cpu_policy == 'dedicated' else 'VCPU'
    )
    if cloud.allocations and not any(
        used.get(resource_class) == vcpus and used.get('MEMORY_MB') == ram
        for used in cloud.allocations.values()
    ):
        yield 'seen.allocations', 'are of another flavor than the workers had'
    yield from _check_inventory(record, configuration, vcpus, ram)


def _check_inventory(
    record: 'RunRecord', configuration: Configuration, vcpus: float, ram: float
) -> 'Iterator[Contradiction]':
    """Yield ratios and sizes of hosts that are not the configuration's."""
    inventory = record.observations.cloud.inventory
    if not inventory:
        yield 'seen.inventory', 'is missing'
    dedicated = configuration.cpu_policy == 'dedicated'
    promises = (
        ('PCPU' if dedicated else 'VCPU', configuration.cpu_ratio, vcpus),
        ('MEMORY_MB', configuration.ram_ratio, ram),
    )
    for host, resources in inventory.items():
        for resource_class, ratio, amount in promises:
            content = resources.get(resource_class, ObservedInventory())
            total, actual = content.total, content.allocation_ratio
            if total is None:
                yield (
                    'seen.inventory',
                    f'of {host:.60} has no {resource_class}',
                )
                continue
            if actual is None or not math.isclose(actual, ratio):
                yield (
                    'seen.inventory',
                    f'of {host:.60} has {resource_class} ratio {actual}, but '
                    f'the configuration has {ratio:g}',
                )
            elif configuration.instances * amount > total * ratio + _ROUNDING:
                yield (
                    'seen.flavor',
                    f'is too large: {configuration.instances} guests with '
                    f'{amount:g} of {resource_class} exceed {total:g} x '
                    f'{ratio:g} of {host:.60}',
                )


def check_hosts(record: 'RunRecord') -> 'Iterator[Contradiction]':
    """Yield numbers of hosts and workers that cannot be right."""
    hosts = record.sut.facts.get('hosts')
    if isinstance(hosts, bool) or not isinstance(hosts, int | float):
        hosts = None  # Some records contain the names of the hosts.
    worker_hosts = record.sut.worker_hosts
    if hosts is not None and hosts < 1:
        yield 'environment.hosts', f'is {hosts}'
    if worker_hosts is not None and (
        worker_hosts < 1 or (hosts is not None and worker_hosts > hosts)
    ):
        yield 'environment.worker_hosts', f'is {worker_hosts} of {hosts}'
    # Guests may share hosts with controllers, so that fewer hosts count.
    observed = record.observations.worker_hosts
    if (
        record.kind == 'baseline'
        and None not in (observed, worker_hosts)
        and observed != worker_hosts
    ):
        yield (
            'environment.worker_hosts',
            f'is {worker_hosts}, but {observed} were observed',
        )
    workers = record.observations.workers
    if workers is not None and record.valid and workers < record.replication:
        yield (
            'replication',
            f'is {record.replication}, more than {workers:g} workers',
        )
