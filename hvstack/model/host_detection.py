# SPDX-License-Identifier: Apache-2.0
"""Host profiles from what a machine, or a cloud, says of its hardware.

hvstack asks the user for facts that neither reports, and never guesses.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hvstack import errors
from hvstack.model.host import from_mapping
from hvstack.model.host_share import compute_guest_memory_mib
from hvstack.model.plain_data import Json, JsonObject

#: Disks of a virtual machine, of which the kernel does not know whether
#: they spin, and names of what is no disk.
_VIRTUAL = re.compile('(vd|xvd)[a-z]+')
_NO_DISK = re.compile('(zram|ram|loop|nbd|rbd|sr|fd)[0-9]+')
_SIZES = re.compile('([0-9]{1,4})x([0-9]{1,7})')
#: What lsblk shows as the mount of a swap device.
_SYSTEM_MOUNTS = frozenset({'/', '/boot', '[SWAP]'})


@dataclass(frozen=True)
class _BlockDevice:
    """Disk of this machine.

    :param name: name of the device, such as ``sdb``.
    :param size_bytes: size in bytes.
    :param rotates: whether the kernel says that the disk rotates.
    :param is_removable: whether the medium is removable.
    :param mounts: mounts of the disk and of its partitions.
    :param has_content: whether it has a partition, a file system or a mount.
    """

    name: str
    size_bytes: int
    rotates: bool
    is_removable: bool
    mounts: frozenset[str]
    has_content: bool


def build_profile(
    name: str,
    fields: Mapping[str, Json],
    disks: Mapping[str, Json] | None,
    reserved_mib: int = 0,
) -> JsonObject:
    """Return a whole profile as plain data for a file.

    :param reserved_mib: what the host keeps for itself. It stands in the
        profile only where the memory rule would leave the host less.
    :raises hvstack.errors.InputError: it is no profile.
    """
    data: JsonObject = {'name': name, **fields}
    if disks:
        data['disks'] = dict(disks)
    host_profile = from_mapping(data, f"host '{name}'")
    if (
        host_profile.memory_mib - compute_guest_memory_mib(host_profile)
        < reserved_mib
    ):
        data['reserved_memory_mib'] = reserved_mib
    return data


def format_cpu_list(cpus: Sequence[int]) -> str:
    """Return CPUs as the kernel writes them, such as ``0-9,20-29``."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and cpu == parts[-1][-1] + 1:
            parts[-1][1:] = [cpu]
        else:
            parts.append([cpu])
    return ','.join('-'.join(map(str, part)) for part in parts)


def parse_lscpu(lscpu: Json, memory: Mapping[int, int]) -> JsonObject:
    """Return a profile's fields of CPUs, memory and cells.

    :param lscpu: what ``lscpu -J -e=CPU,NODE,SOCKET,CORE,ONLINE`` printed.
    :param memory: MiB by NUMA node.
    :raises hvstack.errors.InputError: a profile cannot describe them.
    """
    try:
        cpus = [
            {
                name: None if value in (None, '-') else value
                for name, value in item.items()
            }
            for item in _list_items(lscpu, 'cpus')
        ]
        off = [
            _to_integer(cpu['cpu'])
            for cpu in cpus
            if cpu['online'] in (False, 'no')
        ]
        if off:
            raise errors.InputError(
                f'Cannot detect the CPUs: CPUs {format_cpu_list(off)} are '
                "offline. Bring them online ('chcpu -e "
                f"{format_cpu_list(off)}'), or write the host profile by hand."
            )
        cpu_locations = [
            (
                _to_integer(cpu['cpu']),
                _to_integer(cpu['node'] or 0),
                _to_integer(cpu['socket'] or 0),
                _to_integer(cpu['core']),
            )
            for cpu in cpus
        ]
    except (KeyError, TypeError, ValueError) as exc:
        raise errors.InputError(
            'Cannot detect the CPUs: lscpu does not report the CPU, socket '
            f'and core ({exc!r}). Update util-linux, or write the host '
            'profile by hand.'
        ) from exc
    sockets = {socket for _, _, socket, _ in cpu_locations}
    cores = Counter((socket, core) for _, _, socket, core in cpu_locations)
    each = Counter(socket for socket, _ in cores)
    if len(set(cores.values())) != 1 or len(set(each.values())) != 1:
        raise errors.InputError(
            'Cannot detect the CPUs: the sockets differ in their cores, or '
            'the cores in their threads, which a host profile cannot '
            'describe. Enable all cores and threads in the firmware.'
        )
    cells = {
        node: [
            cpu for cpu, cpu_node, _, _ in cpu_locations if cpu_node == node
        ]
        for node in sorted(memory)
    }
    nodes_without_memory = {node for _, node, _, _ in cpu_locations} - set(
        cells
    )
    empty = [node for node, cell_cpus in cells.items() if not cell_cpus]
    if nodes_without_memory or empty:
        raise errors.InputError(
            'Cannot detect the NUMA nodes: NUMA node '
            f'{min([*nodes_without_memory, *empty])} has no memory or no '
            'CPUs. Write the host profile by hand.'
        )
    return {
        'sockets': len(sockets),
        'cores_per_socket': each[min(sockets)],
        'threads_per_core': next(iter(cores.values())),
        'memory_mib': sum(memory.values()),
        'cells': [
            {'cpus': format_cpu_list(cell_cpus), 'memory_mib': memory[node]}
            for node, cell_cpus in cells.items()
        ],
    }


