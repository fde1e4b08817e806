# SPDX-License-Identifier: Apache-2.0
"""Time-outs of a stack, which grow with the number of its nodes.

Those that wait multiply them by the slowness of this machine
(:func:`hvstack.speed.factor`).
"""

import math
from collections.abc import Mapping

from hvstack import speed
from hvstack.results.typed_json import Json

#: Seconds for each server, which are added to the time-outs of a small stack:
#: Nova creates servers of a host one after another, and Heat treats each node
#: by itself. 638 nodes (vsphere6, 20 VMs) get 80 minutes.
NODE_SECONDS = 6
#: Seconds for each node, which are added to the time-out of a small cluster:
#: Hadoop treats each node by itself.
NODE_READY_SECONDS = 1
#: Default of the parameter ``readiness_timeout`` of the template, and its
#: maximum, in seconds.
DEFAULT_SIGNAL_SECONDS, _MAX_SIGNAL_SECONDS = 900, 43_200
#: Default of ``stack_action_timeout`` of Heat, in minutes.
DEFAULT_HEAT_MINUTES = 60
#: Seconds that Heat has longer than hvstack waits, whose message names the
#: unfinished resources. Heat counts from its answer to the request; hvstack
#: begins to count when an update has begun (120 s), and ends only when Heat
#: answers (after 180 s at most).
_HEAT_MARGIN_SECONDS = 600


def compute_stack_seconds(stack_timeout: float, nodes: int) -> float:
    """Return the seconds in which Heat must complete a change of a stack.

    :param stack_timeout: seconds for a small stack.
    :param nodes: number of nodes that are created, updated or deleted.
    """
    return stack_timeout + NODE_SECONDS * nodes


def compute_signal_seconds(stack_timeout: float) -> float:
    """Return the seconds in which each node must send Heat its signals.

    They are those of an ordinary server. A cloud whose stacks need more time
    has nodes that boot more slowly.

    :param stack_timeout: seconds for a small stack.
    """
    return max(DEFAULT_SIGNAL_SECONDS, stack_timeout)


def scale_signal_seconds(seconds: float) -> int:
    """Return the parameter ``readiness_timeout`` of the template.

    :param seconds: result of :func:`compute_signal_seconds`.
    """
    return min(_MAX_SIGNAL_SECONDS, math.ceil(seconds * speed.factor()))


def compute_heat_minutes(seconds: float) -> int:
    """Return the minutes after which Heat itself ends a change of a stack.

    Without ``timeout_mins`` in a request, Heat ends the change after
    ``stack_action_timeout``; it accepts longer and shorter times. It keeps
    the minutes for later changes, such as the deletion of the stack, so that
    they are never less than the default of this option.

    :param seconds: seconds on an ordinary server for which hvstack waits.
    """
    patient_seconds = (seconds + _HEAT_MARGIN_SECONDS) * speed.factor()
    return max(DEFAULT_HEAT_MINUTES, math.ceil(patient_seconds / 60))


def compute_ready_seconds(ready_timeout: float, nodes: int) -> float:
    """Return the seconds until Hadoop of a complete stack must be ready.

    :param ready_timeout: seconds for a small cluster.
    :param nodes: number of nodes.
    """
    return ready_timeout + NODE_READY_SECONDS * nodes


def count_workers(parameters: Mapping[str, Json]) -> int:
    """Return the number of workers that a change of a stack is about.

    Workers that the change removes are included. Controllers are not, since
    there are at most a few.

    :param parameters: parameters of the stack as Heat shows them.
    """
    counts = (
        int(str(parameters.get(name) or 0))
        for name in ('worker_count', 'compute_count')
    )
    removed = (
        len([member for member in str(value).split(',') if member])
        for value in map(
            parameters.get, ('removed_workers', 'removed_compute')
        )
        if value
    )
    return sum(counts) + sum(removed)
