# SPDX-License-Identifier: Apache-2.0
"""Strict access to plain mappings, with errors that name file and field."""

import dataclasses
import enum
import ipaddress
import math
import re
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from hvstack import errors
from hvstack.model.plain_data import Json

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    #: Value of a field of a dataclass.
    _Value = (
        bool
        | int
        | float
        | str
        | enum.Enum
        | DataclassInstance
        | Sequence['_Value']
        | Mapping[str, '_Value']
        | None
    )

#: Function that returns file and line of a field, such as ``hosts/a.yaml:12``.
SourceLocation = Callable[[str], str]
#: Host names as RFC 1123 has them.
_HOST_NAME = re.compile(
    r'(?!.{254})[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?'
    r'(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*'
)
#: Identifiers without special meaning in a shell, in a path or for Hadoop.
_IDENTIFIER = re.compile(r'[A-Za-z0-9][A-Za-z0-9._-]{0,127}')
#: Maximum of all counts, sizes and times.
_MAX_NUMBER = 2**63
#: Maximum length of all texts.
_MAX_TEXT = 65535
#: Type of a field at run time, such as ``str``, ``list[str]`` or
#: ``str | None``.
_Hint = type | types.GenericAlias | types.UnionType
_T = typing.TypeVar('_T', bound='DataclassInstance')
#: Type of a field that can be negative, such as a time before a start.
Signed = typing.Annotated[float, 'signed']


