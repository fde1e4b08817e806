# SPDX-License-Identifier: Apache-2.0
"""After ``hvstack lab destroy`` the machine shows nothing of the lab."""

import os
import re
from pathlib import Path

import testtools

from hvstack import paths, processutils

#: What every trace of a lab carries in its name.
OURS = re.compile(r'\bhv-|hvstack')
#: Names of lab hosts and of what belongs to them.
HOST_NAME = re.compile(r'\bhv-')
#: Temporary directories of hvstack.
TEMPORARY = re.compile(r'/(var/)?tmp/hvstack-')


def lines_of_ours(*argv: str) -> list[str]:
    """Lines of a program's output that name something of the lab's."""
    text = processutils.run(argv).stdout
    return [line for line in text.splitlines() if OURS.search(line)]


def list_volume_traces() -> list[str]:
    """Return the traces of the local volumes of lab hosts in the kernel.

    These are exports and controllers of NVMe, volumes of the device mapper,
    and nodes in ``/dev``.
    """
    names = [
        path.name
        for directory in ('/sys/kernel/config/nvmet/subsystems', '/dev')
        if Path(directory).is_dir()
        for path in Path(directory).iterdir()
    ]
    for file in (
        *Path('/sys/class/nvme').glob('*/subsysnqn'),
        *Path('/sys/block').glob('dm-*/dm/name'),
        *Path('/sys/kernel/config/nvmet/ports').glob('*/addr_traddr'),
    ):
        names.append(file.read_text().strip())
    return sorted(
        name
        for name in names
        if OURS.search(name) or name.startswith('10.251.0.')
    )


def list_mounts(text: str) -> list[str]:
    """Return the mounts of a lab.

    A disk of the user's at the state directory, or elsewhere, is none.

    :param text: content of ``/proc/mounts``.
    """
    mounts = []
    for line in text.splitlines():
        path = Path(line.split()[1])
        is_below = any(
            path.is_relative_to(top) and path != top
            for top in (paths.STATE, paths.RUN, paths.CACHE)
        )
        if is_below or HOST_NAME.search(line) or TEMPORARY.match(str(path)):
            mounts.append(line)
    return mounts


def list_cgroups(root: Path) -> list[str]:
    """Return the groups of a lab.

    Under version 1, groups are below the directories of the controllers.

    :param root: directory of all groups.
    """
    return sorted(
        str(path)
        for pattern in ('*', '*/*')
        for path in root.glob(pattern)
        if path.is_dir() and OURS.search(path.name)
    )


class NothingLeftTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        if not os.environ.get('HVSTACK_LAB'):
            self.skipTest('runs after a lab was destroyed (make test)')

    def test_processes(self) -> None:
        processes = []
        for process_dir in Path('/proc').glob('[0-9]*'):
            try:
                cmdline = (
                    (process_dir / 'cmdline')
                    .read_bytes()
                    .decode(errors='replace')
                )
                cgroup = (process_dir / 'cgroup').read_text()
            except OSError:
                continue
            command = cmdline.replace('\0', ' ')
            if (
                str(paths.STATE) in command
                or str(paths.RUN) in command
                or f'{paths.CACHE}/venv' in command
                or '/hvstack' in cgroup
            ):
                processes.append(f'{process_dir.name} {command}')
        self.assertEqual([], processes)

    def test_network_namespaces(self) -> None:
        self.assertEqual([], lines_of_ours('ip', 'netns'))

    def test_namespaces(self) -> None:
        namespaces = [
            line
            for line in lines_of_ours('lsns', '-o', 'NS,TYPE,PID,COMMAND')
            if str(paths.STATE) in line
        ]
        self.assertEqual([], namespaces)

    def test_mounts(self) -> None:
        text = Path('/proc/mounts').read_text('utf-8')
        self.assertEqual([], list_mounts(text))

    def test_loop_devices(self) -> None:
        self.assertEqual([], lines_of_ours('losetup', '-l', '-n'))

    def test_local_volumes(self) -> None:
        self.assertEqual([], list_volume_traces())

    def test_links(self) -> None:
        links = lines_of_ours('ip', '-o', 'link')
        self.assertEqual([], links)

    def test_packet_filter(self) -> None:
        self.assertEqual([], lines_of_ours('nft', 'list', 'tables'))

    def test_cgroups(self) -> None:
        self.assertEqual([], list_cgroups(Path('/sys/fs/cgroup')))

    def test_files(self) -> None:
        self.assertFalse(paths.STATE.exists(), paths.STATE)
        files = list(paths.RUN.glob('*')) if paths.RUN.exists() else []
        self.assertEqual([], files)

    def test_clouds_yaml(self) -> None:
        path = Path('~/.config/openstack/clouds.yaml').expanduser()
        text = path.read_text() if path.exists() else ''
        self.assertNotIn('hvstack-lab', text)
