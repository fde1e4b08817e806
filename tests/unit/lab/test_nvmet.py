# SPDX-License-Identifier: Apache-2.0
"""Test the exports of volumes with a directory in place of configfs."""

import shutil
import sys
from pathlib import Path

import fixtures
import testtools

from hvstack import processutils
from hvstack.lab.hosts import nvmet

PREFIX = 'hvstack-1a2b-hv-host1'
ADDRESS = '10.251.0.11'
VOLUME = '6f0b3f6e-9d3c-4f43-8d4c-0a6d1f3f2a10'
NQN = f'nqn.{PREFIX}-{VOLUME}'
#: What the kernel creates in a new directory.
CHILDREN = {
    'subsystems': (
        ('namespaces', 'allowed_hosts'),
        ('attr_allow_any_host',),
    ),
    'ports': (
        ('subsystems',),
        ('addr_traddr', 'addr_trsvcid', 'addr_trtype', 'addr_adrfam'),
    ),
    'namespaces': (
        (),
        ('device_path', 'device_uuid', 'device_nguid', 'enable'),
    ),
}


class Kernel(fixtures.Fixture):
    """The kernel's side of configfs: attributes come and go with objects."""

    def _setUp(self) -> None:
        top = Path(self.useFixture(fixtures.TempDir()).path)
        self.target = top / 'nvmet'
        self.devices = top / 'dev'
        self.controllers = top / 'class'
        for name in ('subsystems', 'ports'):
            (self.target / name).mkdir(parents=True)
        for name, value in (
            ('TARGET', self.target),
            ('CONTROLLERS', self.controllers),
            ('_VOLUMES', self.devices),
            ('_make', self.make),
            ('_remove', shutil.rmtree),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(f'{nvmet.__name__}.{name}', value)
            )

    def make(self, path: Path) -> None:
        """Create an object with its attributes."""
        path.mkdir()
        directories, files = CHILDREN[path.parent.name]
        for name in directories:
            (path / name).mkdir()
        for name in files:
            (path / name).touch()

    def add_volume(self, group: str, volume_id: str = VOLUME) -> Path:
        """Activate a volume."""
        path = self.devices / group / f'volume-{volume_id}'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return path

    def add_controller(self, name: str, nqn: str, host_nqn: str) -> Path:
        """Connect an initiator."""
        directory = self.controllers / name
        directory.mkdir(parents=True)
        (directory / 'subsysnqn').write_text(f'{nqn}\n')
        (directory / 'hostnqn').write_text(f'{host_nqn}\n')
        (directory / 'delete_controller').touch()
        return directory / 'delete_controller'


class ExportTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.kernel = self.useFixture(Kernel())

    def export(self, *groups: str, address: str = ADDRESS) -> list[str]:
        return nvmet.export_volumes(PREFIX, address, '4420', 25101, groups)

    def read(self, path: str) -> str:
        return (self.kernel.target / path).read_text()

    def test_volume_is_exported_as_cinder_exports_it(self) -> None:
        """Cinder then finds subsystem, namespace and port in place."""
        path = self.kernel.add_volume('vg1')
        (self.kernel.devices / 'vg1/_snapshot-1').touch()
        for _ in range(2):
            self.assertEqual([NQN], self.export('vg1', 'empty'))
        namespace = f'subsystems/{NQN}/namespaces/10'
        for name, value in (
            ('device_path', str(path)),
            ('device_uuid', VOLUME),
            ('enable', '1'),
        ):
            self.assertEqual(value, self.read(f'{namespace}/{name}'))
        self.assertEqual(
            '1', self.read(f'subsystems/{NQN}/attr_allow_any_host')
        )
        for name, value in (
            ('traddr', ADDRESS),
            ('trsvcid', '4420'),
            ('trtype', 'tcp'),
            ('adrfam', 'ipv4'),
        ):
            self.assertEqual(value, self.read(f'ports/25101/addr_{name}'))
        [link] = (self.kernel.target / 'ports/25101/subsystems').iterdir()
        self.assertEqual(
            self.kernel.target / 'subsystems' / NQN, link.readlink()
        )

    def test_port_of_another_program(self) -> None:
        self.export(address='192.0.2.1')
        exc = self.assertRaises(nvmet.CFSError, self.export)
        self.assertIn('192.0.2.1', str(exc))

    def test_remove_leaves_what_others_have(self) -> None:
        self.kernel.add_volume('vg1')
        self.export('vg1')
        other = nvmet.Port(25110)
        other.set_attrs('addr', {'traddr': '10.251.0.20'})
        for nqn in (f'nqn.{PREFIX}0-{VOLUME}', 'nqn.other'):
            nvmet.Subsystem(nqn)
            other.add_subsystem(nqn)
        nvmet.Port(1).set_attrs('addr', {'traddr': '192.0.2.1'})
        nvmet.remove_exports(PREFIX, ADDRESS)
        self.assertEqual(
            {f'nqn.{PREFIX}0-{VOLUME}', 'nqn.other'}, set(other.subsystems)
        )
        self.assertEqual(
            set(other.subsystems),
            {subsystem.nqn for subsystem in nvmet.Root().subsystems},
        )
        self.assertEqual(
            {'1', '25110'},
            {path.name for path in (self.kernel.target / 'ports').iterdir()},
        )
        self.assertEqual([], nvmet.list_exports(PREFIX))

    def test_port_with_a_subsystem_of_another_program_stays(self) -> None:
        self.export()
        nvmet.Subsystem('nqn.other')
        nvmet.Port(25101).add_subsystem('nqn.other')
        nvmet.remove_exports(PREFIX, ADDRESS)
        self.assertEqual(['nqn.other'], nvmet.Port(25101).subsystems)

    def test_kernel_without_the_target(self) -> None:
        shutil.rmtree(self.kernel.target)
        nvmet.remove_exports(PREFIX, ADDRESS)
        nvmet.disconnect(PREFIX, 'nqn.host')
        self.assertRaises(nvmet.CFSNotFound, nvmet.Root)
        exc = self.assertRaises(nvmet.CFSError, self.export)
        self.assertIn('ports/25101', str(exc))

    def test_disconnect(self) -> None:
        """Also what the host itself is connected to, on any host."""
        controllers = {
            self.kernel.add_controller('nvme1', NQN, 'nqn.h2'): '1',
            self.kernel.add_controller('nvme2', 'nqn.volume', 'nqn.h1'): '1',
            self.kernel.add_controller('nvme3', 'nqn.volume', 'nqn.h3'): '',
        }
        # A disk of the machine has a controller without these names.
        (self.kernel.controllers / 'nvme0').mkdir()
        nvmet.disconnect(PREFIX, 'nqn.h1')
        for path, text in controllers.items():
            self.assertEqual(text, path.read_text(), str(path))


class LibraryTest(testtools.TestCase):
    """What Cinder calls, as its nvmet target calls it."""

    def setUp(self) -> None:
        super().setUp()
        self.kernel = self.useFixture(Kernel())
        self.errors: list[str] = []

    def test_life_of_an_export(self) -> None:
        path = self.kernel.add_volume('vg1')
        self.assertRaises(
            nvmet.nvme.CFSNotFound, nvmet.Subsystem, nqn=NQN, mode='lookup'
        )
        namespace: nvmet.NamespaceData = {
            'device': {'nguid': VOLUME, 'uuid': VOLUME, 'path': str(path)},
            'enable': 1,
            'nsid': 10,
        }
        subsystem: nvmet.SubsystemData = {
            'attr': {'allow_any_host': '1'},
            'namespaces': [namespace],
            'nqn': NQN,
        }
        nvmet.Subsystem.setup(subsystem, err_func=self.errors.append)
        addr: dict[str, nvmet.Value] = {
            **{'adrfam': 'ipv4', 'traddr': ADDRESS, 'treq': 'not specified'},
            **{'trsvcid': 4420, 'trtype': 'tcp'},
        }
        port: nvmet.PortData = {
            'addr': addr,
            'portid': 7,
            'subsystems': [NQN],
        }
        nvmet.Port.setup(port, err_func=self.errors.append)
        self.assertEqual([], self.errors)
        port_again = nvmet.Port(portid='7', mode='lookup')
        self.assertEqual([NQN], port_again.subsystems)
        again = nvmet.Subsystem(nqn=NQN, mode='lookup')
        device = nvmet.Namespace(subsystem=again, nsid='10', mode='lookup')
        self.assertEqual(str(path), device.get_attr('device', 'path'))
        port_again.remove_subsystem(NQN)
        again.delete()
        self.assertEqual([], list(nvmet.Root().subsystems))

    def test_failure_is_passed_to_the_caller(self) -> None:
        shutil.rmtree(self.kernel.target / 'ports')
        nvmet.Port.setup({'portid': 7}, err_func=self.errors.append)
        [reason] = self.errors
        self.assertIn('ports/7: No such file', reason)


class ProgramTest(testtools.TestCase):
    def test_runs_without_anything_else_of_hvstack(self) -> None:
        done = processutils.run(
            [sys.executable, '-I', '-S', nvmet.__file__], check=False
        )
        self.assertEqual(2, done.returncode)
        self.assertIn('usage: nvmet PREFIX', done.stderr)
