# SPDX-License-Identifier: Apache-2.0
"""The result of a check, and its text that a Tempest test attaches."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TypeVar

#: Value of a check that has no values.
NONE = 'none'
_Value = TypeVar('_Value')


@dataclass(frozen=True)
class CheckResult:
    """The result of a check.

    :param subject: subject of the check.
    :param expected: expected value.
    :param observed: observed value.
    :param good: whether the check passed.
    :param evidence: longer excerpt of the observed data; may be empty.
    """

    subject: str
    expected: str
    observed: str
    good: bool
    evidence: str = ''

    def __str__(self) -> str:
        return (
            f'{self.subject}: expected {self.expected}, observed '
            f'{self.observed}'
        )


def dump_results(check_results: Iterable[CheckResult]) -> str:
    """Return the results as the text that a test attaches to its result."""
    return json.dumps([asdict(check) for check in check_results], indent=1)


def load_results(text: str) -> list[CheckResult]:
    """Parse the text of :func:`dump_results`."""
    return [CheckResult(**fields) for fields in json.loads(text)]


def check_equal(
    subject: str, expected: _Value, observed: _Value, evidence: str = ''
) -> CheckResult:
    """Check that the observed value equals the expected value."""
    return CheckResult(
        subject, str(expected), str(observed), expected == observed, evidence
    )
