# SPDX-License-Identifier: Apache-2.0
"""Finding and reading host profiles, and the catalogues for them.

A file holds one profile, or under ``profiles`` several by name, as the lab's
``hosts.yaml`` does.
"""

import dataclasses
import functools
import os
from pathlib import Path

from hvstack import errors, paths, share, textfile, yamlfile
from hvstack.model import catalogue
from hvstack.model.extra_specs import ExtraSpecs
from hvstack.model.host import HostProfile, from_mapping
from hvstack.model.strict_mapping import Fields, to_dataclass

#: The lab's own profiles, ``lab-worker`` and ``lab-controller``, written
#: when it comes up, since its hosts are sized to the machine.
LAB = paths.STATE / 'lab' / 'hosts.yaml'
_LAB_NAMES = ('lab-worker', 'lab-controller')


def directories() -> list[Path]:
    """Return the directories of profiles: a user's own come first."""
    return [
        paths.STATE / 'hosts',
        paths.ETC / 'hosts',
        share.HOST_PROFILES,
    ]


def list_paths() -> dict[str, Path]:
    """Return the file of each profile of the search path, by its name.

    A file that is not well formed counts by the name of the file.

    :raises hvstack.errors.InputError: the lab's file is not well formed.
    """
    paths_by_name: dict[str, Path] = {}
    for directory in directories():
        for path in sorted(directory.glob('*.yaml')):
            paths_by_name.setdefault(_get_name(path), path)
    # A link that leads nowhere is a mistake, not a missing file.
    if os.path.lexists(LAB):
        paths_by_name |= dict.fromkeys(read(LAB), LAB)
    return paths_by_name


def _get_name(path: Path) -> str:
    """Return the name in the profile of a file, else that of the file."""
    try:
        return next(iter(read(path)), path.stem)
    except errors.InputError:
        return path.stem


def read(path: Path) -> dict[str, HostProfile]:
    """Return all profiles of a file, by name.

    :raises hvstack.errors.InputError: one line with file, line, remedy.
    """
    document = yamlfile.load(path)
    data = document.data
    if isinstance(data, dict) and isinstance(data.get('profiles'), dict):
        Fields(data, document.source_location(), ('profiles',))
        profiles = {}
        for name, item in data['profiles'].items():
            source_location = document.source_location(f'profiles.{name}')
            mapping = item
            if isinstance(item, dict):
                mapping = {'name': str(name), **item}
            profiles[str(name)] = from_mapping(mapping, source_location)
        return profiles
    profile = from_mapping(data, document.source_location())
    return {profile.name: profile}


def absolute(name: str) -> str:
    """Return a name of the profile that is valid in any directory.

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
                f'Cannot use {name}: it contains {len(profiles)} host '
                'profiles. Use a file with one host profile.'
            )
        return next(iter(profiles.values()))
    paths_by_name = list_paths()
    path = paths_by_name.get(name) or _find_file(name)
    if path is None:
        remedy = (
            "Only 'hvstack lab up' writes it. For hosts of another cloud, set "
            "'host_profile' in [cloud] of hvstack.conf to"
            if name in _LAB_NAMES
            else 'Use'
        )
        raise errors.InputError(
            f"Cannot find host profile '{name}'. {remedy} one of "
            f'{", ".join(paths_by_name) or "none"}, or the path of a YAML '
            'file.'
        )
    return read(path).get(name) or load(str(path))


def read_digest(name: str) -> str:
    """Return the digest of a profile, for :func:`check_unchanged`.

    :param name: as :func:`load` takes it.
    :returns: empty for profiles of the lab, which ``hvstack lab up`` writes
        again, and for a profile that cannot be read. Run records contain the
        caps of lab hosts.
    """
    try:
        profile = load(name)
    except errors.InputError:
        return ''
    return '' if profile.policy.lab else profile.digest


def check_unchanged(name: str, digest: str, subject: str) -> None:
    """Refuse to continue with a profile that a user has edited.

    The runs would be those of two kinds of hardware, or of two flavors.

    :param name: as :func:`load` takes it.
    :param digest: result of :func:`read_digest` at the start.
    :param subject: what continues, for errors.
    :raises hvstack.errors.InputError: the profile has changed, or cannot be
        read.
    """
    if digest and (now := load(name).digest) != digest:
        raise errors.InputError(
            f"Cannot continue {subject}: the host profile '{name}' has "
            f'changed since the start (digest {digest}, now {now}), and new '
            'runs would not be comparable with the earlier ones. Restore the '
            'profile, or start again.'
        )


def _find_file(name: str) -> Path | None:
    """Return the file of this name in the search path."""
    for directory in directories():
        path = directory / f'{name}.yaml'
        if textfile.is_regular(path):
            return path
    return None


def is_in_search_path(profile: HostProfile) -> bool:
    """Return whether the name of a profile leads to this profile.

    :param profile: profile that was read from a file.
    """
    try:
        return load(profile.name).digest == profile.digest
    except errors.InputError:
        return False


@functools.cache
def load_extra_specs() -> ExtraSpecs:
    """Return the extra specs that Nova knows."""
    document = yamlfile.load(share.EXTRA_SPECS, packaged=True)
    return to_dataclass(ExtraSpecs, document.data, document.source_location())


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
    ``myhosts.yaml``. If ``host`` is the path of a file, the name of the
    profile in it replaces the path.

    :param path: file of the catalogue.
    :param host: name or file of a profile that replaces the profile of the
        catalogue; None replaces nothing.
    :raises hvstack.errors.InputError: one line with file, line, remedy.
    """
    document = yamlfile.load(path)
    source_location = document.source_location()
    flavor_catalogue = catalogue.from_mapping(document.data, source_location)
    if host is not None:
        return flavor_catalogue, load(host)
    neighbor = path.parent / f'{flavor_catalogue.host}.yaml'
    is_neighbor = (
        textfile.is_regular(neighbor)
        and neighbor.name != path.name
        and flavor_catalogue.host not in list_paths()
    )
    try:
        name = (
            str(neighbor.resolve()) if is_neighbor else flavor_catalogue.host
        )
        profile = load(name)
    except errors.InputError as exc:
        raise errors.InputError(
            f"{source_location('host')}: 'host': {exc}"
        ) from exc
    if _is_path(flavor_catalogue.host):
        # The name is the identity of published flavors.
        flavor_catalogue = dataclasses.replace(
            flavor_catalogue, host=profile.name
        )
    return flavor_catalogue, profile
