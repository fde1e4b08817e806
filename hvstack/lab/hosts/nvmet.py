# SPDX-License-Identifier: Apache-2.0
"""Exports of volumes by the kernel's NVMe target, over TCP.

Cinder's target helper ``nvmet`` imports a library of this name, which belongs
to nvmetcli. Neither the package index nor Debian 12 has it. The lab installs
this file under the name of the library into the environment of the services:
the classes below have the methods of the library that Cinder calls, and the
kernel's files in configfs are the only state (Documentation/nvme in Linux).

The kernel forgets all exports when the machine boots, and the lab removes
those of a host that is turned off, but Cinder creates an export only when a
volume is attached. A lab host runs this file when it starts, before Nova
starts the guests again, and so exports its volumes again. The socket of a port
is in the network namespace of the process that enables the port.

This module must not import anything else of hvstack.
"""

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypedDict

#: Directory of the target in configfs.
TARGET = Path('/sys/kernel/config/nvmet')
#: Directory of the initiators' controllers.
CONTROLLERS = Path('/sys/class/nvme')
#: Namespace of a volume in its subsystem: Cinder's default.
NAMESPACE_ID = 10
_VOLUMES = Path('/dev')
#: What an attribute can be set to.
Value = str | int | Path


class CFSError(Exception):
    """The kernel rejected a change of its NVMe target."""


class CFSNotFoundError(CFSError):
    """An object of the NVMe target does not exist."""


#: Cinder names the errors by the module that nvmetcli defines them in.
nvme = sys.modules[__name__]
CFSNotFound = CFSNotFoundError


class NamespaceData(TypedDict, total=False):
    """A namespace as nvmetcli stores it."""

    nsid: int
    device: Mapping[str, Value]
    enable: int


class SubsystemData(TypedDict, total=False):
    """A subsystem as nvmetcli stores it."""

    nqn: str
    attr: Mapping[str, Value]
    namespaces: Sequence[NamespaceData]


class PortData(TypedDict, total=False):
    """A port as nvmetcli stores it."""

    portid: int
    addr: Mapping[str, Value]
    subsystems: Sequence[str]


class _Node:
    """One directory of configfs.

    :param path: the directory.
    :param mode: ``lookup`` requires that it exists; with another mode, a
        missing directory is created.
    :raises CFSNotFoundError: the directory does not exist.
    :raises CFSError: the kernel does not create it.
    """

    def __init__(self, path: Path, mode: str) -> None:
        # Cinder appends to it as to a string.
        self.path = str(path)
        if path.is_dir():
            return
        if mode == 'lookup':
            raise CFSNotFoundError(f'{path} does not exist')
        with _failures(f'create {path}'):
            _make(path)

    def get_attr(self, group: str, name: str) -> str:
        """Return the value of an attribute."""
        with _failures(f'read {group}_{name} of {self.path}'):
            return _read(Path(self.path, f'{group}_{name}'))

    def set_attrs(self, group: str, values: Mapping[str, Value]) -> None:
        """Write the values of attributes that the kernel has."""
        for name, value in values.items():
            path = Path(self.path, f'{group}_{name}')
            with _failures(f'write {value} to {path}'):
                # Names of other versions of the kernel are left out.
                if path.exists():
                    _write(path, str(value))

    def delete(self) -> None:
        """Delete the object."""
        with _failures(f'delete {self.path}'):
            _remove(Path(self.path))


@contextlib.contextmanager
def _failures(action: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise CFSError(f'Cannot {action}: {exc.strerror}') from exc


def _make(path: Path) -> None:
    """Create an object, to which the kernel adds its attributes."""
    path.mkdir()


def _remove(path: Path) -> None:
    """Delete an object with its attributes."""
    path.rmdir()


def _read(path: Path) -> str:
    return path.read_text(encoding='utf-8').strip()


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding='utf-8')


def _list_names(path: str, part: str) -> list[str]:
    directory = Path(path, part)
    if not directory.is_dir():
        return []
    return sorted(entry.name for entry in directory.iterdir())


class Root(_Node):
    """The NVMe target of this machine."""

    def __init__(self) -> None:
        super().__init__(TARGET, 'lookup')

    @property
    def subsystems(self) -> Iterator['Subsystem']:
        """All subsystems, those of other programs included."""
        for name in _list_names(self.path, 'subsystems'):
            yield Subsystem(name, 'lookup')


