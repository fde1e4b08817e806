# SPDX-License-Identifier: Apache-2.0
"""Sweeps with each kind of credential that Keystone lets create stacks.

The lab is up with three lxc hosts. A baseline of this size is measured once.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import fixtures
import testtools
import yaml
from openstack.connection import Connection

from hvstack import paths, processutils
from hvstack.cloud import (
    allocation_ratios,
    connection,
    journal,
    placement,
    undo,
)
from hvstack.lab import control_plane, images, services, supervisord
from hvstack.results import record
from hvstack.sweep import recovery, sweep_store

HVSTACK = str(Path(sys.executable).with_name('hvstack'))
SIZE = '20MB'
SWEEP = (
    *('sweep', 'run', '--host', 'lab-worker', '--backend', 'lxc'),
    *('--values', 'instances=1', '--size', SIZE, '--baseline', 'auto'),
    *('--strategy', 'one-at-a-time'),
)
KEYSTONE = paths.STATE / 'lab/etc/keystone/keystone.conf'
#: Insecure, and deprecated by Keystone.
TRUST_OPTION = 'allow_insecure_application_credential_trust_escalation'


class CredentialsTest(testtools.TestCase):
    """The administrator's credential of the lab, in other forms."""

    def setUp(self) -> None:
        super().setUp()
        if not os.environ.get('HVSTACK_LAB'):
            self.skipTest('needs a lab that is up (make test-long)')
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.cloud = connection.connect('hvstack-lab')
        self.addCleanup(self.cloud.close)
        recovery.recover([self.cloud])
        self.entry = yaml.safe_load(
            (paths.STATE / 'lab/clouds.yaml').read_text()
        )['clouds']['hvstack-lab']
        self.auth = self.entry['auth']
        images.upload(self.cloud, images.build('hadoop'), 'lxc')
        self.baseline()
        self.before = self.state(self.cloud)

    def baseline(self) -> None:
        """Measure bare metal, if that was not done yet."""
        records, _ = record.load_usable(sweep_store.RECORDS_DIR)
        if any(
            run_record.kind == 'baseline'
            and run_record.valid
            and run_record.size_bytes == 20_000_000
            for run_record in records
        ):
            return
        processutils.run(
            [HVSTACK, 'baseline', 'run', '--size', SIZE, '--runs', '2'],
            timeout=1800,
        )

    def state(self, conn: Connection) -> dict[str, Any]:
        """Return the resources of the cloud that hvstack changes."""
        providers = placement.providers(conn)
        return {
            'flavors': sorted(
                flavor.name for flavor in conn.compute.flavors(is_public=None)
            ),
            'stacks': [item.name for item in conn.orchestration.stacks()],
            'ratios': allocation_ratios.current(conn, providers),
            'journal': journal.entries(),
        }

    def write_clouds(self, **clouds: dict[str, Any]) -> None:
        """Write the user's own clouds.yaml."""
        path = self.directory / 'clouds.yaml'
        path.write_text(yaml.safe_dump({'clouds': clouds}))
        path.chmod(0o600)

    def env(self, **variables: str) -> dict[str, str]:
        """Return an environment with the user's file and no cloud."""
        return {
            'PATH': os.environ['PATH'],
            'HOME': str(self.directory),
            'OS_CLIENT_CONFIG_FILE': str(self.directory / 'clouds.yaml'),
            'HVSTACK_STATE_DIR': str(paths.STATE),
            'HVSTACK_ETC_DIR': str(paths.ETC),
            **variables,
        }

    def hvstack(
        self, *args: str, env: dict[str, str] | None = None
    ) -> 'subprocess.CompletedProcess[str]':
        """Run a command with the user's environment."""
        return subprocess.run(
            [HVSTACK, *args],
            env=env or self.env(),
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )

    def check_sweep(
        self, *args: str, env: dict[str, str] | None = None
    ) -> None:
        """Run a sweep of one configuration, which must get a percentage."""
        result = self.hvstack(*SWEEP, '--runs', '1', *args, env=env)
        self.assertEqual(0, result.returncode, result.stderr[-3000:])
        # The table of percentages comes first.
        row = next(
            line
            for line in result.stdout.splitlines()
            if line.split()[:1] == ['i1']
        )
        print(f'{self.id()}: {row}', file=sys.stderr)
        self.assertEqual(self.before, self.state(self.cloud))
        self.assertNotIn(self.auth['password'], result.stderr)

    def check_refusal(self, *args: str) -> str:
        """Start a sweep that is refused before any change; return why."""
        result = self.hvstack(*SWEEP, *args)
        self.assertNotEqual(0, result.returncode)
        self.assertEqual(self.before, self.state(self.cloud))
        line = result.stderr.strip().splitlines()[-1]
        print(f'{self.id()}: {line}', file=sys.stderr)
        return line

    def test_password_beside_another_cloud(self) -> None:
        """The other cloud of clouds.yaml is never used."""
        elsewhere = {**self.auth, 'auth_url': 'http://127.0.0.1:9/v3'}
        self.write_clouds(
            elsewhere={**self.entry, 'auth': elsewhere}, mine=self.entry
        )
        self.check_sweep('--os-cloud', 'mine')

    def test_openrc_alone(self) -> None:
        """The OS_* variables are the cloud, and clouds.yaml has others."""
        elsewhere = {**self.auth, 'auth_url': 'http://127.0.0.1:9/v3'}
        self.write_clouds(elsewhere={**self.entry, 'auth': elsewhere})
        self.check_sweep(
            env=self.env(
                OS_REGION_NAME=self.entry['region_name'],
                OS_IDENTITY_API_VERSION='3',
                **{
                    f'OS_{name.upper()}': value
                    for name, value in self.auth.items()
                },
            )
        )

    def token_entry(self) -> dict[str, Any]:
        """Return an entry with a new token."""
        conn = connection.connect('hvstack-lab')
        self.addCleanup(conn.close)
        return {
            **self.entry,
            'auth_type': 'v3token',
            'auth': {
                'auth_url': self.auth['auth_url'],
                'token': conn.session.get_token(),
                'project_name': self.auth['project_name'],
                'project_domain_name': self.auth['project_domain_name'],
            },
        }

    def test_token(self) -> None:
        self.write_clouds(mine=self.token_entry())
        self.check_sweep('--os-cloud', 'mine')

    def set_keystone(self, section: str, option: str) -> None:
        """Set an option of Keystone until the test ends."""
        before = KEYSTONE.read_text()

        def write(text: str) -> None:
            KEYSTONE.write_text(text)
            supervisord.stop('keystone')
            supervisord.start('keystone')
            [service] = [
                item
                for item in services.everything()
                if item.name == 'keystone'
            ]
            control_plane.wait_for_api(service)

        self.addCleanup(write, before)
        lines = [
            line
            for line in before.splitlines()
            if line.split('=')[0].strip() != option.split('=')[0].strip()
        ]
        if f'[{section}]' not in lines:
            lines.append(f'[{section}]')
        lines.insert(lines.index(f'[{section}]') + 1, option)
        write('\n'.join([*lines, '']))

    def test_token_that_expires(self) -> None:
        """A token must not expire before the planned sweep ends."""
        self.set_keystone('token', 'expiration = 3600')
        self.write_clouds(mine=self.token_entry())
        line = self.check_refusal('--os-cloud', 'mine', '--runs', '60')
        self.assertIn('expires', line)

    def application_credential(self, **arguments: Any) -> dict[str, Any]:
        """Return an entry with a new application credential."""
        identity = self.cloud.identity
        user = self.cloud.current_user_id
        credential = identity.create_application_credential(
            user, name=self.getUniqueString('hvstack'), **arguments
        )
        self.addCleanup(
            identity.delete_application_credential, user, credential.id
        )
        return {
            **self.entry,
            'auth_type': 'v3applicationcredential',
            'auth': {
                'auth_url': self.auth['auth_url'],
                'application_credential_id': credential.id,
                'application_credential_secret': credential.secret,
            },
        }

    def test_application_credential(self) -> None:
        """It publishes flavors, sets ratios and creates no stack."""
        self.write_clouds(mine=self.application_credential())
        cloud = ('--os-cloud', 'mine')
        doctor = self.hvstack('doctor', *cloud, '-f', 'json')
        self.assertTrue(json.loads(doctor.stdout), doctor.stderr)
        catalogue = self.directory / 'flavors.yaml'
        catalogue.write_text(
            self.hvstack(
                'flavor', 'catalogue', '--host', 'lab-worker', 'i1'
            ).stdout
        )
        names = [
            flavor['name']
            for flavor in yaml.safe_load(catalogue.read_text())['flavors']
        ]
        for command in (
            ('publish', str(catalogue), '--include-candidates', '--no-lint'),
            ('list',),
            ('retire', *names),
        ):
            result = self.hvstack('flavor', *command, *cloud)
            self.assertEqual(0, result.returncode, result.stderr)
        self.useFixture(
            fixtures.EnvironmentVariable(
                'OS_CLIENT_CONFIG_FILE', str(self.directory / 'clouds.yaml')
            )
        )
        conn = connection.connect('mine')
        self.addCleanup(conn.close)
        name, provider = sorted(placement.providers(conn).items())[-1]
        allocation_ratios.set_ratios(
            conn, {name: provider}, {'MEMORY_MB': 1.25}
        )
        undo.undo_own([conn])
        self.assertEqual(0, self.hvstack('report').returncode)
        line = self.check_refusal(*cloud, '--runs', '1')
        self.assertIn('application credential', line)

    def test_application_credential_with_trusts(self) -> None:
        """Keystone's insecure, deprecated option lets it create stacks."""
        self.set_keystone('security_compliance', f'{TRUST_OPTION} = true')
        self.write_clouds(mine=self.application_credential(unrestricted=True))
        self.check_sweep('--os-cloud', 'mine')
