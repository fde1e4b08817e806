# SPDX-License-Identifier: Apache-2.0
"""Cluster size: how many workers hosts hold beside the controllers."""

from dataclasses import asdict, dataclass
from typing import Any

from hvstack import errors
from hvstack.model.configuration import Configuration
from hvstack.model.flavor import (
    Remainder,
    compute_remainder,
    count_controller_slots,
)
from hvstack.model.host import CONTROLLER_RULES, HostProfile


@dataclass(frozen=True)
class ClusterSize:
    """A cluster's nodes.

    :param hosts: hosts in all.
    :param instances: slots of each host.
    :param workers: slots that no controller takes.
    :param controllers: controller nodes, each on a host of its own.
    :param slots_per_controller: slots that each takes.
    :param rule: how controllers are placed.
    :param rest: what each host's equal shares leave.
    """

    hosts: int
    instances: int
    workers: int
    controllers: int
    slots_per_controller: int
    rule: str
    rest: Remainder

    def to_mapping(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def compute_cluster_size(
    profile: HostProfile,
    configuration: Configuration,
    hosts: int,
    controllers: str | None = None,
    native: bool = False,
) -> ClusterSize:
    """Count the workers: I x hosts - slots taken by controllers.

    vsphere6, Table 1 and "Controller Daemons": one dedicated machine for
    both controllers natively and with one VM a host, else two on separate
    hosts. vsan, Table 2: one master.

    :param controllers: instead of the profile's rule.
    :param native: bare metal: one node a host, controllers on one host.
    :raises hvstack.errors.InputError: no worker is left, or unknown rule.
    """
    rule = controllers or profile.controllers_rule
    if rule not in CONTROLLER_RULES:
        raise errors.InputError(
            f"controllers is '{rule}': take one of "
            f'{", ".join(CONTROLLER_RULES)}'
        )
    if native:
        configuration = Configuration()
    count = configuration.instances
    if rule == 'separate' and count == 1:
        rule = 'combined'
    nodes = 2 if rule == 'separate' else 1
    slots = (
        count
        if rule == 'host'
        else count_controller_slots(profile, configuration)
    )
    workers = count * hosts - nodes * slots
    if hosts < nodes or workers < 1:
        raise errors.InputError(
            f'{hosts} hosts of {count} slots leave no worker beside {nodes} '
            f'controller(s) of {slots} slots: give more hosts'
        )
    return ClusterSize(
        hosts=hosts,
        instances=count,
        workers=workers,
        controllers=nodes,
        slots_per_controller=slots,
        rule=rule,
        rest=Remainder(0, 0, 0)
        if native
        else compute_remainder(profile, configuration),
    )