class Subsystem(_Node):
    """What an initiator connects to.

    :param nqn: NVMe qualified name.
    """

    def __init__(self, nqn: str, mode: str = 'any') -> None:
        self.nqn = nqn
        super().__init__(TARGET / 'subsystems' / nqn, mode)

    @classmethod
    def setup(cls, t: SubsystemData, err_func: Callable[[str], None]) -> None:
        """Create a subsystem with its namespaces.

        :param t: ``nqn``, ``attr`` and ``namespaces``, as nvmetcli stores
            them.
        :param err_func: function that gets the reason of a failure.
        """
        try:
            subsystem = cls(t['nqn'])
            subsystem.set_attrs('attr', t.get('attr', {}))
        except CFSError as exc:
            err_func(str(exc))
            return
        for entry in t.get('namespaces', ()):
            Namespace.setup(subsystem, entry, err_func)

    def delete(self) -> None:
        """Delete the subsystem with its namespaces."""
        for name in _list_names(self.path, 'namespaces'):
            Namespace(self, int(name), 'lookup').delete()
        for name in _list_names(self.path, 'allowed_hosts'):
            with _failures(f'remove host {name} from {self.path}'):
                Path(self.path, 'allowed_hosts', name).unlink()
        super().delete()


class Namespace(_Node):
    """A block device in a subsystem.

    :param subsystem: the subsystem.
    :param nsid: number of the namespace.
    """

    MAX_NSID = 8192

    def __init__(
        self, subsystem: Subsystem, nsid: int | str, mode: str = 'any'
    ) -> None:
        self.subsystem = subsystem
        self.nsid = int(nsid)
        path = Path(subsystem.path, 'namespaces', str(self.nsid))
        super().__init__(path, mode)

    @classmethod
    def setup(
        cls,
        subsys: Subsystem,
        n: NamespaceData,
        err_func: Callable[[str], None],
    ) -> None:
        """Create a namespace.

        :param subsys: its subsystem.
        :param n: ``nsid``, ``device`` and ``enable``.
        :param err_func: function that gets the reason of a failure.
        """
        try:
            namespace = cls(subsys, n['nsid'])
            namespace.set_attrs('device', n.get('device', {}))
            if n.get('enable'):
                with _failures(f'enable {namespace.path}'):
                    _write(Path(namespace.path, 'enable'), '1')
        except CFSError as exc:
            err_func(str(exc))


class Port(_Node):
    """An address on which subsystems can be reached.

    :param portid: number of the port.
    """

    def __init__(self, portid: int | str, mode: str = 'any') -> None:
        self.portid = int(portid)
        super().__init__(TARGET / 'ports' / str(self.portid), mode)

    @classmethod
    def setup(cls, n: PortData, err_func: Callable[[str], None]) -> None:
        """Create a port.

        :param n: ``portid``, ``addr`` and ``subsystems``.
        :param err_func: function that gets the reason of a failure.
        """
        try:
            port = cls(n['portid'])
            port.set_attrs('addr', n.get('addr', {}))
            for nqn in n.get('subsystems', ()):
                port.add_subsystem(nqn)
        except CFSError as exc:
            err_func(str(exc))

    @property
    def subsystems(self) -> list[str]:
        """The names of the subsystems that the port offers."""
        return _list_names(self.path, 'subsystems')

    def add_subsystem(self, nqn: str) -> None:
        """Offer a subsystem; the first one makes the kernel listen."""
        with _failures(f'offer {nqn} on {self.path}'):
            link = Path(self.path, 'subsystems', nqn)
            link.symlink_to(TARGET / 'subsystems' / nqn)

    def remove_subsystem(self, nqn: str) -> None:
        """Offer a subsystem no longer."""
        with _failures(f'remove {nqn} from {self.path}'):
            Path(self.path, 'subsystems', nqn).unlink()

    def delete(self) -> None:
        """Delete the port, which then offers no subsystem."""
        for nqn in self.subsystems:
            self.remove_subsystem(nqn)
        super().delete()


class Initiator:
    """An initiator with a permission of its own; the lab has none."""


Host = Initiator


class Referral:
    """A referral to another port; the lab has none."""


class ANAGroup:
    """A group of namespaces with one state; the lab has none."""


