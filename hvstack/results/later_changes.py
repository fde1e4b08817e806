# SPDX-License-Identifier: Apache-2.0
"""Observations of changes of a cluster after a run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class HostLoss:
    """State of the blocks after the loss of physical hosts.

    :param hosts: number of hosts that were lost at once.
    :param blocks: number of blocks.
    :param exposed: blocks with all replicas on these hosts before the loss.
    :param missing: blocks without any replica after the loss.
    :param under_replicated: blocks with too few replicas after the loss,
        before HDFS copied them.
    :param misplaced: blocks that violate the replica placement policy after
        the loss, which HDFS calls mis-replicated.
    :param seconds: duration until all replicas existed again.
    """

    hosts: int = 0
    blocks: int = 0
    exposed: int = 0
    missing: int = 0
    under_replicated: int = 0
    misplaced: int = 0
    seconds: float = 0


@dataclass(frozen=True)
class ComputeScaling:
    """Compute workers that were removed and added while sorts ran.

    :param removed: number of removed compute workers.
    :param added: number of compute workers that were added afterwards.
    :param sorts: number of sorts, all of which were correct.
    :param tasks_during: number of tasks on the added compute workers, of the
        sorts that ran while these were added.
    :param tasks_after: the same, of the next sort.
    :param missing: blocks without any replica afterwards.
    :param seconds: duration of all of this.
    """

    removed: int = 0
    added: int = 0
    sorts: int = 0
    tasks_during: int = 0
    tasks_after: int = 0
    missing: int = 0
    seconds: float = 0


@dataclass(frozen=True)
class SecondCluster:
    """Second compute cluster on the HDFS of a cluster, after a run.

    Both clusters sorted the same input at the same time, and both outputs were
    correct.

    :param workers: number of compute workers of the second cluster.
    :param first_workers: number of compute workers that the first one kept.
    :param first_seconds: duration of the sort of the first cluster.
    :param second_seconds: duration of the sort of the second cluster.
    :param overlap_seconds: seconds in which both sorts ran.
    :param tasks: number of tasks of the sort of the second cluster on its
        compute workers.
    :param missing: blocks without any replica afterwards.
    :param seconds: duration of all of this, with both changes of the first
        cluster and the life of the second one.
    """

    workers: int = 0
    first_workers: int = 0
    first_seconds: float = 0
    second_seconds: float = 0
    overlap_seconds: float = 0
    tasks: int = 0
    missing: int = 0
    seconds: float = 0


#: Change of a cluster after a run.
LaterChange = HostLoss | ComputeScaling | SecondCluster
