# SPDX-License-Identifier: Apache-2.0
"""HSDataCheck: is all the data there, as large and as often as it must be.

TPCx-HS: HSDataCheck verifies cardinality, size and replication.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from hvstack import errors
from hvstack.cluster.base import Cluster
from hvstack.hadoop import fsck
from hvstack.results.benchmark import RECORD_BYTES

_DATA_FILE = re.compile(r'/part-[mr]-\d+$')


def data_files(files: Iterable[fsck.File]) -> list[fsck.File]:
    """Return the files that hold data, without marks and manifests."""
    return [one for one in files if _DATA_FILE.search(one.path)]


def problems(
    files: list[fsck.File],
    *,
    expected_bytes: int,
    expected_files: int | None,
    replication: int,
    hosts: Mapping[str, str] | None = None,
) -> list[str]:
    """Return what is wrong with a data set; nothing if it is as it must be.

    :param hosts: physical host by DataNode's address; where it is given, two
        replicas of a block on one host are wrong.
    """
    found = []
    if expected_files is not None and len(files) != expected_files:
        found.append(f'{len(files)} files instead of {expected_files}')
    total = sum(one.length for one in files)
    if total != expected_bytes:
        found.append(f'{total} bytes instead of {expected_bytes}')
    for one in files:
        found += [f'{one.path}: {text}' for text in _wrong(one, replication)]
    if hosts is not None and (shared := fsck.on_one_host(files, hosts)):
        found.append(f'{len(shared)} blocks with two replicas on one host')
    return found


def _wrong(one: fsck.File, replication: int) -> list[str]:
    """Return what is wrong with one file."""
    found = []
    if one.length % RECORD_BYTES:
        found.append(f'{one.length} bytes are no whole records')
    if len(one.blocks) != one.block_count:
        found.append(f'{len(one.blocks)} of {one.block_count} blocks listed')
    if sum(block.length for block in one.blocks) != one.length:
        found.append('its blocks are not as long as it is')
    if one.replication < replication:
        found.append(f'replication {one.replication}, not {replication}')
    missing = sum(block.live == 0 for block in one.blocks)
    if missing:
        found.append(f'{missing} blocks missing')
    low = sum(0 < block.live < replication for block in one.blocks)
    if low:
        found.append(f'{low} blocks with fewer than {replication} replicas')
    return found


def check(
    cluster: Cluster,
    path: str,
    expected_bytes: int,
    expected_files: int | None,
    replication: int,
    *,
    spread: bool = False,
) -> dict[str, Any]:
    """Check a data set in HDFS.

    :param path: its folder.
    :param expected_files: None if any number will do.
    :param spread: refuse two replicas of a block on one physical host.
    :returns: ``files``, ``bytes``, ``blocks``, ``blocks_on_one_host``.
    :raises hvstack.errors.RunFailed: something is missing, too short, or
        not replicated often enough.
    """
    try:
        files = data_files(fsck.run(cluster.gateway, path))
    except errors.CommandFailed as exc:
        raise errors.RunFailed(f'HSDataCheck of {path}: {exc}') from exc
    hosts = {node.address: node.host for node in cluster.workers}
    wrong = problems(
        files,
        expected_bytes=expected_bytes,
        expected_files=expected_files,
        replication=replication,
        hosts=hosts if spread else None,
    )
    if wrong:
        raise errors.RunFailed(
            f'HSDataCheck of {path}: {"; ".join(wrong[:5])}'
            + (f' and {len(wrong) - 5} more' if len(wrong) > 5 else '')
        )
    return {
        'files': len(files),
        'bytes': sum(one.length for one in files),
        'blocks': sum(len(one.blocks) for one in files),
        'blocks_on_one_host': len(fsck.on_one_host(files, hosts)),
    }
