# SPDX-License-Identifier: Apache-2.0
"""What the tests see of a cluster's volumes, with clients that answer so."""

import json
import unittest
from types import SimpleNamespace
from typing import Any, ClassVar

import fixtures
import testtools

from hvstack import errors
from hvstack.tempest_plugin import cluster_base
from hvstack.tempest_plugin.tests.tenant import test_stack
from tests.unit.accept.tempestconf import configure

SLOTS = [['slot-1'], ['slot-2']]
#: Worker, its host, its volume's id, type and place.
PINNED = (
    ('w0', 'h1', 'v0', 'slot-1', 'h1@one#one'),
    ('w1', 'h1', 'v1', 'slot-2', 'h1@two#two'),
    ('w2', 'h2', 'v2', 'slot-1', 'h2@one#one'),
)


class ReplicasTest(testtools.TestCase):
    """Blocks whose replicas are complete a little later, or never."""

    def check(self, *lives: int) -> list[str]:
        """Return the failed checks for the replicas that fsck reports.

        :param lives: number of live replicas at each look.
        """
        configure(self, {'hvstack': {'replication': 2}})
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.processutils.time.sleep', lambda _: None
            )
        )
        looks = list(lives)

        def run(command: str, **_: Any) -> SimpleNamespace:
            live = looks.pop(0) if len(looks) > 1 else looks[0]
            addresses = ', '.join(
                f'DatanodeInfoWithStorage[10.0.0.{index}:9866,x,DISK]'
                for index in range(live)
            )
            text = ''.join(
                f'/hvaccept/part-m-0000{index} 1000000 bytes, replicated: '
                'replication=2, 1 block(s):  OK\n'
                f'0. BP-1:blk_{index}_1 len=1000000 Live_repl={live}  '
                f'[{addresses}]\n'
                for index in range(10)
            )
            return SimpleNamespace(stdout=f'{text}Status: HEALTHY\n')

        cluster: Any = SimpleNamespace(
            gateway=SimpleNamespace(run=run),
            workers=[
                SimpleNamespace(address=f'10.0.0.{index}', host=f'h{index}')
                for index in range(2)
            ],
        )
        return [
            check.subject
            for check in cluster_base.ClusterTest.check_replicas(cluster)
            if not check.good
        ]

    def test_complete_at_once_or_later(self) -> None:
        self.assertEqual([], self.check(2))
        self.assertEqual([], self.check(1, 1, 2))

    def test_never_complete(self) -> None:
        clock = iter(range(0, 1000, 10))
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.processutils.clock', lambda: next(clock)
            )
        )
        self.assertEqual(['blocks with less than 2 replicas'], self.check(1))
        # 18 s, and 10 s for 10 MB.
        self.assertEqual(40, next(clock))


class PlacementTest(testtools.TestCase):
    """The hosts of a cluster, new or existing."""

    def check(
        self,
        hosts: dict[str, str],
        options: dict[str, Any],
        **parameters: str,
    ) -> list[str]:
        """Return the failed checks.

        :param hosts: host by node: workers, compute workers, controllers.
        """
        configure(self, {'hvstack': options})
        servers = [
            {'name': name, 'hostId': host} for name, host in hosts.items()
        ]

        class Test(test_stack.StackTest):
            servers_client = SimpleNamespace(
                list_servers=lambda **_: {'servers': servers}
            )

        test = Test('test_nodes_per_host')
        nodes = {
            initial: [
                {'name': name, 'server_id': name}
                for name in hosts
                if name.startswith(initial)
            ]
            for initial in ('w', 'p', 'c')
        }
        outputs = {'workers': nodes['w'], 'controller': nodes['c'][0]}
        if nodes['p']:
            outputs['compute'] = nodes['p']
        stack = {
            'parameters': parameters,
            'outputs': [
                {'output_key': name, 'output_value': value}
                for name, value in outputs.items()
            ],
        }
        return [
            check.subject
            for check in test.check_placement(stack)
            if not check.good
        ]

    def test_existing_cluster(self) -> None:
        """Its stack says how many workers a host has, no other plan."""
        hosts = {'w0': 'h0', 'w1': 'h0', 'w2': 'h1', 'w3': 'h2', 'c': 'h2'}
        existing = {'stack': 'mine', 'controllers_beside_workers': True}
        self.assertEqual([], self.check(hosts, existing, workers_per_host='2'))
        self.assertEqual(
            ['workers on host h0'],
            self.check(hosts, existing, workers_per_host='1'),
        )
        self.assertEqual(
            ['controllers beside workers'],
            self.check(hosts, {'stack': 'mine'}, workers_per_host='2'),
        )
        self.assertEqual(
            ['hosts with workers', 'controllers beside workers'],
            self.check(hosts, {'workers_per_host': 2}),
        )

    def test_compute_workers(self) -> None:
        hosts = {
            **{'w0': 'h0', 'p0': 'h0', 'p1': 'h0', 'c': 'h2'},
            **{'w1': 'h1', 'p2': 'h1'},
        }
        options = {'stack': 'mine'}
        numbers = {'workers_per_host': '1', 'compute_per_host': '2'}
        self.assertEqual([], self.check(hosts, options, **numbers))
        numbers['compute_per_host'] = '1'
        self.assertEqual(
            ['compute workers on host h0'],
            self.check(hosts, options, **numbers),
        )


