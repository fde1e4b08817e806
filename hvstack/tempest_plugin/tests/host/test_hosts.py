# SPDX-License-Identifier: Apache-2.0
"""What compute hosts really do: nova.conf, libvirt's XML, /proc."""

from collections.abc import Mapping, Sequence
from typing import Any

from tempest import config
from tempest.lib import decorators

from hvstack.accept import domain, hostlook, judge
from hvstack.accept.domain import Domain
from hvstack.model.catalogue import Entry
from hvstack.tempest_plugin.base import HostTest

CONF = config.CONF


class ConfigurationTest(HostTest):
    """nova.conf, as the running service reads it."""

    @decorators.idempotent_id('1b2c3d4e-5f60-4718-8293-a4b5c6d7e887')
    @decorators.attr(type='smoke')
    def test_ratios_are_left_to_placement(self) -> None:
        """No host overwrites the ratios at its next update."""
        hosts, unplaced_flavors = self.landing()
        if not hosts:
            self.unchecked('no host takes any of the promised flavors')
        checks = []
        for host in sorted(hosts):
            checks += judge.overwriting(
                host, hostlook.nova_conf(self.way, host)
            )
        self.judge(checks)
        self.none_left_out('no host takes these flavors', unplaced_flavors)


@decorators.serial
class PinsTest(HostTest):
    """Guests that fill one host, as libvirt and the kernel have them."""

    @decorators.idempotent_id('2c3d4e5f-6071-4829-93a4-b5c6d7e8f998')
    def test_pins(self) -> None:
        """CPUs, memory and threads are where they were promised.

        Of the guests that run; of new ones where there are none: so many as
        fill a host of one flavor, and one of each other flavor.
        """
        first, _ = self.worker('dedicated')
        unseen = []
        for entry, _ in self.workers('dedicated'):
            guests = self.running(entry)
            if guests:
                self.look(entry, guests)
                continue
            host = ''
            if entry.flavor.name == first.flavor.name:
                host, _, guests = self.fill(entry)
            else:
                guests = self.sample(entry)
            if not guests:
                unseen.append(entry.flavor.name)
                continue
            self.look(entry, guests)
            self.clear(guests, host)
        self.none_left_out('no guest runs, nor has room, of', unseen)

    def look(self, entry: Entry, guests: Sequence[Mapping[str, Any]]) -> None:
        """Judge the pins of a flavor's guests."""
        access = self.way
        domains_by_host: dict[str, list[Domain]] = {}
        checks = []
        for server in guests:
            host = server['OS-EXT-SRV-ATTR:host']
            instance = server['OS-EXT-SRV-ATTR:instance_name']
            options = hostlook.nova_conf(access, host)
            guest = hostlook.guest(access, host, instance)
            domains_by_host.setdefault(host, []).append(guest)
            checks += judge.pins(
                guest,
                entry.flavor.extra_specs,
                self.numa(server['id']),
                dedicated=domain.pinned(options, 'cpu_dedicated_set'),
                shared=domain.pinned(options, 'cpu_shared_set'),
                cells=hostlook.cells(access, host),
                threads=hostlook.threads(access, host, instance),
            )
        for host, domains in sorted(domains_by_host.items()):
            checks += judge.disjoint(
                host,
                domains,
                hostlook.guests(access, host),
                domain.pinned(
                    hostlook.nova_conf(access, host), 'cpu_dedicated_set'
                ),
            )
        self.judge(checks)


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
            self.unchecked(f'{entry.flavor.name} has its data on Ceph')
        if CONF.hvstack.libvirt_uri.startswith('lxc'):
            self.unchecked('a container has no disks in its XML')
        guests = self.running(entry)
        if not guests:
            guests = [self.boot(self.small_flavor(1, self.placed_as(entry)))]
            self.active(guests[0])
        access = self.way
        for server in guests:
            host = server['OS-EXT-SRV-ATTR:host']
            guest = hostlook.guest(
                access, host, server['OS-EXT-SRV-ATTR:instance_name']
            )
            paths = [disk for disk in guest.disks if disk.startswith('/')]
            self.judge(
                judge.local(guest, hostlook.file_systems(access, host, paths))
            )
