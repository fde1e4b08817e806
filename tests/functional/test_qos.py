# SPDX-License-Identifier: Apache-2.0
"""A Neutron whose networks limit their ports. The lab is up. About 20 s."""

import uuid

from hvstack import host_profiles, processutils
from hvstack.cloud import network_check, qos
from hvstack.cloud.diagnosis import NOTE, CloudNeeds
from hvstack.lab import services, supervisord
from hvstack.model.configuration import parse
from tests.functional.test_cluster import LabTest

NAME = 'hv-test-qos'
LIMITS = f'QoS policy {NAME}: egress at most 20000 kbit/s'


class QosTest(LabTest):
    def setUp(self) -> None:
        super().setUp()
        # Cleanups run in reverse order: the files are restored first.
        self.addCleanup(self.restart)
        for file, line in (
            (services.NEUTRON, 'service_plugins = ovn-router'),
            (services.ML2, 'extension_drivers = port_security'),
        ):
            text = file.target.read_text()
            self.assertIn(line, text)
            self.addCleanup(file.target.write_text, text)
            file.target.write_text(text.replace(line, f'{line},qos'))
        self.restart()

    def restart(self) -> None:
        """Have the settings of Neutron in force."""
        supervisord.stop('neutron')
        supervisord.start('neutron')
        processutils.wait_for(
            self.is_up, "Neutron's API to answer", timeout=60
        )

    def is_up(self) -> bool:
        """Tell whether Neutron answers."""
        return bool(self.conn.network.get('/networks').ok)

    def test_network(self) -> None:
        network = self.conn.network
        policy = network.create_qos_policy(name=NAME)
        self.addCleanup(network.delete_qos_policy, policy)
        network.create_qos_bandwidth_limit_rule(policy, max_kbps=20000)
        limited = network.create_network(name=NAME, qos_policy_id=policy.id)
        self.addCleanup(network.delete_network, limited)
        network.create_subnet(
            network_id=limited.id, ip_version=4, cidr='10.251.0.0/24'
        )
        device = str(uuid.uuid4())
        port = network.create_port(network_id=limited.id, device_id=device)
        self.addCleanup(network.delete_port, port)
        self.assertEqual(
            [f'ports: {LIMITS}'], qos.list_port_limits(self.conn, device)
        )
        request = CloudNeeds(
            profile=host_profiles.load('lab-worker'),
            configuration=parse('i1'),
            nodes=(),
            image='',
            network=NAME,
        )
        details = [
            diagnosis.detail
            for diagnosis in network_check.network(self.conn, request)
            if diagnosis.state == NOTE and 'QoS' in diagnosis.check
        ]
        self.assertEqual(
            [f'{NAME} has {LIMITS}: bare metal has no such limit'], details
        )
