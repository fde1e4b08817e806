# SPDX-License-Identifier: Apache-2.0
"""Nothing is promised twice: Placement's inventories and allocations."""

from tempest.lib import decorators

from hvstack.accept import flavor_checks
from hvstack.tempest_plugin.operator_base import OperatorTest


class RatiosTest(OperatorTest):
    """All hosts that promised flavors can land on."""

    @decorators.idempotent_id('b3c5a0de-2f5f-4a0c-8c6b-6f0c2b7d9e21')
    @decorators.attr(type='smoke')
    def test_inventories(self) -> None:
        """Ratios are 1, and memory is left as the profile says."""
        check_results = []
        unplaced_flavors = []
        seen: set[tuple[str, str]] = set()
        for entry, profile in self.expected_flavors():
            hosts = self.candidate_hosts(entry)
            if not hosts:
                unplaced_flavors.append(entry.flavor.name)
            for name, uuid in sorted(hosts.items()):
                if (name, profile.name) not in seen:
                    seen.add((name, profile.name))
                    check_results += flavor_checks.check_inventory(
                        name, self.inventories(uuid), profile
                    )
        if not check_results:
            self.skip_unchecked('no host takes any of the promised flavors')
        self.assert_results(check_results)
        self.skip_if_unchecked('no host takes these flavors', unplaced_flavors)

    @decorators.idempotent_id('c17e8d6b-51d7-4d3c-9c52-1a3f6d1f7b32')
    @decorators.attr(type='smoke')
    def test_allocations(self) -> None:
        """Guests take no more than their hosts have."""
        hosts, unplaced_flavors = self.hosts_of_flavors()
        if not hosts:
            self.skip_unchecked('no host takes any of the promised flavors')
        check_results = []
        for name, uuid in sorted(hosts.items()):
            check_results += flavor_checks.check_capacity(
                name, self.inventories(uuid), self.usages(uuid)
            )
        self.assert_results(check_results)
        self.skip_if_unchecked('no host takes these flavors', unplaced_flavors)
