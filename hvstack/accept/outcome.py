# SPDX-License-Identifier: Apache-2.0
"""Results of an acceptance, read from stestr's own stream.

So ``stestr last`` and the report have the same counts. What could not be
looked at is "not checked", never passed.
"""

import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from hvstack import errors
from hvstack.accept import judge
from hvstack.accept.judge import Judgement

#: Name of the detail with which a test hands over its judgements.
DETAIL = 'judgements'
RINGS = ('tenant', 'operator', 'host')
PACKAGE = 'hvstack.tempest_plugin.tests'
PASSED, FAILED, UNCHECKED = 'passed', 'failed', 'not checked'
_TEST = re.compile(rf'{re.escape(PACKAGE)}\.(?P<ring>\w+)\.(?P<rest>[\w.]+)')
#: How a traceback names the error in the end, and one of our own.
_ERROR = re.compile(r'[A-Za-z_][\w.]*: ')
_OURS = re.compile(r'^hvstack\.errors\.\w+: ')
_TAGS = re.compile(r'\[(?P<tags>[^\]]*)\]$')


@dataclass(frozen=True)
class Result:
    """What became of one test, or of a class that could not begin.

    :param test: module, class and test, without the ring's package.
    :param verdict: ``passed``, ``failed`` or ``not checked``.
    :param reason: why it is not passed.
    :param ran: it stands in stestr's stream.
    """

    ring: str
    test: str
    verdict: str
    seconds: float = 0.0
    reason: str = ''
    judgements: tuple[Judgement, ...] = ()
    ran: bool = True


@dataclass
class Outcome:
    """All results of one acceptance.

    :param cloud: its name.
    :param began: date and time.
    """

    cloud: str
    began: str
    results: list[Result] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """What stestr counts."""
        found = Counter(one.verdict for one in self.results if one.ran)
        return {
            'run': sum(found.values()),
            'passed': found[PASSED],
            'failed': found[FAILED],
            'skipped': found[UNCHECKED],
        }

    @property
    def verdict(self) -> str:
        """``failed``, ``not checked`` or ``passed``, the worst of all."""
        verdicts = {one.verdict for one in self.results}
        if FAILED in verdicts:
            return FAILED
        return UNCHECKED if UNCHECKED in verdicts or not verdicts else PASSED

    def status(self, allow_unchecked: bool) -> int:
        """Return the exit status: 0 only where nothing is wrong or unseen.

        :param allow_unchecked: what could not be looked at may be passed
            over.
        """
        allowed = (PASSED, UNCHECKED) if allow_unchecked else (PASSED,)
        return int(self.verdict not in allowed)

    def to_mapping(self) -> dict[str, Any]:
        """Return plain data, as the report's JSON."""
        return {
            'cloud': self.cloud,
            'began': self.began,
            'verdict': self.verdict,
            'stestr': self.counts,
            'results': [asdict(one) for one in self.results],
        }


def read(stream: bytes, listed: Iterable[str]) -> list[Result]:
    """Return results by ring.

    :param stream: of ``stestr last --subunit``.
    :param listed: ids of the tests that should have run: one that is
        missing is "not checked".
    :raises hvstack.errors.RunFailed: it is no such stream.
    """
    # Of the extra 'tempest', like all that leaves such a stream.
    import subunit
    import testtools

    results: list[Result] = []
    begun: set[str] = set()

    def one(found: Any) -> None:
        begun.add(found['id'])
        if (result := _result(found)) is not None:
            results.append(result)

    reader = testtools.StreamToDict(one)
    reader.startTestRun()
    try:
        subunit.ByteStreamToStreamResult(
            io.BytesIO(stream), non_subunit_name='output'
        ).run(reader)
    finally:
        reader.stopTestRun()
    if stream and not begun:
        raise errors.RunFailed(
            'stestr left no results: run it again, then look at its log'
        )
    classes = {one.test for one in results if one.test.startswith('all of ')}
    for name in listed:
        ring, test = place(name)
        if name not in begun and f'all of {test.rpartition(".")[0]}' not in (
            classes
        ):
            results.append(
                Result(
                    ring, test, UNCHECKED, reason='it did not run', ran=False
                )
            )
    return sorted(results, key=lambda one: (_ring(one.ring), one.test))


def _ring(name: str) -> int:
    return RINGS.index(name) if name in RINGS else len(RINGS)


def place(test_id: str) -> tuple[str, str]:
    """Return a test's ring and its short name."""
    found = _TEST.search(test_id)
    if found is None:
        return '', _TAGS.sub('', test_id)
    ring, rest = found['ring'], found['rest']
    if test_id.startswith(('setUpClass', 'tearDownClass')):
        rest = f'all of {rest}'
    return ring, rest


def tags(test_id: str) -> set[str]:
    """Return a test's tags, such as ``smoke``."""
    found = _TAGS.search(test_id)
    return set(found['tags'].split(',')) if found else set()


def _result(found: dict[str, Any]) -> Result | None:
    status = found['status']
    if found['id'] == 'output' or status in ('exists', None):
        return None
    ring, test = place(found['id'])
    details = found['details']
    judged: Sequence[Judgement] = ()
    if DETAIL in details:
        judged = judge.loads(details[DETAIL].as_text())
    reason = ''
    if status == 'skip':
        reason = details['reason'].as_text() if 'reason' in details else ''
        reason = reason.removeprefix('not checked: ')
    elif status not in ('success', 'xfail'):
        reason = _why(details, judged)
    # A test that judged nothing has not looked at anything.
    empty = status == 'success' and ring in RINGS and not judged
    begin, end = found['timestamps']
    return Result(
        ring=ring,
        test=test,
        verdict=UNCHECKED
        if status == 'skip' or empty
        else (PASSED if status in ('success', 'xfail') else FAILED),
        seconds=(
            round((end - begin).total_seconds(), 1) if begin and end else 0.0
        ),
        reason='it looked at nothing' if empty else reason,
        judgements=tuple(judged),
    )


def _why(details: dict[str, Any], judged: Sequence[Judgement]) -> str:
    """Return why a test failed in one line: a promise, or the error."""
    bad = [
        f'{one.what}: promised {one.promised}, seen {one.seen}'
        for one in judged
        if not one.good
    ]
    if bad:
        return '; '.join(bad[:5])
    text = ''.join(
        detail.as_text()
        for name, detail in details.items()
        if name.startswith('traceback')
    )
    lines = [line for line in text.splitlines() if line.strip()]
    # After the last frame, which is indented; perhaps of several lines.
    first = max(
        (
            number
            for number, line in enumerate(lines)
            if _ERROR.match(line) and lines[number - 1].startswith((' ', 'Tr'))
        ),
        default=len(lines) - 1,
    )
    why = ' '.join(' '.join(lines[first:]).split())
    return _OURS.sub('', why)[:500] or 'it was cut off'
