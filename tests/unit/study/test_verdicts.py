# SPDX-License-Identifier: Apache-2.0
"""Rules of claims: the whole interval satisfies or contradicts them."""

from typing import Any

import testtools

from hvstack import errors
from hvstack.model.strict_mapping import Fields
from hvstack.results.stats import Percent
from hvstack.study import verdicts


def percent(low: float | None, high: float | None) -> Percent:
    """Return a percentage with an interval."""
    middle = 100.0 if low is None or high is None else (low + high) / 2
    return Percent(middle, low, high, 3, 3, None, 4, 100.0)


class RuleTest(testtools.TestCase):
    def judge(self, rule: Any, low: float | None, high: float | None) -> str:
        fields = Fields({'rule': rule}, 'file', ('rule',))
        return verdicts.parse_rule(fields, 'rule').judge(percent(low, high))

    def test_description(self) -> None:
        for rule, expected in (
            ('faster', 'more than 100 %'),
            ('slower', 'less than 100 %'),
            ({'at_least': 5}, 'more than 105 %'),
            ({'within': 3}, '97 to 103 %'),
        ):
            fields = Fields({'rule': rule}, 'file', ('rule',))
            description = verdicts.parse_rule(fields, 'rule').describe()
            self.assertEqual(expected, description)
        for rule, expected in (
            ('none', 'none in all runs together'),
            ('some', 'one or more in all runs together'),
        ):
            fields = Fields({'rule': rule}, 'file', ('rule',))
            self.assertEqual(
                expected, verdicts.parse_count_rule(fields, 'rule').describe()
            )

    def test_shares(self) -> None:
        for rule, low, high, text in (
            ({'at_least': 100}, 100.0, None, 'at least 100 %'),
            ({'at_most': 5}, None, 5.0, 'at most 5 %'),
        ):
            fields = Fields({'rule': rule}, 'file', ('rule',))
            parsed = verdicts.parse_share_rule(fields, 'rule')
            self.assertAlmostEqual(low, parsed.low)
            self.assertAlmostEqual(high, parsed.high)
            self.assertEqual(text, parsed.describe())

    def test_what_is_no_rule(self) -> None:
        for rule in (5, {}, {'sideways': 3}, {'at_least': 5, 'at_most': 9}):
            fields = Fields({'rule': rule}, 'file', ('rule',))
            error = self.assertRaises(
                errors.InputError, verdicts.parse_rule, fields, 'rule'
            )
            self.assertIn('is not a rule. Use one of faster', str(error))
        for rule in (5, {}, {'at_least': 5, 'at_most': 9}):
            fields = Fields({'rule': rule}, 'file', ('rule',))
            error = self.assertRaises(
                errors.InputError, verdicts.parse_share_rule, fields, 'rule'
            )
            self.assertIn('is not a rule. Use one of {at_least', str(error))

    def test_direction(self) -> None:
        self.assertEqual(verdicts.HOLDS, self.judge('faster', 100.1, 120))
        self.assertEqual(verdicts.FAILS, self.judge('faster', 80, 99.9))
        self.assertEqual(verdicts.UNDECIDED, self.judge('faster', 99, 120))
        self.assertEqual(verdicts.HOLDS, self.judge('slower', 80, 99.9))
        self.assertEqual(verdicts.FAILS, self.judge('slower', 100.1, 120))
        self.assertEqual(verdicts.UNDECIDED, self.judge('slower', None, None))

    def test_amount(self) -> None:
        rule = {'at_least': 5}
        self.assertEqual(verdicts.HOLDS, self.judge(rule, 105.1, 120))
        self.assertEqual(verdicts.FAILS, self.judge(rule, 101, 104.9))
        self.assertEqual(verdicts.UNDECIDED, self.judge(rule, 104, 106))
        rule = {'at_most': -30}
        self.assertEqual(verdicts.HOLDS, self.judge(rule, 50, 69.9))
        self.assertEqual(verdicts.FAILS, self.judge(rule, 71, 99))

    def test_equivalence(self) -> None:
        rule = {'within': 3}
        self.assertEqual(verdicts.HOLDS, self.judge(rule, 98, 102))
        self.assertEqual(verdicts.FAILS, self.judge(rule, 103.1, 110))
        self.assertEqual(verdicts.FAILS, self.judge(rule, 80, 96.9))
        self.assertEqual(verdicts.UNDECIDED, self.judge(rule, 98, 104))
