# SPDX-License-Identifier: Apache-2.0
"""``hvstack baseline``: what needs no hosts."""

import hashlib
import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import fixtures
import testtools

from hvstack.cli import baseline
from hvstack.cluster import bare_metal
from hvstack.results import record, signing
from hvstack.results.file_run_store import FileRunStore
from hvstack.tpcxhs.result import RunSpec
from hvstack.tpcxhs.workload import Workload
from tests.unit.cli.runner import run_command
from tests.unit.results import factory
from tests.unit.results.factory import run, save


class BaselineTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.records = self.directory / 'records'
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cluster.acquired_hosts.ACQUIRED_HOSTS_DIR',
                self.directory / 'taken',
            )
        )

    def call(self, *args: str) -> tuple[int, str, str]:
        return run_command(
            *('baseline', *args, '--records', str(self.records))
        )

    def save(self, where: Path, configuration: str, **fields: str) -> Path:
        return save(run(configuration, 0, 120.0, **fields), where)  # type: ignore

    def test_list_has_bare_metal_only(self) -> None:
        self.save(self.records, 'bare-metal')
        self.save(self.records, 'bare-metal', sweep='other')
        self.save(self.records, 'i1')
        status, out, _ = self.call('list', '-f', 'json')
        self.assertEqual((0, 2), (status, len(json.loads(out))))
        _, out, _ = self.call('list', '-f', 'json', '--sweep', 'other')
        self.assertEqual('other', json.loads(out)[0]['Sweep'])

    def test_show(self) -> None:
        self.save(self.records, 'bare-metal')
        (stored_record,) = record.load_all(self.records)
        status, out, _ = self.call('show', '-f', 'json', stored_record.id[:8])
        output = json.loads(out)
        self.assertEqual(0, status)
        self.assertEqual(
            (stored_record.id, '60.0 s'), (output['ID'], output['HSSort'])
        )
        status, _, err = self.call('show', 'none')
        self.assertEqual(2, status)
        self.assertIn('hvstack baseline list', err)

    def test_import(self) -> None:
        path = self.save(self.directory, 'bare-metal')
        for _ in range(2):
            self.assertEqual(0, self.call('import', str(path))[0])
        self.assertEqual(1, len(record.load_all(self.records)))

    def test_import_writes_among_the_records_only(self) -> None:
        """A record's ID was a path: the next recovery ran what it named."""
        forged_record = run('bare-metal', 0, 120.0)
        path = record.save(forged_record, self.directory / 'sender')
        text = json.dumps({'pid': 1, 'started': 0, 'hosts': []})
        for name in ('../../taken/pwn', '../taken/pwn', '/etc/pwn', '..'):
            digest = hashlib.sha256(text.encode()).hexdigest()
            document = {
                **factory.tell(
                    forged_record, telemetry={'sha256': digest}
                ).document,
                'id': name,
            }
            forged = replace(forged_record, document=document)
            document['digest'] = forged.computed_digest()
            path.write_text(json.dumps(document))
            for directory in (
                self.directory / 'taken',
                path.parent / 'telemetry',
            ):
                directory.mkdir(exist_ok=True)
            (path.parent / 'telemetry' / 'pwn.json').write_text(text)
            status, _, err = self.call('import', str(path))
            self.assertEqual((2, 1), (status, err.count('\n')), err)
            self.assertIn("'id' is", err)
            self.assertEqual([], list((self.directory / 'taken').iterdir()))
            self.assertFalse(self.records.exists())

    def test_import_takes_all_or_none(self) -> None:
        good = self.save(self.directory, 'bare-metal')
        for bad in (
            self.save(self.directory / 'a', 'i1'),
            self.save(self.directory / 'b', 'bare-metal', reason='killed'),
        ):
            status, _, err = self.call('import', str(good), str(bad))
            self.assertEqual(2, status)
            self.assertIn(bad.name, err)
        self.assertEqual([], record.load_all(self.records))

    def run_on_hosts(
        self, *args: str
    ) -> tuple[int, str, list[tuple[str, int]]]:
        """Run without hosts, with a record for each run.

        :returns: exit status, errors, and sweeps and indexes of the runs.
        """
        runs: list[tuple[str, int]] = []

        def measure_runs(_: object, spec: RunSpec, __: object) -> object:
            indexes = [spec.run_id.index + number for number in (0, 1)]
            runs.append((spec.run_id.sweep, spec.run_id.index))
            records = [
                spec.store.append(
                    run(
                        *('bare-metal', index, 60.0),
                        sweep=spec.run_id.sweep,
                        started=f'2026-11-21T0{index}:00:00Z',
                    )
                )
                for index in (indexes if spec.kit else indexes[:1])
            ]
            return records

        workload = Workload(10**6, 1, 2, 2)
        for name, value in (
            ('cli.baseline.Run._source', lambda *_: (nullcontext(), workload)),
            ('tpcxhs.run.warm_up', lambda *_: None),
            ('tpcxhs.kit.check_kit', lambda *_: ''),
            ('tpcxhs.kit.measure_runs', measure_runs),
            ('sweep.sweep_store.SWEEPS_DIR', self.directory / 'sweeps'),
            ('sweep.sweep_store.RECORDS_DIR', self.records),
        ):
            self.useFixture(fixtures.MonkeyPatch(f'hvstack.{name}', value))
        status, _, err = run_command('baseline', 'run', *args)
        return status, err, runs

    def test_no_two_runs_have_the_same_identity(self) -> None:
        _, _, runs = self.run_on_hosts()
        _, _, others = self.run_on_hosts()
        self.assertEqual([0, 1], [index for _, index in runs])
        (sweep,) = {name for name, _ in runs}
        self.assertNotIn((sweep, 0), others)
        # The number of records is that of the last run now.
        records = FileRunStore(self.records).load_records(sweep)
        FileRunStore(self.records).delete(records[0].id)
        args = ('--sweep', sweep, '--runs')
        self.assertEqual([(sweep, 2)], self.run_on_hosts(*args, '1')[2])
        _, err, runs = self.run_on_hosts(*args, '2', '--kit', '/kit')
        self.assertEqual([(sweep, 4)], runs, err)
        self.assertEqual(
            [1, 2, 4, 5],
            [
                record.index
                for record in FileRunStore(self.records).load_records(sweep)
            ],
        )

    def test_run_whose_record_the_database_did_not_take(self) -> None:
        self.useFixture(
            fixtures.EnvironmentVariable(
                'OS_RECORDS__CONNECTION',
                f'sqlite:///{self.directory}/records.sqlite',
            )
        )
        self.save(self.records, 'bare-metal', sweep='mine')
        args = ('--sweep', 'mine', '--runs', '1')
        self.assertEqual([('mine', 1)], self.run_on_hosts(*args)[2])

    def test_run_of_a_sweep_of_another_machine(self) -> None:
        self.save(self.records, 'bare-metal', sweep='theirs')
        (other,) = signing.trusted()
        keys = Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.results.signing.KEYS', keys)
        )
        signing.trust(other)
        args = ('--sweep', 'theirs')
        status, err, runs = self.run_on_hosts(*args)
        self.assertEqual((2, []), (status, runs), err)
        self.assertIn('the key of another machine', err)

    def test_run_without_hosts(self) -> None:
        status, _, err = self.call(
            'run', '--hosts', str(self.directory / 'none.json')
        )
        self.assertEqual(2, status)
        self.assertIn('none.json', err)
        self.assertNotIn('Traceback', err)

    def test_run_for_a_sweep_that_is_no_name(self) -> None:
        status, _, err = self.call('run', '--sweep', '../x')
        self.assertEqual(2, status)
        self.assertIn("'../x'", err)

    def test_run_as_a_stack_or_on_hosts(self) -> None:
        for message, *args in (
            ('--stack without --workers', '--stack', 'metal'),
            ('--workers with hosts', '--workers', '2'),
            ('--os-cloud with hosts', '--os-cloud', 'lab'),
            (
                'Use --wipe with --hosts',
                *('--stack', 'metal', '--workers', '2', '--wipe', 'w:/x'),
            ),
            (
                '--controller-flavor with hosts',
                *('--controller-flavor', 'metal'),
            ),
        ):
            status, _, err = self.call('run', *args)
            self.assertEqual((2, 1), (status, err.count('\n')), err)
            self.assertIn(message, err)

    def test_run_refuses_more_replicas_than_hosts(self) -> None:
        host = {
            'address': '10.0.0.1',
            'vcpus': 2,
            'memory_mib': 4096,
            'enter': ['false'],
        }
        file = self.directory / 'hosts.json'
        file.write_text(
            json.dumps(
                [
                    {**host, 'name': 'c', 'role': 'controller'},
                    {**host, 'name': 'w', 'role': 'worker'},
                ]
            )
        )
        args = ('run', '--hosts', str(file), '--replication', '2')
        status, _, err = self.call(*args)
        self.assertEqual(2, status)
        self.assertIn('--replication 2', err)

    def test_workload_fills_one_wave(self) -> None:
        worker = bare_metal.Host('w', 'worker', '', 2, 4864, ('false',))
        cluster = bare_metal.BareHosts(
            'b',
            None,
            [None, None],
            2,
            hosts=[worker],  # type: ignore
        )
        workload = baseline.workload(cluster, 10**9, None, None)
        self.assertEqual((8, 8), (workload.maps, workload.reduces))
        workload = baseline.workload(cluster, 1000, 3, 4)
        self.assertEqual((3, 4), (workload.maps, workload.reduces))
        cluster.tuning = 'vsan'
        workload = baseline.workload(cluster, 10**9, None, None)
        self.assertEqual((3, 3), (workload.maps, workload.reduces))
