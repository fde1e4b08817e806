# SPDX-License-Identifier: Apache-2.0
"""Check volume groups and exports of a lab host without OpenStack.

``python -m tests.machines.exports`` as root in a machine that the tests built,
whose lab is not running. It starts one lab host without the control plane,
creates and connects a volume as Cinder and Nova do, turns the host off and on,
and deletes it.
"""

import os
import sys
import time
from pathlib import Path

from hvstack import paths, processutils
from hvstack.lab import (
    bridges,
    constants,
    kernel_modules,
    packages,
    settings,
    systemd,
)
from hvstack.lab.hosts import host, nvmet, sizes, volume_groups
from hvstack.lab.hosts.sizes import HostSize
from hvstack.lab.settings import LabSettings
from tests.after.test_nothing_left import list_volume_traces
from tests.machines import disk

MEMORY_MIB = 1792
VOLUME_ID = '6f0b3f6e-9d3c-4f43-8d4c-0a6d1f3f2a10'
#: What is written to the volume; it is not in its first MiB.
MARKER = 'hvstack-marker'
_OFFSET_MIB = 512
_SECONDS = 120


class ExportTest:
    """One host and a volume on it.

    :param size: size of the host.
    """

    def __init__(self, size: HostSize) -> None:
        self.size = size
        self.name = size.name
        self.directory = host.directory(size.name)
        self.volumes = volume_groups.describe(size.name)
        self.group = self.volumes.groups[constants.LOCAL_SLOTS[0]]
        self.nqn = f'nqn.{self.volumes.prefix}-{VOLUME_ID}'
        self.failures: list[str] = []

    def check(self, condition: bool, text: str) -> None:
        """Print a result and store a failure."""
        print(f'{"ok  " if condition else "FAIL"} {text}', flush=True)
        if not condition:
            self.failures.append(text)

    def start(self) -> None:
        """Start the host, and wait until its supervisor answers."""
        host.configure(self.size, {})
        host.start(self.size)
        processutils.wait_for(
            lambda: bool(host.agents(self.name)),
            'the supervisor of the host to answer',
            timeout=_SECONDS,
            get_reason=lambda: host.log_tail(self.name),
        )
        # They have no control plane.
        agents = ('nova-compute', 'metadata', 'cinder-volume')
        host.supervisorctl(self.name, 'stop', *agents)

    def run_lvm(self, *argv: str) -> None:
        """Run a command of LVM in the host, as cinder-volume does."""
        system = f'LVM_SYSTEM_DIR={self.directory}/lvm'
        host.enter(self.name, 'env', system, *argv, timeout=_SECONDS)

    def export(self) -> None:
        """Export all volumes of the host."""
        volumes = self.volumes
        host.enter(
            self.name,
            *('python3', '-I', '-S', nvmet.__file__, volumes.prefix),
            *(self.size.mgmt, str(volumes.port), str(volumes.port_id)),
            *volumes.groups.values(),
        )

    def connect(self) -> str:
        """Connect the host to the volume; return the path of the device."""
        before = set(Path('/dev').glob('nvme*n*'))
        host.enter(
            self.name,
            *('nvme', 'connect', '-t', 'tcp', '-a', self.size.mgmt),
            *('-s', str(self.volumes.port), '-n', self.nqn, '-l', '-1'),
            timeout=_SECONDS,
        )

        def list_new() -> list[str]:
            return [str(p) for p in set(Path('/dev').glob('nvme*n*')) - before]

        processutils.wait_for(
            lambda: bool(list_new()), 'the device', timeout=_SECONDS
        )
        return list_new()[0]

    def access(self, device: str, text: str = '') -> str:
        """Write a text to the device, if one is given, and return its text."""
        with Path(device).open('r+b' if text else 'rb') as file:
            file.seek(_OFFSET_MIB * 2**20)
            if text:
                file.write(text.encode().ljust(4096))
                file.flush()
                os.fsync(file.fileno())
                return text
            return file.read(4096).decode(errors='replace').strip()

    def turn_off(self) -> None:
        """Turn the host off while it is connected."""
        started_at = time.monotonic()
        host.power_off(self.name)
        seconds = time.monotonic() - started_at
        traces = list_volume_traces()
        self.check(not traces, f'off after {seconds:.0f} s, traces: {traces}')
        attached = volume_groups.list_attached(self.directory)
        self.check(not attached, f'disks of a host that is off: {attached}')

    def run(self) -> list[str]:
        """Make all checks; return the failures."""
        self.start()
        volume = f'volume-{VOLUME_ID}'
        self.run_lvm('lvcreate', '-n', volume, self.group, '-L', '2g')
        self.export()
        self.access(self.connect(), MARKER)
        self.turn_off()
        self.start()
        exports = nvmet.list_exports(self.volumes.prefix)
        self.check(exports == [self.nqn], f'exports after a start: {exports}')
        text = self.access(self.connect())
        self.check(text == MARKER, f'content after a start: {text[:40]!r}')
        nvmet.disconnect(self.volumes.prefix, self.volumes.host_nqn)
        nvmet.remove_exports(self.volumes.prefix, self.size.mgmt)
        self.run_lvm('lvremove', '-f', f'{self.group}/{volume}')
        image = self.directory / 'disks' / f'{constants.LOCAL_SLOTS[0]}.img'
        mib = image.stat().st_blocks // 2048
        self.check(mib < 16, f'a removed volume uses {mib} MiB of its file')
        self.turn_off()
        return self.failures


def main() -> int:
    """Check one host, and delete it."""
    # Elsewhere, the host may be that of somebody's lab.
    disk.require_test_machine('start a host')
    packages.install(packages.needed(ceph=False, lvm=True))
    lab_settings = LabSettings(
        hosts=1,
        compute='kvm',
        lvm=True,
        options={'host_sizes': {'hv-host1': {'memory_mib': MEMORY_MIB}}},
    )
    settings.save(lab_settings)
    kernel_modules.check()
    kernel_modules.load()
    # Where the socket of the database is in a lab.
    paths.make_directory(paths.RUN)
    (paths.RUN / 'mysql').mkdir(exist_ok=True)
    bridges.ensure()
    [size] = sizes.plan(lab_settings, memory=sizes.minimum_mib(1))
    try:
        failures = ExportTest(size).run()
    finally:
        host.forget(size.name)
        bridges.remove()
        systemd.stop_slice()
        settings.save(LabSettings())
    return int(bool(failures))


if __name__ == '__main__':
    sys.exit(main())
