# SPDX-License-Identifier: Apache-2.0
"""Reading YAML strictly: every error names file and line.

Duplicate keys and aliases are refused: the first are a mistake, the second
could blow a small file up to any size.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from hvstack import errors, textfile

#: Larger than any file of hvstack; more is a mistake.
MOST_BYTES = 1_000_000
#: Deeper than any file of hvstack.
MOST_DEPTH = 20
#: A text, because PyYAML has CSafeLoader only with libyaml.
_Loader: TypeAlias = 'type[yaml.SafeLoader] | type[yaml.CSafeLoader]'
_FAST_LOADER: _Loader = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)


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

    def source_location(self, prefix: str = '') -> Callable[[str], str]:
        """Return a function from a dotted name to ``file:line``.

        :param prefix: where in the file the names start.
        """

        def at(name: str) -> str:
            full = '.'.join(part for part in (prefix, name) if part)
            while full and full not in self.lines:
                full = full.rpartition('.')[0]
            return f'{self.path}:{self.lines.get(full, 1)}'

        return at


def load(path: Path, *, packaged: bool = False) -> Document:
    """Read a YAML file of one document.

    :param path: the file.
    :param packaged: whether the file belongs to the package. libyaml, if it
        is installed, reads such a file in an eighth of the time; its messages
        on wrong files are less clear.
    :raises hvstack.errors.InputError: cannot be read, is no YAML, has
        duplicate keys, aliases or tags of its own.
    """
    text = textfile.read(path, MOST_BYTES)
    try:
        loader = _FAST_LOADER if packaged else yaml.SafeLoader
        _refuse_bombs(text, path, loader)
        document = _document(text, path, loader)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark
        line = mark.line + 1 if mark else 1
        raise errors.InputError(
            f'{path}:{line}: Cannot read the YAML: {exc.problem}. Correct '
            'this line.'
        ) from exc
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        raise errors.InputError(
            f'{path}: Cannot read the YAML: a value or a character is not '
            'allowed. Correct the file.'
        ) from exc
    check_values(document)
    return document


def check_values(document: Document) -> None:
    """Refuse values that no file of hvstack needs.

    :raises hvstack.errors.InputError: nested deeper than
        :data:`MOST_DEPTH`, a number that is not finite, a control character
        or a lone surrogate.
    """
    todo: list[tuple[str, Any, int]] = [('', document.data, 0)]
    while todo:
        name, value, depth = todo.pop()
        if depth > MOST_DEPTH:
            reason = (
                f'is nested deeper than {MOST_DEPTH} levels. Use fewer levels'
            )
            raise _value_error(document, name, reason)
        if isinstance(value, Mapping):
            for key, item in value.items():
                deeper = _join(name, str(key))
                if textfile.printable(str(key)) != str(key):
                    reason = 'has a control character. Remove it'
                    raise _value_error(document, deeper, reason)
                todo.append((deeper, item, depth + 1))
        elif isinstance(value, list):
            todo += [
                (_join(name, str(index)), item, depth + 1)
                for index, item in enumerate(value)
            ]
        elif isinstance(value, float) and not math.isfinite(value):
            reason = f'is {value}. Use a finite number'
            raise _value_error(document, name, reason)
        elif isinstance(value, str) and textfile.printable(value) != value:
            reason = f'is {value[:60]!a}. Remove the control character'
            raise _value_error(document, name, reason)


def _value_error(
    document: Document, name: str, reason: str
) -> errors.InputError:
    source_location = document.source_location()(name)
    # Keys are the user's, and may have control characters.
    return errors.InputError(
        f"{source_location}: '{textfile.printable(name[:200]) or 'content'}' "
        f'{reason}.'
    )


def line_numbers(text: str) -> dict[str, int]:
    """Return the line of every field of a YAML or JSON text.

    :raises yaml.YAMLError: it is neither.
    """
    lines: dict[str, int] = {}
    todo = [('', yaml.compose(text, Loader=yaml.SafeLoader))]
    while todo:
        name, node = todo.pop()
        if node is None:
            continue
        lines.setdefault(name, node.start_mark.line + 1)
        if isinstance(node, yaml.SequenceNode):
            todo += [
                (_join(name, str(index)), item)
                for index, item in enumerate(node.value)
            ]
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                deeper = _join(name, str(key.value))
                lines[deeper] = key.start_mark.line + 1
                todo.append((deeper, value))
    return lines


def with_fields(text: str, changes: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a YAML text with some fields set, and all else as it was.

    Fields that are there are replaced; others come behind the first of
    these, or before all fields of their mapping.

    :param text: that :func:`load` has accepted.
    :param changes: fields and their new values, by the dotted name of the
        mapping that they belong to.
    """
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    edits: list[tuple[int, int, str]] = []
    for name, fields in changes.items():
        edits += _edits(_named(root, name), fields)
    for start, end, new in sorted(edits, reverse=True):
        length = len(text[start:end].rstrip())
        text = text[:start] + new + text[start + length :]
    return text


