# SPDX-License-Identifier: Apache-2.0
"""Pairs of physical hosts between which the network is measured."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

from hvstack.cluster.base import Node
from hvstack.hadoop.daemon_http import SINGLE_DAEMON_ROLES

_T = TypeVar('_T')


@dataclass(frozen=True)
class HostPairs:
    """Pairs of nodes of different hosts.

    :param selected: pairs that are measured.
    :param total: number of pairs of hosts.
    """

    selected: list[tuple[Node, Node]]
    total: int


def select_pairs(
    nodes: Sequence[Node], max_pairs: int, generator: random.Random
) -> HostPairs:
    """Return a node of each of two hosts for pairs of hosts.

    The node of a host is its first worker, or its first node. If there are
    too many pairs, hosts are drawn for rounds in which each host has one
    pair, as in a tournament: all hosts get about the same number of pairs.

    :param nodes: nodes of all hosts.
    :param max_pairs: maximum number of pairs.
    :param generator: source of the sample.
    """
    by_host: dict[str, list[Node]] = {}
    for node in nodes:
        by_host.setdefault(node.host, []).append(node)
    representatives = [
        min(by_host[host], key=_rank_node) for host in sorted(by_host)
    ]
    pairs = list(combinations(representatives, 2))
    if len(pairs) <= max_pairs:
        return HostPairs(pairs, len(pairs))
    generator.shuffle(representatives)
    sample = _list_tournament(representatives)[:max_pairs]
    return HostPairs(sample, len(pairs))


def _rank_node(node: Node) -> tuple[bool, str]:
    is_worker = node.role == 'worker' or node.role in SINGLE_DAEMON_ROLES
    return not is_worker, node.name


def _list_tournament(items: Sequence[_T]) -> list[tuple[_T, _T]]:
    """Return all pairs, in rounds that contain each item once at most.

    This is the circle method: the first item stays, the others rotate.
    """
    circle: list[_T | None] = [*items]
    if len(circle) % 2:
        circle.append(None)
    pairs = []
    for _ in range(len(circle) - 1):
        for first, second in zip(
            circle[: len(circle) // 2],
            reversed(circle[len(circle) // 2 :]),
            strict=True,
        ):
            if first is not None and second is not None:
                pairs.append((first, second))
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return pairs
