# SPDX-License-Identifier: Apache-2.0
"""``hvstack flavor derive``, ``cluster size`` and ``report``."""

import json
from pathlib import Path
from xml.etree import ElementTree

import fixtures
import testtools

from hvstack import share
from tests.unit.cli.runner import run_command
from tests.unit.results.factory import run, save


class Commands(testtools.TestCase):
    """The commands that need no cloud."""

    def test_derive(self) -> None:
        status, out, err = run_command(
            'flavor', 'derive', '--host', 'vsphere6',
            '--instances', '20', '-f', 'json',
        )  # fmt: skip
        data = json.loads(out)
        self.assertEqual(0, status)
        self.assertEqual(
            (2, 12339, 1, 'worker'),
            (data['vcpus'], data['ram'], data['disks'], data['role']),
        )
        self.assertTrue({'name', 'disk', 'extra_specs'} <= set(data))
        self.assertEqual({'vcpus': 0, 'ram': 4, 'disks': 0}, data['rest'])
        self.assertIn('4 MiB', err)

    def test_derive_by_configuration(self) -> None:
        status, out, _ = run_command(
            'flavor', 'derive', '--host', 'vsphere6', '--configuration',
            'i20-dedicated', '--role', 'namenode', '-f', 'json',
        )  # fmt: skip
        self.assertEqual((0, 4), (status, json.loads(out)['vcpus']))

    def test_bad_input_is_one_line_and_status_2(self) -> None:
        for args in (
            ('--host', 'cray'),
            ('--host', 'amd', '--instances', '33'),
            ('--host', 'amd', '--configuration', 'i2-c3'),
            ('--host', 'amd', '--configuration', 'two'),
        ):
            status, out, err = run_command('flavor', 'derive', *args)
            self.assertEqual((2, ''), (status, out))
            self.assertEqual(1, err.count('\n'), err)

    def test_cluster_size(self) -> None:
        args = ('cluster', 'size', '--host', 'vsphere6', '-f', 'json')
        for options, workers in (
            (('--hosts', '32', '--instances', '10'), 318),
            (('--hosts', '32', '--native'), 31),
        ):
            status, out, _ = run_command(*args, *options)
            self.assertEqual(0, status)
            self.assertEqual(workers, json.loads(out)['workers'])

    def test_report(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        save(run('bare-metal', 0, 90, sweep='a'), directory)
        for index in (0, 1):
            save(
                run(
                    'i1',
                    index,
                    95,
                    sweep='b',
                    started=f'2026-11-22T0{index + 1}:00:00Z',
                ),
                directory,
            )
        args = ('report', '--records', str(directory))
        status, out, _ = run_command(*args)
        self.assertEqual(0, status)
        self.assertIn('no baseline', out)
        status, out, _ = run_command(*args, '--sweep', 'a', '-f', 'json')
        self.assertEqual('a', json.loads(out)['sweep'])
        page = directory / 'page.html'
        status, out, _ = run_command(*args, '-f', 'html', '-o', str(page))
        self.assertEqual((0, ''), (status, out))
        self.assertIn('The report has no percentages', page.read_text())
        status, _, err = run_command(*args, '--sweep', 'c')
        self.assertEqual((2, 1), (status, err.count('\n')))

    def test_report_with_a_named_baseline(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        imported = [
            run(
                'bare-metal',
                n,
                90 + n,
                sweep='lent',
                started=f'2026-11-22T0{n}:00:00Z',
            )
            for n in (1, 2)
        ]
        for record in (
            run('bare-metal', 0, 45, sweep='b'),
            run('i1', 0, 100, sweep='b'),
            *imported,
        ):
            save(record, directory)
        args = ('report', '--records', str(directory), '-f', 'json')
        for name, count in (('lent', 2), ('auto', 2), (imported[0].id, 1)):
            status, out, _ = run_command(*args, '--baseline', name)
            self.assertEqual(0, status)
            data = json.loads(out)
            self.assertEqual(
                ('b', 'lent'), (data['sweep'], data['baseline_sweep'])
            )
            baseline, row = data['rows']
            self.assertEqual(count, baseline['runs'])
            self.assertAlmostEqual(
                91 if count == 1 else (91 * 92) ** 0.5,
                row['percent_of_bare_metal']['percent'],
            )
        other = run('bare-metal', 5, 90, sweep='odd', jre='8', size=10**8)
        path = save(other, directory / 'elsewhere')
        status, _, err = run_command(*args, '--baseline', str(path))
        self.assertEqual(4, status)
        self.assertIn('jre is missing here and 8 there', err)
        status, _, err = run_command(
            *(*args, '--baseline', str(path), '--allow', 'size_bytes'),
            *('--allow', 'jre'),
        )
        self.assertEqual((0, ''), (status, err))
        status, _, err = run_command(*args, '--baseline', 'none')
        self.assertEqual((2, 1), (status, err.count('\n')))

    def test_report_with_the_baseline_of_the_task(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        for record in (
            run('bare-metal', 0, 90, sweep='lent'),
            *(
                run('i1', 0, 100, sweep=name, observations=observations)
                for name, observations in (
                    ('auto', {'compared_with': 'auto'}),
                    ('named', {'compared_with': 'lent'}),
                    ('lost', {'compared_with': 'deleted'}),
                    ('alone', {}),
                )
            ),
        ):
            save(record, directory)
        args = ('report', '--records', str(directory), '-f', 'json')
        for name, expected in (
            ('auto', 90.0),
            ('named', 90.0),
            ('lost', None),
            ('alone', None),
        ):
            status, out, err = run_command(*args, name)
            self.assertEqual(0, status)
            percent = json.loads(out)['rows'][-1]['percent_of_bare_metal']
            self.assertEqual(
                expected, percent and round(percent['percent'], 6)
            )
            self.assertEqual(name == 'lost', "baseline 'deleted'" in err)
        status, _, _ = run_command(*args, 'lost', '--baseline', 'deleted')
        self.assertEqual(2, status)

    def test_report_leaves_out_what_is_edited(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        args = ('report', '--records', str(directory))
        save(run('i1', 0, 95, sweep='b'), directory)
        edited = save(
            run('i1', 1, 95, sweep='b', started='2026-11-22T01:00:00Z'),
            directory,
        )
        edited.write_text(edited.read_text().replace('Xeon', 'Xenon'))
        newer = save(
            run('i1', 2, 95, sweep='b', started='2026-11-22T02:00:00Z'),
            directory,
        )
        newer.write_text(newer.read_text().replace('"schema":1', '"schema":2'))
        other = save(run('i1', 3, 95, sweep='a'), directory)
        other.write_text(other.read_text().replace('Xeon', 'Xenon'))
        (directory / 'torn.json').write_text('{"sweep"')
        status, out, _ = run_command(*args, '-f', 'json')
        self.assertEqual(0, status)
        data = json.loads(out)
        self.assertEqual(1, data['rows'][0]['runs'])
        notes = [note for note in data['notes'] if note.startswith('Left out')]
        self.assertEqual(3, len(notes))
        for note, (path, word) in zip(
            notes,
            (
                (edited, 'was edited'),
                (newer, 'newer release'),
                (directory / 'torn.json', 'not a complete run record'),
            ),
            strict=True,
        ):
            self.assertIn(str(path), note)
            self.assertIn(word, note)

    def test_report_names_files_that_it_cannot_use(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        save(run('i1', 0, 90, sweep='a'), directory)
        torn = directory / 'torn.json'
        torn.write_text('{"sweep"')
        damaged = directory / 'skipped' / 'a.json'
        damaged.parent.mkdir()
        damaged.write_text('{"i2": []}')
        for form in ('table', 'json', 'html', 'csv', 'junit'):
            status, out, _ = run_command(
                *('report', '--records', str(directory), '-f', form)
            )
            self.assertEqual(0, status)
            for path in (torn, damaged):
                self.assertIn(str(path), out, form)

    def test_report_of_two_sweeps(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        for sweep, seconds in (('a', 90), ('b', 100)):
            save(run('i1', 0, seconds, sweep=sweep), directory)
        args = ('report', '--records', str(directory), 'a', 'b')
        status, out, _ = run_command(*args)
        self.assertEqual(0, status)
        self.assertIn('b against a', out)
        self.assertIn('90.0', out)
        page = directory / 'page.html'
        status, out, _ = run_command(*args, '--html', str(page))
        self.assertEqual((0, ''), (status, out))
        self.assertIn('b against a', page.read_text())
        status, _, err = run_command(*args, 'c')
        self.assertEqual((2, 1), (status, err.count('\n')))
        status, _, err = run_command(*args[:4], '--changed', 'nova')
        self.assertEqual((2, 1), (status, err.count('\n')))
        status, _, err = run_command(*args[:4], 'a')
        self.assertEqual((2, 1), (status, err.count('\n')))
        self.assertIn('with itself', err)

    def test_report_of_a_sweep_without_records(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        save(run('i1', 0, 90, sweep='a'), directory)
        for sweeps in (['b'], ['a', 'b']):
            status, _, err = run_command(
                'report', '--records', str(directory), *sweeps
            )
            self.assertEqual((2, 1), (status, err.count('\n')))
            self.assertIn(f"Cannot report sweep 'b' ({directory})", err)

    def test_catalogue_and_lint(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        status, text, _ = run_command(
            'flavor', 'catalogue', '--host', 'vsan', 'i4', 'i4-dedicated'
        )
        self.assertEqual(0, status)
        path = directory / 'vsan.yaml'
        path.write_text(text)
        self.assertEqual((0, '', ''), run_command('flavor', 'lint', str(path)))
        path.write_text(text.replace('hw:cpu_policy', 'hw:cpu_polcy'))
        status, out, err = run_command('flavor', 'lint', str(path))
        self.assertEqual((2, 1), (status, err.count('\n')))
        line = 1 + path.read_text().splitlines().index(
            '    hw:cpu_polcy: dedicated'
        )
        self.assertIn(f'{path}:{line}: HV010 error', out)
        args = ('flavor', 'lint', str(path), '-f')
        _, out, _ = run_command(*args, 'sarif')
        run_ = json.loads(out)['runs'][0]
        violations = [
            violation
            for violation in run_['results']
            if violation['ruleId'] == 'HV010'
        ]
        region = violations[0]['locations'][0]['physicalLocation']['region']
        self.assertEqual(line, region['startLine'])
        _, out, _ = run_command(*args, 'json')
        self.assertIn(
            'HV010', {violation['rule'] for violation in json.loads(out)}
        )
        _, out, _ = run_command(*args, 'junit')
        suites = ElementTree.fromstring(out).findall('testsuite')
        self.assertEqual(
            ['0', '0', '1', '1'], [s.get('failures') for s in suites]
        )
        failed = suites[2].findall('testcase[failure]')
        self.assertEqual(
            ['HV010 unknown or misspelt extra spec'],
            [case.get('name') for case in failed],
        )
        self.assertIn(f'{path}:{line}: HV010', failed[0].find('failure').text)

    def test_catalogue_of_a_profile_outside_the_search_path(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        path = directory / 'mine.yaml'
        text = (share.HOST_PROFILES / 'vsan.yaml').read_text()
        path.write_text(text.replace('name: vsan', 'name: mine'))
        args = ('flavor', 'catalogue', '--host', str(path), 'i4')
        status, out, err = run_command(*args)
        self.assertEqual((0, 1), (status, err.count('\n')))
        self.assertIn('host: mine\n', out)
        self.assertIn('/hosts/mine.yaml', err)
        path.write_text(text)
        self.assertEqual('', run_command(*args)[2])

    def test_lint_names_what_is_wrong_and_where(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        _, text, _ = run_command('flavor', 'catalogue', '--host', 'vsan', 'i4')
        path = directory / 'vsan.yaml'
        for old, new, message in (
            ('host: vsan', 'host: cray', "host profile 'cray'"),
            (
                'configuration: i4-',
                'configuration: x4-',
                "'flavors.0.configuration' is not valid",
            ),
            ('vcpus: 14', 'vcpus: -14', "'flavors.0.vcpus' is -14"),
            ('ram: 49152', 'ram: 10000000000', "'flavors.0.ram' is 1000000"),
            ('role: worker', 'roll: worker', "'flavors.0.roll' is unknown"),
        ):
            self.assertIn(old, text)
            changed = text.replace(old, new, 1)
            path.write_text(changed)
            status, out, err = run_command('flavor', 'lint', str(path))
            self.assertEqual((2, '', 1), (status, out, err.count('\n')), err)
            line = 1 + changed[: changed.index(new)].count('\n')
            self.assertIn(f'{path}:{line}: ', err)
            self.assertIn(message, err)

    def test_catalogues_of_the_repository_have_no_errors(self) -> None:
        directory = share.CATALOGUES
        paths = sorted(directory.glob('*.yaml'))
        self.assertEqual(3, len(paths))
        for path in paths:
            status, _, err = run_command('flavor', 'lint', str(path))
            self.assertEqual((0, ''), (status, err))
