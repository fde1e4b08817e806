# SPDX-License-Identifier: Apache-2.0
"""Base classes of the tests that use an administrator's API or hosts."""

import contextlib
import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tempest.lib import exceptions
from testtools import TestCase
from testtools.content import text_content

from hvstack import errors, processutils
from hvstack.accept import check_result, flavor_checks, host_inspection
from hvstack.accept.flavor_checks import NovaFlavor
from hvstack.accept.guest_checks import GuestCell
from hvstack.accept.host_inspection import Access
from hvstack.cloud.host_room import ENABLED
from hvstack.cloud.placement import HostInventories
from hvstack.model.catalogue import CatalogueEntry
from hvstack.model.host import HostProfile
from hvstack.model.plain_data import Json
from hvstack.tempest_plugin.base import CONF, BaseTest
from hvstack.tempest_plugin.listing import (
    list_hypervisors,
    list_items,
    list_up_hypervisors,
)


class Providers:
    """Queries to Placement about hosts.

    :param providers_client: client of an administrator.
    """

    providers_client: Any

    def inventories(self, provider: str) -> HostInventories:
        """Return the inventories of a host by resource class."""
        return dict(
            self.providers_client.list_resource_provider_inventories(provider)[
                'inventories'
            ]
        )

    def usages(self, provider: str) -> dict[str, int]:
        """Return the used resources of a host by resource class."""
        return dict(
            self.providers_client.list_resource_provider_usages(provider)[
                'usages'
            ]
        )


