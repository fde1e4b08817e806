# SPDX-License-Identifier: Apache-2.0
"""What is refused before any cloud is asked."""

import json
from pathlib import Path

import fixtures
import testtools
import yaml

from hvstack import host_profiles
from hvstack.cloud import catalogue_publisher
from hvstack.model import catalogue
from hvstack.model.configuration import parse
from tests.unit.cli.runner import run_command
from tests.unit.cli.test_cluster import ClusterTest, flavor
from tests.unit.cloud import fake


class RefusalTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.path = directory / 'x.yaml'
        self.data = catalogue.build_catalogue(
            host_profiles.load('vsan'), [parse('i4')]
        )
        # Whoever asks a cloud all the same does not find one.
        for name in ('OS_CLOUD', 'OS_AUTH_URL'):
            self.useFixture(fixtures.EnvironmentVariable(name))

    def call(self, command: str, *args: str) -> tuple[int, str]:
        self.path.write_text(yaml.safe_dump(self.data))
        status, _, err = run_command('flavor', command, str(self.path), *args)
        self.assertEqual(1, err.count('\n'), err)
        return status, err

    def test_candidate(self) -> None:
        for command in ('publish', 'diff'):
            status, err = self.call(command)
            self.assertEqual(2, status)
            self.assertIn('--include-candidates', err)

    def test_host_profile_of_another_catalogue(self) -> None:
        for command in ('publish', 'diff'):
            status, err = self.call(command, '--host', 'vsphere6')
            self.assertEqual(2, status)
            self.assertIn("'vsan'", err)
            self.assertIn("'vsphere6'", err)
            _, err = self.call(command, '--host', 'vsan')
            self.assertIn('--include-candidates', err)

    def test_unknown_flavor(self) -> None:
        status, err = self.call('publish', 'm1.tiny')
        self.assertEqual(2, status)
        self.assertIn("'m1.tiny'", err)

    def test_lint_comes_first(self) -> None:
        specs = self.data['flavors'][0]['extra_specs']
        specs['hw:cpu_polcy'] = 'dedicated'
        status, err = self.call('publish', '--include-candidates')
        self.assertEqual(2, status)
        self.assertIn('hw:cpu_policy', err)

    def test_approved_without_its_records(self) -> None:
        first = self.data['flavors'][0]
        first['status'] = 'approved'
        first['evidence'] = {
            'percent': 95.0,
            'low': 92.0,
            'high': 98.0,
            'runs': 2,
            'size_bytes': 1000,
            'backend': 'kvm',
            'date': '2026-11-21',
            'releases': {'nova': 'x', 'hadoop': 'x', 'hvstack': 'x'},
            'configuration': first['configuration'],
            'host': 'vsan',
            'sweep': 's1',
            'digest': 'd' * 64,
        }
        records = str(self.path.parent / 'records')
        status, err = self.call('publish', first['name'], '--records', records)
        self.assertEqual(2, status)
        self.assertIn("'s1'", err)


class ListTest(ClusterTest):
    """What an administrator and a member see of published flavors."""

    def rows(self) -> dict[str, dict[str, str]]:
        status, out, err = run_command(
            *('flavor', 'list', '-f', 'json', '--os-cloud', 'test')
        )
        self.assertEqual(0, status, err)
        return {row['Name']: row for row in json.loads(out)}

    def test_in_use(self) -> None:
        flavor_id = catalogue_publisher.flavor_id('vsan', 'f')
        labels = {'hvstack:flavor': 'host=vsan'}
        self.cloud.http.get(
            f'{fake.NOVA}/flavors/detail',
            json={'flavors': [{**flavor('f', **labels), 'id': flavor_id}]},
        )
        servers = f'{fake.NOVA}/servers'
        self.cloud.http.get(servers, json={'servers': [{'id': 's'}]})
        self.assertEqual('yes', self.rows()['f']['In use'])
        self.cloud.http.get(servers, json={'servers': []})
        self.assertEqual('no', self.rows()['f']['In use'])
        self.cloud.http.get(servers, status_code=403)
        self.assertEqual('unknown', self.rows()['f']['In use'])


class ExportTest(ClusterTest):
    """Catalogues of the flavors that a cloud has."""

    def test_retired_flavor(self) -> None:
        """Its catalogue would publish it again."""
        flavors = []
        for name, state in (('f', 'approved'), ('old', 'retired')):
            label = f'host=vsan role=worker configuration=i4 status={state}'
            flavor_id = catalogue_publisher.flavor_id('vsan', name)
            nova_flavor = flavor(name, **{'hvstack:flavor': label})
            flavors.append({**nova_flavor, 'id': flavor_id})
        self.cloud.http.get(
            f'{fake.NOVA}/flavors/detail', json={'flavors': flavors}
        )
        args = ('flavor', 'export', '--host', 'vsan', '--os-cloud', 'test')
        status, out, err = run_command(*args)
        self.assertEqual(0, status, err)
        self.assertEqual(
            [('f', 'candidate')],
            [
                (entry['name'], entry['status'])
                for entry in yaml.safe_load(out)['flavors']
            ],
        )
        flavors.pop(0)
        status, _, err = run_command(*args)
        self.assertEqual(2, status)
        self.assertIn("'vsan'", err)
