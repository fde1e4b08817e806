# SPDX-License-Identifier: Apache-2.0
"""The services' own virtual environment, apart from hvstack's.

It sits in the cache under a digest of what goes into it, so that a changed
list of packages makes a new one and an unchanged one is found by any clone.
Every file is compared with its SHA-256, those of the packages with which
others are built included.
"""

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from hvstack import errors, extras, paths, processutils, share
from hvstack.lab import child_process, settings

#: uv trusts its own list of certificates, unless it is told to use the
#: system's, which has those of a company's TLS proxy.
_CERTIFICATES = Path('/etc/ssl/certs/ca-certificates.crt')
#: Debian's own interpreter: native bindings of Debian's packages fit it.
PYTHON = Path('/usr/bin/python3')
#: Variables that keep the modules of the user out of a program. Python ignores
#: empty values.
NO_MODULES = {'PYTHONPATH': '', 'PYTHONHOME': ''}
#: Directories of the settings of uv, except those of the user.
_UV_SETTINGS = (Path('/etc/uv'), Path('/etc/xdg/uv'))
#: What pip prints of its package index, with the section.
_PIP_OPTION = re.compile(
    "^((?:install|global)\\.(?:index-url|trusted-host))='(.*)'$", re.MULTILINE
)
#: What uv prints of a package whose file has another digest.
_CHANGED = re.compile('Hash mismatch for `([^`]+)`')


def requirements() -> Path:
    """Return the file with version and digests of every package."""
    return _requirements(settings.get_release())


def _requirements(release: str) -> Path:
    files = share.LAB if release == settings.RELEASE else share.LAB / release
    return files / 'requirements.txt'


def build_requirements() -> Path:
    """Return the same for the packages with which others are built."""
    return share.LAB / 'build-requirements.txt'


def directory() -> Path:
    """Return where the environment is, or will be."""
    return _directory(settings.get_release())


@cache
def _directory(release: str) -> Path:
    texts = [
        _requirements(release).read_bytes(),
        build_requirements().read_bytes(),
        _version().encode(),
    ]
    digest = hashlib.sha256(b'\0'.join(texts)).hexdigest()[:12]
    return paths.CACHE / f'venv-{digest}'


def _version() -> str:
    if not PYTHON.exists():
        return 'none'
    code = 'import sys; print(sys.implementation.cache_tag)'
    return processutils.run(
        [PYTHON, '-c', code], env=NO_MODULES
    ).stdout.strip()


def ready() -> bool:
    """Tell whether the environment is complete."""
    return (directory() / '.complete').exists()


def site_packages() -> Path:
    """Return the directory of the packages of the services."""
    return next((directory() / 'lib').glob('python3*/site-packages'))


def program(name: str) -> str:
    """Return the path of a program of the environment."""
    return str(directory() / 'bin' / name)


def ensure(pauses: Sequence[float] = (5, 15, 30)) -> None:
    """Build the environment if it is not there.

    An interrupted build starts again; a failed download is tried again.

    :param pauses: seconds to wait before each further try.
    :raises hvstack.errors.CommandError: a package cannot be had or built.
    :raises hvstack.errors.MissingPrerequisiteError: the package index has
        another file of a package.
    """
    if ready():
        return
    target = directory()
    paths.make_directory(target.parent)
    shutil.rmtree(target, ignore_errors=True)
    uv = str(extras.program('uv'))
    processutils.run([uv, 'venv', '--quiet', '--python', PYTHON, target])
    install = [
        uv,
        *('pip', 'install', '--quiet', '--no-deps'),
        *('--require-hashes', '--require-build-hashes'),
        *('--python', str(target / 'bin' / 'python')),
        *('--build-constraints', str(build_requirements())),
        *('--requirement', str(requirements())),
    ]
    env = dict(NO_MODULES)
    if _CERTIFICATES.exists() and 'UV_SYSTEM_CERTS' not in os.environ:
        env['UV_SYSTEM_CERTS'] = '1'
    env |= _find_index()
    processutils.retried(lambda: _install(install, env), pauses=pauses)
    (target / '.complete').touch()


def _find_index() -> dict[str, str]:
    """Return variables with the package index that pip is set to.

    It may contain a password. There are none if uv is set to an index, or pip
    is not. The hosts whose certificates pip does not verify belong to it.
    """
    if os.environ.get('UV_DEFAULT_INDEX') or os.environ.get('UV_INDEX_URL'):
        return {}
    home = os.environ.get('XDG_CONFIG_HOME') or Path.home() / '.config'
    files = [path / 'uv.toml' for path in (*_UV_SETTINGS, Path(home, 'uv'))]
    if 'UV_CONFIG_FILE' in os.environ:
        files.append(Path(os.environ['UV_CONFIG_FILE']))
    for path in files:
        if path.is_file() and b'index' in path.read_bytes():
            return {}
    # 'pip config get' reads one file only.
    argv = [sys.executable, '-m', 'pip', '--disable-pip-version-check']
    text = processutils.run([*argv, 'config', 'list'], check=False).stdout
    options = dict(_PIP_OPTION.findall(text))

    def find(variable: str, option: str) -> str:
        sections = (f'install.{option}', f'global.{option}')
        values = [os.environ.get(variable), *map(options.get, sections)]
        return str(next(filter(None, values), ''))

    index = find('PIP_INDEX_URL', 'index-url')
    if not index:
        return {}
    variables = {'UV_DEFAULT_INDEX': index}
    # pip prints the end of a line as a backslash and 'n'; uv wants blanks.
    hosts = find('PIP_TRUSTED_HOST', 'trusted-host').replace('\\n', ' ')
    if hosts and not os.environ.get('UV_INSECURE_HOST'):
        variables['UV_INSECURE_HOST'] = ' '.join(hosts.split())
    return variables


def _install(argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Run uv.

    :raises hvstack.errors.CommandError: it failed, and may succeed later.
    :raises hvstack.errors.MissingPrerequisiteError: a file has another digest.
    """
    result = child_process.run(argv, timeout=900, env=env, check=False)
    if result.returncode == 0:
        return
    package = _CHANGED.search(result.stderr)
    if package:
        raise errors.MissingPrerequisiteError(
            f'Cannot install {package[1]}: the SHA-256 of its file differs '
            f'from {requirements()} or {build_requirements().name}. Check the '
            'package index or mirror that uv uses.'
        )
    raise errors.CommandError(
        list(argv), result.returncode, processutils.tail(result.stderr)
    )
