# SPDX-License-Identifier: Apache-2.0
"""Capabilities of a cloud, which are checked before a sweep starts.

A configuration that needs a missing capability is skipped with the reason
instead of being reported as failed. The checks change nothing.
"""

import shlex

from openstack.connection import Connection

from hvstack import errors, extras, host_profiles
from hvstack.cloud import cpu_mode, hypervisors, placement, volumes
from hvstack.cloud.volumes import Volumes
from hvstack.cluster import baseline_hosts
from hvstack.cluster.node_counts import get_disk_types
from hvstack.conf import ConfOptions, SweepOptions
from hvstack.model import compute_backends
from hvstack.model.configuration import Configuration
from hvstack.model.flavor import derive_flavor
from hvstack.model.flavor_specs import join_worker_traits
from hvstack.model.host import HostProfile
from hvstack.sweep.search_space import CAPABILITIES, Space

#: Volumes of the Dell presentation: a single copy, because HDFS replicates.
ONE_COPY = Volumes(copies=1)


def find_missing(
    conn: Connection, area: Space, profile: HostProfile, options: SweepOptions
) -> dict[str, str]:
    """Return the missing capabilities that a search space needs.

    :param conn: connection of an administrator.
    :param area: search space.
    :param profile: host profile of the workers.
    :param options: group ``sweep`` of :mod:`hvstack.conf`.
    :returns: reasons by name of
        :data:`~hvstack.sweep.search_space.CAPABILITIES`.
    :raises hvstack.errors.CloudError: a service does not respond.
    """
    reasons = {}
    for name, capability in CAPABILITIES.items():
        values = area.values.get(capability.parameter, ())
        if capability.value not in values and not capability.is_needed(
            area.start
        ):
            continue
        reason = explain_missing(conn, name, profile, area.start, options)
        if reason:
            reasons[name] = reason
    return reasons


def explain_missing(
    conn: Connection,
    name: str,
    profile: HostProfile,
    configuration: Configuration,
    options: SweepOptions,
) -> str:
    """Return the reason why a cloud lacks a capability; empty if it has it.

    :param conn: connection of an administrator.
    :param name: a key of :data:`~hvstack.sweep.search_space.CAPABILITIES`.
    :param profile: host profile of the workers.
    :param configuration: configuration of the workers, whose storage decides
        on which hosts they can be.
    :param options: group ``sweep`` of :mod:`hvstack.conf`.
    """
    if name == 'dedicated':
        if get_mode_command(profile, options):
            return ''
        return _explain_shared_mode(conn, profile, configuration)
    if name == 'ceph':
        return explain_missing_ceph(conn)
    return _explain_missing_slots(conn, profile)


def check_capabilities(
    conn: Connection, configuration: Configuration, options: ConfOptions
) -> None:
    """Raise an error if a cloud lacks CPUs or volume types.

    The volume type of Ceph is not checked, because a task can use another.

    :param conn: connection of an administrator.
    :param configuration: configuration that needs the capabilities.
    :param options: options of :mod:`hvstack.conf`.
    :raises hvstack.errors.InputError: a capability is missing.
    """
    for name in ('dedicated', 'disk-pinning'):
        capability = CAPABILITIES[name]
        if capability.is_needed(configuration):
            profile = host_profiles.load(options.cloud.host_profile)
            reason = explain_missing(
                conn, name, profile, configuration, options.sweep
            )
            if reason:
                raise errors.InputError(
                    f'Cannot run configuration {configuration.label}: '
                    f'{capability.reason.removesuffix(".")} '
                    f'({reason.removesuffix(".")}).'
                )


def get_mode_command(
    profile: HostProfile, options: SweepOptions
) -> str | None:
    """Return the command that switches the CPU mode of hosts; None without.

    :param profile: host profile of the workers.
    :param options: group ``sweep`` of :mod:`hvstack.conf`.
    :raises hvstack.errors.InputError: the command does not contain the mode.
    """
    command = options.host_mode_command
    if command:
        if '{mode}' not in command:
            raise errors.InputError(
                f"Cannot use host_mode_command '{command}' of hvstack.conf: "
                'it does not contain {mode}, which hvstack replaces by shared '
                'or dedicated. Add {mode}.'
            )
        return str(command)
    if profile.policy.lab and baseline_hosts.LAB.exists():
        program = extras.program('hvstack')
        return f'{shlex.quote(str(program))} lab up --host-mode {{mode}}'
    return None


