#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run hvstack's tests: unit, package, then those that need a lab of their own.

Prints what each stage took and ends with "N passed, N failed, N skipped",
counted from stestr's result stream. Every stage has a deadline; after it the
log's tail is shown, what was started is ended, and the run has failed.
"""

import argparse
import math
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import subunit
import testtools

from hvstack import errors, processutils, progress, speed
from hvstack.lab import lifecycle, packages, settings

TOP = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
#: The tests' lab: databases, stacks and records apart from the user's.
TEST_STATE = '/var/lib/hvstack-test'
#: In the place of /etc/hvstack, so that it has no file.
NO_DIRECTORY = '/nonexistent/etc'
#: What Tempest's own checks look at.
PLUGIN = 'hvstack.tempest_plugin'
#: Seconds for everything together without the long tests, and for these.
DEADLINE, LONG_DEADLINE = 75 * 60, 24 * 3600
#: Deadlines of the single stages, in seconds by processutils.clock(). That of
#: the long tests is for each module: one of them waits 4 hours for a sweep.
LIMITS = {
    'lint': 300,
    'unit': 600,
    'coverage': 14_400,
    'search': 14_400,
    'package': 1200,
    'images': 1200,
    'lab': 1200,
    'functional': 2700,
    'long': 18_000,
    'destroy': 300,
}


#: Prints the processes that use the lab of a state directory.
HOLDERS = """
from hvstack.cloud import journal
from hvstack.cluster import acquired_hosts
print(*sorted(journal.holders() | acquired_hosts.holders()))
"""


class Output(testtools.StreamResult):
    """What a program prints between the results of its tests."""

    def __init__(self) -> None:
        super().__init__()
        self._content = b''

    def status(self, *args: Any, **kwargs: Any) -> None:
        if kwargs.get('test_id') is None and kwargs.get('file_bytes'):
            self._content += kwargs['file_bytes']

    @property
    def text(self) -> str:
        """The lines, after a line break if there are any."""
        text = self._content.decode(errors='replace').strip()
        return f'\n{text}' if text else ''


class Suite:
    """One test run: its counts, its failures, its clock.

    :param long: give the slow tests their time.
    """

    def __init__(self, long: bool) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self.progress = progress.Progress()
        # As hvstack does with its deadlines. No lab has measured it yet.
        self.slowness = speed.measure()
        seconds = DEADLINE + LONG_DEADLINE * long
        self.end = time.monotonic() + seconds * self.slowness
        # Nothing of the user's configuration: a database that it names would
        # get the records of the tests.
        self.env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith('OS_')
        } | {
            'HVSTACK_STATE_DIR': TEST_STATE,
            'HVSTACK_ETC_DIR': NO_DIRECTORY,
            'HVSTACK_LAB': '1',
            'OS_CLOUD': 'hvstack-lab',
            'OS_CLIENT_CONFIG_FILE': f'{TEST_STATE}/lab/clouds.yaml',
            'PATH': f'{BIN}:{os.environ["PATH"]}',
        }

    @contextmanager
    def _limited(
        self, stage: str, process: subprocess.Popen
    ) -> Iterator[list[str]]:
        """End a program that takes too long; yield where the reason will be.

        A stage's own limit leaves out the time for which a hypervisor took
        the CPUs away, the limit of everything does not. Cleaning up has its
        own time after that.
        """
        limit = LIMITS[stage] * self.slowness
        end = processutils.clock() + limit
        last = math.inf if stage == 'destroy' else self.end
        late: list[str] = []
        done = threading.Event()

        def watch() -> None:
            while not late and not done.wait(1):
                if processutils.clock() > end:
                    late.append(f'{limit:.0f} s without stolen time')
                elif time.monotonic() > last:
                    late.append('the time for everything is over')
                if late:
                    end_session(process)

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield late
        except BaseException:
            end_session(process)
            raise
        finally:
            done.set()
            thread.join()

    def fail(self, message: str) -> None:
        """Count and show one failure."""
        self.counts['failed'] += 1
        self.failures.append(message.splitlines()[0])
        print(f'FAIL {message}', flush=True)

    def check(self, stage: str, *argv: str, **env: str) -> bool:
        """Run a program that must succeed; count it as one test."""
        # A linter gets all files by name.
        command = textwrap.shorten(' '.join(argv), 120, placeholder=' ...')
        try:
            with self.progress.stage(f'{stage}: {command}'):
                self._stream(stage, argv, {**self.env, **env})
        except errors.HVStackError as exc:
            self.fail(str(exc))
            return False
        self.counts['passed'] += 1
        return True

    def _stream(
        self, stage: str, argv: tuple[str, ...], env: dict[str, str]
    ) -> None:
        """Run a program with its output shown as it comes."""
        with (
            subprocess.Popen(
                argv,
                cwd=TOP,
                env=env,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            ) as process,
            self._limited(stage, process) as late,
        ):
            status = process.wait()
        if late:
            raise errors.DeadlineExceededError(
                f'{" ".join(argv)} took too long: {late[0]}'
            )
        if status:
            raise errors.CommandError(list(argv), status, 'see above')

    def stestr(
        self,
        stage: str,
        path: str,
        *args: str,
        module: str = '',
        **env: str,
    ) -> None:
        """Run the tests below a directory, one line each as they end.

        :param module: name of the only module to run, in one process and
            without a look at the others; all of its tests may be skipped.
        """
        title = module or f'{stage} tests'
        if module:
            args = (*args, '--no-discover', module)
        with (
            self.progress.stage(title),
            subprocess.Popen(
                [
                    str(BIN / 'stestr'),
                    '--test-path',
                    path,
                    'run',
                    '--subunit',
                    *args,
                ],
                cwd=TOP,
                env={**self.env, **env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                start_new_session=True,
            ) as process,
            self._limited(stage, process) as late,
        ):
            before = self.counts.copy()
            output = Output()
            result = testtools.CopyStreamResult(
                [testtools.StreamToDict(self._count_test), output]
            )
            result.startTestRun()
            subunit.ByteStreamToStreamResult(
                process.stdout, non_subunit_name='output'
            ).run(result)
            result.stopTestRun()
            status = process.wait()
            if late:
                self.fail(f'{title} took too long: {late[0]}')
                return
            new = self.counts - before
            if not (new['passed'] or new['failed'] or (module and new)):
                self.fail(
                    f'{title}: no test was run (status {status}){output.text}'
                )
            elif status and not new['failed']:
                # With --subunit, tests that fail are no reason for a status.
                self.fail(
                    f'{title}: stestr exited with status {status}{output.text}'
                )

    def _count_test(self, test: dict) -> None:
        status = test['status']
        if status in ('exists', 'inprogress', None) or test['id'] == 'output':
            if status == 'inprogress':
                self.fail(f'{test["id"]} was cut off')
            return
        begin, end = test['timestamps']
        seconds = (end - begin).total_seconds() if begin and end else 0.0
        if status in ('success', 'xfail'):
            self.counts['passed'] += 1
        elif status == 'skip':
            self.counts['skipped'] += 1
        else:
            text = '\n'.join(
                detail.as_text() for detail in test['details'].values()
            )
            self.fail(f'{test["id"]}\n{text}')
            return
        if status == 'skip' or seconds >= 1:
            reason = test['details'].get('reason')
            print(
                f'{status} {test["id"]} [{seconds:.1f} s]'
                + (f' {reason.as_text()}' if reason else ''),
                flush=True,
            )

    def install(self, *names: str) -> None:
        """Install packages of Debian that tests use, if this user can."""
        if os.geteuid() or not shutil.which('apt-get'):
            return
        try:
            packages.install(names)
        except errors.HVStackError as exc:
            self.fail(str(exc))

    def lint(self) -> None:
        """Check style, types and what Tempest asks of plugins."""
        self.check('lint', str(BIN / 'ruff'), 'check', '-q', '.')
        self.check('lint', str(BIN / 'ruff'), 'format', '-q', '--check', '.')
        self.check('lint', str(BIN / 'mypy'))
        self.check(
            'lint', str(BIN / 'check-uuid'), '--package', f'{PLUGIN}.tests'
        )
        self.check(
            'lint',
            *(str(BIN / 'flake8'), '--config', 'tools/tempest-hacking.cfg'),
            PLUGIN.replace('.', '/'),
        )
        # shellcheck does not exist for some processors.
        if (BIN / 'shellcheck').exists():
            programs = sorted((TOP / 'hvstack/share/shell').glob('*.sh'))
            elements = TOP / 'hvstack/share/diskimage-builder/elements'
            programs += sorted(elements.glob('*/*.d/*'))
            programs += sorted(elements.glob('*/static/usr/lib/hvstack/*'))
            self.check('lint', str(BIN / 'shellcheck'), *(map(str, programs)))

    def is_lab_free(self) -> bool:
        """Return whether no process uses the lab that runs, or count it."""
        try:
            state = lifecycle.owner()
            pids = list_holders(state) if state else []
        except errors.HVStackError as exc:
            self.fail(str(exc))
            return False
        if pids:
            self.fail(
                f'Cannot stop the lab of {state}: it is in use by process '
                f'{", ".join(map(str, pids))}. Wait until this has ended.'
            )
        return not pids

    def lab(self, long: bool, release: str = settings.RELEASE) -> None:
        """Bring up the tests' lab, run what needs it, leave nothing.

        :param release: release of OpenStack of the lab.
        """
        hvstack = str(BIN / 'hvstack')
        # The user's lab is stopped, not deleted; an older lab of the tests'
        # is deleted: a test must not find what another one left.
        if not self.is_lab_free():
            return
        self.check('destroy', hvstack, 'lab', 'down', HVSTACK_STATE_DIR='')
        if not self.check(
            'destroy',
            *(hvstack, 'lab', 'destroy', '--keep-cache', '--records'),
        ):
            return
        try:
            # Tests of disks and of power failures make file systems of XFS.
            self.install('xfsprogs')
            ready = all(
                self.check('images', hvstack, 'image', 'build', name)
                for name in ('tiny', 'hadoop')
            ) and self.check(
                'lab',
                hvstack,
                *('lab', 'up', '--hosts', '3', '--fake-hosts', '2'),
                *('--fake-profile', 'vsphere6'),
                *('--compute', 'lxc', '--release', release),
            )
            if ready:
                self.stestr('functional', './tests/functional', '--serial')
            if ready and long:
                for module in sorted((TOP / 'tests/long').glob('test_*.py')):
                    name = f'tests.long.{module.stem}'
                    self.stestr('long', './tests/long', module=name)
        finally:
            is_destroyed = self.check(
                'destroy',
                *(hvstack, 'lab', 'destroy', '--keep-cache', '--records'),
            )
        if is_destroyed:
            self.stestr('destroy', './tests/after', '--serial')

    def report(self) -> int:
        """Print durations, failures and counts, and return the status."""
        for title, seconds in self.progress.took:
            print(f'{seconds:7.1f} s  {title}')
        for failure in self.failures:
            print(f'FAILED: {failure}')
        counts = self.counts
        print(
            f'{counts["passed"]} passed, {counts["failed"]} failed, '
            f'{counts["skipped"]} skipped',
            flush=True,
        )
        return 1 if counts['failed'] or not counts['passed'] else 0


def list_holders(state: Path) -> list[int]:
    """Return the processes that use a lab.

    :param state: state directory of the lab.
    :raises hvstack.errors.CommandError: a file of the journal is damaged.
    """
    done = processutils.run(
        [sys.executable, '-c', HOLDERS],
        cwd=TOP,
        env={'HVSTACK_STATE_DIR': str(state)},
    )
    return [int(pid) for pid in done.stdout.split()]


def end_session(process: subprocess.Popen[bytes]) -> None:
    """End a program and its children: first asked, then forced."""
    for signum in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(process.pid, signum)
            process.wait(60)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def main() -> int:
    """Run the tests that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--unit', action='store_true', help='nothing else')
    parser.add_argument(
        '--package', action='store_true', help='Run only the package tests.'
    )
    parser.add_argument('--long', action='store_true', help='slow ones too')
    parser.add_argument(
        '--release',
        choices=settings.RELEASES,
        help='Run only the tests against a lab, with this OpenStack.',
    )
    args = parser.parse_args()
    os.chdir(TOP)
    suite = Suite(args.long)
    try:
        run_stages(suite, args)
    except KeyboardInterrupt:
        suite.fail('The tests were interrupted.')
        suite.report()
        return 130
    except (errors.HVStackError, OSError) as exc:
        suite.fail(f'The tests stopped: {exc}')
    return suite.report()


def run_stages(suite: Suite, args: argparse.Namespace) -> None:
    """Run the stages that the command line asks for."""
    if args.release:
        suite.lab(args.long, args.release)
        return
    if not args.package:
        suite.lint()
        # The guests' own programs are run with what their images have, and
        # keys are made by ssh-keygen: a bare Debian has neither.
        suite.install('curl', 'openssh-client')
        suite.stestr('unit', './tests/unit', HVSTACK_LAB='')
        suite.check('unit', sys.executable, '-m', 'tests.golden')
    if not args.unit:
        suite.stestr('package', './tests/package', '--serial')
    if args.long:
        # All cells at their full size take 2 hours of CPU time.
        suite.check('coverage', sys.executable, 'benchmarks/coverage.py')
        # What a search expects to lose, against what it loses: 2 hours.
        suite.check(
            *('search', sys.executable, 'benchmarks/strategies.py', '2000'),
            *('--strategy', 'model-based'),
        )
    if not args.unit and not args.package:
        suite.lab(args.long)


if __name__ == '__main__':
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
