# SPDX-License-Identifier: Apache-2.0
"""The guest image is built while the lab starts, and ends with it."""

import io
import signal
import subprocess
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import processutils
from hvstack.cli import parallel_image
from hvstack.lab import control_plane
from hvstack.lab.settings import LabSettings
from hvstack.progress import Progress

#: Build that runs until SIGTERM, and then removes its file.
ENDLESS = """
import pathlib, signal, sys, time
path = pathlib.Path({path!r})
def end(*_):
    path.unlink()
    sys.exit(143)
signal.signal(signal.SIGTERM, end)
path.touch()
time.sleep(600)
"""


class ParallelBuildTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.process: subprocess.Popen[str] | None = None
        self.stream = io.StringIO()
        self.progress = Progress(stream=self.stream)
        self.swap('hvstack.lab.images.find', lambda _: None)
        self.swap('hvstack.lab.hosts.kvm_probe.load_answer', lambda: False)
        self.swap('hvstack.speed.factor', lambda: 1.0)

    def swap(self, name: str, value: Any) -> None:
        self.useFixture(fixtures.MonkeyPatch(name, value))

    def build(self, code: str) -> parallel_image.ParallelBuild:
        """Wait for a build that runs a program instead of hvstack."""
        self.swap('hvstack.cli.parallel_image._CODE', code)
        with parallel_image.running(self.progress) as build:
            build.start(LabSettings())
            build.finish()
        return build

    def test_lines_arguments_and_time(self) -> None:
        build = self.build(
            'import sys; print("[00:07] image hadoop:", *sys.argv[1:], '
            'file=sys.stderr); print("/path")'
        )
        lines = self.stream.getvalue().splitlines()
        self.assertEqual(
            ['guest image: image hadoop: image build hadoop --output lxc'],
            [line.partition('] ')[2] for line in lines],
        )
        self.assertGreater(build.seconds, 0)

    def test_format_of_the_hosts(self) -> None:
        self.swap('hvstack.cli.image.choose_output', lambda _: 'qemu')
        self.build('import sys; print(*sys.argv, file=sys.stderr)')
        self.assertIn(
            'hadoop --output lxc --output qemu', self.stream.getvalue()
        )

    def test_format_before_kvm_is_tried(self) -> None:
        self.swap('hvstack.lab.hosts.kvm_probe.load_answer', lambda: None)
        self.swap('hvstack.cli.image.choose_output', self.fail)
        self.build('import sys; print(*sys.argv, file=sys.stderr)')
        self.assertRegex(self.stream.getvalue(), 'hadoop --output lxc\n$')

    def test_failed_build_is_repeated(self) -> None:
        self.build('raise SystemExit(5)')
        self.assertIn(
            'exited with status 5; it is repeated', self.stream.getvalue()
        )

    def test_not_started(self) -> None:
        """The image exists, or the machine is slow."""
        for name, value in (
            ('hvstack.lab.images.find', lambda _: object()),
            ('hvstack.speed.factor', lambda: 2.5),
        ):
            with fixtures.MonkeyPatch(name, value):
                build = self.build('raise SystemExit(5)')
            self.assertEqual('', self.stream.getvalue())
            self.assertEqual(0, build.seconds)

    def check_end(self, error: type[BaseException]) -> None:
        """Check that a build ends, and is cleaned up, if the lab does not."""
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        path = directory / 'partial'
        code = ENDLESS.format(path=str(path))
        self.swap('hvstack.cli.parallel_image._CODE', code)

        def interrupt() -> None:
            with parallel_image.running(self.progress) as build:
                build.start(LabSettings())
                processutils.wait_for(
                    path.exists, 'the build', timeout=60, interval=0.05
                )
                self.process = build._process
                raise error

        self.assertRaises(error, interrupt)
        assert self.process
        self.assertEqual(143, self.process.returncode)
        self.assertFalse(path.exists())

    def test_it_ends_with_the_lab(self) -> None:
        for error in (KeyboardInterrupt, ValueError):
            self.check_end(error)

    def test_build_that_does_not_end_is_killed(self) -> None:
        self.swap('hvstack.cli.parallel_image._END_SECONDS', 0.1)
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.swap(
            'hvstack.cli.parallel_image._CODE',
            'import pathlib, signal, time\n'
            'signal.signal(signal.SIGTERM, signal.SIG_IGN)\n'
            f'pathlib.Path({str(directory)!r}, "ready").touch()\n'
            'time.sleep(600)',
        )
        with parallel_image.running(self.progress) as build:
            build.start(LabSettings())
            processutils.wait_for(
                (directory / 'ready').exists,
                *('the build',),
                timeout=60,
                interval=0.05,
            )
        assert build._process
        self.assertEqual(-signal.SIGKILL, build._process.returncode)

    def test_packages_come_first(self) -> None:
        """Two installations at the same time would start services."""
        calls: list[str] = []
        self.swap(
            'hvstack.lab.packages.install', lambda _: calls.append('install')
        )
        (stage,) = (
            stage
            for stage in control_plane.plan(
                *(LabSettings(), self.progress),
                before=lambda: None,
                after_packages=lambda: calls.append('build'),
            )
            if stage.title == 'packages'
        )
        stage.action()
        self.assertEqual(['install', 'build'], calls)
