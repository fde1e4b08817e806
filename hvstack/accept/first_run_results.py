# SPDX-License-Identifier: Apache-2.0
"""Results of the checklist for the first run on hosts with KVM.

An item that could not be checked is "not checked", never held.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hvstack.accept.check_result import CheckResult
from hvstack.accept.first_run_items import ITEMS, FirstRunItem
from hvstack.accept.test_results import (
    FAILED,
    PASSED,
    UNCHECKED,
    AcceptanceTestResult,
)

#: Verdicts of an item, and those of the acceptance report.
HELD, NOT_HELD = 'held', 'did not hold'
_REPORT_VERDICTS = {HELD: PASSED, NOT_HELD: FAILED, UNCHECKED: UNCHECKED}
#: Scope of the items in the acceptance report.
_SCOPE = 'host'
#: Number of checks that the text of an item names; the report has all.
_NAMED = 3


@dataclass(frozen=True)
class MissingReading:
    """A value that could not be read.

    :param attempt: what hvstack did, and the reason of the failure.
    :param need: what is needed to read the value.
    """

    attempt: str
    need: str


@dataclass(frozen=True)
class ItemResult:
    """The result of an item.

    :param item: item of the checklist.
    :param check_results: its checks.
    :param missing: values that could not be read.
    """

    item: FirstRunItem
    check_results: tuple[CheckResult, ...] = ()
    missing: tuple[MissingReading, ...] = ()

    @property
    def failed_checks(self) -> list[CheckResult]:
        """Checks whose observed value is not the expected value."""
        return [check for check in self.check_results if not check.good]

    @property
    def verdict(self) -> str:
        """``held``, ``did not hold`` or ``not checked``.

        An item with a failed check did not hold, even if other values could
        not be read. An item without a check is not checked.
        """
        if self.failed_checks:
            return NOT_HELD
        return UNCHECKED if self.missing or not self.check_results else HELD

    @property
    def expected(self) -> str:
        """Expected values of the failed checks, or else of the item."""
        texts = [
            f'{check.subject}: {check.expected}'
            for check in self.failed_checks
        ]
        return _join(texts) or self.item.expected

    @property
    def observed(self) -> str:
        """Observed values, or what was tried to read them."""
        if self.verdict == UNCHECKED:
            return _join(reading.attempt for reading in self.missing) or (
                'no value was read'
            )
        checks = self.failed_checks or self.check_results
        values = {check.observed for check in checks}
        if self.verdict == HELD and len(values) == 1 and len(checks) > 1:
            return f'{checks[0].observed} ({len(checks)} checks)'
        return _join(f'{check.subject}: {check.observed}' for check in checks)

    @property
    def remedy(self) -> str:
        """What to do; empty if the item held."""
        if self.verdict == NOT_HELD:
            return self.item.remedy
        if self.verdict == HELD:
            return ''
        return _join(reading.need for reading in self.missing) or (
            'Check the messages of the command.'
        )

    def to_test_result(self) -> AcceptanceTestResult:
        """Return the result as that of a test, for the acceptance report."""
        reason = ''
        if self.verdict == NOT_HELD:
            failed = _join(map(str, self.failed_checks))
            reason = f'{failed}. {self.remedy}'
        elif self.verdict == UNCHECKED:
            reason = f'{self.observed}. {self.remedy}'
        return AcceptanceTestResult(
            _SCOPE,
            f'first_run.{self.item.id}',
            _REPORT_VERDICTS[self.verdict],
            reason=reason,
            check_results=self.check_results,
        )


def _join(texts: Iterable[str]) -> str:
    """Return the first texts, each once, and the number of the others."""
    unique = list(dict.fromkeys(texts))
    others = len(unique) - _NAMED
    return '; '.join(
        [*unique[:_NAMED], *([f'{others} more'] if others > 0 else [])]
    )


@dataclass
class Checklist:
    """Checks of the items, and values that could not be read, by item.

    :param items: items of the checklist.
    """

    items: Sequence[FirstRunItem] = ITEMS
    _checks: dict[str, list[CheckResult]] = field(default_factory=dict)
    _missing: dict[str, list[MissingReading]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Give each item its lists, so that no other item can be added to."""
        self._checks = {item.id: [] for item in self.items}
        self._missing = {item.id: [] for item in self.items}

    def add(self, item_id: str, *check_results: CheckResult) -> None:
        """Add checks to an item.

        :raises KeyError: the checklist has no such item.
        """
        self._checks[item_id] += check_results

    def add_missing(
        self, item_ids: Iterable[str], attempt: str, need: str
    ) -> None:
        """Add a value that could not be read to items.

        :param item_ids: items that need the value.
        :param attempt: see :class:`MissingReading`.
        :param need: see :class:`MissingReading`.
        :raises KeyError: the checklist has no such item.
        """
        for item_id in item_ids:
            self._missing[item_id].append(MissingReading(attempt, need))

    def results(self) -> list[ItemResult]:
        """Return the results in the order of the items."""
        return [
            ItemResult(
                item,
                tuple(self._checks[item.id]),
                tuple(self._missing[item.id]),
            )
            for item in self.items
        ]
