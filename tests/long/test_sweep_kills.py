# SPDX-License-Identifier: Apache-2.0
"""A sweep that is killed and resumed again and again. The lab is up.

SIGKILL and SIGHUP come at random moments of every stage. After each of them,
everything that the sweep changed is as before, and no run that the command
has reported is lost. The table of all kills is printed.

The environment variables ``HVSTACK_SWEEP_KILLS``, ``HVSTACK_SWEEP_HANGUPS``,
``HVSTACK_SWEEP_SEED`` and ``HVSTACK_SWEEP_SECONDS`` are the number of SIGKILLs
(default: 20), of SIGHUPs (default: 5), the seed of the moments (default: 1),
and the seconds after which no further kill begins (default: 5400).
"""

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from hvstack import processutils
from hvstack.cloud import allocation_ratios, journal, keypairs, placement
from hvstack.cluster import acquired_hosts
from hvstack.model.configuration import parse
from hvstack.model.target import BARE_METAL
from hvstack.results import record
from hvstack.sweep import executor, sweep_store
from tests.long.sweeps import BY_HAND, HVSTACK, SweepCase

#: The stage that begins with a line of progress.
_STAGES = {
    'next: ': 'start workload',
    'bare metal: prepare the hosts ...': 'take hosts',
    'bare metal: start Hadoop': 'start Hadoop',
    'warm-up ...': 'warm-up',
    'give the hosts back': 'give hosts back',
    ': stack hv-': 'create stack',
    'deleting the stack': 'delete stack',
    'HSGen ...': 'HSGen',
    'HSSort ...': 'HSSort',
    'HSValidate ...': 'HSValidate',
}
_BARE_METAL_LABEL = 'bare metal'
#: Changes that no line of progress announces.
_FLAVORS = 'set flavors and ratios'
#: The stages of a workload at which kills are aimed, with the seconds that a
#: stage takes at least. Those at whose end a run is done come first, or the
#: sweep would never get to the next workload.
_BARE_METAL = {'give hosts back': 3.0, 'take hosts': 4.0}
_CONFIGURATION = {_FLAVORS: 1.0, 'create stack': 30.0, 'delete stack': 4.0}
_PHASES = {'HSGen': 6.0, 'HSSort': 10.0, 'HSValidate': 6.0}
#: Seconds from the start of a command to a kill that is not aimed.
_MIN_SECONDS, _MAX_SECONDS = 15.0, 150.0
#: Seconds after which the stage of a kill that is aimed has not come.
_STAGE_SECONDS = 900.0
#: The line at the end of a run that is in the records.
_RUN = re.compile(r'\] +(.+), run (\d+): [\d.]+ MB: \d+ s$')
_INTERRUPTED = 130
#: Rally has 180 s to clean up, and the command undoes what is left then.
_END_SECONDS = 600.0
#: With more of them, the lab itself may be broken.
_MAX_PROBLEMS = 10


@dataclass
class _Command:
    """A sweep's command, with what it has printed.

    :param process: in a session of its own.
    """

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    stage: str = 'start hvstack'

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip())
            for text, stage in _STAGES.items():
                if text in line:
                    self.stage = stage

    def current_stage(self) -> str:
        """Return the stage, also one without a line of progress."""
        is_between = self.stage in ('start workload', 'give hosts back')
        kinds = {entry.kind for entry in journal.entries()}
        if is_between and kinds & {'flavor', 'ratio'}:
            return _FLAVORS
        return self.stage

    def descendants(self) -> list[int]:
        """Return the processes that the command has started."""
        parents = {}
        for path in Path('/proc').glob('[0-9]*'):
            with contextlib.suppress(OSError):
                text = (path / 'stat').read_text('utf-8', 'replace')
                parents[int(path.name)] = int(
                    text.rpartition(')')[2].split()[1]
                )
        members = [self.process.pid]
        for pid in members:
            members += [child for child, of in parents.items() if of == pid]
        return members[1:]


