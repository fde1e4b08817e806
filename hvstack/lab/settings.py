# SPDX-License-Identifier: Apache-2.0
"""What the user asked the lab to be, and the secrets it generated.

Both live machine-wide below :data:`LAB`, so that any clone can change, stop
or remove the lab.
"""

import contextlib
import dataclasses
import json
import secrets as random
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hvstack import errors, jsonfile, paths, textfile
from hvstack.model.plain_data import Json, JsonObject
from hvstack.model.strict_mapping import to_dataclass

#: Everything of the lab that survives a reboot.
LAB = paths.STATE / 'lab'
#: Compute backends a host may have; ``auto`` probes.
BACKENDS = ('auto', 'kvm', 'lxc', 'qemu')
#: Releases of OpenStack that the services can have: the one that the lab is
#: made for, and others that clouds run.
RELEASE = '2026.2'
RELEASES = (RELEASE, '2025.1')
#: Optional services of a lab: fields of :class:`LabSettings`.
EXTRAS = ('ceph', 'lvm')
#: Ceph's disks, and the most copies that its pools can have: a pool of vsan's
#: Table 7 has four groups of disks.
OSDS = 4
#: Layouts of Ceph that studies compare; see :mod:`hvstack.lab.pools`.
CEPH_LAYOUTS = ('copies', 'groups', 'affinity')

_SETTINGS = LAB / 'settings.json'
_SECRETS = LAB / 'secrets.json'
_ID = LAB / 'id'


@dataclass(frozen=True)
class LabSettings:
    """The lab that was asked for.

    :param hosts: lab hosts.
    :param controllers: the first of these, which carry controllers; a single
        host carries both kinds of nodes.
    :param fake_hosts: computes without guests, for scheduler tests.
    :param compute: compute backend of every host, one of :data:`BACKENDS`.
    :param host_compute: backend of single hosts, by host name.
    :param racks: availability zones that the workers' hosts are spread
        over, named ``rack1`` and so on; 0 leaves all of them in ``nova``.
    :param ceph: whether the lab has Ceph and Cinder.
    :param lvm: whether the lab has Cinder with LVM on its hosts.
    :param ceph_copies: copies of each object that the volumes of type
        ``ceph`` have; 1 is for benchmarks.
    :param ceph_layouts: layouts of Ceph, of :data:`CEPH_LAYOUTS`, that have
        pools and volume types of their own.
    :param untested: continue with what was never tried on such a machine.
    :param release: release of OpenStack, one of :data:`RELEASES`.
    :param options: settings of single parts, such as sizes of hosts; each
        part checks its own.
    """

    hosts: int = 3
    controllers: int = 1
    fake_hosts: int = 0
    compute: str = 'auto'
    host_compute: dict[str, str] = field(default_factory=dict)
    racks: int = 0
    ceph: bool = False
    lvm: bool = False
    ceph_copies: int = 3
    ceph_layouts: tuple[str, ...] = ()
    untested: bool = False
    release: str = RELEASE
    options: JsonObject = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 1 <= self.hosts <= 40:
            raise errors.InputError(
                f'Cannot use --hosts {self.hosts}: the lab supports 1 to 40 '
                'hosts. Use a number from 1 to 40.'
            )
        if not 1 <= self.controllers < max(2, self.hosts):
            raise errors.InputError(
                f'Cannot use --controllers {self.controllers}: the lab has '
                f'{self.hosts} hosts, one of which at least is for workers. '
                f'Use a number from 1 to {max(1, self.hosts - 1)}.'
            )
        if not 0 <= self.fake_hosts <= 200:
            raise errors.InputError(
                f'Cannot use --fake-hosts {self.fake_hosts}: the lab supports '
                'up to 200 fake hosts. Use a number from 0 to 200.'
            )
        if not 0 <= self.racks <= self.hosts:
            raise errors.InputError(
                f'Cannot use --racks {self.racks}: the lab has {self.hosts} '
                f'hosts. Use a number from 0 to {self.hosts}.'
            )
        if self.ceph and self.lvm:
            raise errors.InputError(
                'Cannot use Ceph and LVM at the same time: their volume types '
                "have the same names (disk-slot-1). Run 'hvstack lab up "
                "--without ceph' or 'hvstack lab up --without lvm' first."
            )
        if not 1 <= self.ceph_copies <= OSDS:
            raise errors.InputError(
                f'Cannot use --ceph-copies {self.ceph_copies}: the lab has '
                f'{OSDS} OSDs. Use a number from 1 to {OSDS}.'
            )
        for layout in self.ceph_layouts:
            if layout not in CEPH_LAYOUTS:
                raise errors.InputError(
                    f"Cannot use --ceph-layouts '{layout}': hvstack does not "
                    f'know it. Use some of {", ".join(CEPH_LAYOUTS)}.'
                )
        if 'affinity' in self.ceph_layouts and self.hosts > OSDS:
            raise errors.InputError(
                f'Cannot use --hosts {self.hosts} with --ceph-layouts '
                f'affinity: each host has an OSD, and Ceph has {OSDS}. Use '
                f'--hosts {OSDS}, or name the layouts without affinity.'
            )
        if self.release not in RELEASES:
            raise errors.InputError(
                f"Cannot use OpenStack '{self.release}': the lab does not "
                f'have it. Use one of {", ".join(RELEASES)}.'
            )
        names = {f'hv-host{n}' for n in range(1, self.hosts + 1)}
        for name, backend in [
            ('--compute', self.compute),
            *self.host_compute.items(),
        ]:
            if backend not in BACKENDS:
                raise errors.InputError(
                    f"Cannot use compute backend '{backend}' for {name}: "
                    'hvstack does not know it. Use one of '
                    f'{", ".join(BACKENDS)}.'
                )
        for name in sorted(set(self.host_compute) - names):
            raise errors.InputError(
                f"Cannot use --host-compute for '{name}': the lab has no such "
                f'host. Use hv-host1 to hv-host{self.hosts}.'
            )

    def get_option(self, name: str) -> Mapping[str, Json]:
        """Return the settings of a part; an empty mapping without any."""
        option = self.options.get(name)
        return option if isinstance(option, Mapping) else {}

    def change(self, **changes: Any) -> 'LabSettings':
        """Return these settings with some values replaced."""
        return dataclasses.replace(self, **changes)


