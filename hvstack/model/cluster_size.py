# SPDX-License-Identifier: Apache-2.0
"""Cluster size: number of workers and controllers on given hosts."""

from dataclasses import asdict, dataclass

from hvstack import errors
from hvstack.model.configuration import Configuration
from hvstack.model.flavor import Remainder, compute_remainder
from hvstack.model.host import CONTROLLER_RULES, HostProfile
from hvstack.model.host_share import count_controller_slots
from hvstack.model.plain_data import JsonObject
from hvstack.nouns import format_noun


@dataclass(frozen=True)
class ClusterSize:
    """Numbers of the nodes of a cluster.

    :param hosts: number of hosts.
    :param instances: number of slots of each host.
    :param workers: number of slots without a controller.
    :param controllers: number of controllers, each on a separate host.
    :param slots_per_controller: number of slots that a controller occupies.
    :param rule: rule for the controllers.
    :param rest: unused resources of each host.
    """

    hosts: int
    instances: int
    workers: int
    controllers: int
    slots_per_controller: int
    rule: str
    rest: Remainder

    def to_mapping(self) -> JsonObject:
        """Return plain data."""
        return asdict(self)


def compute_cluster_size(
    profile: HostProfile,
    configuration: Configuration,
    hosts: int,
    controllers: str | None = None,
    native: bool = False,
) -> ClusterSize:
    """Compute the number of workers: I x hosts - slots of controllers.

    vsphere6, Table 1 and "Controller Daemons": a dedicated machine has both
    controllers on bare metal and with one VM per host; otherwise, two VMs on
    separate hosts have them. vsan, Table 2: one master.

    :param profile: host profile.
    :param configuration: configuration of the workers.
    :param hosts: number of hosts.
    :param controllers: rule for the controllers; None uses the profile.
    :param native: bare metal with one node per host, and the controllers on
        one host.
    :raises hvstack.errors.InputError: no slot remains for a worker, or the
        rule is unknown.
    """
    rule = controllers or profile.controllers_rule
    if rule not in CONTROLLER_RULES:
        raise errors.InputError(
            "Cannot compute the size of a cluster: 'controllers' is "
            f"'{rule}'. Use one of {', '.join(CONTROLLER_RULES)}."
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
            'Cannot compute the size of a cluster: no slot for a worker '
            f'remains next to {format_noun(nodes, "controller")} of '
            f'{format_noun(slots, "slot")} (hosts: {hosts}, slots of each '
            f'host: {count}). Use more hosts.'
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
