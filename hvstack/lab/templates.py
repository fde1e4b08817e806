# SPDX-License-Identifier: Apache-2.0
"""Where the lab's templates and constraints are."""

import sys
from functools import cache
from pathlib import Path

import hvstack
from hvstack import errors


@cache
def folder() -> Path:
    """Return ``etc/lab`` of the clone, or the installed one.

    :raises hvstack.errors.MissingPrerequisite: there is neither.
    """
    places = (
        Path(hvstack.__file__).resolve().parent.parent / 'etc' / 'lab',
        Path(sys.prefix) / 'etc' / 'hvstack' / 'lab',
    )
    for place in places:
        if place.is_dir():
            return place
    raise errors.MissingPrerequisite(
        "the lab's templates (etc/lab) are not installed: run hvstack from a "
        'clone of its repository'
    )
