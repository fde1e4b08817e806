# SPDX-License-Identifier: Apache-2.0
"""Database and environments of Rally, managed by commands of Rally.

The database is in the state directory of hvstack. The database, the default
environment and the rally.conf of the user are not changed.
"""

import json
import os
import re
import sys
import tempfile
from pathlib import Path

from hvstack import errors, extras, paths, processutils
from hvstack.results.typed_json import Json

_PLATFORM = 'hvstack@openstack'
_SQLITE = re.compile(r'sqlite:///(\S+)')
#: Search path of Rally for rally.conf; Rally reads the first existing file.
_USERS_CONFIG = (
    Path(sys.prefix) / 'etc' / 'rally' / 'rally.conf',
    Path('~/.rally/rally.conf'),
    Path('/etc/rally/rally.conf'),
)
#: Variables of Rally's processes; :func:`ensure_environment` sets them.
VARIABLES: dict[str, str] = {}


def find_program() -> Path:
    """Return the path of Rally's command.

    :raises hvstack.errors.MissingPrerequisiteError: Rally is not installed.
    """
    return extras.program('rally')


def get_directory() -> Path:
    """Return the directory of Rally's database and configuration."""
    return paths.STATE / 'rally'


def build_config_args() -> list[str]:
    """Return the options that make Rally use the database of hvstack.

    The rally.conf of the user precedes the file of hvstack, so that its
    options apply, except for ``[database] connection``.
    """
    files = [get_directory() / 'rally.conf']
    for path in _USERS_CONFIG:
        if path.expanduser().is_file():
            files.insert(0, path.expanduser())
            break
    return [word for path in files for word in ('--config-file', str(path))]


def run_rally(*args: str, check: bool = True) -> processutils.Result:
    """Run a command of Rally with the database of hvstack.

    :param args: command and its options.
    :param check: raise an error if the command fails.
    :raises hvstack.errors.CommandError: it failed.
    :raises hvstack.errors.MissingPrerequisiteError: its database is not of
        use.
    :raises hvstack.errors.BusyError: another process has its database.
    """
    # The umask is for environments of existing@openstack: they hold
    # passwords.
    wrapper = ('sh', '-c', 'umask 077; exec "$@"', 'sh')
    done = processutils.run(
        [*wrapper, str(find_program()), *build_config_args(), *args],
        check=False,
        timeout=300,
        env=VARIABLES,
    )
    if done.returncode:
        check_database(done.stdout + done.stderr)
        if check:
            raise errors.CommandError(
                ['rally', *args],
                done.returncode,
                processutils.tail(done.stderr)
                or processutils.tail(done.stdout),
            )
    return done


def check_database(output: str) -> None:
    """Raise an error if Rally cannot use its database.

    :param output: end of the output of Rally.
    :raises hvstack.errors.MissingPrerequisiteError: its database is not of
        use.
    :raises hvstack.errors.BusyError: another process has it.
    """
    match = _SQLITE.search(output)
    where = f' ({match[1]})' if match else ''
    if 'database is locked' in output:
        raise errors.BusyError(
            f'Cannot use the database of Rally{where}: another process has '
            'locked it. Wait until the process ends, or find it with fuser '
            'and end it.'
        )
    if 'Database seems to be outdated' in output:
        raise errors.MissingPrerequisiteError(
            'Cannot use the database of Rally: an older release created it. '
            f"Keep a copy, then run 'rally {' '.join(build_config_args())} db "
            "upgrade'."
        )
    if 'malformed' in output or 'not a database' in output:
        raise errors.MissingPrerequisiteError(
            f"Cannot read Rally's database{where}: it is damaged. Move it to "
            'another directory. Rally then creates a new database; all '
            'results are in the run records.'
        )


def build_spec(os_cloud: str) -> dict[str, dict[str, str]]:
    """Return the specification of an environment without secrets.

    The cloud's user is the only user: stacks are created in its project, so
    that ``openstack stack list`` with the same cloud shows them.

    :param os_cloud: name of an entry of clouds.yaml, or ``envvars``.
    :raises hvstack.errors.InputError: the cloud cannot be used.
    """
    # A report loads this module, but needs no openstacksdk.
    from hvstack.cloud import selection

    region = selection.region(os_cloud)
    content = {'cloud': os_cloud}
    auth_url = (region.config.get('auth') or {}).get('auth_url')
    if auth_url:
        content['auth_url'] = auth_url
    # An environment for another region is replaced.
    region_name = region.get_region_name()
    if region_name:
        content['region_name'] = region_name
    config_file = selection.file_of(os_cloud)
    if config_file is not None:
        content['config_file'] = str(Path(config_file).resolve())
    return {_PLATFORM: content}


def ensure_environment(os_cloud: str) -> None:
    """Create the database of Rally and an environment for a cloud.

    The environment has the name of the cloud and replaces an environment with
    another specification. Rally processes of this process use it.

    :param os_cloud: name of an entry of clouds.yaml, or ``envvars``.
    :raises hvstack.errors.HVStackError: no such cloud, or Rally refused.
    """
    content = build_spec(os_cloud)
    paths.make_directory(get_directory())
    get_directory().chmod(0o700)
    database = get_directory() / 'rally.sqlite'
    # oslo.config would replace a variable.
    address = f'sqlite:///{database}'.replace('$', '$$')
    paths.write_whole(
        get_directory() / 'rally.conf',
        f'# hvstack writes this file.\n[database]\nconnection = {address}\n',
        mode=0o600,
    )
    VARIABLES['RALLY_ENV'] = os_cloud
    run_rally('db', 'ensure')
    if database.is_file():
        database.chmod(0o600)
    show_result = run_rally(
        *('env', 'show', '--env', os_cloud, '--json', '--only-spec'),
        check=False,
    )
    if show_result.returncode == 0:
        if _parse_spec(show_result.stdout) == content:
            return
        run_rally(
            *('env', 'destroy', '--env', os_cloud, '--skip-cleanup'),
            check=False,
        )
        run_rally('env', 'delete', '--env', os_cloud, '--force')
    handle, path = tempfile.mkstemp(prefix='hvstack-env-')
    try:
        with os.fdopen(handle, 'w', encoding='utf-8') as stream:
            json.dump(content, stream)
        # --no-use: the default environment is the user's.
        run_rally(
            'env', 'create', '--name', os_cloud, '--spec', path, '--no-use'
        )
    finally:
        Path(path).unlink()


def _parse_spec(text: str) -> Json:
    try:
        spec: Json = json.loads(text[text.index('{') :])
    except ValueError:
        return None
    return spec
