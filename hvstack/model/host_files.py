# SPDX-License-Identifier: Apache-2.0
"""Files of nova.conf, cinder.conf, neutron.conf and the kernel of hosts.

All numbers are those of :mod:`hvstack.model.host_settings`.
"""

from collections.abc import Sequence

from hvstack.model import cinder_conf, neutron_conf, nova_conf
from hvstack.model.config_options import (
    ConfigOption,
    format_comment,
    format_options,
)
from hvstack.model.configuration import Configuration
from hvstack.model.host import HostProfile
from hvstack.model.host_settings import PAGE_KIB, HostSettings
from hvstack.model.host_share import PAGE_MIB
from hvstack.model.pinned_disks import is_volume_local

#: Name of each file of :func:`render_files`, and where kolla-ansible reads
#: it; the kernel's parameters have no such path.
FILES = {
    'nova.conf': '/etc/kolla/config/nova/nova-compute.conf',
    'kernel': '',
    'scheduler': '/etc/kolla/config/nova/nova-scheduler.conf',
    'cinder': '/etc/kolla/config/cinder/cinder-volume.conf',
    'cinder-scheduler': '/etc/kolla/config/cinder/cinder-scheduler.conf',
    'neutron': '/etc/kolla/config/neutron/neutron-server.conf',
}


def render_files(
    profile: HostProfile,
    configuration: Configuration,
    settings: HostSettings,
    nodes: int = 0,
) -> dict[str, str]:
    """Return the text of each file of :data:`FILES`.

    :param nodes: number of nodes of a cluster; 0 if it is unknown.
    """
    policy = (
        'Each guest has CPUs of its own and keeps to its NUMA cells'
        + (
            f', with its memory in huge pages of {PAGE_MIB} MiB'
            if settings.pages
            else ''
        )
        if settings.cpu_policy == 'dedicated'
        else 'All guests share the CPUs of the host'
    )
    hosts = f"compute hosts of the profile '{profile.name}'"
    return {
        'nova.conf': _render(
            f'nova.conf of {hosts}, cpu_policy {settings.cpu_policy}. '
            f'{policy}. A host has one CPU policy at a time; after a change, '
            'restart nova-compute.',
            nova_conf.list_compute_options(profile, configuration, settings),
        ),
        'kernel': _render_kernel(hosts, settings),
        'scheduler': _render(
            f'nova.conf of the schedulers, for {hosts}.',
            nova_conf.list_scheduler_options(profile, configuration),
        ),
        'cinder': _render(
            _describe_cinder(hosts, profile, configuration),
            cinder_conf.list_cinder_options(profile, configuration),
        ),
        'cinder-scheduler': _render(
            f'cinder.conf of the schedulers, for {hosts}.',
            cinder_conf.list_cinder_scheduler_options(profile, configuration),
        ),
        'neutron': _render(
            f'neutron.conf of the server, for {hosts}.'
            + ('' if nodes else ' Quotas need the number of hosts: --hosts.'),
            neutron_conf.list_neutron_options(nodes),
        ),
    }


def _render(title: str, options: Sequence[ConfigOption]) -> str:
    """Return a file with its title as a comment."""
    if not options:
        title = f'{title} No option is needed.'
        return '\n'.join([*format_comment(title), ''])
    text = format_options(options, comments=True)
    return '\n'.join([*format_comment(title), '', text, ''])


def _render_kernel(hosts: str, settings: HostSettings) -> str:
    """Return the kernel parameters, with a line for each cell."""
    title = f'Kernel parameters of {hosts}.'
    if not settings.pages:
        reason = (
            'None: remove hugepages, because guests cannot use the memory of '
            'huge pages that they do not request.'
        )
        return '\n'.join([*format_comment(f'{title} {reason}'), ''])
    host_mib = settings.memory_mib - settings.page_count * PAGE_MIB
    title += (
        f' They allocate {settings.page_count} huge pages of {PAGE_MIB} MiB '
        f'and leave {host_mib} MiB to the host. After the reboot, restart '
        'libvirtd, then nova-compute. The files '
        '/sys/devices/system/node/nodeN/hugepages/'
        f'hugepages-{PAGE_KIB}kB/nr_hugepages must contain:'
    )
    cells = [f'#   node {cell.cell}: {cell.count}' for cell in settings.pages]
    return '\n'.join(
        [*format_comment(title), *cells, settings.kernel_parameters, '']
    )


def _describe_cinder(
    hosts: str, profile: HostProfile, configuration: Configuration
) -> str:
    """Return the title of cinder.conf of the volume services."""
    title = f'cinder.conf of the volume services, for {hosts}.'
    if is_volume_local(profile, configuration) and profile.disks:
        return (
            f'{title} It belongs on every compute host. Create a volume type '
            'for each disk number: openstack volume type create --property '
            'volume_backend_name=disk-slot-1 disk-slot-1, and so on to '
            f'disk-slot-{profile.disks.count}.'
        )
    if configuration.storage == 'ceph':
        return (
            f'{title} Create a volume type with the name of each backend, '
            'with the property volume_backend_name=NAME.'
        )
    return title
