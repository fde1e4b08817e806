# SPDX-License-Identifier: Apache-2.0
"""Build of the guest image while the lab starts."""

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from hvstack import speed
from hvstack.cli import image
from hvstack.lab import images
from hvstack.lab.hosts import kvm_probe
from hvstack.lab.settings import LabSettings
from hvstack.progress import Progress

_CODE = 'import sys; from hvstack.cli.app import main; sys.exit(main())'
#: Seconds in which an interrupted build removes its files.
_END_SECONDS = 60.0


@dataclass
class ParallelBuild:
    """Build of the guest image in a process of its own.

    It only saves time: after it, however it ended, :func:`image.ensure`
    builds what is missing.

    :param progress: receives the lines of the build.
    :param seconds: duration of the build; 0 before its end.
    """

    progress: Progress
    seconds: float = 0.0
    _process: subprocess.Popen[str] | None = None
    _reader: threading.Thread | None = None

    def start(self, lab_settings: LabSettings) -> None:
        """Start the build unless the image exists.

        The caller has installed the packages of the lab: installations at the
        same time would restore each other's policy for services, and start
        them. On a slow machine, the build would use up the deadlines of the
        lab. Before the first trial of KVM, which needs this lab, only the
        format that every lab takes is known.

        :param lab_settings: settings of the lab.
        """
        if images.find('hadoop') or speed.factor() > 1:
            return
        outputs = {'lxc'}
        if kvm_probe.load_answer() is not None:
            outputs.add(image.choose_output(lab_settings))
        options = [
            word for name in sorted(outputs) for word in ('--output', name)
        ]
        self._process = subprocess.Popen(
            [
                # It must not outlive this process, even after SIGKILL.
                *('setpriv', '--pdeathsig', 'TERM', '--'),
                # The lab comes first, whose stages have deadlines.
                *('nice', sys.executable, '-c', _CODE),
                *('image', 'build', 'hadoop', *options),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding='utf-8',
            errors='replace',
            # Ctrl-C of the terminal would interrupt its clean-up by stop().
            start_new_session=True,
        )
        self._reader = threading.Thread(
            target=self._follow, args=(self._process,), daemon=True
        )
        self._reader.start()

    def _follow(self, process: subprocess.Popen[str]) -> None:
        """Print the lines of the build until it ends."""
        started_at = time.monotonic()
        assert process.stderr is not None
        with process.stderr as lines:
            for line in lines:
                # Its clock is that of another command.
                text = line.rstrip().partition('] ')[2] or line.rstrip()
                self.progress.say(f'guest image: {text}')
        process.wait()
        self.seconds = time.monotonic() - started_at

    def finish(self) -> None:
        """Wait until the build has ended."""
        if self._process is None or self._reader is None:
            return
        self._reader.join()
        if self._process.returncode:
            self.progress.say(
                'guest image: the build exited with status '
                f'{self._process.returncode}; it is repeated'
            )

    def stop(self) -> None:
        """End a build that still runs, after it has removed its files."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def running(progress: Progress) -> Iterator[ParallelBuild]:
    """Return a build that has ended after the block, however this ends.

    :param progress: receives the lines of the build.
    """
    build = ParallelBuild(progress)
    try:
        yield build
    finally:
        build.stop()
