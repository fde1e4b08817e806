# SPDX-License-Identifier: Apache-2.0
"""``hvstack flavor approve``: the file says what the records prove."""

import io
import shutil
from contextlib import redirect_stderr
from pathlib import Path

import fixtures
import testtools
import yaml

from hvstack import yamlfile
from hvstack.cli.app import main
from hvstack.model import catalogue
from hvstack.model.configuration import parse
from hvstack.results import evidence, record
from tests.unit.cli.runner import run_command
from tests.unit.report.test_approval import LAB, Sweep
from tests.unit.results.factory import run, save, tell


class Approve(testtools.TestCase):
    """One flavor of a catalogue whose profile is a file."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        profile = self.directory / 'lab-worker.yaml'
        profile.write_text(yaml.safe_dump(LAB))
        self.sweep = Sweep()
        self.records = self.directory / 'records'
        for run_record in self.sweep.records:
            save(run_record, self.records)
        self.catalogue = self.directory / 'flavors.yaml'
        data = catalogue.build_catalogue(self.sweep.profile, [parse('i2')])
        data['host'] = str(profile)
        self.text = '# Ours.\n' + yaml.safe_dump(data, sort_keys=False)
        self.catalogue.write_text(self.text)
        self.catalogue.chmod(0o640)

    def call(self, *args: str) -> tuple[int, str, str]:
        return run_command(
            *('flavor', 'approve', str(self.catalogue)),
            *('--records', str(self.records), *args),
        )

    def test_approve_and_again(self) -> None:
        name = self.sweep.flavor.name
        status, out, err = self.call(name, '--dry-run')
        self.assertEqual((0, ''), (status, err))
        self.assertIn(f'{name}: would be approved, 99.0 % of bare', out)
        self.assertEqual(self.text, self.catalogue.read_text())
        status, out, err = self.call(name, '--sweep', 'quick')
        self.assertEqual((0, ''), (status, err))
        self.assertIn(f'{name}: approved, 99.0 % of bare metal (', out)
        self.assertIn('at least 90 needed), 3 runs beside 3, backend lxc', out)
        text = self.catalogue.read_text()
        self.assertTrue(text.startswith('# Ours.\n'))
        self.assertEqual(0o640, self.catalogue.stat().st_mode & 0o777)
        document = yamlfile.load(self.catalogue)
        saved_catalogue = catalogue.from_mapping(
            document.data, document.source_location()
        )
        evidence.verify_evidence(
            saved_catalogue.entries[0], record.load_all(self.records)
        )
        self.assertEqual('candidate', saved_catalogue.entries[1].status)
        status, out, err = self.call(name)
        self.assertEqual((0, ''), (status, err))
        self.assertIn(f'{name}: approved before', out)
        self.assertEqual(text, self.catalogue.read_text())

    def test_edited_evidence_is_not_published(self) -> None:
        name = self.sweep.flavor.name
        self.assertEqual(0, self.call(name)[0])
        text = self.catalogue.read_text(encoding='utf-8')
        low = next(line for line in text.splitlines() if ' low: ' in line)
        for changed, message in (
            (low.partition(':')[0] + ': 98.9', 'was edited'),
            (low.partition(':')[0] + ': 120', 'HV019'),
        ):
            self.catalogue.write_text(
                text.replace(low, changed), encoding='utf-8'
            )
            err = io.StringIO()
            with redirect_stderr(err):
                status = main(
                    (
                        *('flavor', 'publish', str(self.catalogue), name),
                        *('--records', str(self.records)),
                        *('--os-cloud', 'no-such-cloud'),
                    )
                )
            self.assertEqual(2, status)
            self.assertIn(message, err.getvalue())

    def test_the_winner_against_a_named_baseline(self) -> None:
        slow = Sweep('i1', seconds=(150, 151, 152))
        for run_record in slow.measured:
            save(run_record, self.records)
        baseline_runs = [
            run('bare-metal', n, 99 + n, sweep='elsewhere', hadoop='3.4.3')
            for n in range(3)
        ]
        odd = run('bare-metal', 3, 99, sweep='elsewhere', hadoop='2.10')
        for run_record in (odd, *baseline_runs):
            save(run_record, self.records)
        status, out, err = self.call(
            *('--sweep', 'quick', '--baseline', 'elsewhere')
        )
        self.assertEqual((0, ''), (status, err))
        name = self.sweep.flavor.name
        self.assertIn(f'{name}: approved, 99.0 % of bare metal (', out)
        document = yamlfile.load(self.catalogue)
        saved_catalogue = catalogue.from_mapping(
            document.data, document.source_location()
        )
        earned = saved_catalogue.entries[0].evidence or {}
        self.assertEqual('elsewhere', earned['baseline'])
        evidence.verify_evidence(
            saved_catalogue.entries[0], record.load_all(self.records)
        )
        # A single run is no measurement.
        args = ('--sweep', 'quick', '--baseline', baseline_runs[0].id)
        self.assertIn('1 run of bare metal', self.call(*args)[2])

    def test_baseline_of_the_task(self) -> None:
        shutil.rmtree(self.records)
        baseline_runs = [
            run('bare-metal', n, 99 + n, sweep='elsewhere', hadoop='3.4.3')
            for n in range(3)
        ]
        compared = [
            tell(run_record, compared_with='elsewhere')
            for run_record in self.sweep.measured
        ]
        for run_record in (*compared, *baseline_runs):
            save(run_record, self.records)
        status, out, err = self.call('--sweep', 'quick')
        self.assertEqual((0, ''), (status, err))
        self.assertIn('approved, 99.0 % of bare metal (', out)

    def test_a_winner_that_the_catalogue_lacks(self) -> None:
        for run_record in Sweep('i1', seconds=(50, 51, 52)).measured:
            save(run_record, self.records)
        status, out, err = self.call('--sweep', 'quick')
        self.assertEqual((2, '', 1), (status, out, err.count('\n')), err)
        self.assertIn("sweep 'quick': it takes 'i1', of which", err)
        for path in self.records.glob('*bare-metal*'):
            path.unlink()
        self.assertIn('has no winner', self.call('--sweep', 'quick')[2])

    def test_search_of_another_machine(self) -> None:
        """The marker, which has the search space, is not in the store."""
        name = self.sweep.flavor.name
        save(run('i1', 0, 100, sweep='quick-search'), self.records)
        status, out, err = self.call('--sweep', 'quick')
        self.assertEqual((2, '', 1), (status, out, err.count('\n')), err)
        self.assertIn("sweep 'quick': the answer of its search is not", err)
        self.assertEqual(self.text, self.catalogue.read_text())
        status, out, err = self.call(name, '--sweep', 'quick')
        self.assertEqual(0, status, err)
        self.assertIn(f'{name}: approved', out)

    def test_refusal_leaves_the_file_alone(self) -> None:
        name = self.sweep.flavor.name
        controller = name.replace('worker', 'controller')
        for args in (
            (name, '--min-percent', '100'),
            (name, 'another'),
            (name, '--sweep', 'none'),
            (name, controller),
        ):
            status, out, err = self.call(*args)
            self.assertEqual((2, '', 1), (status, out, err.count('\n')), err)
            self.assertEqual(self.text, self.catalogue.read_text())
