# SPDX-License-Identifier: Apache-2.0
"""What was promised against what was seen: pure, one function per promise.

Everything is plain data, as Nova, Placement, libvirt and HDFS give it.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from hvstack.accept.domain import Domain
from hvstack.cloud import publish
from hvstack.hadoop import fsck
from hvstack.model.catalogue import Catalogue, Entry
from hvstack.model.flavor import Flavor, compute_guest_memory_mib
from hvstack.model.host import HostProfile

_NONE = 'none'
_SIZES = ('vcpus', 'ram', 'disk')
#: QEMU's threads that carry no vCPU begin otherwise.
_VCPU = 'CPU '
#: Sizes of pages in KiB by Nova's words (its "Huge pages"); ``large`` is any
#: of them.
_PAGES = {'2MB': 2048, '2MiB': 2048, '1GB': 1048576, '1GiB': 1048576}


@dataclass(frozen=True)
class CheckResult:
    """One promise, and what became of it.

    :param what: what was looked at.
    :param evidence: excerpt of what was seen, where it is longer.
    """

    what: str
    promised: str
    seen: str
    good: bool
    evidence: str = ''


def dump_results(check_results: Iterable[CheckResult]) -> str:
    """Return judgements as the text that a test attaches to its result."""
    return json.dumps([asdict(check) for check in check_results], indent=1)


def load_results(text: str) -> list[CheckResult]:
    """Read what :func:`dumps` wrote."""
    return [CheckResult(**fields) for fields in json.loads(text)]


def check_equal(
    subject: str, expected: Any, observed: Any, evidence: str = ''
) -> CheckResult:
    """Judge by equality."""
    return CheckResult(
        subject, str(expected), str(observed), expected == observed, evidence
    )


def check_flavors(
    catalogues: Sequence[Catalogue],
    nova_flavors: Mapping[str, Mapping[str, Any]],
    *,
    candidates: bool,
    public: bool,
) -> list[CheckResult]:
    """Judge Nova's flavors by catalogues.

    :param nova_flavors: Nova's flavors by name, ``extra_specs`` among them.
    :param candidates: those without approval are promised too.
    :param public: access that was promised: for everybody, or for some.
    """
    check_results = []
    for catalogue in catalogues:
        for entry in catalogue.entries:
            flavor = entry.flavor
            if entry.status != 'approved' and not candidates:
                continue
            nova_flavor = nova_flavors.get(flavor.name)
            if nova_flavor is None:
                check_results.append(
                    check_equal(flavor.name, 'published', 'missing')
                )
                continue
            observed = {name: nova_flavor[name] for name in _SIZES} | {
                'ephemeral': nova_flavor.get('OS-FLV-EXT-DATA:ephemeral', 0),
                # Nova writes no swap as nothing, or as 0.
                'swap': nova_flavor.get('swap') or 0,
                'disabled': nova_flavor.get('OS-FLV-DISABLED:disabled', False),
                'public': nova_flavor['os-flavor-access:is_public'],
                'description': nova_flavor.get('description') or '',
                **nova_flavor['extra_specs'],
            }
            expected = {name: getattr(flavor, name) for name in _SIZES} | {
                'ephemeral': flavor.ephemeral,
                'swap': 0,
                'disabled': False,
                'public': public,
                'description': publish.described(entry),
                **flavor.extra_specs,
                **publish.labels(catalogue.host, entry),
            }
            check_results += [
                check_equal(
                    f'{flavor.name}: {name}',
                    expected.get(name, 'nothing'),
                    observed.get(name, 'nothing'),
                )
                for name in sorted({*expected, *observed})
            ]
            if entry.status == 'approved':
                check_results.append(_check_evidence(flavor.name, observed))
    return check_results


def _check_evidence(name: str, observed: Mapping[str, Any]) -> CheckResult:
    """Judge that an approved flavor shows what it has earned."""
    text = str(observed['description'])
    return CheckResult(
        f'{name}: evidence',
        'percent of bare metal in its description',
        text,
        'of bare metal' in text and publish.EVIDENCE in observed,
        str(observed.get(publish.EVIDENCE, '')),
    )


def check_unmanaged_flavors(
    catalogues: Sequence[Catalogue],
    nova_flavors: Mapping[str, Mapping[str, Any]],
) -> list[CheckResult]:
    """Judge that nothing else claims the name space of the catalogues.

    A retired flavor that nobody may use any more claims nothing.

    :param nova_flavors: Nova's flavors by name, ``extra_specs`` among them.
    """
    prefixes = tuple(f'hv-{catalogue.host}-' for catalogue in catalogues)
    names = {
        entry.flavor.name
        for catalogue in catalogues
        for entry in catalogue.entries
    }
    check_results = []
    for name, nova_flavor in sorted(nova_flavors.items()):
        own = {
            key: value
            for key, value in nova_flavor['extra_specs'].items()
            if key.startswith(publish.PREFIX)
        }
        retired = any(publish.RETIRED in str(value) for value in own.values())
        hidden = retired and not nova_flavor['os-flavor-access:is_public']
        if name in names or hidden:
            continue
        if own or name.startswith(prefixes):
            check_results.append(
                check_equal(name, 'in no catalogue, so not there', 'published')
            )
    return check_results or [
        check_equal('flavors of no catalogue', _NONE, _NONE)
    ]


def check_inventory(
    host: str,
    inventories: Mapping[str, Mapping[str, Any]],
    profile: HostProfile,
) -> list[CheckResult]:
    """Judge what a host promises in Placement.

    :param inventories: its inventories by resource class.
    """
    check_results = [
        check_equal(
            f'{host}: ratio of {kind}',
            1.0,
            float(inventories[kind]['allocation_ratio']),
            json.dumps(inventories[kind]),
        )
        for kind in ('VCPU', 'PCPU', 'MEMORY_MB')
        if kind in inventories
    ]
    memory = inventories.get('MEMORY_MB', {'total': 0, 'reserved': 0})
    room = memory['total'] - memory['reserved']
    expected_mib = compute_guest_memory_mib(profile)
    check_results.append(
        CheckResult(
            f'{host}: memory for guests',
            f'{expected_mib} MiB or more',
            f'{room} MiB, {memory["reserved"]} reserved',
            room >= expected_mib,
        )
    )
    if profile.reserved_memory_mib is not None:
        check_results.append(
            CheckResult(
                f'{host}: memory reserved',
                f'{profile.reserved_memory_mib} MiB or more',
                f'{memory["reserved"]} MiB',
                memory['reserved'] >= profile.reserved_memory_mib,
            )
        )
    return check_results


def required_resources(flavor: Flavor) -> dict[str, int]:
    """Return what a guest takes of its host, by resource class."""
    dedicated = flavor.extra_specs.get('hw:cpu_policy') == 'dedicated'
    kind = 'PCPU' if dedicated else 'VCPU'
    return {kind: flavor.vcpus, 'MEMORY_MB': flavor.ram}


def can_hold(
    inventories: Mapping[str, Mapping[str, Any]], requested: Mapping[str, int]
) -> bool:
    """Tell whether a host is large enough, whatever it reserves.

    :param inventories: its inventories by resource class.
    :param requested: of one guest, by resource class.
    """
    return all(
        kind in inventories and inventories[kind]['total'] >= count
        for kind, count in requested.items()
    )


def vcpus_above_half(total: int, cells: int) -> int:
    """Return the fewest vCPUs that fit a host once, but not twice.

    :param total: CPUs of the host.
    :param cells: NUMA cells that the guest is spread over evenly.
    """
    return (total // (2 * cells) + 1) * cells


def check_capacity(
    host: str,
    inventories: Mapping[str, Mapping[str, Any]],
    usages: Mapping[str, int],
) -> list[CheckResult]:
    """Judge that a host's guests take no more than it physically has.

    Whatever its ratios are: total less reserved.
    """
    return [
        CheckResult(
            f'{host}: {kind} taken',
            f'at most {inventory["total"] - inventory["reserved"]}',
            str(usages.get(kind, 0)),
            usages.get(kind, 0) <= inventory['total'] - inventory['reserved'],
        )
        for kind in ('VCPU', 'PCPU', 'MEMORY_MB')
        if (inventory := inventories.get(kind)) is not None
    ]


def check_room(
    host: str, inventories: Mapping[str, Mapping[str, Any]], entry: Entry
) -> CheckResult:
    """Judge that Placement has room for I workers on a host, and no more.

    :param inventories: its inventories by resource class.
    """
    count = entry.configuration.instances
    fit = min(
        int(
            (inventories[kind]['total'] - inventories[kind]['reserved'])
            * inventories[kind]['allocation_ratio']
            // need
        )
        for kind, need in required_resources(entry.flavor).items()
    )
    return CheckResult(
        f'{entry.flavor.name}: workers that {host} has room for',
        f'at most {count}',
        str(fit),
        fit <= count,
        json.dumps(dict(inventories)),
    )


def check_nova_conf_ratios(
    host: str, options: Mapping[str, str]
) -> list[CheckResult]:
    """Judge that nova.conf leaves the ratios to Placement.

    :param options: what the compute service reads, as ``section.name``.
    """
    return [
        check_equal(
            f'{host}: {name}', 'unset', options.get(f'DEFAULT.{name}', 'unset')
        )
        for name in ('cpu_allocation_ratio', 'ram_allocation_ratio')
    ]


def check_pins(
    guest: Domain,
    specs: Mapping[str, str],
    nodes: Sequence[Mapping[str, Any]],
    *,
    dedicated: Collection[int],
    shared: Collection[int] = (),
    cells: Mapping[int, Collection[int]] | None = None,
    threads: Mapping[str, Collection[int]] | None = None,
) -> list[CheckResult]:
    """Judge one guest's pins.

    :param specs: its flavor's extra specs.
    :param nodes: of Nova's ``/servers/{id}/topology``.
    :param dedicated: the host's ``cpu_dedicated_set``.
    :param shared: its ``cpu_shared_set``, where emulator threads may float.
    :param cells: CPUs of the host's NUMA cells, as libvirt has them.
    :param threads: CPUs that each of the guest's threads may run on, by
        name, from /proc.
    """
    name, evidence = guest.name, guest.excerpt
    expected = {
        int(cpu): {int(pcpu)}
        for node in nodes
        for cpu, pcpu in (node.get('cpu_pinning') or {}).items()
    }
    floating = set(shared).union(*expected.values())
    check_results = [
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
    ]
    check_results += [
        _check_subset(f'{name}: iothreadpin {number}', cpus, floating)
        for number, cpus in sorted(guest.iothreads.items())
    ]
    count = int(specs.get('hw:numa_nodes', '1'))
    check_results.append(check_equal(f'{name}: NUMA cells', count, len(nodes)))
    check_results.append(
        check_equal(
            f'{name}: memnode',
            sorted(
                (cell, 'strict', {node['host_node']})
                for cell, node in enumerate(nodes)
            ),
            sorted(guest.memory),
            evidence,
        )
    )
    if cells is not None:
        for node in nodes:
            used = {int(cpu) for cpu in node['cpu_pinning'].values()}
            check_results.append(
                _check_subset(
                    f'{name}: CPUs of cell {node["host_node"]}',
                    used,
                    cells.get(node['host_node'], ()),
                )
            )
    size = specs.get('hw:mem_page_size', 'any')
    if size not in ('any', 'small'):
        exact = _PAGES.get(size) or (int(size) if size.isdigit() else None)
        check_results.append(
            CheckResult(
                f'{name}: large pages',
                size,
                f'{guest.page_kib} KiB' if guest.page_kib else _NONE,
                guest.page_kib == exact
                if exact
                else bool(guest.page_kib and guest.page_kib >= 2048),
                evidence,
            )
        )
    if threads is not None:
        check_results += [
            check_equal(
                f'{name}: thread of vCPU {cpu} in /proc',
                sorted(pinned),
                sorted(
                    next(
                        (
                            set(allowed)
                            for title, allowed in threads.items()
                            if title.startswith(f'{_VCPU}{cpu}/')
                        ),
                        set(),
                    )
                ),
            )
            for cpu, pinned in sorted(expected.items())
        ]
        check_results += [
            _check_subset(
                f"{name}: thread '{title}' in /proc", allowed, floating
            )
            for title, allowed in sorted(threads.items())
            if not title.startswith(_VCPU)
        ]
    return check_results


def _format_pins(pinned: Mapping[int, Collection[int]]) -> str:
    return (
        ', '.join(
            f'{cpu} on {" ".join(map(str, sorted(pinned[cpu])))}'
            for cpu in sorted(pinned)
        )
        or _NONE
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
        str(sorted(observed)) if observed else _NONE,
        bool(observed) and set(observed) <= set(allowed),
        evidence,
    )


def check_disjoint_cpus(
    host: str,
    guests: Sequence[Domain],
    others: Sequence[Domain],
    dedicated: Collection[int],
) -> list[CheckResult]:
    """Judge that no two guests of a host share a dedicated CPU.

    :param guests: those that were promised CPUs of their own.
    :param others: all of the host; those among them that have dedicated
        CPUs, too, count.
    :param dedicated: its ``cpu_dedicated_set``.
    """
    owned = set(dedicated).union(*(guest.cpus for guest in guests))
    named = {guest.name: guest for guest in (*others, *guests)}
    users = [guest for _, guest in sorted(named.items()) if guest.cpus & owned]
    return [
        CheckResult(
            f'{host}: guests with dedicated CPUs',
            'each with its own',
            str(len(users))
            if len(users) > 1
            else f'{len(users)}: there is no other to compare it with',
            True,
        ),
        *(
            check_equal(
                f'{guest.name} and {other.name}: CPUs of both',
                [],
                sorted(guest.cpus & other.cpus & owned),
            )
            for guest, other in combinations(users, 2)
        ),
    ]


def check_numa_topology(
    guest: str,
    specs: Mapping[str, str],
    vcpus: int,
    nodes: Sequence[Mapping[str, Any]],
) -> list[CheckResult]:
    """Judge what Nova says of a dedicated guest, without its host."""
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


def check_placement(
    workers: Mapping[str, str],
    controllers: Mapping[str, str],
    *,
    per_host: int,
    shared: bool,
) -> list[CheckResult]:
    """Judge where a cluster's nodes are.

    :param workers: Nova's ``hostId`` by worker.
    :param controllers: likewise.
    :param per_host: I, the workers on a host.
    :param shared: controllers may stand beside workers.
    """
    counts = Counter(workers.values())
    check_results = [
        CheckResult(
            f'workers on host {host[:12] or "(none)"}',
            f'1 to {per_host}',
            str(count),
            bool(host) and count <= per_host,
        )
        for host, count in sorted(counts.items())
    ]
    needed = -(-len(workers) // per_host)
    if not shared:
        check_results.append(
            check_equal('hosts with workers', needed, len(counts))
        )
        colocated = sorted(
            name for name, host in controllers.items() if host in counts
        )
        check_results.append(
            check_equal(
                'controllers beside workers',
                _NONE,
                ', '.join(colocated) or _NONE,
            )
        )
    check_results.append(
        check_equal(
            'hosts of controllers',
            len(controllers),
            len(set(controllers.values())),
        )
    )
    return check_results


def parse_print_topology(text: str) -> dict[str, str]:
    """Return node groups by address from ``hdfs dfsadmin -printTopology``."""
    groups_by_address: dict[str, str] = {}
    group = ''
    for line in text.splitlines():
        if line.startswith('Rack:'):
            group = line.partition(':')[2].strip()
        elif address := line.strip().partition(':')[0]:
            groups_by_address[address] = group
    return groups_by_address


def parse_topology_table(text: str) -> dict[str, str]:
    """Return node groups by address or name from TableMapping's file."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def check_node_groups(
    where: str,
    groups_by_address: Mapping[str, str],
    hosts: Mapping[str, str],
    names: Mapping[str, str],
) -> list[CheckResult]:
    """Judge node groups by Nova's hosts: the same ones share a group.

    :param where: what knows the groups, for a person.
    :param groups_by_address: ``/rack/nodegroup`` by address.
    :param hosts: ``hostId`` by address, or by name.
    :param names: what each is called, for a person.
    """
    check_results = [
        check_equal(
            f'{where}: {names[address]}',
            'known',
            'known' if address in groups_by_address else 'missing',
        )
        for address in sorted(hosts)
    ]
    for node, other in combinations(
        sorted(set(hosts) & set(groups_by_address)), 2
    ):
        same = hosts[node] == hosts[other]
        if same != (groups_by_address[node] == groups_by_address[other]):
            check_results.append(
                CheckResult(
                    f'{where}: {names[node]} and {names[other]}',
                    f'node group {"shared" if same else "of its own"}, as '
                    "Nova's hosts",
                    f'{groups_by_address[node]} and '
                    f'{groups_by_address[other]}',
                    False,
                )
            )
    return check_results


