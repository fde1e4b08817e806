# SPDX-License-Identifier: Apache-2.0
"""Checks of guests on a host: CPUs, memory, boots.

The functions have no side effects. Their arguments are plain data, as Nova and
libvirt return it.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import NotRequired, TypedDict

from hvstack.accept.check_result import NONE, CheckResult, check_equal
from hvstack.accept.libvirt_domain import Domain

#: Beginning of the names of QEMU's vCPU threads.
_VCPU = 'CPU '

#: Sizes of pages in KiB by their names in Nova ("Huge pages"); ``large`` means
#: any of them.
_PAGES = {'2MB': 2048, '2MiB': 2048, '1GB': 1048576, '1GiB': 1048576}


class GuestCell(TypedDict):
    """NUMA cell of a guest, a node in Nova's ``/servers/{id}/topology``.

    :param host_node: number of the NUMA cell of the host.
    :param cpu_pinning: number of the CPU by that of the vCPU; null or missing
        without pinning.
    """

    host_node: int
    cpu_pinning: NotRequired[dict[str, int] | None]


def check_pins(
    guest: Domain,
    specs: Mapping[str, str],
    nodes: Sequence[GuestCell],
    *,
    dedicated: Collection[int],
    shared: Collection[int] = (),
    cells: Mapping[int, Collection[int]] | None = None,
    threads: Mapping[str, Collection[int]] | None = None,
) -> list[CheckResult]:
    """Check the CPU and memory pinning of a guest.

    :param guest: libvirt domain of the guest.
    :param specs: extra specs of its flavor.
    :param nodes: nodes in Nova's ``/servers/{id}/topology``.
    :param dedicated: ``cpu_dedicated_set`` of the host.
    :param shared: ``cpu_shared_set`` of the host, where emulator threads may
        run.
    :param cells: CPUs of the host's NUMA cells in libvirt; None skips this
        check.
    :param threads: allowed CPUs of the guest's threads in /proc, by name; None
        skips this check.
    """
    expected = {
        int(cpu): {int(pcpu)}
        for node in nodes
        for cpu, pcpu in (node.get('cpu_pinning') or {}).items()
    }
    floating = set(shared).union(*expected.values())
    name, evidence = guest.name, guest.excerpt
    return [
        check_equal(
            f'{name}: vcpupin',
            _format_pins(expected),
            _format_pins(guest.vcpus),
            evidence,
        ),
        _check_subset(f'{name}: in cpu_dedicated_set', guest.cpus, dedicated),
        _check_subset(
            f'{name}: emulatorpin', guest.emulator, floating, evidence
        ),
        *(
            _check_subset(f'{name}: iothreadpin {iothread}', cpus, floating)
            for iothread, cpus in sorted(guest.iothreads.items())
        ),
        *_check_memory(guest, specs, nodes),
        *(_check_cells(guest, nodes, cells) if cells is not None else ()),
        *_check_page_size(guest, specs.get('hw:mem_page_size', 'any')),
        *(
            _check_threads(guest, threads, expected, floating)
            if threads is not None
            else ()
        ),
    ]


def _check_memory(
    guest: Domain,
    specs: Mapping[str, str],
    nodes: Sequence[GuestCell],
) -> list[CheckResult]:
    """Check the number of NUMA cells and the pinning of their memory."""
    count = int(specs.get('hw:numa_nodes', '1'))
    return [
        check_equal(f'{guest.name}: NUMA cells', count, len(nodes)),
        check_equal(
            f'{guest.name}: memnode',
            sorted(
                (cell, 'strict', {node['host_node']})
                for cell, node in enumerate(nodes)
            ),
            sorted(guest.memory),
            guest.excerpt,
        ),
    ]


def _check_cells(
    guest: Domain,
    nodes: Sequence[GuestCell],
    cells: Mapping[int, Collection[int]],
) -> list[CheckResult]:
    """Check that the CPUs of each NUMA cell are those of the host's cell."""
    return [
        _check_subset(
            f'{guest.name}: CPUs of cell {node["host_node"]}',
            {int(cpu) for cpu in (node.get('cpu_pinning') or {}).values()},
            cells.get(node['host_node'], ()),
        )
        for node in nodes
    ]


def _check_page_size(guest: Domain, size: str) -> list[CheckResult]:
    """Check the size of a guest's pages.

    :param size: ``hw:mem_page_size`` of its flavor.
    """
    if size in ('any', 'small'):
        return []
    exact = _PAGES.get(size) or (int(size) if size.isdigit() else None)
    return [
        CheckResult(
            f'{guest.name}: large pages',
            size,
            f'{guest.page_kib} KiB' if guest.page_kib else NONE,
            guest.page_kib == exact
            if exact
            else bool(guest.page_kib and guest.page_kib >= 2048),
            guest.excerpt,
        )
    ]


