# SPDX-License-Identifier: Apache-2.0
"""Writing files that a user names: nothing but a regular file is replaced."""

import functools
import os
import stat
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock

import fixtures
import testtools

from hvstack import errors, paths
from hvstack.accept import runner
from hvstack.cli.app import main
from hvstack.cloud import journal
from hvstack.cluster import acquired_hosts
from hvstack.lab import lock
from hvstack.lab.images import store
from hvstack.results import signing
from hvstack.sweep import sweep_store
from tests.unit.report.test_approval import Sweep
from tests.unit.results import factory


def inode(path: Path) -> tuple[int, int, int]:
    status = path.lstat()
    return status.st_mode, status.st_ino, status.st_rdev


class LockTest(testtools.TestCase):
    """Locks of keys, sweeps, the journal, images, hosts and workspaces."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.path = self.directory / '.lock'

    def assert_refused(self) -> None:
        error = self.assertRaises(
            errors.InputError, paths.open_lock, self.path
        )
        self.assertEqual(
            f'Cannot lock {self.path}: it is not a regular file. Delete it.',
            str(error),
        )

    def test_regular_file(self) -> None:
        for text in ('1\n', '2\n'):
            with paths.open_lock(self.path, 0o600) as stream:
                stream.write(text)
        self.assertEqual('1\n2\n', self.path.read_text())
        self.assertEqual(0o600, stat.S_IMODE(self.path.stat().st_mode))

    def test_not_utf_8(self) -> None:
        self.path.write_bytes(b'\xff')
        with paths.open_lock(self.path) as stream:
            stream.seek(0)
            self.assertEqual('\ufffd', stream.read())

    def test_other_types(self) -> None:
        for make in (
            lambda: os.mkfifo(self.path),
            self.path.mkdir,
            lambda: self.path.symlink_to(self.path.name),
            lambda: self.path.symlink_to('/dev/zero'),
            lambda: os.mknod(self.path, 0o600 | stat.S_IFSOCK),
        ):
            make()
            self.assert_refused()
            if self.path.is_dir():
                self.path.rmdir()
            else:
                self.path.unlink()

    def test_no_directory(self) -> None:
        path = self.directory / 'missing' / '.lock'
        self.assertRaises(FileNotFoundError, paths.open_lock, path)

    @staticmethod
    def take(hold: Callable[[], AbstractContextManager[Any]]) -> None:
        with hold():
            pass

    def test_fifo_in_place_of_each_lock(self) -> None:
        directory = self.directory
        workspace: Any = mock.Mock(directory=directory)
        self.useFixture(fixtures.MonkeyPatch('hvstack.paths.RUN', directory))
        for name in ('.lock', 'lock', 'lab.lock', 'held'):
            os.mkfifo(directory / name)
            # Old code opens a FIFO that is open, and waits otherwise.
            handle = os.open(directory / name, os.O_RDWR)
            self.addCleanup(os.close, handle)
        for name, target, value, hold in (
            ('.lock', 'results.signing.KEYS', directory, signing._locked),
            (
                *('.lock', 'sweep.sweep_store.SWEEPS_DIR', directory),
                sweep_store.lock_measurements,
            ),
            (
                '.lock',
                'cloud.journal.DIRECTORY',
                directory,
                journal.recovering,
            ),
            (
                *('.lock', 'lab.images.store.root', lambda: directory),
                store.building,
            ),
            (
                'lock',
                'cluster.acquired_hosts.ACQUIRED_HOSTS_DIR',
                directory,
                acquired_hosts.open_lock,
            ),
            (
                *('lab.lock', 'lab.lock._LOCK', directory / 'lab.lock'),
                lock.exclusive,
            ),
            (
                *('held', 'paths.claim', mock.Mock()),
                functools.partial(runner.lock_workspace, workspace),
            ),
        ):
            with mock.patch(f'hvstack.{target}', value):
                error = self.assertRaises(errors.InputError, self.take, hold)
            self.assertEqual(
                f'Cannot lock {directory / name}: it is not a regular file. '
                'Delete it.',
                str(error),
            )


class WriteTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.path = self.directory / 'report.html'

    def device(self, file_type: int, major: int, minor: int) -> Path:
        path = self.directory / 'device'
        try:
            os.mknod(path, file_type | 0o666, os.makedev(major, minor))
            path.open('rb').close()
        except OSError as exc:
            self.skipTest(f'device nodes cannot be made or opened: {exc}')
        return path

    def names(self) -> set[str]:
        return {path.name for path in self.directory.iterdir()}

    def test_regular_file_is_replaced(self) -> None:
        self.path.write_text('old')
        self.path.chmod(0o640)
        before = self.path.stat().st_ino
        with self.path.open() as stream:
            paths.write_output(self.path, 'new')
            self.assertEqual('old', stream.read())
        self.assertEqual('new', self.path.read_text())
        self.assertNotEqual(before, self.path.stat().st_ino)
        self.assertEqual(0o640, stat.S_IMODE(self.path.stat().st_mode))
        self.assertEqual({'report.html'}, self.names())

    def test_owner_stays(self) -> None:
        if os.geteuid():
            self.skipTest('only root gives files away')
        self.path.write_text('old')
        os.chown(self.path, 12345, 12345)
        paths.write_output(self.path, 'new')
        self.assertEqual(12345, self.path.stat().st_uid)
        # A file with a mode of its own may hold a secret.
        paths.write_whole(self.path, 'secret', 0o600)
        self.assertEqual(0, self.path.stat().st_uid)

    def test_new_file_in_new_directories(self) -> None:
        path = self.directory / 'a' / 'b' / 'report.html'
        paths.write_output(path, 'new')
        self.assertEqual('new', path.read_text())
        self.assertEqual(0o644, stat.S_IMODE(path.stat().st_mode))

    def test_character_device(self) -> None:
        null = self.device(stat.S_IFCHR, 1, 3)
        before = inode(null)
        paths.write_output(null, 'new')
        self.assertEqual(before, inode(null))
        self.assertEqual({'device'}, self.names())

    def test_full_device(self) -> None:
        full = self.device(stat.S_IFCHR, 1, 7)
        before = inode(full)
        error = self.assertRaises(
            errors.InputError, paths.write_output, full, 'new'
        )
        self.assertIn(f'Cannot write {full}: No space left', str(error))
        self.assertEqual(before, inode(full))

    def test_block_device(self) -> None:
        path = self.directory / 'device'
        try:
            os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(7, 255))
        except OSError as exc:
            self.skipTest(f'device nodes cannot be made: {exc}')
        before = inode(path)
        error = self.assertRaises(
            errors.InputError, paths.write_output, path, 'new'
        )
        self.assertIn('block device', str(error))
        self.assertEqual(before, inode(path))

    def test_fifo_with_a_reader(self) -> None:
        os.mkfifo(self.path)
        before = inode(self.path)
        # Opened for both, the reader does not wait for the writer.
        reader = os.open(self.path, os.O_RDWR)
        self.addCleanup(os.close, reader)
        text = 'x' * 200_000
        chunks: list[bytes] = []

        def read() -> None:
            while sum(map(len, chunks)) < len(text):
                chunks.append(os.read(reader, 65536))

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        paths.write_output(self.path, text)
        thread.join(10)
        self.assertEqual(text, b''.join(chunks).decode())
        self.assertEqual(before, inode(self.path))

    def test_fifo_without_a_reader(self) -> None:
        os.mkfifo(self.path)
        before = inode(self.path)
        error = self.assertRaises(
            errors.InputError, paths.write_output, self.path, 'new'
        )
        self.assertIn('no process reads this FIFO', str(error))
        self.assertEqual(before, inode(self.path))

    def test_link_stays(self) -> None:
        target = self.directory / 'www' / 'page.html'
        target.parent.mkdir()
        self.path.symlink_to('www/page.html')
        for text in ('first', 'second'):
            paths.write_output(self.path, text)
            self.assertTrue(self.path.is_symlink())
            self.assertFalse(target.is_symlink())
            self.assertEqual(text, target.read_text())

    def test_link_to_a_device(self) -> None:
        null = self.device(stat.S_IFCHR, 1, 3)
        before = inode(null)
        self.path.symlink_to(null)
        paths.write_output(self.path, 'new')
        self.assertTrue(self.path.is_symlink())
        self.assertEqual(before, inode(null))

    def test_links_in_a_circle(self) -> None:
        self.path.symlink_to('other')
        (self.directory / 'other').symlink_to('report.html')
        error = self.assertRaises(
            errors.InputError, paths.write_output, self.path, 'new'
        )
        self.assertIn('Too many levels of symbolic links', str(error))

    def test_link_of_another_user(self) -> None:
        if os.geteuid():
            self.skipTest('only root gives files away')
        target = self.directory / 'shadow'
        target.write_text('old')
        shared = self.directory / 'tmp'
        shared.mkdir()
        shared.chmod(0o1777)
        link = shared / 'report.html'
        link.symlink_to(target)
        os.chown(link, 12345, 12345, follow_symlinks=False)
        error = self.assertRaises(
            errors.InputError, paths.write_output, link, 'new'
        )
        self.assertIn("another user's symbolic link", str(error))
        self.assertEqual('old', target.read_text())

    def test_open_file_of_the_process(self) -> None:
        """As /dev/stdout: what the file has already must stay."""
        with self.path.open('a') as stream:
            stream.write('log\n')
            stream.flush()
            link = self.directory / 'stdout'
            link.symlink_to(f'/proc/self/fd/{stream.fileno()}')
            paths.write_output(link, 'new\n')
        self.assertEqual('log\nnew\n', self.path.read_text())

    def test_directory(self) -> None:
        error = self.assertRaises(
            errors.InputError, paths.write_output, self.directory, 'new'
        )
        self.assertIn('Is a directory', str(error))

    def test_directories_are_synced(self) -> None:
        """Without this a rename is lost when the power fails."""
        synced = []
        with mock.patch.object(
            os,
            'fsync',
            lambda fd: synced.append(
                str(Path(f'/proc/self/fd/{fd}').readlink())
            ),
        ):
            paths.write_whole(self.directory / 'a' / 'x.json', '{}')
        self.assertEqual(
            [str(self.directory), str(self.directory / 'a')],
            [synced[0], synced[-1]],
        )

    def test_report_to_a_device(self) -> None:
        null = self.device(stat.S_IFCHR, 1, 3)
        before = inode(null)
        records = self.directory / 'records'
        for run in Sweep().records:
            factory.save(run, records)
        for option in ('--html', '--output'):
            args = ['report', '--records', str(records), option, str(null)]
            self.assertEqual(0, main(args))
            self.assertEqual(before, inode(null))