def check_replicas(
    files: Sequence[fsck.HDFSFile],
    hosts: Mapping[str, str],
    replication: int,
    count: int,
) -> list[CheckResult]:
    """Judge that each block has its replicas, on as many hosts.

    :param hosts: ``hostId`` by DataNode's address.
    :param count: of the files that were written.
    """
    blocks = [block for file in files for block in file.blocks]
    low = sum(block.live < replication for block in blocks)
    shared = fsck.find_shared_blocks(files, hosts)
    return [
        check_equal(
            'files with blocks', count, sum(bool(f.blocks) for f in files)
        ),
        check_equal(f'blocks with less than {replication} replicas', 0, low),
        check_equal('blocks with two replicas on one host', 0, len(shared)),
    ]


def check_refused(
    subject: str, status: str, fault: str, allocations: Mapping[str, Any]
) -> list[CheckResult]:
    """Judge that Nova found no place for a server, and kept nothing for it."""
    return [
        CheckResult(
            subject,
            'ERROR, no valid host',
            f'{status}: {fault[:120] or "no fault"}',
            status == 'ERROR' and 'no valid host' in fault.lower(),
        ),
        check_equal(f'{subject}: allocations left', {}, dict(allocations)),
    ]


def check_full_cluster(
    status: str,
    reasons: str,
    before: Mapping[str, Mapping[str, int]],
    after: Mapping[str, Mapping[str, int]],
) -> list[CheckResult]:
    """Judge that a full cluster cannot grow, and that nothing is kept for it.

    :param status: of the stack after an update to one worker more.
    :param reasons: why resources of it failed.
    :param before: what is taken of each host, by resource class.
    :param after: likewise.
    """
    return [
        CheckResult(
            'stack of one worker more',
            'UPDATE_FAILED, no valid host',
            f'{status}: {reasons or "no reason"}'[:300],
            status == 'UPDATE_FAILED' and 'no valid host' in reasons.lower(),
        ),
        *(
            check_equal(
                f'{host}: taken', dict(usages), dict(after.get(host, {}))
            )
            for host, usages in sorted(before.items())
        ),
    ]


