# SPDX-License-Identifier: Apache-2.0
"""A stack that waits for its nodes, with a gateway, as a member uses it.

The lab is up, with two hosts for workers.
"""

import dataclasses
import json
import re
from typing import Any

from hvstack import processutils
from hvstack.cloud import keypairs, stacks
from hvstack.cluster.ssh import SSHAccess, SSHNode
from hvstack.cluster.stack import StackCluster
from tests.functional import test_templates as templates

NAME = templates.NAME


class ReadinessTest(templates.MemberTest):
    def test_readiness_and_gateway(self) -> None:
        """A complete stack is one whose nodes run, seen from a client's."""
        outputs = self.create(
            self.environment('--workers', '1', '--readiness', '--gateway')
        )
        self.assertIn('every node said', outputs['readiness'])
        self.check_signals(outputs)
        worker, client = *outputs['workers'], outputs['gateway']
        self.assertNotEqual(worker['host_id'], client['host_id'])
        self.assertEqual(f'ssh root@{client["address"]}', outputs['ssh'])
        with StackCluster.from_outputs(
            outputs,
            SSHAccess(keypairs.DIRECTORY / NAME),
            name=NAME,
            processors=2,
        ) as cluster:
            assert isinstance(cluster.gateway, SSHNode)
            gateway = dataclasses.replace(
                cluster.gateway,
                name=client['name'],
                address=client['address'],
                role='gateway',
            )
            # It reports nothing to Heat, because it has no daemons.
            processutils.wait_for(
                lambda: not gateway.run('true', check=False).returncode,
                'the gateway to answer',
                timeout=120,
            )
            # At once: no process waits for daemons any more.
            report = gateway.run('hdfs dfsadmin -report').stdout
            self.assertIn('Live datanodes (1)', report)
            nodes = gateway.run('yarn node -list').stdout
            # A worker, and the controller for ApplicationMasters.
            self.assertIsNotNone(re.search('Total Nodes: *2', nodes), nodes)
            running = gateway.run('ls /run/hadoop/*.pid', check=False)
            self.assertEqual('', running.stdout)
            gateway.close()
        stacks.delete(self.tenant, NAME)
        self.assertEqual([], list(self.tenant.compute.servers()))

    def check_signals(self, outputs: dict[str, Any]) -> None:
        """Each node with daemons reported them, and no output has the URL."""
        (stack,) = self.tenant.orchestration.stacks(name=NAME)

        def fetch(path: str) -> Any:
            return self.tenant.orchestration.get(
                f'/stacks/{NAME}/{stack.id}{path}', raise_exc=True
            ).json()

        handle = fetch('/resources/ready_handle')['resource']
        signals = fetch('/resources/ready_handle/metadata')['metadata']
        self.assertEqual(
            {f'{NAME}-controller', f'{NAME}-worker-0'}, set(signals)
        )
        self.assertEqual(
            {'SUCCESS'}, {signal['status'] for signal in signals.values()}
        )
        ready = fetch('/resources/ready')['resource']
        self.assertEqual('CREATE_COMPLETE', ready['resource_status'])
        url = json.loads(handle['attributes']['signal'])['alarm_url']
        secret = url.rpartition('Signature=')[2]
        self.assertTrue(secret)
        for document in (
            outputs,
            fetch('')['stack']['parameters'],
            fetch('/events?nested_depth=5'),
            fetch('/resources/files')['resource'],
            fetch('/resources/controller_files')['resource'],
        ):
            self.assertNotIn(secret, json.dumps(document))