def explain_missing_ceph(
    conn: Connection, requested_volumes: Volumes | None = None
) -> str:
    """Return the reason why storage ``ceph`` is missing; empty if it exists.

    :param conn: connection of an administrator.
    :param requested_volumes: requirements on the volume type; None uses the
        defaults.
    """
    try:
        volumes.check(conn, requested_volumes or Volumes())
    except errors.InputError as exc:
        return str(exc)
    return ''


def _explain_missing_slots(conn: Connection, profile: HostProfile) -> str:
    """Return the reason why volume types of single disks are missing."""
    pinned = Configuration(disk_pinning=True)
    try:
        worker = derive_flavor(profile, pinned)
    except errors.InputError:
        # The hosts do not support it; this reason is reported elsewhere.
        return ''
    if 'pci_passthrough:alias' in worker.extra_specs:
        return ''
    (types,) = get_disk_types(pinned, worker.disks)
    for name in types:
        reason = explain_missing_ceph(conn, Volumes(name))
        if reason:
            return reason
    return ''


def _explain_shared_mode(
    conn: Connection, profile: HostProfile, configuration: Configuration
) -> str:
    """Return the reason why a host has no dedicated CPUs; empty if all do."""
    names = {item.name for item in hypervisors.hypervisors(conn)}
    providers = {
        name: uuid
        for name, uuid in placement.providers(
            conn, join_worker_traits(profile, configuration)
        ).items()
        if name in names
    }
    for name, mode in cpu_mode.current(conn, providers).items():
        if mode == 'shared':
            return (
                f'{name} has no inventory of PCPU: set cpu_dedicated_set in '
                "its nova.conf, or give 'host_mode_command' in hvstack.conf"
            )
    return ''


def get_backend(
    conn: Connection,
    profile: HostProfile,
    configuration: Configuration,
    requested_backend: str | None = None,
) -> str:
    """Return the compute backend of the hosts of the workers.

    :param conn: connection of an administrator.
    :param profile: host profile of the workers.
    :param configuration: configuration of the workers.
    :param requested_backend: backend that the user requested, because Nova
        does not distinguish kvm from qemu; None asks the lab.
    :raises hvstack.errors.CloudError: the hosts have several backends.
    """
    names = placement.providers(
        conn, join_worker_traits(profile, configuration)
    )
    compute_hypervisors = [
        hypervisor
        for hypervisor in hypervisors.hypervisors(conn)
        if hypervisor.name in names
    ]
    return hypervisors.backend(
        compute_hypervisors,
        requested_backend or baseline_hosts.lab_backend(profile),
    )


def check_backend(
    conn: Connection,
    profile: HostProfile,
    configuration: Configuration,
    backend: str,
) -> None:
    """Raise an error if the hosts of the workers have another backend.

    The API of Nova does not distinguish kvm from qemu; the lab does.

    :raises hvstack.errors.InputError: the hosts have another backend.
    """
    lab_backend = baseline_hosts.lab_backend(profile)
    cloud_backend = get_backend(conn, profile, configuration)
    if lab_backend not in (None, backend) or (cloud_backend == 'lxc') != (
        backend == 'lxc'
    ):
        raise errors.InputError(
            f'Cannot use --backend {backend}: the hosts of the workers have '
            f'{cloud_backend}. Use --backend {cloud_backend}.'
        )


def choose_storage(
    conn: Connection, profile: HostProfile, backend: str
) -> tuple[str, str]:
    """Return the storage of the start configuration, and the reason.

    The storage is Ceph with one copy as in the Dell presentation, or local if
    the cloud has no such storage.

    :param conn: connection of an administrator.
    :param profile: host profile of the workers.
    :param backend: compute backend of the workers.
    """
    configuration = Configuration(storage='ceph')
    reason = compute_backends.unsupported_parameter(configuration, backend)
    try:
        derive_flavor(profile, configuration)
    except errors.InputError as exc:
        reason = reason or str(exc)
    reason = reason or explain_missing_ceph(conn, ONE_COPY)
    if reason:
        return (
            'local',
            f'no Ceph with one copy here ({reason.removesuffix(".")})',
        )
    return 'ceph', f"volume type '{ONE_COPY.type}' keeps one copy"
