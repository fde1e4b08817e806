# SPDX-License-Identifier: Apache-2.0
"""Identities of runs: names are read and written in one place."""

import testtools

from hvstack import errors
from hvstack.model.configuration import Configuration, parse
from hvstack.model.target import BARE_METAL, BareMetal, parse_target
from hvstack.results.run_id import MAX_INDEX, RunId, parse_execution_id


class Targets(testtools.TestCase):
    def test_bare_metal(self) -> None:
        target = parse_target(BARE_METAL)
        self.assertEqual(BareMetal(), target)
        self.assertEqual(BARE_METAL, target.name)

    def test_configuration(self) -> None:
        for text in ('i4-dedicated', 'i4-c1-m1-local-dedicated-unpinned'):
            target = parse_target(text)
            self.assertIsInstance(target, Configuration)
            self.assertEqual(parse(text), target)
            self.assertEqual('i4-dedicated', target.label)

    def test_unknown(self) -> None:
        for text in ('', 'bare', 'bare metal', 'BARE-METAL', 'i1-i2'):
            self.assertRaises(errors.InputError, parse_target, text)


class RunIds(testtools.TestCase):
    def test_executions_of_several_sweeps(self) -> None:
        for name, execution in (
            (
                'study-a-v2-20261127-021905-118d-v12',
                'study-a-v2-20261127-021905-118d',
            ),
            ('trials-20261127-021905-118d-3-b', 'trials-20261127-021905-118d'),
            ('sweep-1-v2', 'sweep-1-v2'),
            ('sweep-1-search', 'sweep-1-search'),
        ):
            self.assertEqual(execution, parse_execution_id(name))

    def test_text(self) -> None:
        for name in (BARE_METAL, 'i2-c1.5-m1-local-shared-unpinned'):
            run_id = RunId('sweep-1.b_c', parse_target(name), 7)
            self.assertEqual(f'sweep-1.b_c/{name}/7', str(run_id))

    def test_identity(self) -> None:
        run_id = RunId('s', parse_target('i2'), 0)
        self.assertEqual(run_id, RunId('s', parse_target('i2-c1'), 0))
        self.assertEqual(1, len({run_id, RunId('s', parse('i2'), 0)}))
        for other in (
            RunId('t', parse('i2'), 0),
            RunId('s', parse('i1'), 0),
            RunId('s', BareMetal(), 0),
            RunId('s', parse('i2'), 1),
        ):
            self.assertNotEqual(run_id, other)

    def test_invalid(self) -> None:
        for sweep in ('', '../s', '.s', 'a/b', 'x' * 65, 'ü', 'a\n'):
            self.assertRaises(errors.InputError, RunId, sweep, BareMetal(), 0)
        for index in (-1, MAX_INDEX + 1):
            self.assertRaises(
                errors.InputError, RunId, 's', BareMetal(), index
            )
