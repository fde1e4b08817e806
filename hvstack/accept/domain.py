# SPDX-License-Identifier: Apache-2.0
"""What libvirt and /proc tell of a guest and its host.

libvirt, "Domain XML format": cputune, numatune, memoryBacking; "Driver
capabilities": the host's topology.
"""

from collections.abc import Collection, Mapping
from configparser import ConfigParser
from dataclasses import dataclass
from xml.etree import ElementTree

from hvstack import errors


@dataclass(frozen=True)
class Domain:
    """A guest's pins, as its XML has them while it runs.

    :param name: Nova's instance name.
    :param vcpus: the host's CPUs by vCPU.
    :param emulator: those of the emulator's threads.
    :param iothreads: those of each IOThread.
    :param memory: (guest's cell, mode, the host's cells) of its memory.
    :param page_kib: its large page, or None.
    :param disks: source of each disk: a path, or protocol and name.
    :param excerpt: of the XML, for the report.
    """

    name: str
    vcpus: dict[int, set[int]]
    emulator: set[int]
    iothreads: dict[int, set[int]]
    memory: list[tuple[int, str, set[int]]]
    page_kib: int | None
    disks: list[str]
    excerpt: str

    @property
    def cpus(self) -> set[int]:
        """All CPUs of the host that its vCPUs run on."""
        return set().union(*self.vcpus.values())


def parse_cpu_list(text: str) -> set[int]:
    """Read a CPU list as libvirt, Nova and /proc write it: ``0-3,8,^2``.

    :raises hvstack.errors.InputError: it is none.
    """
    included: set[int] = set()
    without: set[int] = set()
    try:
        for part in text.replace(' ', '').split(','):
            if not part:
                continue
            first, _, last = part.removeprefix('^').partition('-')
            target = without if part.startswith('^') else included
            target |= set(range(int(first), int(last or first) + 1))
    except ValueError as exc:
        raise errors.InputError(
            f"'{text[:60]}' is no list of CPUs, such as 0-3,8"
        ) from exc
    return included - without


def parse_domain(xml: str) -> Domain:
    """Read ``virsh dumpxml``.

    :raises hvstack.errors.InputError: it is no domain's XML.
    """
    root = _root(xml, 'domain')
    parts = ('memoryBacking', 'cputune', 'numatune')
    page = root.find('memoryBacking/hugepages/page')
    disks = []
    for source in root.iterfind('devices/disk/source'):
        protocol = source.get('protocol')
        source_path = source.get('file') or source.get('dev') or ''
        disks.append(
            f'{protocol}:{source.get("name")}' if protocol else source_path
        )
    emulator = root.find('cputune/emulatorpin')
    return Domain(
        name=root.findtext('name') or '',
        vcpus={
            int(pin.attrib['vcpu']): parse_cpu_list(pin.attrib['cpuset'])
            for pin in root.iterfind('cputune/vcpupin')
        },
        emulator=parse_cpu_list(emulator.attrib['cpuset'])
        if emulator is not None
        else set(),
        iothreads={
            int(pin.attrib['iothread']): parse_cpu_list(pin.attrib['cpuset'])
            for pin in root.iterfind('cputune/iothreadpin')
        },
        memory=[
            (
                int(node.attrib['cellid']),
                node.attrib['mode'],
                parse_cpu_list(node.attrib['nodeset']),
            )
            for node in root.iterfind('numatune/memnode')
        ],
        page_kib=int(page.attrib['size']) if page is not None else None,
        disks=disks,
        excerpt=''.join(
            ElementTree.tostring(part, encoding='unicode').rstrip() + '\n'
            for name in parts
            for part in root.iterfind(name)
        ),
    )


def parse_cells(xml: str) -> dict[int, set[int]]:
    """Read the CPUs of a host's NUMA cells from ``virsh capabilities``.

    :raises hvstack.errors.InputError: it is no capabilities' XML.
    """
    root = _root(xml, 'capabilities')
    return {
        int(cell.attrib['id']): {
            int(cpu.attrib['id']) for cpu in cell.iterfind('cpus/cpu')
        }
        for cell in root.iterfind('host/topology/cells/cell')
    }


def _root(xml: str, name: str) -> ElementTree.Element:
    try:
        # libvirt of a host that an administrator gave access to wrote it.
        root = ElementTree.fromstring(xml)  # noqa: S314
    except ElementTree.ParseError as exc:
        raise errors.InputError(f'libvirt gave no XML: {exc}') from exc
    if root.tag != name:
        raise errors.InputError(
            f"libvirt gave '{root.tag}' instead of '{name}'"
        )
    return root


def parse_nova_conf(text: str) -> dict[str, str]:
    """Read nova.conf as oslo.config does, as ``section.name``.

    The last value counts where an option comes twice.

    :param text: all files that the service reads, in order.
    """
    parser = ConfigParser(
        strict=False, interpolation=None, default_section=' '
    )
    parser.read_string(text)
    return {
        f'{section}.{name}': value
        for section in parser.sections()
        for name, value in parser.items(section)
    }


def parse_threads(text: str) -> dict[str, set[int]]:
    """Read lines of ``thread's name<TAB>CPU list``, of /proc.

    Threads of one name are taken together.
    """
    cpus_by_thread: dict[str, set[int]] = {}
    for line in text.splitlines():
        name, mark, cpus = line.partition('\t')
        if mark:
            cpus_by_thread.setdefault(name, set()).update(parse_cpu_list(cpus))
    return cpus_by_thread


def cpu_set(values: Mapping[str, str], name: str) -> Collection[int]:
    """Return a CPU set of nova.conf, nothing where it is not set."""
    return parse_cpu_list(values.get(f'compute.{name}', ''))
