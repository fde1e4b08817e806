# SPDX-License-Identifier: Apache-2.0
"""Checks of compute hosts for the first run on hosts with KVM.

The functions have no side effects. Their arguments are plain data, as the
hosts return it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hvstack.accept import libvirt_domain
from hvstack.accept.check_result import NONE, CheckResult, check_equal
from hvstack.accept.flavor_checks import check_nova_conf_ratios
from hvstack.accept.guest_hardware import GuestHardware
from hvstack.model.host_detection import format_cpu_list
from hvstack.model.host_settings import PAGE_KIB, HostSettings

_PAGES = re.compile(r'pages\.(\d+)\.(\d+)')


@dataclass(frozen=True)
class PagePool:
    """Huge pages of one size in a NUMA cell of a host.

    :param total: number of pages.
    :param free: number of free pages.
    """

    total: int
    free: int

    @property
    def used(self) -> int:
        """Number of used pages."""
        return self.total - self.free


def parse_pages(facts: Mapping[str, str]) -> dict[tuple[int, int], PagePool]:
    """Return the huge pages by cell and size of the pages in KiB.

    :param facts: facts of a host.
    """
    pools = {}
    for name, value in facts.items():
        match, counts = _PAGES.fullmatch(name), value.split()
        if match and len(counts) == 2 and all(map(str.isdecimal, counts)):
            pools[int(match[1]), int(match[2])] = PagePool(*map(int, counts))
    return pools


def count_guest_pages(
    guests: Sequence[GuestHardware],
) -> dict[tuple[int, int], int]:
    """Return the numbers of pages of guests by cell and size in KiB.

    :param guests: all guests of a host.
    """
    counts: dict[tuple[int, int], int] = {}
    for guest in guests:
        if not guest.page_kib:
            continue
        for cell, memory_kib in guest.memory_kib.items():
            key = cell, guest.page_kib
            counts[key] = counts.get(key, 0) + memory_kib // guest.page_kib
    return counts


def check_physical(host: str, facts: Mapping[str, str]) -> CheckResult:
    """Check that a host is not a virtual machine."""
    return check_equal(
        f'{host}: flag hypervisor', 'no', facts.get('hypervisor_flag', NONE)
    )


def check_kvm(host: str, facts: Mapping[str, str]) -> list[CheckResult]:
    """Check the device and the module of KVM on a host."""
    module = facts.get('module', NONE)
    nested = facts.get('nested')
    return [
        check_equal(f'{host}: /dev/kvm', 'yes', facts.get('dev_kvm', NONE)),
        CheckResult(
            f'{host}: module of KVM',
            'kvm_intel or kvm_amd',
            f'{module} (nested={nested})' if nested else module,
            module in ('kvm_intel', 'kvm_amd'),
        ),
    ]


def check_nova_conf(
    host: str, options: Mapping[str, str]
) -> list[CheckResult]:
    """Check virt_type and the allocation ratios of nova-compute.

    :param options: options that nova-compute reads, as ``section.name``.
    """
    return [
        check_equal(
            f'{host}: virt_type',
            'kvm',
            options.get('libvirt.virt_type', 'kvm').strip(),
        ),
        *check_nova_conf_ratios(host, options),
    ]


def check_cpu_set(
    host: str,
    options: Mapping[str, str],
    facts: Mapping[str, str],
    settings: HostSettings,
) -> list[CheckResult]:
    """Check the dedicated CPUs of a host.

    :param host: host name.
    :param options: options that nova-compute reads, as ``section.name``.
    :param facts: facts of the host.
    :param settings: settings that follow from the host profile.
    :raises hvstack.errors.InputError: a set is not a CPU list.
    """
    dedicated, shared = (
        set(libvirt_domain.cpu_set(options, f'cpu_{name}_set'))
        for name in ('dedicated', 'shared')
    )
    online, isolated = (
        libvirt_domain.parse_cpu_list(facts.get(name, ''))
        for name in ('online', 'isolated')
    )
    expected = libvirt_domain.parse_cpu_list(settings.cpu_set)
    return [
        check_equal(
            f'{host}: cpu_dedicated_set',
            _format_cpus(expected),
            _format_cpus(dedicated),
        ),
        check_equal(
            f'{host}: dedicated CPUs that are not online',
            NONE,
            _format_cpus(dedicated - online),
        ),
        check_equal(
            f'{host}: dedicated CPUs in cpu_shared_set',
            NONE,
            _format_cpus(dedicated & shared),
        ),
        CheckResult(
            f'{host}: isolated CPUs',
            f'{NONE}, or {_format_cpus(dedicated)}',
            _format_cpus(isolated),
            not isolated or isolated == dedicated,
        ),
    ]


def _format_cpus(cpus: set[int]) -> str:
    return format_cpu_list(sorted(cpus)) if cpus else NONE


def check_page_pools(
    host: str,
    facts: Mapping[str, str],
    settings: HostSettings,
    guests: Sequence[GuestHardware],
) -> list[CheckResult]:
    """Check that each cell has the huge pages that flavors require.

    :param host: host name.
    :param facts: facts of the host.
    :param settings: settings that follow from the host profile.
    :param guests: all guests that run on the host.
    """
    pools = parse_pages(facts)
    guest_pages = count_guest_pages(guests)
    check_results = []
    for cell in settings.pages:
        key = cell.cell, PAGE_KIB
        pool = pools.get(key, PagePool(0, 0))
        available = pool.free + guest_pages.get(key, 0)
        check_results += [
            CheckResult(
                f'{host}: huge pages of cell {cell.cell}',
                f'at least {cell.count}',
                str(pool.total),
                pool.total >= cell.count,
            ),
            CheckResult(
                f'{host}: huge pages of cell {cell.cell} that are free or '
                'used by guests',
                f'at least {cell.guests}',
                str(available),
                available >= cell.guests,
            ),
        ]
    return check_results


def check_used_pages(
    host: str, facts: Mapping[str, str], guests: Sequence[GuestHardware]
) -> list[CheckResult]:
    """Check that the memory of guests is in the huge pages of their cells.

    :param host: host name.
    :param facts: facts of the host while the guests run.
    :param guests: all guests that run on the host.
    """
    pools = parse_pages(facts)
    return [
        CheckResult(
            f'{host}: used huge pages of {size} KiB of cell {cell}',
            f'at least {count} of its guests',
            str(used := pools.get((cell, size), PagePool(0, 0)).used),
            used >= count,
        )
        for (cell, size), count in sorted(count_guest_pages(guests).items())
    ]


def check_data_paths(
    host: str, bridges: Mapping[str, str]
) -> list[CheckResult]:
    """Check the data paths of the bridges of Open vSwitch.

    :param bridges: type of the data path by bridge.
    """
    return [
        check_equal(f'{host}: data path of {bridge}', 'system', kind)
        for bridge, kind in sorted(bridges.items())
    ]