class OperatorTest(Providers, BaseTest):
    """A test that uses the API of an administrator."""

    credentials = ['admin']

    @classmethod
    def setup_clients(cls) -> None:
        """Set the clients of the administrator."""
        super().setup_clients()
        cls.flavors_client = cls.os_admin.flavors_client
        cls.images_client = cls.os_admin.image_client_v2
        cls.servers_client = cls.os_admin.servers_client
        cls.placement_client = cls.os_admin.placement_client
        cls.providers_client = cls.os_admin.resource_providers_client

    def flavors(self) -> dict[str, NovaFlavor]:
        """Return Nova's flavors by name, private ones included."""
        flavors = self.flavors_client.list_flavors(
            detail=True, is_public='None'
        )['flavors']
        return {flavor['name']: flavor for flavor in flavors}

    def candidate_hosts(self, entry: CatalogueEntry) -> dict[str, str]:
        """Return the hosts that can run a flavor, UUIDs by hypervisor name.

        They have its traits, CPUs of the right resource class, and are large
        enough.
        """
        return {
            name: uuid
            for name, uuid in self.hosts_with_traits(entry).items()
            if flavor_checks.can_hold(
                self.inventories(uuid),
                flavor_checks.required_resources(entry.flavor),
            )
        }

    def hosts_with_traits(self, entry: CatalogueEntry) -> dict[str, str]:
        """Return the hosts with the traits of a flavor, UUIDs by name.

        They are enabled and up, in the availability zone of the tests, and of
        any size.
        """
        traits = [
            name.removeprefix('trait:')
            for name in self.placement_specs(entry)
            if name.startswith('trait:')
        ]
        try:
            response = self.providers_client.list_resource_providers(
                required=','.join([*traits, ENABLED])
            )
        except exceptions.BadRequest:
            if not traits:
                raise
            # A trait that no host has need not exist.
            return {}
        up = list_up_hypervisors(
            self.servers_client, CONF.hvstack.availability_zone
        )
        return {
            provider['name']: provider['uuid']
            for provider in response['resource_providers']
            if provider['parent_provider_uuid'] is None
            and provider['name'] in up
        }

    def hosts_of_flavors(self) -> tuple[dict[str, str], list[str]]:
        """Return the hosts of all expected flavors, and flavors without hosts.

        Hosts are UUIDs by name.
        """
        all_hosts: dict[str, str] = {}
        unplaced_flavors = []
        for entry, _ in self.expected_flavors():
            hosts = self.candidate_hosts(entry)
            all_hosts |= hosts
            if not hosts:
                unplaced_flavors.append(entry.flavor.name)
        return all_hosts, unplaced_flavors

    @staticmethod
    def cpu_resource_class(entry: CatalogueEntry) -> str:
        """Return the resource class of a flavor's CPUs."""
        return next(iter(flavor_checks.required_resources(entry.flavor)))

    def allocations(self, server: str) -> dict[str, Any]:
        """Return the allocations of a server in Placement."""
        return dict(
            self.placement_client.list_allocations(server)['allocations']
        )

    def empty_host(
        self, entry: CatalogueEntry, profile: HostProfile | None = None
    ) -> tuple[str, str]:
        """Return the name and the UUID of a host without guests.

        :param entry: flavor that the host can run.
        :param profile: host profile whose number of CPUs the host does not
            exceed; None for a host of any size.
        """
        for name, uuid in sorted(self.candidate_hosts(entry).items()):
            if profile and self.count_cpus(uuid, entry) > profile.cpus:
                continue
            if not any(self.usages(uuid).values()):
                self.wait_until_empty(name)
                return name, uuid
        size = f' with at most {profile.cpus} CPUs' if profile else ''
        self.skip_unchecked(
            f'no host of {entry.flavor.name}{size} is empty, drain one'
        )

    def count_cpus(self, provider: str, entry: CatalogueEntry) -> int:
        """Return the number of CPUs of a host for the policy of a flavor."""
        inventories = self.inventories(provider)
        return int(inventories[self.cpu_resource_class(entry)]['total'])

    def wait_until_empty(self, host: str) -> None:
        """Wait until a host reports that it has no guests.

        It reports this later than Placement, and the scheduler uses the cells
        that it reports.
        """

        def empty() -> bool:
            return not any(
                hypervisor['vcpus_used']
                for hypervisor in list_hypervisors(self.servers_client)
                if hypervisor['hypervisor_hostname'] == host
            )

        # If the host is not empty, the next check of the guests fails.
        with contextlib.suppress(errors.DeadlineExceededError):
            processutils.wait_for(empty, f'{host} to be empty', timeout=60)

    def worker(
        self, policy: str | None = None
    ) -> tuple[CatalogueEntry, HostProfile]:
        """Return an expected flavor of a worker, if possible one with hosts.

        :param policy: ``cpu_policy`` of the flavor; None for any.
        """
        workers = self.worker_flavors(policy)
        if not workers:
            self.skip_unchecked(
                f"no worker's flavor with {policy or 'any'} CPUs is promised, "
                'see [hvstack] include_candidates'
            )
        return next(
            (worker for worker in workers if self.candidate_hosts(worker[0])),
            workers[0],
        )

    def worker_flavors_by_placement(
        self,
    ) -> list[tuple[CatalogueEntry, HostProfile]]:
        """Return a flavor of a worker for each set of scheduling extra specs.

        If possible, the flavor has hosts.
        """
        workers_by_placement: dict[
            str, tuple[CatalogueEntry, HostProfile]
        ] = {}
        for worker in (self.worker(), *self.worker_flavors()):
            key = json.dumps(sorted(self.placement_specs(worker[0]).items()))
            if key not in workers_by_placement or not self.candidate_hosts(
                workers_by_placement[key][0]
            ):
                workers_by_placement[key] = worker
        return list(workers_by_placement.values())

    def boot_sample(self, entry: CatalogueEntry) -> list[dict[str, Any]]:
        """Start a guest with a flavor that is published and fits on a host.

        :returns: a list with the guest; an empty list without a guest.
        """
        flavor = self.flavors().get(entry.flavor.name)
        if flavor is None:
            return []
        guest = self.boot(flavor['id'])
        if self.has_no_room(guest):
            return []
        self.active(guest)
        return [guest]

    def delete_guests(
        self, guests: Sequence[Mapping[str, Json]], host: str
    ) -> None:
        """Delete guests, whose resources the next guests may need.

        :param guests: guests to delete.
        :param host: host to wait for until it is empty; empty for none.
        """
        for guest in guests:
            self.delete_server(str(guest['id']))
        if host:
            self.wait_until_empty(host)

    def fill_host(
        self, entry: CatalogueEntry, profile: HostProfile | None = None
    ) -> tuple[str, str, list[dict[str, Any]]]:
        """Fill an empty host; return its name and UUID, and the guests.

        :param entry: flavor of the guests.
        :param profile: as for :meth:`empty_host`; the guests leave CPUs of a
            larger host free.
        """
        host, uuid = self.empty_host(entry, profile)
        flavor = self.flavors().get(entry.flavor.name)
        if flavor is None:
            self.skip_unchecked(f'{entry.flavor.name} is not published')
        guests = []
        for _ in range(entry.configuration.instances):
            guests.append(self.boot(flavor['id'], host))
            self.active(guests[-1])
        return host, uuid, guests

    @staticmethod
    def placement_specs(entry: CatalogueEntry) -> dict[str, str]:
        """Return the extra specs that affect the scheduling of a flavor."""
        return {
            name: value
            for name, value in entry.flavor.extra_specs.items()
            if name.startswith('trait:') or name == 'hw:cpu_policy'
        }

    def create_small_flavor(
        self, vcpus: int, specs: Mapping[str, str] | None = None
    ) -> str:
        """Create a private flavor that fits the image, and return its ID."""
        image = self.images_client.show_image(self.image_id())
        image_bytes = image.get('virtual_size') or image.get('size') or 0
        # Nova divides the memory among the cells.
        cells = int((specs or {}).get('hw:numa_nodes', 1))
        memory_mib = max(128, image.get('min_ram') or 0)
        flavor = self.flavors_client.create_flavor(
            name=self.random_name('flavor'),
            vcpus=vcpus,
            ram=math.ceil(memory_mib / cells) * cells,
            disk=max(
                1,
                image.get('min_disk') or 0,
                math.ceil(image_bytes / 1024**3),
            ),
            is_public=False,
        )['flavor']
        self.addCleanup(self.flavors_client.delete_flavor, flavor['id'])
        if specs:
            self.flavors_client.set_flavor_extra_spec(flavor['id'], **specs)
        return str(flavor['id'])

    @staticmethod
    def image_id() -> str:
        """Return the ID of the image of the servers."""
        return str(CONF.hvstack.image or CONF.compute.image_ref)

    def boot(self, flavor_id: str, host: str | None = None) -> dict[str, Any]:
        """Create a server without a network; return it when it is built.

        :param flavor_id: ID of the flavor.
        :param host: name of the requested hypervisor, which the scheduler
            checks; None for any.
        """
        server = self.servers_client.create_server(
            name=self.random_name('server'),
            imageRef=self.image_id(),
            flavorRef=flavor_id,
            networks='none',
            **self.zone_fields(),
            **({'hypervisor_hostname': host} if host else {}),
        )['server']
        self.addCleanup(self.delete_server, server['id'])
        return self.wait_for_server(server['id'])

    def wait_for_server(self, server: str) -> dict[str, Any]:
        """Return a server when it is built or has failed."""
        server_details: dict[str, Any] = {}

        def done() -> bool:
            server_details.update(
                self.servers_client.show_server(server)['server']
            )
            return bool(server_details['status'] != 'BUILD')

        processutils.wait_for(
            done,
            f'server {server} to be built',
            timeout=CONF.hvstack.server_timeout,
        )
        return server_details

    def delete_server(self, server: str) -> None:
        """Delete a server and wait until it is deleted."""

        def is_deleted() -> bool:
            try:
                self.servers_client.show_server(server)
            except exceptions.NotFound:
                return True
            return False

        try:
            self.servers_client.delete_server(server)
        except exceptions.NotFound:
            return
        processutils.wait_for(
            is_deleted,
            f'server {server} to be gone',
            timeout=CONF.hvstack.server_timeout,
        )

    def numa_cells(self, server: str) -> list[GuestCell]:
        """Return the NUMA cells of a server from Nova's API."""
        _, text = self.servers_client.get(f'servers/{server}/topology')
        return list(json.loads(text)['nodes'])

    def active(self, server: Mapping[str, Json]) -> None:
        """Check that a server runs."""
        fault = server.get('fault')
        message = fault.get('message') if isinstance(fault, dict) else ''
        self.assert_results(
            [
                check_result.check_equal(
                    f'server on {server.get("OS-EXT-SRV-ATTR:host")}',
                    'ACTIVE',
                    f'{server["status"]} {message}'.strip(),
                )
            ]
        )


