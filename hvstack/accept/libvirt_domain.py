# SPDX-License-Identifier: Apache-2.0
"""Parsers for the output of libvirt and /proc about guests and hosts.

libvirt, "Domain XML format": cputune, numatune, memoryBacking; "Driver
capabilities": the host's topology.
"""

from collections.abc import Collection, Mapping
from configparser import ConfigParser
from dataclasses import dataclass, field
from xml.etree import ElementTree

from hvstack import errors


@dataclass(frozen=True)
class Domain:
    """CPU and memory pinning of a guest, from the XML of the running domain.

    :param name: Nova's instance name.
    :param vcpus: host CPUs by vCPU.
    :param emulator: host CPUs of the emulator threads.
    :param iothreads: host CPUs by IOThread.
    :param memory: guest cell, mode and host cells of each memory node.
    :param page_kib: size of its large pages in KiB; None without large pages.
    :param disks: source of each disk: a path, or protocol and name.
    :param excerpt: excerpt of the XML for the report.
    :param floating: host CPUs of the vCPUs that are not pinned; None for all
        CPUs of the host, and empty if each vCPU is pinned.
    """

    name: str
    vcpus: dict[int, set[int]]
    emulator: set[int]
    iothreads: dict[int, set[int]]
    memory: list[tuple[int, str, set[int]]]
    page_kib: int | None
    disks: list[str]
    excerpt: str
    floating: set[int] | None = field(default_factory=set)

    @property
    def cpus(self) -> set[int]:
        """All host CPUs that its vCPUs are pinned to."""
        return set().union(*self.vcpus.values())

    def list_usable(self, cpus: Collection[int]) -> set[int]:
        """Return those of some host CPUs that its vCPUs can run on.

        :param cpus: host CPUs.
        """
        if self.floating is None:
            return set(cpus)
        return (self.cpus | self.floating).intersection(cpus)


def parse_cpu_list(text: str) -> set[int]:
    """Parse a CPU list of libvirt, Nova or /proc, such as ``0-3,8,^2``.

    :param text: CPU list.
    :raises hvstack.errors.InputError: the text is not a CPU list.
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
            f"Cannot read '{text[:60]}': it is not a CPU list. Use a list "
            'such as 0-3,8.'
        ) from exc
    return included - without


def parse_domain(xml: str) -> Domain:
    """Parse the output of ``virsh dumpxml``.

    :param xml: output of the command.
    :raises hvstack.errors.InputError: the text is not the XML of a domain.
    """
    root = parse_root(xml, 'domain')
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
    pins = {
        int(pin.attrib['vcpu']): parse_cpu_list(pin.attrib['cpuset'])
        for pin in root.iterfind('cputune/vcpupin')
    }
    return Domain(
        name=root.findtext('name') or '',
        vcpus=pins,
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
        floating=_parse_floating(root, len(pins)),
    )


def _parse_floating(root: ElementTree.Element, pins: int) -> set[int] | None:
    """Return the host CPUs of the vCPUs of a domain that are not pinned.

    libvirt, "CPU Allocation": they run on the CPUs in ``cpuset`` of ``vcpu``,
    and on all CPUs without it.

    :param root: XML of the domain.
    :param pins: number of pinned vCPUs.
    """
    vcpu = root.find('vcpu')
    count = int((vcpu.text if vcpu is not None else None) or 1)
    if pins >= count:
        return set()
    cpuset = vcpu.get('cpuset') if vcpu is not None else None
    return parse_cpu_list(cpuset) if cpuset else None


def parse_cells(xml: str) -> dict[int, set[int]]:
    """Parse the CPUs of a host's NUMA cells from ``virsh capabilities``.

    :param xml: output of the command.
    :raises hvstack.errors.InputError: the text is not the XML of capabilities.
    """
    root = parse_root(xml, 'capabilities')
    return {
        int(cell.attrib['id']): {
            int(cpu.attrib['id']) for cpu in cell.iterfind('cpus/cpu')
        }
        for cell in root.iterfind('host/topology/cells/cell')
    }


def parse_root(xml: str, name: str) -> ElementTree.Element:
    """Parse XML of libvirt.

    :param xml: output of libvirt.
    :param name: expected name of the root element.
    :raises hvstack.errors.InputError: the text is not such XML.
    """
    try:
        # libvirt on a host that the administrator trusts wrote the XML.
        root = ElementTree.fromstring(xml)  # noqa: S314
    except ElementTree.ParseError as exc:
        raise errors.InputError(
            f'Cannot read the output of libvirt: it is not XML ({exc}). Check '
            'libvirt_uri.'
        ) from exc
    if root.tag != name:
        raise errors.InputError(
            f'Cannot read the output of libvirt: it has the element '
            f"'{root.tag}' instead of '{name}'. Check libvirt_uri."
        )
    return root


def parse_nova_conf(text: str) -> dict[str, str]:
    """Parse nova.conf as oslo.config does, with keys ``section.name``.

    The last value of a duplicated option counts.

    :param text: content of all files that the service reads, in order.
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
    """Parse lines with a thread name, a tab and a CPU list.

    The CPUs of threads with the same name are combined.

    :param text: lines from /proc.
    """
    cpus_by_thread: dict[str, set[int]] = {}
    for line in text.splitlines():
        name, mark, cpus = line.partition('\t')
        if mark:
            cpus_by_thread.setdefault(name, set()).update(parse_cpu_list(cpus))
    return cpus_by_thread


def cpu_set(values: Mapping[str, str], name: str) -> Collection[int]:
    """Return a CPU set of nova.conf; an empty set if it is not set."""
    return parse_cpu_list(values.get(f'compute.{name}', ''))
