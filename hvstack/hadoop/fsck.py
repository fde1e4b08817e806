# SPDX-License-Identifier: Apache-2.0
"""Files, blocks and replica locations as ``hdfs fsck`` reports them."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hvstack import errors
from hvstack.hadoop.daemon_http import Runner

#: "/p/part-m-00000 10 bytes, replicated: replication=2, 1 block(s):  OK"
_FILE = re.compile(
    r'^(?P<path>/.*?) (?P<bytes>\d+) bytes, (?:replicated: )?'
    r'replication=(?P<replication>\d+), (?P<blocks>\d+) block\(s\):'
)
#: "0. BP-...:blk_1_2 len=10 Live_repl=2  [DatanodeInfoWithStorage[IP:..."
_BLOCK = re.compile(
    r'^\s*\d+\. \S*:(?P<id>blk_\d+)\S* len=(?P<length>\d+)'
    r'(?: Live_repl=(?P<live>\d+))?(?P<rest>.*)$'
)
_REPLICA = re.compile(r'DatanodeInfoWithStorage\[([^\]:]+):')
_MISPLACED = re.compile(r'Mis-replicated blocks:\s*(\d+)')
_SECONDS = 600


@dataclass
class Block:
    """A block as the NameNode reports it.

    :param id: block ID without the generation stamp.
    :param length: length in bytes.
    :param live: number of live replicas; 0 for a missing block.
    :param addresses: addresses of the DataNodes with a replica.
    """

    id: str
    length: int
    live: int
    addresses: list[str] = field(default_factory=list)


@dataclass
class HDFSFile:
    """A file as the NameNode reports it.

    :param path: path in HDFS.
    :param length: length in bytes.
    :param replication: requested number of replicas.
    :param block_count: number of blocks in the line of the file.
    :param blocks: blocks that are listed.
    """

    path: str
    length: int
    replication: int
    block_count: int
    blocks: list[Block] = field(default_factory=list)


@dataclass(frozen=True)
class SharedBlock:
    """A block with two or more replicas on the same physical host.

    :param path: path of the file.
    :param block: block ID.
    :param host: physical host.
    :param addresses: addresses of the DataNodes on this host.
    """

    path: str
    block: str
    host: str
    addresses: tuple[str, ...]


def run(controller: Runner, path: str = '/') -> list[HDFSFile]:
    """Return the files below a path with the locations of their blocks.

    :param controller: node with an HDFS client.
    :param path: path in HDFS.
    :raises hvstack.errors.CommandError: HDFS does not answer.
    """
    result = controller.run(
        f'hdfs fsck {path} -files -blocks -locations',
        timeout=_SECONDS,
        check=False,
    )
    return parse(result.stdout + result.stderr)


def count_misplaced_blocks(controller: Runner, path: str) -> int:
    """Return the number of blocks that violate the replica placement policy.

    HDFS calls them mis-replicated: they need replicas on further racks.

    :param controller: node with an HDFS client.
    :param path: path in HDFS.
    :raises hvstack.errors.CommandError: HDFS does not answer.
    """
    result = controller.run(f'hdfs fsck {path}', timeout=_SECONDS, check=False)
    text = result.stdout + result.stderr
    match = _MISPLACED.search(text)
    if match is None:
        raise errors.CommandError(
            ['hdfs', 'fsck'],
            1,
            f'the output is incomplete: {" ".join(text.split())[-300:]}',
        )
    return int(match[1])


def parse(text: str) -> list[HDFSFile]:
    """Return the files of ``hdfs fsck -files -blocks -locations``.

    :param text: output of the command.
    :raises hvstack.errors.CommandError: the output is incomplete.
    """
    files: list[HDFSFile] = []
    for line in text.splitlines():
        if match := _FILE.match(line):
            files.append(
                HDFSFile(
                    match['path'],
                    int(match['bytes']),
                    int(match['replication']),
                    int(match['blocks']),
                )
            )
        elif (match := _BLOCK.match(line)) and files:
            missing = 'MISSING' in match['rest'] or match['live'] is None
            files[-1].blocks.append(
                Block(
                    match['id'],
                    int(match['length']),
                    0 if missing else int(match['live']),
                    _REPLICA.findall(match['rest']),
                )
            )
    if 'Status: ' not in text:
        raise errors.CommandError(
            ['hdfs', 'fsck'],
            1,
            f'the output is incomplete: {" ".join(text.split())[-300:]}',
        )
    return files


def compute_missing_bytes(files: Iterable[HDFSFile], replication: int) -> int:
    """Return the number of bytes that the missing replicas have.

    :param files: files with their blocks.
    :param replication: expected number of replicas of each block.
    """
    return sum(
        block.length * max(0, replication - block.live)
        for file in files
        for block in file.blocks
    )


def find_shared_blocks(
    files: Iterable[HDFSFile], hosts: Mapping[str, str]
) -> list[SharedBlock]:
    """Return the blocks with two or more replicas on one physical host.

    :param files: files to check.
    :param hosts: physical hosts by address of the DataNode. An address that
        is missing counts as a host.
    """
    shared_blocks = []
    for file in files:
        for block in file.blocks:
            by_host: dict[str, list[str]] = defaultdict(list)
            for address in block.addresses:
                by_host[hosts.get(address, address)].append(address)
            together = [
                (host, addresses)
                for host, addresses in by_host.items()
                if len(addresses) > 1
            ]
            # Only the host with the most replicas is reported, so that the
            # length of the list is the number of blocks.
            if together:
                host, addresses = max(together, key=lambda item: len(item[1]))
                shared_blocks.append(
                    SharedBlock(
                        file.path, block.id, host, tuple(sorted(addresses))
                    )
                )
    return shared_blocks
