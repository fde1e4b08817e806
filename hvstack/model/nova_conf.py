# SPDX-License-Identifier: Apache-2.0
"""Options of nova.conf for hosts of a profile.

All numbers are those of :mod:`hvstack.model.host_settings` and
:mod:`hvstack.model.local_space`. Names that only the operator knows are
examples in capital letters, in comments.
"""

from hvstack.model.config_options import ConfigOption
from hvstack.model.configuration import Configuration
from hvstack.model.flavor import uses_worker_volumes
from hvstack.model.host import HostProfile
from hvstack.model.host_settings import PAGE_KIB, HostSettings
from hvstack.model.local_space import compute_host_space_gib

#: Default list of Nova 34, where ServerGroupAntiAffinityFilter keeps the
#: number of workers on one host.
NOVA_FILTERS = (
    'ComputeFilter',
    'ComputeCapabilitiesFilter',
    'ImagePropertiesFilter',
    'ServerGroupAntiAffinityFilter',
    'ServerGroupAffinityFilter',
)
#: Largest value of num_pcie_ports, and ports of a guest's other devices.
_MAX_PCIE_PORTS = 28
_OTHER_PCIE_PORTS = 8


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
        where, size = 'is on the data disks', 'DISK_GB'
        if disks:
            where = f'spans the {disks.count} data disks of {disks.size_gb} GB'
            size = f'at least {compute_host_space_gib(profile)} of DISK_GB'
        options.append(
            ConfigOption(
                'libvirt',
                'images_type',
                'raw',
                'Ephemeral disks are files without copy-on-write. Put '
                f'instances_path on a file system that {where}, such as a '
                f'striped logical volume. Placement must report {size} for '
                'the root disks and ephemeral disks of all flavors of a '
                'host.',
            )
        )
    if configuration.storage == 'ceph' or configuration.disk_pinning:
        count = _count_volumes(profile, configuration)
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


def _count_volumes(profile: HostProfile, configuration: Configuration) -> int:
    """Return the largest number of volumes of a worker."""
    if profile.volumes and uses_worker_volumes(profile, configuration):
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
            'nova-compute. Nova does not erase these disks when a server is '
            'deleted: erase them before the next cluster, which does not '
            'format disks with data.',
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
