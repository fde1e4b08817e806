# SPDX-License-Identifier: Apache-2.0
"""Identity of a benchmark run: sweep, target and index."""

import re
import uuid
from dataclasses import dataclass
from typing import Protocol

from hvstack import errors
from hvstack.model.target import Target

#: Highest index of a run: a higher one is a mistyped number.
MAX_INDEX = 99_999
#: Names of sweeps are parts of file names.
_SWEEP = re.compile(r'[A-Za-z0-9][A-Za-z0-9._-]{0,63}', re.ASCII)

#: Names of the sweeps of a study's variants, and of the sides of trials.
_PART = re.compile(r'(study-.+)-v[0-9]+|(trials-.+)-[0-9]+-[ab]', re.ASCII)

#: End of the name under which a sweep stores the runs of its search. Their
#: configurations were selected for their rates, so no percentage uses them.
_SEARCH_SUFFIX = '-search'


def format_search_name(sweep: str) -> str:
    """Return the name under which a sweep stores the runs of its search.

    :param sweep: sweep ID.
    """
    return f'{sweep}{_SEARCH_SUFFIX}'


def is_search(name: str) -> bool:
    """Return whether a name is that of the search of a sweep."""
    return name.endswith(_SEARCH_SUFFIX)


def parse_sweep_id(name: str) -> str:
    """Return the sweep ID of a name in records, without that of its search."""
    return name.removesuffix(_SEARCH_SUFFIX)


def parse_execution_id(name: str) -> str:
    """Return the ID of the study or of the trials that a sweep is part of.

    :param name: name of a sweep.
    :returns: the name itself for other sweeps.
    """
    match = _PART.fullmatch(name)
    return (match[1] or match[2]) if match else name


def is_id(text: str) -> bool:
    """Tell whether a text is a UUID as Python writes it, as IDs are."""
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def is_sweep(name: str) -> bool:
    """Return whether a text is a valid name of a sweep.

    :param name: at most 64 letters, digits, dots, underscores and dashes,
        of which a letter or a digit comes first.
    """
    return _SWEEP.fullmatch(name) is not None


class ScheduledRun(Protocol):
    """What a run record and its entry in an index have in common."""

    @property
    def sweep(self) -> str:
        """Name of the sweep."""

    @property
    def configuration(self) -> str:
        """Full name of the configuration, or that of bare metal."""

    @property
    def index(self) -> int:
        """Index of the run within its configuration."""

    @property
    def id(self) -> str:
        """UUID of the record."""

    @property
    def started(self) -> str:
        """Start time."""

    @property
    def ended(self) -> str:
        """End time."""

    @property
    def size_bytes(self) -> int:
        """Size of the data in bytes."""

    @property
    def valid(self) -> bool:
        """Whether the run is valid."""

    @property
    def rate(self) -> float:
        """Rate in TB per hour."""

    @property
    def is_killed(self) -> bool:
        """Whether a process was killed in the run."""

    @property
    def unverified(self) -> str:
        """Why the record counts only on request."""


@dataclass(frozen=True)
class RunId:
    """Identity of a run. A failed run and its repetition share it.

    :param sweep: name of the sweep.
    :param target: configuration or bare metal.
    :param index: index of the run within its target, from 0.
    :raises hvstack.errors.InputError: the name of the sweep or the index is
        not valid.
    """

    sweep: str
    target: Target
    index: int

    def __post_init__(self) -> None:
        if not is_sweep(self.sweep):
            raise errors.InputError(
                f'Cannot use the sweep {self.sweep[:80]!r}: the name is not '
                'valid. Use at most 64 letters, digits, dots, underscores '
                'and dashes.'
            )
        if not 0 <= self.index <= MAX_INDEX:
            raise errors.InputError(
                f'Cannot use the index {self.index!r:.20} of a run '
                f'({self.sweep}, {self.target.name}): it is out of range. '
                f'Use 0 to {MAX_INDEX}.'
            )

    def __str__(self) -> str:
        return f'{self.sweep}/{self.target.name}/{self.index}'
