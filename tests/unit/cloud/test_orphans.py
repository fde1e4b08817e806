# SPDX-License-Identifier: Apache-2.0
"""Resources of a stack that Heat does not know: found by their mark alone."""

from typing import Any

import testtools
import yaml

from hvstack import errors, share
from hvstack.cloud import orphans
from tests.unit.cloud import fake
from tests.unit.cloud.test_template import load, names, walk

NEUTRON = 'http://neutron.test/v2.0'
MARK = 'hvstack stack s1'
#: Types that Heat creates by requests of their own, and what has the mark.
_MARKED = {
    'OS::Cinder::Volume': ('metadata', 'hvstack_stack'),
    'OS::Nova::Server': ('metadata', 'hvstack_stack'),
    'OS::Nova::ServerGroup': ('name',),
    'OS::Neutron::FloatingIP': ('value_specs', 'description'),
    'OS::Neutron::Net': ('value_specs', 'description'),
    'OS::Neutron::Port': ('value_specs', 'description'),
    'OS::Neutron::Router': ('value_specs', 'description'),
    'OS::Neutron::SecurityGroup': ('description',),
    'OS::Neutron::SecurityGroupRule': ('description',),
    'OS::Neutron::Subnet': ('value_specs', 'description'),
}
#: They are part of the resources that they connect.
_UNMARKED = {'OS::Cinder::VolumeAttachment', 'OS::Neutron::RouterInterface'}


class OrphansTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        cloud = self.useFixture(
            fake.FakeCloud(services={'network': 'http://neutron.test'})
        )
        self.http = cloud.http
        self.http.get(
            'http://neutron.test',
            json={
                'versions': [
                    {
                        'id': 'v2.0',
                        'status': 'CURRENT',
                        'links': [{'rel': 'self', 'href': NEUTRON}],
                    }
                ]
            },
        )
        for collection in (
            *('floatingips', 'ports', 'routers', 'networks'),
            'security-groups',
        ):
            self.have(collection)
        self.conn = cloud.connect()

    def have(self, collection: str, *items: dict[str, Any]) -> None:
        """Let Neutron have resources of a kind."""
        self.http.get(
            f'{NEUTRON}/{collection}',
            json={collection.replace('-', '_'): list(items)},
        )

    def group(self, group_id: str, **fields: str) -> dict[str, str]:
        """Return a security group with the mark."""
        return {
            'id': group_id,
            'name': 'hv-x-security_group-abc',
            'description': MARK,
            'project_id': 'p1',
            **fields,
        }

    def delete(self, **options: Any) -> list[str]:
        return orphans.delete(self.conn, 's1', **options)

    def deleted(self) -> list[str]:
        """Return the paths that were deleted."""
        return [
            request.path
            for request in self.http.request_history
            if request.method == 'DELETE'
        ]

    def test_only_what_has_the_mark(self) -> None:
        self.have(
            'security-groups',
            self.group('g1'),
            self.group('g2', description='hvstack stack s12'),
            self.group('g3', description=''),
            self.group('g4', project_id='p2'),
            self.group('known'),
        )
        self.http.delete(f'{NEUTRON}/security-groups/g1', status_code=204)
        self.assertEqual(
            ['security group g1'], self.delete(existing={'known'})
        )
        self.assertEqual(['/v2.0/security-groups/g1'], self.deleted())

    def test_servers_and_volumes_by_metadata(self) -> None:
        items: list[dict[str, Any]] = [
            {'id': 'i1', 'name': 'x', 'metadata': {'hvstack_stack': 's1'}},
            {'id': 'i2', 'name': 'x', 'metadata': {'hvstack_stack': 's2'}},
            {'id': 'i3', 'name': 'x', 'metadata': {}},
        ]
        # Cinder restored a backup into a volume of the user.
        copy = {**items[0], 'id': 'i4'}
        copy['metadata'] = {'hvstack_stack': 's1', 'src_backup_id': 'b1'}
        for url, collection, resources in (
            (fake.NOVA, 'servers', items),
            (fake.CINDER, 'volumes', [*items, copy]),
        ):
            self.http.get(
                f'{url}/{collection}/detail', json={collection: resources}
            )
            self.http.delete(f'{url}/{collection}/i1', status_code=204)
            self.http.get(f'{url}/{collection}/i1', status_code=404)
        self.http.get(
            f'{fake.NOVA}/os-server-groups',
            json={
                'server_groups': [
                    {'id': 'sg1', 'name': MARK},
                    {'id': 'sg2', 'name': 'hvstack stack'},
                ]
            },
        )
        self.http.delete(f'{fake.NOVA}/os-server-groups/sg1', status_code=204)
        self.assertEqual(
            ['server i1', 'volume i1', 'server group sg1'], self.delete()
        )

    def test_what_cannot_be_deleted_is_named(self) -> None:
        self.have('security-groups', self.group('g1'), self.group('g2'))
        for group_id, status in (('g1', 409), ('g2', 204)):
            self.http.delete(
                f'{NEUTRON}/security-groups/{group_id}', status_code=status
            )
        error = self.assertRaises(errors.CloudError, self.delete)
        self.assertIn("Run 'openstack security group delete g1'", str(error))
        self.assertNotIn('g2', str(error))
        self.assertEqual(2, len(self.deleted()))


class MarkTest(testtools.TestCase):
    def test_every_resource_has_the_mark(self) -> None:
        for name in names():
            for node in walk(load(name)):
                resource_type = str(node.get('type'))
                service = resource_type.split('::')
                if service[:2] not in (
                    ['OS', 'Nova'],
                    ['OS', 'Neutron'],
                    ['OS', 'Cinder'],
                ):
                    continue
                if resource_type in _UNMARKED:
                    continue
                self.assertIn(resource_type, _MARKED, name)
                value: Any = node['properties']
                for key in _MARKED[resource_type]:
                    value = value.get(key)
                    if isinstance(value, dict) and 'if' in value:
                        # A condition adds to it.
                        value = value['if'][-1]
                self.assertTrue(value, f'{name}: {resource_type}')

    def test_the_templates_have_the_same_text(self) -> None:
        mark = load('hadoop-cluster.yaml')['resources']['mark']
        separator, parts = mark['properties']['value']['list_join']
        self.assertEqual(
            orphans.mark('ID'),
            separator.join(
                'ID' if word == {'get_param': 'OS::stack_id'} else word
                for word in parts
            ),
        )
        text = (share.HEAT_TEMPLATES / 'hadoop-node.yaml').read_text()
        self.assertIn(f'{orphans.METADATA}:', text)
        self.assertTrue(yaml.safe_load(text))
