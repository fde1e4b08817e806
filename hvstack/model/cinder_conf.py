# SPDX-License-Identifier: Apache-2.0
"""Options of cinder.conf for hosts of a profile.

Names that only the operator knows are examples in capital letters, in
comments.
"""

import math

from hvstack.model.config_options import ConfigOption
from hvstack.model.configuration import Configuration
from hvstack.model.host import HostDisks, HostProfile
from hvstack.model.pinned_disks import is_volume_local, list_slots

#: Default list of Cinder 29.
CINDER_FILTERS = (
    'AvailabilityZoneFilter',
    'CapacityFilter',
    'CapabilitiesFilter',
)
#: Throughput of one rotational disk; a flash disk is faster.
_WRITE_BYTES_PER_SECOND = 150 * 10**6


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


def _compute_clear_seconds(disks: HostDisks) -> int:
    """Return the seconds in which Cinder overwrites a data disk."""
    return math.ceil(disks.size_gb * 10**9 / _WRITE_BYTES_PER_SECOND)


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
            'Cinder overwrites a deleted volume before its stack is deleted, '
            f'which takes about {_compute_clear_seconds(disks)} s for '
            f'{disks.size_gb} GB. Use none for sweeps, if all projects of the '
            'cloud trust each other. Otherwise, set stack_timeout of '
            'hvstack.conf to a larger number of seconds.',
        ),
    ]
    for slot in slots:
        options += [
            ConfigOption(slot, 'volume_backend_name', slot),
            ConfigOption(slot, 'volume_group', slot),
        ]
    return options
