# SPDX-License-Identifier: Apache-2.0
"""Reading JSON strictly: every error names file, line and field.

Duplicate keys, numbers that are not finite, texts that are not Unicode and
values that are nested too deep are refused.
"""

import json
import math
import re
from pathlib import Path
from typing import Any

import yaml

from hvstack import errors, textfile
from hvstack.yamlfile import (
    MOST_DEPTH,
    Document,
    check_values,
    line_numbers,
)

#: Longest whole number: more digits take quadratic time to read.
_MAX_DIGITS = 20
#: Escapes other than those of quotes, slashes and white space.
_ESCAPE = re.compile(r'\\[^"\\/nt]')
#: Types of values that are inspected one by one.
_INSPECTED = frozenset({dict, list, float})
#: Number of values from which on their types are compared at once.
_MANY = 16
#: Longest text of a mapping of texts.
_MAX_TEXT = 65535


def load(path: Path, max_bytes: int = textfile.MAX_BYTES) -> Document:
    """Read a JSON file.

    :param max_bytes: size limit of the file.
    :raises hvstack.textfile.MissingFileError: the file does not exist.
    :raises hvstack.errors.InputError: the file cannot be read or is not
        strict JSON.
    """
    return parse(textfile.read(path, max_bytes), path)


def load_if_whole(
    path: Path, max_bytes: int = textfile.MAX_BYTES
) -> dict[str, Any]:
    """Return the mapping in a file that hvstack can write again.

    :param path: a file of hvstack without which it does its work again.
    :param max_bytes: size limit of the file.
    :returns: an empty mapping if the file does not exist, cannot be read or
        is not strict JSON.
    """
    try:
        data = load(path, max_bytes).data
    except errors.InputError:
        return {}
    return data if isinstance(data, dict) else {}


def load_texts(path: Path) -> dict[str, str]:
    """Read a JSON file with a mapping of texts.

    :raises hvstack.textfile.MissingFileError: the file does not exist.
    :raises hvstack.errors.InputError: it is not such a file.
    """
    return parse_texts(textfile.read(path), path)


def parse_texts(text: str, path: Path) -> dict[str, str]:
    """Return the mapping of texts in a JSON text.

    :param text: the text.
    :param path: the file that it was read from.
    :raises hvstack.errors.InputError: it is not such a file.
    """
    document = parse(text, path)
    if not isinstance(document.data, dict):
        raise errors.InputError(
            f'{path}:1: the content is not a mapping. Correct or restore the '
            'file.'
        )
    for name, value in document.data.items():
        if not isinstance(value, str) or not 0 < len(value) <= _MAX_TEXT:
            raise errors.InputError(
                f"{document.source_location()(name)}: '{name[:60]}' is not a "
                f'text of 1 to {_MAX_TEXT} characters. Correct or restore the '
                'file.'
            )
    return dict(document.data)


def parse(text: str, path: Path) -> Document:
    """Return the document of a JSON text.

    :param text: the text.
    :param path: the file that it was read from.
    :raises hvstack.errors.InputError: the text is not strict JSON.
    """
    try:
        # A function for each number of a record takes longer.
        is_long = textfile.has_digits(text, _MAX_DIGITS)
        data = (_LONG_DECODER if is_long else _DECODER).decode(text)
    except json.JSONDecodeError as exc:
        raise errors.InputError(
            f'{path}:{exc.lineno}: Cannot read the JSON: wrong character or '
            f'end of the text in column {exc.colno}. Correct or restore the '
            'file.'
        ) from exc
    except _FieldError as exc:
        line = _line(text, exc.needle)
        raise errors.InputError(
            f'{path}:{line}: Cannot read the JSON: {exc}. Correct or restore '
            'the file.'
        ) from exc
    except RecursionError as exc:
        raise errors.InputError(
            f'{path}: Cannot read the JSON: nested too deep. Correct or '
            'restore the file.'
        ) from exc
    document = Document(data, path, _Lines(text))
    is_container = isinstance(data, dict | list)
    if not (is_container and _is_plain(text) and _is_shallow(data)):
        check_values(document)
    return document


def _is_plain(text: str) -> bool:
    """Return whether no text of a JSON document has a control character.

    A quick look at the whole document. The parser has refused control
    characters of ASCII other than DEL, unless they are escaped.

    :returns: False if only a look at each text can tell.
    """
    return text.isascii() and '\x7f' not in text and not _ESCAPE.search(text)


def _is_shallow(data: Any) -> bool:
    """Return whether values have few levels, and numbers are finite."""
    level = [data]
    for _ in range(MOST_DEPTH):
        deeper: list[Any] = []
        for container in level:
            is_mapping = isinstance(container, dict)
            values = container.values() if is_mapping else container
            # Hundreds of properties of Hadoop are texts, which need no loop.
            if len(values) > _MANY and _INSPECTED.isdisjoint(
                map(type, values)
            ):
                continue
            for value in values:
                # The parser makes no subclasses, and this is the quickest.
                kind = type(value)
                if kind is dict or kind is list:
                    deeper.append(value)
                elif kind is float and not math.isfinite(value):
                    return False
        if not deeper:
            return True
        level = deeper
    return False


class _FieldError(ValueError):
    """A value that is JSON for some programs, but not for hvstack.

    :param needle: text by which its line is found.
    """

    def __init__(self, reason: str, needle: str) -> None:
        super().__init__(reason)
        self.needle = needle


class _Lines(dict[str, int]):
    """Line numbers by field, computed when the first one is needed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        # All fields of a single line, such as millions of samples, are on
        # the first one.
        has_lines = text.find('\n', 0, len(text) - 1) >= 0
        self._text = text if has_lines else ''

    def _load(self) -> None:
        if self._text:
            text, self._text = self._text, ''
            try:
                # Almost all JSON is YAML, which knows its lines.
                self.update(line_numbers(text))
            except (yaml.YAMLError, ValueError, RecursionError):
                return

    def __contains__(self, name: object) -> bool:
        self._load()
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._load()
        return super().get(name, default)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        names = [name for name, _ in pairs]
        name = next(name for name in names if names.count(name) > 1)
        raise _FieldError(f"'{name[:60]}' is duplicated", f'"{name}"')
    return mapping


def _refuse_constant(text: str) -> Any:
    raise _FieldError(f'{text} is not a finite number', text)


def _integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise _FieldError(f'a number has {len(text)} digits', text)
    return int(text)


#: Decoders of strict JSON without and with long numbers.
_DECODER, _LONG_DECODER = (
    json.JSONDecoder(
        object_pairs_hook=_unique,
        parse_constant=_refuse_constant,
        parse_int=parse_int,
    )
    for parse_int in (int, _integer)
)


def _line(text: str, needle: str) -> int:
    """Return the line of the last place of a text, which is the second."""
    return text.count('\n', 0, max(text.rfind(needle), 0)) + 1
