# SPDX-License-Identifier: Apache-2.0
"""Frozen dataclasses from JSON, and the JSON Schema of these dataclasses.

The types of the fields are the schema. A field whose key in JSON has another
name says so with :func:`named`; :func:`inlined` fields of a dataclass are keys
of the same object. Keys that no field has are ignored, and null is the same
as a missing key.
"""

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, TypeVar

from hvstack.model import plain_data

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Json = plain_data.Json
JsonObject = plain_data.JsonObject

_Instance = TypeVar('_Instance', bound='DataclassInstance')
_Reader = Callable[[Json], object]
_Default = Callable[[], object]
#: Type of a field, such as ``tuple[str, ...]`` or ``str | None``.
_Hint = type | types.GenericAlias | types.UnionType
#: How a field is read: name, key, two types of values that are used as they
#: are, reader, and the function that returns the value of a missing key.
_FieldSteps = tuple[str, str, type, type, _Reader, _Default | None]
_KEY, _INLINE = 'key', 'inline'
#: Types of scalars: those of Python in JSON, and the name in a JSON Schema.
_SCALARS: Mapping[type, tuple[frozenset[type], str]] = {
    str: (frozenset({str}), 'string'),
    bool: (frozenset({bool}), 'boolean'),
    int: (frozenset({int}), 'integer'),
    float: (frozenset({int, float}), 'number'),
}


class _NoType:
    """Type that no value has."""


class FieldTypeError(ValueError):
    """A value that does not have the type of its field.

    :param name: dotted name of the field.
    :param reason: what is wrong, after the name.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"'{name}' {reason}")
        self.name = name
        self.reason = reason

    def below(self, name: str) -> 'FieldTypeError':
        """Return the error with the name of the object that has the field."""
        names = [part for part in (name, self.name) if part]
        return FieldTypeError('.'.join(names), self.reason)


def named(key: str) -> dict[str, str]:
    """Return metadata of a field whose key in JSON has another name."""
    return {_KEY: key}


def inlined() -> dict[str, bool]:
    """Return metadata of a dataclass whose fields are keys of its parent.

    A mapping with this metadata is the whole parent, as it is.
    """
    return {_INLINE: True}


class _FieldPlan(typing.NamedTuple):
    """How a field is read.

    :param name: name of the attribute.
    :param key: key in JSON; empty for the object itself.
    :param read: function that checks and converts the value.
    :param scalars: types of values that are used as they are, two at most.
    :param schema: JSON Schema of the value.
    :param required: whether the key must exist.
    :param build_default: function that returns the value of a missing key;
        None if the key must exist, or if the dataclass has the value.
    """

    name: str
    key: str
    read: _Reader
    scalars: tuple[type, ...]
    schema: JsonObject
    required: bool
    build_default: _Default | None


def read(cls: type[_Instance], data: Json) -> _Instance:
    """Return an object of a dataclass.

    :param data: JSON object.
    :raises FieldTypeError: a value does not have the type of its field, or a
        field without a default is missing.
    """
    if not isinstance(data, dict):
        raise _type_error(data, 'object')
    # Reports read thousands of objects: a frozen dataclass would set each
    # attribute with a call.
    instance = object.__new__(cls)
    values = instance.__dict__
    defaults, fields = _list_fields(cls)
    values.update(defaults)
    for name, key, scalar, other_scalar, read_value, build_default in fields:
        value = data.get(key) if key else data
        value_type = type(value)
        if value_type is scalar or value_type is other_scalar:
            values[name] = value
        elif value is not None:
            try:
                values[name] = read_value(value)
            except FieldTypeError as exc:
                raise exc.below(key) from None
        elif build_default is not None:
            values[name] = build_default()
        elif name not in defaults:
            raise FieldTypeError(key, 'is missing')
    return instance


def build_properties(cls: type['DataclassInstance']) -> JsonObject:
    """Return the JSON Schemas of the keys of a dataclass."""
    properties: JsonObject = {}
    for plan in _plan(cls):
        if not plan.key:
            inner = plan.schema.get('properties')
            properties |= inner if isinstance(inner, dict) else {}
        elif plan.required:
            properties[plan.key] = plan.schema
        else:
            name = plan.schema.get('type')
            properties[plan.key] = {**plan.schema, 'type': [name, 'null']}
    return properties


def list_required(cls: type['DataclassInstance']) -> list[str]:
    """Return the keys that an object of a dataclass must have."""
    names: list[str] = []
    for plan in _plan(cls):
        inner = plan.schema.get('required')
        if plan.key:
            names += [plan.key] if plan.required else []
        elif isinstance(inner, list):
            names += inner
    return names


def build_schema(cls: type['DataclassInstance']) -> JsonObject:
    """Return the JSON Schema of the objects that :func:`read` accepts."""
    required = list_required(cls)
    return {
        'type': 'object',
        'properties': build_properties(cls),
        **({'required': required} if required else {}),
    }


@cache
def _plan(cls: type['DataclassInstance']) -> tuple[_FieldPlan, ...]:
    # read() does not call __init__().
    assert not hasattr(cls, '__post_init__')
    hints = typing.get_type_hints(cls)
    plans = []
    for field in dataclasses.fields(cls):
        hint = hints[field.name]
        is_inline = field.metadata.get(_INLINE, False)
        reader, schema = (
            (_read_whole, {})
            if is_inline and not dataclasses.is_dataclass(hint)
            else _compile(hint)
        )
        plans.append(
            _FieldPlan(
                field.name,
                '' if is_inline else field.metadata.get(_KEY, field.name),
                reader,
                _list_scalars(hint),
                schema,
                field.default is dataclasses.MISSING
                and field.default_factory is dataclasses.MISSING,
                _find_factory(field),
            )
        )
    return tuple(plans)


@cache
def _list_fields(
    cls: type['DataclassInstance'],
) -> tuple[Mapping[str, Json], tuple[_FieldSteps, ...]]:
    """Return the defaults of a dataclass, and how its fields are read."""
    defaults = {
        field.name: field.default
        for field in dataclasses.fields(cls)
        if field.default is not dataclasses.MISSING
    }
    steps = []
    for plan in _plan(cls):
        # A comparison with two types is faster than a look into a set.
        scalar, other = (*plan.scalars, _NoType, _NoType)[:2]
        steps.append(
            (plan.name, plan.key, scalar, other, plan.read, plan.build_default)
        )
    return defaults, tuple(steps)


def _list_scalars(hint: _Hint) -> tuple[type, ...]:
    """Return the types of values of a scalar or an optional scalar."""
    is_optional = typing.get_origin(hint) is types.UnionType
    for item in typing.get_args(hint) if is_optional else (hint,):
        if isinstance(item, type) and item in _SCALARS:
            return tuple(_SCALARS[item][0])
    return ()


def _find_factory(field: 'dataclasses.Field[Json]') -> _Default | None:
    """Return the function that returns the default of a field."""
    if field.default_factory is dataclasses.MISSING:
        return None
    return field.default_factory


def _read_whole(value: Json) -> object:
    return value


def _compile(hint: _Hint) -> tuple[_Reader, JsonObject]:
    """Return the reader of a type, and its JSON Schema."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        (inner,) = (item for item in args if item is not types.NoneType)
        return _compile(inner)
    if isinstance(hint, type) and hint in _SCALARS:
        return _compile_scalar(hint)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        cls = hint
        # A partial function is called without a frame of its own.
        return partial(read, cls), build_schema(cls)
    if origin is tuple:
        return _compile_list(args[0])
    return _compile_mapping(args[1])


