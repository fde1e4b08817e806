# SPDX-License-Identifier: Apache-2.0
"""NUMA cells that a lab host reports.

Nova places guests with dedicated CPUs in cells. On a machine with several
cells, a host with kvm or qemu therefore reports these cells, each with an
equal part of the host's memory. Containers are not placed in cells: a host
with lxc reports one cell, which the host's ``init`` shows instead of the
machine's.
"""

from pathlib import Path

from hvstack.model.host import NumaCell

#: NUMA nodes of the machine (Linux, stable/sysfs-devices-node). A kernel
#: without NUMA has no such directory.
NODES = Path('/sys/devices/system/node')


def read_cells(nodes: Path = NODES) -> tuple[tuple[int, ...], ...]:
    """Return the CPUs of each NUMA node of the machine, in order.

    Nothing is returned if the nodes are not numbered from 0 without a gap, or
    if a node has no CPU, as one that consists of memory alone.

    :param nodes: directory of the nodes.
    """
    numbers = sorted(
        int(path.name.removeprefix('node'))
        for path in nodes.glob('node[0-9]*')
    )
    cells = []
    for number in numbers:
        links = (nodes / f'node{number}').glob('cpu[0-9]*')
        cells.append(
            tuple(sorted(int(path.name.removeprefix('cpu')) for path in links))
        )
    if numbers != list(range(len(numbers))) or not all(cells):
        return ()
    return tuple(cells)


def choose_cells(
    backend: str, cpus: int, memory_mib: int, nodes: Path = NODES
) -> tuple[NumaCell, ...]:
    """Return the cells that a lab host reports.

    :param backend: compute backend of the host.
    :param cpus: number of CPUs that the host reports.
    :param memory_mib: memory of the host in MiB, of which each cell has an
        equal part; the last cell gets the remainder.
    :param nodes: directory of the machine's NUMA nodes.
    """
    cells = read_cells(nodes)
    if (
        backend == 'lxc'
        # A host profile has sockets of equal size.
        or len({len(cell) for cell in cells}) != 1
        or sorted(cpu for cell in cells for cpu in cell) != list(range(cpus))
    ):
        cells = (tuple(range(cpus)),)
    part = memory_mib // len(cells)
    last = memory_mib - part * (len(cells) - 1)
    return tuple(
        NumaCell(number, cell, last if cell is cells[-1] else part)
        for number, cell in enumerate(cells)
    )


def format_mask(cpus: int) -> str:
    """Return a mask of the first CPUs as the kernel writes masks.

    Commas separate 32 bits each. libnuma reads 64 CPUs at most from a mask
    without commas, whatever its length is.

    :param cpus: number of CPUs.
    """
    groups = [
        f'{0xFFFFFFFF:x}'
        if first + 32 <= cpus
        else f'{(1 << cpus % 32) - 1:x}'
        for first in range(0, cpus, 32)
    ]
    return ','.join(reversed(groups))