def export_volumes(
    prefix: str,
    address: str,
    service: str,
    port_id: int,
    groups: Iterable[str],
) -> list[str]:
    """Export all volumes of volume groups, as Cinder exports them.

    :param prefix: Cinder's ``target_prefix`` of the host.
    :param address: address of the host.
    :param service: TCP port.
    :param port_id: number of the NVMe port, which is the host's.
    :param groups: names of volume groups, whose volumes are active.
    :returns: the names of the subsystems.
    :raises CFSError: the kernel rejected a volume, or another program uses
        the number of the port.
    """

    def fail(reason: str) -> None:
        raise CFSError(reason)

    is_new = not (TARGET / 'ports' / str(port_id)).exists()
    port = Port(port_id)
    addr = {
        'trtype': 'tcp',
        'adrfam': 'ipv4',
        'traddr': address,
        'trsvcid': service,
    }
    if is_new:
        port.set_attrs('addr', addr)
    elif port.get_attr('addr', 'traddr') != address:
        raise CFSError(
            f'Cannot use {port.path}: it has the address '
            f'{port.get_attr("addr", "traddr")}, which is not that of this '
            'host'
        )
    exported = []
    for path in sorted(
        path
        for group in groups
        for path in (_VOLUMES / group).glob('volume-*')
    ):
        volume_id = path.name.removeprefix('volume-')
        nqn = f'nqn.{prefix}-{volume_id}'
        if not (TARGET / 'subsystems' / nqn).exists():
            device: dict[str, Value] = {
                'path': path,
                'uuid': volume_id,
                'nguid': volume_id,
            }
            namespace = NamespaceData(
                nsid=NAMESPACE_ID, device=device, enable=1
            )
            Subsystem.setup(
                {
                    'nqn': nqn,
                    'attr': {'allow_any_host': 1},
                    'namespaces': [namespace],
                },
                fail,
            )
        if nqn not in port.subsystems:
            port.add_subsystem(nqn)
        exported.append(nqn)
    return exported


def list_exports(prefix: str) -> list[str]:
    """Return the names of the subsystems with the prefix of a host."""
    return [
        name
        for name in _list_names(str(TARGET), 'subsystems')
        if name.startswith(f'nqn.{prefix}-')
    ]


def remove_exports(prefix: str, address: str) -> None:
    """Remove all exports of a host, and its port.

    :param prefix: Cinder's ``target_prefix`` of the host.
    :param address: address of the host, which identifies its port.
    :raises CFSError: the kernel rejected it.
    """
    nqns = list_exports(prefix)
    for name in _list_names(str(TARGET), 'ports'):
        try:
            port = Port(name, 'lookup')
            is_own = port.get_attr('addr', 'traddr') == address
        except CFSError:
            # Another host is turned off at the same time.
            continue
        if not is_own:
            continue
        for nqn in nqns:
            if nqn in port.subsystems:
                port.remove_subsystem(nqn)
        if not port.subsystems:
            port.delete()
    for nqn in nqns:
        Subsystem(nqn, 'lookup').delete()


def disconnect(prefix: str, host_nqn: str) -> None:
    """Delete the controllers that connect to a host, or belong to it.

    :param prefix: Cinder's ``target_prefix`` of the host.
    :param host_nqn: name of the host's initiator.
    :raises CFSError: the kernel rejected it.
    """
    if not CONTROLLERS.is_dir():
        return
    for controller in sorted(CONTROLLERS.iterdir()):
        try:
            nqn = _read(controller / 'subsysnqn')
            initiator = controller / 'hostnqn'
            is_initiator = initiator.exists() and _read(initiator) == host_nqn
        except OSError:
            # It was deleted meanwhile, or is no controller of a network.
            continue
        if nqn.startswith(f'nqn.{prefix}-') or is_initiator:
            with _failures(f'disconnect {controller.name} from {nqn}'):
                try:
                    _write(controller / 'delete_controller', '1')
                except OSError:
                    if controller.exists():
                        raise


def main(argv: Sequence[str]) -> int:
    """Export the volumes of a host; the arguments are in their order."""
    if len(argv) < 4:
        print(
            'usage: nvmet PREFIX ADDRESS SERVICE PORT-ID [GROUP ...]',
            file=sys.stderr,
        )
        return 2
    prefix, address, service, port_id, *groups = argv
    try:
        exported = export_volumes(
            prefix, address, service, int(port_id), groups
        )
    except CFSError as exc:
        print(f'hvstack: {exc}.', file=sys.stderr)
        return 1
    print(f'{len(exported)} volumes are exported on {address}:{service}')
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
