# SPDX-License-Identifier: Apache-2.0
"""Hadoop network topology: physical host and rack of every node."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from hvstack import errors


@dataclass(frozen=True)
class NodeLocation:
    """Location of a node.

    :param node: host name of the node.
    :param address: IP address of the node.
    :param rack: rack without slash, such as ``rack1``.
    :param group: node group without slash, which is the same for all nodes on
        a physical host.
    """

    node: str
    address: str
    rack: str
    group: str

    @property
    def path(self) -> str:
        """Path ``/rack/nodegroup`` for HDFS and YARN."""
        return f'/{self.rack}/{self.group}'


@dataclass(frozen=True)
class Topology:
    """Paths ``/rack/nodegroup`` of all nodes."""

    locations: tuple[NodeLocation, ...]

    @property
    def groups(self) -> dict[str, list[str]]:
        """Names of the nodes by the path of their node group."""
        groups: dict[str, list[str]] = defaultdict(list)
        for location in self.locations:
            groups[location.path].append(location.node)
        return dict(groups)

    def map_paths(self, *, node_groups: bool = True) -> dict[str, str]:
        """Return the paths for Hadoop by IP address and host name.

        :param node_groups: whether Hadoop uses node groups; it refuses paths
            of another depth.
        """
        return {
            key: location.path if node_groups else f'/{location.rack}'
            for location in self.locations
            for key in (location.address, location.node)
        }

    def format_table(self, *, node_groups: bool = True) -> str:
        """Return the text of ``topology.table``.

        It contains a line for every IP address and every host name.
        """
        paths = self.map_paths(node_groups=node_groups)
        return ''.join(f'{key} {path}\n' for key, path in paths.items())


@dataclass(frozen=True)
class Mismatch:
    """Difference between the effective and the expected topology.

    :param source: ``table``, ``HDFS``, ``YARN`` or ``block``.
    :param where: node, or file and block.
    :param actual: effective path.
    :param expected: expected path.
    """

    source: str
    where: str
    actual: str
    expected: str


def parse_table(text: str) -> dict[str, str]:
    """Return the paths of a ``topology.table`` by address and host name."""
    rows = (line.split() for line in text.splitlines())
    return {pair[0]: pair[1] for pair in rows if len(pair) == 2}


def find_racks(
    table: Mapping[str, str], groups: Mapping[str, str]
) -> dict[str, str]:
    """Return the racks of the node groups in a ``topology.table``.

    A node group in several racks gets the rack of most of its lines.

    :param table: result of :func:`parse_table`.
    :param groups: node group by address and host name, for a table without
        node groups.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for key, path in table.items():
        rack, _, group = path.strip('/').partition('/')
        group = group or groups.get(key, '')
        # Hadoop's name for the rack of a node that has none.
        if group and rack != 'default-rack':
            counts[group][rack] += 1
    return {
        group: racks.most_common(1)[0][0] for group, racks in counts.items()
    }


def find_mismatches(
    source: str, actual_paths: Mapping[str, str], expected: Mapping[str, str]
) -> list[Mismatch]:
    """Return the mismatches between actual and expected paths.

    :param source: where ``actual_paths`` was read.
    :param actual_paths: paths in force; a key that is missing has none.
    :param expected: paths as they should be.
    """
    return [
        Mismatch(source, key, actual_paths.get(key, 'none'), path)
        for key, path in expected.items()
        if actual_paths.get(key) != path
    ]


def derive_node_groups(host_ids: Mapping[str, str]) -> dict[str, str]:
    """Return the node groups from the ``hostId`` of Nova.

    ``hostId`` is the same for all servers of a project on a host, and tenants
    can read it.

    :param host_ids: ``hostId`` by node.
    :raises hvstack.errors.InputError: a node has no ``hostId``, and therefore
        no host.
    """
    for node, host_id in host_ids.items():
        if not host_id:
            raise errors.InputError(
                f"Cannot place node '{node}' in the topology: its server has "
                'no hostId, and therefore no host. Check the fault of the '
                "server with 'openstack server show'."
            )
    return {node: f'ng-{host_id}' for node, host_id in host_ids.items()}


