# SPDX-License-Identifier: Apache-2.0
"""What compute hosts really do: nova.conf, libvirt's XML, /proc."""

import contextlib
import unittest
from collections.abc import Mapping, Sequence
from typing import Any

from tempest import config
from tempest.lib import decorators

from hvstack.accept import (
    disk_checks,
    flavor_checks,
    guest_checks,
    host_inspection,
    libvirt_domain,
)
from hvstack.accept.libvirt_domain import Domain
from hvstack.model.catalogue import CatalogueEntry
from hvstack.tempest_plugin.operator_base import HostTest

CONF = config.CONF


class ConfigurationTest(HostTest):
    """nova.conf, as the running service reads it."""

    @decorators.idempotent_id('1b2c3d4e-5f60-4718-8293-a4b5c6d7e887')
    @decorators.attr(type='smoke')
    def test_ratios_are_left_to_placement(self) -> None:
        """No host overwrites the ratios at its next update."""
        hosts, unplaced_flavors = self.hosts_of_flavors()
        if not hosts:
            self.skip_unchecked('no host takes any of the promised flavors')
        check_results = []
        service_hosts = self.service_hosts()
        for host in sorted(service_hosts[name] for name in hosts):
            check_results += flavor_checks.check_nova_conf_ratios(
                host, host_inspection.read_nova_conf(self.access, host)
            )
        self.assert_results(check_results)
        self.skip_if_unchecked('no host takes these flavors', unplaced_flavors)


@decorators.serial
class PinsTest(HostTest):
    """Guests that fill one host, as libvirt and the kernel have them."""

    @decorators.idempotent_id('2c3d4e5f-6071-4829-93a4-b5c6d7e8f998')
    def test_pins(self) -> None:
        """CPUs, memory and threads are where they were promised.

        The test inspects the running guests. Without any, it starts guests:
        one flavor fills a host, each other flavor gets one guest.
        """
        first, _ = self.worker('dedicated')
        workers = [
            (entry, self.running_guests(entry))
            for entry, _ in self.worker_flavors('dedicated')
        ]
        for entry, guests in workers:
            if guests:
                self.check_pins(entry, guests)
        unseen = []
        # These need an empty host, which guests that run do not.
        for entry in [entry for entry, guests in workers if not guests]:
            host, guests = '', []
            with contextlib.suppress(unittest.SkipTest):
                if entry.flavor.name == first.flavor.name:
                    host, _, guests = self.fill_host(entry)
                else:
                    guests = self.boot_sample(entry)
            if not guests:
                unseen.append(entry.flavor.name)
                continue
            self.check_pins(entry, guests)
            self.delete_guests(guests, host)
        self.skip_if_unchecked('no guest runs, nor has room, of', unseen)

    def check_pins(
        self, entry: CatalogueEntry, guests: Sequence[Mapping[str, Any]]
    ) -> None:
        """Judge the pins of a flavor's guests."""
        access = self.access
        domains_by_host: dict[str, list[Domain]] = {}
        check_results = []
        for server in guests:
            host = server['OS-EXT-SRV-ATTR:host']
            instance = server['OS-EXT-SRV-ATTR:instance_name']
            options = host_inspection.read_nova_conf(access, host)
            guest = host_inspection.read_domain(access, host, instance)
            domains_by_host.setdefault(host, []).append(guest)
            check_results += guest_checks.check_pins(
                guest,
                entry.flavor.extra_specs,
                self.numa_cells(server['id']),
                dedicated=libvirt_domain.cpu_set(options, 'cpu_dedicated_set'),
                shared=libvirt_domain.cpu_set(options, 'cpu_shared_set'),
                cells=host_inspection.read_cells(access, host),
                threads=host_inspection.read_threads(access, host, instance),
            )
        for host, domains in sorted(domains_by_host.items()):
            check_results += guest_checks.check_disjoint_cpus(
                host,
                domains,
                host_inspection.list_domains(access, host),
                libvirt_domain.cpu_set(
                    host_inspection.read_nova_conf(access, host),
                    'cpu_dedicated_set',
                ),
            )
        self.assert_results(check_results)


@decorators.serial
class DisksTest(HostTest):
    """Where a guest's local disk is."""

    @decorators.idempotent_id('3d4e5f60-7182-493a-a4b5-c6d7e8f90aa9')
    def test_local_disk(self) -> None:
        """A disk of local storage is a file or device of its own host.

        Of the guests that run; of a small one where there are none.
        """
        entry, _ = self.worker()
        if entry.configuration.storage != 'local':
            self.skip_unchecked(f'{entry.flavor.name} has its data on Ceph')
        if CONF.hvstack.libvirt_uri.startswith('lxc'):
            self.skip_unchecked('a container has no disks in its XML')
        guests = self.running_guests(entry)
        if not guests:
            guests = [
                self.boot(
                    self.create_small_flavor(1, self.placement_specs(entry))
                )
            ]
            if self.has_no_room(guests[0]):
                self.skip_unchecked(
                    'no host has room for a small guest like those of '
                    f'{entry.flavor.name}'
                )
            self.active(guests[0])
        access = self.access
        for server in guests:
            host = server['OS-EXT-SRV-ATTR:host']
            guest = host_inspection.read_domain(
                access, host, server['OS-EXT-SRV-ATTR:instance_name']
            )
            paths = [disk for disk in guest.disks if disk.startswith('/')]
            self.assert_results(
                disk_checks.check_local_disks(
                    guest, host_inspection.file_systems(access, host, paths)
                )
            )
