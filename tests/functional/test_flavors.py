# SPDX-License-Identifier: Apache-2.0
"""Catalogues are published to a real Nova, which converges to them."""

import json
import sys
from pathlib import Path
from typing import Any

import fixtures
import yaml

from hvstack import errors, processutils
from hvstack.cloud import catalogue_publisher, nova_flavors
from hvstack.lab.hosts import sizes
from tests.functional.test_hosts import HostsTest

HVSTACK = str(Path(sys.executable).with_name('hvstack'))
OPENSTACK = str(Path(sys.executable).with_name('openstack'))


class PublishTest(HostsTest):
    def setUp(self) -> None:
        super().setUp()
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.path = directory / 'lab-worker.yaml'
        text = (sizes.CATALOGUES / self.path.name).read_text()
        self.path.write_text(text)
        self.addCleanup(self.remove)

    def remove(self) -> None:
        """Leave none of the flavors on the cloud."""
        for flavor in nova_flavors.list_flavors(self.cloud).values():
            if catalogue_publisher.is_managed(flavor):
                self.cloud.compute.delete_flavor(flavor)

    def hvstack(self, *args: str) -> Any:
        """Return the JSON output of an hvstack command."""
        done = processutils.run([HVSTACK, 'flavor', *args, '-f', 'json'])
        return json.loads(done.stdout)

    def publish(self, *options: str) -> set[tuple[str, str]]:
        """Publish the catalogue; return action and field of each change."""
        changes = self.hvstack(
            'publish', str(self.path), '--include-candidates', *options
        )
        return {(change['Action'], change['Field']) for change in changes}

    def refused(self, *options: str) -> str:
        """Return why the catalogue is not published."""
        error = self.assertRaises(errors.CommandError, self.publish, *options)
        self.assertNotIn('Traceback', str(error))
        return str(error)

    def catalogue(self) -> dict[str, Any]:
        """Return the catalogue as plain data."""
        return dict(yaml.safe_load(self.path.read_text()))

    def show_flavor(self, name: str) -> dict[str, Any]:
        """Return a flavor as the openstack command shows it."""
        done = processutils.run(
            [OPENSTACK, 'flavor', 'show', name, '-f', 'json']
        )
        return dict(json.loads(done.stdout))

    def test_converges(self) -> None:
        expected = self.catalogue()['flavors'][0]
        name = expected['name']
        self.assertIn('candidate', self.not_earned())
        self.assertIn(('create', 'flavor'), self.publish('--dry-run'))
        self.assertEqual([], self.hvstack('list'))
        self.publish('--project', 'tenant')
        output = self.show_flavor(name)
        self.assertEqual(expected['ram'], output['ram'])
        self.assertFalse(output['os-flavor-access:is_public'])
        self.assertEqual(1, len(output['access_project_ids']))
        specs = output['properties']
        self.assertIn('host=lab-worker ', specs['hvstack:flavor'])
        self.assertEqual(
            expected['extra_specs'],
            {k: v for k, v in specs.items() if not k.startswith('hvstack:')},
        )
        self.assertEqual(set(), self.publish('--project', 'tenant'))

        flavor = nova_flavors.list_flavors(self.cloud)[name]
        self.cloud.compute.create_flavor_extra_specs(
            flavor, {'hw:watchdog_action': 'reset'}
        )
        self.cloud.compute.delete_flavor_extra_specs_property(
            flavor, 'quota:cpu_shares'
        )
        # Nova refuses extra specs in the request that sets the description.
        self.cloud.compute.update_flavor(flavor.id, description='old')
        self.assertEqual(
            {
                ('remove', 'hw:watchdog_action'),
                ('add', 'quota:cpu_shares'),
                ('change', 'description'),
            },
            self.publish(),
        )
        self.assertEqual(specs, self.show_flavor(name)['properties'])
        rows = self.hvstack('list')
        self.assertEqual(
            [flavor['name'] for flavor in self.catalogue()['flavors']],
            [row['Name'] for row in rows],
        )
        exported = processutils.run(
            [HVSTACK, 'flavor', 'export', '--host', 'lab-worker']
        )
        self.path.write_text(exported.stdout)
        processutils.run([HVSTACK, 'flavor', 'lint', str(self.path)])
        self.assertEqual(set(), self.publish())

    def not_earned(self) -> str:
        """Return why candidates are refused."""
        error = self.assertRaises(
            errors.CommandError, self.hvstack, 'publish', str(self.path)
        )
        return str(error)

    def test_changed_size_of_a_flavor_in_use(self) -> None:
        self.publish()
        data = self.catalogue()
        old = data['flavors'][-1]
        flavor = nova_flavors.list_flavors(self.cloud)[old['name']]
        server = self.start(flavor)
        self.active(server)
        data['flavors'][-1] = {
            **old,
            'ram': old['ram'] - 512,
            'name': f'{old["name"]}-smaller',
        }
        self.path.write_text(yaml.safe_dump(data))
        self.assertIn(('retire', 'flavor'), self.publish())
        retired = self.show_flavor(old['name'])
        label = retired['properties']['hvstack:flavor']
        self.assertIn('status=retired', label)
        self.assertEqual(set(), self.publish())
        self.delete(server)
        self.assertEqual({('delete', 'flavor')}, self.publish())

    def test_flavor_of_another_owner(self) -> None:
        """It was changed, and deleted when the catalogue left it out."""
        data = self.catalogue()
        entry = data['flavors'][0]
        sizes = ('name', 'vcpus', 'ram', 'disk', 'ephemeral')
        flavor = self.cloud.compute.create_flavor(
            is_public=False, **{name: entry[name] for name in sizes}
        )
        self.addCleanup(self.cloud.compute.delete_flavor, flavor)
        before = self.show_flavor(entry['name'])
        self.assertIn('that hvstack did not publish', self.refused())
        data['flavors'] = data['flavors'][1:]
        self.path.write_text(yaml.safe_dump(data))
        self.publish()
        self.assertEqual(before, self.show_flavor(entry['name']))

    def test_misspelt_spec(self) -> None:
        data = self.catalogue()
        specs = data['flavors'][0]['extra_specs']
        specs['hw:cpu_polcy'] = 'dedicated'
        self.path.write_text(yaml.safe_dump(data))
        self.assertIn('hw:cpu_policy', self.refused())
        message = self.refused('--no-lint')
        self.assertIn('hw:cpu_polcy', message)
        self.assertIn('400', message)
        names = set(nova_flavors.list_flavors(self.cloud))
        self.assertNotIn(data['flavors'][0]['name'], names)

    def test_member_may_not(self) -> None:
        self.useFixture(
            fixtures.EnvironmentVariable('OS_CLOUD', 'hvstack-lab-member')
        )
        self.assertIn('role admin', self.refused())
