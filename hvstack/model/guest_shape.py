# SPDX-License-Identifier: Apache-2.0
"""What a flavor asks of its host: CPUs, NUMA cells, pages."""

import re
from collections.abc import Iterator

from hvstack.model.flavor import Flavor
from hvstack.model.host_share import PAGE_MIB

#: More NUMA cells than any host has.
_MAX_CELLS = 1024

#: Larger than the number of any guest's CPU.
_MAX_CPU = 65535

#: Of a number in an extra spec.
_MAX_DIGITS = 12

_PAGE = re.compile('([0-9]{1,12})(?:(?:([KMGT])i?)?(b|bit|B))?')

_UNITS = {'K': 1024, 'M': 1024**2, 'G': 1024**3, 'T': 1024**4}

#: What a rule finds in one flavor: field and message.
FieldMessages = Iterator[tuple[str, str]]


def is_dedicated(flavor: Flavor) -> bool:
    """Tell whether a flavor has CPUs of its own."""
    return flavor.extra_specs.get('hw:cpu_policy') == 'dedicated'


def list_guest_cells(flavor: Flavor) -> list[tuple[int, int]] | None:
    """Return (vCPUs, MiB) of each of a guest's NUMA cells.

    As Nova does: evenly, unless ``hw:numa_cpus.N`` and ``hw:numa_mem.N``
    say otherwise. None where they cannot be read or are not even.
    """
    specs = flavor.extra_specs
    count = specs.get('hw:numa_nodes', '1')
    max_cells = min(flavor.vcpus, _MAX_CELLS)
    if not is_number(count) or not 1 <= int(count) <= max_cells:
        return None
    cells = []
    for cell in range(int(count)):
        cpus = specs.get(f'hw:numa_cpus.{cell}')
        memory = specs.get(f'hw:numa_mem.{cell}')
        if cpus is None and (flavor.vcpus % int(count)):
            return None
        if memory is None and (flavor.ram % int(count)):
            return None
        vcpus = (
            flavor.vcpus // int(count)
            if cpus is None
            else len(parse_guest_cpus(cpus))
        )
        if memory is not None and not is_number(memory):
            return None
        mib = flavor.ram // int(count) if memory is None else int(memory)
        cells.append((vcpus, mib))
    return cells


def is_number(text: str) -> bool:
    """Return whether a text is a number in ASCII digits of a sane length."""
    return text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS


def parse_guest_cpus(text: str) -> set[int]:
    """Read a guest's CPU list, such as ``0-3,^2``; empty if it is none."""
    cpus: set[int] = set()
    without: set[int] = set()
    # A range that is named again adds nothing, and takes time.
    for part in dict.fromkeys(text.split(',')):
        target = without if part.startswith('^') else cpus
        first, dash, last = part.removeprefix('^').partition('-')
        if not dash:
            last = first
        if not is_number(first) or not is_number(last):
            return set()
        if not int(first) <= int(last) <= _MAX_CPU:
            return set()
        target |= set(range(int(first), int(last) + 1))
    return cpus - without


def parse_page_kib(flavor: Flavor) -> int | None:
    """Return the page that a flavor asks for, in KiB; None if any will do.

    As Nova reads it: a number is KiB, and one with a unit is bytes or bits,
    times a power of 1024. ``large`` is the smallest large one.
    """
    text = flavor.extra_specs.get('hw:mem_page_size', 'any')
    if text == 'large':
        return PAGE_MIB * 1024
    match = _PAGE.fullmatch(text)
    if not match:
        return None
    if not match[3]:
        return int(match[1])
    size = int(match[1]) * _UNITS.get(match[2], 1)
    return size // (1024 if match[3] == 'B' else 8 * 1024)
