# SPDX-License-Identifier: Apache-2.0
"""Mutations of documents and files, with what is certain about each."""

import copy
import json
import os
import random
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

NAN, INFINITY = float('nan'), float('inf')
#: Larger than every file of hvstack; the file is sparse.
HUGE_BYTES = 3 * 2**30

#: Texts that are no name, address, host name or identifier.
BAD_NAMES = (
    '$(id)',
    '`id`',
    'a\nb',
    'a\n10.0.0.9 evil',
    'a\x00b',
    '\x1b[31mred\x1b[0m',
    '\x1b]0;title\x07',
    '\x9b31m',
    'x' * 300,
    '../../etc/x',
    'a;reboot',
    'a b c',
    "'",
    '-oProxyCommand=x',
    '\u202eabc',
    '\u0663\u0664',
    '\uff11\uff12',
)
#: Texts that no field can hold, whatever it is for.
BAD_TEXTS = ('a\x00b', '\x1b[31mred\x1b[0m', '\ud800', 'x' * 200_000)
#: Texts that some field may hold.
STRANGE_TEXTS = (
    '',
    ' ',
    '=1+1',
    '@SUM(1)',
    'nan',
    '1e999',
    '0x10',
    '\u0663',
    'Ünïcode',
    '<script>',
    '%s%n',
    '{mode}',
    'a' * 64,
)
BAD_NUMBERS = (NAN, INFINITY, -INFINITY)
LARGE_NUMBERS = (10**9, 10**18, 10**400, -(10**9))
STRANGE_NUMBERS = (0, -1, 0.5, 1e308, 2**31, 2**63)


@dataclass(frozen=True)
class Rules:
    """What is certain about the fields of a kind of file.

    A path is a dotted name, in which ``*`` stands for any key or index.

    :param open: prefixes below which anything may stand.
    :param names: texts that are names, addresses or identifiers.
    :param required: fields whose removal is invalid.
    :param strict: prefixes of mappings that refuse unknown keys; ``''`` is
        the top.
    :param bounded: numbers of which 10**9 or more are not valid.
    :param texts: texts that are no number, so that a number is refused too.
    """

    open: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    strict: tuple[str, ...] = ('',)
    bounded: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mutation:
    """A mutated document.

    :param data: what the file shall hold.
    :param label: what was changed.
    :param field: last part of the changed field's name; empty if the whole
        file is meant.
    :param invalid: whether every reader must refuse it.
    """

    data: Any
    label: str
    field: str
    invalid: bool


def matches(path: tuple[str, ...], pattern: str) -> bool:
    """Tell whether a path is of a pattern such as ``hosts.*.name``."""
    parts = pattern.split('.') if pattern else []
    return len(parts) == len(path) and all(
        part in ('*', key) for part, key in zip(parts, path, strict=True)
    )


def is_below(path: tuple[str, ...], pattern: str) -> bool:
    """Tell whether a path is of a pattern, or below it."""
    length = len(pattern.split('.'))
    return len(path) >= length and matches(path[:length], pattern)


