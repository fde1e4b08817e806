# SPDX-License-Identifier: Apache-2.0
"""Flavors: made whole, never another's, deleted by id."""

import re
from typing import Any

import testtools

from hvstack import errors
from hvstack.cloud import cluster_flavors, connection, journal, undo
from hvstack.model.flavor import Flavor
from tests.unit.cloud import fake

WANTED = Flavor(
    name='hv-lab-worker-i2',
    role='worker',
    vcpus=1,
    ram=2048,
    disk=12,
    extra_specs={'quota:cpu_shares': '1024'},
)


def nova(**changes: Any) -> dict[str, Any]:
    """Return Nova's view of the flavor."""
    return {
        'id': 'f1',
        'name': WANTED.name,
        'vcpus': 1,
        'ram': 2048,
        'disk': 12,
        'OS-FLV-EXT-DATA:ephemeral': 0,
        'swap': '',
        'os-flavor-access:is_public': False,
        'extra_specs': {'quota:cpu_shares': '1024'},
        **changes,
    }


class FlavorsTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.conn = self.cloud.connect()
        self.http = self.cloud.http

    def set_flavors(self, *existing_flavors: dict[str, Any]) -> None:
        self.http.get(
            f'{fake.NOVA}/flavors/detail',
            json={'flavors': list(existing_flavors)},
        )
        self.http.get(
            f'{fake.NOVA}/flavors/f1/os-flavor-access',
            json={'flavor_access': [{'flavor_id': 'f1', 'tenant_id': 'p1'}]},
        )

    def test_publish(self) -> None:
        self.set_flavors()
        created: dict[str, Any] = {}

        def create(request: Any, context: Any) -> Any:
            created.update(request.json()['flavor'])
            self.assertEqual(1, len(journal.entries()))
            return {'flavor': nova(id=created['id'], extra_specs={})}

        self.http.post(f'{fake.NOVA}/flavors', json=create)
        specs = self.http.post(
            requests_matcher('/os-extra_specs'),
            json={'extra_specs': WANTED.extra_specs},
        )
        self.http.get(
            requests_matcher('/os-flavor-access'), json={'flavor_access': []}
        )
        access = self.http.post(requests_matcher('/action'), json={})
        flavor = cluster_flavors.publish(self.conn, WANTED, ['p1'])
        self.assertEqual(created['id'], flavor.id)
        self.assertFalse(created['os-flavor-access:is_public'])
        sent = specs.last_request
        self.assertEqual({'extra_specs': WANTED.extra_specs}, sent.json())
        # Nova checks extra specs only from 2.86 on.
        self.assertEqual('compute 2.86', sent.headers['OpenStack-API-Version'])
        self.assertEqual(
            {'addTenantAccess': {'tenant': 'p1'}}, access.last_request.json()
        )
        deletion = self.http.delete(f'{fake.NOVA}/flavors/{flavor.id}')
        undo.undo_own([self.conn])
        self.assertTrue(deletion.called)
        self.assertEqual([], journal.entries())

    def test_extra_specs_that_nova_refuses(self) -> None:
        self.set_flavors()
        self.http.post(
            f'{fake.NOVA}/flavors', json={'flavor': nova(extra_specs={})}
        )
        self.http.post(requests_matcher('/os-extra_specs'), status_code=400)
        deletion = self.http.delete(f'{fake.NOVA}/flavors/f1')
        self.assertRaises(
            errors.CloudError, cluster_flavors.publish, self.conn, WANTED
        )
        self.assertTrue(deletion.called)
        self.assertEqual(1, len(journal.entries()))

    def test_same_one_is_used_and_stays(self) -> None:
        evidence = {**WANTED.extra_specs, 'hvstack:evidence': 'percent=97'}
        for existing in (nova(), nova(extra_specs=evidence)):
            self.set_flavors(existing)
            flavor = cluster_flavors.publish(self.conn, WANTED, ['p1'])
            self.assertEqual(('f1', None), (flavor.id, flavor.entry))
            self.assertEqual([], journal.entries())

    def set_access(self) -> list[str]:
        """Let Nova keep the projects with access to a private flavor."""
        self.set_flavors(nova())
        projects: list[str] = []

        def act(request: Any, context: Any) -> Any:
            [(action, content)] = request.json().items()
            if action == 'addTenantAccess':
                # The journal comes first.
                self.assertEqual(1, len(journal.own()))
                projects.append(content['tenant'])
            elif content['tenant'] in projects:
                projects.remove(content['tenant'])
            else:
                context.status_code = 404
            return {'flavor_access': access(None, None)['flavor_access']}

        def access(_request: Any, _context: Any) -> Any:
            return {
                'flavor_access': [
                    {'flavor_id': 'f1', 'tenant_id': project}
                    for project in projects
                ]
            }

        self.http.get(requests_matcher('/os-flavor-access'), json=access)
        self.http.post(requests_matcher('/action'), json=act)
        return projects

    def test_access_to_an_existing_flavor_is_revoked(self) -> None:
        projects = self.set_access()
        cluster_flavors.publish(self.conn, WANTED, ['p1'])
        self.assertEqual(['p1'], projects)
        self.assertEqual(
            ['flavor_access hv-lab-worker-i2 of p1'],
            undo.undo_own([self.conn]),
        )
        self.assertEqual([], projects)
        self.assertEqual([], journal.entries())

    def test_access_of_another_cluster_stays(self) -> None:
        projects = self.set_access()
        for owner in ('cluster a', 'cluster b'):
            cluster_flavors.publish(self.conn, WANTED, ['p1'])
            journal.hand_over(journal.own(), owner)
        undo.undo(journal.owned('cluster a'), [self.conn])
        self.assertEqual(['p1'], projects)
        undo.undo(journal.owned('cluster b'), [self.conn])
        self.assertEqual([], projects)

    def test_flavor_of_another_cluster_stays(self) -> None:
        """A cluster without its flavor cannot be scaled."""
        self.set_flavors()
        self.http.post(
            f'{fake.NOVA}/flavors',
            json=lambda request, _: {
                'flavor': nova(id=request.json()['flavor']['id'])
            },
        )
        self.http.post(requests_matcher('/os-extra_specs'), json={})
        first = cluster_flavors.publish(self.conn, WANTED)
        journal.hand_over(journal.own(), 'cluster a')
        self.set_flavors(nova(id=first.id))
        self.http.get(
            requests_matcher('/os-flavor-access'), json={'flavor_access': []}
        )
        second = cluster_flavors.publish(self.conn, WANTED)
        self.assertEqual(first.id, second.id)
        journal.hand_over(journal.own(), 'cluster b')
        deletion = self.http.delete(f'{fake.NOVA}/flavors/{first.id}')
        undo.undo(journal.owned('cluster a'), [self.conn])
        self.assertFalse(deletion.called)
        undo.undo(journal.owned('cluster b'), [self.conn])
        self.assertTrue(deletion.called)
        self.assertEqual([], journal.entries())

    def test_flavor_of_a_cluster_of_another_machine_stays(self) -> None:
        """Its journal is there, and it cannot be scaled without a flavor."""
        servers = [
            {'id': 's1', 'name': 'a-worker-0', 'OS-EXT-STS:task_state': None}
        ]
        listing = self.http.get(
            f'{fake.NOVA}/servers/detail', json={'servers': servers}
        )
        deletion = self.http.delete(f'{fake.NOVA}/flavors/f1')
        for task_state, stack_id, is_deleted in (
            (None, 's-other', False),
            # Nova deletes it, or the deletion of its own stack failed.
            ('deleting', 's-other', True),
            (None, 's-own', True),
        ):
            stack = journal.note(
                'stack', {'name': 'a', 'id': 's-own'}, 'another cloud'
            )
            self.addCleanup(journal.forget, stack)
            servers[0] |= {
                'OS-EXT-STS:task_state': task_state,
                'metadata': {'hvstack_stack': stack_id},
            }
            before = deletion.call_count
            journal.note(
                cluster_flavors.KIND,
                {'name': WANTED.name, 'id': 'f1'},
                connection.scope(self.conn),
            )
            if is_deleted:
                self.assertEqual(
                    [f'flavor {WANTED.name}'], undo.undo_own([self.conn])
                )
            else:
                with self.assertLogs('hvstack', 'WARNING') as logs:
                    self.assertEqual([], undo.undo_own([self.conn]))
                self.assertIn('servers of another cluster', logs.output[0])
            self.assertEqual(is_deleted, deletion.call_count > before)
            self.assertEqual({'stack'}, {e.kind for e in journal.entries()})
        query = listing.last_request.qs
        self.assertEqual(['f1'], query['flavor'])
        self.assertIn('all_tenants', query)

    def test_access_that_was_revoked_by_hand(self) -> None:
        projects = self.set_access()
        cluster_flavors.publish(self.conn, WANTED, ['p1'])
        projects.clear()
        undo.undo_own([self.conn])
        self.assertEqual([], journal.entries())

    def test_another_one_is_refused(self) -> None:
        for change in (
            {'ram': 4096},
            {'extra_specs': {}},
            {'extra_specs': {**WANTED.extra_specs, 'hw:x': '1'}},
        ):
            self.set_flavors(nova(**change))
            error = self.assertRaises(
                errors.CloudError, cluster_flavors.publish, self.conn, WANTED
            )
            self.assertIn(WANTED.name, str(error))
            self.assertEqual([], journal.entries())


def requests_matcher(end: str) -> Any:
    """Return a pattern of Nova's flavor URLs that end so."""
    return re.compile(rf'{fake.NOVA}/flavors/[^/]+{end}$')
