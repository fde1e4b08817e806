# SPDX-License-Identifier: Apache-2.0
"""Files of the tuning profiles and OS profiles."""

from pathlib import Path

from hvstack import errors, yamlfile
from hvstack.yamlfile import Document


def list_names(directory: Path) -> list[str]:
    """Return the names of the profiles in a directory of the package."""
    return sorted(path.stem for path in directory.glob('*.yaml'))


def read(directory: Path, name: str, profile_type: str) -> Document:
    """Return the file of a profile.

    :param directory: directory of the package.
    :param name: name of the profile, which users choose.
    :param profile_type: ``tuning`` or ``OS``.
    :raises hvstack.errors.InputError: the profile does not exist.
    """
    names = list_names(directory)
    if name not in names:
        raise errors.InputError(
            f"Cannot use the {profile_type} profile '{name}': it does not "
            f'exist. Use one of {", ".join(names)}.'
        )
    return yamlfile.load(directory / f'{name}.yaml', packaged=True)
