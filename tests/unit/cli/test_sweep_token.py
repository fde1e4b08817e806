# SPDX-License-Identifier: Apache-2.0
"""A token must last until the largest cluster of a sweep may be ready."""

import contextlib
import datetime
import io
from contextlib import redirect_stderr
from dataclasses import replace
from pathlib import Path
from typing import Any

import fixtures
import requests
import yaml

from hvstack import conf, errors, host_profiles, paths
from hvstack.cli.app import main
from hvstack.cloud import connection, credentials
from hvstack.model.configuration import parse
from hvstack.model.target import BARE_METAL, BareMetal
from hvstack.rally_plugins import contexts, task_state
from hvstack.study import study_store
from hvstack.sweep import sweep_store, token_check
from hvstack.sweep.node_setup import NodeSetup
from tests.unit.cli.test_sweep import SIZE, SweepCase
from tests.unit.cloud import fake

CHECK = credentials.check
#: 32 hosts have 31 workers and a controller with i1, and 639 workers with
#: i20. Each node adds 7 s to 20 minutes.
SMALL_MINUTES, LARGE_MINUTES = 23.8, 94.7


class _Context(contexts.FlavorsContext):
    """The first context of a workload, without flavors."""

    FIRST = False

    def prepare(self, task: task_state.TaskState) -> None:
        """Prepare nothing."""