def _compile_scalar(hint: type) -> tuple[_Reader, JsonObject]:
    allowed, name = _SCALARS[hint]

    def read_scalar(value: Json) -> object:
        # A truth value is a number to isinstance().
        if type(value) in allowed:
            return value
        raise _type_error(value, name)

    return read_scalar, {'type': name}


def _compile_list(hint: _Hint) -> tuple[_Reader, JsonObject]:
    read_item, schema = _compile(hint)

    def read_list(value: Json) -> object:
        if not isinstance(value, list):
            raise _type_error(value, 'array')
        items = []
        for index, item in enumerate(value):
            try:
                items.append(read_item(item))
            except FieldTypeError as exc:
                raise exc.below(str(index)) from None
        return tuple(items)

    return read_list, {'type': 'array', 'items': schema}


def _compile_mapping(hint: _Hint) -> tuple[_Reader, JsonObject]:
    read_item, schema = _compile(hint)
    allowed: frozenset[type] = frozenset()
    if isinstance(hint, type) and hint in _SCALARS:
        allowed, _ = _SCALARS[hint]

    def read_mapping(value: Json) -> object:
        if not isinstance(value, dict):
            raise _type_error(value, 'object')
        if allowed and allowed.issuperset(map(type, value.values())):
            return value  # Hundreds of counters need no call for each.
        items = {}
        for key, item in value.items():
            try:
                items[key] = read_item(item)
            except FieldTypeError as exc:
                raise exc.below(key) from None
        return items

    return read_mapping, {'type': 'object', 'additionalProperties': schema}


def _type_error(value: Json, name: str) -> FieldTypeError:
    article = 'an' if name[0] in 'aeiou' else 'a'
    return FieldTypeError('', f'is {value!r:.60}, not {article} {name}')


#: Encoder of the text that digest and signature cover. Plain data of a file
#: has no cycles.
_CANONICAL = json.JSONEncoder(
    sort_keys=True,
    separators=(',', ':'),
    allow_nan=False,
    check_circular=False,
)


def encode_canonical(content: JsonObject) -> str:
    """Return JSON in ASCII with sorted keys and without blanks.

    :raises ValueError: a number is not finite.
    """
    return _CANONICAL.encode(content)
