# SPDX-License-Identifier: Apache-2.0
"""Host profiles: the hardware of one kind of compute host."""

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from hvstack.model.plain_data import Json, JsonObject
from hvstack.model.strict_mapping import Fields, SourceLocation

#: How many nodes carry the controllers, and how large they are:
#: ``combined`` one node for NameNode and ResourceManager (vsan, Table 2);
#: ``separate`` two nodes on two hosts from two instances a host on
#: (vsphere6, "Controller Daemons"); ``host`` one node that has a whole host
#: (the lab).
CONTROLLER_RULES = ('combined', 'separate', 'host')

#: What a flavor may require a trait for: its role, or its storage.
TRAIT_KEYS = (
    'worker',
    'controller',
    'namenode',
    'resourcemanager',
    'local',
    'ceph',
)

_NAME = re.compile(r'[a-z0-9]([a-z0-9.-]{0,62}[a-z0-9])?')
#: Custom traits, and those of os-traits, which services report themselves.
_TRAIT = re.compile(
    r'(CUSTOM_[A-Z0-9_]{1,248}|(HW|COMPUTE|STORAGE|MISC|OWNER)_[A-Z0-9_]{1,240})'
)
_ALIAS = re.compile(r'[A-Za-z0-9_-]{1,64}')
#: 64 TiB: more is a mistyped unit.
_MAX_MIB = 64 * 1024 * 1024

_FIELDS = (
    'name',
    'sockets',
    'cores_per_socket',
    'threads_per_core',
    'memory_mib',
    'cells',
    'disks',
    'volumes',
    'root_gb',
    'vm_memory_mib',
    'reserved_memory_mib',
    'controllers',
    'traits',
    'cpu_cap',
    'memory_cap_mib',
    'large_pages',
    'policy',
)


@dataclass(frozen=True)
class NumaCell:
    """One NUMA cell of a host.

    :param id: its number on the host.
    :param cpus: the hardware threads that belong to it.
    :param memory_mib: its memory.
    """

    id: int
    cpus: tuple[int, ...]
    memory_mib: int


@dataclass(frozen=True)
class HostDisks:
    """A host's data disks; those of the system do not count.

    :param count: how many.
    :param size_gb: size of each, in units of 10^9 bytes as vendors do.
    :param rotational: spinning, not flash.
    :param pci_alias: Nova's alias of these disks where they are NVMe devices
        that a guest can get by PCI passthrough.
    """

    count: int
    size_gb: int
    rotational: bool = True
    pci_alias: str | None = None


@dataclass(frozen=True)
class WorkerVolumes:
    """Data volumes of one worker that are no share of its host's disks.

    :param count: how many a worker gets.
    :param size_gb: size of each.
    """

    count: int
    size_gb: int


@dataclass(frozen=True)
class HostCaps:
    """Limits that all processes of a lab host share.

    :param cpu: number of cores; None for all of them.
    :param memory_mib: memory in MiB; None for all of it.
    """

    cpu: float | None = None
    memory_mib: int | None = None


@dataclass(frozen=True)
class HostPolicy:
    """Settings of hvstack for the hosts of a profile.

    :param lab: whether these are lab hosts of this machine, whose files
        describe them.
    :param shared_kernel: whether guests without a kernel of their own (lxc)
        share that of this machine, and its page cache.
    :param cpu_shares: whether flavors weigh guests by their vCPUs, because
        they share a cap.
    :param secondary_namenode: default for a SecondaryNameNode.
    :param spare_gateway: whether a gateway node uses only a slot that no
        worker uses.
    :param local_volumes: whether pinned disks of lab hosts are volumes on
        the host of the server, and not on Ceph.
    """

    lab: bool = False
    shared_kernel: bool = False
    cpu_shares: bool = False
    secondary_namenode: bool = True
    spare_gateway: bool = False
    local_volumes: bool = False


