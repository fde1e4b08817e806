# SPDX-License-Identifier: Apache-2.0
"""Cinder in the lab: its volume types, and what its environment lacks.

A backend is a pool of Ceph, or a volume group on a host.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openstack.connection import Connection

from hvstack import errors, processutils
from hvstack.cloud.volumes import COPIES
from hvstack.lab import pools, stages, supervisord, venv
from hvstack.lab.hosts import nvmet
from hvstack.lab.settings import LabSettings

#: Where Debian keeps Ceph's bindings; they fit its own interpreter only.
_BINDINGS = Path('/usr/lib/python3/dist-packages')


def link_bindings() -> None:
    """Put Ceph's bindings into the services' environment.

    :raises hvstack.errors.MissingPrerequisiteError: there are none.
    """
    site = venv.site_packages()
    for name in ('rados', 'rbd'):
        binding = next(_BINDINGS.glob(f'{name}.cpython-*.so'), None)
        if binding is None:
            raise errors.MissingPrerequisiteError(
                f"Cannot use Ceph: {_BINDINGS} has no '{name}'. Install "
                f'python3-{name}.'
            )
        link = site / binding.name
        if not link.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(binding)


def install_target() -> None:
    """Put the library for the kernel's NVMe target into the environment."""
    shutil.copyfile(nvmet.__file__, venv.site_packages() / 'nvmet.py')


def fill(admin: Any, lab_settings: LabSettings) -> None:
    """Wait for Cinder's backends, and make their volume types.

    :param admin: the administrator's openstacksdk connection.
    :raises hvstack.errors.DeadlineExceededError: a backend does not come up.
    """
    planned = pools.list_pools(lab_settings)
    names = {pool.name for pool in planned}
    processutils.wait_for(
        lambda: backends(admin) >= names,
        "Cinder's backends to be up",
        timeout=60 + 8 * len(planned),
        interval=1,
        get_reason=lambda: supervisord.log_tail('cinder-volume'),
    )
    create_types(
        admin,
        {pool.volume_type: pool.text for pool in planned},
        {pool.volume_type: pool.extra_specs for pool in planned},
    )


def create_types(
    admin: Connection,
    types: Mapping[str, str],
    extra_specs: Mapping[str, Mapping[str, str]],
) -> None:
    """Create volume types, each for the backend of its name.

    :param admin: the administrator's openstacksdk connection.
    :param types: description of each type.
    :param extra_specs: what else each type says, by name; one copy of a
        volume by default.
    """
    specs = {
        name: {COPIES: '1', **extra_specs.get(name, {})} for name in types
    }
    mark = json.dumps([types, specs])
    if stages.marked('volume-types') == mark:
        return
    storage = admin.block_storage
    types_by_name = {
        volume_type.name: volume_type for volume_type in storage.types()
    }
    for name, text in types.items():
        volume_type = types_by_name.get(name) or storage.create_type(
            name=name, extra_specs={'volume_backend_name': name}
        )
        storage.update_type(volume_type.id, description=text)
        storage.update_type_extra_specs(volume_type.id, **specs[name])
    stages.mark('volume-types', mark)


def backends(admin: Any) -> set[str]:
    """Return the names of the backends that Cinder's scheduler can use.

    A service that was stopped a moment ago still counts as up, and one that
    has just come up is not known to the scheduler yet.
    """
    return {
        pool.name.partition('@')[2].partition('#')[0]
        for pool in admin.block_storage.backend_pools()
    }
