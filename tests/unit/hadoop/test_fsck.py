# SPDX-License-Identifier: Apache-2.0
"""What fsck printed about real files, read back."""

from pathlib import Path

import testtools

from hvstack import errors
from hvstack.cluster.command_node import CommandNode
from hvstack.hadoop import fsck

REAL = Path(__file__).parent.parent / 'tpcxhs' / 'fsck'
PLACES = ('10.253.0.12', '10.253.0.13')


def real(name: str) -> str:
    """Return one of the recorded outputs."""
    return (REAL / f'{name}.txt').read_text()


class ParseTest(testtools.TestCase):
    def test_every_file(self) -> None:
        files = fsck.parse(real('healthy'))
        self.assertIn('/in/_SUCCESS', [file.path for file in files])
        block = files[-1].blocks[0]
        self.assertRegex(block.id, r'^blk_\d+$')
        self.assertEqual((2, set(PLACES)), (block.live, set(block.addresses)))

    def test_missing(self) -> None:
        files = fsck.parse(real('blocks-missing'))
        missing = [
            block for file in files for block in file.blocks if block.live == 0
        ]
        self.assertEqual(6, len(missing))

    def test_a_name_with_blanks(self) -> None:
        text = real('healthy').replace('/in/part-m-00000', '/in/a b')
        self.assertIn('/in/a b', [file.path for file in fsck.parse(text)])

    def test_fsck_did_not_end(self) -> None:
        for text in ('', real('healthy').split('Status:')[0], 'FSCK: refused'):
            self.assertRaises(errors.CommandError, fsck.parse, text)


class MissingBytesTest(testtools.TestCase):
    def test_each_missing_replica_counts(self) -> None:
        files = fsck.parse(real('healthy'))
        length = sum(file.length for file in files)
        self.assertEqual(0, fsck.compute_missing_bytes(files, 2))
        self.assertEqual(0, fsck.compute_missing_bytes(files, 1))
        self.assertEqual(length, fsck.compute_missing_bytes(files, 3))


class MisplacedBlocksTest(testtools.TestCase):
    def count(self, text: str) -> int:
        node = CommandNode('n', 'a', 'worker', 'h', ('echo', text))
        return fsck.count_misplaced_blocks(node, '/')

    def test_count(self) -> None:
        self.assertEqual(3, self.count(' Mis-replicated blocks:\t\t3 (5 %)'))

    def test_fsck_did_not_end(self) -> None:
        error = self.assertRaises(
            errors.CommandError, self.count, 'FSCK refused'
        )
        self.assertIn('the output is incomplete: FSCK refused', str(error))


class OnOneHostTest(testtools.TestCase):
    def test_named(self) -> None:
        files = fsck.parse(real('healthy'))
        apart = dict(zip(PLACES, 'ab', strict=True))
        self.assertEqual([], fsck.find_shared_blocks(files, apart))
        self.assertEqual([], fsck.find_shared_blocks(files, {}))
        shared = fsck.find_shared_blocks(files, dict.fromkeys(PLACES, 'a'))
        self.assertEqual(6, len(shared))
        self.assertEqual(('a', PLACES), (shared[0].host, shared[0].addresses))
