# SPDX-License-Identifier: Apache-2.0
"""Results of an acceptance, from the stream of stestr.

``stestr last`` and the report therefore have the same counts. A test that
could not check anything is "not checked", never passed.
"""

import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from hvstack import errors
from hvstack.accept import check_result
from hvstack.accept.check_result import CheckResult
from hvstack.model.plain_data import JsonObject

if TYPE_CHECKING:
    # testtools belongs to the extra 'tempest'.
    from testtools.testresult.real import DetailsDict, TestDict

#: Name of the detail of a test with its checks.
DETAIL = 'check_results'
SCOPES = ('tenant', 'operator', 'host')
PACKAGE = 'hvstack.tempest_plugin.tests'
PASSED, FAILED, UNCHECKED = 'passed', 'failed', 'not checked'
_TEST = re.compile(rf'{re.escape(PACKAGE)}\.(?P<scope>\w+)\.(?P<rest>[\w.]+)')
#: The last line of a traceback, and that of an error of hvstack.
_ERROR = re.compile(r'[A-Za-z_][\w.]*: ')
_HVSTACK_ERROR = re.compile(r'^hvstack\.errors\.\w+: ')
_TAGS = re.compile(r'\[[^\]]*\]$')


@dataclass(frozen=True)
class AcceptanceTestResult:
    """The result of a test, or of a class whose set-up failed.

    :param scope: scope of the test.
    :param test: module, class and test, without the package of the scope.
    :param verdict: ``passed``, ``failed`` or ``not checked``.
    :param seconds: duration in seconds.
    :param reason: why the test did not pass.
    :param check_results: checks of the test.
    :param ran: whether the stream of stestr contains the test.
    """

    scope: str
    test: str
    verdict: str
    seconds: float = 0.0
    reason: str = ''
    check_results: tuple[CheckResult, ...] = ()
    ran: bool = True


@dataclass
class AcceptanceResult:
    """The results of an acceptance.

    :param cloud: name of the cloud.
    :param started_at: date and time of the start.
    :param results: results of the tests.
    """

    cloud: str
    started_at: str
    results: list[AcceptanceTestResult] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """Number of tests by verdict, as stestr counts them."""
        counts = Counter(
            result.verdict for result in self.results if result.ran
        )
        return {
            'run': sum(counts.values()),
            'passed': counts[PASSED],
            'failed': counts[FAILED],
            'skipped': counts[UNCHECKED],
        }

    @property
    def verdict(self) -> str:
        """``failed``, ``not checked`` or ``passed``, the worst verdict."""
        verdicts = {result.verdict for result in self.results}
        if FAILED in verdicts:
            return FAILED
        return UNCHECKED if UNCHECKED in verdicts or not verdicts else PASSED

    def exit_status(self, allow_unchecked: bool) -> int:
        """Return the exit status: 0 only if all tests passed.

        :param allow_unchecked: whether tests that are not checked count as
            passed.
        """
        allowed = (PASSED, UNCHECKED) if allow_unchecked else (PASSED,)
        return int(self.verdict not in allowed)

    def to_mapping(self) -> JsonObject:
        """Return the data of the JSON report."""
        return {
            'cloud': self.cloud,
            'began': self.started_at,
            'verdict': self.verdict,
            'stestr': self.counts,
            'results': [asdict(result) for result in self.results],
        }


def read_results(
    stream: bytes, test_ids: Iterable[str]
) -> list[AcceptanceTestResult]:
    """Return the results, sorted by scope.

    :param stream: output of ``stestr last --subunit``.
    :param test_ids: IDs of the tests that should have run: a test that is
        missing is "not checked".
    :raises hvstack.errors.RunFailedError: the stream has no results.
    """
    # These packages belong to the extra 'tempest'.
    import subunit
    import testtools

    results: list[AcceptanceTestResult] = []
    started_ids: set[str] = set()

    def add_result(test_dict: 'TestDict') -> None:
        started_ids.add(test_dict['id'])
        if (result := _to_result(test_dict)) is not None:
            results.append(result)

    reader = testtools.StreamToDict(add_result)
    reader.startTestRun()
    try:
        subunit.ByteStreamToStreamResult(
            io.BytesIO(stream), non_subunit_name='output'
        ).run(reader)
    finally:
        reader.stopTestRun()
    if stream and not started_ids:
        raise errors.RunFailedError(
            'Cannot read the results of the tests: stestr wrote none. Run the '
            'tests again, and check the log of stestr.'
        )
    classes = {
        result.test for result in results if result.test.startswith('all of ')
    }
    for name in test_ids:
        scope, test = parse_test_id(name)
        if (
            name not in started_ids
            and f'all of {test.rpartition(".")[0]}' not in (classes)
        ):
            results.append(
                AcceptanceTestResult(
                    scope, test, UNCHECKED, reason='it did not run', ran=False
                )
            )
    return sorted(
        results, key=lambda result: (_scope_order(result.scope), result.test)
    )


def _scope_order(name: str) -> int:
    return SCOPES.index(name) if name in SCOPES else len(SCOPES)


def parse_test_id(test_id: str) -> tuple[str, str]:
    """Return the scope and the short name of a test."""
    match = _TEST.search(test_id)
    if match is None:
        return '', _TAGS.sub('', test_id)
    scope, test = match['scope'], match['rest']
    if test_id.startswith(('setUpClass', 'tearDownClass')):
        test = f'all of {test}'
    return scope, test


def _to_result(test_dict: 'TestDict') -> AcceptanceTestResult | None:
    status = test_dict['status']
    if test_dict['id'] == 'output' or status in ('exists', None):
        return None
    scope, test = parse_test_id(test_dict['id'])
    details = test_dict['details']
    check_results: Sequence[CheckResult] = ()
    if DETAIL in details:
        check_results = check_result.load_results(details[DETAIL].as_text())
    reason = ''
    if status == 'skip':
        reason = details['reason'].as_text() if 'reason' in details else ''
        reason = reason.removeprefix('not checked: ')
    elif status not in ('success', 'xfail'):
        reason = _failure_reason(details, check_results)
    # A test without checks has not checked anything.
    empty = status == 'success' and scope in SCOPES and not check_results
    begin, end = test_dict['timestamps']
    return AcceptanceTestResult(
        scope=scope,
        test=test,
        verdict=UNCHECKED
        if status == 'skip' or empty
        else (PASSED if status in ('success', 'xfail') else FAILED),
        seconds=(
            round((end - begin).total_seconds(), 1) if begin and end else 0.0
        ),
        reason='it checked nothing' if empty else reason,
        check_results=tuple(check_results),
    )


def _failure_reason(
    details: 'DetailsDict', check_results: Sequence[CheckResult]
) -> str:
    """Return why a test failed in one line: failed checks, or the error."""
    bad = [str(check) for check in check_results if not check.good]
    if bad:
        return '; '.join(bad[:5])
    text = ''.join(
        detail.as_text()
        for name, detail in details.items()
        if name.startswith('traceback')
    )
    lines = [line for line in text.splitlines() if line.strip()]
    # The error follows the last frame, which is indented, and may have
    # several lines.
    first = max(
        (
            index
            for index, line in enumerate(lines)
            if _ERROR.match(line) and lines[index - 1].startswith((' ', 'Tr'))
        ),
        default=len(lines) - 1,
    )
    message = ' '.join(' '.join(lines[first:]).split())
    return _HVSTACK_ERROR.sub('', message)[:500] or 'it was interrupted'
