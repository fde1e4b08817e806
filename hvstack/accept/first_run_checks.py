# SPDX-License-Identifier: Apache-2.0
"""Checks of guests for the first run on hosts with KVM.

The functions have no side effects. Their arguments are plain data, as Nova,
Glance, libvirt and the guests return it.
"""

import re
from collections.abc import Collection, Mapping, Sequence

from hvstack.accept.check_result import NONE, CheckResult, check_equal
from hvstack.accept.guest_hardware import GuestDisk, GuestHardware
from hvstack.accept.libvirt_domain import Domain

#: Machine types with a version, such as pc-q35-7.2 and pc-i440fx-jammy.
_MACHINE = re.compile(r'(pc-q35|pc-i440fx|virt)-.+')
#: CPU models of QEMU without the features of a real CPU.
_GENERIC_MODEL = re.compile(r'(qemu|kvm)(32|64)|(core|coreduo|pentium|486).*')
#: Names of these models in /proc/cpuinfo.
_GENERIC_NAME = re.compile(r'QEMU|Common KVM processor|Common 32-bit KVM')
_VIRTIO_SCSI = (
    'virtio-scsi',
    'virtio-transitional',
    'virtio-non-transitional',
)
#: Models of virtio devices in the XML of libvirt, by version of virtio.
_VIRTIO = ('virtio', 'virtio-transitional', 'virtio-non-transitional')
#: Models of virtio-scsi in the XML of libvirt.
_VIRTIO_SCSI = ('virtio-scsi', *_VIRTIO[1:])
_CLOCK_SOURCES = ('kvm-clock', 'tsc')
_PASSTHROUGH = 'host-passthrough'


def check_domain_type(guest: GuestHardware) -> CheckResult:
    """Check that KVM runs the guest."""
    return check_equal(
        f'{guest.name}: domain type', 'kvm', guest.domain_type or NONE
    )


def check_machines(guests: Sequence[GuestHardware]) -> list[CheckResult]:
    """Check the machine types of guests, which must be the same."""
    return [
        *(
            CheckResult(
                f'{guest.name}: machine type',
                'pc-q35-*, pc-i440fx-* or virt-*',
                guest.machine or NONE,
                bool(_MACHINE.fullmatch(guest.machine)),
            )
            for guest in guests
        ),
        _check_same('machine types', [guest.machine for guest in guests]),
    ]


def _check_same(subject: str, values: Sequence[str]) -> CheckResult:
    unique = sorted(set(values))
    return CheckResult(
        f'{subject} of all guests',
        'the same',
        ', '.join(value or NONE for value in unique) or NONE,
        len(unique) == 1,
    )


def describe_cpu(guest: GuestHardware) -> str:
    """Return the CPU mode and the CPU model of a guest."""
    return ' '.join(filter(None, (guest.cpu_mode, guest.cpu_model))) or NONE


def check_cpu_mode(
    guest: GuestHardware, nova_conf: Mapping[str, str]
) -> CheckResult:
    """Check the CPU mode and the CPU model of a guest.

    Nova's default with KVM is host-model, which the XML of a running guest
    shows as a custom model.

    :param guest: guest.
    :param nova_conf: options that nova-compute reads, as ``section.name``.
    """
    mode = nova_conf.get('libvirt.cpu_mode', '').strip() or 'host-model'
    models = {
        name.strip()
        for option in ('cpu_models', 'cpu_model')
        for name in nova_conf.get(f'libvirt.{option}', '').split(',')
        if name.strip()
    }
    is_real = bool(guest.cpu_model) and not _GENERIC_MODEL.fullmatch(
        guest.cpu_model
    )
    expected, good = f'the CPU of the host, not cpu_mode {mode}', False
    if mode == _PASSTHROUGH:
        expected, good = _PASSTHROUGH, guest.cpu_mode == _PASSTHROUGH
    elif mode == 'host-model':
        expected = 'the named model of the host (cpu_mode host-model)'
        good = guest.cpu_mode == 'host-model' or (
            guest.cpu_mode == 'custom' and is_real
        )
    elif mode == 'custom':
        expected = f'a model of {", ".join(sorted(models)) or NONE}'
        good = guest.cpu_mode == 'custom' and is_real
        good = good and guest.cpu_model in models
    return CheckResult(
        f'{guest.name}: CPU mode and model',
        expected,
        describe_cpu(guest),
        good,
    )


