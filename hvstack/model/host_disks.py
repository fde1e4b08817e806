# SPDX-License-Identifier: Apache-2.0
"""Data disks of a host that its workers use together.

Two runs compare if they use the same disks of the same hosts, whatever the
number of workers, and whether each worker has disks of its own or all share
one volume.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from hvstack.model.configuration import Configuration
from hvstack.model.flavor import compute_data_disks
from hvstack.model.host import HostProfile
from hvstack.model.plain_data import Json

#: Ways in which workers reach the disks.
EPHEMERAL = 'local ephemeral'
#: images_type of Nova is lvm or rbd, see hvstack/cloud/disk_locality.py.
UNCERTAIN = 'ephemeral on LVM or Ceph'
PINNED = 'pinned volume'
PASSED_THROUGH = 'PCI pass-through'
CEPH = 'Ceph'
BARE_METAL = 'bare metal'

#: Kind of disks that do not rotate, where only this is known.
FLASH = 'flash'
_FLASH_KINDS = {FLASH, 'ssd', 'nvme'}
#: Kinds that do not tell what is under the disks.
_UNKNOWN_KINDS = {'loop', 'virtual'}


@dataclass(frozen=True)
class DiskUse:
    """Data disks of a host that its workers use together.

    What is not known is None.

    :param access: way in which the workers reach the disks.
    :param count: number of disks.
    :param kind: ``rotational``, ``ssd``, ``nvme``, ``flash`` (one of these
        two), ``loop`` or ``virtual``.
    :param size_gb: size of each disk in units of 10^9 bytes.
    """

    access: str
    count: int | str | None = None
    kind: str | None = None
    size_gb: int | str | None = None

    @property
    def disks(self) -> dict[str, int | str]:
        """Facts of the disks that are known, as a run record has them."""
        facts = {
            'count': self.count,
            'kind': self.kind,
            'size_gb': self.size_gb,
        }
        return {
            name: value for name, value in facts.items() if value is not None
        }

    def to_facts(self) -> dict[str, str | dict[str, int | str]]:
        """Return the facts ``host_disks`` and ``disk_access``."""
        facts: dict[str, str | dict[str, int | str]] = {
            'disk_access': self.access
        }
        if self.disks:
            facts['host_disks'] = self.disks
        return facts


def of_guests(profile: HostProfile, configuration: Configuration) -> DiskUse:
    """Return the disks of a host that its guests use together.

    :param profile: host profile of the workers' hosts.
    :param configuration: configuration of the workers.
    :raises hvstack.errors.InputError: the host has too few disks for pinning.
    """
    whole, _ = compute_data_disks(profile, configuration)
    if configuration.storage == 'ceph' and not configuration.disk_pinning:
        # Which disks the OSDs have, no API of OpenStack reports.
        return DiskUse(CEPH)
    disks = profile.disks
    if disks is None:
        # The data is on the disk with the guests' root file systems.
        return DiskUse(EPHEMERAL, 1)
    kind = _kind(profile)
    if not configuration.disk_pinning:
        # The ephemeral disks have the space of all disks together.
        return DiskUse(EPHEMERAL, disks.count, kind, disks.size_gb)
    return DiskUse(
        PASSED_THROUGH if disks.pci_alias else PINNED,
        whole * configuration.instances,
        kind,
        disks.size_gb,
    )


def of_host(profile: HostProfile) -> DiskUse:
    """Return all data disks of a host, as bare metal uses them.

    :param profile: host profile.
    """
    if profile.disks is None:
        return DiskUse(BARE_METAL, 1)
    disks = profile.disks
    return DiskUse(BARE_METAL, disks.count, _kind(profile), disks.size_gb)


def _kind(profile: HostProfile) -> str:
    assert profile.disks
    if profile.disks.pci_alias:
        return 'nvme'
    return 'rotational' if profile.disks.rotational else FLASH


def are_equal(disks: Mapping[str, Json], other: Mapping[str, Json]) -> bool:
    """Return whether two sides use the same disks, as far as both know.

    :param disks: fact ``host_disks`` of one side.
    :param other: fact of the other side.
    """
    return all(
        disks[name] == other[name]
        or (
            name == 'kind'
            and _may_be_equal({str(disks[name]), str(other[name])})
        )
        for name in disks
        if name in other
    )


def _may_be_equal(kinds: set[str]) -> bool:
    return bool(kinds & _UNKNOWN_KINDS) or (
        FLASH in kinds and kinds <= _FLASH_KINDS
    )


def format_disks(disks: Mapping[str, Json], access: str | None = None) -> str:
    """Return disks as people read them.

    :param disks: fact ``host_disks``.
    :param access: fact ``disk_access``; None leaves it out.
    :returns: such as ``20 rotational disks of 600 GB (pinned volume)``.
    """
    count = disks.get('count', 'an unknown number of')
    kind = f' {disks["kind"]}' if 'kind' in disks else ''
    size = f' of {disks["size_gb"]} GB' if 'size_gb' in disks else ''
    plural = '' if count == 1 else 's'
    suffix = f' ({access})' if access else ''
    return f'{count}{kind} disk{plural}{size}{suffix}'
