# SPDX-License-Identifier: Apache-2.0
"""Stacks that change: members, marks, updates."""

from dataclasses import replace
from typing import Any

import fixtures
import testtools

from hvstack import errors
from hvstack.cloud import stack_updates
from tests.unit.cloud import fake

URL = f'{fake.HEAT}/stacks'


def stack(status: str, updated: str | None, **fields: Any) -> dict[str, Any]:
    """Return Heat's view of a stack."""
    return {
        'stack': {
            'id': 's1',
            'stack_name': 'hv-x',
            'stack_status': status,
            'updated_time': updated,
            'links': [],
            **fields,
        }
    }


def resource(
    name: str,
    resource_type: str,
    of_stack: str,
    physical: str = '',
    status: str = 'CREATE_COMPLETE',
) -> dict[str, Any]:
    """Return Heat's view of a resource of a stack, perhaps a nested one."""
    # Behind a proxy that ends TLS, Heat's links have another scheme and host.
    href = f'http://10.0.0.9:8004/v1/p/stacks/name/{of_stack}'
    return {
        'resource_name': name,
        'resource_type': resource_type,
        'resource_status': status,
        'physical_resource_id': physical,
        'links': [
            {'rel': 'self', 'href': f'{href}/resources/{name}'},
            {'rel': 'stack', 'href': href},
        ],
    }


def group(name: str, *indexes: int) -> list[dict[str, Any]]:
    """Return a resource group with a server in each of its members."""
    rows = [resource(name, 'OS::Heat::ResourceGroup', 's1', f'g-{name}')]
    for index in indexes:
        nested = f'n-{name}-{index}'
        rows += [
            resource(str(index), 'file:///n.yaml', f'g-{name}', nested),
            resource('port', 'OS::Neutron::Port', nested, 'p'),
            resource('server', 'OS::Nova::Server', nested, f'{name}{index}'),
        ]
    return rows


class UpdatesTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.http = self.cloud.http
        self.conn = self.cloud.connect()
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cloud.stacks._INTERVAL', 0.0)
        )

    def answers(self, *answers: dict[str, Any]) -> None:
        """Let Heat tell of the stack, one answer after the other."""
        for name in ('s1', 'hv-x'):
            self.http.get(
                f'{URL}/{name}', [{'json': answer} for answer in answers]
            )

    def test_members(self) -> None:
        self.answers(stack('CREATE_COMPLETE', None))
        rows = [*group('workers', 10, 2, 3), *group('compute', 2)]
        rows[1]['resource_status'] = 'CHECK_FAILED'
        rows[9]['resource_status'] = 'CHECK_FAILED'
        rows.append(resource('controller', 'OS::Nova::Server', 's1', 'c'))
        self.http.get(f'{URL}/hv-x/s1/resources', json={'resources': rows})
        members = stack_updates.members(
            self.conn,
            stack_updates.settled(self.conn, 'hv-x', timeout=5),
            'workers',
        )
        self.assertEqual(
            [
                ('2', ('workers2',), False),
                ('3', ('workers3',), True),
                ('10', ('workers10',), True),
            ],
            [
                (member.name, member.server_ids, member.unhealthy)
                for member in members
            ],
        )
        patch_mocks = [
            self.http.patch(f'{URL}/name/{path}', json={})
            for path in (
                'g-workers/resources/3',
                'n-workers-3/resources/server',
            )
        ]
        stack_updates.mark_unhealthy(self.conn, members[1], 'power')
        for patch_mock in patch_mocks:
            self.assertEqual(
                {'mark_unhealthy': True, 'resource_status_reason': 'power'},
                patch_mock.last_request.json(),
            )

    def list_member(self) -> stack_updates.Member:
        """Return a worker with a volume, whose host key Heat has."""
        self.answers(stack('CREATE_COMPLETE', None))
        rows = [
            *group('workers', 3),
            resource(
                *('host_key_handle', 'OS::Heat::WaitConditionHandle'),
                *('n-workers-3', 'k'),
            ),
            resource('disks', 'HVStack::Hadoop::Disks', 'n-workers-3', 'd'),
            resource('disks', 'OS::Heat::ResourceGroup', 'd', 'dg'),
            resource('0', 'file:///d.yaml', 'dg', 'dn'),
            resource('volume', 'OS::Cinder::Volume', 'dn', 'v3'),
            resource('attachment', 'OS::Cinder::VolumeAttachment', 'dn', 'a'),
        ]
        self.http.get(f'{URL}/hv-x/s1/resources', json={'resources': rows})
        [member] = stack_updates.members(
            self.conn,
            stack_updates.settled(self.conn, 'hv-x', timeout=5),
            'workers',
        )
        return member

    def test_a_replacement_has_a_handle_of_its_own(self) -> None:
        """After a check, Heat replaces only what is marked itself.

        The signature of the old handle has expired, and Heat would show the
        old host key of the new server.
        """
        patch_mocks = [
            self.http.patch(f'{URL}/name/{path}', json={})
            for path in (
                *('g-workers/resources/3', 'n-workers-3/resources/server'),
                *(
                    'n-workers-3/resources/host_key_handle',
                    'dn/resources/volume',
                ),
            )
        ]
        stack_updates.mark_unhealthy(self.conn, self.list_member(), 'power')
        self.assertEqual([1] * 4, [mock.call_count for mock in patch_mocks])

    def test_servers_are_deleted_before_their_volumes(self) -> None:
        member = self.list_member()
        self.assertEqual(('v3',), member.volume_ids)
        paths = ['/v2.1/servers/workers3', '/v3/p1/volumes/v3']
        for url, name in (
            (f'{fake.NOVA}/servers/workers3', 'server'),
            (f'{fake.CINDER}/volumes/v3', 'volume'),
        ):
            # The volume is gone already.
            self.http.delete(url, status_code=204 if name == 'server' else 404)
            exists = {'json': {name: {'id': 'x', 'status': 'available'}}}
            self.http.get(url, [exists, {'status_code': 404}])
        stack_updates.delete_servers(
            self.conn, [member], with_volumes=True, timeout=0
        )
        self.assertEqual(
            [
                (method, path)
                for path in paths
                for method in ('GET', 'DELETE', 'GET')
            ],
            [
                (request.method, request.path)
                for request in self.http.request_history
                if request.path in paths
            ],
        )

    def test_a_server_that_nova_does_not_delete(self) -> None:
        member = self.list_member()
        server = f'{fake.NOVA}/servers/workers3'
        self.http.delete(server, status_code=204)
        self.http.get(
            server, json={'server': {'id': 'workers3', 'status': 'ACTIVE'}}
        )
        failure = self.assertRaises(
            errors.DeadlineExceededError,
            stack_updates.delete_servers,
            self.conn,
            [member],
            with_volumes=False,
            timeout=0,
        )
        self.assertIn('server workers3 is ACTIVE', str(failure))

    def test_a_server_that_nova_keeps(self) -> None:
        """With reclaim_instance_interval, it keeps its place and volumes."""
        member = self.list_member()
        server = f'{fake.NOVA}/servers/workers3'
        self.http.get(
            server,
            [
                {'json': {'server': {'id': 'workers3', 'status': status}}}
                for status in ('ACTIVE', 'SOFT_DELETED')
            ]
            + [{'status_code': 404}],
        )
        self.http.delete(server, status_code=204)
        action = self.http.post(f'{server}/action', status_code=202)
        stack_updates.delete_servers(
            self.conn, [member], with_volumes=False, timeout=30
        )
        self.assertEqual(
            [{'forceDelete': None}],
            [request.json() for request in action.request_history],
        )

    def test_a_deletion_that_was_requested_before(self) -> None:
        member = replace(self.list_member(), server_ids=(), volume_ids=('v1',))
        volume = f'{fake.CINDER}/volumes/v1'
        self.http.get(
            volume,
            [
                {'json': {'volume': {'id': 'v1', 'status': 'deleting'}}},
                {'status_code': 404},
            ],
        )
        deleted = self.http.delete(volume, status_code=400)
        stack_updates.delete_servers(
            self.conn, [member], with_volumes=True, timeout=30
        )
        self.assertFalse(deleted.called)

    def test_update_waits_for_its_own_end(self) -> None:
        """The state before it must not be taken for its end."""
        ended = stack(
            'UPDATE_COMPLETE',
            'now',
            outputs=[{'output_key': 'ssh', 'output_value': 'new'}],
        )
        self.answers(
            stack('CREATE_COMPLETE', None),
            stack('CREATE_COMPLETE', None),
            stack('UPDATE_IN_PROGRESS', 'now'),
            stack('UPDATE_IN_PROGRESS', 'now'),
            ended,
        )
        self.http.get(f'{URL}/hv-x/s1/resources', json={'resources': []})
        patch_mock = self.http.patch(f'{URL}/hv-x/s1', status_code=202)
        before = stack_updates.settled(self.conn, 'hv-x', timeout=5)
        outputs = stack_updates.update(
            self.conn, before, {'worker_count': 4}, timeout=5
        )
        self.assertEqual({'ssh': 'new'}, outputs)
        self.assertEqual(
            {'parameters': {'worker_count': 4}, 'timeout_mins': 60},
            patch_mock.last_request.json(),
        )

    def test_members_that_heat_does_not_list(self) -> None:
        """A stack whose list takes too long is not a stack without members."""
        self.answers(stack('CREATE_COMPLETE', None))
        self.http.get(f'{URL}/hv-x/s1/resources', status_code=504)
        listed_stack = stack_updates.settled(self.conn, 'hv-x', timeout=5)
        failure = self.assertRaises(
            errors.CloudError,
            stack_updates.members,
            self.conn,
            listed_stack,
            'workers',
        )
        self.assertIn("resources of stack 'hv-x'", str(failure))

    def test_answers_of_a_busy_engine_are_late(self) -> None:
        """Heat is busiest when it begins the update of a large stack."""
        for answers in (
            [stack('UPDATE_IN_PROGRESS', 'x'), stack('UPDATE_COMPLETE', 'x')],
            [stack('CREATE_COMPLETE', None), stack('UPDATE_COMPLETE', 'now')],
        ):
            for name in ('s1', 'hv-x'):
                self.http.get(
                    f'{URL}/{name}',
                    [
                        {'json': answers[0]},
                        {'status_code': 504},
                        {'json': answers[1]},
                    ],
                )
            self.http.patch(f'{URL}/hv-x/s1', status_code=202)
            before = stack_updates.settled(self.conn, 'hv-x', timeout=5)
            if before.status == 'CREATE_COMPLETE':
                stack_updates.update(self.conn, before, {}, timeout=5)

    def test_update_that_fails_says_why(self) -> None:
        self.answers(
            stack('UPDATE_COMPLETE', 'before'), stack('UPDATE_FAILED', 'now')
        )
        row = resource('server', 'OS::Nova::Server', 'n', '', 'CREATE_FAILED')
        row['resource_status_reason'] = 'No valid host'
        self.http.get(f'{URL}/hv-x/s1/resources', json={'resources': [row]})
        self.http.patch(f'{URL}/hv-x/s1', status_code=202)
        before = stack_updates.settled(self.conn, 'hv-x', timeout=5)
        failure = self.assertRaises(
            errors.CloudError,
            stack_updates.update,
            self.conn,
            before,
            {},
            timeout=5,
        )
        self.assertIn('No valid host', str(failure))

    def test_update_after_an_update_that_heat_has_undone(self) -> None:
        """The status before it is not the end of this update."""
        self.answers(
            stack('ROLLBACK_COMPLETE', 'before'),
            stack('ROLLBACK_COMPLETE', 'before'),
            stack('UPDATE_COMPLETE', 'now'),
        )
        self.http.patch(f'{URL}/hv-x/s1', status_code=202)
        before = stack_updates.settled(self.conn, 'hv-x', timeout=5)
        self.assertEqual(
            {}, stack_updates.update(self.conn, before, {}, timeout=5)
        )

    def test_refused(self) -> None:
        self.answers(stack('CREATE_COMPLETE', None))
        self.http.patch(f'{URL}/hv-x/s1', status_code=409, text='busy')
        before = stack_updates.settled(self.conn, 'hv-x', timeout=5)
        self.assertRaises(
            errors.CloudError,
            stack_updates.update,
            self.conn,
            before,
            {},
            timeout=5,
        )

    def test_settled_waits(self) -> None:
        self.answers(
            stack('UPDATE_IN_PROGRESS', 'x'), stack('UPDATE_COMPLETE', 'x')
        )
        settled_stack = stack_updates.settled(self.conn, 'hv-x', timeout=5)
        self.assertEqual('UPDATE_COMPLETE', settled_stack.status)

    def test_a_large_stack_has_more_time(self) -> None:
        """Each worker counts, and each that the update removes."""
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cloud.stack_times.NODE_SECONDS', -10)
        )
        for parameters, seconds in (
            ({}, -1),
            ({'worker_count': '3', 'removed_workers': ''}, -31),
            (
                {
                    'worker_count': '3',
                    'compute_count': '4',
                    'removed_workers': '3,7',
                    'removed_compute': '1',
                },
                -101,
            ),
        ):
            self.answers(
                stack('UPDATE_IN_PROGRESS', 'x', parameters=parameters)
            )
            error = self.assertRaises(
                errors.DeadlineExceededError,
                stack_updates.settled,
                self.conn,
                'hv-x',
                timeout=-1,
            )
            self.assertIn(f'after {seconds} s', str(error))

    def test_never_settled(self) -> None:
        self.answers(stack('UPDATE_IN_PROGRESS', 'x'))
        self.assertRaises(
            errors.DeadlineExceededError,
            stack_updates.settled,
            self.conn,
            'hv-x',
            timeout=-1,
        )

    def test_no_such_stack(self) -> None:
        self.http.get(f'{URL}/hv-x', status_code=404)
        failure = self.assertRaises(
            errors.CloudError,
            stack_updates.settled,
            self.conn,
            'hv-x',
            timeout=5,
        )
        self.assertIn("Cannot find stack 'hv-x'", str(failure))