class SweepKillsTest(SweepCase):
    """Takes about an hour."""

    def setUp(self) -> None:
        super().setUp()
        self.random = random.Random(
            int(os.environ.get('HVSTACK_SWEEP_SEED', '1'))
        )
        self.rows: list[tuple[str, ...]] = []
        self.problems: list[str] = []
        self.stage_hits: dict[str, int] = {}
        #: Runs that a command has reported: sweep, configuration and index.
        self.reported: set[tuple[str, str, int]] = set()
        self.records: dict[str, bytes] = {}
        self.sweep = ''
        self.before = self.snapshot()
        self.command: _Command | None = None
        self.addCleanup(self.end_command)

    def end_command(self) -> None:
        """End a command that a failure of the test has left."""
        if self.command is not None and self.command.process.poll() is None:
            self.command.process.kill()
            self.command.process.wait()

    def snapshot(self) -> dict[str, list[str]]:
        """Return the resources that a sweep must not change, by kind."""
        compute = self.cloud.compute
        providers = placement.providers(self.cloud)
        content = placement.get(self.cloud, '/resource_providers')
        snapshot = {
            'stacks': [
                item.name for item in self.cloud.orchestration.stacks()
            ],
            'servers': [
                item.name for item in compute.servers(all_projects=True)
            ],
            'flavors': [item.name for item in compute.flavors(is_public=None)],
            'key pairs': [item.name for item in compute.keypairs()],
            'server groups': [
                item.name for item in compute.server_groups(all_projects=True)
            ],
            'services': [
                f'{item.host} {item.status} {item.state}'
                for item in compute.services()
            ],
            'ports': [
                item.id
                for item in self.cloud.network.ports()
                if str(item.device_owner).startswith('compute:')
            ],
            # Neutron creates a project's default group when it is listed.
            'security groups': [
                item.id
                for item in self.cloud.network.security_groups()
                if item.name != 'default'
            ],
            'ratios': [str(allocation_ratios.current(self.cloud, providers))],
            'providers': [
                item['name'] for item in content['resource_providers']
            ],
            'journal': [
                f'{entry.kind} {entry.data.get("name")}'
                for entry in journal.entries()
            ],
            'taken hosts': [
                path.name
                for path in acquired_hosts.ACQUIRED_HOSTS_DIR.glob('*.json')
            ],
            # The key that signs records stays.
            'key files': [
                path.name
                for path in keypairs.DIRECTORY.glob('*')
                if not path.name.startswith('ed25519')
            ],
        }
        if self.cloud.has_service('block-storage'):
            snapshot['volumes'] = [
                item.id
                for item in self.cloud.block_storage.volumes(all_projects=True)
            ]
        return {
            category: sorted(items) for category, items in snapshot.items()
        }

    def start(self) -> _Command:
        """Start the next command of the sweep."""
        args = ['sweep', 'resume', self.sweep, '--os-cloud', 'hvstack-lab']
        if not self.sweep:
            args = self.sweep_args('instances=1,2')
        self.command = _Command(
            subprocess.Popen(
                # Whoever runs the tests in the background may ignore it.
                ['env', '--default-signal=HUP', HVSTACK, *args],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )
        return self.command

    def is_bare_metal_next(self) -> bool:
        """Return whether the next workload runs on bare metal."""
        if not self.sweep:
            return True
        (sweep,) = [
            item for item in sweep_store.list_sweeps() if item.id == self.sweep
        ]
        workloads = executor.load_status(sweep).workloads
        return not workloads or workloads[0][0].label == _BARE_METAL_LABEL

    def choose(self) -> tuple[str, float]:
        """Choose the stage to kill, and the seconds after its beginning.

        :returns: an empty stage stands for the command's start.
        """
        if self.random.random() < 0.4:
            return '', self.random.uniform(_MIN_SECONDS, _MAX_SECONDS)
        own = _BARE_METAL if self.is_bare_metal_next() else _CONFIGURATION
        seconds = {**own, **_PHASES}
        stage = min(seconds, key=lambda name: self.stage_hits.get(name, 0))
        return stage, self.random.uniform(0, seconds[stage])

    def test_kills(self) -> None:
        kills = int(os.environ.get('HVSTACK_SWEEP_KILLS', '20'))
        hangups = int(os.environ.get('HVSTACK_SWEEP_HANGUPS', '5'))
        signals = [signal.SIGKILL] * kills + [signal.SIGHUP] * hangups
        self.random.shuffle(signals)
        seconds = float(os.environ.get('HVSTACK_SWEEP_SECONDS', '5400'))
        end = time.monotonic() + seconds
        while len(self.rows) < len(signals) and time.monotonic() < end:
            self.assertLess(len(self.problems), _MAX_PROBLEMS)
            self.interrupt(signals[len(self.rows)])
        self.finish_sweep()
        lost_runs = sorted(self.reported - self.valid_runs())
        print(
            f'{len(self.reported)} runs reported, {len(lost_runs)} lost, '
            f'{len(self.rows)} kills, {len(self.problems)} problems, stages: '
            f'{self.stage_hits}',
            file=sys.stderr,
            flush=True,
        )
        self.assertEqual([], lost_runs)
        self.assertEqual([], self.problems)
        self.assertEqual(len(signals), len(self.rows), 'it took too long')

    def interrupt(self, signum: signal.Signals) -> None:
        """Start a command and send it a signal, unless it ends before."""
        aim, delay = self.choose()
        command = self.start()
        begin = time.monotonic()
        due = begin + (delay if not aim else _STAGE_SECONDS)
        while command.process.poll() is None and time.monotonic() < due:
            if aim and command.current_stage() == aim:
                due = time.monotonic() + delay
                aim = ''
            time.sleep(0.05)
        if command.process.poll() is not None:
            self.collect(command)
            self.check_end(command)
            return
        stage = command.current_stage()
        seconds = time.monotonic() - begin
        method = self.send(command, signum)
        undone = self.recovered(command, signum)
        self.collect(command)
        self.stage_hits[stage] = self.stage_hits.get(stage, 0) + 1
        changed = self.differences()
        for line in changed:
            self.problem(f'after {method} in {stage}: {line}')
        row = (
            str(len(self.rows) + 1),
            method,
            stage,
            f'{seconds:.0f} s',
            '; '.join(undone) or 'nothing to undo',
            '; '.join(changed) or 'as before',
        )
        self.rows.append(row)
        print(' | '.join(row), file=sys.stderr, flush=True)

    def send(self, command: _Command, signum: signal.Signals) -> str:
        """Send a signal, and wait until no process of the command runs."""
        others = command.descendants()
        process = command.process
        if signum == signal.SIGHUP:
            # As the kernel does when the terminal goes.
            os.killpg(process.pid, signum)
            method = 'SIGHUP'
        elif self.random.random() < 0.5:
            process.send_signal(signum)
            method = 'SIGKILL of the command'
        else:
            for pid in (process.pid, *others):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signum)
            method = 'SIGKILL of all processes'
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.problem(f'{method} does not end the command')
            process.kill()
            process.wait()
        processutils.wait_for(self.quiet, 'Rally to end', timeout=30)
        command.thread.join(10)
        return method

    def quiet(self) -> bool:
        return super().quiet() and not acquired_hosts.holders()

    def recovered(
        self, command: _Command, signum: signal.Signals
    ) -> list[str]:
        """Return the changes that the next command undid.

        After SIGHUP, the command itself has undone everything.
        """
        if signum == signal.SIGHUP:
            if command.process.returncode != _INTERRUPTED:
                self.problem(f'SIGHUP: status {command.process.returncode}')
            return []
        done = processutils.run(
            [HVSTACK, 'sweep', 'recover', '--os-cloud', 'hvstack-lab'],
            timeout=600,
            check=False,
        )
        if done.returncode:
            self.problem(f'recover: {done.returncode} {done.stderr[-500:]}')
        return [
            line.removeprefix('restored: ')
            for line in done.stdout.splitlines()
        ]

    def differences(self) -> list[str]:
        """Return the resources that differ from those before the sweep."""
        after = self.snapshot()
        changed = [
            f'{name}: {self.before[name]} before, {after[name]} after'
            for name in self.before
            if self.before[name] != after[name]
        ]
        _, invalid = record.load_usable(sweep_store.RECORDS_DIR)
        return changed + [item.reason for item in invalid]

    def collect(self, command: _Command) -> None:
        """Note the runs that a command has reported, and compare records."""
        if not self.sweep:
            unfinished = [
                item for item in sweep_store.list_sweeps() if not item.finished
            ]
            if not unfinished:
                return
            self.sweep = unfinished[-1].id
        for line in command.lines:
            match = _RUN.search(line)
            if match:
                name = match[1]
                if name == _BARE_METAL_LABEL:
                    configuration = BARE_METAL
                else:
                    configuration = parse(name).name
                index = int(match[2]) - 1
                self.reported.add((self.sweep, configuration, index))
        files = self.files(self.sweep)
        for name, content in self.records.items():
            if name in files and files[name] != content:
                self.problem(f'{name} has changed')
        missing = self.reported - self.valid_runs()
        if missing:
            self.problem(f'lost: {sorted(missing)}')
        self.records.update(files)

    def valid_runs(self) -> set[tuple[str, str, int]]:
        return {
            (item.sweep, item.configuration, item.index)
            for item in record.load_usable(sweep_store.RECORDS_DIR)[0]
            if item.valid
        }

    def problem(self, text: str) -> None:
        self.problems.append(text)
        print(f'PROBLEM: {text}', file=sys.stderr, flush=True)

    def check_end(self, command: _Command) -> None:
        """Check a command that has ended by itself; the next sweep is new."""
        command.process.wait()
        command.thread.join(10)
        if command.process.returncode:
            self.problem(
                f'status {command.process.returncode}: {command.lines[-5:]}'
            )
        for line in self.differences():
            self.problem(f'at the end of {self.sweep}: {line}')
        print(f'{self.sweep} has finished', file=sys.stderr, flush=True)
        self.sweep = ''

    def finish_sweep(self) -> None:
        """Let the sweep go on to its end."""
        if self.sweep:
            command = self.start()
            command.process.wait(1800)
            command.thread.join(10)
            self.collect(command)
            self.check_end(command)
        now = allocation_ratios.current(self.cloud, self.providers)
        self.assertEqual({BY_HAND}, {item['VCPU'] for item in now.values()})