class TimeoutsTest(testtools.TestCase):
    """Larger stacks and clusters have more time."""

    def setUp(self) -> None:
        super().setUp()
        configure(
            self, {'hvstack': {'stack_timeout': 900, 'ready_timeout': 300}}
        )
        self.timeouts: list[float] = []
        for name, function in (
            ('hvstack.processutils.wait_for', self.wait_for),
            ('hvstack.hadoop.daemons.wait_ready', self.wait_ready),
        ):
            self.useFixture(fixtures.MonkeyPatch(name, function))

    def wait_for(self, *_: Any, timeout: float, **__: Any) -> None:
        self.timeouts.append(timeout)

    def wait_ready(self, _: Any, timeout: float) -> None:
        self.timeouts.append(timeout)

    def test_a_stack(self) -> None:
        stack = {
            'stack_status': 'UPDATE_IN_PROGRESS',
            'parameters': {'worker_count': '12', 'compute_count': '24'},
        }

        class Test(cluster_base.ClusterTest):
            stacks_client = SimpleNamespace(
                show_stack=lambda *_: stack, delete_stack=lambda *_: None
            )

        Test.wait_for_stack('s', 'id')
        Test.delete('s', 'id')
        self.assertEqual([900 + 6 * 36] * 2, self.timeouts)

    def test_heat_has_longer(self) -> None:
        """638 workers: 15 minutes, 6 s for each of them, ten minutes."""
        bodies: list[Any] = []

        class Test(cluster_base.ClusterTest):
            request: ClassVar[Any] = {
                'template': {},
                'parameters': {'worker_count': 638},
            }
            _class_cleanups: ClassVar[list[Any]] = []
            stacks_client = SimpleNamespace(
                create_stack=lambda body: bodies.append(body) or {'id': 'i'},
                update_stack=lambda *args: bodies.append(args[2]),
            )

            @classmethod
            def create_key(cls, name: str) -> None:
                """Create nothing."""

            @classmethod
            def wait_until_complete(cls, *_: Any) -> dict[str, Any]:
                return {
                    'stack_name': 's',
                    'id': 'i',
                    'parameters': {'worker_count': '3', 'key_name': 'k'},
                }

        stack = Test.create()
        Test.update(stack, {'worker_count': 638})
        Test.update(stack, {'worker_count': 2})
        self.assertEqual(
            [89, 89, 60], [body['timeout_mins'] for body in bodies]
        )
        self.assertEqual({'worker_count': 2}, bodies[2]['parameters'])
        self.assertEqual({}, bodies[0]['template'])

    def test_a_cluster(self) -> None:
        cluster: Any = SimpleNamespace(nodes=range(13))
        cluster_base.ClusterTest.wait_for_hadoop(cluster)
        self.assertEqual([313], self.timeouts)


