# SPDX-License-Identifier: Apache-2.0
"""HSDataCheck, which verifies cardinality, size and replication (TPCx-HS)."""

import re
from collections.abc import Iterable, Mapping

from hvstack import errors
from hvstack.cluster.base import Cluster
from hvstack.hadoop import fsck
from hvstack.results.benchmark import RECORD_BYTES
from hvstack.results.observations import DataCheck

_DATA_FILE = re.compile(r'/part-[mr]-\d+$')


def select_data_files(files: Iterable[fsck.HDFSFile]) -> list[fsck.HDFSFile]:
    """Return the data files, without markers and manifests."""
    return [file for file in files if _DATA_FILE.search(file.path)]


def find_problems(
    files: list[fsck.HDFSFile],
    *,
    expected_bytes: int,
    expected_files: int | None,
    replication: int,
    hosts: Mapping[str, str] | None = None,
) -> list[str]:
    """Return the problems of a data set; an empty list for a valid data set.

    :param files: data files with their blocks.
    :param expected_bytes: total length in bytes.
    :param expected_files: number of files; None accepts any number.
    :param replication: number of replicas of each block.
    :param hosts: physical hosts by address of the DataNode. With this
        argument, two replicas of a block on one host are a problem.
    """
    problems = []
    if expected_files is not None and len(files) != expected_files:
        problems.append(f'{len(files)} files instead of {expected_files}')
    total = sum(file.length for file in files)
    if total != expected_bytes:
        problems.append(f'{total} bytes instead of {expected_bytes}')
    for file in files:
        problems += [
            f'{file.path}: {text}'
            for text in _find_file_problems(file, replication)
        ]
    if hosts is not None and (shared := fsck.find_shared_blocks(files, hosts)):
        problems.append(f'{len(shared)} blocks with two replicas on one host')
    return problems


def _find_file_problems(file: fsck.HDFSFile, replication: int) -> list[str]:
    """Check the length, the blocks and the replication of a file."""
    problems = []
    if file.length % RECORD_BYTES:
        problems.append(
            f'{file.length} bytes is not a whole number of data records'
        )
    if len(file.blocks) != file.block_count:
        problems.append(
            f'{len(file.blocks)} of {file.block_count} blocks listed'
        )
    if sum(block.length for block in file.blocks) != file.length:
        problems.append('the length of its blocks is not its own length')
    if file.replication < replication:
        problems.append(f'replication {file.replication}, not {replication}')
    missing = sum(block.live == 0 for block in file.blocks)
    if missing:
        problems.append(f'{missing} blocks missing')
    low = sum(0 < block.live < replication for block in file.blocks)
    if low:
        problems.append(f'{low} blocks with fewer than {replication} replicas')
    return problems


def check_data(
    cluster: Cluster,
    path: str,
    expected_bytes: int,
    expected_files: int | None,
    replication: int,
    *,
    spread: bool = False,
) -> DataCheck:
    """Check a data set in HDFS.

    :param cluster: cluster that stores the data set.
    :param path: directory of the data set.
    :param expected_bytes: total length in bytes.
    :param expected_files: number of files; None accepts any number.
    :param replication: number of replicas of each block.
    :param spread: whether two replicas of a block on one physical host are an
        error.
    :raises hvstack.errors.RunFailedError: data or replicas are missing.
    """
    try:
        files = select_data_files(fsck.run(cluster.gateway, path))
    except errors.CommandError as exc:
        raise errors.RunFailedError(
            f'HSDataCheck of {path} failed: {str(exc).removesuffix(".")}.'
        ) from exc
    hosts = {node.address: node.host for node in cluster.workers}
    problems = find_problems(
        files,
        expected_bytes=expected_bytes,
        expected_files=expected_files,
        replication=replication,
        hosts=hosts if spread else None,
    )
    if problems:
        more = f' and {len(problems) - 5} more' if len(problems) > 5 else ''
        raise errors.RunFailedError(
            f'HSDataCheck of {path} failed: {"; ".join(problems[:5])}{more}.'
        )
    return DataCheck(
        bytes=sum(file.length for file in files),
        files=len(files),
        blocks=sum(len(file.blocks) for file in files),
        blocks_on_one_host=len(fsck.find_shared_blocks(files, hosts)),
    )
