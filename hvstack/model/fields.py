# SPDX-License-Identifier: Apache-2.0
"""Reading plain mappings strictly: what is wrong, where, and the remedy."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from hvstack import errors

#: Tells where a field stands, such as ``hosts/a.yaml:12``.
Place = Callable[[str], str]


class Fields:
    """A mapping whose fields are taken one by one and checked.

    :param data: what was read; anything but a mapping is refused.
    :param source: file name, or a function from a dotted field name to the
        file and line that it stands in.
    :param prefix: dotted name of the mapping itself, empty at the top.
    :raises hvstack.errors.InputError: not a mapping, or unknown fields.
    """

    def __init__(
        self,
        data: Any,
        source: str | Place,
        known: Collection[str],
        prefix: str = '',
    ) -> None:
        self._source = source
        self._prefix = prefix
        if not isinstance(data, Mapping):
            raise self.wrong('', f'is {_kind(data)}, give a mapping')
        self._data = data
        for key in data:
            if key not in known:
                raise self.wrong(
                    str(key), f'is unknown, take one of {", ".join(known)}'
                )

    def name(self, field: str) -> str:
        """Return the dotted name of a field."""
        return '.'.join(part for part in (self._prefix, field) if part)

    def wrong(self, field: str, what: str) -> errors.InputError:
        """Return the error that names file, field and remedy in one line."""
        # Keys are the user's: no line break of theirs makes a second line.
        name = ' '.join(self.name(field).split())
        where = (
            self._source
            if isinstance(self._source, str)
            else self._source(name)
        )
        return errors.InputError(f"{where}: '{name or 'content'}' {what}")

    def has(self, field: str) -> bool:
        """Tell whether a field is there and not null."""
        return self._data.get(field) is not None

    def raw(self, field: str) -> Any:
        """Return a field as it was read, or None."""
        return self._data.get(field)

    def integer(
        self, field: str, low: int, high: int, default: int | None = None
    ) -> int:
        """Return a whole number between two limits.

        :raises hvstack.errors.InputError: missing, no number, out of range.
        """
        value = self._data.get(field, default)
        if (
            isinstance(value, int)
            and not isinstance(value, bool)
            and low <= value <= high
        ):
            return value
        raise self.wrong(
            field,
            f'is {_shown(value)}, give a whole number from {low} to {high}',
        )

    def number(self, field: str, low: float, high: float) -> float:
        """Return a number between two limits.

        :raises hvstack.errors.InputError: missing, no number, out of range.
        """
        value = self._data.get(field)
        if (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and low <= value <= high
        ):
            return float(value)
        raise self.wrong(
            field, f'is {_shown(value)}, give a number from {low} to {high}'
        )

    def flag(self, field: str, default: bool) -> bool:
        """Return true or false."""
        value = self._data.get(field, default)
        if not isinstance(value, bool):
            raise self.wrong(field, f'is {_shown(value)}, give true or false')
        return value

    def text(self, field: str, default: str | None = None) -> str:
        """Return a text that is not empty."""
        value = self._data.get(field, default)
        if not isinstance(value, str) or not value:
            raise self.wrong(field, f'is {_shown(value)}, give a text')
        return value

    def choice(
        self, field: str, values: Collection[str], default: str | None = None
    ) -> str:
        """Return one of several texts."""
        value = self._data.get(field, default)
        if value not in values:
            raise self.wrong(
                field,
                f'is {_shown(value)}, take one of {", ".join(values)}',
            )
        return str(value)


def _kind(value: Any) -> str:
    return 'empty' if value is None else f'a {type(value).__name__}'


def _shown(value: Any) -> str:
    return 'missing' if value is None else repr(value)[:60]