class Fields:
    """Mapping whose fields are checked when they are read.

    :param data: mapping.
    :param source: file name, or a function that returns file and line of a
        dotted field name.
    :param allowed_fields: names of the allowed fields; None allows all.
    :param prefix: dotted name of the mapping; empty at the top.
    :raises hvstack.errors.InputError: the data is not a mapping, or has an
        unknown field.
    """

    def __init__(
        self,
        data: Json,
        source: str | SourceLocation,
        allowed_fields: Collection[str] | None,
        prefix: str = '',
    ) -> None:
        self._source = source
        self._prefix = prefix
        if not isinstance(data, Mapping):
            raise self.error('', f'is {_describe_type(data)}. Write a mapping')
        self._data = data
        if allowed_fields is None:
            return
        for key in data:
            if key not in allowed_fields:
                raise self.error(
                    str(key),
                    f'is unknown. Use one of {", ".join(allowed_fields)}',
                )

    def name(self, field: str) -> str:
        """Return the dotted name of a field."""
        return '.'.join(part for part in (self._prefix, field) if part)

    def error(self, field: str, problem: str) -> errors.InputError:
        """Return an error that names file, field, problem and remedy.

        :param field: name of the field; empty for the whole content.
        :param problem: what is wrong, and the remedy. It continues the
            sentence that begins with the field, as in ``is empty. Set it``.
        """
        # The user chooses the keys: line breaks would split the message.
        name = ' '.join(self.name(field).split())
        where = (
            self._source
            if isinstance(self._source, str)
            else self._source(name)
        )
        return errors.InputError(
            f"{where}: '{name or 'content'}' {problem.removesuffix('.')}."
        )

    @property
    def source(self) -> str | SourceLocation:
        """File name, or function that returns file and line of a field."""
        return self._source

    def __contains__(self, field: str) -> bool:
        """Return whether a field exists, even if it is null."""
        return field in self._data

    def __iter__(self) -> Iterator[str]:
        """Return an iterator over the names of the fields, in order."""
        return iter(self._data)

    def has(self, field: str) -> bool:
        """Return whether a field exists and is not null."""
        return self._data.get(field) is not None

    def raw(self, field: str) -> Json:
        """Return the value of a field without a check; None without any."""
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
        raise self.error(
            field,
            f'is {_format_value(value)}. Use a whole number from {low} to '
            f'{high}',
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
        raise self.error(
            field,
            f'is {_format_value(value)}. Use a number from {low} to {high}',
        )

    def flag(self, field: str, default: bool) -> bool:
        """Return true or false."""
        value = self._data.get(field, default)
        if not isinstance(value, bool):
            raise self.error(
                field, f'is {_format_value(value)}. Use true or false'
            )
        return value

    def text(self, field: str, default: str | None = None) -> str:
        """Return a text, which is not empty."""
        value = self._data.get(field, default)
        if not isinstance(value, str) or not 0 < len(value) <= _MAX_TEXT:
            raise self.error(
                field,
                f'is {_format_value(value)}. Use a text of at most '
                f'{_MAX_TEXT} characters',
            )
        return value

    def optional_text(self, field: str) -> str:
        """Return a text; empty without the field."""
        return self.text(field) if field in self else ''

    def text_mapping(self, field: str) -> dict[str, str] | None:
        """Return a mapping of texts; None if the field is none."""
        value = self._data.get(field)
        if not isinstance(value, Mapping):
            return None
        texts = {
            key: text
            for key, text in value.items()
            if isinstance(key, str) and isinstance(text, str)
        }
        return texts if len(texts) == len(value) else None

    def text_list(self, field: str) -> list[str] | None:
        """Return a list of texts; None if the field is not a list of texts."""
        value = self._data.get(field)
        if not isinstance(value, list):
            return None
        texts = [text for text in value if isinstance(text, str)]
        return texts if len(texts) == len(value) else None

    def host_name(self, field: str) -> str:
        """Return a host name.

        :raises hvstack.errors.InputError: missing, or not a host name.
        """
        value = self.text(field)
        if not _HOST_NAME.fullmatch(value):
            raise self.error(
                field,
                f'is {_format_value(value)}, which is not a host name. Use '
                'letters, digits, - and .',
            )
        return value

    def address(self, field: str) -> str:
        """Return an IP address.

        :raises hvstack.errors.InputError: missing, or not an IP address.
        """
        value = self.text(field)
        try:
            # A zone such as %eth0 may hold anything.
            if '%' in value or not value.isascii():
                raise ValueError
            ipaddress.ip_address(value)
        except ValueError:
            raise self.error(
                field,
                f'is {_format_value(value)}, which is not an IP address. Use '
                'one such as 192.0.2.7',
            ) from None
        return value

    def identifier(self, field: str) -> str:
        """Return a text of letters, digits, dots, dashes and underscores.

        :raises hvstack.errors.InputError: missing, or other characters.
        """
        value = self.text(field)
        if not _IDENTIFIER.fullmatch(value):
            raise self.error(
                field,
                f'is {_format_value(value)}. Use up to 128 letters, digits, '
                '., - and _',
            )
        return value

    def choice(
        self, field: str, values: Collection[str], default: str | None = None
    ) -> str:
        """Return a text that is one of the given values."""
        value = self._data.get(field, default)
        if not isinstance(value, str) or value not in values:
            raise self.error(
                field,
                f'is {_format_value(value)}. Use one of {", ".join(values)}',
            )
        return str(value)

    def optional_choice(
        self, field: str, values: Collection[str]
    ) -> str | None:
        """Return a text that is one of the values; None without the field."""
        return self.choice(field, values) if field in self else None


def to_dataclass(
    cls: type[_T],
    data: Json,
    source: str | SourceLocation,
    prefix: str = '',
    *,
    ignored: Collection[str] = (),
) -> _T:
    """Return an object of a dataclass whose fields have their types.

    The types of the fields are the schema: ``str``, ``int``, ``float``,
    ``bool``, enumerations of texts, mappings, tuples, lists, dataclasses,
    None, and plain data, which is not checked. Numbers are finite and not
    negative, except those of the type :data:`Signed`.

    :param data: what was read.
    :param source: file name, or a function from a dotted field name to the
        file and line.
    :param prefix: dotted name of the mapping, empty at the top.
    :param ignored: names of fields that older releases wrote.
    :raises hvstack.errors.InputError: not a mapping, an unknown field, a
        missing one, or a value of another type.
    """
    schema = [item for item in dataclasses.fields(cls) if item.init]
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = Fields(
        data, source, [*(item.name for item in schema), *ignored], prefix
    )
    values: dict[str, _Value] = {}
    for item in schema:
        if item.name in fields:
            values[item.name] = _convert(
                fields, item.name, hints[item.name], fields.raw(item.name)
            )
        elif (
            item.default is dataclasses.MISSING
            and item.default_factory is dataclasses.MISSING
        ):
            raise fields.error(item.name, 'is missing. Restore the file')
    try:
        return cls(**values)
    except errors.InputError as exc:
        raise fields.error('', f'is not valid: {exc}') from None


def _convert(fields: Fields, name: str, hint: _Hint, value: Json) -> '_Value':
    """Return a value that has the type of a field.

    :param name: dotted name of the field below the mapping.
    :raises hvstack.errors.InputError: it does not have the type.
    """
    origin = typing.get_origin(hint)
    args = typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in args:
            return None
        inner, *others = (item for item in args if item is not type(None))
        # Only plain data has several types.
        return value if others else _convert(fields, name, inner, value)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return to_dataclass(hint, value, fields.source, fields.name(name))
    if origin in (tuple, list) and isinstance(value, list):
        many = origin is list or args[-1] is Ellipsis
        if many and _are_floats(args[0], value):
            return [*value] if origin is list else tuple(value)
        if many or len(args) == len(value):
            items = [
                _convert(
                    fields, f'{name}.{index}', args[0 if many else index], item
                )
                for index, item in enumerate(value)
            ]
            return items if origin is list else tuple(items)
    if origin is dict and isinstance(value, dict):
        return {
            key: _convert(fields, f'{name}.{key}', args[1], item)
            for key, item in value.items()
        }
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        values = [item.value for item in hint]
        if value in values:
            return hint(value)
        raise fields.error(
            name,
            f'is {_format_value(value)}. Use one of {", ".join(values)}',
        )
    if (
        hint == Signed
        and isinstance(value, int | float)
        and _are_floats(hint, [value])
    ):
        return value
    if hint is bool and isinstance(value, bool):
        return value
    if hint is str and isinstance(value, str) and len(value) <= _MAX_TEXT:
        return value
    if (
        hint in (int, float)
        and isinstance(value, int if hint is int else int | float)
        and not isinstance(value, bool)
        and 0 <= value <= _MAX_NUMBER
    ):
        return value
    text = 'a number' if hint == Signed else _TYPES.get(origin or hint, '')
    raise fields.error(name, f'is {_format_value(value)}. Use {text}')


def _are_floats(hint: _Hint, values: list[Json]) -> bool:
    """Return whether all values of a list are numbers that a hint allows.

    Telemetry has millions of numbers, and a call for each takes seconds.

    :param hint: type of the values.
    :returns: False if a value is not valid, or is not a float or None.
    """
    hints = {hint}
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        hints = set(typing.get_args(hint))
    allowed = {float, int} | (hints & {types.NoneType})
    if not hints <= {float, Signed, types.NoneType}:
        return False
    if not set(map(type, values)) <= allowed:
        return False
    numbers = [value for value in values if isinstance(value, int | float)]
    low = -_MAX_NUMBER if Signed in hints else 0
    if not numbers:
        return True
    # Comparisons with NaN are false, but the sum is NaN wherever it is.
    return (
        low <= min(numbers)
        and max(numbers) <= _MAX_NUMBER
        and math.isfinite(sum(numbers))
    )


#: Types as a message names them.
_TYPES: dict[_Hint, str] = {
    str: f'a text of at most {_MAX_TEXT} characters',
    bool: 'true or false',
    int: 'a whole number from 0 on',
    float: 'a number from 0 on',
    list: 'a list',
    tuple: 'a list of the right length',
    dict: 'a mapping',
}


def _describe_type(value: Json) -> str:
    return 'empty' if value is None else f'a {type(value).__name__}'


def _format_value(value: Json) -> str:
    return 'missing' if value is None else repr(value)[:60]
