# SPDX-License-Identifier: Apache-2.0
"""Comparison of expected and observed values, with a function per check.

The functions have no side effects. Their arguments are plain data, as Nova,
Placement, libvirt and HDFS return it.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from hvstack.accept.libvirt_domain import Domain
from hvstack.cloud import catalogue_publisher
from hvstack.cloud.nova_flavors import PREFIX
from hvstack.hadoop import fsck
from hvstack.model.catalogue import Catalogue, CatalogueEntry
from hvstack.model.flavor import Flavor, compute_guest_memory_mib
from hvstack.model.host import HostProfile

_NONE = 'none'
_SIZES = ('vcpus', 'ram', 'disk')
#: Beginning of the names of QEMU's vCPU threads.
_VCPU = 'CPU '
#: Sizes of pages in KiB by their names in Nova ("Huge pages"); ``large`` means
#: any of them.
_PAGES = {'2MB': 2048, '2MiB': 2048, '1GB': 1048576, '1GiB': 1048576}


@dataclass(frozen=True)
class CheckResult:
    """The result of a check.

    :param subject: subject of the check.
    :param expected: expected value.
    :param observed: observed value.
    :param good: whether the check passed.
    :param evidence: longer excerpt of the observed data; may be empty.
    """

    subject: str
    expected: str
    observed: str
    good: bool
    evidence: str = ''

    def __str__(self) -> str:
        return (
            f'{self.subject}: expected {self.expected}, observed '
            f'{self.observed}'
        )


def dump_results(check_results: Iterable[CheckResult]) -> str:
    """Return the results as the text that a test attaches to its result."""
    return json.dumps([asdict(check) for check in check_results], indent=1)


def load_results(text: str) -> list[CheckResult]:
    """Parse the text of :func:`dump_results`."""
    return [CheckResult(**fields) for fields in json.loads(text)]


def check_equal(
    subject: str, expected: Any, observed: Any, evidence: str = ''
) -> CheckResult:
    """Check that the observed value equals the expected value."""
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
    """Check that Nova has the flavors of the catalogues.

    :param catalogues: published catalogues.
    :param nova_flavors: Nova's flavors by name, with their ``extra_specs``.
    :param candidates: whether flavors without approval are expected too.
    :param public: whether the flavors are expected to be public.
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
                'description': catalogue_publisher.described(entry),
                **flavor.extra_specs,
                **catalogue_publisher.labels(catalogue.host, entry),
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
    """Check that an approved flavor contains its evidence."""
    text = str(observed['description'])
    return CheckResult(
        f'{name}: evidence',
        'percent of bare metal in its description',
        text,
        'of bare metal' in text and catalogue_publisher.EVIDENCE in observed,
        str(observed.get(catalogue_publisher.EVIDENCE, '')),
    )


