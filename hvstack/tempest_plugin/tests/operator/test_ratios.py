# SPDX-License-Identifier: Apache-2.0
"""Nothing is promised twice: Placement's inventories and allocations."""

from tempest.lib import decorators

from hvstack.accept import judge
from hvstack.tempest_plugin.base import OperatorTest


class RatiosTest(OperatorTest):
    """All hosts that promised flavors can land on."""

    @decorators.idempotent_id('b3c5a0de-2f5f-4a0c-8c6b-6f0c2b7d9e21')
    @decorators.attr(type='smoke')
    def test_inventories(self) -> None:
        """Ratios are 1, and memory is left as the profile says."""
        checks = []
        unplaced_flavors = []
        seen: set[tuple[str, str]] = set()
        for entry, profile in self.promised():
            hosts = self.hosts(entry)
            if not hosts:
                unplaced_flavors.append(entry.flavor.name)
            for name, uuid in sorted(hosts.items()):
                if (name, profile.name) not in seen:
                    seen.add((name, profile.name))
                    checks += judge.inventory(
                        name, self.inventories(uuid), profile
                    )
        if not checks:
            self.unchecked('no host takes any of the promised flavors')
        self.judge(checks)
        self.none_left_out('no host takes these flavors', unplaced_flavors)

    @decorators.idempotent_id('c17e8d6b-51d7-4d3c-9c52-1a3f6d1f7b32')
    @decorators.attr(type='smoke')
    def test_allocations(self) -> None:
        """Guests take no more than their hosts have."""
        hosts, unplaced_flavors = self.landing()
        if not hosts:
            self.unchecked('no host takes any of the promised flavors')
        checks = []
        for name, uuid in sorted(hosts.items()):
            checks += judge.capacity(
                name, self.inventories(uuid), self.usages(uuid)
            )
        self.judge(checks)
        self.none_left_out('no host takes these flavors', unplaced_flavors)
