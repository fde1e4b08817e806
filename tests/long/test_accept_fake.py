# SPDX-License-Identifier: Apache-2.0
"""Acceptance of where Nova puts 32 nodes, on hosts without guests.

The lab is up, and gets ``--fake-hosts 8 --fake-profile vsphere6``.
"""

from pathlib import Path

import yaml

from hvstack import host_profiles
from hvstack.model import catalogue
from hvstack.model.configuration import parse
from tests.long import labs
from tests.long.test_accept import AcceptTest

HOSTS = 8
CONFIGURATION = 'i4-dedicated'
PASSED = {
    'FlavorsTest.test_promised_flavors',
    'FlavorsTest.test_no_others',
    'RatiosTest.test_inventories',
    'RatiosTest.test_allocations',
    'FullHostTest.test_worker_too_many',
    'FullHostTest.test_misfit',
    'FullHostTest.test_over_commitment',
    'FullHostTest.test_pins',
    'FullClusterTest.test_worker_too_many',
    'StackTest.test_outputs',
    'StackTest.test_nodes_per_host',
    'StackTest.test_volumes',
    'StackLifeTest.test_scale_and_delete',
}


class FakeTest(AcceptTest):
    def setUp(self) -> None:
        super().setUp()
        labs.fake_hosts(self, HOSTS)
        self.image = self.no_system()
        # Clusters are a member's.
        self.cloud.image.update_image(self.image, visibility='public')
        self.catalogues = [self.catalogue()]
        self.publish()

    def catalogue(self) -> Path:
        """Write a catalogue of what such a host is cut into."""
        path = self.directory() / 'vsphere6.yaml'
        data = catalogue.build_catalogue(
            host_profiles.load('vsphere6'), [parse(CONFIGURATION)]
        )
        path.write_text(yaml.safe_dump(data))
        return path

    def test_placement(self) -> None:
        report = self.accept(
            *('--placement-only', '--configuration', CONFIGURATION),
            timeout=3000,
        )
        verdicts = self.verdicts(report)
        self.assertNotIn('failed', verdicts.values(), str(report))
        self.assertEqual(
            PASSED,
            {
                name
                for name, verdict in verdicts.items()
                if verdict == 'passed'
            },
        )
        # What needs a guest was not inspected, and the verdict says so.
        self.assertEqual('not checked', report['verdict'])
        for name in ('topology', 'node_groups', 'replicas', 'small_run'):
            self.assertEqual('not checked', verdicts[f'StackTest.test_{name}'])
        spread = next(
            row
            for row in report['results']
            if row['test'].endswith('test_nodes_per_host')
        )
        workers = sorted(
            check['observed']
            for check in spread['check_results']
            if check['subject'].startswith('workers on host')
        )
        self.assertEqual(['3', '3', *['4'] * 6], workers)
