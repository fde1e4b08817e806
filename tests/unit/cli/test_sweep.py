# SPDX-License-Identifier: Apache-2.0
"""``hvstack sweep run|resume|show`` on a cloud at the HTTP boundary."""

import json
import os
from pathlib import Path
from typing import Any

import fixtures
import testtools
import yaml

from hvstack import errors, host_profiles
from hvstack.model.target import BARE_METAL
from hvstack.progress import Progress
from hvstack.study import definition, study_store
from hvstack.sweep import sweep_store, trials
from tests.unit.cli.runner import run_command
from tests.unit.cloud import fake
from tests.unit.results import factory
from tests.unit.sweep.directories import BaselineHosts

SIZE = 1_000_000


class SweepCase(testtools.TestCase):
    """A cloud with hosts, and a Rally that leaves records."""

    def setUp(self) -> None:
        super().setUp()
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(
            fake.CloudsFile('test', 'hvstack-lab', tokens=('token',))
        )
        for name, value in (
            ('sweep.sweep_store.SWEEPS_DIR', directory / 'sweeps'),
            ('sweep.sweep_store.RECORDS_DIR', directory / 'records'),
            ('sweep.trials.TRIALS_DIR', directory / 'trials'),
            ('results.timeline.TIMELINES_DIR', directory / 'timelines'),
            ('cluster.acquired_hosts.ACQUIRED_HOSTS_DIR', directory / 'taken'),
            # Rally's own, and what it runs.
            ('sweep.rallyenv.ensure_environment', self.ensured),
            ('cloud.credentials.check', lambda *_: None),
            ('sweep.rallytask.run_task', self.rally),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.{name}', value))
        (directory / 'records').mkdir()
        self.cloud = self.useFixture(
            fake.FakeCloud(
                services={'image': fake.GLANCE, 'network': fake.NEUTRON}
            )
        )
        self.cloud.resources()
        self.cloud.hosts(2)
        self.baseline_hosts = self.useFixture(BaselineHosts())
        self.cloud.http.get(f'{fake.CINDER}/types', json={'volume_types': []})
        self.ran: list[str] = []
        self.cloud_names: list[str] = []
        self.broken = ''

    def ensured(self, os_cloud: str) -> None:
        self.cloud_names.append(os_cloud)

    def rally(
        self, _: str, task_args: Any, sweep: str, __: Progress, options: Any
    ) -> None:
        """Leave a record for each run that is asked for."""
        self.options = options
        for workload in task_args['workloads']:
            name = workload['configuration']
            self.ran.append(name)
            bad = self.broken and name.startswith(self.broken)
            for offset, size in enumerate(workload['sizes']):
                record = factory.run(
                    *(name, workload['first_index'] + offset, 60),
                    sweep=sweep,
                    size=size,
                    reason='its cluster died' if bad else '',
                )
                factory.save(record, sweep_store.RECORDS_DIR)

    def call(self, *args: str) -> tuple[int, str, str]:
        return run_command('sweep', *args)

    def start(self, *args: str) -> tuple[int, str, str]:
        return self.call(
            *('run', '--host', 'vsphere6', '--backend', 'kvm'),
            *('--os-cloud', 'test', '--size', str(SIZE), '--runs', '1'),
            *args,
        )


class SweepTest(SweepCase):
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
        self.assertEqual(['hvstack-lab', 'test'], self.cloud_names)
        self.assertEqual(['image', 'trials', 'trials'], done)

    def test_list_of_sweeps_with_and_without_a_marker(self) -> None:
        self.start('--values', 'instances=1')
        for record in (
            factory.run(BARE_METAL, 0, 90, sweep='measured-alone'),
            factory.run('i2', 0, 90, sweep='by-rally'),
            factory.run('i2', 1, 90, sweep='by-rally', reason='failed'),
            factory.run('i4', 0, 90, sweep='by-rally'),
        ):
            factory.save(record, sweep_store.RECORDS_DIR)
        status, out, err = self.call('list', '-f', 'json')
        self.assertEqual((0, ''), (status, err))
        rows = {row['ID']: row for row in json.loads(out)}
        self.assertEqual(2, len(rows))
        row = rows.pop('by-rally')
        self.assertEqual(
            ('records', '2', 'i2, i4'),
            (row['State'], row['Runs'], row['Configurations']),
        )
        self.assertEqual(['finished'], [row['State'] for row in rows.values()])

    def test_run_skips_what_the_cloud_lacks(self) -> None:
        status, out, err = self.start('--values', 'storage=local,ceph')
        self.assertEqual(0, status, err)
        self.assertIn('this cloud lacks ceph: Cannot find volume type', err)
        self.assertIn('skipped: i1-ceph: this cloud has no Ceph', err)
        self.assertEqual(
            {BARE_METAL, 'i1-c1-m1-local-shared-unpinned'}, set(self.ran)
        )
        self.assertEqual(['test'], self.cloud_names)
        self.assertIn('100.0', out)
        self.assertEqual(
            {'host_profile': 'vsphere6', 'backend': 'kvm'},
            self.options['cloud'],
        )

    def test_a_profile_of_the_users_is_rallys_as_well(self) -> None:
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'mine.yaml'
        mapping = host_profiles.load('vsphere6').to_mapping()
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
        self.assertIn('1 configuration failed (i2)', err.splitlines()[-1])

    def test_resume_goes_on_and_show_says_where(self) -> None:
        self.start('--values', 'instances=1,2')
        (sweep,) = sweep_store.list_sweeps()
        for path in sweep_store.RECORDS_DIR.glob('*i2-*.json'):
            path.unlink()
        self.ran.clear()
        status, out, err = self.call('show', sweep.id, '-f', 'json')
        self.assertEqual(0, status, err)
        summary = json.loads(out)
        self.assertEqual(
            ('unfinished', 'i1, i2'),
            (summary['State'], summary['Configurations']),
        )
        status, _, err = self.call('resume', sweep.id, '--os-cloud', 'test')
        self.assertEqual(0, status, err)
        self.assertIn('i2-c1-m1-local-shared-unpinned', self.ran)
        self.assertNotIn('i1-c1-m1-local-shared-unpinned', self.ran)
        _, out, _ = self.call('show', sweep.id, '-f', 'json')
        self.assertEqual('finished', json.loads(out)['State'])

    def test_mistakes(self) -> None:
        for args, message in (
            (('resume',), 'Cannot find an unfinished sweep'),
            (('show', 'mine'), "Cannot find sweep 'mine'"),
        ):
            status, _, err = self.call(*args)
            self.assertEqual(2, status)
            self.assertIn(message, err)
        for args, message in (
            (('--values', 'cpus=1'), "--values 'cpus=1'"),
            (('--values', 'instances=x'), "'instances' is 'x'"),
            (
                ('--values', 'instances=1', '--baseline', 'mine'),
                "baseline 'mine'",
            ),
            (
                ('--values', 'instances=1', '--allow', 'cpas'),
                "--allow 'cpas'",
            ),
        ):
            status, _, err = self.start(*args)
            self.assertEqual(2, status, message)
            self.assertIn(message, err)
        self.assertEqual([], self.ran)
        # Nothing was begun.
        self.assertEqual([], sweep_store.list_sweeps())

    def test_resume_on_another_cloud(self) -> None:
        self.start('--values', 'instances=1,2')
        (sweep,) = sweep_store.list_sweeps()
        assert sweep.spec
        self.assertEqual('http://keystone.test RegionOne', sweep.spec.cloud)
        path = sweep_store.SWEEPS_DIR / f'{sweep.id}.json'
        marker = json.loads(path.read_text())
        for record in sweep_store.RECORDS_DIR.glob('*i2-*.json'):
            record.unlink()
        self.ran.clear()
        command = ('resume', sweep.id, '--os-cloud', 'test')
        for cloud in (
            'http://other.test RegionOne',
            'http://keystone.test RegionTwo',
        ):
            marker['spec']['cloud'] = cloud
            path.write_text(json.dumps(marker))
            status, _, err = self.call(*command)
            self.assertEqual(2, status, err)
            self.assertIn(f"Cannot continue sweep '{sweep.id}' on", err)
            self.assertIn(f'started on {cloud},', err)
            is_region = cloud.endswith('Two')
            self.assertEqual(is_region, 'OS_REGION_NAME to Region' in err)
            self.assertEqual([], self.ran)
        # An older release did not store it.
        del marker['spec']['cloud']
        path.write_text(json.dumps(marker))
        status, _, err = self.call(*command)
        self.assertEqual(0, status, err)
        self.assertIn('i2-c1-m1-local-shared-unpinned', self.ran)

    def test_resume_of_a_finished_sweep(self) -> None:
        """It shows the result, and needs nothing of the cloud."""
        self.start('--values', 'instances=1,2')
        (sweep,) = sweep_store.list_sweeps()
        self.ran.clear()
        with fixtures.EnvironmentVariable('OS_CLOUD__NETWORK', 'absent'):
            status, out, err = self.call(
                'resume', sweep.id, '--os-cloud', 'test'
            )
        self.assertEqual(0, status, err)
        self.assertIn('bare metal', out)
        self.assertEqual([], self.ran)

    def test_options_of_continued_trials(self) -> None:
        """They were ignored: the trials keep the options of their start."""
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.sweep.trials.run_trials', lambda *_: None
            )
        )
        command = ('trials', 'run', '--os-cloud', 'test')
        trials_id = self.call(*command)[1].strip()
        stored = trials.load_trials(trials_id)
        self.assertEqual(
            (5, 3, 800_000_000),
            (stored.trials, stored.runs, stored.size_bytes),
        )
        for option, value in (
            *(('--a', 'i2'), ('--b', 'i2'), ('--trials', '5')),
            *(('--runs', '3'), ('--size', '800MB')),
            *(('--before-a', 'true'), ('--before-b', 'true')),
        ):
            status, _, err = self.call(*command, trials_id, option, value)
            self.assertEqual(2, status)
            self.assertIn(f'Cannot use {option} with the ID of', err)
        options = ('--after', 'true', '--max-trials', '1')
        status, _, err = self.call(*command, trials_id, *options)
        self.assertEqual(0, status, err)

    def test_refused_trials_leave_no_marker(self) -> None:
        with fixtures.EnvironmentVariable('OS_CLOUD__NETWORK', 'absent'):
            status, _, err = self.call('trials', 'run', '--os-cloud', 'test')
        self.assertEqual(2, status, err)
        self.assertIn("network 'absent'", err)
        self.assertEqual([], list(trials.TRIALS_DIR.glob('*')))

    def test_trials_on_another_cloud(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.sweep.trials.run_trials', lambda *_: None
            )
        )
        command = ('trials', 'run', '--os-cloud', 'test')
        status, out, err = self.call(*command)
        self.assertEqual(0, status, err)
        trials_id = out.strip()
        self.assertEqual(
            'http://keystone.test RegionOne',
            trials.load_trials(trials_id).cloud,
        )
        self.assertEqual(0, self.call(*command, trials_id)[0])
        path = trials.TRIALS_DIR / f'{trials_id}.json'
        path.write_text(path.read_text().replace('keystone.', 'other.'))
        status, _, err = self.call(*command, trials_id)
        self.assertEqual(2, status, err)
        self.assertIn(f"Cannot continue trials '{trials_id}' on", err)

    def test_a_study_on_another_cloud(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        executed: list[str] = []

        def run_study(started: study_store.StartedStudy, *_: Any) -> None:
            executed.append(started.id)
            raise errors.RunFailedError('none of this')

        for name, value in (
            ('study.study_store.STUDIES_DIR', directory),
            ('study.study_run.run_study', run_study),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.{name}', value))
        studies = [
            study_store.create(
                *(definition.load('vsphere6-replicas'), 'vsphere6', 'kvm', {}),
                cloud=cloud,
            )
            for cloud in ('http://other.test', 'http://keystone.test', '')
        ]
        results = [
            run_command('study', 'resume', study.id, '--os-cloud', 'test')
            for study in studies
        ]
        self.assertEqual([study.id for study in studies[1:]], executed)
        status, _, err = results[0]
        self.assertEqual(2, status, err)
        self.assertIn(f"Cannot continue study '{studies[0].id}' on", err)
        with fixtures.EnvironmentVariable('OS_CLOUD__NETWORK', 'absent'):
            status, _, err = run_command(
                'study', 'resume', studies[1].id, '--os-cloud', 'test'
            )
        self.assertEqual(2, status, err)
        self.assertIn("use the network 'absent'", err)
        self.assertEqual(2, len(executed))

    def test_what_each_run_needs(self) -> None:
        """Without it, each run would fail, and nothing would be left."""
        self.start('--values', 'instances=1,2')
        (sweep,) = sweep_store.list_sweeps()
        for record in sweep_store.RECORDS_DIR.glob('*i2-*.json'):
            record.unlink()
        records = sorted(sweep_store.RECORDS_DIR.iterdir())
        self.ran.clear()
        for variable, value, message in (
            ('OS_CLOUD__NETWORK', 'absent', "use the network 'absent'"),
            ('OS_CLOUD__IMAGE', 'absent', "find image 'absent'"),
            ('OS_SWEEP__BASELINE_HOSTS', '/absent', 'Cannot measure bare'),
        ):
            with fixtures.EnvironmentVariable(variable, value):
                results = [
                    self.call('resume', sweep.id, '--os-cloud', 'test'),
                    self.start('--values', 'instances=1,2'),
                ]
            for status, _, err in results:
                self.assertEqual(2, status, err)
                self.assertIn(message, err)
        self.assertEqual([], self.ran)
        self.assertEqual(records, sorted(sweep_store.RECORDS_DIR.iterdir()))
        self.assertEqual([sweep.id], [s.id for s in sweep_store.list_sweeps()])

    def test_hosts_without_runs_on_bare_metal(self) -> None:
        """Recorded runs and emulated CPUs need no list of hosts."""
        self.baseline_hosts.path.unlink()
        record = factory.run(BARE_METAL, 0, 90, sweep='imported', size=SIZE)
        factory.save(record, sweep_store.RECORDS_DIR)
        for args in (('--baseline', 'imported'), ('--backend', 'qemu')):
            status, _, err = self.start('--values', 'instances=1', *args)
            self.assertEqual(0, status, err)
        self.assertNotIn(BARE_METAL, self.ran)

    def test_the_clouds_variable_is_taken(self) -> None:
        self.start('--values', 'instances=1,2')
        for path in sweep_store.RECORDS_DIR.glob('*i2-*.json'):
            path.unlink()
        self.useFixture(fixtures.EnvironmentVariable('OS_CLOUD', 'test'))
        status, _, err = self.call('resume', sweep_store.list_sweeps()[-1].id)
        self.assertEqual(0, status, err)
        self.assertEqual(['test', 'test'], self.cloud_names)
