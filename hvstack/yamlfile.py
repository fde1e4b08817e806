# SPDX-License-Identifier: Apache-2.0
"""Reading YAML strictly: every error names file and line.

Duplicate keys and aliases are refused: the first are a mistake, the second
could blow a small file up to any size.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hvstack import errors

#: Larger than any file of ours; more is a mistake.
MOST_BYTES = 1_000_000
#: Deeper than any file of ours.
MOST_DEPTH = 20


@dataclass(frozen=True)
class Document:
    """What a YAML file holds, and where.

    :param data: plain lists, mappings and values.
    :param path: the file.
    :param lines: line of every field, by its dotted name.
    """

    data: Any
    path: Path
    lines: dict[str, int]

    def place(self, prefix: str = '') -> Callable[[str], str]:
        """Return a function from a dotted name to ``file:line``.

        :param prefix: where in the file the names start.
        """

        def at(name: str) -> str:
            full = '.'.join(part for part in (prefix, name) if part)
            while full and full not in self.lines:
                full = full.rpartition('.')[0]
            return f'{self.path}:{self.lines.get(full, 1)}'

        return at


def load(path: Path) -> Document:
    """Read a YAML file of one document.

    :raises hvstack.errors.InputError: cannot be read, is no YAML, has
        duplicate keys, aliases or tags of its own.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise errors.InputError(
                f'{path}: larger than {MOST_BYTES} bytes, give a smaller file'
            )
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as exc:
        reason = getattr(exc, 'strerror', None) or 'is not UTF-8 text'
        raise errors.InputError(
            f'{path}: cannot be read ({reason}), give a readable YAML file'
        ) from exc
    try:
        _refuse_bombs(text, path)
        return _document(text, path)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark
        line = mark.line + 1 if mark else 1
        raise errors.InputError(
            f'{path}:{line}: no plain YAML ({exc.problem}), correct this line'
        ) from exc
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        raise errors.InputError(
            f'{path}: no plain YAML ({type(exc).__name__}), correct the file'
        ) from exc


def _document(text: str, path: Path) -> Document:
    lines: dict[str, int] = {}
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return Document(None, path, lines)
        _walk(loader, node, '', lines, path)
        return Document(loader.construct_document(node), path, lines)
    finally:
        loader.dispose()


def _refuse_bombs(text: str, path: Path) -> None:
    """Refuse what could take any time or room, before building anything."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        mark = event.start_mark
        line = mark.line + 1 if mark else 1
        if isinstance(event, yaml.AliasEvent):
            raise errors.InputError(
                f'{path}:{line}: aliases (*{event.anchor}) are not allowed, '
                'write the values out'
            )
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MOST_DEPTH:
            raise errors.InputError(
                f'{path}:{line}: nested deeper than {MOST_DEPTH} levels, '
                'flatten it'
            )


def _walk(
    loader: yaml.SafeLoader,
    node: yaml.Node,
    name: str,
    lines: dict[str, int],
    path: Path,
) -> None:
    """Note every field's line and refuse keys that come twice."""
    lines.setdefault(name, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            _walk(loader, item, _join(name, str(number)), lines, path)
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            line = key.start_mark.line + 1
            text = str(loader.construct_object(key, deep=True))
            if text in seen:
                raise errors.InputError(
                    f"{path}:{line}: '{_join(name, text)}' comes twice, "
                    'remove one'
                )
            seen.add(text)
            lines[_join(name, text)] = line
            _walk(loader, value, _join(name, text), lines, path)


def _join(name: str, part: str) -> str:
    return f'{name}.{part}' if name else part
