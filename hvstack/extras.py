# SPDX-License-Identifier: Apache-2.0
"""Optional dependencies of hvstack and the programs that they install.

The metadata of the installed distribution is the only list of extras and of
their packages, so that it cannot differ from what pip installs.
"""

import functools
import re
import shutil
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import ParamSpec, TypeVar

from hvstack import errors

_P = ParamSpec('_P')
_R = TypeVar('_R')

_NAME = re.compile(r'[A-Za-z0-9][A-Za-z0-9._-]*')
_EXTRA = re.compile(r'\bextra\s*==\s*["\']([\w-]+)["\']')


def normalize(name: str) -> str:
    """Return the normalized name of a distribution, as the index spells it."""
    return re.sub(r'[-_.]+', '-', name).lower()


@functools.cache
def packages() -> dict[str, frozenset[str]]:
    """Return the distributions of each extra, by the name of the extra.

    The result is empty where hvstack runs without being installed.
    """
    try:
        requirements = metadata.requires('hvstack') or []
    except metadata.PackageNotFoundError:
        return {}
    result: dict[str, frozenset[str]] = {}
    for requirement in requirements:
        name = _NAME.match(requirement)
        extra = _EXTRA.search(requirement)
        if name and extra:
            names = result.get(extra[1], frozenset())
            result[extra[1]] = names | {normalize(name[0])}
    return result


def extra_of(module: str) -> str | None:
    """Return the extra that installs a module, None if none does.

    :param module: dotted name of the module, such as ``rally.task``.
    """
    name = normalize(module.partition('.')[0])
    for extra, names in packages().items():
        if extra not in ('all', 'test', 'docs') and name in names:
            return extra
    return None


def missing(extra: str) -> list[str]:
    """Return the distributions of an extra that are not installed, sorted.

    :param extra: such as ``rally``.
    """
    absent = []
    for name in sorted(packages().get(extra, ())):
        try:
            metadata.distribution(name)
        except metadata.PackageNotFoundError:
            absent.append(name)
    return absent


def require(extra: str) -> None:
    """Raise an error unless every distribution of an extra is installed.

    :param extra: such as ``rally``.
    :raises hvstack.errors.MissingPrerequisiteError: a distribution is missing.
    """
    absent = missing(extra)
    if absent:
        raise errors.MissingPrerequisiteError(
            f'Cannot run this command: not installed: {", ".join(absent)}. '
            f"Run pip install 'hvstack[{extra}]'."
        )


def required(
    extra: str,
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Return a decorator that calls :func:`require` before a function.

    On a command's ``take_action`` it leaves ``--help`` usable.

    :param extra: such as ``rally``.
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @functools.wraps(function)
        def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            require(extra)
            return function(*args, **kwargs)

        return checked

    return decorate


def program(name: str, distribution: str | None = None) -> Path:
    """Return the path of a program that a distribution installed.

    pip installs programs next to the interpreter in a virtual environment,
    but in ``~/.local/bin`` with ``--user``: the distribution's list of files
    contains the path.

    :param name: the program, such as ``rally``.
    :param distribution: the distribution (default: of the same name).
    :raises hvstack.errors.MissingPrerequisiteError: it is not installed.
    """
    distribution = distribution or name
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == name and file.parent.name == 'bin':
            directory = Path(str(file.locate())).parent.resolve()
            if (directory / name).exists():
                return directory / name
    sibling = Path(sys.executable).with_name(name)
    if sibling.exists():
        return sibling
    path_of_shell = shutil.which(name)
    if path_of_shell:
        return Path(path_of_shell)
    extra = extra_of(distribution)
    remedy = f"'hvstack[{extra}]'" if extra else distribution
    raise errors.MissingPrerequisiteError(
        f"Cannot find the program '{name}': {distribution} is not installed. "
        f'Run pip install {remedy}.'
    )
