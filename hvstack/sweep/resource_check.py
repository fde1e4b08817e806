# SPDX-License-Identifier: Apache-2.0
"""Whether the resources exist that all runs of a measurement need.

The plan of a cluster checks image and network again, but there each failure
counts as a failed run, and two of them exclude a configuration.
"""

from collections.abc import Iterable
from pathlib import Path

from openstack.connection import Connection

from hvstack import errors
from hvstack.cloud import servers
from hvstack.cluster import baseline_hosts
from hvstack.conf import ConfOptions
from hvstack.model.configuration import Configuration
from hvstack.model.target import Target
from hvstack.model.vnics import MACVTAP
from hvstack.sweep.node_setup import NodeSetup


def check_resources(
    conn: Connection,
    targets: Iterable[tuple[Target, NodeSetup]],
    options: ConfOptions,
) -> None:
    """Refuse to measure without image, network or hosts for bare metal.

    :param conn: connection to the cloud.
    :param targets: configurations and bare metal, with the settings of their
        nodes.
    :param options: options of :mod:`hvstack.conf`.
    :raises hvstack.errors.InputError: the image or a network does not exist
        or cannot be used, or the list of the hosts for bare metal is missing
        or not valid.
    :raises hvstack.errors.CloudError: a service does not answer.
    """
    cloud = options.cloud
    vnics: set[str | None] = set()
    has_baseline = False
    for target, setup in targets:
        if isinstance(target, Configuration):
            vnics.add(setup.vnic)
        else:
            has_baseline = True
    if vnics:
        servers.check_image(conn, cloud.image, ())
    if vnics - {MACVTAP}:
        # The plan of each cluster compares the addresses with its nodes.
        servers.check_network(conn, cloud.network, 0)
    if MACVTAP in vnics and (
        reason := servers.explain_missing_macvtap(conn, cloud.macvtap_network)
    ):
        raise errors.InputError(reason)
    if has_baseline:
        _check_hosts(options.sweep.baseline_hosts)


def _check_hosts(path: str) -> None:
    """Check the list of the hosts for bare metal.

    :raises hvstack.errors.InputError: it is missing or not valid.
    """
    try:
        baseline_hosts.read(Path(path))
    except errors.InputError as exc:
        raise errors.InputError(
            "Cannot measure bare metal ('baseline_hosts' of hvstack.conf): "
            f"{str(exc).removesuffix('.')}. Set 'baseline_hosts' to the "
            'inventory of the hosts. A new sweep can compare with recorded '
            'runs instead (--baseline).'
        ) from exc
