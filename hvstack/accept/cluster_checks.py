# SPDX-License-Identifier: Apache-2.0
"""Checks of Hadoop clusters: hosts, node groups, replicas, deletion.

The functions have no side effects. Their arguments are plain data, as Nova,
Placement, Heat and HDFS return it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations

from hvstack.accept.check_result import NONE, CheckResult, check_equal
from hvstack.hadoop import fsck
from hvstack.model.plain_data import Json


def check_placement(
    workers: Mapping[str, str],
    controllers: Mapping[str, str],
    *,
    per_host: int,
    shared: bool,
    full: bool = True,
) -> list[CheckResult]:
    """Check the hosts of the nodes of a cluster.

    :param workers: Nova's ``hostId`` by worker.
    :param controllers: Nova's ``hostId`` by controller.
    :param per_host: maximum number of workers per host (I).
    :param shared: whether hosts of workers may also run controllers.
    :param full: whether the workers use every slot of their hosts, unless
        these are shared. Nova spreads workers that do not.
    """
    check_results = check_workers_per_host(workers, per_host)
    hosts = set(workers.values())
    if full and not shared:
        needed = -(-len(workers) // per_host)
        check_results.append(
            check_equal('hosts with workers', needed, len(hosts))
        )
    if not shared:
        colocated = sorted(
            name for name, host in controllers.items() if host in hosts
        )
        check_results.append(
            check_equal(
                'controllers beside workers',
                NONE,
                ', '.join(colocated) or NONE,
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


def check_workers_per_host(
    workers: Mapping[str, str], per_host: int, role: str = 'workers'
) -> list[CheckResult]:
    """Check the number of workers on each host.

    :param workers: Nova's ``hostId`` by worker.
    :param per_host: maximum number of these workers per host.
    :param role: description of the workers.
    """
    return [
        CheckResult(
            f'{role} on host {host[:12] or "(none)"}',
            f'1 to {per_host}',
            str(count),
            bool(host) and count <= per_host,
        )
        for host, count in sorted(Counter(workers.values()).items())
    ]


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
    subject: str, status: str, fault: str, allocations: Mapping[str, Json]
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
            properties.get(name, NONE).rpartition('.')[2],
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
        check_equal(f'{resource_type} left', NONE, ', '.join(names) or NONE)
        for resource_type, names in names_by_kind.items()
    ]
