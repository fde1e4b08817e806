# SPDX-License-Identifier: Apache-2.0
"""What was not inspected is never passed, and the report says all of it."""

import io
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import fixtures
import subunit
import testtools
from testtools.content import text_content

from hvstack.accept import check_result, report, test_results
from hvstack.accept.runner import Selection
from hvstack.accept.test_results import (
    DETAIL,
    FAILED,
    PACKAGE,
    PASSED,
    UNCHECKED,
    AcceptanceResult,
    AcceptanceTestResult,
)

GOOD = check_result.check_equal('ratio', 1, 1)
BAD = check_result.check_equal('ratio <b>', 1, 1.5, 'an excerpt')
TEST = f'{PACKAGE}.operator.test_ratios.RatiosTest.test_x[id-1,smoke]'


class Stream:
    """A stream as stestr keeps it."""

    def __init__(self) -> None:
        self.buffer = io.BytesIO()
        self.result = testtools.ExtendedToStreamDecorator(
            subunit.StreamResultToBytes(self.buffer)
        )
        self.result.startTestRun()

    def add(self, status: str, test_id: str = TEST, **kwargs: Any) -> 'Stream':
        """Add one test."""
        test = testtools.PlaceHolder(test_id)
        self.result.startTest(test)
        getattr(self.result, status)(test, **kwargs)
        self.result.stopTest(test)
        return self

    def read(self, *test_ids: str) -> list[AcceptanceTestResult]:
        """Return the results that the parser reads."""
        self.result.stopTestRun()
        return test_results.read_results(self.buffer.getvalue(), test_ids)


def details(*check_results: check_result.CheckResult) -> dict[str, Any]:
    text = check_result.dump_results(check_results)
    return {DETAIL: text_content(text)}


class ReadTest(testtools.TestCase):
    def verdict(self, stream: Stream, *test_ids: str) -> str:
        acceptance_result = AcceptanceResult(
            'c', 'now', stream.read(*test_ids)
        )
        return acceptance_result.verdict

    def test_passed(self) -> None:
        (test_result,) = (
            Stream().add('addSuccess', details=details(GOOD)).read(TEST)
        )
        self.assertEqual(PASSED, test_result.verdict)
        self.assertEqual('operator', test_result.scope)
        self.assertEqual('test_ratios.RatiosTest.test_x', test_result.test)
        self.assertEqual((GOOD,), test_result.check_results)

    def test_failed(self) -> None:
        (test_result,) = (
            Stream().add('addFailure', details=details(GOOD, BAD)).read()
        )
        self.assertEqual(FAILED, test_result.verdict)
        self.assertEqual(
            'ratio <b>: expected 1, observed 1.5', test_result.reason
        )

    def test_error_without_judgement(self) -> None:
        (test_result,) = (
            Stream()
            .add(
                'addError',
                details={'traceback': text_content('Traceback\nOops: no')},
            )
            .read()
        )
        self.assertEqual(FAILED, test_result.verdict)
        self.assertIn('Oops: no', test_result.reason)

    def test_error_of_several_lines(self) -> None:
        text = (
            'Traceback (most recent call last):\n'
            '  File "a.py", line 1, in test\n    self.look()\n'
            "hvstack.errors.CommandError: 'virsh' exited with status 1: "
            'error: failed\nerror: no connection\n'
        )
        (test_result,) = (
            Stream()
            .add('addError', details={'traceback': text_content(text)})
            .read()
        )
        self.assertEqual(
            "'virsh' exited with status 1: error: failed error: no connection",
            test_result.reason,
        )

    def test_skipped_is_not_checked(self) -> None:
        stream = Stream().add('addSkip', reason='not checked: no hosts')
        (test_result,) = stream.read()
        self.assertEqual(
            (UNCHECKED, 'no hosts'), (test_result.verdict, test_result.reason)
        )

    def test_success_that_looked_at_nothing(self) -> None:
        self.assertEqual(UNCHECKED, self.verdict(Stream().add('addSuccess')))

    def test_missing_test(self) -> None:
        stream = Stream().add('addSuccess', details=details(GOOD))
        other = TEST.replace('test_x', 'test_y')
        self.assertEqual(UNCHECKED, self.verdict(stream, TEST, other))

    def test_skipped_class_covers_its_tests(self) -> None:
        name = TEST.rpartition('.')[0]
        acceptance_result = AcceptanceResult(
            'c',
            'now',
            Stream()
            .add('addSkip', f'setUpClass ({name})', reason='no')
            .read(TEST),
        )
        self.assertEqual(
            ['all of test_ratios.RatiosTest'],
            [test_result.test for test_result in acceptance_result.results],
        )
        self.assertEqual(
            {'run': 1, 'passed': 0, 'failed': 0, 'skipped': 1},
            acceptance_result.counts,
        )

    def test_status(self) -> None:
        """Only what was seen and good ends with 0, unless told otherwise."""
        for verdicts, strict, allowed in (
            ((PASSED, PASSED), 0, 0),
            ((PASSED, UNCHECKED), 1, 0),
            ((UNCHECKED, FAILED), 1, 1),
            ((), 1, 0),
        ):
            results = [
                AcceptanceTestResult('host', 'a.A.t', verdict)
                for verdict in verdicts
            ]
            acceptance_result = AcceptanceResult('c', 'now', results)
            self.assertEqual(
                strict, acceptance_result.exit_status(False), verdicts
            )
            self.assertEqual(
                allowed, acceptance_result.exit_status(True), verdicts
            )

    def test_nothing_ran(self) -> None:
        self.assertEqual(UNCHECKED, AcceptanceResult('c', 'now').verdict)
        (test_result,) = test_results.read_results(b'', [TEST])
        self.assertEqual(
            (UNCHECKED, False), (test_result.verdict, test_result.ran)
        )