def assign_virtual_racks(
    workers: Mapping[str, int],
    controllers: Collection[str] = (),
    known_racks: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Assign node groups to virtual racks of two, as vsphere6.

    vsphere6, "Hadoop Virtualization Extensions": two groups with the same
    number of workers share a rack, and groups with controllers share racks.
    HDFS places the second and third replicas in the two groups of a rack, so
    this distributes replicas evenly. A remaining group extends a rack to
    three groups. With one worker per host, all groups share a rack.

    :param workers: number of workers of each group.
    :param controllers: groups with a controller. A group without workers
        stores no data and is in the first rack.
    :param known_racks: racks of groups that must stay, so that HDFS and YARN
        need not restart. Each other group joins the rack with the fewest
        groups. None assigns all groups again.
    """
    storing = sorted(group for group, count in workers.items() if count)
    empty = sorted(group for group, count in workers.items() if not count)
    if known_racks and known_racks.keys() & set(storing):
        return _extend_racks(storing, empty, known_racks)
    if all(workers[group] == 1 for group in storing):
        return dict.fromkeys((*storing, *empty), 'rack1')
    with_controllers = [g for g in storing if g in controllers]
    by_count: dict[int, list[str]] = defaultdict(list)
    for group in storing:
        if group not in controllers:
            by_count[workers[group]].append(group)
    racks: list[list[str]] = []
    odd: list[str] = []
    for groups in (
        with_controllers,
        *(by_count[count] for count in sorted(by_count, reverse=True)),
    ):
        pairs = [list(pair) for pair in _pair_groups(groups)]
        if len(groups) % 2:
            (pairs[-1] if pairs else odd).append(groups[-1])
        racks += pairs
    if odd and racks and len(odd) == 1:
        (min(racks, key=len)).append(odd[0])
    else:
        racks += [list(pair) for pair in _pair_groups(odd)] or [[]]
        if len(odd) % 2:
            racks[-1].append(odd[-1])
    names = {
        group: f'rack{index}'
        for index, rack in enumerate((r for r in racks if r), start=1)
        for group in rack
    }
    return names | dict.fromkeys(empty, 'rack1')


def _extend_racks(
    storing: Sequence[str],
    empty: Sequence[str],
    known_racks: Mapping[str, str],
) -> dict[str, str]:
    """Return known racks with additional groups.

    :param storing: groups with workers, of which racks are known.
    :param empty: groups without workers.
    """
    racks = {
        group: known_racks[group] for group in storing if group in known_racks
    }
    sizes = Counter(racks.values())
    for group in storing:
        if group not in racks:
            racks[group] = min(sizes, key=lambda rack: (sizes[rack], rack))
            sizes[racks[group]] += 1
    first_rack = min(sizes)
    return racks | {
        group: known_racks.get(group, first_rack) for group in empty
    }


def _pair_groups(groups: Sequence[str]) -> Iterable[tuple[str, str]]:
    return zip(groups[::2], groups[1::2], strict=False)


def assign_racks(
    groups: Mapping[str, str],
    workers: Collection[str],
    zones: Mapping[str, str] | None = None,
    racks_by_node: Mapping[str, str] | None = None,
    known_racks: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the rack of every node group.

    The racks are the given racks, or the availability zones if the workers
    are in several zones, or virtual racks.

    :param groups: node group by node.
    :param workers: nodes that store data.
    :param zones: availability zone by node; None for a single zone.
    :param racks_by_node: racks of all nodes; None assigns racks.
    :param known_racks: virtual racks of groups that must stay.
    :raises hvstack.errors.InputError: nodes of a group are in two racks, or
        nodes have no rack.
    """
    zones = zones or {}
    if racks_by_node:
        return _collect_racks(groups, racks_by_node)
    if len({zones.get(node) for node in workers}) > 1:
        return _collect_racks(groups, zones)
    counts = Counter(groups[node] for node in workers)
    return assign_virtual_racks(
        {group: counts[group] for group in groups.values()},
        {group for node, group in groups.items() if node not in workers},
        known_racks,
    )


def _collect_racks(
    groups: Mapping[str, str], names: Mapping[str, str]
) -> dict[str, str]:
    racks_by_group: dict[str, str] = {}
    for node, group in groups.items():
        # Hadoop's paths know neither blanks nor slashes in a name.
        rack = re.sub(r'[\s/]+', '-', names.get(node, ''))
        if not rack:
            raise errors.InputError(
                f"Cannot place node '{node}' in the topology: it has no rack. "
                'Name a rack for every node, or for none.'
            )
        if racks_by_group.setdefault(group, rack) != rack:
            raise errors.InputError(
                f"Cannot place node '{node}' in the topology: its rack is "
                f"'{rack}', but other nodes of its host are in rack "
                f"'{racks_by_group[group]}'. Use one rack per host."
            )
    return racks_by_group


def build_topology(
    addresses: Mapping[str, str],
    groups: Mapping[str, str],
    racks: Mapping[str, str],
) -> Topology:
    """Return the topology of nodes.

    :param addresses: IP address by node.
    :param groups: node group by node.
    :param racks: rack by node group.
    """
    return Topology(
        tuple(
            NodeLocation(node, address, racks[groups[node]], groups[node])
            for node, address in sorted(addresses.items())
        )
    )