def fields(data: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of all fields of a document."""
    items: Any = ()
    if isinstance(data, dict):
        items = data.items()
    elif isinstance(data, list):
        items = enumerate(data)
    for key, value in items:
        deeper = (*path, str(key))
        yield deeper
        yield from fields(value, deeper)


def _lookup(data: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        data = data[int(key)] if isinstance(data, list) else _get(data, key)
    return data


def _get(data: Any, key: str) -> Any:
    return next(value for name, value in data.items() if str(name) == key)


def _replace(data: Any, path: tuple[str, ...], value: Any) -> Any:
    parent = _lookup(data, path[:-1])
    if isinstance(parent, list):
        parent[int(path[-1])] = value
    else:
        name = next(key for key in parent if str(key) == path[-1])
        parent[name] = value
    return data


def _remove(data: Any, path: tuple[str, ...]) -> Any:
    parent = _lookup(data, path[:-1])
    if isinstance(parent, list):
        del parent[int(path[-1])]
    else:
        del parent[next(key for key in parent if str(key) == path[-1])]
    return data


def mutate(rng: random.Random, data: Any, rules: Rules) -> Mutation:
    """Return a document with one field changed, added or removed."""
    data = copy.deepcopy(data)
    paths = list(fields(data))
    action = rng.choices(
        ('value', 'type', 'remove', 'add', 'top'), (50, 30, 8, 8, 4)
    )[0]
    if action == 'top' or not paths:
        value = rng.choice((None, [], {}, 0, 'text', [[]], True))
        invalid = not isinstance(value, type(data)) or bool(rules.required)
        invalid = invalid and not (value is None and not rules.required)
        return Mutation(value, f'content is {value!r}', '', invalid)
    path = rng.choice(paths)
    is_open = any(is_below(path, prefix) for prefix in rules.open)
    name = '.'.join(path)
    field = next(
        (key for key in reversed(path) if not key.isdigit()), path[-1]
    )
    if action == 'remove':
        invalid = any(matches(path, pattern) for pattern in rules.required)
        return Mutation(_remove(data, path), f'{name} removed', field, invalid)
    if action == 'add':
        parent = _lookup(data, path[:-1])
        if isinstance(parent, dict):
            key = rng.choice(('zzz', 'mamory', '\x1b[2J', 'x' * 300))
            parent[key] = 1
            invalid = any(
                matches(path[:-1], pattern) for pattern in rules.strict
            )
            label = f'{".".join((*path[:-1], key))!r:.60} added'
            return Mutation(data, label, key, invalid)
        action = 'value'
    before = _lookup(data, path)
    if action == 'type':
        value = rng.choice(
            ([], {}, [[]], {'a': 1}, None, 'text', 7, 1.5, True, [1] * 1000)
        )
    else:
        value = _hostile(rng, before)
    invalid = not is_open and _is_invalid(path, before, value, rules)
    return Mutation(
        _replace(data, path, value), f'{name} = {value!r:.60}', field, invalid
    )


def _hostile(rng: random.Random, before: Any) -> Any:
    if isinstance(before, bool):
        return rng.choice(('maybe', 2, [], 'true', NAN))
    if isinstance(before, int | float):
        return rng.choice(
            rng.choice((BAD_NUMBERS, LARGE_NUMBERS, STRANGE_NUMBERS))
        )
    if isinstance(before, str):
        return rng.choice(
            rng.choice((BAD_NAMES, BAD_NAMES, BAD_TEXTS, STRANGE_TEXTS))
        )
    if isinstance(before, list):
        return rng.choice(([], [None], before * 3, [before], 'text', {}))
    return rng.choice(({}, [], 'text', 0, {'zzz': 1}, {'': None}))


def _is_invalid(
    path: tuple[str, ...], before: Any, value: Any, rules: Rules
) -> bool:
    """Tell whether it is certain that no reader may accept a new value."""
    if isinstance(before, bool):
        return not isinstance(value, bool | None)
    if isinstance(before, int | float):
        if isinstance(value, bool | list | dict | str):
            return True
        if value is None:
            return any(matches(path, pattern) for pattern in rules.required)
        if value != value or abs(value) == INFINITY or value < 0:
            return True
        if value > 10**300:
            return True
        return value >= 10**9 and any(
            matches(path, pattern) for pattern in rules.bounded
        )
    if isinstance(before, str):
        if isinstance(value, list | dict):
            return True
        if isinstance(value, bool | int | float):
            return any(matches(path, pattern) for pattern in rules.texts)
        if value is None:
            return any(matches(path, pattern) for pattern in rules.required)
        if value in BAD_TEXTS:
            return True
        return value in BAD_NAMES and any(
            matches(path, pattern) for pattern in rules.names
        )
    if isinstance(before, list):
        return isinstance(value, str | bool | int | float | dict)
    if isinstance(before, dict):
        return isinstance(value, str | bool | int | float | list)
    return False


class _Dumper(yaml.SafeDumper):
    """Writes what is there twice, twice."""

    def ignore_aliases(self, data: Any) -> bool:
        """Use no aliases, which hvstack refuses."""
        return True


def render(data: Any, form: str) -> bytes:
    """Return the text of a document.

    :param form: ``json``, ``yaml`` or ``lines``.
    """
    if form == 'lines':
        lines = data if isinstance(data, list) else [data]
        text = ''.join(f'{line}\n' for line in lines)
        return text.encode('utf-8', 'replace')
    if form == 'json':
        # Lone surrogates are written as escapes, NaN as NaN.
        return json.dumps(data, indent=1).encode()
    text = yaml.dump(data, Dumper=_Dumper, sort_keys=False)
    return text.encode('utf-8', 'replace')


#: Mutations of a file as a whole, and whether every reader must refuse it.
FILES: dict[str, bool] = {
    'empty': True,
    'truncated': False,
    'not UTF-8': True,
    'UTF-16': True,
    'NUL bytes': True,
    'deep': True,
    'alias bomb': True,
    'duplicate key': True,
    'long line': True,
    'huge': True,
    'FIFO': True,
    'directory': True,
    'zero device': True,
    'link loop': True,
    'missing': True,
    'large number': True,
}
#: Those of them that are no regular file.
NO_FILES = ('FIFO', 'directory', 'zero device', 'link loop')


def damage(
    rng: random.Random, path: Path, data: Any, form: str
) -> tuple[str, bool] | None:
    """Put something at a path that is not the file that it should be.

    :returns: the mutation's name, and whether every reader must refuse the
        file; None where this machine cannot make it.
    """
    name = rng.choice(list(FILES))
    text = render(data, form)
    path.unlink(missing_ok=True)
    if name == 'FIFO':
        os.mkfifo(path)
    elif name == 'directory':
        path.mkdir()
    elif name == 'zero device':
        try:
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 5))
        except OSError:
            return None
    elif name == 'link loop':
        path.symlink_to(path.name)
    elif name == 'huge':
        with path.open('wb') as stream:
            stream.truncate(HUGE_BYTES)
    elif name != 'missing':
        path.write_bytes(_damaged(rng, name, text, form))
    invalid = FILES[name]
    if name == 'truncated' and form == 'json':
        invalid = True
    if name == 'large number' and form in ('yaml', 'lines'):
        # It makes the last value longer, which may be a text.
        invalid = False
    if name == 'duplicate key' and form == 'lines':
        invalid = False
    return name, invalid


def _damaged(rng: random.Random, name: str, text: bytes, form: str) -> bytes:
    if name == 'empty':
        return b''
    if name == 'truncated':
        return text[: rng.randrange(1, max(2, len(text) - 3))]
    if name == 'not UTF-8':
        middle = len(text) // 2
        return text[:middle] + b'\xff\xfe\xe9' + text[middle:]
    if name == 'UTF-16':
        return text.decode().encode('utf-16')
    if name == 'NUL bytes':
        return text + b'\0' * 100
    if name == 'deep':
        return b'[' * 5000 + b']' * 5000
    if name == 'alias bomb':
        lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x]']
        lines += [
            f'a{level}: &a{level} [' + f'*a{level - 1},' * 9 + ']'
            for level in range(1, 10)
        ]
        return '\n'.join(lines).encode()
    if name == 'duplicate key':
        return _duplicated(text, form)
    if name == 'large number':
        return text.rstrip().rstrip(b'}]') + b'9' * 5000
    return b'"' + b'x' * 2_000_000


def _duplicated(text: bytes, form: str) -> bytes:
    """Return a document whose first mapping has its first key twice."""
    if form == 'json':
        head, _, remainder = text.partition(b'{')
        first = remainder.lstrip().split(b':')[0]
        return head + b'{' + first + b': 1,' + remainder
    if form == 'lines':
        return text + text
    lines = text.split(b'\n')
    line = next(index for index, line in enumerate(lines) if b':' in line)
    indent = b' ' * (
        len(lines[line]) - len(lines[line].lstrip(b'- ').lstrip())
    )
    key = lines[line].lstrip(b'- ').split(b':')[0]
    # If a value continues in the next lines, the copy comes first.
    if lines[line].lstrip().startswith(b'- '):
        lines[line] = lines[line].replace(
            b'- ' + key, b'- ' + key + b': 1\n' + indent + key, 1
        )
    else:
        lines.insert(line, indent + key + b': 1')
    return b'\n'.join(lines)
