# SPDX-License-Identifier: Apache-2.0
"""Loss of physical hosts, and the blocks that are missing afterwards.

The reliability test of "Hadoop Virtualization Extensions": 30 blocks are
written, the replicas are listed, and then the hosts are lost whose loss
destroys most blocks, at once.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass

from hvstack import errors, processutils, seeded_random
from hvstack.cluster.base import Cluster
from hvstack.hadoop import daemon_http, fsck
from hvstack.nouns import format_noun
from hvstack.progress import Progress
from hvstack.results.later_changes import HostLoss
from hvstack.results.typed_json import JsonObject
from hvstack.tpcxhs import preparation
from hvstack.tpcxhs.preparation import BASE

#: 30 blocks, as in the paper; the smallest block that a NameNode accepts.
_FILES = 10
_BLOCKS_PER_FILE = 3
_BLOCK_BYTES = 1024 * 1024
_DIRECTORY = f'{BASE}-losses'
_WRITE_SECONDS = 600
#: A DataNode is dead after 40 s with hvstack's settings, after 630 s with
#: those of Hadoop.
_DEATH_SECONDS = 900
#: A copy whose target was lost is tried again after 300 s
#: (``dfs.namenode.reconstruction.pending.timeout-sec``).
_RESTORATION_SECONDS = 900


@dataclass(frozen=True)
class HostLossSpec:
    """Losses of hosts to provoke after a run.

    :param hosts: number of hosts that are lost at once.
    :param rounds: number of losses, each with new files.
    :param lose: function that loses hosts and returns a context, whose end
        restores them.
    :param method: how hosts are lost, as text for the record.
    """

    hosts: int
    rounds: int
    lose: Callable[[Sequence[str]], AbstractContextManager[None]]
    method: str


def provoke(
    cluster: Cluster,
    spec: HostLossSpec,
    replication: int,
    seed: str,
    progress: Progress | None = None,
) -> JsonObject:
    """Lose hosts several times, and count the blocks that are missing.

    :param cluster: cluster whose data of earlier runs is deleted.
    :param spec: losses to provoke.
    :param replication: number of replicas.
    :param seed: text from which random choices follow.
    :param progress: where to report; None reports nothing.
    :returns: observations of the record.
    :raises hvstack.errors.RunFailedError: the cluster has too few hosts, or
        a file that HDFS restored differs.
    :raises hvstack.errors.HVStackError: a host or HDFS does not answer in
        time.
    """
    output = progress or Progress()
    dice = seeded_random.build_generator(seed)
    candidates = _list_candidates(cluster)
    if len(candidates) <= spec.hosts:
        raise errors.RunFailedError(
            f'Cannot lose {format_noun(spec.hosts, "host")}: the cluster has '
            f'{format_noun(len(candidates), "host")} with DataNodes and '
            "without a controller. Use more hosts, or a smaller 'lost_hosts'."
        )
    preparation.purge(cluster, _DIRECTORY)
    losses = []
    for number in range(1, spec.rounds + 1):
        title = f'loss {number} of {spec.rounds}'
        digest = _write_files(cluster, replication)
        blocks = _locate_blocks(cluster)
        hosts, exposed = choose_hosts(blocks, candidates, spec.hosts, dice)
        output.say(
            f'{title}: {format_noun(len(hosts), "host")}, {exposed} of '
            f'{len(blocks)} blocks have all replicas on them'
        )
        begin = time.monotonic()
        with spec.lose(hosts):
            files = _wait_for_death(cluster, hosts)
            loss = _count(files, cluster, hosts, exposed, replication)
        _wait_for_restoration(cluster, replication)
        _compare_files(cluster, digest)
        seconds = round(time.monotonic() - begin, 1)
        losses.append({**asdict(loss), 'seconds': seconds})
        output.say(
            f'{title}: {loss.missing} of {loss.blocks} blocks were missing, '
            f'{loss.under_replicated} under-replicated, all restored '
            f'({seconds:.0f} s)'
        )
        _delete_files(cluster)
    return {'host_losses': losses, 'host_loss_method': spec.method}


def choose_hosts(
    blocks: Sequence[frozenset[str]],
    candidates: Sequence[str],
    count: int,
    dice: random.Random,
) -> tuple[list[str], int]:
    """Return the hosts whose loss destroys most blocks.

    Without any such block, and for the remaining hosts, the choice is random.

    :param blocks: hosts with a replica of each block.
    :param candidates: hosts that may be lost.
    :param count: number of hosts to lose.
    :param dice: source of random choices.
    :returns: hosts, and the number of blocks with all replicas on them.
    """
    small = Counter(
        hosts
        for hosts in blocks
        if len(hosts) <= count and hosts <= set(candidates)
    )
    chosen: frozenset[str] = frozenset()
    if small:
        # Sets are unordered: sort, so that the same seed has the same choice.
        options = sorted(map(sorted, small))
        dice.shuffle(options)
        chosen = frozenset(
            max(
                options,
                key=lambda option: sum(
                    number
                    for hosts, number in small.items()
                    if hosts <= set(option)
                ),
            )
        )
    others = sorted(set(candidates) - chosen)
    result = sorted(chosen) + dice.sample(others, count - len(chosen))
    lost_hosts = set(result)
    return result, sum(bool(hosts) and hosts <= lost_hosts for hosts in blocks)


def _list_candidates(cluster: Cluster) -> list[str]:
    """Return the hosts with DataNodes and without a controller."""
    controllers = {cluster.gateway.host, cluster.manager.host}
    return sorted(
        {node.host for node in cluster.workers if node.role != 'compute'}
        - controllers
    )


def _map_hosts(cluster: Cluster) -> Mapping[str, str]:
    """Return the host of each worker by its address."""
    return {node.address: node.host for node in cluster.workers}


def _write_files(cluster: Cluster, replication: int) -> str:
    """Write random files, and return the checksum of their content."""
    size = _BLOCKS_PER_FILE * _BLOCK_BYTES
    result = cluster.gateway.run(
        'set -e; directory=$(mktemp -d); trap \'rm -rf "$directory"\' EXIT; '
        f'for n in $(seq -w {_FILES}); do '
        f'head -c {size} /dev/urandom >"$directory/$n"; done; '
        f'hdfs dfs -mkdir -p {_DIRECTORY}; '
        f'hdfs dfs -Ddfs.blocksize={_BLOCK_BYTES} '
        f'-Ddfs.replication={replication} -put "$directory"/* {_DIRECTORY}; '
        'cat "$directory"/* | sha256sum',
        timeout=_WRITE_SECONDS,
    )
    _wait_for_restoration(cluster, replication)
    return result.stdout.strip()


def _delete_files(cluster: Cluster) -> None:
    cluster.gateway.run(
        f'hdfs dfs -rm -r -f -skipTrash {_DIRECTORY}',
        timeout=_WRITE_SECONDS,
    )


def _compare_files(cluster: Cluster, digest: str) -> None:
    """Compare the content of all files with that which was written.

    :param digest: checksum of the written content.
    :raises hvstack.errors.RunFailedError: a file differs.
    """
    result = cluster.gateway.run(
        f'hdfs dfs -cat "{_DIRECTORY}/*" | sha256sum',
        timeout=_WRITE_SECONDS,
        check=False,
    )
    if result.returncode or result.stdout.strip() != digest:
        text = ' '.join((result.stdout + result.stderr).split())[-300:]
        raise errors.RunFailedError(
            'The files in HDFS differ after the restoration of the hosts: '
            f'{text.removesuffix(".")}.'
        )


def _locate_blocks(cluster: Cluster) -> list[frozenset[str]]:
    """Return the hosts with a replica of each block."""
    hosts = _map_hosts(cluster)
    return [
        frozenset(hosts.get(address, address) for address in block.addresses)
        for file in fsck.run(cluster.gateway, _DIRECTORY)
        for block in file.blocks
    ]


def _wait_for_death(
    cluster: Cluster, hosts: Sequence[str]
) -> list[fsck.HDFSFile]:
    """Wait until the NameNode misses the hosts, and return the files.

    It no longer counts a dead DataNode before it removes the replicas there,
    and reports these blocks as healthy until then.
    """
    lost_hosts = set(hosts)
    by_address = _map_hosts(cluster)
    remaining = sum(
        node.host not in lost_hosts and node.role != 'compute'
        for node in cluster.workers
    )
    files: list[fsck.HDFSFile] = []

    def is_missed() -> bool:
        files[:] = fsck.run(cluster.gateway, _DIRECTORY)
        replicas = {
            by_address.get(address)
            for file in files
            for block in file.blocks
            for address in block.addresses
        }
        return not replicas & lost_hosts and _count_live(cluster) == remaining

    processutils.wait_for(
        is_missed,
        'the NameNode to miss the lost hosts',
        timeout=_DEATH_SECONDS,
        interval=2,
    )
    return files


def _wait_for_restoration(cluster: Cluster, replication: int) -> None:
    """Wait until all DataNodes are live and all blocks have all replicas."""
    expected = sum(node.role != 'compute' for node in cluster.workers)

    def is_restored() -> bool:
        return _count_live(cluster) == expected and all(
            block.live >= replication
            for file in fsck.run(cluster.gateway, _DIRECTORY)
            for block in file.blocks
        )

    processutils.wait_for(
        is_restored,
        'all replicas of all blocks',
        timeout=_RESTORATION_SECONDS,
        interval=2,
    )


def _count_live(cluster: Cluster) -> int:
    """Return the number of DataNodes that the NameNode knows as live."""
    state = daemon_http.get_namenode_bean(cluster.gateway, 'FSNamesystemState')
    return int(state['NumLiveDataNodes'])


def _count(
    files: Sequence[fsck.HDFSFile],
    cluster: Cluster,
    hosts: Sequence[str],
    exposed: int,
    replication: int,
) -> HostLoss:
    """Return the state of the blocks after a loss."""
    blocks = [block for file in files for block in file.blocks]
    return HostLoss(
        hosts=len(hosts),
        blocks=len(blocks),
        exposed=exposed,
        missing=sum(block.live == 0 for block in blocks),
        under_replicated=sum(0 < block.live < replication for block in blocks),
        misplaced=fsck.count_misplaced_blocks(cluster.gateway, _DIRECTORY),
    )