def _named(node: Any, name: str) -> Any:
    for part in name.split('.') if name else ():
        if isinstance(node, yaml.SequenceNode):
            node = node.value[int(part)]
        else:
            node = next(v for k, v in node.value if k.value == part)
    return node


def _edits(
    node: yaml.MappingNode, fields: Mapping[str, Any]
) -> list[tuple[int, int, str]]:
    """Return (start, end, new text) of what changes in a mapping."""
    nodes_by_key = {key.value: (key, value) for key, value in node.value}
    first = node.value[0][0]
    indent = '\n' + ' ' * first.start_mark.column
    between = ', ' if node.flow_style else indent

    def rendered(names: list[str]) -> str:
        text = yaml.safe_dump(
            {name: fields[name] for name in names},
            sort_keys=False,
            default_flow_style=bool(node.flow_style),
            width=MOST_BYTES,
        ).rstrip('\n')
        return text[1:-1] if node.flow_style else text.replace('\n', indent)

    old = [name for name in fields if name in nodes_by_key]
    new = [name for name in fields if name not in nodes_by_key]
    if not old:
        start = first.start_mark.index
        return [(start, start, rendered(new) + between)]
    return [
        (
            nodes_by_key[name][0].start_mark.index,
            _end(nodes_by_key[name][1]),
            rendered([name, *new] if name == old[0] else [name]),
        )
        for name in old
    ]


def _end(node: yaml.Node) -> int:
    """Return where a value ends, without comments that come behind it."""
    while (
        isinstance(node, yaml.CollectionNode)
        and not node.flow_style
        and node.value
    ):
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    return int(node.end_mark.index)


def _document(text: str, path: Path, loader_class: _Loader) -> Document:
    lines: dict[str, int] = {}
    loader = loader_class(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return Document(None, path, lines)
        _walk(loader, node, '', lines, path)
        return Document(loader.construct_document(node), path, lines)
    finally:
        loader.dispose()


def _refuse_bombs(text: str, path: Path, loader_class: _Loader) -> None:
    """Refuse what could take any time or room, before building anything."""
    depth = 0
    for event in yaml.parse(text, Loader=loader_class):
        mark = event.start_mark
        line = mark.line + 1 if mark else 1
        if isinstance(event, yaml.AliasEvent):
            raise errors.InputError(
                f'{path}:{line}: Cannot use aliases (*{event.anchor}). Write '
                'the values at each location.'
            )
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MOST_DEPTH:
            raise errors.InputError(
                f'{path}:{line}: Cannot read more than {MOST_DEPTH} nested '
                'levels. Use fewer levels.'
            )


def _walk(
    loader: 'yaml.SafeLoader | yaml.CSafeLoader',
    node: yaml.Node,
    name: str,
    lines: dict[str, int],
    path: Path,
) -> None:
    """Note every field's line and refuse keys that come twice."""
    lines.setdefault(name, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _walk(loader, item, _join(name, str(index)), lines, path)
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            line = key.start_mark.line + 1
            text = str(loader.construct_object(key, deep=True))
            if text in seen:
                full_name = ' '.join(_join(name, text).split())
                raise errors.InputError(
                    f"{path}:{line}: '{full_name}' is duplicated. Delete one."
                )
            seen.add(text)
            lines[_join(name, text)] = line
            _walk(loader, value, _join(name, text), lines, path)


def _join(name: str, part: str) -> str:
    return f'{name}.{part}' if name else part
