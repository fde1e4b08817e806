# SPDX-License-Identifier: Apache-2.0
"""HSDataCheck: is all the data there, as large and as often as it must be.

TPCx-HS: HSDataCheck verifies cardinality, size and replication.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hvstack import errors
from hvstack.cluster.base import Cluster
from hvstack.tpcxhs.workload import RECORD_BYTES

#: "/p/part-m-00000 10 bytes, replicated: replication=2, 1 block(s):  OK"
_FILE = re.compile(
    r'^(?P<path>/\S*) (?P<bytes>\d+) bytes, (?:replicated: )?'
    r'replication=(?P<replication>\d+), (?P<blocks>\d+) block\(s\):'
)
#: "0. BP-...:blk_1_2 len=10 Live_repl=2  [DatanodeInfoWithStorage[IP:..."
_BLOCK = re.compile(
    r'^\s*\d+\. \S*:blk_\S+ len=(?P<length>\d+)'
    r'(?: Live_repl=(?P<live>\d+))?(?P<rest>.*)$'
)
_PLACE = re.compile(r'DatanodeInfoWithStorage\[([^\]:]+):')
_DATA_FILE = re.compile(r'/part-[mr]-\d+$')


@dataclass
class Block:
    """One block, as the NameNode knows it.

    :param length: bytes.
    :param live: replicas that are there; 0 if it is missing.
    :param places: addresses of their DataNodes.
    """

    length: int
    live: int
    places: list[str] = field(default_factory=list)


@dataclass
class File:
    """One file, as the NameNode knows it.

    :param length: bytes.
    :param replication: what was asked for.
    :param blocks: how many it says it has.
    """

    path: str
    length: int
    replication: int
    block_count: int
    blocks: list[Block] = field(default_factory=list)


def parse(text: str) -> list[File]:
    """Return the data files that ``hdfs fsck -files -blocks -locations`` saw.

    :raises hvstack.errors.RunFailed: it is no such output, or not all of it.
    """
    files: list[File] = []
    current: File | None = None
    for line in text.splitlines():
        if found := _FILE.match(line):
            current = File(
                found['path'],
                int(found['bytes']),
                int(found['replication']),
                int(found['blocks']),
            )
            files.append(current)
        elif (found := _BLOCK.match(line)) and current:
            missing = 'MISSING' in found['rest'] or found['live'] is None
            current.blocks.append(
                Block(
                    int(found['length']),
                    0 if missing else int(found['live']),
                    _PLACE.findall(found['rest']),
                )
            )
    if 'Status: ' not in text:
        raise errors.RunFailed(
            f'HSDataCheck: fsck did not end: {" ".join(text.split())[-300:]}'
        )
    return [one for one in files if _DATA_FILE.search(one.path)]


def problems(
    files: list[File],
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
    if hosts is not None and (count := on_one_host(files, hosts)):
        found.append(f'{count} blocks with two replicas on one host')
    return found


def _wrong(one: File, replication: int) -> list[str]:
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


def on_one_host(files: list[File], hosts: Mapping[str, str]) -> int:
    """Count the blocks that have two replicas on one physical host."""
    return sum(
        max(Counter(hosts.get(p, p) for p in block.places).values(), default=0)
        > 1
        for one in files
        for block in one.blocks
    )


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
    result = cluster.gateway.run(
        f'hdfs fsck {path} -files -blocks -locations',
        timeout=600,
        check=False,
    )
    files = parse(result.stdout + result.stderr)
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
        'blocks_on_one_host': on_one_host(files, hosts),
    }
