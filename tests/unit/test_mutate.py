# SPDX-License-Identifier: Apache-2.0
"""The mutants of a module are its statements, deleted one at a time."""

import ast
from dataclasses import asdict
from pathlib import Path

import fixtures
import testtools

from tools import mutate
from tools.mutants import Mutant, list_mutants
from tools.mutation_children import Test, TestModule
from tools.mutation_run import Answer, State, Statement, make_plan

TOP = Path(__file__).parents[2]


class MutantsTest(testtools.TestCase):
    def list_texts(self, source: str) -> list[str]:
        return [mutant.statement for mutant in list_mutants(source)]

    def delete(self, source: str, statement: str) -> str:
        (mutant,) = (
            mutant
            for mutant in list_mutants(source)
            if mutant.statement == statement
        )
        mutated = mutant.apply(source)
        ast.parse(mutated)
        self.assertEqual(source.count('\n'), mutated.count('\n'))
        return mutated

    def test_each_statement_is_a_mutant(self) -> None:
        source = (
            'X = 1\n'
            'class A:\n'
            '    x: int\n'
            '    def f(self):\n'
            '        for y in z:\n'
            '            if y:\n'
            '                continue\n'
            '        try:\n'
            '            g()\n'
            '        except E:\n'
            '            raise\n'
            '        match y:\n'
            '            case 1:\n'
            '                return 2\n'
        )
        self.assertEqual(
            [
                *('X = 1', 'x: int', 'for y in z:', 'if y:', 'continue'),
                *('try:', 'g()', 'raise', 'match y:', 'return 2'),
            ],
            self.list_texts(source),
        )
        functions = {mutant.function for mutant in list_mutants(source)}
        self.assertEqual({'', 'A', 'A.f'}, functions)

    def test_what_decides_nothing_is_no_mutant(self) -> None:
        for source in (
            '"""Title."""\nimport x\nfrom y import z\n',
            'def f():\n    """Title."""\n    global x\n',
            'def f():\n    pass\n',
            'def f():\n    assert x\n',
            'def f():\n    x: int\n',
            'def f():\n    return\n',
            'def f():\n    return None\n',
            'if TYPE_CHECKING:\n    import x\n    X = 1\n',
            'class A(typing.Protocol):\n    x: int\n',
            '@overload\ndef f(): ...\n',
        ):
            self.assertEqual([], self.list_texts(source), source)
        self.assertEqual(
            ['if x:', 'return'],
            self.list_texts(
                'def f():\n    if x:\n        return\n    y: int\n'
            ),
        )

    def test_a_statement_is_replaced(self) -> None:
        source = 'def f():\n    x = g(\n        1,\n    )\n    return "ä", x\n'
        self.assertEqual(
            'def f():\n    pass\n\n\n    return "ä", x\n',
            self.delete(source, 'x = g(1)'),
        )
        self.assertEqual(
            source.replace('return "ä", x', 'pass'),
            self.delete(source, "return ('ä', x)"),
        )

    def test_a_whole_branch_is_replaced(self) -> None:
        source = (
            'if a:\n    b()\nelif c:\n    d()\nelse:\n    e()\nf("ö"); g()\n'
        )
        self.assertEqual(
            'pass\n\n\n\n\n\nf("ö"); g()\n', self.delete(source, 'if a:')
        )
        self.assertEqual(
            'if a:\n    b()\n\n\n\n\nf("ö"); g()\n',
            self.delete(source, 'if c:'),
        )
        self.assertEqual(
            source.replace('g()', 'pass'), self.delete(source, 'g()')
        )

    def test_a_generator_remains_a_generator(self) -> None:
        source = 'def f():\n    if x:\n        yield 1\n'
        self.assertEqual(
            'def f():\n    if x:\n        if False: yield\n',
            self.delete(source, 'yield 1'),
        )
        self.assertEqual(
            'def f():\n    if False: yield\n\n', self.delete(source, 'if x:')
        )
        self.assertIn(
            'pass', self.delete('f = lambda: (yield)', 'f = lambda: (yield)')
        )

    def test_equal_statements_have_numbers(self) -> None:
        source = (
            'def f():\n    x()\n    x()\ndef g():\n    if x:\n        x()\n'
        )
        self.assertEqual(
            [('f', 1), ('f', 2), ('g', 1)],
            [
                (mutant.function, mutant.occurrence)
                for mutant in list_mutants(source)
                if mutant.statement == 'x()'
            ],
        )

    def test_lines_that_execute_a_statement(self) -> None:
        source = (
            'if (a and\n        b):\n    c()\n'
            'for d in (\n    e\n):\n    f(\n        g\n    )\n'
            'if h: i()\n'
        )
        self.assertEqual(
            [(1, 2), (3, 3), (4, 6), (7, 9), (10, 10), (10, 10)],
            [(m.line, m.last_line) for m in list_mutants(source)],
        )


