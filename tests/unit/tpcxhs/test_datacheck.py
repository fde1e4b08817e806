# SPDX-License-Identifier: Apache-2.0
"""HSDataCheck, held against what fsck printed about real files."""

from pathlib import Path

import testtools

from hvstack import errors, processutils
from hvstack.cluster.base import ClusterNodes
from hvstack.cluster.command_node import CommandNode
from hvstack.hadoop import fsck
from hvstack.results.observations import DataCheck
from hvstack.tpcxhs import datacheck

REAL = Path(__file__).parent / 'fsck'
ADDRESSES = ('10.253.0.12', '10.253.0.13')
BYTES = 10_000_000
FILES = 6


def real(name: str) -> str:
    """Return one of the recorded outputs."""
    return (REAL / f'{name}.txt').read_text()


def parse(text: str) -> list[fsck.HDFSFile]:
    """Return the data files of an output."""
    return datacheck.select_data_files(fsck.parse(text))


def find_error(text: str, hosts: dict[str, str] | None = None) -> str:
    """Return the problems that the check reports for an output."""
    return '; '.join(
        datacheck.find_problems(
            parse(text),
            expected_bytes=BYTES,
            expected_files=FILES,
            replication=2,
            hosts=hosts,
        )
    )


class DataCheckTest(testtools.TestCase):
    def test_healthy(self) -> None:
        files = parse(real('healthy'))
        self.assertEqual(FILES, len(files))
        self.assertEqual(BYTES, sum(file.length for file in files))
        addresses = {
            address
            for file in files
            for block in file.blocks
            for address in block.addresses
        }
        self.assertEqual(set(ADDRESSES), addresses)
        self.assertEqual('', find_error(real('healthy')))

    def test_block_of_no_file_is_left_out(self) -> None:
        text = real('healthy')
        block = next(line for line in text.splitlines() if 'blk_' in line)
        self.assertEqual('', find_error(f'{block}\n{text}'))

    def test_missing_file(self) -> None:
        message = find_error(real('file-removed'))
        self.assertIn('5 files instead of 6', message)
        self.assertIn(f'bytes instead of {BYTES}', message)

    def test_short_file(self) -> None:
        self.assertIn('bytes instead of', find_error(real('file-truncated')))

    def test_asked_for_one_replica(self) -> None:
        self.assertIn('replication 1, not 2', find_error(real('setrep-1')))

    def test_datanode_gone(self) -> None:
        self.assertIn(
            'blocks with fewer than 2 replicas',
            find_error(real('datanode-dead')),
        )

    def test_all_replicas_gone(self) -> None:
        self.assertIn('blocks missing', find_error(real('blocks-missing')))

    def test_replicas_on_one_host(self) -> None:
        apart = dict(zip(ADDRESSES, ('a', 'b'), strict=True))
        together = dict.fromkeys(ADDRESSES, 'a')
        self.assertEqual('', find_error(real('healthy'), apart))
        self.assertIn(
            'two replicas on one host', find_error(real('healthy'), together)
        )
        files = parse(real('healthy'))
        self.assertEqual(FILES, len(fsck.find_shared_blocks(files, together)))

    def test_records_that_are_not_whole(self) -> None:
        text = real('healthy').replace('1666700', '1666750')
        self.assertIn('not a whole number of data records', find_error(text))

    def test_blocks_shorter_than_their_file(self) -> None:
        text = real('healthy').replace('len=1666700', 'len=1666600', 1)
        self.assertIn('length of its blocks', find_error(text))

    def test_unlisted_block(self) -> None:
        text = '\n'.join(
            line
            for line in real('healthy').splitlines()
            if not line.startswith('0. ')
        )
        self.assertIn('0 of 1 blocks listed', find_error(text))


class CheckTest(testtools.TestCase):
    """The check as a run calls it, with a program for the node."""

    def cluster(self, name: str) -> ClusterNodes:
        def node(index: int) -> CommandNode:
            return CommandNode(
                name=f'node{index}',
                address=f'10.253.0.1{index}',
                role='worker',
                host=f'host{index}',
                enter=('sh', '-c', f'cat {REAL / name}.txt'),
            )

        return ClusterNodes('test', node(1), [node(2), node(3)], 1)

    def check(self, name: str) -> DataCheck:
        return datacheck.check_data(
            self.cluster(name), '/in', BYTES, FILES, 2, spread=True
        )

    def test_counts(self) -> None:
        self.assertEqual(
            DataCheck(
                bytes=BYTES, files=FILES, blocks=FILES, blocks_on_one_host=0
            ),
            self.check('healthy'),
        )

    def test_raises(self) -> None:
        for name in (
            'file-removed',
            'file-truncated',
            'setrep-1',
            'datanode-dead',
            'blocks-missing',
        ):
            failure = self.assertRaises(
                errors.RunFailedError, self.check, name
            )
            self.assertIn('HSDataCheck of /in', str(failure))
            self.assertNotIn('\n', str(failure))

    def test_fsck_did_not_end(self) -> None:
        cluster = ClusterNodes(
            'test',
            CommandNode('n', 'a', 'worker', 'h', ('echo', 'FSCK refused')),
            [],
            1,
        )
        failure = self.assertRaises(
            errors.RunFailedError,
            datacheck.check_data,
            cluster,
            '/in',
            1,
            1,
            1,
        )
        self.assertIn('FSCK refused', str(failure))

    def test_the_recorded_outputs_are_there(self) -> None:
        names = processutils.run(['ls', REAL]).stdout.split()
        self.assertEqual(6, len(names))
