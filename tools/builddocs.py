#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Build the documentation site and the manual page into doc/build.

Each warning is an error. The build needs no network and no git repository.
"""

import subprocess
import sys
import time
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
SOURCE = TOP / 'doc' / 'source'
BUILD = TOP / 'doc' / 'build'


#: The theme asks git for the date of each page, and git prints this without
#: a repository.
NO_REPOSITORY = 'fatal: not a git repository'


def sphinx_build(*args: str) -> int:
    """Run Sphinx; return its exit status."""
    with subprocess.Popen(
        [sys.executable, '-m', 'sphinx', *args],
        stderr=subprocess.PIPE,
        encoding='utf-8',
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if not line.startswith(NO_REPOSITORY):
                sys.stderr.write(line)
        return process.wait()


def main() -> int:
    """Build both; return 0 if there was no warning."""
    status = 0
    for builder, options in (('html', []), ('man', ['-t', 'man'])):
        started = time.monotonic()
        output = BUILD / builder
        failed = sphinx_build(
            *('-W', '--keep-going', '-q', '-b', builder, *options),
            *('-d', str(BUILD / f'doctrees-{builder}')),
            *(str(SOURCE), str(output)),
        )
        status = status or failed
        suffix = '*.html' if builder == 'html' else '*.1'
        count = len(list(output.rglob(suffix)))
        print(
            f'{output}: {count} files, {time.monotonic() - started:.0f} s, '
            f'{"failed" if failed else "no warning"}',
            flush=True,
        )
    return status


if __name__ == '__main__':
    sys.exit(main())
