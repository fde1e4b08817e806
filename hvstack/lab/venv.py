# SPDX-License-Identifier: Apache-2.0
"""The services' own virtual environment, apart from hvstack's.

It sits in the cache under a digest of what goes into it, so that a changed
constraints file makes a new one and an unchanged one is found by any clone.
"""

import hashlib
import os
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from hvstack import extras, paths, share, shell
from hvstack.lab import child

#: uv trusts its own list of certificates, unless it is told to use the
#: system's, which has those of a company's TLS proxy.
_CERTIFICATES = Path('/etc/ssl/certs/ca-certificates.crt')
#: Debian's own interpreter: native bindings of Debian's packages fit it.
PYTHON = Path('/usr/bin/python3')


def constraints() -> Path:
    """Return the file that pins every package of the services."""
    return share.LAB / 'constraints.txt'


@cache
def folder() -> Path:
    """Return where the environment is, or will be."""
    text = constraints().read_bytes() + b'\0' + _version().encode()
    digest = hashlib.sha256(text).hexdigest()[:12]
    return paths.CACHE / f'venv-{digest}'


def _version() -> str:
    if not PYTHON.exists():
        return 'none'
    code = 'import sys; print(sys.implementation.cache_tag)'
    return shell.run([PYTHON, '-c', code]).stdout.strip()


def ready() -> bool:
    """Tell whether the environment is complete."""
    return (folder() / '.complete').exists()


def program(name: str) -> str:
    """Return the path of a program of the environment."""
    return str(folder() / 'bin' / name)


def ensure(pauses: Sequence[float] = (5, 15, 30)) -> None:
    """Build the environment if it is not there.

    An interrupted build starts again; a failed download is tried again.

    :param pauses: seconds to wait before each further try.
    :raises hvstack.errors.CommandFailed: a package cannot be had or built.
    """
    if ready():
        return
    target = folder()
    paths.make_directory(target.parent)
    shutil.rmtree(target, ignore_errors=True)
    uv = str(extras.program('uv'))
    shell.run([uv, 'venv', '--quiet', '--python', PYTHON, target])
    install = [
        uv,
        *('pip', 'install', '--quiet'),
        *('--python', str(target / 'bin' / 'python')),
        *('--requirement', str(constraints())),
    ]
    env = {}
    if _CERTIFICATES.exists() and 'UV_SYSTEM_CERTS' not in os.environ:
        env['UV_SYSTEM_CERTS'] = '1'
    shell.retried(
        lambda: child.run(install, timeout=900, env=env), pauses=pauses
    )
    (target / '.complete').touch()