def check_cpu_modes(
    guests: Sequence[tuple[GuestHardware, Mapping[str, str]]],
) -> list[CheckResult]:
    """Check the CPU modes of guests, which must be the same.

    :param guests: guests, each with the options of nova-compute on its host.
    """
    return [
        *(check_cpu_mode(guest, nova_conf) for guest, nova_conf in guests),
        _check_same('CPUs', [describe_cpu(guest) for guest, _ in guests]),
    ]


def check_emulators(
    guests: Sequence[Domain], others: Sequence[Domain]
) -> list[CheckResult]:
    """Check that emulator threads use no dedicated CPU of another guest.

    :param guests: guests whose emulator threads are checked.
    :param others: all guests of the host.
    """
    return [
        check_equal(
            f'{guest.name}: emulator threads on CPUs of {other.name}',
            [],
            sorted(guest.emulator & other.cpus),
            guest.excerpt,
        )
        for guest in guests
        for other in others
        if other.name != guest.name and other.cpus
    ]


def check_interfaces(guest: GuestHardware) -> list[CheckResult]:
    """Check the network interfaces of a guest."""
    if not guest.interfaces:
        return [
            CheckResult(f'{guest.name}: interfaces', 'at least 1', NONE, False)
        ]
    return [
        CheckResult(
            f'{guest.name}: interface {interface.target}',
            'virtio with 1 queue',
            f'{interface.model or "no model"} with {interface.queues} '
            f'queue{"s" * (interface.queues != 1)}',
            interface.model in _VIRTIO and interface.queues == 1,
        )
        for interface in guest.interfaces
    ]


def check_disk_buses(guest: GuestHardware) -> list[CheckResult]:
    """Check the buses of the disks of a guest."""

    def is_virtio(disk: GuestDisk) -> bool:
        return disk.bus == 'virtio' or (
            disk.bus == 'scsi'
            and bool(guest.scsi_models)
            and set(guest.scsi_models) <= set(_VIRTIO_SCSI)
        )

    return [
        CheckResult(
            f'{guest.name}: bus of {disk.target}',
            'virtio, or scsi of virtio-scsi',
            ' '.join(
                [disk.bus or NONE]
                + list(guest.scsi_models) * (disk.bus == 'scsi')
            ),
            is_virtio(disk),
        )
        for disk in guest.disks
    ] or [_check_missing_disks(guest)]


def _check_missing_disks(guest: GuestHardware) -> CheckResult:
    return CheckResult(f'{guest.name}: disks', 'at least 1', NONE, False)


def check_disk_caches(guest: GuestHardware) -> list[CheckResult]:
    """Check the cache modes and I/O modes of the disks of a guest."""

    def is_direct(disk: GuestDisk) -> bool:
        if disk.source_type == 'network' and disk.cache == 'writeback':
            return True
        return disk.cache == 'none' and (
            disk.source_type != 'block' or disk.io == 'native'
        )

    return [
        CheckResult(
            f'{guest.name}: cache of {disk.target}',
            'cache none, and io native for a block device',
            f'{disk.source_type or "disk"} with cache '
            f'{disk.cache or "unset"}, io {disk.io or "unset"}',
            is_direct(disk),
        )
        for disk in guest.disks
    ] or [_check_missing_disks(guest)]


def check_rng(guest: GuestHardware) -> CheckResult:
    """Check the source of entropy of a guest."""
    return CheckResult(
        f'{guest.name}: rng',
        'virtio',
        ', '.join(guest.rng_models) or NONE,
        bool(guest.rng_models) and set(guest.rng_models) <= set(_VIRTIO),
    )


def check_image_rng(image: Mapping[str, str]) -> CheckResult:
    """Check the source of entropy that an image requests.

    :param image: properties of the image in Glance.
    """
    return check_equal(
        'image: hw_rng_model', 'virtio', image.get('hw_rng_model', 'unset')
    )


