# SPDX-License-Identifier: Apache-2.0
"""Settings of nodes are in a record if they change what is measured."""

import testtools

from hvstack.cloud.volumes import Volumes
from hvstack.rally_plugins.workload_args import parse_args
from hvstack.sweep.node_setup import HadoopSettings, NodeSetup


class NodeSetupTest(testtools.TestCase):
    def test_facts(self) -> None:
        for setup, facts in (
            (NodeSetup(), {}),
            (NodeSetup(node_groups=True, controllers='combined'), {}),
            # Both follow from the configuration.
            (NodeSetup(deployment=1), {}),
            (NodeSetup(deployment=2), {}),
            (NodeSetup(deployment=3), {'deployment': 3}),
            (NodeSetup(node_groups=False), {'node_groups': False}),
            (NodeSetup(controllers='separate'), {'controllers': 'separate'}),
            (NodeSetup(vnic='normal'), {}),
            (NodeSetup(vnic='macvtap'), {'vnic': 'macvtap'}),
            (NodeSetup(stateless_security_group=False), {}),
            (
                NodeSetup(stateless_security_group=True),
                {'stateless_security_group': True},
            ),
            (NodeSetup(host_affinity=True), {'host_affinity': True}),
        ):
            self.assertEqual(facts, setup.facts)

    def test_volumes(self) -> None:
        self.assertIsNone(NodeSetup().volumes)
        self.assertEqual(
            Volumes('ceph', host_affinity=True),
            NodeSetup(host_affinity=True).volumes,
        )
        self.assertEqual(Volumes(count=2), NodeSetup(disks=2).volumes)

    def test_changes_after_a_run(self) -> None:
        """The argument of a workload has all settings side by side."""
        argument = {'disks': 2, 'lost_hosts': 1, 'scaled_compute': 3}
        setup = parse_args(
            {
                'sweep': 's',
                'configuration': 'i2',
                'sizes': [10**8],
                'setup': argument,
            }
        ).setup
        self.assertEqual(
            (1, 3), (setup.later.lost_hosts, setup.later.scaled_compute)
        )
        self.assertEqual(argument, setup.to_mapping())

    def test_argument_of_a_workload(self) -> None:
        self.assertEqual({}, NodeSetup().to_mapping())
        self.assertEqual(
            {
                'node_groups': False,
                'disks': 2,
                'hadoop': {'a': '1'},
                'daemons': {'namenode': '-XX:+UseG1GC'},
            },
            NodeSetup(
                node_groups=False,
                disks=2,
                hadoop=HadoopSettings(
                    (('a', '1'),), (('namenode', '-XX:+UseG1GC'),)
                ),
            ).to_mapping(),
        )
