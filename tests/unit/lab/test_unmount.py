# SPDX-License-Identifier: Apache-2.0
"""Test which file systems are unmounted."""

from pathlib import Path

import testtools

from hvstack.lab import unmount

STATE = Path('/var/lib/hvstack')


class LeftoversTest(testtools.TestCase):
    def test_mounts_inside_only_and_innermost_first(self) -> None:
        table = (
            'proc /proc proc rw 0 0\n'
            # A disk that the user mounted there.
            '/dev/sdb /var/lib/hvstack xfs rw 0 0\n'
            '/dev/loop0 /var/lib/hvstack/lab/a ext4 rw 0 0\n'
            'proc /var/lib/hvstack/lab/a/proc proc rw 0 0\n'
            'tmpfs /var/lib/hvstack-test/lab tmpfs rw 0 0\n'
            'tmpfs /var/lib/hvstack/with\\040blank tmpfs rw 0 0\n'
        )
        self.assertEqual(
            [
                '/var/lib/hvstack/lab/a/proc',
                '/var/lib/hvstack/with blank',
                '/var/lib/hvstack/lab/a',
            ],
            unmount.mounts(STATE, table),
        )

    def test_names_that_are_not_ascii(self) -> None:
        """A mount below such a directory was not found, and was deleted."""
        state = Path('/home/jürgen/hvstack')
        table = (
            'tmpfs /home/jürgen/hvstack/a\\134b\\040c tmpfs rw 0 0\n'
            # Not UTF-8, as in a directory from an older system.
            'tmpfs /media/J\udcfcrgen tmpfs rw 0 0\n'
        )
        self.assertEqual(
            ['/home/jürgen/hvstack/a\\b c'], unmount.mounts(state, table)
        )

    def test_loop_devices_inside_only(self) -> None:
        listing = """{"loopdevices": [
            {"name": "/dev/loop0", "back-file": "/var/lib/hvstack/lab/disk"},
            {"name": "/dev/loop1", "back-file": "/home/user/disk"},
            {"name": "/dev/loop2", "back-file": null}]}"""
        self.assertEqual(['/dev/loop0'], unmount.loops(STATE, listing))

    def test_no_loop_device_at_all(self) -> None:
        self.assertEqual([], unmount.loops(STATE, ''))
