# SPDX-License-Identifier: Apache-2.0
"""``hvstack accept --first-run`` plans, refuses, and undoes its changes."""

import io
import json
import re
from contextlib import redirect_stderr
from pathlib import Path

import fixtures
import testtools

from hvstack.accept.first_run_items import ITEMS
from hvstack.cli.app import main
from hvstack.cloud import journal
from tests.unit.cli.runner import run_command
from tests.unit.cloud import fake
from tests.unit.cloud.test_quotas import limits


class FirstRunTest(testtools.TestCase):
    """Hosts of the profile vsphere6, and a Heat that rejects stacks."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(fake.CloudsFile('test'))
        for name, value in (
            ('OS_CLOUD__HOST_PROFILE', 'vsphere6'),
            ('OS_CLOUD__BACKEND', 'kvm'),
        ):
            self.useFixture(fixtures.EnvironmentVariable(name, value))
        for name in (
            *('paths.STATE', 'cluster.acquired_hosts.ACQUIRED_HOSTS_DIR'),
            'cloud.keypairs.DIRECTORY',
        ):
            self.useFixture(
                fixtures.MonkeyPatch(f'hvstack.{name}', self.directory / name)
            )
        self.cloud = self.useFixture(
            fake.FakeCloud(
                services={'image': fake.GLANCE, 'network': fake.NEUTRON},
                roles=('admin',),
            )
        )
        self.cloud.resources()
        self.cloud.hosts(2)
        self.serve_nova()
        http = self.cloud.http
        http.get(re.compile(f'{fake.HEAT}/stacks/.'), status_code=404)
        http.get(f'{fake.HEAT}/stacks', json={'stacks': []})
        self.stack_creations = http.post(
            f'{fake.HEAT}/stacks',
            status_code=400,
            json={'error': {'message': 'no such image'}},
        )

    def serve_nova(self) -> None:
        http, nova = self.cloud.http, re.escape(fake.NOVA)
        http.get(f'{fake.NOVA}/limits', json=limits({}))
        self.flavor_deletions = fake.take_flavors(http, 'PCPU')
        fake.take_key_pairs(http)
        http.delete(re.compile(f'{nova}/os-keypairs/'), text='')

    def run_main(self, *args: str) -> tuple[int, str, str]:
        return run_command(
            *('accept', '--first-run', '--os-cloud', 'test', *args),
            *('--workspace', str(self.directory / 'workspace')),
        )

    def list_changes(self) -> set[str]:
        """Return the requests that change the cloud."""
        return {
            f'{request.method} {request.url}'
            for request in self.cloud.http.request_history
            if request.method != 'GET' and 'keystone' not in request.url
        }

    def test_dry_run(self) -> None:
        status, out, err = self.run_main('--dry-run', '-f', 'json')
        self.assertEqual(0, status, err)
        rows = json.loads(out)
        self.assertEqual(
            [item.id for item in ITEMS], [row['Item'] for row in rows]
        )
        self.assertRegex(err, r'stack hvaccept-[0-9a-f]{10}-first-run,')
        self.assertIn('i2-c1-m1-local-dedicated-unpinned', err)
        self.assertIn('with 2 workers and a controller', err)
        self.assertEqual(set(), self.list_changes())

    def test_workers(self) -> None:
        status, _, err = self.run_main('--dry-run', '--workers', '3')
        self.assertEqual(0, status, err)
        self.assertIn('with 3 workers', err)

    def test_single_host(self) -> None:
        """One slot of the host is that of the controller."""
        self.cloud.hosts(1)
        status, _, err = self.run_main('--dry-run')
        self.assertEqual(0, status, err)
        self.assertIn('with 1 worker and', err)

    def test_containers(self) -> None:
        hypervisors = [
            {
                'id': 'h0',
                'hypervisor_hostname': 'h0',
                'hypervisor_type': 'LXC',
                'hypervisor_version': 1,
                'state': 'up',
                'status': 'enabled',
            }
        ]
        self.cloud.http.get(
            f'{fake.NOVA}/os-hypervisors/detail',
            json={'hypervisors': hypervisors},
        )
        status, _, err = self.run_main('--dry-run')
        self.assertEqual(0, status, err)
        self.assertIn('configuration i2-c1-m1-local-shared-unpinned', err)
        status, _, err = self.run_main(
            '--dry-run', '--configuration', 'i2-dedicated'
        )
        self.assertEqual(2, status, err)

    def test_cluster_that_cannot_be_created(self) -> None:
        status, out, err = self.run_main('-f', 'json')
        self.assertEqual(1, status, err)
        rows = {row['Item']: row for row in json.loads(out)}
        self.assertEqual(len(ITEMS), len(rows))
        self.assertEqual('did not hold', rows['cluster-ready']['Verdict'])
        self.assertIn('no such image', rows['cluster-ready']['Observed'])
        self.assertEqual('held', rows['cluster-deleted']['Verdict'])
        self.assertEqual(
            {'not checked'},
            {
                row['Verdict']
                for item, row in rows.items()
                if not item.startswith('cluster-')
            },
        )
        self.assertIn('cluster-ready', rows['guest-sort']['Observed'])
        self.assertIn('--host-access none', rows['host-kvm']['Observed'])
        self.assertEqual(
            (1, 2),
            (
                self.stack_creations.call_count,
                self.flavor_deletions.call_count,
            ),
        )
        self.assertEqual([], journal.entries())
        report = self.directory / 'workspace' / 'first-run' / 'report.json'
        self.assertEqual('failed', json.loads(report.read_text())['verdict'])
        self.assertEqual(1, self.run_main('--allow-unchecked')[0])

    def test_deletion_that_fails(self) -> None:
        self.cloud.http.delete(
            re.compile(f'{re.escape(fake.NOVA)}/flavors/'), status_code=403
        )
        status, out, _ = self.run_main('-f', 'json')
        self.assertEqual(1, status)
        rows = {row['Item']: row for row in json.loads(out)}
        self.assertEqual('did not hold', rows['cluster-deleted']['Verdict'])
        self.assertIn('Cannot undo', rows['cluster-deleted']['Observed'])

    def test_interruption(self) -> None:
        """Ctrl-C while Heat is asked: what exists is deleted."""

        def interrupt(*_args: object) -> None:
            raise KeyboardInterrupt

        # Heat may list the stack only later.
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cloud.stacks.SILENCE', 0.001)
        )
        self.cloud.http.post(f'{fake.HEAT}/stacks', text=interrupt)
        status, out, _ = self.run_main()
        self.assertNotEqual(0, status)
        self.assertEqual('', out)
        self.assertEqual(2, self.flavor_deletions.call_count)
        self.assertEqual([], journal.entries())

    def test_refusals(self) -> None:
        for args, part in (
            (('--smoke',), '--smoke'),
            (('--stack', 'mine'), '--stack'),
            (('--cleanup',), '--cleanup'),
            (('--catalogue', 'vsphere6'), '--catalogue'),
            (('--workers', '0'), '--workers 0'),
        ):
            status, out, err = self.run_main(*args)
            self.assertEqual((2, ''), (status, out), err)
            self.assertIn(part, err)
        with redirect_stderr(err_stream := io.StringIO()):
            self.assertEqual(
                2, main(('accept', '--os-cloud', 'test', '--workers', '2'))
            )
        self.assertIn('--first-run only', err_stream.getvalue())