def load() -> LabSettings | None:
    """Return the settings of the lab on this machine, if there is one.

    :raises hvstack.errors.InputError: the file is not what ``save`` wrote.
    """
    try:
        document = jsonfile.load(_SETTINGS)
        return to_dataclass(
            LabSettings, document.data, document.source_location()
        )
    except textfile.MissingFileError:
        return None
    except errors.InputError as exc:
        reason = str(exc).removesuffix('.')
        raise errors.InputError(
            f'Cannot read the settings of the lab ({_SETTINGS}): {reason}. '
            "Delete the file and run 'hvstack lab up' again."
        ) from exc


def get_release() -> str:
    """Return the release of OpenStack of the lab on this machine."""
    loaded = load()
    return RELEASE if loaded is None else loaded.release


def check_release(settings: LabSettings) -> None:
    """Refuse another release than that of the databases of the lab.

    OpenStack cannot go back, and goes forward by one or two releases alone.

    :raises hvstack.errors.InputError: the lab has another release.
    """
    before = load()
    if before is not None and before.release != settings.release:
        raise errors.InputError(
            f'Cannot use --release {settings.release}: the lab has '
            f"OpenStack {before.release}. Run 'hvstack lab destroy' first."
        )


def has_ceph() -> bool:
    """Tell whether the lab on this machine is to have Ceph."""
    loaded = load()
    return loaded is not None and loaded.ceph


def has_host_affinity() -> bool:
    """Tell whether each host of the lab has a pool of Ceph of its own."""
    loaded = load()
    return (
        loaded is not None
        and loaded.ceph
        and 'affinity' in loaded.ceph_layouts
    )


def has_lvm() -> bool:
    """Tell whether the hosts of the lab are to have LVM for Cinder."""
    loaded = load()
    return loaded is not None and loaded.lvm


def has_cinder() -> bool:
    """Tell whether the lab on this machine is to have Cinder."""
    return has_ceph() or has_lvm()


def save(settings: LabSettings) -> None:
    """Write the settings for any later command."""
    text = json.dumps(dataclasses.asdict(settings), indent=1) + '\n'
    paths.write_whole(_SETTINGS, text)


def secret(name: str) -> str:
    """Return a generated password, the same one at every call.

    :param name: what it is for, such as ``nova`` or ``rabbit``.
    :raises hvstack.errors.InputError: the file with them is damaged.
    """
    return secrets(name)[name]


def secrets(*names: str) -> dict[str, str]:
    """Return generated passwords by name; missing ones are made and kept.

    The file can be read by root alone.

    :raises hvstack.errors.InputError: the file is damaged.
    """
    passwords: dict[str, str] = {}
    with contextlib.suppress(textfile.MissingFileError):
        passwords = jsonfile.load_texts(_SECRETS)
    missing = [name for name in names if name not in passwords]
    if missing:
        passwords |= {name: random.token_hex(16) for name in missing}
        paths.write_whole(
            _SECRETS, json.dumps(passwords, indent=1), mode=0o600
        )
    return {name: passwords[name] for name in names}


def lab_id() -> str | None:
    """Return the ID that marks what this lab creates on the machine.

    :returns: None if the lab does not exist.
    :raises hvstack.errors.InputError: the file cannot be read.
    """
    try:
        return str(uuid.UUID(textfile.read(_ID).strip()))
    except (textfile.MissingFileError, ValueError):
        return None


def ensure_lab_id() -> str:
    """Return the lab's ID, which is generated by the first call."""
    if lab_id() is None:
        paths.write_whole(_ID, f'{uuid.uuid4()}\n')
    existing = lab_id()
    assert existing is not None
    return existing


def log_path(name: str) -> Path:
    """Return the log file of a program of the lab's."""
    return LAB / 'log' / f'{name}.log'
