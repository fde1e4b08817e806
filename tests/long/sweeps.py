# SPDX-License-Identifier: Apache-2.0
"""What tests of sweeps that are killed share."""

import json
import os
import sys
from pathlib import Path

import testtools

from hvstack.cloud import allocation_ratios, connection, journal, placement
from hvstack.cluster import baseline_hosts
from hvstack.sweep import recovery, sweep_store
from tests.long import ratios

HVSTACK = str(Path(sys.executable).with_name('hvstack'))
#: A sweep that finds function, not figures.
SIZE = '20MB'
BY_HAND = 1.5


class SweepCase(testtools.TestCase):
    """A lab with an allocation ratio that hvstack did not set."""

    def setUp(self) -> None:
        super().setUp()
        if not os.environ.get('HVSTACK_LAB'):
            self.skipTest('needs a lab that is up (make test)')
        self.cloud = connection.connect('hvstack-lab')
        self.addCleanup(self.cloud.close)
        recovery.recover([self.cloud])
        self.addCleanup(recovery.recover, [self.cloud])
        self.flavors = self.flavor_names()
        self.by_hand()

    def by_hand(self) -> None:
        """Set the ratio that somebody has set before us."""
        self.providers = {
            host.name: placement.providers(self.cloud)[host.name]
            for host in baseline_hosts.read()
            if host.role == 'worker'
        }
        before = allocation_ratios.current(self.cloud, self.providers)
        self.set_cpu_ratio(dict.fromkeys(self.providers, BY_HAND))
        self.addCleanup(
            self.set_cpu_ratio,
            {
                name: provider_ratios['VCPU']
                for name, provider_ratios in before.items()
            },
        )

    def set_cpu_ratio(self, cpu_ratios: dict[str, float]) -> None:
        for name, ratio in cpu_ratios.items():
            ratios.set_cpu_ratio(self.cloud, self.providers[name], ratio)

    def flavor_names(self) -> set[str]:
        flavors = self.cloud.compute.flavors(is_public=None)
        return {flavor.name for flavor in flavors}

    def quiet(self) -> bool:
        return not any(change.alive for change in journal.entries())

    def files(self, sweep: str) -> dict[str, bytes]:
        """Return the content of a sweep's records."""
        return {
            path.name: path.read_bytes()
            for path in sweep_store.RECORDS_DIR.glob('*.json')
            if json.loads(path.read_text())['sweep'] == sweep
        }

    def sweep_args(self, *values: str) -> list[str]:
        return [
            *('sweep', 'run', '--host', 'lab-worker', '--backend', 'lxc'),
            *('--values', *values, '--size', SIZE, '--runs', '1'),
            *('--strategy', 'one-at-a-time'),
            *('--os-cloud', 'hvstack-lab'),
        ]
