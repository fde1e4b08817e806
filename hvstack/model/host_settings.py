# SPDX-License-Identifier: Apache-2.0
"""Settings of a compute host that hold all flavors of its host profile.

Nova fits a guest into the NUMA cells of a host by huge pages: of each page
size, a cell has its total less the pages in use and less those of
``reserved_huge_pages``. Placement compares the memory of a flavor with the
host's total less ``reserved_host_memory_mb``, and huge pages count in both.
The numbers here follow from the same division of memory as the flavors, so
that as many guests fit as a configuration has instances.
"""

from dataclasses import dataclass

from hvstack import errors
from hvstack.model.configuration import CPU_POLICIES
from hvstack.model.host import HostProfile
from hvstack.model.host_detection import format_cpu_list
from hvstack.model.host_share import (
    PAGE_MIB,
    compute_guest_memory_mib,
    list_cells,
)

#: Size of a huge page as Nova and the kernel count it, in KiB.
PAGE_KIB = PAGE_MIB * 1024


@dataclass(frozen=True)
class CellPages:
    """Huge pages of one NUMA cell of a host.

    :param cell: number of the cell on the host.
    :param guests: number of pages for the memory of guests.
    :param reserved: number of pages that no guest gets.
    """

    cell: int
    guests: int
    reserved: int = 0

    @property
    def count(self) -> int:
        """Number of pages that the kernel must allocate in the cell."""
        return self.guests + self.reserved


@dataclass(frozen=True)
class HostSettings:
    """Numbers of a compute host that follow from its host profile.

    :param cpu_policy: CPU policy of the guests of the host.
    :param cpu_set: CPUs for guests, as nova.conf lists them.
    :param cpus: number of these CPUs.
    :param memory_mib: memory of the host in MiB.
    :param guest_memory_mib: memory of all guests together in MiB.
    :param pages: huge pages of each cell; empty if guests use none.
    """

    cpu_policy: str
    cpu_set: str
    cpus: int
    memory_mib: int
    guest_memory_mib: int
    pages: tuple[CellPages, ...] = ()

    @property
    def reserved_memory_mib(self) -> int:
        """Memory in MiB that no guest gets."""
        return max(self.memory_mib - self.guest_memory_mib, 0)

    @property
    def page_count(self) -> int:
        """Number of huge pages of all cells."""
        return sum(cell.count for cell in self.pages)

    @property
    def kernel_parameters(self) -> str:
        """Kernel parameters that allocate the pages; empty without pages.

        The kernel spreads a plain number evenly over the cells. Cells that
        need different numbers are named, which Linux reads from 5.16 on.
        """
        if not self.pages:
            return ''
        counts = str(self.page_count)
        if len({cell.count for cell in self.pages}) > 1:
            counts = ','.join(
                f'{cell.cell}:{cell.count}' for cell in self.pages
            )
        size = f'{PAGE_MIB}M'
        return (
            f'default_hugepagesz={size} hugepagesz={size} hugepages={counts}'
        )


def compute_host_settings(
    profile: HostProfile,
    cpu_policy: str,
    *,
    memory_mib: int | None = None,
    reserved_pages: int = 0,
) -> HostSettings:
    """Compute the settings of a compute host from its host profile.

    :param cpu_policy: CPU policy of the guests of the host.
    :param memory_mib: memory that the host reports in MiB; None uses the
        host profile.
    :param reserved_pages: number of huge pages in each cell for programs of
        the host, in addition to the pages of the guests.
    :raises hvstack.errors.InputError: a value is not valid, or a cell has no
        memory for its pages.
    """
    if cpu_policy not in CPU_POLICIES:
        raise errors.InputError(
            f"Cannot compute host settings: cpu_policy is '{cpu_policy}'. "
            f'Use {" or ".join(CPU_POLICIES)}.'
        )
    pages: tuple[CellPages, ...] = ()
    if cpu_policy == 'dedicated' and profile.large_pages:
        pages = _compute_pages(profile, reserved_pages)
    elif reserved_pages:
        raise errors.InputError(
            f"Cannot reserve huge pages (host profile '{profile.name}', "
            f'cpu_policy {cpu_policy}): its guests use none. Omit the '
            'reserved pages, or use dedicated CPUs and large_pages: true.'
        )
    return HostSettings(
        cpu_policy=cpu_policy,
        cpu_set=format_cpu_list(
            sorted(cpu for cell in profile.cells for cpu in cell.cpus)
        ),
        cpus=profile.cpus,
        memory_mib=profile.memory_mib if memory_mib is None else memory_mib,
        guest_memory_mib=compute_guest_memory_mib(profile),
        pages=pages,
    )


def _compute_pages(
    profile: HostProfile, reserved: int
) -> tuple[CellPages, ...]:
    """Return the pages of each cell: those of the guests, and the reserved.

    :param reserved: number of pages in each cell that no guest gets.
    :raises hvstack.errors.InputError: a cell has no memory for them.
    """
    pages = []
    for cell, (_, guests_mib) in zip(
        profile.cells, list_cells(profile), strict=True
    ):
        guests = guests_mib // PAGE_MIB
        spare = cell.memory_mib // PAGE_MIB - guests
        if not 0 <= reserved <= spare:
            raise errors.InputError(
                f'Cannot reserve {reserved} huge pages (host profile '
                f"'{profile.name}', cell {cell.id}): the guests leave "
                f'{spare} pages of {PAGE_MIB} MiB there. Use 0 to {spare} '
                'pages, or give less memory to guests in the host profile.'
            )
        pages.append(CellPages(cell.id, guests, reserved))
    return tuple(pages)