#: What HDFS keeps replicas on different hosts by (hvstack.hadoop.sites).
_NODE_GROUPS = {
    'net.topology.impl': 'NetworkTopologyWithNodeGroup',
    'dfs.block.replicator.classname': 'BlockPlacementPolicyWithNodeGroup',
    'dfs.use.dfs.network.topology': 'false',
}


def check_hve_properties(properties: Mapping[str, str]) -> list[CheckResult]:
    """Judge that the running NameNode knows hosts (HVE).

    :param properties: its properties in force.
    """
    return [
        check_equal(
            f'NameNode: {name}',
            expected,
            properties.get(name, _NONE).rpartition('.')[2],
        )
        for name, expected in _NODE_GROUPS.items()
    ]


def check_deleted(
    names_by_kind: Mapping[str, Sequence[str]],
) -> list[CheckResult]:
    """Judge that nothing is left of what was deleted.

    :param names_by_kind: names of what is there, by kind.
    """
    return [
        check_equal(f'{kind} left', _NONE, ', '.join(names) or _NONE)
        for kind, names in names_by_kind.items()
    ]


def check_rebooted(before: str, after: str) -> CheckResult:
    """Judge that a guest has booted again.

    :param before: what tells its boots apart; nothing if it did not answer.
    """
    first_boot, second_boot = (
        ' '.join(text.split()) for text in (before, after)
    )
    return CheckResult(
        'boot after the power cycle',
        f'another than {first_boot or "one that answers"}',
        second_boot or 'no answer',
        bool(first_boot and second_boot) and first_boot != second_boot,
    )


