# SPDX-License-Identifier: Apache-2.0
"""A host that a killed test left without power gets it back."""

import json
import stat
from pathlib import Path

import fixtures
import testtools

from hvstack import errors
from hvstack.accept import power


class PowerTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.done = self.directory / 'done'
        self.off, self.on = (
            f"sh -c 'echo {word} {{host}} >>{self.done}'"
            for word in ('off', 'on')
        )

    def test_note_that_cannot_be_read(self) -> None:
        path = self.directory / 'without-power-c1.json'
        path.mkdir()
        error = self.assertRaises(
            errors.CloudError, list, power.restore_power(self.directory)
        )
        self.assertIn('Use a regular file. Power the host on', str(error))

    def notes(self) -> list[Path]:
        return list(self.directory.glob('*.json'))

    def test_cut_and_back(self) -> None:
        power.power_off(self.directory, 'h1', self.off, self.on)
        (note,) = self.notes()
        self.assertEqual(0o600, stat.S_IMODE(note.stat().st_mode))
        power.power_on(self.directory, 'h1', self.on)
        self.assertEqual('off h1\non h1\n', self.done.read_text())
        self.assertEqual([], self.notes())
        self.assertEqual([], list(power.restore_power(self.directory)))

    def test_noted_before_it_is_cut(self) -> None:
        """Whatever ends the test then."""
        self.assertRaises(
            errors.CommandError,
            power.power_off,
            *(self.directory, 'h1', 'false', self.on),
        )
        self.assertEqual(['h1'], list(power.restore_power(self.directory)))
        self.assertEqual('on h1\n', self.done.read_text())
        self.assertEqual([], self.notes())

    def test_host_that_stays_off(self) -> None:
        power.power_off(self.directory, 'h1', self.off, 'false')
        (note,) = self.notes()
        for text in (note.read_text(), 'no note', '[]'):
            note.write_text(text)
            error = self.assertRaises(
                errors.CloudError, list, power.restore_power(self.directory)
            )
            self.assertIn(f'then delete {note}', str(error))
            self.assertNotIn('\n', str(error))
            self.assertTrue(note.exists())

    def test_note_that_no_test_wrote(self) -> None:
        note = self.directory / 'without-power-h1.json'
        good = {'host': 'h1', 'command': self.on}
        for data in (
            *({}, {'host': 'h1'}, {**good, 'zzz': 1}, {**good, 'host': 7}),
            *({**good, 'host': '$(id)'}, {**good, 'command': ['sh']}),
        ):
            note.write_text(json.dumps(data))
            error = self.assertRaises(
                errors.CloudError, list, power.restore_power(self.directory)
            )
            self.assertIn(f'{note}:1', str(error))
        self.assertFalse(self.done.exists())