def _list_items(document: Json, name: str) -> list[Mapping[str, Json]]:
    """Return the objects of a list, as ``lscpu`` and ``lsblk`` print it.

    :param document: output of the program.
    :param name: key of the list.
    :raises KeyError: the key does not exist.
    :raises TypeError: the output does not have this structure.
    """
    if not isinstance(document, Mapping):
        raise TypeError(f'{document!r:.60} is not an object')
    items = document[name]
    if not isinstance(items, list):
        raise TypeError(f'{items!r:.60} is not a list')
    objects = [item for item in items if isinstance(item, Mapping)]
    if len(objects) < len(items):
        raise TypeError(f"'{name}' has an item that is not an object")
    return objects


def _to_integer(value: Json) -> int:
    """Return a whole number, which older programs print as a text.

    :raises TypeError: it is neither a number nor a text.
    :raises ValueError: the text is not a number.
    """
    if isinstance(value, int | float | str):
        return int(value)
    raise TypeError(f'{value!r:.60} is not a number')


def _to_flag(value: Json) -> bool:
    """Return a flag, which util-linux before 2.33 prints as '0' or '1'."""
    return value == '1' if isinstance(value, str) else bool(value)


def parse_meminfo(meminfo: str) -> int:
    """Return the MiB of ``/proc/meminfo`` or of a node's ``meminfo``.

    :raises hvstack.errors.InputError: MemTotal is missing.
    """
    match = re.search(r'MemTotal:\s+(\d+) kB', meminfo)
    if not match:
        raise errors.InputError(
            'Cannot detect the memory: the kernel does not report MemTotal. '
            'Write the host profile by hand.'
        )
    return int(match[1]) // 1024


def parse_disks_option(
    text: str, rotational: bool | None
) -> JsonObject | None:
    """Return a profile's disks of an option such as ``20x600``, or none.

    :param text: count and GB of each, or ``none``.
    :param rotational: whether they spin.
    :raises hvstack.errors.InputError: not of this form, or unknown whether
        they spin.
    """
    if text == 'none':
        return None
    match = _SIZES.fullmatch(text)
    if not match:
        raise errors.InputError(
            f'Cannot read --disks {text[:60]!r}: it is not a number and a '
            'size of disks. Use a number and the GB of each disk, such as '
            "20x600, or 'none'."
        )
    return {
        'count': int(match[1]),
        'size_gb': int(match[2]),
        'rotational': _require_rotational(rotational),
    }


