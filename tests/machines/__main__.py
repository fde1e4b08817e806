# SPDX-License-Identifier: Apache-2.0
"""Run hvstack in a machine that boots for real: ``make test-machines``.

Each stage prints its seconds. A stage that succeeded with the present commit
is not run again, so that an interrupted run continues; a test that was
completed starts again. ``--again STAGE`` starts from a stage, and keeps what
succeeded before it with any commit.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from hvstack import errors, processutils
from hvstack.lab import packages
from hvstack.progress import Progress
from tests.machines import (
    disk,
    emulator,
    first_run,
    qemu,
    uml,
    volumes,
)

TOP = Path(__file__).resolve().parents[2]
WORK_DIR = Path(
    os.environ.get('HVSTACK_MACHINES_DIR') or '/var/cache/hvstack-machines'
)
SUITES = ('bookworm', 'trixie')
EMULATORS: dict[str, type[emulator.Emulator]] = {
    'uml': uml.UserMode,
    'qemu': qemu.Qemu,
    'kvm': qemu.Kvm,
}
#: Memory of a machine with two lab hosts that can run Hadoop, and of one that
#: only has cgroups. A machine uses less than a third of it.
LAB_MIB = 16_384
CAPS_MIB = 3072
_PYTHON = f'cd {disk.CLONE} && .venv/bin/python'
_HVSTACK = f'cd {disk.CLONE} && .venv/bin/hvstack'
_HOUR = 3600
#: First stage that uses hvstack's sources.
_SOURCES_STAGE = 'software'


@dataclass(frozen=True)
class Mark:
    """A stage that succeeded.

    :param seconds: its duration in seconds.
    :param sources: result of :func:`describe_sources`.
    """

    seconds: float
    sources: str


def describe_sources() -> str:
    """Return the commit of the sources, with a mark if files differ from it.

    :raises hvstack.errors.CommandError: the sources are not a clone.
    """
    git = ('git', '-C', str(TOP))
    commit = processutils.run([*git, 'rev-parse', 'HEAD']).stdout.strip()
    changes = processutils.run(
        [*git, 'status', '--porcelain', '--untracked-files=no']
    ).stdout
    return f'{commit} with changes' if changes else commit


class Machine:
    """One release in an emulated machine, and the stages of its test.

    :param suite: Debian release by code name.
    :param kind: emulator, a key of :data:`EMULATORS`.
    """

    def __init__(self, suite: str, kind: str) -> None:
        self.suite = suite
        self.kind = kind
        self.work_dir = WORK_DIR / f'{suite}-{kind}'
        self.emulator = EMULATORS[kind](self.work_dir)
        has_lvm = isinstance(self.emulator, qemu.Kvm)
        self.disk = disk.Disk(self.work_dir, suite, has_lvm)
        self.marks = self.work_dir / 'stages.json'

    def stages(self) -> dict[str, Callable[[], None]]:
        """Return the stages in their order by name."""
        builds: dict[str, Callable[[], None]] = {
            'packages': self.install_packages,
            'system': self.disk.build_system,
            'software': self.disk.build_software,
            'images': self.build_images,
            'kernel': self.emulator.prepare,
            'disk': self.disk.build_disk,
        }
        if isinstance(self.emulator, qemu.Kvm):
            disk_stage = builds.pop('disk')
            return {
                **builds,
                'control-plane': self.disk.build_control_plane,
                'disk': disk_stage,
                'boot': self.boot,
                'cells': self.check_cells,
                'exports': self.check_exports,
                'doctor': lambda: self.run('lab doctor', 1),
                'up': lambda: self.run(
                    'lab up --hosts 2 --compute kvm --host-mode dedicated '
                    '--with lvm',
                    8,
                ),
                # Pinned disks beside dedicated CPUs and huge pages: only
                # with them can all items of the checklist hold.
                'first-run': self.check_first_run,
                'volumes-host-off': lambda: self.check_volumes('host-off', 4),
                'volumes-elsewhere': lambda: self.check_volumes(
                    'elsewhere', 12
                ),
                'volumes-in-use': lambda: self.check_volumes('in-use', 4),
                'no-volumes': lambda: self.run('lab up --without lvm', 4),
                'no-volumes-left': lambda: self.check_volumes('removed', 1),
                'up-volumes-again': lambda: self.run('lab up --with lvm', 4),
                'destroy-records': lambda: self.run(
                    'lab destroy --records', 1
                ),
                'nothing': lambda: self.check_remains('nothing'),
                'off': self.emulator.power_off,
            }
        return {
            **builds,
            'caps-systemd': self.caps_with_systemd,
            'caps-files': self.caps_without_systemd,
            'boot': self.boot,
            'doctor': lambda: self.run('lab doctor', 1),
            'up': lambda: self.run('lab up --hosts 2 --compute lxc', 8),
            'processes': self.check_processes,
            'demo': lambda: self.run(
                'demo --configurations i1 --passes 1 --size 20MB', 8
            ),
            'destroy': lambda: self.run('lab destroy', 1),
            'records': lambda: self.check_remains('records'),
            'destroy-records': lambda: self.run('lab destroy --records', 1),
            'nothing': lambda: self.check_remains('nothing'),
            'off': self.emulator.power_off,
        }

    def install_packages(self) -> None:
        """Install what builds and boots the disk on this machine."""
        packages.install(self.emulator.PACKAGES)

    def run(self, command: str, hours: float) -> None:
        """Run hvstack in the machine.

        :param command: subcommand and its arguments.
        :param hours: deadline.
        """
        self.emulator.run(f'{_HVSTACK} {command}', hours * _HOUR)

    def boot(self) -> None:
        """Boot with systemd and enough memory for a lab."""
        self.emulator.boot(LAB_MIB)
        disk.copy_sources(self.emulator.ssh('')[:-1])
        self.emulator.run(f'{_PYTHON} -m tests.machines.claim', _HOUR)

    def caps_with_systemd(self) -> None:
        """Measure caps where lab hosts are units of systemd."""
        self._measure_caps('')

    def caps_without_systemd(self) -> None:
        """Measure caps on the files of cgroup version 2."""
        self._measure_caps(emulator.WITHOUT_SYSTEMD)

    def _measure_caps(self, kernel_args: str) -> None:
        self.emulator.boot(CAPS_MIB, kernel_args)
        disk.copy_sources(self.emulator.ssh('')[:-1])
        self.emulator.run(f'{_PYTHON} -m tests.machines.caps', _HOUR)
        self.emulator.run(f'{_PYTHON} -m tests.machines.host', _HOUR)

    def build_images(self) -> None:
        """Build the guest images in the formats of the machine's lab."""
        has_disks = isinstance(self.emulator, qemu.Kvm)
        self.disk.build_images(['lxc', *(['qemu'] * has_disks)])

    def check_cells(self) -> None:
        """Compare the NUMA cells of libvirt with those of lab hosts."""
        self.emulator.run(f'{_PYTHON} -m tests.machines.cells', _HOUR)

    def check_exports(self) -> None:
        """Check volume groups and exports of a host without OpenStack."""
        self.emulator.run(f'{_PYTHON} -m tests.machines.exports', _HOUR)

    def check_first_run(self) -> None:
        """Run the checklist for hosts with KVM."""
        command = f'tests.machines.first_run {volumes.CONFIGURATION}'
        self.emulator.run(f'{_PYTHON} -m {command}', 12 * _HOUR)

    def check_volumes(self, check: str, hours: float) -> None:
        """Check the local volumes of the hosts.

        :param check: argument of :mod:`tests.machines.volumes`.
        :param hours: deadline.
        """
        self.emulator.run(
            f'{_PYTHON} -m tests.machines.volumes {check}', hours * _HOUR
        )

    def check_processes(self) -> None:
        """Check that all processes of lab hosts are in leaves below units."""
        self.emulator.run(f'{_PYTHON} -m tests.machines.processes', _HOUR)

    def check_remains(self, expected: str) -> None:
        """Check which traces of hvstack the machine has.

        :param expected: argument of :mod:`tests.machines.remains`.
        """
        # The configuration is that of a user: hvstack did not create it.
        self.emulator.run(
            f'rm -rf {first_run.CONF.parent} && {_PYTHON} -m '
            f'tests.machines.remains {expected}',
            _HOUR,
        )

    def passed(self) -> dict[str, Mark]:
        """Return the stages that succeeded by name."""
        try:
            data = json.loads(self.marks.read_text())
        except FileNotFoundError:
            return {}
        # Older files have the seconds alone.
        return {
            name: Mark(**item) if isinstance(item, dict) else Mark(item, '')
            for name, item in data.items()
        }

    def mark(self, passed: dict[str, Mark]) -> None:
        """Store the stages that succeeded."""
        self.marks.parent.mkdir(parents=True, exist_ok=True)
        data = {name: asdict(item) for name, item in passed.items()}
        self.marks.write_text(json.dumps(data, indent=1) + '\n')


