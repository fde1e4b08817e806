# SPDX-License-Identifier: Apache-2.0
"""What a cloud lacks, looked up before a sweep begins.

A configuration that needs it is skipped with the reason, instead of being
tried and reported as failed. Nothing is changed.
"""

import shlex
from typing import Any

from openstack.connection import Connection

from hvstack import errors, extras, profiles
from hvstack.cloud import hostmode, hosts, placement, volumes
from hvstack.cloud.volumes import Volumes
from hvstack.cluster import hosts as bare
from hvstack.cluster.environments import disk_types
from hvstack.model import backends
from hvstack.model.configuration import Configuration
from hvstack.model.flavor import derive_flavor
from hvstack.model.host import HostProfile
from hvstack.sweep.space import CAPABILITIES, Space

#: The deck's storage: one copy under the replicas of HDFS.
ONE_COPY = Volumes(copies=1)


def find_missing(
    conn: Connection, area: Space, profile: HostProfile, options: Any
) -> dict[str, str]:
    """Return what of :data:`~hvstack.sweep.space.CAPABILITIES` a cloud lacks.

    Only what a space asks for is looked up.

    :param conn: an administrator's.
    :param profile: of the workers' hosts.
    :param options: group ``sweep`` of :mod:`hvstack.conf`.
    :returns: what was seen of the cloud, by name.
    :raises hvstack.errors.CloudError: a service does not answer.
    """
    reasons = {}
    for name, (parameter, value, _) in CAPABILITIES.items():
        values = area.values.get(parameter, ())
        if value not in (*values, getattr(area.start, parameter)):
            continue
        reason = explain_missing(conn, name, profile, options)
        if reason:
            reasons[name] = reason
    return reasons


def explain_missing(
    conn: Connection, name: str, profile: HostProfile, options: Any
) -> str:
    """Return why a cloud lacks one thing; nothing if it has it.

    :param name: of :data:`~hvstack.sweep.space.CAPABILITIES`.
    """
    if name == 'dedicated':
        if get_mode_command(profile, options):
            return ''
        return _explain_shared_mode(conn, profile)
    if name == 'ceph':
        return explain_missing_ceph(conn)
    return _explain_missing_slots(conn, profile)


def check_capabilities(
    conn: Connection, configuration: Configuration, options: Any
) -> None:
    """Refuse a configuration for which a cloud lacks CPUs or volume types.

    The type of its volumes on Ceph is not looked at here: it may be another.

    :param options: of :mod:`hvstack.conf`.
    :raises hvstack.errors.InputError: says what is missing.
    """
    for name in ('dedicated', 'disk-pinning'):
        parameter, value, message = CAPABILITIES[name]
        if getattr(configuration, parameter) == value:
            profile = profiles.load(options.cloud.host_profile)
            reason = explain_missing(conn, name, profile, options.sweep)
            if reason:
                raise errors.InputError(f'{message} ({reason})')


def get_mode_command(profile: HostProfile, options: Any) -> str | None:
    """Return the command that switches the hosts' mode, if there is one.

    :param profile: of the workers' hosts; those of the lab have a cap.
    :param options: group ``sweep`` of :mod:`hvstack.conf`.
    :raises hvstack.errors.InputError: the command does not say which mode.
    """
    command = options.host_mode_command
    if command:
        if '{mode}' not in command:
            raise errors.InputError(
                f"hvstack.conf: host_mode_command '{command}' has no {{mode}} "
                'in it, which becomes shared or dedicated: add it'
            )
        return str(command)
    if profile.cpu_cap is not None and bare.LAB.exists():
        program = extras.program('hvstack')
        return f'{shlex.quote(str(program))} lab up --host-mode {{mode}}'
    return None


def explain_missing_ceph(
    conn: Connection, requested_volumes: Volumes | None = None
) -> str:
    """Return why there is no storage ``ceph``; nothing if there is.

    :param requested_volumes: what its volume type must say.
    """
    try:
        volumes.check(conn, requested_volumes or Volumes())
    except errors.InputError as exc:
        return str(exc)
    return ''


def _explain_missing_slots(conn: Connection, profile: HostProfile) -> str:
    """Return which volume types of single disks there are not."""
    pinned = Configuration(disk_pinning=True)
    try:
        worker = derive_flavor(profile, pinned)
    except errors.InputError:
        # The hosts cannot have it either, which is a reason of its own.
        return ''
    if 'pci_passthrough:alias' in worker.extra_specs:
        return ''
    (types,) = disk_types(pinned, worker.disks)
    for name in types:
        reason = explain_missing_ceph(conn, Volumes(name))
        if reason:
            return reason
    return ''


def _explain_shared_mode(conn: Connection, profile: HostProfile) -> str:
    """Return a host that gives out no dedicated CPUs."""
    providers = placement.providers(conn, profile.traits.get('worker'))
    for name, mode in hostmode.current(conn, providers).items():
        if mode == 'shared':
            return (
                f'{name} has no inventory of PCPU: set cpu_dedicated_set in '
                "its nova.conf, or give 'host_mode_command' in hvstack.conf"
            )
    return ''


def get_backend(
    conn: Connection,
    profile: HostProfile,
    requested_backend: str | None = None,
) -> str:
    """Return the backend of the workers' hosts, up or not.

    :param requested_backend: what the user says; Nova cannot tell kvm from
        qemu, but the lab does.
    :raises hvstack.errors.CloudError: they have several.
    """
    names = placement.providers(conn, profile.traits.get('worker'))
    hypervisors = [
        hypervisor
        for hypervisor in hosts.hypervisors(conn)
        if hypervisor.name in names
    ]
    return hosts.backend(
        hypervisors, requested_backend or bare.lab_backend(profile)
    )


def check_backend(
    conn: Connection, profile: HostProfile, backend: str
) -> None:
    """Refuse a backend that the workers' hosts do not have.

    Nova's API does not tell kvm from qemu; the lab does.

    :raises hvstack.errors.InputError: they have another one.
    """
    lab_backend = bare.lab_backend(profile)
    cloud_backend = get_backend(conn, profile)
    if lab_backend not in (None, backend) or (cloud_backend == 'lxc') != (
        backend == 'lxc'
    ):
        raise errors.InputError(
            f"--backend {backend}: the workers' hosts are of kind "
            f'{cloud_backend}, give theirs'
        )


def choose_storage(
    conn: Connection, profile: HostProfile, backend: str
) -> tuple[str, str]:
    """Return the storage that the deck's start has on a cloud, and why.

    Ceph with one copy; local where there is none.

    :param profile: of the workers' hosts.
    :param backend: theirs.
    """
    configuration = Configuration(storage='ceph')
    reason = backends.unsupported_parameter(configuration, backend)
    try:
        derive_flavor(profile, configuration)
    except errors.InputError as exc:
        reason = reason or str(exc)
    reason = reason or explain_missing_ceph(conn, ONE_COPY)
    if reason:
        return 'local', f'no Ceph with one copy here ({reason})'
    return 'ceph', f"volume type '{ONE_COPY.type}' keeps one copy"
