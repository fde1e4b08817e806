# SPDX-License-Identifier: Apache-2.0
"""Pools of Ceph in the lab, each with a backend of Cinder.

The pools of the layouts are for studies of vsan, whose clusters of
hosts with disks the lab does not have: its OSDs are files of one machine.
OSD 0 represents a disk of hv-host1, OSD 1 a disk of hv-host2, and so on.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hvstack.cloud.volumes import COPIES, HOST_AFFINITY, OSD_GROUPS
from hvstack.lab import settings
from hvstack.lab.settings import LabSettings

#: Volume types that name disk slots; pools and Cinder's backends have the
#: same names.
SLOTS = tuple(f'disk-slot-{n}' for n in (1, 2, 3))
#: Volume type, pool and backend over all disks.
SHARED_POOL = 'ceph'
#: Ceph's rule over all disks, created with the cluster.
_ANY_DISK = 'replicated_rule'
#: Numbers of copies in section 3.3 of vsan, and of groups in its Table 7.
_COPIES = (1, 2, 3)
_GROUPS = (2, 3, 4)
#: IDs of the rules below, in front of which Ceph numbers its own from 0.
_FIRST_RULE = 100


@dataclass(frozen=True)
class Pool:
    """A pool of Ceph, and a backend of Cinder with the same name.

    :param name: name of both.
    :param volume_type: volume type, which can have several pools.
    :param rule: CRUSH rule of the pool.
    :param copies: of each object.
    :param text: description of the volume type.
    :param host: host that the backend belongs to; empty for the control
        plane.
    :param properties: of the volume type, in addition to the copies.
    """

    name: str
    volume_type: str
    rule: str
    copies: int
    text: str
    host: str = ''
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def extra_specs(self) -> dict[str, str]:
        """Everything that the volume type says of its pools."""
        return {COPIES: str(self.copies), **self.properties}


def list_pools(lab_settings: LabSettings) -> list[Pool]:
    """Return the pools of a lab with Ceph."""
    copies = lab_settings.ceph_copies
    pools = [
        Pool(
            *(SHARED_POOL, SHARED_POOL, _ANY_DISK, copies),
            f'Ceph over all disks, {_say_copies(copies)}',
        ),
        *(
            Pool(slot, slot, slot, 1, f'Ceph on osd.{index} only, one copy')
            for index, slot in enumerate(SLOTS)
        ),
    ]
    layouts: dict[str, Callable[[], Iterator[Pool]]] = {
        'copies': _list_copies,
        'groups': _list_groups,
        'affinity': lambda: _list_affinity(lab_settings.hosts),
    }
    for name in settings.CEPH_LAYOUTS:
        if name in lab_settings.ceph_layouts:
            pools += layouts[name]()
    return pools


def _say_copies(copies: int) -> str:
    return 'one copy, for benchmarks' if copies == 1 else f'{copies} copies'


def _list_copies() -> Iterator[Pool]:
    for copies in _COPIES:
        name = f'ceph-copies-{copies}'
        text = f'Ceph over all disks, {_say_copies(copies)}'
        yield Pool(name, name, _ANY_DISK, copies, text)


def _list_groups() -> Iterator[Pool]:
    for groups in _GROUPS:
        name = f'ceph-groups-{groups}'
        yield Pool(
            *(name, name, f'groups-{groups}', 2),
            f'Ceph on osd.0 to osd.{groups - 1}, 2 copies',
            properties={OSD_GROUPS: str(groups)},
        )


def _list_affinity(hosts: int) -> Iterator[Pool]:
    for copies in (1, 2):
        for number in range(1, hosts + 1):
            host = f'hv-host{number}'
            yield Pool(
                f'affinity-{copies}-{host}',
                f'ceph-affinity-{copies}',
                f'affinity-{number}',
                copies,
                'Ceph with the first copy on the disk of the host, '
                f'{_say_copies(copies)}',
                host=host,
                properties={HOST_AFFINITY: 'true'},
            )


def extend_crush_map(text: str) -> str:
    """Return a CRUSH map with the rules of all layouts.

    :param text: the map as ``crushtool -d`` writes it, with all OSDs and the
        rule of a new Ceph; one that has the rules is returned unchanged.
    """
    lines = text.splitlines()
    if _define_rule('groups-2', 0, [])[0] in lines:
        return text
    roots: list[str] = []
    rules: list[str] = []
    identifiers = itertools.count(_FIRST_RULE)
    for groups in _GROUPS:
        name = f'groups-{groups}'
        roots += _define_root(name, range(groups))
        rules += _define_rule(name, next(identifiers), [(name, 0)])
    for number in range(settings.OSDS):
        own, others = f'disk-{number + 1}', f'other-disks-{number + 1}'
        roots += _define_root(own, [number])
        roots += _define_root(
            others, [n for n in range(settings.OSDS) if n != number]
        )
        # The first copy is the one that Ceph reads.
        rules += _define_rule(
            f'affinity-{number + 1}',
            next(identifiers),
            [(own, 1), (others, -1)],
        )
    # crushtool accepts no root after a rule.
    first_rule = next(
        index for index, line in enumerate(lines) if line.startswith('rule ')
    )
    return '\n'.join(
        [*lines[:first_rule], *roots, *lines[first_rule:], *rules, '']
    )


def _define_root(name: str, numbers: Sequence[int]) -> list[str]:
    return [
        f'root {name} {{',
        '\talg straw2',
        '\thash 0',
        *(f'\titem osd.{number} weight 1.000' for number in numbers),
        '}',
    ]


def _define_rule(
    name: str, identifier: int, steps: list[tuple[str, int]]
) -> list[str]:
    """Return a rule of the language of crushtool.

    :param steps: root, and number of copies on its OSDs; 0 for all copies,
        -1 for all but one.
    """
    lines = [
        f'rule {name} {{',
        f'\tid {identifier}',
        '\ttype replicated',
        '\tmin_size 1',
        '\tmax_size 10',
    ]
    for root, copies in steps:
        lines += [
            f'\tstep take {root}',
            f'\tstep chooseleaf firstn {copies} type osd',
            '\tstep emit',
        ]
    return [*lines, '}']
