# SPDX-License-Identifier: Apache-2.0
"""``clouds.yaml``: how people and programs reach the lab."""

from pathlib import Path
from typing import TypedDict

import yaml
from openstack.config.loader import OpenStackConfig
from openstack.exceptions import ConfigException

from hvstack import paths
from hvstack.lab import constants, identity, settings

#: The administrator's cloud, and the member's.
ADMIN_CLOUD = 'hvstack-lab'
MEMBER_CLOUD = 'hvstack-lab-member'
#: Compute API of 'openstack': the newest that has ``rxtx_factor``.
COMPUTE_API = '2.96'
OURS = settings.LAB / 'clouds.yaml'


class CloudEntry(TypedDict):
    """Cloud of a ``clouds.yaml``."""

    auth: dict[str, str]
    region_name: str
    interface: str
    identity_api_version: int
    compute_default_microversion: str
    compute_api_version: str


def entries() -> dict[str, CloudEntry]:
    """Return the lab's clouds; they hold passwords."""

    def entry(user: str, project: str) -> CloudEntry:
        return {
            'auth': identity.build_auth(user, project),
            'region_name': constants.REGION,
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
    """Write the lab's own file; the user's clouds.yaml is never changed."""
    text = yaml.safe_dump({'clouds': entries()}, sort_keys=False)
    paths.write_whole(OURS, text, mode=0o600)


def in_users_file() -> tuple[Path, list[str]] | None:
    """Return the user's clouds.yaml and the names of the lab in it.

    hvstack wrote them there until it had a file of its own.

    :returns: None where the file does not exist, has none of the names, or
        is not YAML, or where it is the file of the lab.
    """
    try:
        config = OpenStackConfig()
    except (ConfigException, OSError):
        return None
    if config.config_filename is None:
        return None
    path = Path(config.config_filename)
    if OURS.exists() and path.samefile(OURS):
        return None
    names = {ADMIN_CLOUD, MEMBER_CLOUD} & set(config.cloud_config['clouds'])
    return (path, sorted(names)) if names else None