def check_image_bus(image: Mapping[str, str]) -> CheckResult:
    """Check the bus of disks that an image requests.

    :param image: properties of the image in Glance.
    """
    bus = image.get('hw_disk_bus', '')
    scsi_model = image.get('hw_scsi_model', '')
    return CheckResult(
        'image: hw_disk_bus',
        'unset, virtio, or scsi with hw_scsi_model virtio-scsi',
        ' '.join(filter(None, (bus, scsi_model))) or 'unset',
        bus in ('', 'virtio')
        or (bus == 'scsi' and scsi_model == 'virtio-scsi'),
    )


def check_multiqueue(
    image: Mapping[str, str], flavors: Mapping[str, Mapping[str, str]]
) -> list[CheckResult]:
    """Check that neither an image nor flavors enable multiqueue.

    :param image: properties of the image in Glance.
    :param flavors: extra specs of the flavor of each server, by server.
    """
    enabled = image.get('hw_vif_multiqueue_enabled', 'unset').lower()
    name = 'hw:vif_multiqueue_enabled'
    return [
        CheckResult(
            'image: hw_vif_multiqueue_enabled',
            'unset or false',
            enabled,
            enabled not in ('true', 'yes', '1'),
        ),
        *(
            check_equal(
                f'{server}: {name}', 'false', specs.get(name, 'unset').lower()
            )
            for server, specs in sorted(flavors.items())
        ),
    ]


def check_distribution(
    image: Mapping[str, str], ids: Mapping[str, str]
) -> list[CheckResult]:
    """Check that an image names the operating system of its guests.

    :param image: properties of the image in Glance.
    :param ids: ``ID`` in /etc/os-release by guest.
    """
    name = image.get('os_distro', '')
    return [
        CheckResult(
            f'{guest}: ID of /etc/os-release',
            f'{name or "unset"} (os_distro of the image)',
            distribution or NONE,
            bool(name) and distribution == name,
        )
        for guest, distribution in sorted(ids.items())
    ]


def check_guest_cpu(
    name: str, guest: GuestHardware, model: str, host_model: str
) -> CheckResult:
    """Check the CPU model that a guest sees.

    :param name: name of the server.
    :param guest: hardware of the guest.
    :param model: ``model name`` in /proc/cpuinfo of the guest.
    :param host_model: ``model name`` in /proc/cpuinfo of its host.
    """
    if guest.cpu_mode == _PASSTHROUGH:
        return CheckResult(
            f'{name}: CPU model',
            host_model or 'that of the host',
            model or NONE,
            bool(model) and model == host_model,
        )
    return CheckResult(
        f'{name}: CPU model',
        'a real CPU',
        model or NONE,
        bool(model) and not _GENERIC_NAME.match(model),
    )


def check_huge_page_mode(name: str, expected: str, text: str) -> CheckResult:
    """Check the selected mode of transparent huge pages of a guest.

    :param name: name of the server.
    :param expected: mode of the OS profile.
    :param text: content of the file of the kernel, such as
        ``always [madvise] never``.
    """
    selected = re.search(r'\[(\w+)\]', text)
    return check_equal(
        f'{name}: transparent huge pages',
        expected,
        selected[1] if selected else text or NONE,
    )


def check_clock_source(name: str, clock_source: str) -> CheckResult:
    """Check the clock source of a guest."""
    return CheckResult(
        f'{name}: clock source',
        ' or '.join(_CLOCK_SOURCES),
        clock_source or NONE,
        clock_source in _CLOCK_SOURCES,
    )


def check_iothreads(
    guest: Domain,
    iothread_count: int,
    pin_checks: Collection[CheckResult],
) -> list[CheckResult]:
    """Check the IOThreads of a guest.

    :param guest: libvirt domain of the guest.
    :param iothread_count: number of its IOThreads.
    :param pin_checks: checks of the pins of its IOThreads; empty without any.
    """
    return [
        check_equal(
            f'{guest.name}: IOThreads without a pin',
            0,
            max(0, iothread_count - len(guest.iothreads)),
        ),
        *pin_checks,
    ]