#: File systems whose bytes are not, or not only, on the host itself. Those
#: of FUSE have a prefix.
_REMOTE_FILE_SYSTEMS = (
    'afs',
    'beegfs',
    'ceph',
    'ceph-fuse',
    'cifs',
    'gfs',
    'gfs2',
    'glusterfs',
    'gpfs',
    'juicefs',
    'lustre',
    'mfs',
    'nfs',
    'nfs4',
    'ocfs2',
    'quobyte',
    'rclone',
    's3fs',
    'smb',
    'smb2',
    'smb3',
    'smbfs',
    'sshfs',
)


def check_local_disks(
    guest: Domain, kinds: Mapping[str, str]
) -> list[CheckResult]:
    """Judge that a guest's disks are on its own host.

    :param kinds: file system, or ``device``, of those that are paths.
    """
    return [
        CheckResult(
            f'{guest.name}: disks',
            'paths on file systems or devices of its host',
            ', '.join(
                f'{disk} ({kinds.get(disk, "not there")})'
                for disk in guest.disks
            )
            or _NONE,
            bool(guest.disks)
            and all(
                disk in kinds
                and kinds[disk].removeprefix('fuse.')
                not in _REMOTE_FILE_SYSTEMS
                for disk in guest.disks
            ),
        )
    ]