def _check_threads(
    guest: Domain,
    threads: Mapping[str, Collection[int]],
    expected: Mapping[int, Collection[int]],
    floating: Collection[int],
) -> list[CheckResult]:
    """Check the allowed CPUs of a guest's threads in /proc.

    :param threads: allowed CPUs by name of the thread.
    :param expected: pinned CPU by number of the vCPU.
    :param floating: allowed CPUs of the other threads.
    """

    def find_allowed(cpu: int) -> Collection[int]:
        for title, allowed in threads.items():
            if title.startswith(f'{_VCPU}{cpu}/'):
                return set(allowed)
        return set()

    return [
        *(
            check_equal(
                f'{guest.name}: thread of vCPU {cpu} in /proc',
                sorted(pinned),
                sorted(find_allowed(cpu)),
            )
            for cpu, pinned in sorted(expected.items())
        ),
        *(
            _check_subset(
                f"{guest.name}: thread '{title}' in /proc", allowed, floating
            )
            for title, allowed in sorted(threads.items())
            if not title.startswith(_VCPU)
        ),
    ]


def _format_pins(pinned: Mapping[int, Collection[int]]) -> str:
    return (
        ', '.join(
            f'{cpu} on {" ".join(map(str, sorted(pinned[cpu])))}'
            for cpu in sorted(pinned)
        )
        or NONE
    )


def _check_subset(
    subject: str,
    observed: Collection[int],
    allowed: Collection[int],
    evidence: str = '',
) -> CheckResult:
    return CheckResult(
        subject,
        f'within {sorted(allowed)}',
        str(sorted(observed)) if observed else NONE,
        bool(observed) and set(observed) <= set(allowed),
        evidence,
    )


def check_disjoint_cpus(
    host: str,
    guests: Sequence[Domain],
    others: Sequence[Domain],
    dedicated: Collection[int],
) -> list[CheckResult]:
    """Check that no two guests of a host share a dedicated CPU.

    :param host: host name.
    :param guests: guests that must have dedicated CPUs.
    :param others: all guests of the host, which are checked if they use
        dedicated CPUs.
    :param dedicated: ``cpu_dedicated_set`` of the host.
    """
    owned = set(dedicated).union(*(guest.cpus for guest in guests))
    named = {guest.name: guest for guest in (*others, *guests)}
    users = [
        guest for _, guest in sorted(named.items()) if guest.list_usable(owned)
    ]
    return [
        CheckResult(
            f'{host}: guests with dedicated CPUs',
            'each with its own',
            str(len(users))
            if len(users) > 1
            else f'{len(users)}: no other guest exists for a comparison',
            True,
        ),
        *(
            check_equal(
                f'{guest.name} and {other.name}: CPUs of both',
                [],
                sorted(guest.list_usable(owned) & other.list_usable(owned)),
            )
            for guest, other in combinations(users, 2)
        ),
    ]


def check_numa_topology(
    guest: str,
    specs: Mapping[str, str],
    vcpus: int,
    nodes: Sequence[GuestCell],
) -> list[CheckResult]:
    """Check the NUMA topology of a dedicated guest in Nova's API."""
    pinned = [
        cpu
        for node in nodes
        for cpu in (node.get('cpu_pinning') or {}).values()
    ]
    return [
        check_equal(
            f'{guest}: pinned vCPUs', vcpus, len(pinned), json.dumps(nodes)
        ),
        check_equal(f'{guest}: CPUs used once', len(pinned), len(set(pinned))),
        check_equal(
            f'{guest}: NUMA cells',
            int(specs.get('hw:numa_nodes', '1')),
            len({node['host_node'] for node in nodes}),
            json.dumps(nodes),
        ),
    ]


def check_rebooted(before: str, after: str, reason: str = '') -> CheckResult:
    """Check that a guest has rebooted.

    :param before: identification of the first boot; empty if the guest did
        not answer.
    :param after: identification of the second boot.
    :param reason: why the guest does not answer.
    """
    first_boot, second_boot = (
        ' '.join(text.split()) for text in (before, after)
    )
    return CheckResult(
        'boot after the power cycle',
        f'another than {first_boot or "one that answers"}',
        second_boot or ': '.join(filter(None, ('no answer', reason))),
        bool(first_boot and second_boot) and first_boot != second_boot,
    )
