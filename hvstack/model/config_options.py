# SPDX-License-Identifier: Apache-2.0
"""Options of the configuration files of services, and their text."""

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class ConfigOption:
    """Option of a configuration file.

    :param comment: reason for the value; empty for the option of the line
        before.
    :param example: whether the operator must replace the value.
    """

    section: str
    name: str
    value: str
    comment: str = ''
    example: bool = False

    @property
    def line(self) -> str:
        """The option as a line of its file; an example is a comment."""
        mark = '#' if self.example else ''
        return f'{mark}{self.name} = {self.value}'


def format_options(
    options: Iterable[ConfigOption], *, comments: bool = False
) -> str:
    """Return options as lines of an ini file, without a newline at the end.

    :param comments: whether to write the reason before each option.
    """
    sections: dict[str, list[str]] = {}
    for option in options:
        lines = sections.setdefault(option.section, [f'[{option.section}]'])
        if comments and option.comment:
            lines += format_comment(option.comment)
        lines.append(option.line)
    between = '\n\n' if comments else '\n'
    return between.join('\n'.join(lines) for lines in sections.values())


def format_comment(text: str) -> list[str]:
    """Return a text as comment lines of at most 79 characters."""
    return textwrap.wrap(
        text,
        79,
        initial_indent='# ',
        subsequent_indent='# ',
        break_long_words=False,
        break_on_hyphens=False,
    )
