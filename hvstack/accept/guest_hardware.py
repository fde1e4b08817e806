# SPDX-License-Identifier: Apache-2.0
"""Virtual hardware of a guest, from the XML of its running domain.

libvirt, "Domain XML format": OS booting, CPU model and topology, devices.
:mod:`hvstack.accept.libvirt_domain` parses the pinning.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree import ElementTree

from hvstack import errors
from hvstack.accept import libvirt_domain

#: KiB of each unit of libvirt's sizes; without a unit, a size is in KiB.
_KIB = {'KiB': 1, 'k': 1, 'MiB': 1024, 'M': 1024, 'GiB': 1048576, 'G': 1048576}


@dataclass(frozen=True)
class GuestDisk:
    """Disk of a guest; CD-ROM drives and floppy drives do not count.

    :param target: name of the disk in the guest, such as ``vda``.
    :param bus: bus of the disk, such as ``virtio``; empty if it has none.
    :param source_type: ``file``, ``block`` or ``network``.
    :param cache: cache mode; empty if the XML has none.
    :param io: I/O mode; empty if the XML has none.
    """

    target: str
    bus: str
    source_type: str
    cache: str
    io: str


@dataclass(frozen=True)
class GuestInterface:
    """Network interface of a guest.

    :param target: device on the host, or else the MAC address.
    :param model: model of the device; empty if the XML has none.
    :param queues: number of queues.
    """

    target: str
    model: str
    queues: int


@dataclass(frozen=True)
class GuestHardware:
    """Virtual hardware of a guest.

    :param name: Nova's instance name.
    :param domain_type: type of the domain, such as ``kvm``.
    :param machine: machine type; empty for a container.
    :param cpu_mode: CPU mode; empty if the XML has none.
    :param cpu_model: CPU model; empty if the XML has none.
    :param rng_models: models of the sources of entropy.
    :param scsi_models: models of the SCSI controllers.
    :param disks: disks.
    :param interfaces: network interfaces.
    :param iothreads: number of IOThreads.
    :param page_kib: size of the huge pages in KiB; 0 without huge pages.
    :param memory_kib: memory in KiB by NUMA cell of the host; empty if the
        memory is not bound to cells.
    """

    name: str
    domain_type: str
    machine: str
    cpu_mode: str
    cpu_model: str
    rng_models: tuple[str, ...]
    scsi_models: tuple[str, ...]
    disks: tuple[GuestDisk, ...]
    interfaces: tuple[GuestInterface, ...]
    iothreads: int
    page_kib: int
    memory_kib: Mapping[int, int]


def parse_hardware(xml: str) -> GuestHardware:
    """Parse the output of ``virsh dumpxml``.

    :param xml: output of the command.
    :raises hvstack.errors.InputError: the text is not the XML of a domain.
    """
    root = libvirt_domain.parse_root(xml, 'domain')
    page = root.find('memoryBacking/hugepages/page')
    os_type = root.find('os/type')
    cpu = root.find('cpu')
    return GuestHardware(
        name=root.findtext('name') or '',
        domain_type=root.get('type', ''),
        machine=os_type.get('machine', '') if os_type is not None else '',
        cpu_mode=cpu.get('mode', '') if cpu is not None else '',
        cpu_model=(root.findtext('cpu/model') or '').strip(),
        rng_models=tuple(
            rng.get('model', '') for rng in root.iterfind('devices/rng')
        ),
        scsi_models=tuple(
            controller.get('model', '')
            for controller in root.iterfind('devices/controller')
            if controller.get('type') == 'scsi'
        ),
        disks=tuple(
            _parse_disk(disk)
            for disk in root.iterfind('devices/disk')
            if disk.get('device', 'disk') == 'disk'
        ),
        interfaces=tuple(
            _parse_interface(interface)
            for interface in root.iterfind('devices/interface')
        ),
        iothreads=int(root.findtext('iothreads') or 0),
        page_kib=_parse_size(page, 'size') if page is not None else 0,
        memory_kib=_parse_memory(root),
    )


def _parse_disk(disk: ElementTree.Element) -> GuestDisk:
    target, driver = disk.find('target'), disk.find('driver')
    return GuestDisk(
        target=target.get('dev', '') if target is not None else '',
        bus=target.get('bus', '') if target is not None else '',
        source_type=disk.get('type', ''),
        cache=driver.get('cache', '') if driver is not None else '',
        io=driver.get('io', '') if driver is not None else '',
    )


def _parse_interface(interface: ElementTree.Element) -> GuestInterface:
    names = {
        part.tag: part.attrib
        for part in interface
        if part.tag in ('target', 'mac', 'model', 'driver')
    }
    return GuestInterface(
        target=names.get('target', {}).get('dev')
        or names.get('mac', {}).get('address', ''),
        model=names.get('model', {}).get('type', ''),
        queues=int(names.get('driver', {}).get('queues', '1')),
    )


def _parse_memory(root: ElementTree.Element) -> dict[int, int]:
    """Return the memory by cell of the host.

    A memory node that may use several cells of the host is left out, because
    its memory is not bound to one of them.
    """
    sizes = {
        int(cell.get('id', '0')): _parse_size(cell, 'memory')
        for cell in root.iterfind('cpu/numa/cell')
    }
    memory: dict[int, int] = {}
    for node in root.iterfind('numatune/memnode'):
        cells = libvirt_domain.parse_cpu_list(node.attrib['nodeset'])
        size = sizes.get(int(node.attrib['cellid']), 0)
        if len(cells) == 1 and size:
            (cell,) = cells
            memory[cell] = memory.get(cell, 0) + size
    return memory


def _parse_size(element: ElementTree.Element, name: str) -> int:
    """Return a size in KiB.

    :param name: attribute with the size.
    :raises hvstack.errors.InputError: the unit is not a unit of libvirt.
    """
    unit = element.get('unit', 'KiB')
    if unit not in _KIB:
        raise errors.InputError(
            f"Cannot read the output of libvirt: a size has the unit '{unit}' "
            f'instead of {", ".join(_KIB)}. Check libvirt_uri.'
        )
    return int(element.attrib[name]) * _KIB[unit]
