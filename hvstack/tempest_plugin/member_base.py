# SPDX-License-Identifier: Apache-2.0
"""Base class of the tests in the project of a plain member."""

import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path

from tempest.lib import exceptions

from hvstack.tempest_plugin.base import (
    BaseTest,
    admin_available,
)


class MemberTest(BaseTest):
    """A test in a member's project, with a key pair and private flavors."""

    @classmethod
    def setup_clients(cls) -> None:
        """Take the member's clients."""
        super().setup_clients()
        cls.servers_client = cls.os_primary.servers_client
        cls.project = cls.os_primary.credentials.tenant_id

    @classmethod
    def grant_flavor_access(cls, names: Collection[str]) -> None:
        """Give the member's project access to private flavors.

        Without an administrator's rights it must have it.
        """
        if not admin_available():
            return
        client = cls.get_client_manager(credential_type='admin').flavors_client
        for flavor in client.list_flavors(detail=True, is_public='None')[
            'flavors'
        ]:
            if (
                flavor['name'] in names
                and not flavor['os-flavor-access:is_public']
            ):
                try:
                    client.add_flavor_access(flavor['id'], cls.project)
                except exceptions.Conflict:
                    # It has it, and keeps it.
                    continue
                cls.addClassResourceCleanup(
                    client.remove_flavor_access, flavor['id'], cls.project
                )

    @classmethod
    def create_key(cls, name: str) -> None:
        """Make a key pair, and keep its private half until the class ends."""
        client = cls.os_primary.keypairs_client
        pair = client.create_keypair(name=name)['keypair']
        cls.addClassResourceCleanup(client.delete_keypair, name)
        directory = Path(tempfile.mkdtemp(prefix='hvaccept'))
        cls.addClassResourceCleanup(shutil.rmtree, directory)
        cls.key = directory / 'key'
        cls.key.touch(0o600)
        cls.key.write_text(pair['private_key'], encoding='utf-8')