@dataclass(frozen=True)
class HostProfile:
    """The hardware of one kind of compute host.

    :param memory_mib: memory that the host has, or reports.
    :param cells: NUMA cells; every CPU in exactly one.
    :param disks: data disks, if the paper or the user names any.
    :param volumes: data volumes per worker that replace a share of
        ``disks`` with storage ``ceph`` (vsan section 2.5).
    :param root_gb: root disk of a guest.
    :param vm_memory_mib: what all guests may have together; None leaves it
        to ``reserved_memory_mib``, else to the memory rule.
    :param reserved_memory_mib: what stays with the host.
    :param controllers_rule: one of :data:`CONTROLLER_RULES`.
    :param traits: the custom trait that a flavor of a role, or of a
        storage, requires.
    :param caps: limits of a lab host; fewer cores than ``cpus`` make the
        host a scale model.
    :param large_pages: whether the host has some reserved for guests with
        dedicated CPUs; else these have neither large nor locked pages.
    :param policy: settings of hvstack for these hosts.
    """

    name: str
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    memory_mib: int
    cells: tuple[NumaCell, ...]
    disks: HostDisks | None = None
    volumes: WorkerVolumes | None = None
    root_gb: int = 40
    vm_memory_mib: int | None = None
    reserved_memory_mib: int | None = None
    controllers_rule: str = 'combined'
    traits: dict[str, str] = field(default_factory=dict)
    caps: HostCaps = HostCaps()
    large_pages: bool = True
    policy: HostPolicy = HostPolicy()

    @property
    def cpus(self) -> int:
        """Hardware threads: what Nova counts as CPUs."""
        return self.sockets * self.cores_per_socket * self.threads_per_core

    @property
    def digest(self) -> str:
        """Twelve hexadecimal digits that change with any of its fields."""
        text = json.dumps(self.to_mapping(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def to_mapping(self) -> JsonObject:
        """Return plain data that :func:`from_mapping` reads back."""
        data: JsonObject = {
            'name': self.name,
            'sockets': self.sockets,
            'cores_per_socket': self.cores_per_socket,
            'threads_per_core': self.threads_per_core,
            'memory_mib': self.memory_mib,
            'cells': [
                {
                    'cpus': ','.join(str(cpu) for cpu in cell.cpus),
                    'memory_mib': cell.memory_mib,
                }
                for cell in self.cells
            ],
            'root_gb': self.root_gb,
            'controllers': self.controllers_rule,
            'vm_memory_mib': self.vm_memory_mib,
            'reserved_memory_mib': self.reserved_memory_mib,
            'cpu_cap': self.caps.cpu,
            'memory_cap_mib': self.caps.memory_mib,
            'traits': dict(self.traits) or None,
            'large_pages': None if self.large_pages else False,
            # Without defaults, a new field keeps the digests of profiles.
            'policy': {
                item.name: getattr(self.policy, item.name)
                for item in dataclasses.fields(HostPolicy)
                if getattr(self.policy, item.name) != item.default
            }
            or None,
        }
        if self.disks:
            data['disks'] = {
                'count': self.disks.count,
                'size_gb': self.disks.size_gb,
                'rotational': self.disks.rotational,
                'pci_alias': self.disks.pci_alias,
            }
        if self.volumes:
            data['volumes'] = {
                'count': self.volumes.count,
                'size_gb': self.volumes.size_gb,
            }
        return {key: value for key, value in data.items() if value is not None}


def from_mapping(data: Json, source: str | SourceLocation) -> HostProfile:
    """Check plain data and make a host profile of it.

    :param data: what a YAML file holds.
    :param source: its name, or a function from field to file and line.
    :raises hvstack.errors.InputError: one line with file, field, remedy.
    """
    fields = Fields(data, source, _FIELDS)
    name = fields.text('name')
    if not _NAME.fullmatch(name):
        raise fields.error(
            'name',
            f'is {name!r}. Use lower-case letters, digits, dots and dashes',
        )
    sockets = fields.integer('sockets', 1, 64)
    cores = fields.integer('cores_per_socket', 1, 1024)
    threads = fields.integer('threads_per_core', 1, 8)
    memory = fields.integer('memory_mib', 64, _MAX_MIB)

    def get_memory(key: str) -> int | None:
        return fields.integer(key, 0, memory) if fields.has(key) else None

    return HostProfile(
        name=name,
        sockets=sockets,
        cores_per_socket=cores,
        threads_per_core=threads,
        memory_mib=memory,
        cells=_parse_cells(fields, source, sockets, cores, threads, memory),
        disks=_parse_disks(fields, source),
        volumes=_parse_volumes(fields, source),
        root_gb=fields.integer('root_gb', 0, 1_000_000, 40),
        vm_memory_mib=get_memory('vm_memory_mib'),
        reserved_memory_mib=get_memory('reserved_memory_mib'),
        controllers_rule=fields.choice(
            'controllers', CONTROLLER_RULES, 'combined'
        ),
        traits=_parse_traits(fields, source),
        caps=HostCaps(
            fields.number('cpu_cap', 0.01, sockets * cores * threads)
            if fields.has('cpu_cap')
            else None,
            get_memory('memory_cap_mib'),
        ),
        large_pages=fields.flag('large_pages', True),
        policy=_parse_policy(fields, source),
    )


def _parse_disks(
    top: Fields, source: str | SourceLocation
) -> HostDisks | None:
    if not top.has('disks'):
        return None
    allowed_fields = ('count', 'size_gb', 'rotational', 'pci_alias')
    fields = Fields(top.raw('disks'), source, allowed_fields, 'disks')
    alias = fields.text('pci_alias') if fields.has('pci_alias') else None
    if alias is not None and not _ALIAS.fullmatch(alias):
        raise fields.error(
            'pci_alias', f'is {alias!r}. Use letters, digits, _ and -'
        )
    return HostDisks(
        fields.integer('count', 1, 1000),
        fields.integer('size_gb', 1, 1_000_000),
        fields.flag('rotational', True),
        alias,
    )


def _parse_volumes(
    top: Fields, source: str | SourceLocation
) -> WorkerVolumes | None:
    if not top.has('volumes'):
        return None
    fields = Fields(
        top.raw('volumes'), source, ('count', 'size_gb'), 'volumes'
    )
    return WorkerVolumes(
        fields.integer('count', 1, 100),
        fields.integer('size_gb', 1, 1_000_000),
    )


def _parse_policy(top: Fields, source: str | SourceLocation) -> HostPolicy:
    if not top.has('policy'):
        return HostPolicy()
    defaults = dataclasses.asdict(HostPolicy())
    fields = Fields(top.raw('policy'), source, tuple(defaults), 'policy')
    return HostPolicy(
        **{name: fields.flag(name, defaults[name]) for name in defaults}
    )


def _parse_traits(top: Fields, source: str | SourceLocation) -> dict[str, str]:
    if not top.has('traits'):
        return {}
    fields = Fields(top.raw('traits'), source, TRAIT_KEYS, 'traits')
    traits = {key: fields.text(key) for key in fields}
    for key, trait in traits.items():
        if not _TRAIT.fullmatch(trait):
            raise fields.error(
                key,
                f'is {trait!r}. Use CUSTOM_ and capital letters, digits and '
                '_, or a standard trait',
            )
    return traits


def _parse_cells(
    top: Fields,
    source: str | SourceLocation,
    sockets: int,
    cores: int,
    threads: int,
    memory: int,
) -> tuple[NumaCell, ...]:
    """Return the cells that are given, else one for each socket.

    A missing list is numbered as Linux does: the first threads of all
    cores, then the second ones.
    """
    total = sockets * cores * threads
    raw_cells = top.raw('cells')
    if raw_cells is None or isinstance(raw_cells, int):
        count = top.integer('cells', 1, total, sockets)
        if (sockets * cores) % count or memory % count:
            raise top.error(
                'cells',
                f'is {count}, which does not divide {sockets * cores} cores '
                f'and {memory} MiB. List the cells one by one',
            )
        each = sockets * cores // count
        return tuple(
            NumaCell(
                index,
                tuple(
                    thread * sockets * cores + index * each + core
                    for thread in range(threads)
                    for core in range(each)
                ),
                memory // count,
            )
            for index in range(count)
        )
    if not isinstance(raw_cells, list) or not raw_cells:
        raise top.error(
            'cells',
            'is not a list of cells. Use a list, or the number of cells',
        )
    cells = []
    for index, item in enumerate(raw_cells):
        prefix = f'cells.{index}'
        fields = Fields(item, source, ('cpus', 'memory_mib'), prefix)
        cpus = _parse_cpus(fields, total)
        size = fields.integer('memory_mib', 1, memory)
        cells.append(NumaCell(index, cpus, size))
    listed_cpus = sorted(cpu for cell in cells for cpu in cell.cpus)
    if listed_cpus != list(range(total)):
        raise top.error(
            'cells',
            f'lists {len(listed_cpus)} CPUs ({len(set(listed_cpus))} '
            f'different), but sockets x cores x threads is {total}. List each '
            f'of 0 to {total - 1} once',
        )
    added = sum(cell.memory_mib for cell in cells)
    if added != memory:
        raise top.error(
            'cells',
            f'adds up to {added} MiB, but memory_mib is {memory}. Correct one',
        )
    return tuple(cells)


def _parse_cpus(fields: Fields, total: int) -> tuple[int, ...]:
    """Return CPUs of a list as the kernel writes it, such as ``0-9,20-29``."""
    text = str(fields.raw('cpus'))

    def numbers() -> Iterator[int]:
        for part in text.split(','):
            match = re.fullmatch(
                r'([0-9]{1,5})(?:-([0-9]{1,5}))?', part.strip()
            )
            if not match:
                raise fields.error(
                    'cpus', f"is {text[:60]!r}. Write it as '0-9,20-29'"
                )
            first = int(match[1])
            last = int(match[2] or first)
            if not first <= last < total:
                raise fields.error(
                    'cpus',
                    f'has {part.strip()!r}. Use CPUs from 0 to {total - 1}',
                )
            yield from range(first, last + 1)

    return tuple(numbers())
