# SPDX-License-Identifier: Apache-2.0
"""Compare the NUMA cells that libvirt reports with those of a lab host.

``python -m tests.machines.cells`` as root in a machine that the tests built,
whose lab is not running. It starts one lab host with each compute backend,
without the control plane, and deletes it.
"""

import sys
from xml.etree import ElementTree

from hvstack import errors, processutils
from hvstack.lab import bridges, supervisord, systemd
from hvstack.lab.hosts import host, numa, sizes
from hvstack.lab.settings import LabSettings
from hvstack.model.host import NumaCell
from tests.machines import disk

#: URI of libvirt by compute backend.
BACKENDS = {'lxc': 'lxc:///', 'kvm': 'qemu:///system'}
MEMORY_MIB = 1536
_SECONDS = 120


def read_cells(name: str, uri: str) -> tuple[NumaCell, ...]:
    """Return the cells of a running host.

    :param name: name of the host.
    :param uri: URI of its libvirt.
    """
    argv = ('virsh', '-q', '-c', uri)
    processutils.wait_for(
        lambda: host.enter(name, *argv, 'list', check=False).returncode == 0,
        'libvirtd to answer',
        timeout=_SECONDS,
        get_reason=lambda: host.log_tail(name, 'libvirtd'),
    )
    text = host.enter(name, *argv, 'capabilities', timeout=_SECONDS).stdout
    return tuple(
        NumaCell(
            int(cell.attrib['id']),
            tuple(int(cpu.attrib['id']) for cpu in cell.iter('cpu')),
            int(cell.findtext('memory', '0')) // 1024,
        )
        for cell in ElementTree.fromstring(text).iter('cell')
    )


def check(backend: str, uri: str) -> bool:
    """Start a host, and return whether its cells are those of its profile.

    :param backend: compute backend of the host.
    :param uri: URI of its libvirt.
    """
    settings = LabSettings(
        hosts=1,
        compute=backend,
        options={'host_sizes': {'hv-host1': {'memory_mib': MEMORY_MIB}}},
    )
    [size] = sizes.plan(settings, memory=sizes.minimum_mib(1))
    bridges.ensure()
    host.configure(size, {})
    host.start(size)
    try:
        cells = read_cells(size.name, uri)
    finally:
        host.forget(size.name)
        bridges.remove()
        systemd.stop_slice()
    passed = cells == sizes.profile(size).cells
    print(f'{"ok  " if passed else "FAIL"} {backend}: {cells}', flush=True)
    return passed


def main() -> int:
    """Check the cells with each backend."""
    # Elsewhere, the host may be that of somebody's lab.
    disk.require_test_machine('start a host')
    if len(numa.read_cells()) < 2:
        print('FAIL this machine does not have several NUMA cells')
        return 1
    if supervisord.alive():
        print("FAIL a lab is running: stop it with 'hvstack lab down'")
        return 1
    try:
        passed = [check(backend, uri) for backend, uri in BACKENDS.items()]
    except errors.HVStackError as exc:
        print(f'FAIL {exc}')
        return 1
    return int(not all(passed))


if __name__ == '__main__':
    sys.exit(main())
