# SPDX-License-Identifier: Apache-2.0
"""A Nova that has its quotas in Keystone ("unified limits"). About 40 s."""

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import requests

from hvstack import errors, processutils
from hvstack.cloud import quotas
from hvstack.cloud.connection import get_identity
from hvstack.cloud.quotas import Need
from hvstack.lab import constants, services, settings, supervisord
from tests.functional.test_scheduling import FakeHostTest

OPENSTACK = str(Path(sys.executable).with_name('openstack'))
#: Added to nova.conf.
DRIVER = """
[quota]
driver = nova.quota.UnifiedLimitsDriver
[oslo_limit]
auth_type = password
auth_url = {keystone}/v3
username = nova
password = {password}
user_domain_name = Default
system_scope = all
endpoint_service_type = compute
endpoint_region_name = {region}
endpoint_interface = public
"""


class UnifiedLimitsTest(FakeHostTest):
    def setUp(self) -> None:
        super().setUp()
        self.identity = get_identity(self.cloud)
        self.service = next(
            service.id
            for service in self.identity.services()
            if service.type == 'compute'
        )
        user = self.identity.find_user('nova', ignore_missing=False)
        role = self.identity.find_role('reader', ignore_missing=False)
        self.identity.assign_system_role_to_user(user, role, 'all')
        self.addCleanup(
            self.identity.unassign_system_role_from_user, user, role, 'all'
        )
        text = services.NOVA.target.read_text()
        self.addCleanup(self.configure, text)
        driver = DRIVER.format(
            keystone=constants.url('keystone'),
            password=settings.secret('nova'),
            region=constants.REGION,
        )
        self.configure(text + driver)

    def configure(self, text: str) -> None:
        """Have another nova.conf in force."""
        services.NOVA.target.write_text(text)
        # The conductor would check again, but without it hosts cannot report
        # that they are up, for as long as a call may take.
        supervisord.stop('nova')
        supervisord.start('nova')
        processutils.wait_for(
            self.is_nova_up, "Nova's API to answer", timeout=60
        )

    def is_nova_up(self) -> bool:
        """Tell whether Nova answers with limits."""
        return bool(self.cloud.compute.get('/limits').ok)

    def register(self, resource: str, limit: int) -> None:
        """Have a limit of all projects in Keystone."""
        registered = self.identity.create_registered_limit(
            service_id=self.service,
            region_id=constants.REGION,
            resource_name=resource,
            default_limit=limit,
        )
        self.addCleanup(self.identity.delete_registered_limit, registered)

    def refused(self, need: Need) -> str:
        error = self.assertRaises(
            errors.InputError, quotas.check, self.cloud, need
        )
        return str(error)

    def follow(self, message: str) -> None:
        """Run the commands that a message prints as its remedy."""
        commands = re.findall("'(openstack limit [^']*)'", message)
        self.assertNotEqual([], commands)
        for command in commands:
            processutils.run([OPENSTACK, *shlex.split(command)[1:]])
        self.addCleanup(self.delete_limits)

    def delete_limits(self) -> None:
        """Delete the project's own limits."""
        for limit in self.identity.limits():
            self.identity.delete_limit(limit)

    def count(self, flavor: Any, servers: int) -> Need:
        """Return the need of some servers with dedicated CPUs."""
        return Need(
            instances=servers,
            cores=servers * flavor.vcpus,
            ram=servers * flavor.ram,
            classes={
                'PCPU': servers * flavor.vcpus,
                'MEMORY_MB': servers * flavor.ram,
            },
        )

    def test_dedicated_cpus(self) -> None:
        flavor = self.cloud.compute.find_flavor(
            self.published('i4-dedicated').id, ignore_missing=False
        )
        need = self.count(flavor, 2)
        self.register('servers', 2)
        # What has no limit is 0 in Nova's own API, and accepted all the same.
        quotas.check(self.cloud, need)
        self.register('class:PCPU', flavor.vcpus)
        message = self.refused(need)
        self.assertIn(
            f'class:PCPU {2 * flavor.vcpus} needed, {flavor.vcpus} left',
            message,
        )
        error = self.assertRaises(requests.HTTPError, self.boot, flavor.id, 2)
        assert error.response is not None
        self.assertEqual(403, error.response.status_code)
        self.assertIn('class:PCPU', error.response.text)
        self.follow(message)
        quotas.check(self.cloud, need)
        servers = self.boot(flavor.id, 2)
        self.assertEqual(['ACTIVE'] * 2, [item.status for item in servers])
        message = self.refused(self.count(flavor, 1))
        self.assertIn('servers 1 needed, 0 left of 2', message)
        self.assertIn('0 left of', message.partition('class:PCPU')[2])
        self.follow(message)
        quotas.check(self.cloud, self.count(flavor, 1))