def check_unmanaged_flavors(
    catalogues: Sequence[Catalogue],
    nova_flavors: Mapping[str, Mapping[str, Any]],
) -> list[CheckResult]:
    """Check that no other flavor uses the name prefix of the catalogues.

    Retired flavors that no project can use are ignored.

    :param catalogues: published catalogues.
    :param nova_flavors: Nova's flavors by name, with their ``extra_specs``.
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
            if key.startswith(PREFIX)
        }
        retired = any(
            catalogue_publisher.RETIRED in str(value) for value in own.values()
        )
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
    """Check the inventories of a host in Placement.

    :param host: host name.
    :param inventories: inventories of the host by resource class.
    :param profile: host profile.
    """
    check_results = [
        check_equal(
            f'{host}: ratio of {resource_class}',
            1.0,
            float(inventories[resource_class]['allocation_ratio']),
            json.dumps(inventories[resource_class]),
        )
        for resource_class in ('VCPU', 'PCPU', 'MEMORY_MB')
        if resource_class in inventories
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
    """Return the resources of a guest by resource class."""
    dedicated = flavor.extra_specs.get('hw:cpu_policy') == 'dedicated'
    resource_class = 'PCPU' if dedicated else 'VCPU'
    return {resource_class: flavor.vcpus, 'MEMORY_MB': flavor.ram}


def can_hold(
    inventories: Mapping[str, Mapping[str, Any]], requested: Mapping[str, int]
) -> bool:
    """Return whether a host is large enough for a guest.

    Reserved resources are ignored.

    :param inventories: inventories of the host by resource class.
    :param requested: resources of the guest by resource class.
    """
    return all(
        resource_class in inventories
        and inventories[resource_class]['total'] >= count
        for resource_class, count in requested.items()
    )


def vcpus_above_half(total: int, cells: int) -> int:
    """Return the smallest number of vCPUs that fits a host only once.

    :param total: number of CPUs of the host.
    :param cells: number of NUMA cells over which the guest is spread evenly.
    """
    return (total // (2 * cells) + 1) * cells


def check_capacity(
    host: str,
    inventories: Mapping[str, Mapping[str, Any]],
    usages: Mapping[str, int],
) -> list[CheckResult]:
    """Check that the guests use at most the physical resources of a host.

    The limit is the total without the reserved part, whatever the allocation
    ratios are.

    :param host: host name.
    :param inventories: inventories of the host by resource class.
    :param usages: used resources of the host by resource class.
    """
    return [
        CheckResult(
            f'{host}: {resource_class} taken',
            f'at most {inventory["total"] - inventory["reserved"]}',
            str(usages.get(resource_class, 0)),
            usages.get(resource_class, 0)
            <= inventory['total'] - inventory['reserved'],
        )
        for resource_class in ('VCPU', 'PCPU', 'MEMORY_MB')
        if (inventory := inventories.get(resource_class)) is not None
    ]


def check_room(
    host: str,
    inventories: Mapping[str, Mapping[str, Any]],
    entry: CatalogueEntry,
) -> CheckResult:
    """Check that Placement allows at most I workers on a host.

    :param host: host name.
    :param inventories: inventories of the host by resource class.
    :param entry: catalogue entry of the workers' flavor.
    """
    count = entry.configuration.instances
    fit = min(
        int(
            (
                inventories[resource_class]['total']
                - inventories[resource_class]['reserved']
            )
            * inventories[resource_class]['allocation_ratio']
            // need
        )
        for resource_class, need in required_resources(entry.flavor).items()
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
    """Check that nova.conf does not set allocation ratios.

    :param host: host name.
    :param options: options that nova-compute reads, as ``section.name``.
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
        _check_subset(f'{name}: iothreadpin {iothread}', cpus, floating)
        for iothread, cpus in sorted(guest.iothreads.items())
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
    """Check that no two guests of a host share a dedicated CPU.

    :param host: host name.
    :param guests: guests that must have dedicated CPUs.
    :param others: all guests of the host, which are checked if they use
        dedicated CPUs.
    :param dedicated: ``cpu_dedicated_set`` of the host.
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


def check_placement(
    workers: Mapping[str, str],
    controllers: Mapping[str, str],
    *,
    per_host: int,
    shared: bool,
) -> list[CheckResult]:
    """Check the hosts of the nodes of a cluster.

    :param workers: Nova's ``hostId`` by worker.
    :param controllers: Nova's ``hostId`` by controller.
    :param per_host: maximum number of workers per host (I).
    :param shared: whether hosts of workers may also run controllers.
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
    """Check that nodes share a node group if they share a host in Nova.

    :param where: source of the groups, as human-readable text.
    :param groups_by_address: ``/rack/nodegroup`` by address.
    :param hosts: ``hostId`` by address, or by name.
    :param names: names of the nodes, as human-readable text.
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
    """Check that each block has all replicas, and on different hosts.

    :param files: files with their blocks.
    :param hosts: ``hostId`` by address of the DataNode.
    :param replication: expected number of replicas.
    :param count: number of files that were written.
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
    """Check that Nova rejected a server and that it has no allocations."""
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
    """Check that a full cluster cannot grow, and that its usage is the same.

    :param status: status of the stack after an update to an additional worker.
    :param reasons: why resources of the stack failed.
    :param before: used resources of each host before the update.
    :param after: used resources of each host after the update.
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


#: Properties that keep replicas on different hosts
#: (:mod:`hvstack.hadoop.site_files`).
_NODE_GROUPS = {
    'net.topology.impl': 'NetworkTopologyWithNodeGroup',
    'dfs.block.replicator.classname': 'BlockPlacementPolicyWithNodeGroup',
    'dfs.use.dfs.network.topology': 'false',
}


def check_hve_properties(properties: Mapping[str, str]) -> list[CheckResult]:
    """Check that the running NameNode uses node groups (HVE).

    :param properties: effective properties of the NameNode.
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
    """Check that all resources of a cluster were deleted.

    :param names_by_kind: names of the remaining resources, by kind.
    """
    return [
        check_equal(f'{resource_type} left', _NONE, ', '.join(names) or _NONE)
        for resource_type, names in names_by_kind.items()
    ]


def check_rebooted(before: str, after: str) -> CheckResult:
    """Check that a guest has rebooted.

    :param before: identification of the first boot; empty if the guest did
        not answer.
    :param after: identification of the second boot.
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


#: Network and cluster file systems. Those of FUSE have a prefix.
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
    """Check that the disks of a guest are on its host.

    :param guest: libvirt domain of the guest.
    :param kinds: type of the file system, or ``device``, by path.
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
    """Check the backend of a volume.

    :param volume_type: volume type.
    :param expected: expected ``volume_backend_name``.
    :param specs: extra specs of the volume type.
    :param host: host of the volume in Cinder: ``host@backend#pool``.
    :param pools: pools of Cinder with their capabilities.
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
    """Check that no two owners have volumes on the same disk.

    :param disk_owners: disk in Cinder and owner of each volume.
    :param owner_kind: description of the owners.
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
    """Check the types of the workers' volumes.

    :param expected: volume types of a worker for each slot of a host.
    :param types_by_worker: types of the volumes by worker.
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
    """Check that volumes are on the host of their server.

    Cinder's InstanceLocalityFilter compares these host names.

    :param name: name of the server, as human-readable text.
    :param server: host of the server in Nova.
    :param volumes: ``host@backend#pool`` by volume ID.
    """
    return [
        check_equal(
            f'{name}: host of volume {key}', server, host.partition('@')[0]
        )
        for key, host in sorted(volumes.items())
    ]
