# SPDX-License-Identifier: Apache-2.0
"""A full host: as many workers as promised, pinned, and not one more."""

from collections.abc import Mapping, Sequence
from typing import Any

from tempest.lib import decorators

from hvstack.accept import (
    check_result,
    cluster_checks,
    flavor_checks,
    guest_checks,
)
from hvstack.model.catalogue import CatalogueEntry
from hvstack.tempest_plugin.operator_base import OperatorTest


@decorators.serial
class FullHostTest(OperatorTest):
    """Guests on one empty host; alone, since others would take its room."""

    def check_refused(
        self, subject: str, flavor_id: str, host: str | None
    ) -> None:
        """Judge that a server finds no place and leaves nothing."""
        server = self.boot(flavor_id, host)
        self.assert_results(
            cluster_checks.check_refused(
                subject,
                server['status'],
                (server.get('fault') or {}).get('message', ''),
                self.allocations(server['id']),
            )
        )

    @decorators.idempotent_id('d8a1c3f4-7e21-4a8e-bb0f-0a4b8c6d5e43')
    def test_worker_too_many(self) -> None:
        """I workers fill a host within its capacity; one more is refused."""
        entry, profile = self.worker()
        host, uuid, guests = self.fill_host(entry, profile)
        self.assert_results(
            flavor_checks.check_capacity(
                host, self.inventories(uuid), self.usages(uuid)
            )
        )
        self.check_refused(
            f'worker {len(guests) + 1} on {host}',
            self.flavors()[entry.flavor.name]['id'],
            host,
        )
        self.check_other_flavors(entry)

    def check_other_flavors(self, looked: CatalogueEntry) -> None:
        """Judge other workers' flavors by what their hosts have.

        Hosts that are larger than a flavor's profile say nothing of it.
        """
        check_results, unseen = [], []
        for entry, profile in self.worker_flavors():
            configuration = entry.configuration
            if entry.flavor.name == looked.flavor.name:
                continue
            if max(configuration.cpu_ratio, configuration.ram_ratio) < 1:
                # It leaves room on purpose.
                unseen.append(entry.flavor.name)
                continue
            room_checks = [
                flavor_checks.check_room(name, inventories, entry)
                for name, uuid in sorted(self.candidate_hosts(entry).items())
                if (inventories := self.inventories(uuid))[
                    self.cpu_resource_class(entry)
                ]['total']
                <= profile.cpus
            ]
            check_results += room_checks
            if not room_checks:
                unseen.append(entry.flavor.name)
        self.assert_results(check_results)
        self.skip_if_unchecked('no host as in the catalogue for', unseen)

    @decorators.idempotent_id('e2f0b7a9-18c4-4f5d-a6d1-9b7c3e2f1a54')
    def test_misfit(self) -> None:
        """A guest larger than any host is refused, whatever the ratio."""
        unplaced_flavors = []
        for entry, _ in self.worker_flavors_by_placement():
            resource_class = self.cpu_resource_class(entry)
            # Hosts that are too small for the flavor can have more CPUs.
            totals = [
                int(inventories[resource_class]['total'])
                for uuid in self.hosts_with_traits(entry).values()
                if resource_class in (inventories := self.inventories(uuid))
            ]
            if not totals:
                unplaced_flavors.append(entry.flavor.name)
                continue
            largest = max(totals)
            self.check_refused(
                f'{largest + 1} vCPUs on hosts of {largest} {resource_class}',
                self.create_small_flavor(
                    largest + 1, self.placement_specs(entry)
                ),
                None,
            )
        self.skip_if_unchecked('no host takes these flavors', unplaced_flavors)

    @decorators.idempotent_id('f4d2e6c8-9a37-4b1e-8f70-5c6d7e8f9a65')
    def test_over_commitment(self) -> None:
        """Two guests that each fit a host, but not together, never share."""
        for entry, profile in self.worker_flavors_by_placement():
            resource_class, specs = (
                self.cpu_resource_class(entry),
                self.placement_specs(entry),
            )
            host, uuid = self.empty_host(entry)
            total = int(self.inventories(uuid)[resource_class]['total'])
            cells = 1
            if resource_class == 'PCPU':
                # A single cell would not have enough CPUs.
                cells = len(profile.cells)
                specs['hw:numa_nodes'] = str(cells)
            count = flavor_checks.vcpus_above_half(total, cells)
            flavor_id = self.create_small_flavor(count, specs)
            guest = self.boot(flavor_id, host)
            self.active(guest)
            self.check_refused(
                f'2 x {count} vCPUs on {total} of {host}', flavor_id, host
            )
            self.delete_server(guest['id'])

    @decorators.idempotent_id('0a9b8c7d-6e5f-4d3c-9b2a-1f0e9d8c7b76')
    def test_pins(self) -> None:
        """Nova gives each guest CPUs and cells of its own."""
        first, _ = self.worker('dedicated')
        host, _, guests = self.fill_host(first)
        self.check_dedicated_cpus(first, guests)
        unseen = []
        for entry, _ in self.worker_flavors('dedicated'):
            if entry.flavor.name == first.flavor.name:
                continue
            self.delete_guests(guests, host)
            host, guests = '', self.boot_sample(entry)
            self.check_dedicated_cpus(entry, guests)
            if not guests:
                unseen.append(entry.flavor.name)
        self.skip_if_unchecked('no host has room for a guest of', unseen)

    def check_dedicated_cpus(
        self, entry: CatalogueEntry, guests: Sequence[Mapping[str, Any]]
    ) -> None:
        """Judge what Nova gives to the guests of a host."""
        flavor = entry.flavor
        used: list[int] = []
        for guest in guests:
            nodes = self.numa_cells(guest['id'])
            self.assert_results(
                guest_checks.check_numa_topology(
                    guest['name'], flavor.extra_specs, flavor.vcpus, nodes
                )
            )
            used += [
                cpu
                for node in nodes
                for cpu in (node.get('cpu_pinning') or {}).values()
            ]
        if guests:
            self.assert_results(
                [
                    check_result.check_equal(
                        'CPUs of all guests, each used once',
                        len(used),
                        len(set(used)),
                    )
                ]
            )
