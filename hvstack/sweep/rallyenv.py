# SPDX-License-Identifier: Apache-2.0
"""Rally's database and environment, by Rally's own commands."""

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import openstack.config
import openstack.exceptions

from hvstack import errors, extras, shell

#: Name of the environment that is made for the lab.
NAME = 'hvstack-lab'
_PLATFORM = 'existing@openstack'
_SQLITE = re.compile(r'sqlite:///(\S+)')


def program() -> Path:
    """Return the path of Rally's command.

    :raises hvstack.errors.MissingPrerequisite: Rally is not installed.
    """
    return extras.program('rally')


def rally(*words: str, check: bool = True) -> shell.Result:
    """Run a Rally command; what it writes is for its owner only.

    Its default database holds the environments' passwords.

    :raises hvstack.errors.CommandFailed: it failed.
    :raises hvstack.errors.MissingPrerequisite: its database is not of use.
    :raises hvstack.errors.Busy: another process has its database.
    """
    done = shell.run(
        ['sh', '-c', 'umask 077; exec "$@"', 'sh', program(), *words],
        check=False,
        timeout=300,
    )
    if done.returncode:
        judge_database(done.stdout + done.stderr)
        if check:
            raise errors.CommandFailed(
                ['rally', *words],
                done.returncode,
                shell.tail(done.stderr) or shell.tail(done.stdout),
            )
    return done


def judge_database(output: str) -> None:
    """Say in one line what Rally takes a page for.

    :param output: what Rally wrote at its end.
    :raises hvstack.errors.MissingPrerequisite: its database is not of use.
    :raises hvstack.errors.Busy: another process has it.
    """
    found = _SQLITE.search(output)
    where = f' ({found[1]})' if found else ''
    if 'database is locked' in output:
        raise errors.Busy(
            f"Rally's database{where} is locked by another process: wait for "
            'it, or find it with fuser and end it'
        )
    if 'Database seems to be outdated' in output:
        raise errors.MissingPrerequisite(
            "Rally's database is of an older release: keep a copy, then bring "
            "it up to date with 'rally db upgrade'"
        )
    if 'malformed' in output or 'not a database' in output:
        raise errors.MissingPrerequisite(
            f"Rally's database{where} is broken: move it away, a new one is "
            'made; all results are in the run records'
        )


def spec(os_cloud: str) -> dict[str, Any]:
    """Return an environment's specification for an entry of clouds.yaml.

    The administrator is its only user: stacks are made in that project, so
    that ``openstack stack list`` with the same entry shows them.

    :raises hvstack.errors.InputError: there is no such entry.
    """
    try:
        entry = openstack.config.OpenStackConfig(load_envvars=False).get_one(
            os_cloud
        )
    except openstack.exceptions.ConfigException as exc:
        raise errors.InputError(
            f"clouds.yaml has no entry '{os_cloud}' ({exc}): start the lab "
            "with 'hvstack lab up', or give another --os-cloud"
        ) from exc
    auth = entry.config['auth']
    user = {
        'username': auth['username'],
        'password': auth['password'],
        'project_name': auth['project_name'],
        'user_domain_name': auth.get('user_domain_name', 'Default'),
        'project_domain_name': auth.get('project_domain_name', 'Default'),
    }
    found: dict[str, Any] = {
        'auth_url': auth['auth_url'],
        'region_name': entry.config.get('region_name') or 'RegionOne',
        'admin': user,
        'users': [user],
    }
    if entry.config.get('verify') is False:
        found['https_insecure'] = True
    elif entry.config.get('cacert'):
        found['https_cacert'] = entry.config['cacert']
    return {_PLATFORM: found}


def ensure(os_cloud: str, name: str = NAME) -> None:
    """Have Rally's database, and an environment for a cloud as its default.

    One of that name with other credentials is replaced.

    :raises hvstack.errors.HVStackError: no such cloud, or Rally refused.
    """
    wanted = spec(os_cloud)
    found = _SQLITE.search(rally('db', 'ensure').stdout)
    if found and Path(found[1]).is_file():
        # It may be older than we are, and it holds passwords.
        Path(found[1]).chmod(0o600)
    known = rally(
        *('env', 'show', '--env', name, '--json', '--only-spec'), check=False
    )
    if known.returncode == 0:
        if _spec(known.stdout) == wanted:
            rally('env', 'use', '--env', name)
            return
        rally('env', 'destroy', '--env', name, '--skip-cleanup', check=False)
        rally('env', 'delete', '--env', name, '--force')
    handle, path = tempfile.mkstemp(prefix='hvstack-env-')
    try:
        with os.fdopen(handle, 'w', encoding='utf-8') as stream:
            json.dump(wanted, stream)
        rally('env', 'create', '--name', name, '--spec', path)
    finally:
        Path(path).unlink()


def _spec(text: str) -> Any:
    try:
        return json.loads(text[text.index('{') :])
    except ValueError:
        return None