def check_volume_backend(
    volume_type: str,
    expected: str,
    specs: Mapping[str, str],
    host: str,
    pools: Iterable[Mapping[str, Any]],
) -> list[CheckResult]:
    """Judge on which backend a volume of a type is.

    :param expected: the backend's ``volume_backend_name``.
    :param specs: the type's extra specs.
    :param host: where Cinder put the volume: ``host@backend#pool``.
    :param pools: Cinder's, with their capabilities.
    """
    backend_names = [
        str(pool['capabilities'].get('volume_backend_name'))
        for pool in pools
        if pool['name'] == host
    ]
    return [
        check_equal(
            f'{volume_type}: its backend',
            expected,
            specs.get('volume_backend_name', _NONE),
        ),
        check_equal(
            f'{volume_type}: backend of a volume',
            expected,
            ', '.join(backend_names) or _NONE,
            host,
        ),
    ]


def check_own_disks(
    disk_owners: Iterable[tuple[str, str]], owner_kind: str = 'servers'
) -> list[CheckResult]:
    """Judge that no two of something have volumes on one disk.

    :param disk_owners: disk, as Cinder names it, and whose it is, of each
        volume.
    :param owner_kind: who must not share one.
    """
    owners_by_disk: dict[str, set[str]] = {}
    for disk, owner in disk_owners:
        owners_by_disk.setdefault(disk, set()).add(owner)
    return [
        CheckResult(
            f'{owner_kind} on {disk or "no known disk"}',
            '1' if disk else '0',
            ', '.join(sorted(ids)),
            bool(disk) and len(ids) == 1,
        )
        for disk, ids in sorted(owners_by_disk.items())
    ]


def check_volume_types(
    expected: Sequence[Sequence[str]],
    types_by_worker: Mapping[str, Sequence[str]],
) -> list[CheckResult]:
    """Judge which volumes workers have, or that they have none.

    :param expected: types of one worker's volumes, for each slot of a host.
    :param types_by_worker: types of a worker's volumes, by its name.
    """
    allowed = sorted({_join_names(types) for types in expected})
    return [
        CheckResult(
            f'{name}: types of its volumes',
            ' or '.join(allowed),
            _join_names(types),
            _join_names(types) in allowed,
        )
        for name, types in sorted(types_by_worker.items())
    ]


def _join_names(names: Iterable[str]) -> str:
    return ', '.join(sorted(names)) or _NONE


def check_volume_locality(
    name: str, server: str, volumes: Mapping[str, str]
) -> list[CheckResult]:
    """Judge that volumes are on the host of their server.

    Cinder's InstanceLocalityFilter goes by these names.

    :param name: of the server, for a person.
    :param server: its host, as Nova names it.
    :param volumes: ``host@backend#pool`` by id.
    """
    return [
        check_equal(
            f'{name}: host of volume {key}', server, host.partition('@')[0]
        )
        for key, host in sorted(volumes.items())
    ]
