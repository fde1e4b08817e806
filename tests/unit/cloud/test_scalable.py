# SPDX-License-Identifier: Apache-2.0
"""The template lets a cluster be scaled without replacing what stays."""

import testtools

from tests.unit.cloud.test_template import load, walk


class ScalableTest(testtools.TestCase):
    def test_no_server_is_replaced_for_its_user_data(self) -> None:
        """A controller's names the workers, and its disk has HDFS' names."""
        servers = [
            node['properties']
            for name in ('hadoop-cluster.yaml', 'hadoop-node.yaml')
            for node in walk(load(name))
            if node.get('type') == 'OS::Nova::Server'
        ]
        self.assertEqual(4, len(servers))
        for properties in servers:
            self.assertEqual('IGNORE', properties['user_data_update_policy'])
            # Another format replaces a server, too.
            self.assertEqual('RAW', properties['user_data_format'])

    def test_an_update_can_say_who_goes(self) -> None:
        group = load('hadoop-cluster.yaml')['resources']['workers']
        self.assertEqual(
            [{'resource_list': {'get_param': 'removed_workers'}}],
            group['properties']['removal_policies'],
        )