class VolumesTest(testtools.TestCase):
    """A cluster of three workers on two hosts."""

    def check_volumes(
        self,
        rows: tuple[tuple[str, ...], ...],
        parameters: dict[str, Any],
        *,
        cinder: bool = True,
        admin: bool = True,
        backends: str = 'slot-1:one,slot-2:two',
    ) -> tuple[list[str], str]:
        """Return the failed checks, and the reason if the test ended early."""
        configure(
            self,
            {
                'hvstack': {'volume_backends': backends},
                'service_available': {'cinder': cinder},
            },
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'tempest.common.credentials_factory.is_admin_available',
                lambda **_: admin,
            )
        )
        self.test = test = test_stack.StackTest('test_volumes')
        volumes = {
            row[2]: {'volume_type': row[3], 'os-vol-host-attr:host': row[4]}
            for row in rows
            if row[2]
        }
        servers = SimpleNamespace(
            list_servers=lambda **_: {
                'servers': [
                    {
                        'name': name,
                        'hostId': host,
                        'OS-EXT-SRV-ATTR:host': host,
                        'os-extended-volumes:volumes_attached': [
                            {'id': volume}
                        ]
                        if volume
                        else [],
                    }
                    for name, host, volume, *_ in rows
                ]
            }
        )
        manager = SimpleNamespace(servers_client=servers)
        if cinder:
            manager.volumes_client_latest = SimpleNamespace(
                show_volume=lambda key: {'volume': volumes[key]}
            )
            manager.volume_types_client_latest = SimpleNamespace(
                list_volume_types=lambda is_public: {
                    'volume_types': [
                        {
                            'name': name,
                            'extra_specs': {'volume_backend_name': backend},
                        }
                        for name, backend in (
                            ('slot-1', 'one'),
                            ('slot-2', 'two'),
                        )
                        # Cinder omits private types otherwise.
                        if is_public == 'None'
                    ]
                }
            )
            manager.volume_scheduler_stats_client_latest = SimpleNamespace(
                list_pools=lambda **_: {
                    'pools': [
                        {
                            'name': f'{host}@{name}#{name}',
                            'capabilities': {'volume_backend_name': name},
                        }
                        for host in ('h1', 'h2')
                        for name in ('one', 'two')
                    ]
                }
            )
        test.check_results = []
        test.servers_client = servers
        test.os_primary = manager
        test.project = 'p'
        test.get_client_manager = lambda **_: manager
        test.stack = {
            # In the form that Heat reports.
            'parameters': {
                name: str(parameter) for name, parameter in parameters.items()
            },
            'outputs': [
                {
                    'output_key': 'workers',
                    'output_value': [{'name': row[0]} for row in PINNED],
                }
            ],
        }
        reason = ''
        try:
            test.test_volumes()
        except (AssertionError, unittest.SkipTest) as exc:
            reason = str(exc)
        return [
            check.subject for check in test.check_results if not check.good
        ], reason

    def pinned(
        self, *rows: tuple[str, ...], **options: Any
    ) -> tuple[list[str], str]:
        """Look at whole disks for one worker each."""
        parameters = {
            'storage': 'local',
            'disk_pinning': True,
            'local_volumes': True,
            'volume_types': json.dumps(SLOTS),
        }
        return self.check_volumes(tuple(rows), parameters, **options)

    def test_no_volumes(self) -> None:
        local = {'storage': 'local', 'volume_types': '[[]]'}
        volumeless_rows = tuple((row[0], row[1], '', '', '') for row in PINNED)
        self.assertEqual(
            ([], ''),
            self.check_volumes(
                volumeless_rows, local, cinder=False, backends=''
            ),
        )
        self.assertEqual(3, len(self.test.check_results))
        bad, _ = self.check_volumes(PINNED, local)
        self.assertEqual(
            [f'{row[0]}: types of its volumes' for row in PINNED], bad
        )
        bad, _ = self.pinned(*volumeless_rows)
        self.assertEqual(3, len(bad))

    def test_as_promised(self) -> None:
        self.assertEqual(([], ''), self.pinned(*PINNED))
        looked = {check.subject for check in self.test.check_results}
        self.assertLessEqual(
            {
                'w0: types of its volumes',
                'slot-1: backend of a volume',
                'workers on h1@one#one for h1',
                'w2: host of volume v2',
            },
            looked,
        )

    def test_shared_disk(self) -> None:
        # Two slots of a host with one type, which a member sees, too.
        row = ('w1', 'h1', 'v1', 'slot-1', 'h1@one#one')
        bad, _ = self.pinned(PINNED[0], row, PINNED[2])
        self.assertEqual(['workers on slot-1 of host h1'], bad)
        # A type that leads to another's disk.
        row = ('w1', 'h1', 'v1', 'slot-2', 'h1@one#one')
        bad, _ = self.pinned(PINNED[0], row, PINNED[2])
        self.assertEqual(
            ['slot-2: backend of a volume', 'workers on h1@one#one for h1'],
            bad,
        )

    def test_another_host(self) -> None:
        far = ('w2', 'h2', 'v2', 'slot-1', 'h1@one#one')
        bad, _ = self.pinned(*PINNED[:2], far)
        self.assertEqual(['w2: host of volume v2'], bad)
        bad, _ = self.pinned(*PINNED[:2], ('w2', 'h2', 'v2', 'slot-1', ''))
        self.assertIn('workers on no known disk', bad)

    def test_unpinned(self) -> None:
        parameters = {'storage': 'ceph', 'volume_types': '[["slot-1"]]'}
        rows = tuple((*row[:3], 'slot-1', 'h1@one#one') for row in PINNED)
        self.assertEqual(([], ''), self.check_volumes(rows, parameters))

    def test_what_cannot_be_seen(self) -> None:
        bad, reason = self.pinned(*PINNED, admin=False)
        self.assertEqual([], bad)
        self.assertIn('not checked: only an administrator sees', reason)
        self.assertTrue(self.test.check_results)
        bad, reason = self.pinned(*PINNED, backends='slot-1:one')
        self.assertEqual([], bad)
        self.assertIn('not checked: no backend is promised of slot-2', reason)

    def test_lost_server(self) -> None:
        error = self.assertRaises(
            errors.CloudError,
            cluster_base.check_servers_exist,
            ['w0', 'w1'],
            ['w1'],
        )
        self.assertIn('its servers w0', str(error))
