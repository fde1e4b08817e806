# SPDX-License-Identifier: Apache-2.0
"""``clouds.yaml``: how people and programs reach the lab."""

import os
from pathlib import Path
from typing import Any

import yaml

from hvstack import errors, paths
from hvstack.lab import identity, settings, values

#: The administrator's cloud, and the member's.
ADMIN_CLOUD = 'hvstack-lab'
MEMBER_CLOUD = 'hvstack-lab-member'
#: Newest compute API that has ``rxtx_factor`` and checks extra specs.
COMPUTE_API = '2.96'
OURS = settings.LAB / 'clouds.yaml'


def users_file() -> Path:
    """Return the user's own ``clouds.yaml``, there or not."""
    base = os.environ.get('XDG_CONFIG_HOME') or str(Path.home() / '.config')
    return Path(base) / 'openstack' / 'clouds.yaml'


def entries() -> dict[str, Any]:
    """Return the lab's clouds; they hold passwords."""

    def entry(user: str, project: str) -> dict[str, Any]:
        return {
            'auth': {
                'auth_url': f'{values.url("keystone")}/v3',
                'username': user,
                'password': settings.secret(user),
                'project_name': project,
                'user_domain_name': 'Default',
                'project_domain_name': 'Default',
            },
            'region_name': values.REGION,
            'interface': 'public',
            'identity_api_version': 3,
            'compute_default_microversion': COMPUTE_API,
            'compute_api_version': COMPUTE_API,
        }

    return {
        ADMIN_CLOUD: entry('admin', 'admin'),
        MEMBER_CLOUD: entry(identity.MEMBER, identity.TENANT),
    }


def write() -> None:
    """Write the lab's file and merge it into the user's.

    :raises hvstack.errors.InputError: the user's file is not YAML.
    """
    _dump(OURS, {'clouds': entries()})
    merge(users_file(), entries())


def merge(path: Path, ours: dict[str, Any]) -> None:
    """Put clouds into a file beside those that it has.

    The file is left alone where nothing would change.
    """
    content = _read(path)
    clouds = content.get('clouds') or {}
    if all(clouds.get(name) == entry for name, entry in ours.items()):
        return
    _dump(path, {**content, 'clouds': {**clouds, **ours}})


def remove(path: Path) -> None:
    """Take the lab's clouds out of a file; an empty file goes too."""
    if not path.exists():
        return
    content = _read(path)
    clouds = content.get('clouds') or {}
    if not {ADMIN_CLOUD, MEMBER_CLOUD} & set(clouds):
        return
    rest = {
        name: entry
        for name, entry in clouds.items()
        if name not in (ADMIN_CLOUD, MEMBER_CLOUD)
    }
    if rest or set(content) - {'clouds'}:
        _dump(path, {**content, 'clouds': rest})
    else:
        path.unlink()


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding='utf-8')) or {}
    except FileNotFoundError:
        return {}
    except yaml.YAMLError as exc:
        raise errors.InputError(
            f'{path} is not YAML: repair it, then run the command again'
        ) from exc
    if not isinstance(content, dict):
        raise errors.InputError(f"{path} has no mapping 'clouds' in it")
    return content


def _dump(path: Path, content: dict[str, Any]) -> None:
    text = yaml.safe_dump(content, sort_keys=False)
    # A link, such as one into a folder of dotfiles, stays a link.
    paths.write_whole(path.resolve(), text, mode=0o600)
