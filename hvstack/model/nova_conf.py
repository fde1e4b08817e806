# SPDX-License-Identifier: Apache-2.0
"""Lines of nova.conf, cinder.conf and the kernel for hosts of a profile.

All numbers are those of :mod:`hvstack.model.host_settings`. Names that only
the operator knows are examples in capital letters, in comments.
"""

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hvstack.model.configuration import Configuration
from hvstack.model.host import HostDisks, HostProfile
from hvstack.model.host_settings import PAGE_KIB, HostSettings
from hvstack.model.host_share import PAGE_MIB
from hvstack.model.pinned_disks import is_volume_local, list_slots

#: Default list of Nova 34, where ServerGroupAntiAffinityFilter keeps the
#: number of workers on one host.
NOVA_FILTERS = (
    'ComputeFilter',
    'ComputeCapabilitiesFilter',
    'ImagePropertiesFilter',
    'ServerGroupAntiAffinityFilter',
    'ServerGroupAffinityFilter',
)
#: Default list of Cinder 29.
CINDER_FILTERS = (
    'AvailabilityZoneFilter',
    'CapacityFilter',
    'CapabilitiesFilter',
)
#: Name of each file of :func:`render_files`, and where kolla-ansible reads
#: it; the kernel's parameters have no such path.
FILES = {
    'nova.conf': '/etc/kolla/config/nova/nova-compute.conf',
    'kernel': '',
    'scheduler': '/etc/kolla/config/nova/nova-scheduler.conf',
    'cinder': '/etc/kolla/config/cinder/cinder-volume.conf',
    'cinder-scheduler': '/etc/kolla/config/cinder/cinder-scheduler.conf',
}
#: Largest value of num_pcie_ports, and ports of a guest's other devices.
_MAX_PCIE_PORTS = 28
_OTHER_PCIE_PORTS = 8


@dataclass(frozen=True)
class ConfigOption:
    """Option of a configuration file.

    :param comment: reason for the value; empty for the option of the line
        before.
    :param example: whether the operator must replace the value.
    """

    section: str
    name: str
    value: str
    comment: str = ''
    example: bool = False

    @property
    def line(self) -> str:
        """The option as a line of its file; an example is a comment."""
        mark = '#' if self.example else ''
        return f'{mark}{self.name} = {self.value}'


def list_compute_options(
    profile: HostProfile, configuration: Configuration, settings: HostSettings
) -> list[ConfigOption]:
    """List the options of nova.conf on a compute host."""
    return [
        *list_ratio_options(),
        *list_memory_options(settings),
        list_cpu_option(settings),
        *_list_disk_options(profile, configuration),
    ]


def list_ratio_options() -> list[ConfigOption]:
    """List the options of allocation ratios."""
    comment = (
        'Leave cpu_allocation_ratio and ram_allocation_ratio unset: '
        'nova-compute would overwrite the ratios of a sweep in Placement '
        'with them. The initial ratios are for new hosts; the default for '
        'CPUs is 4.0.'
    )
    return [
        ConfigOption(
            'DEFAULT', 'initial_cpu_allocation_ratio', '1.0', comment
        ),
        ConfigOption('DEFAULT', 'initial_ram_allocation_ratio', '1.0'),
    ]


def list_memory_options(settings: HostSettings) -> list[ConfigOption]:
    """List the options of memory and huge pages that no guest gets."""
    options = [
        ConfigOption(
            'DEFAULT',
            'reserved_host_memory_mb',
            str(settings.reserved_memory_mib),
            f'Memory that no guest gets, in MiB: {settings.memory_mib} of the '
            f'host less {settings.guest_memory_mib} of all guests. If Nova '
            'reports another total (openstack hypervisor show HOST), reserve '
            f'that total less {settings.guest_memory_mib}.',
        )
    ]
    comment = (
        f'Huge pages of each cell that no guest gets, of {PAGE_KIB} KiB. The '
        'kernel allocates them in addition to the pages of the guests.'
    )
    for cell in settings.pages:
        value = f'node:{cell.cell},size:{PAGE_KIB},count:{cell.reserved}'
        options.append(
            ConfigOption('DEFAULT', 'reserved_huge_pages', value, comment)
        )
        comment = ''
    return options


def list_cpu_option(settings: HostSettings) -> ConfigOption:
    """Return the option of the CPUs for guests."""
    if settings.cpu_policy == 'dedicated':
        return ConfigOption(
            'compute',
            'cpu_dedicated_set',
            settings.cpu_set,
            'CPUs that are each pinned to one vCPU. Leave cpu_shared_set '
            'unset. Do not change the sets of a host that has servers.',
        )
    return ConfigOption(
        'compute',
        'cpu_shared_set',
        settings.cpu_set,
        'CPUs that all guests share. Leave cpu_dedicated_set unset, because '
        'Placement has no VCPU of CPUs in that set.',
    )


