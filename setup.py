# SPDX-License-Identifier: Apache-2.0
"""Build hvstack with pbr; the configuration is in pyproject.toml."""

import os
import re
from pathlib import Path

import setuptools

TOP = Path(__file__).resolve().parent


def archive_version() -> str:
    """Return the version of an unpacked archive, which has no tags.

    'git archive' writes the nearest tag and the commit into
    .git_archival.txt; a copy of the tree has neither.
    """
    path = TOP / '.git_archival.txt'
    lines = path.read_text('utf-8').splitlines() if path.exists() else []
    fields = dict(line.split(': ', 1) for line in lines if ': ' in line)
    tag = re.fullmatch(
        r'(\d[\w.]*)(?:-(\d+)-g[0-9a-f]+)?', fields.get('describe', '')
    )
    if tag and not tag[2]:
        return tag[1]
    base = tag[1] if tag else '0.0.0'
    numbers = re.match(r'(\d+)\.(\d+)\.(\d+)', base)
    major, minor, patch = numbers.groups() if numbers else ('0', '0', '0')
    version = f'{major}.{minor}.{int(patch) + 1}.dev{tag[2] if tag else 0}'
    commit = fields.get('commit', '')
    return f'{version}+g{commit}' if commit.isalnum() else version


# pbr takes the version from git or from an sdist's PKG-INFO. Another
# repository around an unpacked archive is not hvstack's.
if not any((TOP / name).exists() for name in ('.git', 'PKG-INFO')):
    os.environ.setdefault('PBR_VERSION', archive_version())
    os.environ.setdefault('SKIP_GIT_SDIST', '1')

setuptools.setup(setup_requires=['pbr>=7.0.0'], pbr=True)
