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
        judged = []
        homeless = []
        seen: set[tuple[str, str]] = set()
        for entry, profile in self.promised():
            hosts = self.hosts(entry)
            if not hosts:
                homeless.append(entry.flavor.name)
            for name, uuid in sorted(hosts.items()):
                if (name, profile.name) not in seen:
                    seen.add((name, profile.name))
                    judged += judge.inventory(
                        name, self.inventories(uuid), profile
                    )
        if not judged:
            self.unchecked('no host takes any of the promised flavors')
        self.judge(judged)
        self.none_left_out('no host takes these flavors', homeless)

    @decorators.idempotent_id('c17e8d6b-51d7-4d3c-9c52-1a3f6d1f7b32')
    @decorators.attr(type='smoke')
    def test_allocations(self) -> None:
        """Guests take no more than their hosts have."""
        hosts, homeless = self.landing()
        if not hosts:
            self.unchecked('no host takes any of the promised flavors')
        judged = []
        for name, uuid in sorted(hosts.items()):
            judged += judge.capacity(
                name, self.inventories(uuid), self.usages(uuid)
            )
        self.judge(judged)
        self.none_left_out('no host takes these flavors', homeless)