def _list_disk_options(
    profile: HostProfile, configuration: Configuration
) -> list[ConfigOption]:
    """List the options of nova.conf for the disks of the guests."""
    disks = profile.disks
    if configuration.disk_pinning and disks and disks.pci_alias:
        return _list_pci_options(disks.pci_alias)
    options = []
    if configuration.storage == 'ceph':
        options += [
            ConfigOption(
                'libvirt',
                'rbd_user',
                'cinder',
                'Client of Ceph that attaches volumes, and the libvirt '
                'secret with its key.',
                example=True,
            ),
            ConfigOption('libvirt', 'rbd_secret_uuid', 'UUID', example=True),
        ]
    elif not configuration.disk_pinning:
        where = (
            f'spans the {disks.count} data disks of {disks.size_gb} GB'
            if disks
            else 'is on the data disks'
        )
        options.append(
            ConfigOption(
                'libvirt',
                'images_type',
                'raw',
                'Ephemeral disks are files without copy-on-write. Put '
                f'instances_path on a file system that {where}, such as a '
                'striped logical volume. Placement must report DISK_GB for '
                'the root disks and ephemeral disks of all flavors of a '
                'host.',
            )
        )
    if configuration.storage == 'ceph' or configuration.disk_pinning:
        count = _count_volumes(profile)
        if count:
            ports = min(count + _OTHER_PCIE_PORTS, _MAX_PCIE_PORTS)
            options.append(
                ConfigOption(
                    'libvirt',
                    'num_pcie_ports',
                    str(ports),
                    f'Volumes are attached to a running guest, up to {count} '
                    'to one guest. On machine type q35, each virtio-blk '
                    'volume needs a free port; other devices use '
                    f'{_OTHER_PCIE_PORTS}. The maximum is {_MAX_PCIE_PORTS}.',
                )
            )
    return options


def _count_volumes(profile: HostProfile) -> int:
    """Return the largest number of volumes of a worker."""
    if profile.volumes:
        return profile.volumes.count
    return profile.disks.count if profile.disks else 0


def _list_pci_options(alias: str) -> list[ConfigOption]:
    """List the options for whole NVMe disks by PCI passthrough."""
    vendor = '"vendor_id": "VENDOR", "product_id": "PRODUCT"'
    return [
        ConfigOption(
            'pci',
            'device_spec',
            f'{{{vendor}}}',
            'Data disks that guests get by PCI passthrough, by the IDs of '
            "lspci -nn. The API servers need the same alias as the hosts' "
            'nova-compute.',
            example=True,
        ),
        ConfigOption(
            'pci',
            'alias',
            f'{{{vendor}, "device_type": "type-PCI", "name": "{alias}"}}',
            example=True,
        ),
    ]


def list_scheduler_options(
    profile: HostProfile, configuration: Configuration
) -> list[ConfigOption]:
    """List the options of nova.conf of the schedulers."""
    filters = list(NOVA_FILTERS)
    comment = (
        "Nova's default list, in which ServerGroupAntiAffinityFilter limits "
        'the number of workers on one host'
    )
    if configuration.cpu_policy == 'dedicated':
        filters.append('NUMATopologyFilter')
        comment += (
            ', and NUMATopologyFilter, which checks the CPUs and huge pages '
            'of the cells before a host is selected'
        )
    disks = profile.disks
    if configuration.disk_pinning and disks and disks.pci_alias:
        filters.append('PciPassthroughFilter')
        comment += ', and PciPassthroughFilter for whole disks'
    return [
        ConfigOption(
            'filter_scheduler',
            'enabled_filters',
            ','.join(filters),
            f'{comment}.',
        )
    ]


def list_cinder_scheduler_options(
    profile: HostProfile, configuration: Configuration
) -> list[ConfigOption]:
    """List the options of cinder.conf of the schedulers; none by default."""
    if not is_volume_local(profile, configuration):
        return []
    account = (
        'An account that Nova shows the host of a server, for which the '
        'filter asks. Without it, the account of the user must be permitted '
        'by os_compute_api:os-extended-server-attributes.'
    )
    examples = {
        'auth_type': 'password',
        'auth_url': 'URL',
        'username': 'nova',
        'password': 'PASSWORD',
        'project_name': 'service',
        'user_domain_name': 'Default',
        'project_domain_name': 'Default',
    }
    return [
        ConfigOption(
            'DEFAULT',
            'scheduler_default_filters',
            ','.join((*CINDER_FILTERS, 'InstanceLocalityFilter')),
            "Cinder's default list and InstanceLocalityFilter, which selects "
            'a backend on the host of the server (local_to_instance).',
        ),
        *(
            ConfigOption(
                'nova',
                name,
                value,
                account if name == 'auth_type' else '',
                example=True,
            )
            for name, value in examples.items()
        ),
    ]