class ReportTest(testtools.TestCase):
    def test_all_forms(self) -> None:
        acceptance_result = AcceptanceResult(
            'mycloud',
            '2026-01-01',
            [
                AcceptanceTestResult(
                    'operator', 'a.A.test_a', PASSED, 1.0, '', (GOOD,)
                ),
                AcceptanceTestResult(
                    'operator', 'a.A.test_b', FAILED, 1.0, 'why', (BAD,)
                ),
                AcceptanceTestResult(
                    'host', 'all of b.B', UNCHECKED, reason='no access'
                ),
            ],
        )
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        report.write_report(acceptance_result, directory)
        data = json.loads((directory / 'report.json').read_text())
        self.assertEqual(FAILED, data['verdict'])
        self.assertEqual(3, data['stestr']['run'])
        suites = ElementTree.parse(directory / 'report.xml').getroot()
        self.assertEqual(
            [('operator', '2', '1', '0'), ('host', '1', '0', '1')],
            [
                tuple(
                    suite.attrib[name]
                    for name in ('name', 'tests', 'failures', 'skipped')
                )
                for suite in suites
            ],
        )
        page = (directory / 'report.html').read_text()
        self.assertIn('ratio &lt;b&gt;', page)
        self.assertIn('an excerpt', page)
        self.assertIn('<span class="not">not checked</span>', page)
        report.delete_report(directory)
        self.assertEqual([], list(directory.iterdir()))


class SelectionTest(testtools.TestCase):
    def test_words(self) -> None:
        chosen = Selection(('tenant', 'operator'), smoke=True)
        self.assertEqual(
            [
                r'hvstack\.tempest_plugin\.tests\.(operator|tenant)\.'
                r'.*\[.*\bsmoke\b',
                '--exclude-regex',
                r'\[.*\bdestructive\b',
            ],
            chosen.stestr_args,
        )
        self.assertEqual(
            1, len(Selection(('host',), destructive=True).stestr_args)
        )