class TokenTest(SweepCase):
    def setUp(self) -> None:
        super().setUp()
        for name, value in (
            ('cloud.credentials.check', CHECK),
            ('sweep.trials.run_trials', lambda *_: None),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.{name}', value))
        self.cloud.hosts(32)

    def expire(self, minutes: float) -> None:
        """Have the token of the cloud expire in some minutes."""
        url = f'{fake.KEYSTONE}/auth/tokens'
        token = requests.post(url, timeout=10).json()
        end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(
            minutes=minutes
        )
        token['token']['expires_at'] = f'{end:%Y-%m-%dT%H:%M:%S.%fZ}'
        self.cloud.http.post(
            url, json=token, headers={'X-Subject-Token': 'token-of-test'}
        )

    def check_command(self, minutes: float, *args: str) -> None:
        """Call a command with a token that lasts, and with one that does not.

        :param minutes: minutes that the largest stack may need.
        """
        self.expire(minutes - 1)
        status, out, err = self.call(*args, '--os-cloud', 'token')
        self.assertEqual((2, ''), (status, out), err)
        self.assertIn('creating a stack may take until', err)
        self.assertEqual([], self.ran)
        self.expire(minutes + 1)
        status, _, err = self.call(*args, '--os-cloud', 'token')
        self.assertEqual(0, status, err)

    def test_a_sweep(self) -> None:
        run = ('run', '--host', 'vsphere6', '--backend', 'kvm')
        options = ('--size', str(SIZE), '--runs', '1')
        self.expire(LARGE_MINUTES - 1)
        command = (*run, *options, '--values', 'instances=1,20')
        status, _, err = self.call(*command, '--os-cloud', 'token')
        self.assertEqual(2, status)
        # Nothing was begun.
        self.assertEqual([], sweep_store.list_sweeps(), err)
        self.check_command(LARGE_MINUTES, *command)
        self.ran.clear()
        self.check_command(
            SMALL_MINUTES, *run, *options, '--values', 'instances=1'
        )

    def test_emulated_hosts(self) -> None:
        """They have six times as long; the option is the backend."""
        self.expire(6 * SMALL_MINUTES - 1)
        error = self.assertRaises(
            errors.InputError, self.check_token, 'i1', backend='qemu'
        )
        self.assertIn('creating a stack may take until', str(error))
        self.expire(6 * SMALL_MINUTES + 1)
        self.check_token('i1', backend='qemu')

    def test_hosts_with_the_trait_of_a_storage(self) -> None:
        """Two of them have local disks: three workers and a controller."""
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'x.yaml'
        profile = replace(
            host_profiles.load('vsphere6'), traits={'local': 'CUSTOM_L'}
        )
        paths.write_output(path, yaml.safe_dump(profile.to_mapping()))
        self.cloud.give_trait('CUSTOM_L', 'h0', 'h1')
        self.expire(20 + 7 * 4 / 60 + 0.1)
        self.check_token('i2', host=str(path))
        self.assertRaises(
            errors.InputError, self.check_token, 'i2-ceph', host=str(path)
        )

    def check_token(
        self,
        *labels: str,
        backend: str = 'kvm',
        host: str = 'vsphere6',
        **setup: Any,
    ) -> None:
        conn = connection.connect('token')
        token_check.check_token(
            *(conn, conn),
            [(BareMetal(), NodeSetup())]
            + [(parse(label), NodeSetup(**setup)) for label in labels],
            conf.load(()).cloud,
            *(host, backend),
        )

    def test_settings_of_the_nodes(self) -> None:
        """Two controllers, and compute workers, are nodes as well."""
        # 30 x 4 data workers, compute workers and two controllers: 242.
        self.expire(20 + 7 * 242 / 60 - 0.1)
        settings = {'deployment': 4, 'controllers': 'separate'}
        self.assertRaises(
            errors.InputError, self.check_token, 'i8', **settings
        )
        self.expire(20 + 7 * 242 / 60 + 0.1)
        self.check_token('i8', **settings)

    def test_what_has_no_stack(self) -> None:
        """Bare metal, and a configuration that the sweep skips."""
        self.expire(1)
        self.check_token()
        self.cloud.hosts(1)
        self.check_token('i1')

    def test_hosts_that_are_down(self) -> None:
        self.cloud.hosts(32, down=32)
        self.expire(1)
        self.check_token('i20')

    def test_a_password(self) -> None:
        """It gets new tokens, so that the hosts do not matter."""
        self.expire(1)
        conn = connection.connect('test')
        self.cloud.http.reset_mock()
        token_check.check_token(
            *(conn, conn, [(parse('i1'), NodeSetup())]),
            conf.load(()).cloud,
            *('vsphere6', None),
        )
        self.assertEqual([], self.cloud.http.request_history)

    def test_a_passcode(self) -> None:
        """Rally logs in again, when it is no longer valid."""
        user = {'username': 'u', 'user_domain_name': 'd', 'passcode': '123456'}
        auth = {'auth_url': fake.KEYSTONE, 'project_id': 'p1', **user}
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'clouds.yaml'
        entry = {'auth_type': 'v3totp', 'auth': auth}
        path.write_text(yaml.safe_dump({'clouds': {'passcode': entry}}))
        self.useFixture(
            fixtures.EnvironmentVariable('OS_CLIENT_CONFIG_FILE', str(path))
        )
        url = f'{fake.KEYSTONE}/auth/tokens'
        token = requests.post(url, timeout=10).json()
        answer = {'json': token, 'headers': {'X-Subject-Token': 'x'}}
        for command in (
            (
                *('run', '--host', 'vsphere6', '--backend', 'kvm'),
                *('--values', 'instances=1'),
            ),
            ('trials', 'run', '--size', str(SIZE)),
        ):
            # Keystone accepts a passcode once.
            self.cloud.http.post(url, [answer, {'status_code': 401}])
            status, _, err = self.call(*command, '--os-cloud', 'passcode')
            self.assertEqual((2, []), (status, self.cloud_names))
            self.assertIn("(cloud 'passcode'): its credential logs in", err)
        self.cloud.http.post(url, [answer])
        conn = connection.connect('passcode')
        with fixtures.MonkeyPatch(
            'hvstack.cloud.connection.connect', lambda **_: conn
        ):
            error = self.assertRaises(
                errors.InputError, self.start_rally, configuration='i1'
            )
        self.assertIn("'openstack token issue'", str(error))

    def test_resume(self) -> None:
        self.start('--values', 'instances=1,20')
        (sweep,) = sweep_store.list_sweeps()
        for path in sweep_store.RECORDS_DIR.glob('*i1-*.json'):
            path.unlink()
        self.ran.clear()
        self.check_command(LARGE_MINUTES, 'resume', sweep.id)

    def test_trials(self) -> None:
        self.useFixture(
            fixtures.EnvironmentVariable('OS_CLOUD__HOST_PROFILE', 'vsphere6')
        )
        trials = ('trials', 'run', '--b', 'i20', '--size', str(SIZE))
        self.check_command(LARGE_MINUTES, *trials)

    def test_rally(self) -> None:
        """The first workload of a process, or the shape of its sweep."""
        self.useFixture(
            fixtures.EnvironmentVariable('OS_CLOUD__HOST_PROFILE', 'vsphere6')
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cloud.credentials.is_token', lambda _: True
            )
        )
        shape = {
            'configurations': ['i1', 'i20'],
            'runs': 1,
            'size_bytes': SIZE,
        }
        for minutes, workload in (
            (SMALL_MINUTES, {'configuration': 'i1'}),
            (LARGE_MINUTES, {'configuration': 'i20'}),
            (LARGE_MINUTES, {'configuration': BARE_METAL, 'shape': shape}),
        ):
            self.expire(minutes - 1)
            error = self.assertRaises(
                errors.InputError, self.start_rally, **workload
            )
            self.assertIn('creating a stack may take until', str(error))
            self.expire(minutes + 1)
            self.start_rally(**workload)

    def start_rally(self, **workload: Any) -> None:
        """Set up the first context of a new Rally process."""
        context = _Context.__new__(_Context)
        context.config = {'sweep': 's', 'sizes': [SIZE], **workload}
        context.context = {'admin': {'credential': fake.CREDENTIAL}}
        with contextlib.ExitStack() as patches:
            for name, value in (
                ('rally_plugins.task_state._STATES', []),
                ('rally_plugins.task_state.atexit.register', lambda *_: None),
                (
                    'sweep.sweep_store.lock_measurements',
                    contextlib.nullcontext,
                ),
                ('cloud.lease.acquire', lambda *_: None),
            ):
                patches.enter_context(
                    fixtures.MonkeyPatch(f'hvstack.{name}', value)
                )
            context.setup()

    def test_a_study(self) -> None:
        """The settings of a variant count: compute workers."""
        path = self.useFixture(fixtures.TempDir()).join('study.yaml')
        variants = {'a': {'deployment': 4}, 'b': {'deployment': 3}}
        claim = {'text': 'x', 'variant': 'a', 'against': 'b', 'rule': 'faster'}
        paths.write_output(
            Path(path),
            yaml.safe_dump(
                {
                    'question': 'x?',
                    'base': {'configuration': 'i20'},
                    'variants': variants,
                    'claims': [claim],
                }
            ),
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.study.study_store.STUDIES_DIR',
                Path(path).with_name('studies'),
            )
        )
        command = ('study', 'run', path, '--host', 'vsphere6')
        # 31 x 20 workers, and the controller.
        minutes = 20 + 7 * 621 / 60
        for offset, word in ((-1, 'creating a stack'), (1, 'none of this')):
            # Nothing was started with a token that expires too early.
            self.assertEqual(([], []), study_store.list_started())
            self.expire(minutes + offset)
            with (
                fixtures.MonkeyPatch(
                    'hvstack.study.study_run.run_study', self.run_study
                ),
                redirect_stderr(io.StringIO()) as err,
            ):
                main([*command, '--os-cloud', 'token'])
            self.assertIn(word, err.getvalue())
        (study,) = study_store.list_started()[0]
        self.assertEqual('http://keystone.test', study.cloud.split()[0])

    def test_a_study_on_a_busy_cloud(self) -> None:
        """Another measurement has the lease of the cloud."""
        directory = Path(self.useFixture(fixtures.TempDir()).path)

        def refuse(*_: Any) -> None:
            raise errors.BusyError('none of this')

        for name, value in (
            ('study.study_store.STUDIES_DIR', directory / 'studies'),
            ('cloud.lease.held', refuse),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.{name}', value))
        with redirect_stderr(io.StringIO()) as err:
            command = ('study', 'run', 'vsphere6-replicas')
            main([*command, '--host', 'vsphere6', '--os-cloud', 'test'])
        self.assertIn('none of this', err.getvalue())
        self.assertEqual(([], []), study_store.list_started())

    def test_a_sweep_on_a_busy_cloud(self) -> None:
        """A refused sweep is not one that 'sweep resume' continues."""

        def refuse(*_: Any) -> None:
            raise errors.BusyError('none of this')

        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cloud.lease.held', refuse)
        )
        run = ('run', '--host', 'vsphere6', '--backend', 'kvm')
        options = ('--size', str(SIZE), '--runs', '1')
        _, _, err = self.call(
            *(*run, *options, '--values', 'instances=1', '--os-cloud', 'test')
        )
        self.assertIn('none of this', err)
        self.assertNotIn('] sweep sweep-', err)
        self.assertEqual([], sweep_store.list_sweeps())

    def test_a_study_counts_restored_hosts(self) -> None:
        """Hosts that a dead process took from Nova are back before."""
        requests_before: list[str] = []

        def recover(*_: Any) -> list[str]:
            requests_before.extend(
                request.url for request in self.cloud.http.request_history
            )
            raise errors.CloudError('none of this')

        self.useFixture(
            fixtures.MonkeyPatch('hvstack.sweep.recovery.recover', recover)
        )
        with redirect_stderr(io.StringIO()) as err:
            command = ('study', 'run', 'vsphere6-replicas')
            main([*command, '--host', 'vsphere6', '--os-cloud', 'test'])
        self.assertIn('none of this', err.getvalue())
        self.assertEqual(
            [], [url for url in requests_before if 'hypervisors' in url]
        )

    def run_study(self, *_: Any) -> None:
        raise errors.RunFailedError('none of this')
