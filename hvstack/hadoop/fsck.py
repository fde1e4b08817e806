# SPDX-License-Identifier: Apache-2.0
"""What ``hdfs fsck`` says of files, their blocks and where these are."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hvstack import errors
from hvstack.hadoop.rest import Runner

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
_SECONDS = 600


@dataclass
class Block:
    """One block, as the NameNode knows it.

    :param id: without its generation stamp.
    :param length: bytes.
    :param live: replicas that are there; 0 if it is missing.
    :param addresses: addresses of their DataNodes.
    """

    id: str
    length: int
    live: int
    addresses: list[str] = field(default_factory=list)


@dataclass
class HDFSFile:
    """One file, as the NameNode knows it.

    :param length: bytes.
    :param replication: what was asked for.
    :param block_count: how many it says it has.
    """

    path: str
    length: int
    replication: int
    block_count: int
    blocks: list[Block] = field(default_factory=list)


@dataclass(frozen=True)
class SharedBlock:
    """A block with two replicas or more on one physical host.

    :param addresses: addresses of the DataNodes there.
    """

    path: str
    block: str
    host: str
    addresses: tuple[str, ...]


def run(controller: Runner, path: str = '/') -> list[HDFSFile]:
    """Return the files below a path with their blocks' locations.

    :param controller: any node that has a client.
    :raises hvstack.errors.CommandFailed: HDFS does not answer.
    """
    result = controller.run(
        f'hdfs fsck {path} -files -blocks -locations',
        timeout=_SECONDS,
        check=False,
    )
    return parse(result.stdout + result.stderr)


def parse(text: str) -> list[HDFSFile]:
    """Return the files of ``hdfs fsck -files -blocks -locations``.

    :raises hvstack.errors.CommandFailed: it is no such output, or not all
        of it.
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
        raise errors.CommandFailed(
            ['hdfs', 'fsck'],
            1,
            f'it did not end: {" ".join(text.split())[-300:]}',
        )
    return files


def find_shared_blocks(
    files: Iterable[HDFSFile], hosts: Mapping[str, str]
) -> list[SharedBlock]:
    """Return the blocks that have two replicas on one physical host.

    :param hosts: physical host by DataNode's address; one that is not named
        is a host of its own.
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
            # Said once, for the fullest host, so that blocks are counted.
            if together:
                host, addresses = max(together, key=lambda item: len(item[1]))
                shared_blocks.append(
                    SharedBlock(
                        file.path, block.id, host, tuple(sorted(addresses))
                    )
                )
    return shared_blocks
