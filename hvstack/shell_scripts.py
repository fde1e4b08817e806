# SPDX-License-Identifier: Apache-2.0
"""Shell programs of the package, which run on nodes and hosts.

They are files, so that shellcheck can check them.
"""

import functools
import shlex
from pathlib import Path

from hvstack import share


@functools.cache
def load(name: str) -> str:
    """Return a shell program without what only people and shellcheck read.

    This is the header of its file, up to the first empty line, and the
    directives of shellcheck.

    :param name: name of the file in ``hvstack/share/shell``, without suffix.
    """
    text = (share.SHELL / f'{name}.sh').read_text(encoding='utf-8')
    return ''.join(
        line
        for line in text.partition('\n\n')[2].splitlines(keepends=True)
        if not line.lstrip().startswith('# shellcheck ')
    )


def render(name: str, *args: str | int | Path) -> str:
    """Return a shell program that has its arguments.

    :param name: name of the file in ``hvstack/share/shell``, without suffix.
    :param args: positional parameters of the program.
    """
    return f'{shlex.join(["set", "--", *map(str, args)])}\n{load(name)}'
