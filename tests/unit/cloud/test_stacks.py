# SPDX-License-Identifier: Apache-2.0
"""Stacks: why one failed, and that nothing of it stays."""

import io
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fixtures
import requests
import testtools
from keystoneauth1 import fixture as ksa

from hvstack import errors
from hvstack.cloud import journal, stack_undo, stacks, undo
from hvstack.progress import Progress
from hvstack.results.typed_json import Json
from tests.unit.cloud import fake

URL = f'{fake.HEAT}/stacks'
DONE = 'CREATE_COMPLETE'


def stack(status: str, **fields: Any) -> dict[str, Any]:
    """Return Heat's view of a stack."""
    return {
        'stack': {
            'id': 's1',
            'stack_name': 'hv-x',
            'stack_status': status,
            'stack_status_reason': 'because',
            'links': [],
            **fields,
        }
    }


def resource(
    name: str, resource_type: str, status: str, reason: str
) -> dict[str, str]:
    """Return Heat's view of a resource."""
    return {
        'resource_name': name,
        'resource_type': resource_type,
        'resource_status': status,
        'resource_status_reason': reason,
    }


class StacksTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.conn = self.cloud.connect()
        self.http = self.cloud.http
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cloud.stacks._INTERVAL', 0.0)
        )

    def test_outputs(self) -> None:
        outputs = [{'output_key': 'ssh', 'output_value': 'ssh root@x'}]
        self.http.get(
            f'{URL}/s1',
            [
                {'json': stack('CREATE_IN_PROGRESS')},
                {'json': stack('CREATE_COMPLETE', outputs=outputs)},
            ],
        )
        self.assertEqual(
            {'ssh': 'ssh root@x'}, stacks.wait(self.conn, 's1', timeout=5)
        )
        # Outputs of an unfinished stack take the engine's time.
        self.assertEqual(
            ['resolve_outputs=false', 'resolve_outputs=false', ''],
            [
                request.query
                for request in self.http.request_history
                if request.path.endswith('/stacks/s1')
            ],
        )

    def test_a_silence_that_passes(self) -> None:
        self.http.get(
            f'{URL}/s1',
            [
                {'status_code': 500},
                {'exc': requests.ConnectTimeout},
                {'json': stack('CREATE_COMPLETE')},
            ],
        )
        self.assertEqual({}, stacks.wait(self.conn, 's1', timeout=5))

    def test_a_cloud_that_limits_requests(self) -> None:
        """RFC 6585: the same request may be repeated later."""
        self.http.get(
            f'{URL}/s1',
            [{'status_code': 429}, {'json': stack('CREATE_COMPLETE')}],
        )
        self.assertEqual({}, stacks.wait(self.conn, 's1', timeout=5))

    def test_keystone_is_busy_when_the_token_expires(self) -> None:
        """A large stack takes longer than a token is valid."""
        self.conn.session.invalidate()
        token = ksa.V3Token(project_id='p1', user_id='u1')
        service = token.add_service('orchestration')
        service.add_standard_endpoints(public=fake.HEAT, region='RegionOne')
        headers = {'X-Subject-Token': 'second'}
        self.http.post(
            f'{fake.KEYSTONE}/auth/tokens',
            [{'status_code': 503}, {'json': token, 'headers': headers}],
        )
        self.http.get(f'{URL}/s1', json=stack('CREATE_COMPLETE'))
        self.assertEqual({}, stacks.wait(self.conn, 's1', timeout=5))

    def test_silence(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cloud.stacks.SILENCE', -1.0)
        )
        self.http.get(f'{URL}/s1', status_code=500)
        error = self.assertRaises(
            errors.CloudError, stacks.wait, self.conn, 's1', timeout=5
        )
        self.assertIn('Cannot inspect', str(error))

    def test_a_stack_that_is_gone(self) -> None:
        get_mock = self.http.get(f'{URL}/s1', status_code=404)
        self.assertRaises(
            errors.CloudError, stacks.wait, self.conn, 's1', timeout=5
        )
        self.assertEqual(1, get_mock.call_count)

    def test_failure_names_the_deepest_resource(self) -> None:
        self.http.get(f'{URL}/s1', json=stack('CREATE_FAILED'))
        self.http.get(
            f'{URL}/hv-x/s1/resources',
            json={
                'resources': [
                    resource(
                        'workers',
                        'OS::Heat::ResourceGroup',
                        'CREATE_FAILED',
                        'of its member',
                    ),
                    resource(
                        '0',
                        'file:///hadoop-node.yaml',
                        'CREATE_FAILED',
                        'of its server',
                    ),
                    resource(
                        'server',
                        'OS::Nova::Server',
                        'CREATE_FAILED',
                        'No valid host\nwas found.',
                    ),
                    resource(
                        'port', 'OS::Neutron::Port', 'CREATE_COMPLETE', ''
                    ),
                ]
            },
        )
        error = self.assertRaises(
            errors.CloudError, stacks.wait, self.conn, 's1', timeout=5
        )
        self.assertEqual(
            "Stack 'hv-x' failed: server (OS::Nova::Server): No valid host "
            'was found. No host that the flavor and its server group permit '
            'has room. Other servers may be there: an administrator sees them '
            "with 'hvstack doctor'.",
            str(error),
        )

    def test_a_change_that_heat_has_undone(self) -> None:
        """With rollback, no status of a failure remains to be noticed."""
        self.http.get(
            f'{URL}/s1',
            [
                {'json': stack('ROLLBACK_IN_PROGRESS')},
                {'json': stack('ROLLBACK_COMPLETE')},
            ],
        )
        self.http.get(f'{URL}/hv-x/s1/resources', json={'resources': []})
        error = self.assertRaises(
            errors.CloudError, stacks.wait, self.conn, 's1', timeout=5
        )
        self.assertIn('Heat has undone it', str(error))
        self.assertIn("'openstack stack event list hv-x'", str(error))

    def failed_server(self) -> None:
        """Have Heat and Nova tell of a server that failed."""
        self.http.get(f'{URL}/s1', json=stack('CREATE_FAILED'))
        self.http.get(
            f'{URL}/hv-x/s1/resources',
            json={
                'resources': [
                    {
                        **resource(
                            'server', 'OS::Nova::Server', 'CREATE_FAILED', 'x'
                        ),
                        'physical_resource_id': 'i1',
                    }
                ]
            },
        )

    def test_failure_shows_the_console(self) -> None:
        self.failed_server()
        self.http.post(
            f'{fake.NOVA}/servers/i1/action',
            json={'output': 'Linux\n\nKernel panic\n'},
        )
        self.http.get(
            f'{fake.NOVA}/servers/i1', json={'server': {'name': 'hv-x-w-0'}}
        )
        error = self.assertRaises(
            errors.CloudError, stacks.wait, self.conn, 's1', timeout=5
        )
        self.assertTrue(
            str(error).endswith(
                '(OS::Nova::Server): x; console of hv-x-w-0: Linux | Kernel '
                'panic.'
            ),
            str(error),
        )

    def test_no_console_is_no_matter(self) -> None:
        self.failed_server()
        self.http.post(f'{fake.NOVA}/servers/i1/action', status_code=409)
        error = self.assertRaises(
            errors.CloudError, stacks.wait, self.conn, 's1', timeout=5
        )
        self.assertTrue(str(error).endswith('(OS::Nova::Server): x.'))

    def test_heats_limit_is_explained(self) -> None:
        self.http.get(f'{URL}/s1', json=stack('CREATE_FAILED'))
        self.http.get(
            f'{URL}/hv-x/s1/resources',
            json={
                'resources': [
                    resource(
                        'workers',
                        'OS::Heat::ResourceGroup',
                        'CREATE_FAILED',
                        'Maximum resources per stack exceeded.',
                    )
                ]
            },
        )
        error = self.assertRaises(
            errors.CloudError, stacks.wait, self.conn, 's1', timeout=5
        )
        self.assertIn('max_resources_per_stack in heat.conf', str(error))

    def test_heats_limit_of_configs_is_explained(self) -> None:
        self.http.get(f'{URL}/s1', json=stack('CREATE_FAILED'))
        self.http.get(
            f'{URL}/hv-x/s1/resources',
            json={
                'resources': [
                    resource(
                        'script',
                        'OS::Heat::MultipartMime',
                        'CREATE_FAILED',
                        'RequestLimitExceeded: resources.script: You have '
                        'reached the maximum software configs per tenant, '
                        '4096. Please delete some configs.',
                    )
                ]
            },
        )
        error = self.assertRaises(
            errors.CloudError, stacks.wait, self.conn, 's1', timeout=5
        )
        self.assertIn(
            'delete some configs. Each worker has one. Have an administrator '
            'increase max_software_configs_per_tenant in heat.conf',
            str(error),
        )

    def test_a_node_that_sends_no_host_key(self) -> None:
        self.http.get(f'{URL}/s1', json=stack('CREATE_FAILED'))
        self.http.get(
            f'{URL}/hv-x/s1/resources',
            json={
                'resources': [
                    resource(
                        'host_key',
                        'OS::Heat::WaitCondition',
                        'CREATE_FAILED',
                        'WaitConditionTimeout: resources.host_key: 0 of 1 '
                        'received',
                    )
                ]
            },
        )
        error = self.assertRaises(
            errors.CloudError, stacks.wait, self.conn, 's1', timeout=5
        )
        self.assertIn(
            "host_key_source in hvstack.conf to 'console'", str(error)
        )
        self.assertIn('trust its certificate', str(error))

    def test_console_of_a_node_without_host_key(self) -> None:
        """Its server is complete; only its console says what it lacks."""

        def member(
            stack_name: str, name: str, kind: str, status: str, physical: str
        ) -> dict[str, Any]:
            return {
                **resource(name, kind, status, 'timeout'),
                'physical_resource_id': physical,
                'links': [
                    {'rel': 'self', 'href': f'http://h/{stack_name}/{name}'},
                    {'rel': 'stack', 'href': f'http://h/{stack_name}'},
                ],
            }

        server, condition = 'OS::Nova::Server', 'OS::Heat::WaitCondition'
        for name in ('w0', 'w1', 'c', 'g'):
            self.http.get(
                f'{fake.NOVA}/servers/{name}', json={'server': {'name': name}}
            )
            self.http.post(
                f'{fake.NOVA}/servers/{name}/action',
                json={'output': f'no metadata at {name}\n'},
            )
        for stack_name, failed, expected in (
            ('n1', 'host_key', 'w1'),
            ('hv-x', 'controller_host_key', 'c'),
            ('hv-x', 'gateway_host_key', 'g'),
            ('n0', 'ready', ''),
        ):
            self.http.get(f'{URL}/s1', json=stack('CREATE_FAILED'))
            self.http.get(
                f'{URL}/hv-x/s1/resources',
                json={
                    'resources': [
                        member('n0', 'server', server, DONE, 'w0'),
                        member('n1', 'server', server, DONE, 'w1'),
                        member('hv-x', 'client', server, DONE, 'g'),
                        member('hv-x', 'controller', server, DONE, 'c'),
                        member(
                            stack_name, failed, condition, 'CREATE_FAILED', 'x'
                        ),
                    ]
                },
            )
            error = self.assertRaises(
                errors.CloudError, stacks.wait, self.conn, 's1', timeout=5
            )
            _, _, console = str(error).partition('; console of ')
            self.assertEqual(
                f'{expected}: no metadata at {expected}.' if expected else '',
                console,
                failed,
            )

    def test_heats_limit_at_once(self) -> None:
        self.http.get(f'{URL}/hv-x', status_code=404)
        self.http.post(
            URL,
            status_code=400,
            json={
                'error': {'message': 'Maximum resources per stack exceeded'}
            },
        )
        template = Path(self.useFixture(fixtures.TempDir()).path) / 't.yaml'
        template.write_text('heat_template_version: wallaby\n')
        error = self.assertRaises(
            errors.CloudError,
            stacks.create,
            *(self.conn, 'hv-x', template, {}),
            timeout=5,
        )
        self.assertIn('max_resources_per_stack in heat.conf', str(error))

    def test_environments_are_given(self) -> None:
        self.http.get(f'{URL}/hv-x', status_code=404)
        post_mock = self.http.post(URL, json=stack('CREATE_IN_PROGRESS'))
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        (directory / 't.yaml').write_text('heat_template_version: wallaby\n')
        (directory / 'n.yaml').write_text('heat_template_version: wallaby\n')
        for name, text in (
            ('a', 'resource_registry: {Ours: n.yaml}\nparameters: {p: 1}'),
            ('b', 'parameters: {p: 2}'),
        ):
            (directory / f'{name}.yaml').write_text(text)
        stacks.create(
            self.conn,
            'hv-x',
            directory / 't.yaml',
            {'q': 3},
            [directory / 'a.yaml', directory / 'b.yaml'],
            timeout=5,
        )
        sent = post_mock.last_request.json()
        self.assertEqual({'p': 2}, sent['environment']['parameters'])
        nested = sent['environment']['resource_registry']['Ours']
        self.assertIn(nested, sent['files'])
        self.assertEqual({'q': 3}, sent['parameters'])

    def test_late(self) -> None:
        self.http.get(f'{URL}/s1', json=stack('CREATE_IN_PROGRESS'))
        self.http.get(
            f'{URL}/hv-x/s1/resources',
            json={
                'resources': [
                    resource('server', 'x', 'CREATE_IN_PROGRESS', '')
                ]
            },
        )
        error = self.assertRaises(
            errors.DeadlineExceededError,
            stacks.wait,
            self.conn,
            's1',
            timeout=-1,
        )
        self.assertIn('left: server', str(error))

    def test_not_all_that_is_unfinished_is_named(self) -> None:
        self.http.get(f'{URL}/s1', json=stack('CREATE_IN_PROGRESS'))
        self.http.get(
            f'{URL}/hv-x/s1/resources',
            json={
                'resources': [
                    resource(f'r{index}', 'x', 'CREATE_IN_PROGRESS', '')
                    for index in range(636)
                ]
            },
        )
        error = self.assertRaises(
            errors.DeadlineExceededError,
            stacks.wait,
            self.conn,
            's1',
            timeout=-1,
        )
        self.assertIn('left: r0, r1, r2, r3, r4, r5 and 630 more.', str(error))

    def list_while_unfinished(self, share: float) -> int:
        """Return how often the resources are listed in three looks."""
        for name, value in (('_SAY_SECONDS', 0), ('_MAX_REPORT_SHARE', share)):
            self.useFixture(
                fixtures.MonkeyPatch(f'hvstack.cloud.stacks.{name}', value)
            )
        states = ['CREATE_IN_PROGRESS'] * 3 + ['CREATE_COMPLETE']
        self.http.get(
            f'{URL}/s1', [{'json': stack(status)} for status in states]
        )
        mock = self.http.get(
            f'{URL}/hv-x/s1/resources', json={'resources': []}
        )
        progress = Progress(stream=io.StringIO())
        stacks.wait(self.conn, 's1', timeout=5, progress=progress)
        return int(mock.call_count)

    def test_progress_lists_resources_repeatedly(self) -> None:
        self.assertEqual(3, self.list_while_unfinished(1e9))

    def test_progress_leaves_the_engine_its_time(self) -> None:
        """A list that takes long is followed by a long pause."""
        self.assertEqual(1, self.list_while_unfinished(1e-9))

    def test_slow_engine_is_asked_less_often(self) -> None:
        """An answer that takes long is followed by a long pause."""
        pauses: list[float] = []
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cloud.stacks.time.sleep', pauses.append
            )
        )
        answers = iter([0.02, 0.0, 0.0])

        def look() -> bool:
            seconds = next(answers)
            threading.Event().wait(seconds)
            return not seconds and len(pauses) > 1

        stacks.wait_until(
            look, bool, failure='x', timeout=5, late=lambda *_: ''
        )
        self.assertGreaterEqual(pauses[0], 0.1)
        self.assertLess(pauses[1], 0.1)

    def test_undo_has_time_for_each_server(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cloud.stack_times.NODE_SECONDS', -1000
            )
        )
        self.http.get(f'{URL}/hv-x', status_code=404)
        self.http.get(f'{URL}?name=hv-x', json={'stacks': []})
        self.http.post(URL, json={'stack': {'id': 's1'}})
        self.create({'worker_count': 1, 'compute_count': 1})
        (entry,) = journal.own()
        self.mock_stack_list('DELETE_IN_PROGRESS', 'DELETE_IN_PROGRESS')
        self.http.delete(f'{URL}/s1', status_code=204)
        error = self.assertRaises(
            errors.DeadlineExceededError,
            stack_undo.undo,
            self.conn,
            entry.data,
        )
        self.assertIn('was not deleted after -1100 s', str(error))

    def mock_stack_list(self, *statuses: str) -> None:
        """Have Heat list a stack with these states, then none."""
        self.http.get(
            f'{URL}?name=hv-x',
            [
                *(
                    {'json': {'stacks': [stack(status)['stack']]}}
                    for status in statuses
                ),
                {'json': {'stacks': []}},
            ],
        )

    def test_delete_tries_twice_then_says_why(self) -> None:
        self.mock_stack_list(*3 * ['DELETE_FAILED'])
        self.http.get(
            f'{URL}/hv-x/s1/resources',
            json={
                'resources': [
                    resource('port', 'OS::Neutron::Port', 'DELETE_FAILED', 'w')
                ]
            },
        )
        delete_mock = self.http.delete(f'{URL}/s1', status_code=204)
        error = self.assertRaises(
            errors.CloudError, stacks.delete, self.conn, 'hv-x', timeout=5
        )
        self.assertEqual(2, delete_mock.call_count)
        self.assertIn('port (OS::Neutron::Port): w', str(error))

    def test_delete_although_the_answer_is_late(self) -> None:
        self.mock_stack_list('CREATE_FAILED', 'CREATE_FAILED')
        delete_mock = self.http.delete(
            f'{URL}/s1', [{'status_code': 500}, {'status_code': 204}]
        )
        stacks.delete(self.conn, 'hv-x', timeout=5)
        self.assertEqual(2, delete_mock.call_count)

    def test_delete_without_an_answer(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cloud.stacks.SILENCE', -1.0)
        )
        self.mock_stack_list('CREATE_FAILED')
        self.http.delete(f'{URL}/s1', status_code=500)
        error = self.assertRaises(
            errors.CloudError, stacks.delete, self.conn, 'hv-x', timeout=5
        )
        self.assertIn("Cannot delete stack 'hv-x'", str(error))

    def test_silence_of_a_slow_machine(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cloud.stacks.SILENCE', 0.001)
        )
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.speed.factor', lambda: 10_000.0)
        )
        self.http.get(
            f'{URL}/s1',
            [
                *(3 * [{'status_code': 500}]),
                {'json': stack('CREATE_COMPLETE')},
            ],
        )
        self.assertEqual({}, stacks.wait(self.conn, 's1', timeout=5))

    def orphans(self, fails: bool = False) -> list[tuple[Any, ...]]:
        """Replace the deletion of orphans; return its arguments."""
        calls: list[tuple[Any, ...]] = []

        def delete(_: Any, *args: Any) -> list[str]:
            calls.append(args)
            if fails:
                raise errors.CloudError('Cannot delete port p1')
            return ['security group g1']

        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cloud.orphans.delete', delete)
        )
        return calls

    def test_orphans_before_the_second_try(self) -> None:
        """Heat cannot delete what an orphan uses."""
        self.mock_stack_list('CREATE_COMPLETE', 'DELETE_FAILED')
        group = resource('group', 'OS::Neutron::SecurityGroup', 'x', 'in use')
        group['physical_resource_id'] = 'g0'
        self.http.get(f'{URL}/hv-x/s1/resources', json={'resources': [group]})
        self.http.delete(f'{URL}/s1', status_code=204)
        for fails in (False, True):
            calls = self.orphans(fails)
            self.mock_stack_list('CREATE_COMPLETE', 'DELETE_FAILED')
            stacks.delete(self.conn, 'hv-x', timeout=5)
            self.assertEqual([('s1', {'g0'})], calls)

    def test_orphans_after_the_stack(self) -> None:
        calls = self.orphans()
        data = {'name': 'hv-x', 'id': 's1'}
        self.mock_stack_list('CREATE_COMPLETE')
        self.http.delete(f'{URL}/s1', status_code=204)
        stack_undo.undo(self.conn, data)
        # A user, or an earlier command, has deleted the stack.
        self.mock_stack_list()
        stack_undo.undo(self.conn, data)
        self.assertEqual([('s1',), ('s1',)], calls)
        self.mock_stack_list()
        self.orphans(fails=True)
        self.assertRaises(errors.CloudError, stack_undo.undo, self.conn, data)

    def test_delete_waits_until_heat_lists_it_no_more(self) -> None:
        self.mock_stack_list(
            'CREATE_COMPLETE', 'DELETE_IN_PROGRESS', 'DELETE_COMPLETE'
        )
        delete_mock = self.http.delete(f'{URL}/s1', status_code=204)
        stacks.delete(self.conn, 'hv-x', timeout=5)
        self.assertEqual(1, delete_mock.call_count)
        self.assertEqual([], list(self.conn.orchestration.stacks(name='hv-x')))
        self.assertEqual(
            5,
            len(
                [
                    request
                    for request in self.http.request_history
                    if request.path.endswith('/stacks')
                ]
            ),
        )

    def test_delete_a_stack_whose_deletion_heat_forgot(self) -> None:
        requests: list[str] = []
        stacks.wait_until_deleted(
            'hv-x',
            lambda: None if requests else 'DELETE_IN_PROGRESS',
            lambda: requests.append('delete'),
            str,
            timeout=0.2,
        )
        self.assertEqual(['delete'], requests)

    def test_delete_no_stack_of_another_project(self) -> None:
        """An administrator sees all projects' stacks of a name."""
        project = self.conn.current_project_id
        links = {
            key: [{'rel': 'self', 'href': f'{URL}/hv-x/{key}'}]
            for key in ('s1', 's2')
        }
        links['s2'][0]['href'] = links['s2'][0]['href'].replace(
            f'/{project}/', '/another/'
        )
        other_stack, own_stack = (
            stack('CREATE_COMPLETE', id=key, links=links[key])['stack']
            for key in ('s2', 's1')
        )
        self.http.get(
            f'{URL}?name=hv-x',
            [
                {'json': {'stacks': stack_list}}
                for stack_list in ([other_stack, own_stack], [other_stack])
            ],
        )
        delete_mock = self.http.delete(f'{URL}/s1', status_code=204)
        stacks.delete(self.conn, 'hv-x', timeout=5)
        self.assertEqual(1, delete_mock.call_count)

    def test_a_large_stack_is_given_its_time(self) -> None:
        """To undo one may take as long as to make it."""
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cloud.stacks.DELETE_SECONDS', -1)
        )
        self.useFixture(
            fixtures.EnvironmentVariable('OS_CLOUD__STACK_TIMEOUT', '60')
        )
        self.mock_stack_list('DELETE_IN_PROGRESS', 'DELETE_IN_PROGRESS')
        stack_undo.undo(self.conn, {'name': 'hv-x', 'id': 's1'})

    def create(
        self,
        parameters: Mapping[str, Json] | None = None,
        timeout: float = 5,
    ) -> None:
        template = Path(self.useFixture(fixtures.TempDir()).path) / 't.yaml'
        template.write_text('heat_template_version: 2021-04-16\n')
        stacks.create(
            *(self.conn, 'hv-x', template, parameters or {}), timeout=timeout
        )

    def test_heat_has_longer_than_hvstack(self) -> None:
        """An hour, or the time of hvstack and ten minutes, in minutes."""
        self.http.get(f'{URL}/hv-x', status_code=404)
        post_mock = self.http.post(URL, json=stack('CREATE_IN_PROGRESS'))
        for slowness, timeout, minutes in (
            (1.0, 900, 60),
            (1.0, 3000, 60),
            (1.0, 3001, 61),
            # 638 nodes that send their host keys.
            (1.0, 900 + 6 * 638 + 900, 104),
            (20.0, 900, 500),
        ):
            with fixtures.MonkeyPatch(
                'hvstack.speed.factor', lambda value=slowness: value
            ):
                self.create(timeout=timeout)
            self.assertEqual(
                minutes, post_mock.last_request.json()['timeout_mins']
            )

    def test_undo_by_id(self) -> None:
        """A stack that later got the name stays."""
        self.http.get(f'{URL}/hv-x', status_code=404)
        post_mock = self.http.post(
            URL, json=stack('CREATE_IN_PROGRESS', id='s0')
        )
        self.create()
        (entry,) = journal.own()
        self.assertEqual('s0', entry.data['id'])
        self.assertEqual(
            entry.data['tag'], post_mock.last_request.json()['tags']
        )
        self.mock_stack_list('CREATE_COMPLETE')
        delete_mock = self.http.delete(f'{URL}/s1', status_code=204)
        undo.undo_own([self.conn])
        self.assertEqual(0, delete_mock.call_count)
        self.assertEqual([], journal.own())

    def test_name_was_used_by_another_process(self) -> None:
        """Its stack was deleted when this process undid its own."""
        self.http.get(f'{URL}/hv-x', status_code=404)
        self.http.post(URL, status_code=409)
        self.assertRaises(errors.CloudError, self.create)
        other = {**stack('CREATE_COMPLETE')['stack'], 'tags': ['hvstack-0']}
        exists = {'json': {'stacks': [other]}}
        get_mock = self.http.get(
            f'{URL}?name=hv-x', [exists, {'json': {'stacks': []}}]
        )
        deleted = self.http.delete(f'{URL}/s1', status_code=204)
        undo.undo_own([self.conn])
        self.assertEqual(0, deleted.call_count)
        self.assertEqual(1, get_mock.call_count)
        self.assertEqual([], journal.own())

    def test_entry_of_an_older_release(self) -> None:
        """It has no ID: the stack of the name may be another user's."""
        self.mock_stack_list('CREATE_COMPLETE')
        error = self.assertRaises(
            errors.CloudError, stack_undo.undo, self.conn, {'name': 'hv-x'}
        )
        self.assertIn("Cannot delete the stack 'hv-x' (s1)", str(error))
        stack_undo.undo(self.conn, {'name': 'hv-x'})

    def test_answer_to_the_creation_is_lost(self) -> None:
        self.http.get(f'{URL}/hv-x', status_code=404)
        self.http.post(URL, exc=requests.ConnectionError)
        self.assertRaises(errors.CloudError, self.create)
        (entry,) = journal.own()
        created = stack('CREATE_COMPLETE', tags=[entry.data['tag']])['stack']
        exists = {'json': {'stacks': [created]}}
        self.http.get(
            f'{URL}?name=hv-x', [exists, exists, {'json': {'stacks': []}}]
        )
        deleted = self.http.delete(f'{URL}/s1', status_code=204)
        undo.undo_own([self.conn])
        self.assertEqual(1, deleted.call_count)
        self.assertEqual([], journal.own())

    def test_engine_still_examines_the_templates(self) -> None:
        """It lists the stack after its API's time-out."""
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cloud.stack_undo._INTERVAL_SECONDS', 0.0
            )
        )
        self.http.get(f'{URL}/hv-x', status_code=404)
        self.http.post(URL, status_code=504)
        self.assertRaises(errors.CloudError, self.create)
        (entry,) = journal.own()
        created = stack('CREATE_COMPLETE', tags=[entry.data['tag']])['stack']
        none, exists = ({'json': {'stacks': s}} for s in ([], [created]))
        self.http.get(f'{URL}?name=hv-x', [none, none, exists, exists, none])
        deleted = self.http.delete(f'{URL}/s1', status_code=204)
        undo.undo_own([self.conn])
        self.assertEqual(1, deleted.call_count)
        self.assertEqual([], journal.own())

    def test_creation_without_an_answer_and_without_a_stack(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cloud.stacks.SILENCE', 0.001)
        )
        self.http.get(f'{URL}/hv-x', status_code=404)
        self.http.post(URL, status_code=504)
        self.assertRaises(errors.CloudError, self.create)
        self.mock_stack_list()
        undo.undo_own([self.conn])
        self.assertEqual([], journal.own())

    def test_refused_creation_is_not_waited_for(self) -> None:
        self.http.get(f'{URL}/hv-x', status_code=404)
        self.http.post(URL, status_code=400)
        self.assertRaises(errors.CloudError, self.create)
        get_mock = self.http.get(f'{URL}?name=hv-x', json={'stacks': []})
        undo.undo_own([self.conn])
        self.assertEqual(1, get_mock.call_count)

    def test_statuses_of_a_created_stack(self) -> None:
        """Such as after 'openstack stack check' with a dead worker."""
        for status, is_usable in (
            ('CHECK_FAILED', True),
            ('RESUME_COMPLETE', True),
            # The creation failed: the stack has no outputs.
            ('ROLLBACK_COMPLETE', False),
            ('CREATE_FAILED', False),
            ('ROLLBACK_IN_PROGRESS', False),
            ('UPDATE_IN_PROGRESS', False),
        ):
            self.http.get(f'{URL}/hv-x', json=stack(status))
            self.http.get(f'{URL}/s1', json=stack(status))
            if is_usable:
                self.assertEqual({}, stacks.outputs(self.conn, 'hv-x'))
            else:
                self.assertRaises(
                    errors.CloudError, stacks.outputs, self.conn, 'hv-x'
                )

    def test_an_update_that_heat_has_undone(self) -> None:
        output = {'output_key': 'ssh', 'output_value': 'x'}
        answer = stack('ROLLBACK_COMPLETE', outputs=[output])
        for url in (f'{URL}/hv-x', f'{URL}/s1'):
            self.http.get(url, json=answer)
        self.assertEqual({'ssh': 'x'}, stacks.outputs(self.conn, 'hv-x'))

    def test_delete_what_is_not_there(self) -> None:
        self.mock_stack_list()
        stacks.delete(self.conn, 'hv-x')

    def test_a_taken_name_changes_nothing(self) -> None:
        self.http.get(f'{URL}/hv-x', json=stack('CREATE_COMPLETE'))
        self.assertRaises(
            errors.InputError,
            stacks.create,
            self.conn,
            'hv-x',
            Path('none.yaml'),
            {},
            timeout=5,
        )
        self.assertEqual([], journal.entries())

    def test_too_large_for_user_data(self) -> None:
        error = self.assertRaises(
            errors.InputError,
            stacks.create,
            self.conn,
            'hv-x',
            Path('none.yaml'),
            {'core_site': 'x' * 70_000},
            timeout=5,
        )
        self.assertIn('49149', str(error))
