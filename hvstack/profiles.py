# SPDX-License-Identifier: Apache-2.0
"""Finding and reading host profiles, and the catalogues for them.

A file holds one profile, or under ``profiles`` several by name, as the lab's
``hosts.yaml`` does.
"""

import os
from pathlib import Path

from hvstack import errors, paths, share, textfile, yamlfile
from hvstack.model import catalogue
from hvstack.model.fields import Fields
from hvstack.model.host import HostProfile, from_mapping

#: The lab's own profiles, ``lab-worker`` and ``lab-controller``, written
#: when it comes up, since its hosts are sized to the machine.
LAB = paths.STATE / 'lab' / 'hosts.yaml'


def folders() -> list[Path]:
    """Return the directories of profiles: a user's own come first."""
    return [Path('/etc/hvstack/hosts'), share.HOST_PROFILES]


def known() -> dict[str, Path]:
    """Return the file of each profile that has a name, by that name.

    :raises hvstack.errors.InputError: the lab's file is not well formed.
    """
    found: dict[str, Path] = {}
    for folder in folders():
        for path in sorted(folder.glob('*.yaml')):
            found.setdefault(path.stem, path)
    # A link that leads nowhere is a mistake, not a missing file.
    if os.path.lexists(LAB):
        found |= dict.fromkeys(read(LAB), LAB)
    return found


def read(path: Path) -> dict[str, HostProfile]:
    """Return all profiles of a file, by name.

    :raises hvstack.errors.InputError: one line with file, line, remedy.
    """
    document = yamlfile.load(path)
    data = document.data
    if isinstance(data, dict) and isinstance(data.get('profiles'), dict):
        Fields(data, document.place(), ('profiles',))
        found = {}
        for name, item in data['profiles'].items():
            place = document.place(f'profiles.{name}')
            given = item
            if isinstance(item, dict):
                given = {'name': str(name), **item}
            found[str(name)] = from_mapping(given, place)
        return found
    profile = from_mapping(data, document.place())
    return {profile.name: profile}


def absolute(name: str) -> str:
    """Return what names the same profile in any folder.

    :param name: as :func:`load` takes it.
    """
    # Not resolved: of a link that names itself, reading says what is wrong.
    return str(Path.cwd() / name) if _is_path(name) else name


def _is_path(name: str) -> bool:
    return '/' in name or name.endswith(('.yaml', '.yml'))


def load(name: str) -> HostProfile:
    """Return a profile by name, or by the path of its file.

    :param name: such as ``vsphere6`` or ``lab-worker``, or a path that has
        a slash or ends in ``.yaml``.
    :raises hvstack.errors.InputError: unknown, or not well formed.
    """
    if _is_path(name):
        profiles = read(Path(name))
        if len(profiles) != 1:
            raise errors.InputError(
                f'{name}: holds {len(profiles)} host profiles, give a file '
                'with one'
            )
        return next(iter(profiles.values()))
    for folder in folders():
        path = folder / f'{name}.yaml'
        if textfile.is_regular(path):
            return load(str(path))
    found = known()
    if name in found:
        return read(found[name])[name]
    raise errors.InputError(
        f"host profile '{name}' is unknown: take one of "
        f'{", ".join(found) or "none"}, or the path of a YAML file'
    )


def catalogue_path(name: str) -> Path:
    """Return the path of a catalogue.

    :param name: path of a file, or the name of a catalogue of the package
        such as ``vsphere6``. A file of this name wins.
    """
    path = Path(name)
    packaged = share.CATALOGUES / f'{name}.yaml'
    is_name = '/' not in name and not textfile.is_regular(path)
    return packaged if is_name and textfile.is_regular(packaged) else path


def read_catalogue(
    path: Path, host: str | None = None
) -> tuple[catalogue.Catalogue, HostProfile]:
    """Return a catalogue and the profile of its hosts.

    A profile that hvstack does not find by its name can be a file in the
    catalogue's directory: ``flavors.yaml`` with ``host: myhosts`` and
    ``myhosts.yaml``.

    :param host: another profile than the catalogue names.
    :raises hvstack.errors.InputError: one line with file, line, remedy.
    """
    document = yamlfile.load(path)
    place = document.place()
    found = catalogue.from_mapping(document.data, place)
    if host is not None:
        return found, load(host)
    neighbor = path.parent / f'{found.host}.yaml'
    is_neighbor = (
        textfile.is_regular(neighbor)
        and neighbor.name != path.name
        and found.host not in known()
    )
    try:
        name = str(neighbor.resolve()) if is_neighbor else found.host
        return found, load(name)
    except errors.InputError as exc:
        raise errors.InputError(f"{place('host')}: 'host': {exc}") from exc
