# SPDX-License-Identifier: Apache-2.0
"""``hvstack sweep run|resume|show`` on a cloud at the HTTP boundary."""

import io
import json
import os
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import fixtures
import testtools
import yaml

from hvstack import profiles
from hvstack.cli.app import main
from hvstack.progress import Progress
from hvstack.results.record import BARE_METAL
from hvstack.sweep import state
from tests.unit.cloud import fake
from tests.unit.results import factory

SIZE = 1_000_000
ENTRY = {
    'auth': {
        'auth_url': fake.KEYSTONE,
        'username': 'admin',
        'password': 'secret-of-test',
        'project_name': 'admin',
        'user_domain_name': 'Default',
        'project_domain_name': 'Default',
    },
    'region_name': 'RegionOne',
}


class SweepTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        folder = Path(self.useFixture(fixtures.TempDir()).path)
        clouds = folder / 'clouds.yaml'
        entries = {'test': ENTRY, 'hvstack-lab': ENTRY}
        clouds.write_text(yaml.safe_dump({'clouds': entries}))
        self.useFixture(
            fixtures.EnvironmentVariable('OS_CLIENT_CONFIG_FILE', str(clouds))
        )
        for name, value in (
            ('sweep.state.SWEEPS_DIR', folder / 'sweeps'),
            ('sweep.state.RECORDS_DIR', folder / 'records'),
            ('cluster.hosts.TAKEN', folder / 'taken'),
            # Rally's own, and what it runs.
            ('sweep.rallyenv.ensure_environment', self.ensured),
            ('cloud.credentials.check', lambda *_: None),
            ('sweep.rallytask.run_task', self.rally),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.{name}', value))
        (folder / 'records').mkdir()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.cloud.hosts(2)
        self.cloud.http.get(f'{fake.CINDER}/types', json={'volume_types': []})
        self.ran: list[str] = []
        self.asked: list[str] = []
        self.broken = ''

    def ensured(self, os_cloud: str) -> None:
        self.asked.append(os_cloud)

    def rally(
        self, _: str, given: Any, sweep: str, __: Progress, options: Any
    ) -> None:
        """Leave a record for each run that is asked for."""
        self.options = options
        for one in given['workloads']:
            name = one['configuration']
            self.ran.append(name)
            bad = self.broken and name.startswith(self.broken)
            for number, size in enumerate(one['sizes']):
                made = factory.run(
                    *(name, one['first_index'] + number, 60),
                    sweep=sweep,
                    size=size,
                    reason='its cluster died' if bad else '',
                )
                factory.save(made, state.RECORDS_DIR)

    def call(self, *words: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = main(['sweep', *words])
        return status, out.getvalue(), err.getvalue()

    def start(self, *words: str) -> tuple[int, str, str]:
        return self.call(
            *('run', '--host', 'vsphere6', '--backend', 'kvm'),
            *('--os-cloud', 'test', '--size', str(SIZE), '--runs', '1'),
            *words,
        )

    def test_trials_on_the_lab_have_its_image(self) -> None:
        """A lab that has just come up has none in Glance."""
        done: list[str] = []
        for name, value in (
            ('cli.image.ensure', lambda _: done.append('image')),
            ('sweep.trials.run_trials', lambda *_: done.append('trials')),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.{name}', value))
        for cloud in ('hvstack-lab', 'test'):
            status, _, err = self.call('trials', 'run', '--os-cloud', cloud)
            self.assertEqual(0, status, err)
        self.assertEqual(['hvstack-lab', 'test'], self.asked)
        self.assertEqual(['image', 'trials', 'trials'], done)

    def test_run_skips_what_the_cloud_lacks(self) -> None:
        status, out, err = self.start('--values', 'storage=local,ceph')
        self.assertEqual(0, status, err)
        self.assertIn('this cloud lacks ceph: there is no volume type', err)
        self.assertIn('skipped: i1-ceph: this cloud has no Ceph', err)
        self.assertEqual(
            {BARE_METAL, 'i1-c1-m1-local-shared-unpinned'}, set(self.ran)
        )
        self.assertEqual(['test'], self.asked)
        self.assertIn('100.0', out)
        self.assertEqual(
            {'host_profile': 'vsphere6', 'backend': 'kvm'},
            self.options['cloud'],
        )

    def test_a_profile_of_the_users_is_rallys_as_well(self) -> None:
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'mine.yaml'
        mapping = profiles.load('vsphere6').to_mapping()
        path.write_text(yaml.safe_dump({**mapping, 'name': 'mine'}))
        before = Path.cwd()
        self.addCleanup(os.chdir, before)
        os.chdir(path.parent)
        status, _, err = self.start(
            *('--values', 'instances=1', '--host', 'mine.yaml')
        )
        self.assertEqual(0, status, err)
        self.assertEqual(str(path), self.options['cloud']['host_profile'])

    def test_a_configuration_that_fails_is_status_6(self) -> None:
        self.broken = 'i2-'
        status, _, err = self.start('--values', 'instances=1,2')
        self.assertEqual(6, status)
        self.assertIn('1 configurations failed (i2)', err.splitlines()[-1])

    def test_resume_goes_on_and_show_says_where(self) -> None:
        self.start('--values', 'instances=1,2')
        (sweep,) = state.list_sweeps()
        for path in state.RECORDS_DIR.glob('*i2-*.json'):
            path.unlink()
        self.ran.clear()
        status, out, err = self.call('show', sweep.id, '-f', 'json')
        self.assertEqual(0, status, err)
        shown = json.loads(out)
        self.assertEqual(
            ('unfinished', 'i1, i2'), (shown['State'], shown['Configurations'])
        )
        status, _, err = self.call('resume', sweep.id, '--os-cloud', 'test')
        self.assertEqual(0, status, err)
        self.assertIn('i2-c1-m1-local-shared-unpinned', self.ran)
        self.assertNotIn('i1-c1-m1-local-shared-unpinned', self.ran)
        _, out, _ = self.call('show', sweep.id, '-f', 'json')
        self.assertEqual('finished', json.loads(out)['State'])

    def test_mistakes(self) -> None:
        for words, said in (
            (('resume',), 'there is no sweep that is unfinished'),
            (('show', 'mine'), "there is no sweep 'mine'"),
        ):
            status, _, err = self.call(*words)
            self.assertEqual(2, status)
            self.assertIn(said, err)
        for words, said in (
            (('--values', 'cpus=1'), "--values 'cpus=1'"),
            (('--values', 'instances=x'), "instances is 'x'"),
            (
                ('--values', 'instances=1', '--baseline', 'mine'),
                "baseline 'mine'",
            ),
            (
                ('--values', 'instances=1', '--allow', 'cpas'),
                "--allow 'cpas'",
            ),
        ):
            status, _, err = self.start(*words)
            self.assertEqual(2, status, said)
            self.assertIn(said, err)
        self.assertEqual([], self.ran)
        # Nothing was begun.
        self.assertEqual([], state.list_sweeps())

    def test_the_clouds_variable_is_taken(self) -> None:
        self.start('--values', 'instances=1,2')
        for path in state.RECORDS_DIR.glob('*i2-*.json'):
            path.unlink()
        self.useFixture(fixtures.EnvironmentVariable('OS_CLOUD', 'test'))
        status, _, err = self.call('resume', state.list_sweeps()[-1].id)
        self.assertEqual(0, status, err)
        self.assertEqual(['test', 'test'], self.asked)
