# SPDX-License-Identifier: Apache-2.0
"""Test the measurement of the speed of the machine."""

from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors, processutils, speed


class SpeedTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.swap('hvstack.speed.RECORD', directory / 'speed.json')
        self.addCleanup(speed.factor.cache_clear)
        speed.factor.cache_clear()

    def swap(self, name: str, value: Any) -> None:
        self.useFixture(fixtures.MonkeyPatch(name, value))

    def slow_by(self, factor: float) -> None:
        seconds = factor * speed.REFERENCE_SECONDS
        self.swap('hvstack.speed._work', lambda: seconds)

    def test_nothing_recorded(self) -> None:
        self.assertEqual(1, speed.factor())

    def test_ordinary_server_has_the_deadlines_as_they_are(self) -> None:
        for factor in (0.5, 1, 1.9):
            self.slow_by(factor)
            self.assertEqual(1, speed.measure())

    def test_slow_machine(self) -> None:
        self.slow_by(20)
        self.assertEqual(20, speed.record())
        self.assertEqual(20, speed.factor())

    def test_estimate_is_not_recorded(self) -> None:
        self.slow_by(20)
        self.assertEqual(20, speed.estimate())
        self.assertEqual(1, speed.factor())
        speed.record()
        self.slow_by(30)
        self.assertEqual(20, speed.estimate())

    def test_slow_system_calls(self) -> None:
        calls: list[str] = []
        self.swap('hvstack.speed.os.lstat', calls.append)
        self.swap('hvstack.speed.time.perf_counter', lambda: len(calls) / 1e5)
        # Only the system calls take time: 10 microseconds each.
        self.assertAlmostEqual(0.05, speed._work())
        self.assertEqual(6.7, speed.measure())

    def test_it_is_measured_once(self) -> None:
        self.slow_by(20)
        speed.record()
        self.slow_by(21)
        self.assertEqual(20, speed.record())

    def test_limit(self) -> None:
        self.slow_by(1000)
        self.assertEqual(60, speed.measure())

    def test_another_boot(self) -> None:
        self.slow_by(20)
        speed.record()
        self.swap('hvstack.pid_files.boot', lambda: 'another')
        speed.factor.cache_clear()
        self.assertEqual(1, speed.factor())

    def test_this_machine_is_measured(self) -> None:
        self.assertGreaterEqual(speed.measure(), 1)

    def test_programs_and_waits_get_the_factor(self) -> None:
        self.assertRaises(
            errors.DeadlineExceededError,
            processutils.run,
            ['sleep', '0.2'],
            timeout=0.02,
        )
        self.slow_by(50)
        speed.record()
        processutils.run(['sleep', '0.2'], timeout=0.02)
        results = iter((False, False, True))
        processutils.wait_for(
            lambda: next(results), 'a test', timeout=0.02, interval=0.1
        )
