# SPDX-License-Identifier: Apache-2.0
"""Nodes in the outputs of a stack."""

import testtools

from hvstack.cloud.stack_outputs import OutputNode, read_nodes, require_nodes

CONTROLLER = {
    'name': 'c',
    'address': '10.0.0.1',
    'server_id': 's1',
    'host_id': 'h1',
    'host_key': 'ssh-ed25519 AAAA',
}
WORKER = {'name': 'w', 'address': '10.0.0.2', 'server_id': None}
OUTPUTS = {'controller': CONTROLLER, 'workers': [WORKER], 'compute': None}


class StackOutputsTest(testtools.TestCase):
    def test_nodes(self) -> None:
        self.assertEqual(
            [OutputNode('c', '10.0.0.1', 's1', 'h1', 'ssh-ed25519 AAAA')],
            read_nodes(OUTPUTS, 'controller'),
        )
        self.assertEqual(
            [OutputNode('w', '10.0.0.2')], require_nodes(OUTPUTS, 'workers')
        )

    def test_outputs_without_a_value(self) -> None:
        for name in ('compute', 'resourcemanager'):
            self.assertEqual([], read_nodes(OUTPUTS, name))
            error = self.assertRaises(KeyError, require_nodes, OUTPUTS, name)
            self.assertEqual((name,), error.args)

    def test_incomplete_node(self) -> None:
        for name in ('name', 'address'):
            outputs = {
                'workers': [{k: v for k, v in WORKER.items() if k != name}]
            }
            error = self.assertRaises(KeyError, read_nodes, outputs, 'workers')
            self.assertEqual((name,), error.args)
