# SPDX-License-Identifier: Apache-2.0
"""What the journal acknowledged is on the disk when the power fails.

The state directory is on an XFS file system that is shut down at a random
moment while a process writes entries: what only the kernel's memory holds is
gone then, as in a power failure. Only this test's processes see its mount.
Needs root, loop devices and xfsprogs; no lab.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import testtools
from testtools import content

#: Power failures in a row, on one file system.
_ROUNDS = 10
_IMAGE_BYTES = 400 * 2**20

#: Prints what it begins ("try") and what is done ("did"), an object a line.
_WRITER = """
import json, random, sys, time
from hvstack import paths
from hvstack.cloud import journal

if sys.argv[1] == 'unsynced':
    paths.sync_directory = lambda path: None

def say(state, verb, entries):
    # After the shutdown, XFS syncs a directory without an error. Asked for
    # a file's attributes, it returns one: what follows was synced before.
    journal.DIRECTORY.stat()
    print(json.dumps([state, verb, [entry.id for entry in entries]]))
    sys.stdout.flush()

mine = []
count = 0
while True:
    verb = random.choice(('note', 'note', 'forget', 'hand over'))
    if verb == 'note' or len(mine) < 3:
        count += 1
        entry = journal.note('stack', {'name': str(count)})
        mine.append(entry)
        say('did', 'note', [entry])
    elif verb == 'forget':
        entry = mine.pop(random.randrange(len(mine)))
        say('try', 'forget', [entry])
        journal.forget(entry)
        say('did', 'forget', [entry])
    else:
        together = [mine.pop() for _ in range(3)]
        say('try', 'hand over', together)
        journal.hand_over(together, 'cluster a')
        say('did', 'hand over', together)
    time.sleep(random.random() * 0.003)
"""
_READER = """
import json
from hvstack.cloud import journal
print(json.dumps({entry.id: entry.owner for entry in journal.entries()}))
"""


class PowerFailureTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest('mounting a file system needs root')
        for program in ('mkfs.xfs', 'xfs_io', 'losetup'):
            if shutil.which(program) is None:
                self.skipTest(f'{program} is not installed')
        directory = Path(tempfile.mkdtemp(prefix='hvstack-power-'))
        self.addCleanup(shutil.rmtree, directory)
        self.image, self.mounted = directory / 'image', directory / 'state'
        self.mounted.mkdir()
        with self.image.open('wb') as stream:
            stream.truncate(_IMAGE_BYTES)
        self.inside = self.make_mount_namespace()
        self.command('mkfs.xfs', '-q', str(self.image))
        if not self.mount():
            self.skipTest('this kernel mounts no XFS on a loop device')
        self.env = {**os.environ, 'HVSTACK_STATE_DIR': str(self.mounted)}

    def make_mount_namespace(self) -> list[str]:
        """Return the start of a command that runs in a mount namespace.

        It ends with this process, however that ends, and with it the mount
        and the loop device: its own process waits at the end of a pipe.
        """
        keeper = subprocess.Popen(
            ['unshare', '--mount', 'sh', '-c', 'echo && exec cat'],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.addCleanup(keeper.communicate)
        assert keeper.stdout
        # The namespace is there with the first line.
        self.assertEqual(b'\n', keeper.stdout.readline())
        return ['nsenter', f'--mount=/proc/{keeper.pid}/ns/mnt', '--']

    def command(self, *argv: str) -> None:
        subprocess.run(
            [*self.inside, *argv], check=True, capture_output=True, timeout=120
        )

    def mount(self) -> bool:
        """Mount the image, each time by a loop device of its own.

        A mount namespace that any process made meanwhile keeps the file
        system that was shut down. "mount -o loop" would mount it again.
        """
        argv = ['losetup', '--find', '--show', str(self.image)]
        device = subprocess.run(argv, capture_output=True, text=True)
        if device.returncode != 0:
            return False
        loop = device.stdout.strip()
        argv = [*self.inside, 'mount', '-t', 'xfs', '-o', 'nouuid', loop]
        argv.append(str(self.mounted))
        mounted = subprocess.run(argv, capture_output=True).returncode == 0
        # It goes when the file system is unmounted.
        self.command('losetup', '--detach', loop)
        return mounted

    def power_failure(self, how: str) -> list[list[object]]:
        """Let the power fail while a process writes; return its lines."""
        with subprocess.Popen(
            [*self.inside, sys.executable, '-c', _WRITER, how],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as writer:
            assert writer.stdout
            first = writer.stdout.readline()
            time.sleep(random.random() * 0.3)
            # Without -f, the log in memory is not written.
            self.command('xfs_io', '-x', '-c', 'shutdown', str(self.mounted))
            # Its next write or sync fails.
            remainder = writer.stdout.read()
        self.command('umount', str(self.mounted))
        self.assertTrue(self.mount())
        lines = (first + remainder).splitlines()
        return [json.loads(line) for line in lines]

    def read(self) -> dict[str, str]:
        """Return the owners of the entries that a later process reads."""
        done = subprocess.run(
            [*self.inside, sys.executable, '-c', _READER],
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(0, done.returncode, done.stderr)
        owners: dict[str, str] = json.loads(done.stdout)
        return owners

    def find_lost_changes(self, how: str) -> tuple[int, list[str]]:
        """Return how many changes were acknowledged, and those lost."""
        acknowledged = 0
        lost_changes: list[str] = []
        for index in range(_ROUNDS):
            lines = self.power_failure(how)
            #: What each entry's last line says of it.
            last: dict[str, tuple[str, str]] = {}
            for state, verb, entries in lines:
                acknowledged += state == 'did'
                for entry in entries:
                    last[entry] = state, verb
            owners = self.read()
            halves = set()
            for entry, (state, verb) in last.items():
                is_there = entry in owners
                if state == 'try':
                    # Either way, but alike for all that go together.
                    if verb == 'hand over':
                        halves.add(owners.get(entry, 'lost'))
                elif is_there != (verb != 'forget') or (
                    verb == 'hand over' and owners[entry] != 'cluster a'
                ):
                    lost_changes.append(f'failure {index}: {verb} of {entry}')
            if len(halves) > 1 or 'lost' in halves:
                lost_changes.append(
                    f'failure {index}: half a hand-over: {halves}'
                )
        self.addDetail(
            'changes',
            content.text_content(f'{acknowledged}, lost: {len(lost_changes)}'),
        )
        return acknowledged, lost_changes

    def test_nothing_that_was_acknowledged_is_lost(self) -> None:
        acknowledged, lost_changes = self.find_lost_changes('synced')
        self.assertEqual([], lost_changes)
        self.assertGreater(acknowledged, _ROUNDS)

    def test_this_test_notices_a_missing_sync(self) -> None:
        acknowledged, lost_changes = self.find_lost_changes('unsynced')
        self.assertNotEqual([], lost_changes, f'{acknowledged} changes')