def select_data_disks(
    lsblk: Json, requested_disks: str | None, rotational: bool | None
) -> JsonObject | None:
    """Return a profile's disks; None if there are no data disks.

    Unless they are named, those with nothing on them: no partition, file
    system or mount. One that holds something else than the system may be
    either.

    :param lsblk: what ``lsblk -J -b -O`` printed.
    :param requested_disks: names of data disks, ``20x600``, or ``none``.
    :param rotational: whether they spin, instead of what the kernel says.
    :raises hvstack.errors.InputError: a disk may be either, is unknown, or
        they differ.
    """
    if requested_disks == 'none' or (
        requested_disks and _SIZES.fullmatch(requested_disks)
    ):
        return parse_disks_option(requested_disks, rotational)
    disks = {disk.name: disk for disk in _list_disks(lsblk)}
    if requested_disks:
        names = [
            name.removeprefix('/dev/') for name in requested_disks.split(',')
        ]
        for name in names:
            if name not in disks:
                raise errors.InputError(
                    f'Cannot use --disks {name[:60]!r}: the machine has no '
                    f'such disk. Use one of {", ".join(disks) or "none"}, a '
                    "number and a size such as '20x600', or 'none'."
                )
        chosen = [disks[name] for name in dict.fromkeys(names)]
    else:
        chosen = list(_list_unused_disks(disks.values()))
    if not chosen:
        return None
    sizes = sorted({disk.size_bytes // 10**9 for disk in chosen})
    kinds = {disk.rotates for disk in chosen}
    if len(sizes) > 1 or (len(kinds) > 1 and rotational is None):
        raise errors.InputError(
            'Cannot use data disks '
            f'{", ".join(disk.name for disk in chosen)}: their sizes '
            f'({", ".join(map(str, sizes))} GB) or their types differ. Name '
            'disks that are equal with --disks.'
        )
    if rotational is None and not any(
        _VIRTUAL.fullmatch(disk.name) for disk in chosen
    ):
        rotational = kinds.pop()
    return {
        'count': len(chosen),
        'size_gb': sizes[0],
        'rotational': _require_rotational(rotational),
    }


def _list_disks(lsblk: Json) -> Iterator[_BlockDevice]:
    """Yield the disks of this machine that a program can write to."""
    for item in _list_items(lsblk, 'blockdevices'):
        if item['type'] != 'disk':
            continue
        name, size_bytes = str(item['name']), _to_integer(item['size'])
        if not size_bytes or _to_flag(item['ro']) or _NO_DISK.fullmatch(name):
            continue
        mounts = frozenset(_list_mounts(item))
        yield _BlockDevice(
            name=name,
            size_bytes=size_bytes,
            rotates=_to_flag(item['rota']),
            is_removable=_to_flag(item['rm']),
            mounts=mounts,
            has_content=bool(
                mounts or item.get('children') or item.get('fstype')
            ),
        )


def _list_unused_disks(
    disks: Iterable[_BlockDevice],
) -> Iterator[_BlockDevice]:
    doubtful = []
    for disk in disks:
        if disk.mounts & _SYSTEM_MOUNTS or disk.is_removable:
            continue
        if disk.has_content:
            doubtful.append(disk.name)
        yield disk
    if doubtful:
        raise errors.InputError(
            f'Cannot choose the data disks: disks {", ".join(doubtful)} '
            'contain data. Name the data disks with --disks, separated by '
            'commas, or use --disks none.'
        )


def _list_mounts(device: Mapping[str, Json]) -> Iterator[str]:
    if 'mountpoints' in device:
        mounts = device['mountpoints']
        if not isinstance(mounts, list):
            raise TypeError(f'{mounts!r:.60} is not a list of mounts')
        yield from (str(mount) for mount in mounts if mount)
    elif device.get('mountpoint'):
        # util-linux before 2.37 prints one of the mounts.
        yield str(device['mountpoint'])
    if 'children' in device:
        for child in _list_items(device, 'children'):
            yield from _list_mounts(child)


def _require_rotational(rotational: bool | None) -> bool:
    if rotational is None:
        raise errors.InputError(
            'Cannot determine whether the data disks rotate: neither the '
            'machine nor the cloud reports it. Set --rotational to yes or no.'
        )
    return rotational


def parse_inventories(
    host: str,
    inventories: Mapping[str, Mapping[str, float]],
    traits: Sequence[str],
    cpu_info: Json,
    *,
    sockets: int | None = None,
    threads: int | None = None,
    cells: int | None = None,
) -> JsonObject:
    """Return a profile's fields of CPUs, memory and cells of a cloud's host.

    :param inventories: Placement's, by resource class.
    :param traits: Placement's.
    :param cpu_info: Nova's, empty from compute API 2.88 on.
    :param sockets: said by the user, as are the other two: libvirt counts
        the sockets of a cell, and no API reports how large cells are.
    :param cells: number of equal NUMA cells.
    :raises hvstack.errors.InputError: something is not told, or does not
        fit.
    """
    cpus = sum(
        int(inventories[resource_class]['total'])
        for resource_class in ('VCPU', 'PCPU')
        if resource_class in inventories
    )
    if not cpus or 'MEMORY_MB' not in inventories:
        raise errors.InputError(
            f'Cannot create a host profile ({host}): Placement has no VCPU, '
            'PCPU or MEMORY_MB inventory of the host. Use a compute host of '
            "'openstack hypervisor list'."
        )
    topology = _read_topology(cpu_info)
    cells = _count_cells(host, topology, cells)
    threads = threads or topology.get('threads')
    if sockets is None and cells == 1:
        sockets = topology.get('sockets')
    if not sockets or not threads:
        unknown = {
            '--sockets': '' if sockets else 'sockets',
            '--threads': '' if threads else 'threads per core',
        }
        raise errors.InputError(
            f'Cannot create a host profile ({host}): no API reports the '
            f'number of {" and of ".join(filter(None, unknown.values()))}. '
            f'Set {" and ".join(key for key in unknown if unknown[key])}.'
        )
    if (threads > 1) < ('HW_CPU_HYPERTHREADING' in traits):
        raise errors.InputError(
            f'Cannot create a host profile ({host}): the host has the trait '
            f'HW_CPU_HYPERTHREADING, but {threads} thread per core. Correct '
            '--threads.'
        )
    _check_cpu_count(host, topology, cpus, cells)
    memory_mib = int(inventories['MEMORY_MB']['total'])
    if cpus % (sockets * threads):
        raise errors.InputError(
            f'Cannot create a host profile ({host}): {cpus} CPUs are not a '
            f'multiple of {sockets} sockets with {threads} threads per core. '
            'Correct --sockets and --threads.'
        )
    return {
        'sockets': sockets,
        'cores_per_socket': cpus // sockets // threads,
        'threads_per_core': threads,
        # A cell has whole MiB. The kernel keeps some memory of each cell for
        # itself, so that totals are odd numbers.
        'memory_mib': memory_mib - memory_mib % cells,
        'cells': cells,
    }


def _read_topology(cpu_info: Json) -> dict[str, int]:
    """Return the numbers in Nova's CPU topology of a host.

    :param cpu_info: CPU facts of Nova; empty if Nova does not report them.
    """
    if not isinstance(cpu_info, Mapping):
        return {}
    topology = cpu_info.get('topology')
    if not isinstance(topology, Mapping):
        return {}
    return {
        name: value
        for name, value in topology.items()
        if isinstance(value, int)
    }


def _count_cells(
    host: str, topology: Mapping[str, int], cells: int | None
) -> int:
    """Return the number of NUMA cells.

    :param topology: Nova's CPU topology of the host, or empty.
    :param cells: number that the user gave; None without.
    :raises hvstack.errors.InputError: it is unknown or contradictory.
    """
    reported_cells = topology.get('cells')
    if cells is None and reported_cells != 1:
        raise errors.InputError(
            f'Cannot create a host profile ({host}): the host has '
            f'{reported_cells or "an unknown number of"} NUMA cells, and no '
            'API reports their sizes. Set --cells to the number of cells of '
            'equal size, or write the host profile by hand.'
        )
    cells = cells or 1
    if reported_cells not in (None, cells):
        raise errors.InputError(
            f'Cannot create a host profile ({host}): --cells is {cells}, but '
            f'Nova reports {reported_cells} NUMA cells. Correct --cells.'
        )
    return cells


def _check_cpu_count(
    host: str, topology: Mapping[str, int], cpus: int, cells: int
) -> None:
    """Refuse a host that keeps CPUs for itself, which no profile can say.

    :param topology: Nova's CPU topology of the host, or empty.
    :param cpus: number of CPUs in Placement.
    :raises hvstack.errors.InputError: Placement has fewer CPUs than the host.
    """
    each = 1
    for name in ('sockets', 'cores', 'threads'):
        # libvirt names them in a container's host, but not how many.
        each *= topology.get(name) or 0
    if each and cpus not in (each, each * cells):
        raise errors.InputError(
            f'Cannot create a host profile ({host}): Placement has {cpus} of '
            f'{each * cells} CPUs, and a host profile cannot describe CPUs '
            'that the host reserves. Write the host profile by hand.'
        )