def find_first_stage(
    names: list[str], passed: dict[str, Mark], sources: str
) -> str | None:
    """Return the first stage to run again although it succeeded.

    :param names: names of all stages.
    :param sources: the present sources.
    :returns: None if the stages that remain are enough.
    """
    using = names[names.index(_SOURCES_STAGE) :]
    differs = any(
        name in passed and passed[name].sources != sources for name in using
    )
    is_complete = all(name in passed for name in names)
    return _SOURCES_STAGE if differs or is_complete else None


def test(machine: Machine, again: str | None, last: str | None) -> None:
    """Run all stages that did not succeed yet.

    :param again: first stage to run even though it succeeded.
    :param last: stage to stop after; None is the last one.
    :raises hvstack.errors.HVStackError: a stage failed.
    """
    stages = machine.stages()
    names = list(stages)
    passed = machine.passed()
    sources = describe_sources()
    again = again or find_first_stage(names, passed, sources)
    if again:
        for name in names[names.index(again) :]:
            passed.pop(name, None)
        machine.mark(passed)
    remaining = [name for name in names if name not in passed]
    if last:
        remaining = [
            name
            for name in remaining
            if names.index(name) <= names.index(last)
        ]
    progress = Progress(remaining)
    for name in remaining:
        with progress.stage(name):
            stages[name]()
        passed[name] = Mark(round(progress.took[-1][1]), sources)
        machine.mark(passed)
    for name, item in machine.passed().items():
        print(f'{item.seconds:7.0f} s  {machine.suite} {machine.kind} {name}')


def main() -> int:
    """Run the test of one release."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('suite', choices=SUITES)
    names = dict.fromkeys(
        name
        for kind in EMULATORS
        for name in Machine(SUITES[0], kind).stages()
    )
    parser.add_argument(
        '--emulator',
        choices=EMULATORS,
        default='uml',
        help='emulator of the machine (default: %(default)s)',
    )
    parser.add_argument(
        '--again', choices=names, help='start from this stage again'
    )
    parser.add_argument('--until', choices=names, help='stop after this stage')
    args = parser.parse_args()
    machine = Machine(args.suite, args.emulator)
    for name in filter(None, (args.again, args.until)):
        if name not in machine.stages():
            parser.error(f'--emulator {args.emulator} has no stage {name}')
    try:
        test(machine, args.again, args.until)
    except errors.HVStackError as exc:
        print(f'test-machines: {exc}', file=sys.stderr)
        return exc.exit_code
    return 0


if __name__ == '__main__':
    sys.exit(main())