class HostTest(OperatorTest):
    """A test that inspects compute hosts.

    :param access: access to the hosts.
    """

    access: Access

    @classmethod
    def skip_checks(cls) -> None:
        """Skip the tests without access to compute hosts."""
        super().skip_checks()
        if CONF.hvstack.host_access == 'none':
            raise cls.skipException(
                'not checked: no access to compute hosts, set [hvstack] '
                'host_access'
            )

    @classmethod
    def resource_setup(cls) -> None:
        """Set the access to hosts, whose connections the class closes."""
        super().resource_setup()
        options = CONF.hvstack
        ssh = options.host_access == 'ssh'
        cls.access = Access(
            host_access=options.host_access,
            command=options.host_command,
            key=options.host_ssh_key or '',
            ssh_config=options.host_ssh_config or '',
            uri=options.libvirt_uri,
            directory=Path(tempfile.mkdtemp(prefix='hv')) if ssh else None,
            addresses=cls.host_addresses() if ssh else {},
        )
        cls.addClassResourceCleanup(cls.access.close)

    @classmethod
    def host_addresses(cls) -> dict[str, str]:
        """Return the addresses of the hosts that Nova reports, by name."""
        return host_inspection.map_addresses(
            list_hypervisors(cls.servers_client)
        )

    def service_hosts(self) -> dict[str, str]:
        """Return the names of the compute services by hypervisor name.

        Servers have them as their hosts, and {host} in commands is one.
        """
        return {
            str(hypervisor['hypervisor_hostname']): str(service['host'])
            for hypervisor in list_hypervisors(self.servers_client)
            if isinstance(service := hypervisor['service'], dict)
        }

    def setUp(self) -> None:
        """Skip the test if a host runs no command: it checks nothing."""
        super().setUp()
        self.exception_handlers.insert(
            0, (errors.HostAccessError, add_unchecked)
        )

    def running_guests(self, entry: CatalogueEntry) -> list[dict[str, Any]]:
        """Return the running guests of a flavor in all projects."""
        servers = list_items(
            lambda marker: self.servers_client.list_servers(
                detail=True, all_tenants=True, status='ACTIVE', **marker
            ),
            'servers',
        )
        return [
            server
            for server in servers
            if server['flavor'].get('original_name') == entry.flavor.name
        ]


def add_unchecked(case: TestCase, result: Any, failure: BaseException) -> None:
    """Add a test as not checked, with the reason and its checks so far."""
    reason = text_content(f'not checked: {failure}')
    result.addSkip(case, details={**case.getDetails(), 'reason': reason})
