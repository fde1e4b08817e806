# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C takes effect at the end of a block."""

import io
import os
import signal

import fixtures
import testtools

from hvstack import interrupts
from hvstack.progress import Progress


class DeferredTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.stream = io.StringIO()
        self.progress = Progress(stream=self.stream)
        # The user waits also with --quiet, and must know why.
        self.useFixture(fixtures.MockPatchObject(Progress, 'is_quiet', True))
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            before = signal.signal(signum, signal.default_int_handler)
            self.addCleanup(signal.signal, signum, before)

    def test_block_ends_first(self) -> None:
        steps = []

        def block() -> None:
            with interrupts.deferred('undoing', self.progress):
                for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
                    os.kill(os.getpid(), signum)
                    steps.append(signum)

        self.assertRaises(KeyboardInterrupt, block)
        self.assertEqual(3, len(steps))
        self.assertEqual(2, self.stream.getvalue().count('SIGINT: undoing'))
        self.assertIs(
            signal.default_int_handler, signal.getsignal(signal.SIGINT)
        )

    def test_outermost_block_ends_first(self) -> None:
        steps = []

        def block() -> None:
            with interrupts.deferred('outer', self.progress):
                with interrupts.deferred('inner', self.progress):
                    os.kill(os.getpid(), signal.SIGINT)
                steps.append('after the inner block')

        self.assertRaises(KeyboardInterrupt, block)
        self.assertEqual(1, len(steps))

    def test_an_exception_is_not_replaced(self) -> None:
        def block() -> None:
            with interrupts.deferred('undoing', self.progress):
                os.kill(os.getpid(), signal.SIGINT)
                raise ValueError

        self.assertRaises(ValueError, block)

    def test_ignored_signal_stays_ignored(self) -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with interrupts.deferred('undoing', self.progress):
            os.kill(os.getpid(), signal.SIGHUP)
        self.assertEqual('', self.stream.getvalue())
        self.assertIs(signal.SIG_IGN, signal.getsignal(signal.SIGHUP))