class PlanTest(testtools.TestCase):
    PATH = 'hvstack/x.py'

    def make_module(
        self, name: str, imported: int, failed: str = '', **lines: int
    ) -> TestModule:
        """Return a test module; each test executes a line for a second."""
        tests = {
            f'{name}.{test}': Test(1.0, {self.PATH: [line]})
            for test, line in lines.items()
        }
        pseudo_test = Test(0.0, {self.PATH: [imported]})
        return TestModule(name, 'digest', pseudo_test, tests, [failed])

    def make_statement(self, line: int, *first_tests: str) -> Statement:
        mutant = Mutant('f', 'x()', 1, line, line, (0, 3), 'pass')
        return Statement('lint', self.PATH, 'x()', mutant, first_tests)

    def test_first_the_tests_that_execute_the_statement(self) -> None:
        modules = [
            self.make_module('slow', 1, x=5, y=5, z=6),
            self.make_module('fast', 1, x=5),
            self.make_module('named', 1, x=5, y=5, z=5),
            self.make_module('other', 1, x=7),
        ]
        plan = make_plan(self.make_statement(5, 'named'), modules)
        self.assertEqual(
            [
                ('named', ['named.x', 'named.y', 'named.z']),
                ('fast', ['fast.x']),
                ('slow', ['slow.x', 'slow.y']),
                ('slow', ['slow.z']),
            ],
            [(name, list(tests)) for name, tests in plan],
        )

    def test_all_tests_execute_what_the_import_executes(self) -> None:
        module = self.make_module('first', 1, x=5, y=6)
        plan = make_plan(self.make_statement(1), [module])
        self.assertEqual([('first', {'first.x': 1.0, 'first.y': 1.0})], plan)

    def test_a_test_that_fails_anyway_is_not_used(self) -> None:
        module = self.make_module('first', 1, failed='first.x', x=5)
        self.assertEqual([], make_plan(self.make_statement(5), [module]))


class StateTest(testtools.TestCase):
    def test_a_survivor_runs_again_with_other_tests(self) -> None:
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'state'
        mutant = Mutant('f', 'x()', 1, 5, 5, (0, 3), 'pass')
        statement = Statement('lint', 'x.py', 'x()', mutant)
        # The test that killed a mutant may be deleted.
        for status, expected in (
            ('killed', {'digest': 'killed', 'other': None}),
            ('survived', {'digest': 'survived', 'other': None}),
        ):
            answer = Answer(status, digest='digest')
            State(path).add({'key': statement.key, 'answer': asdict(answer)})
            state = State(path)
            for digest, old_status in expected.items():
                old = state.get_answer(statement, digest)
                self.assertEqual(old_status, old and old.status)
        with path.open('a', encoding='utf-8') as file:
            file.write('{"key": "half of a li')
        self.assertIsNotNone(State(path).get_answer(statement, 'digest'))


class ReportTest(testtools.TestCase):
    def test_accepted_survivors_are_counted_apart(self) -> None:
        statements = [
            Statement('lint', 'x.py', 'a()\nb()\n', mutant)
            for mutant in list_mutants('a()\nb()\nc()\n')
        ]
        answers = [
            (statement, Answer(status))
            for statement, status in zip(
                statements, ('survived', 'not executed', 'killed'), strict=True
            )
        ]
        accepted = mutate.load_accepted(
            'x.py:\n'
            '- {function: "", statement: a(), reason: It only logs.}\n'
            '- {function: "", statement: c(), reason: It only logs.}\n'
        )
        report = mutate.build_report(answers, accepted)
        self.assertEqual(
            {'lint': {'accepted': 1, 'not executed': 1, 'killed': 1}},
            report['counts'],
        )
        self.assertEqual(
            ['b()'], [s['statement'] for s in report['survivors']]
        )
        self.assertEqual([('x.py', '', 'c()', 1)], report['unneeded'])
        self.assertIn(
            'x.py:2: not executed: b()',
            mutate.format_table(report['survivors']),
        )

    def test_an_accepted_survivor_is_one_of_equal_statements(self) -> None:
        accepted = mutate.load_accepted(
            'x.py:\n'
            '- {function: f, statement: a(), occurrence: 2, reason: Log.}\n'
            '- {function: f, statement: b(), reason: Log.}\n'
        )
        self.assertEqual(
            {('x.py', 'f', 'a()', 2), ('x.py', 'f', 'b()', 1)}, set(accepted)
        )


class TablesTest(testtools.TestCase):
    """The tables name modules and statements that exist."""

    def test_modules_and_tests_exist(self) -> None:
        for group, row in mutate.GROUPS.items():
            names = mutate.list_test_modules([group])[group]
            for path, first_tests in row.modules.items():
                self.assertTrue((TOP / path).is_file(), path)
                self.assertNotEqual((), first_tests)
                for name in first_tests:
                    self.assertIn(f'tests.unit.{name}', names, path)

    def test_accepted_survivors_are_statements_with_a_reason(self) -> None:
        accepted = mutate.load_accepted(mutate.ACCEPTED.read_text('utf-8'))
        paths = {path for path, _, _, _ in accepted}
        existing = {
            (path, mutant.function, mutant.statement, mutant.occurrence)
            for path in paths
            for mutant in list_mutants((TOP / path).read_text('utf-8'))
        }
        self.assertEqual(set(), set(accepted) - existing)
        for identity, reason in accepted.items():
            self.assertRegex(reason, r'^[A-Z].+\.$', identity)
