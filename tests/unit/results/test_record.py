# SPDX-License-Identifier: Apache-2.0
"""Test how run records are written, read and refused."""

import json
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors
from hvstack.results import record, record_data, signing
from tests.unit.results import factory
from tests.unit.results.factory import run


class Records(testtools.TestCase):
    """A record is read as it was written, or refused."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)

    def changed(self, **changes: object) -> str:
        """Return why a record with changed fields is refused."""
        path = record.save(run('i1', 0, 100), self.directory)
        data = json.loads(path.read_text())
        data.update(changes)
        path.write_text(json.dumps(data))
        exc = self.assertRaises(errors.InputError, record.load, path)
        path.unlink()
        self.assertIn(str(path), str(exc))
        return str(exc)

    def test_round_trip(self) -> None:
        record_ = run('i1', 1, 100, started='2026-11-21T05:45:00Z')
        record_ = factory.tell(record_, more={'hv-host2': (0.65, 5120)})
        path = record.save(record_, self.directory)
        self.assertEqual(
            f'20261121T054500Z-i1-c1-m1-local-shared-unpinned-{record_.id}.json',
            path.name,
        )
        again = record.load(path)
        self.assertEqual(record_.computed_digest(), again.digest)
        facts = again.observations.facts
        self.assertEqual({'hv-host2': [0.65, 5120]}, facts['more'])
        self.assertEqual(record_.phases, again.phases)
        self.assertEqual(record_data.sign(record_), again)

    def test_canonical_text(self) -> None:
        """The digests and signatures of all records are those of this text."""
        document = record_data.sign(run('i1', 1, 100)).document
        document['seen'] = {'b': [1, 2.5, None], 'a': {'d': 'e f', 'c': 'ü"'}}
        text = record_data.from_document(document, 'file').canonical()
        self.assertTrue(text.isascii())
        self.assertIn(
            r'"seen":{"a":{"c":"\u00fc\"","d":"e f"},"b":[1,2.5,null]}', text
        )
        content = json.loads(text)
        self.assertEqual(sorted(content), list(content))
        self.assertEqual({'digest', 'signature'}, set(document) - set(content))

    def test_canonical_text_has_finite_numbers(self) -> None:
        document = run('i1', 1, 100).document
        for value in (float('nan'), float('inf')):
            document['seen'] = {'a': [value]}
            self.assertRaises(
                ValueError,
                record_data.from_document(document, 'file').canonical,
            )

    def test_second_phase_of_a_name(self) -> None:
        self.assertEqual(
            ['HSGen', 'HSDataCheck', 'HSSort', 'HSDataCheck 2', 'HSValidate'],
            list(run('i1', 0, 100).phase_seconds()),
        )

    def test_edited(self) -> None:
        self.assertIn('edited', self.changed(maps=99))
        self.assertIn('edited', self.changed(digest='0' * 64))

    def test_half_written(self) -> None:
        path = record.save(run('i1', 0, 100), self.directory)
        path.write_text(path.read_text()[:-20])
        exc = self.assertRaises(errors.InputError, record.load, path)
        self.assertIn('not a complete run record', str(exc))

    def test_job_id_that_is_no_text(self) -> None:
        record_ = run('i1', 0, 100)
        for value in ([[]], {'a': 1}, 7):
            exc = self.assertRaises(
                errors.InputError,
                factory.edit,
                record_,
                'phases/2/job_id',
                value,
            )
            self.assertIn("'phases.2.job_id'", str(exc))
            phases = factory.stored_phases(record_)
            phases[2]['job_id'] = value
            self.assertIn("'phases.2.job_id'", self.changed(phases=phases))

    def test_newer_release(self) -> None:
        self.assertIn('Update hvstack', self.changed(schema=2))

    def test_bad_fields(self) -> None:
        for name, value in (
            ('schema', '1'),
            ('kind', 'guess'),
            ('index', 1.5),
            ('index', True),
            ('valid', 1),
            ('started', 'yesterday'),
            ('started', '2026-11-21/05:45:00'),
            ('id', '../../journal/hosts/pwn'),
            ('id', ''),
            ('id', 'A' * 32),
            ('sweep', '../quick'),
            ('sweep', 'quick\n'),
            ('sweep', ''),
            ('configuration', 'i1\0'),
            ('phases', [{'name': 'HSGen'}]),
            ('phases', [{'name': 'HSGen', 'seconds': -1}]),
            ('phases', [3]),
            ('seen', []),
            ('configuration', '../../etc'),
            ('rate', 99.0),
            ('total_seconds', 0),
            ('extra', 1),
        ):
            self.assertIn(name, self.changed(**{name: value}))

    def test_what_json_cannot_hold(self) -> None:
        for value in (float('nan'), {1, 2}):
            self.assertRaises(
                errors.InputError, factory.tell, run('i1', 0, 100), x=value
            )
        self.assertEqual([], list(self.directory.iterdir()))

    def test_each_bad_field_is_explained(self) -> None:
        document = run('i1', 0, 100).document
        for name, value, expected in (
            ('kind', 'guess', 'is none of configuration, baseline'),
            ('sweep', '../quick', "is '../quick', not a name"),
            ('configuration', '../i1', 'is no name'),
            ('started', '2026-13-40T05:45:00Z', 'is no ISO 8601 time'),
            ('ended', 'now', 'is not a time such as'),
        ):
            error = self.assertRaises(
                errors.InputError,
                record_data.from_document,
                {**document, name: value},
                'file',
            )
            self.assertIn(f"'{name}' {expected}", str(error))
        for name in set(document) - record_data.OPTIONAL_KEYS:
            error = self.assertRaises(
                errors.InputError,
                record_data.from_document,
                {key: value for key, value in document.items() if key != name},
                'file',
            )
            problem = (
                'is None, not a run' if name == 'schema' else 'is missing'
            )
            self.assertIn(f"'{name}' {problem}", str(error))
        error = self.assertRaises(
            errors.InputError, record_data.from_document, [], 'file'
        )
        self.assertIn("'content' is not a mapping", str(error))

    def test_control_characters_of_programs_are_replaced(self) -> None:
        killed = ['OOM kill of \x1b[31mjava', {'line\x00': ['a\rb', 1]}]
        record_ = factory.tell(run('i1', 0, 100), messages=killed)
        self.assertEqual(
            ['OOM kill of \ufffd[31mjava', {'line\ufffd': ['a\ufffdb', 1]}],
            record_.observations.facts['messages'],
        )

    def test_no_room(self) -> None:
        full = Path(self.useFixture(fixtures.TempDir()).path) / 'file'
        full.touch()
        error = self.assertRaises(
            errors.MissingPrerequisiteError,
            record.save,
            run('i1', 0, 60),
            full,
        )
        self.assertIn(f'Cannot write the run record ({full}', str(error))
        self.assertNotIn('\n', str(error))

    def test_load_all(self) -> None:
        for index, started in enumerate(('T12', 'T10', 'T11')):
            record.save(
                run('i1', index, 100, started=f'2026-11-21{started}:00:00Z'),
                self.directory,
            )
        record.save(run('i1', 7, 100, sweep='other'), self.directory)
        (self.directory / '.half.json.x1').write_text('{')
        (self.directory / '.half.json').write_text('{')
        records = record.load_all(self.directory, 'quick')
        self.assertEqual([1, 2, 0], [record_.index for record_ in records])
        self.assertEqual(4, len(record.load_all(self.directory)))
        (self.directory / 'x.json').write_text('{')
        self.assertRaises(errors.InputError, record.load_all, self.directory)

    def test_control_characters(self) -> None:
        """No file contains them, but a row of a database can."""
        record_ = run('i1', 0, 100)
        facts = dict(record_.sut.facts)
        changes = {'environment': {**facts, 'cpu_model': 'Xeon\x1b[2J'}}
        error = self.assertRaises(
            errors.InputError,
            record.verify_record,
            {**record_.document, **changes},
            '',
            'row 1',
            signing.policy(True),
        )
        self.assertIn('a text contains control characters', str(error))

    def test_stored_text_is_not_encoded_again(self) -> None:
        """The digest covers it; other texts with the same content differ."""
        path = record.save(run('i1', 0, 100), self.directory)
        calls: list[str] = []
        canonical = record_data.RunRecord.canonical

        def count(run_record: record_data.RunRecord) -> str:
            calls.append(run_record.id)
            return canonical(run_record)

        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.results.record_data.RunRecord.canonical', count
            )
        )
        record.load(path)
        self.assertEqual([], calls)
        # Releases until now stored it with blanks.
        text = path.read_text()
        path.write_text(json.dumps(json.loads(text), indent=1))
        record.load(path)
        self.assertEqual(1, len(calls))
        path.write_text(text.replace('"maps":6', '"maps":7'))
        error = self.assertRaises(errors.InputError, record.load, path)
        self.assertIn('was edited', str(error))

    def test_rate(self) -> None:
        self.assertEqual(1.0, record_data.compute_rate(10**12, 3600))
        for size, seconds in ((0, 1), (1, 0), (1, float('inf'))):
            self.assertRaises(
                errors.InputError, record_data.compute_rate, size, seconds
            )


class ConflictsTest(testtools.TestCase):
    """Records that cannot be true together."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)

    def save(
        self, index: int, start: str, seconds: int = 100, **options: Any
    ) -> Path:
        """Save a run that starts at a time of the day."""
        started = f'2026-11-21T{start}Z'
        return record.save(
            run('i1', index, seconds, started=started, **options),
            self.directory,
        )

    def list_invalid(self) -> list[str]:
        return [
            invalid.reason for invalid in record.load_usable(self.directory)[1]
        ]

    def test_a_file_with_another_name(self) -> None:
        path = self.save(0, '05:00:00')
        path.rename(self.directory / 'mine.json')
        (reason,) = self.list_invalid()
        self.assertIn("does not end with the record's id", reason)

    def test_a_copy(self) -> None:
        path = self.save(0, '05:00:00')
        copy = self.directory / f'z-{path.name}'
        copy.write_text(path.read_text())
        (reason,) = self.list_invalid()
        self.assertIn(f"{copy}: 'id' is that of {path.name}", reason)
        (usable,) = record.load_usable(self.directory)[0]
        self.assertEqual(record.load(path), usable)

    def test_a_valid_run_is_never_repeated(self) -> None:
        first, second = (
            self.save(0, start) for start in ('05:00:00', '06:00:00')
        )
        reasons = self.list_invalid()
        self.assertEqual(2, len(reasons))
        self.assertIn(f'are those of {second.name}: a valid run', reasons[1])
        self.assertIn(f'are those of {first.name}: a valid run', reasons[0])

    def test_a_failed_run_is_repeated(self) -> None:
        for start in ('05:00:00', '06:00:00'):
            self.save(0, start, reason='its cluster died')
        self.save(0, '07:00:00')
        self.save(0, '08:00:00', size=2 * 10**9)
        self.save(0, '08:00:00', sweep='other')
        self.assertEqual([], self.list_invalid())

    def test_a_sweep_does_one_run_after_the_other(self) -> None:
        # Times have whole seconds.
        self.save(0, '05:00:00')
        self.save(1, '05:01:38')
        self.assertEqual([], self.list_invalid())
        long = self.save(2, '06:00:00', 600)
        short = self.save(3, '06:01:00', 60)
        last = self.save(4, '06:05:00', 60)
        reasons = {
            reason.partition(':')[0]: reason for reason in self.list_invalid()
        }
        self.assertEqual({str(long), str(short), str(last)}, set(reasons))
        for path in (short, last):
            self.assertIn(
                f'overlap with the run in {long.name}', reasons[str(path)]
            )
