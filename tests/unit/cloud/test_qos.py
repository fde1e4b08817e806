# SPDX-License-Identifier: Apache-2.0
"""Limits of ports and volumes, at the boundary of Neutron and Cinder."""

import re
from http import HTTPStatus
from typing import Any

import testtools

from hvstack import errors
from hvstack.cloud import qos
from tests.unit.cloud import fake


class NetworkTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(
            fake.FakeCloud(services={'network': fake.NEUTRON})
        )
        self.conn = self.cloud.connect()
        policies = re.escape(f'{fake.NEUTRON}/qos/policies/')
        self.cloud.http.get(re.compile(policies), status_code=404)
        self.add_policy(
            'gold',
            {'type': 'bandwidth_limit', 'max_kbps': 1000000},
            {
                'type': 'bandwidth_limit',
                'max_kbps': 500000,
                'direction': 'ingress',
            },
            {'type': 'packet_rate_limit', 'max_kpps': 20, 'direction': 'any'},
            {'type': 'dscp_marking', 'dscp_mark': 26},
        )
        self.add_policy(
            'silver', {'type': 'minimum_bandwidth', 'min_kbps': 1000}
        )

    def add_policy(self, name: str, *rules: dict[str, Any]) -> None:
        self.cloud.http.get(
            f'{fake.NEUTRON}/qos/policies/{name}',
            json={'policy': {'id': name, 'name': name, 'rules': rules}},
        )

    def test_policy(self) -> None:
        self.assertEqual(
            'QoS policy gold: egress at most 1000000 kbit/s, ingress at most '
            '500000 kbit/s, any at most 20 kpps',
            qos.describe_policy(self.conn, 'gold'),
        )
        for policy in ('silver', None):
            self.assertEqual('', qos.describe_policy(self.conn, policy))
        self.assertEqual(
            'QoS policy others, whose rules are not visible',
            qos.describe_policy(self.conn, 'others'),
        )

    def test_ports(self) -> None:
        """The policy of a port is used instead of that of its network."""
        own = {'qos_policy_id': 'silver', 'qos_network_policy_id': 'gold'}
        for ports, expected in (
            ([], 0),
            ([{'qos_network_policy_id': 'gold'}] * 2, 1),
            ([own], 0),
            ([dict.fromkeys(own)], 0),
        ):
            self.cloud.http.get(
                f'{fake.NEUTRON}/ports?device_id=w1', json={'ports': ports}
            )
            limits = qos.list_port_limits(self.conn, 'w1')
            self.assertEqual(expected, len(limits), ports)
            for limit in limits:
                self.assertIn('ports: QoS policy gold: egress at', limit)


class VolumesTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.cloud.http.get(
            f'{fake.CINDER}/types',
            json={
                'volume_types': [
                    {'id': 't1', 'name': 'fast', 'qos_specs_id': 'q1'},
                    {'id': 't2', 'name': 'large', 'qos_specs_id': 'q1'},
                    {'id': 't3', 'name': 'plain', 'qos_specs_id': None},
                    # Members do not see the field.
                    {'id': 't4', 'name': 'hidden'},
                    {'id': 't5', 'name': 'empty', 'qos_specs_id': 'q2'},
                ]
            },
        )
        self.encryption = self.cloud.http.get(
            re.compile(f'^{fake.CINDER}/types/t[1-5]/encryption$'), json={}
        )
        self.specs = self.cloud.http.get(
            f'{fake.CINDER}/qos-specs',
            json={
                'qos_specs': [
                    {
                        'id': 'q1',
                        'name': 'shared-disk',
                        'consumer': 'front-end',
                        'specs': {
                            'total_iops_sec': '2000',
                            'read_bytes_sec': '1000000',
                        },
                    },
                    {
                        'id': 'q2',
                        'name': 'none',
                        'consumer': 'both',
                        'specs': {},
                    },
                ]
            },
        )

    def test_volumes(self) -> None:
        conn = self.cloud.connect()
        for names in (set(), {'plain', 'hidden'}):
            self.assertEqual([], qos.list_volume_limits(conn, names))
        self.assertFalse(self.specs.called)
        self.assertEqual(
            [
                'volume type fast: QoS specs shared-disk (front-end): '
                'read_bytes_sec 1000000, total_iops_sec 2000'
            ],
            qos.list_volume_limits(conn, {'fast', 'empty', 'plain'}),
        )

    def test_encryption(self) -> None:
        self.cloud.http.get(
            f'{fake.CINDER}/types/t3/encryption',
            json={
                'volume_type_id': 't3',
                'encryption_id': 'e1',
                'provider': 'luks',
                'cipher': 'aes-xts-plain64',
                'key_size': 256,
                'control_location': 'front-end',
            },
        )
        conn = self.cloud.connect()
        self.assertEqual(
            ['volume type plain: encrypted by luks (front-end)'],
            qos.list_volume_limits(conn, {'plain', 'hidden'}),
        )
        for status in (403, 500):
            with self.subTest(status=status):
                self.cloud.http.get(
                    f'{fake.CINDER}/types/t3/encryption', status_code=status
                )
                if status == HTTPStatus.FORBIDDEN:
                    self.assertEqual(
                        [], qos.list_volume_limits(conn, {'plain'})
                    )
                else:
                    self.assertRaises(
                        errors.CloudError,
                        qos.list_volume_limits,
                        conn,
                        {'plain'},
                    )

    def test_refusal(self) -> None:
        self.cloud.http.get(f'{fake.CINDER}/qos-specs', status_code=403)
        self.assertRaises(
            errors.CloudError,
            qos.list_volume_limits,
            self.cloud.connect(),
            {'fast'},
        )
