# SPDX-License-Identifier: Apache-2.0
"""Targets of benchmark runs: configurations and bare metal."""

from dataclasses import dataclass
from functools import lru_cache

from hvstack.model.configuration import Configuration, parse

#: Name of bare metal among the names of configurations.
BARE_METAL = 'bare-metal'


@dataclass(frozen=True)
class BareMetal:
    """Hosts without Nova, with which configurations are compared."""

    @property
    def name(self) -> str:
        """Name in records, markers and tasks."""
        return BARE_METAL

    @property
    def label(self) -> str:
        """Name as human-readable text."""
        return 'bare metal'


Target = Configuration | BareMetal


@lru_cache(maxsize=1024)
def parse_target(text: str) -> Target:
    """Return the target with a full name, a label or :data:`BARE_METAL`.

    :raises hvstack.errors.InputError: a part of the name is unknown or
        duplicated.
    """
    return BareMetal() if text == BARE_METAL else parse(text)
