# SPDX-License-Identifier: Apache-2.0
"""Two kinds of measurements of a cluster of the lab that are made in pairs."""

import math
import statistics
from collections.abc import Mapping, Sequence

from openstack.connection import Connection

from hvstack.cloud import keypairs, stacks
from hvstack.cluster.ssh import SSHAccess
from hvstack.cluster.stack import StackCluster
from hvstack.results.quantiles import compute_t_quantile


def open_cluster(conn: Connection, name: str) -> StackCluster:
    """Return a cluster that 'hvstack cluster create' created.

    :raises hvstack.errors.HVStackError: the stack does not exist or is not
        complete.
    """
    return StackCluster.from_outputs(
        stacks.outputs(conn, name),
        SSHAccess(keypairs.DIRECTORY / name),
        name=name,
        processors=1,
    )


def print_ratios(
    rounds: Sequence[Mapping[str, tuple[float, ...]]],
    kinds: tuple[str, str],
    quantities: Sequence[str],
    digits: int = 1,
) -> None:
    """Print the ratio of both kinds for each quantity.

    :param rounds: values of each quantity by kind.
    :param kinds: names of the kinds; the second one is 100 %.
    :param quantities: names of the quantities with their units.
    :param digits: digits of the medians after the point.
    """
    for index, quantity in enumerate(quantities):
        pairs = [
            (values[kinds[0]][index], values[kinds[1]][index])
            for values in rounds
        ]
        print(f'{quantity}: {describe(pairs, kinds, digits)}')


def describe(
    pairs: Sequence[tuple[float, float]],
    names: tuple[str, str],
    digits: int = 1,
) -> str:
    """Return the medians, and the mean ratio with its 95 % t interval.

    :param pairs: values of the first and of the second kind.
    :param names: names of the kinds.
    :param digits: digits of the medians after the point.
    """
    logs = [math.log(new / old) for new, old in pairs]
    mean = statistics.mean(logs)
    half = compute_t_quantile(len(logs) - 1) * statistics.stdev(logs)
    half /= math.sqrt(len(logs))
    low, middle, high = (
        100 * math.exp(value) for value in (mean - half, mean, mean + half)
    )
    medians = ', '.join(
        f'{statistics.median(values):.{digits}f} {name}'
        for name, values in zip(names, zip(*pairs, strict=True), strict=True)
    )
    return f'{medians}: {middle:.0f} % ({low:.0f} to {high:.0f})'