def list_cinder_options(
    profile: HostProfile, configuration: Configuration
) -> list[ConfigOption]:
    """List the options of cinder.conf of the volume services.

    A backend per data disk of a host, or one for the pool of Ceph. All disks
    with one number have one name of a backend, which the volume type of that
    number selects on any host.
    """
    if is_volume_local(profile, configuration):
        return _list_lvm_options(profile.disks)
    if configuration.storage != 'ceph':
        return []
    names = ['ceph']
    if configuration.disk_pinning and profile.disks:
        names = list_slots(profile.disks)
    options = [
        ConfigOption(
            'DEFAULT',
            'enabled_backends',
            ','.join(names),
            'One backend for each pool of Ceph.',
        )
    ]
    for name in names:
        options += [
            ConfigOption(
                name,
                'volume_driver',
                'cinder.volume.drivers.rbd.RBDDriver',
            ),
            ConfigOption(name, 'volume_backend_name', name),
            ConfigOption(name, 'rbd_pool', name),
            ConfigOption(name, 'rbd_user', 'cinder', example=True),
            ConfigOption(name, 'rbd_secret_uuid', 'UUID', example=True),
        ]
    return options


def _list_lvm_options(disks: HostDisks | None) -> list[ConfigOption]:
    """List the options of Cinder's LVM driver on every compute host."""
    if disks is None:
        return []
    slots = list_slots(disks)
    options = [
        ConfigOption(
            'DEFAULT',
            'host',
            'HOST',
            'Run cinder-volume on every compute host, with the name that '
            'Nova gives the host (openstack compute service list): '
            'InstanceLocalityFilter compares both names. The option '
            'backend_host of a backend must be unset.',
            example=True,
        ),
        ConfigOption(
            'DEFAULT',
            'enabled_backends',
            ','.join(slots),
            f'One backend for each of the {disks.count} data disks, whose '
            'only volume fills it. Each disk is a volume group of its own '
            '(vgcreate disk-slot-1 DEVICE).',
        ),
        ConfigOption(
            'backend_defaults',
            'volume_driver',
            'cinder.volume.drivers.lvm.LVMVolumeDriver',
        ),
        ConfigOption(
            'backend_defaults',
            'lvm_type',
            'default',
            'A thin pool would be slower than its disk.',
        ),
        ConfigOption('backend_defaults', 'target_protocol', 'iscsi'),
        ConfigOption('backend_defaults', 'target_helper', 'lioadm'),
        ConfigOption(
            'backend_defaults',
            'volume_clear',
            'zero',
            'Cinder overwrites a deleted volume, which takes as long as '
            f'writing {disks.size_gb} GB. Use none only if all projects of '
            'the cloud trust each other.',
        ),
    ]
    for slot in slots:
        options += [
            ConfigOption(slot, 'volume_backend_name', slot),
            ConfigOption(slot, 'volume_group', slot),
        ]
    return options


def format_options(
    options: Iterable[ConfigOption], *, comments: bool = False
) -> str:
    """Return options as lines of an ini file, without a newline at the end.

    :param comments: whether to write the reason before each option.
    """
    sections: dict[str, list[str]] = {}
    for option in options:
        lines = sections.setdefault(option.section, [f'[{option.section}]'])
        if comments and option.comment:
            lines += format_comment(option.comment)
        lines.append(option.line)
    between = '\n\n' if comments else '\n'
    return between.join('\n'.join(lines) for lines in sections.values())


def format_comment(text: str) -> list[str]:
    """Return a text as comment lines of at most 79 characters."""
    return textwrap.wrap(
        text,
        79,
        initial_indent='# ',
        subsequent_indent='# ',
        break_long_words=False,
        break_on_hyphens=False,
    )


def render_files(
    profile: HostProfile, configuration: Configuration, settings: HostSettings
) -> dict[str, str]:
    """Return the text of each file of :data:`FILES`."""
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
            list_compute_options(profile, configuration, settings),
        ),
        'kernel': _render_kernel(hosts, settings),
        'scheduler': _render(
            f'nova.conf of the schedulers, for {hosts}.',
            list_scheduler_options(profile, configuration),
        ),
        'cinder': _render(
            _describe_cinder(hosts, profile, configuration),
            list_cinder_options(profile, configuration),
        ),
        'cinder-scheduler': _render(
            f'cinder.conf of the schedulers, for {hosts}.',
            list_cinder_scheduler_options(profile, configuration),
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
