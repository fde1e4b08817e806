# SPDX-License-Identifier: Apache-2.0
"""Verdicts: whether an interval agrees with a claim or contradicts it.

The rule of a claim is fixed before the first run. A claim holds if the whole
interval satisfies the rule. It does not hold if the whole interval contradicts
the rule. Otherwise, the runs do not decide.
"""

from dataclasses import dataclass

from hvstack import errors
from hvstack.model.strict_mapping import Fields
from hvstack.results.stats import Percent

HOLDS = 'holds'
FAILS = 'does not hold'
UNDECIDED = 'not decided'
NOT_TESTABLE = 'cannot be tested here'
#: All verdicts, in the order in which a summary counts them, with the verbs
#: for one claim and for several claims.
VERDICTS = {
    HOLDS: ('holds', 'hold'),
    FAILS: ('does not hold', 'do not hold'),
    UNDECIDED: ('is not decided', 'are not decided'),
    NOT_TESTABLE: ('cannot be tested here', 'cannot be tested here'),
}

#: Maximum of a limit in percent: a hundredfold rate.
_MAX_PERCENT = 10_000.0
#: Limits of shares are inclusive.
_SHARE_MARGIN = 1e-9
#: Rules for counts: none, or at least one.
COUNT_RULES = ('none', 'some')
_NAMES = ('faster', 'slower', 'at_least', 'at_most', 'within')


@dataclass(frozen=True)
class Rule:
    """Condition for the rate of a variant in percent of another variant.

    :param name: name of the rule in the file.
    :param low: rate in percent that the whole interval must exceed; None for
        no lower limit.
    :param high: rate in percent that the whole interval must stay below; None
        for no upper limit.
    :param is_inclusive: whether the limits satisfy the condition.
    """

    name: str
    low: float | None
    high: float | None
    is_inclusive: bool = False

    def describe(self) -> str:
        """Return the condition as human-readable text."""
        if self.name in COUNT_RULES:
            number = 'none' if self.name == 'none' else 'one or more'
            return f'{number} in all runs together'
        if self.low is not None and self.high is not None:
            return f'{self.low:g} to {self.high:g} %'
        if self.low is not None:
            word = 'at least' if self.is_inclusive else 'more than'
            return f'{word} {self.low:g} %'
        word = 'at most' if self.is_inclusive else 'less than'
        return f'{word} {self.high:g} %'

    def judge(self, percent: Percent) -> str:
        """Return the verdict on a rate.

        :param percent: rate in percent with its interval.
        """
        if percent.low is None or percent.high is None:
            return UNDECIDED
        return self.judge_interval(percent.low, percent.high)

    def judge_interval(self, low: float, high: float) -> str:
        """Return the verdict on an interval.

        :param low: lower bound in percent.
        :param high: upper bound in percent.
        """
        if (self.low is not None and high <= self.low) or (
            self.high is not None and low >= self.high
        ):
            return FAILS
        if (self.low is None or low > self.low) and (
            self.high is None or high < self.high
        ):
            return HOLDS
        return UNDECIDED


def parse_count_rule(parent: Fields, name: str) -> Rule:
    """Return the rule of a claim about a count.

    :param parent: fields of the claim.
    :param name: name of the field.
    :raises hvstack.errors.InputError: the rule is not valid.
    """
    return Rule(parent.choice(name, COUNT_RULES), None, None)


def judge_count(rule: Rule, count: int) -> str:
    """Return the verdict on a count.

    A count of zero does not contradict that there are some: there may be some
    in further runs.

    :param rule: ``none`` or ``some``.
    :param count: count of all runs together.
    """
    if rule.name == 'none':
        return FAILS if count else HOLDS
    return HOLDS if count else UNDECIDED


def parse_share_rule(parent: Fields, name: str) -> Rule:
    """Return the rule of a claim about a share in percent.

    :param parent: fields of the claim.
    :param name: name of the field.
    :raises hvstack.errors.InputError: the rule is not valid.
    """
    forms = ('at_least', 'at_most')
    value = parent.raw(name)
    if not isinstance(value, dict) or len(value) != 1:
        raise _error(parent, name, '{at_least: 95}, {at_most: 5}')
    fields = Fields(value, parent.source, forms, parent.name(name))
    (form,) = value
    share = fields.number(form, 0, 100)
    if form == 'at_least':
        # A share of all tasks satisfies a limit of 100 %.
        return Rule(form, share - _SHARE_MARGIN, None, is_inclusive=True)
    return Rule(form, None, share + _SHARE_MARGIN, is_inclusive=True)


def parse_amount_rule(parent: Fields, name: str) -> Rule:
    """Return the rule of a claim about a part that may exceed its whole.

    The forms are ``at_least: 90``, ``at_most: 70`` and ``between: [190,
    230]``.

    :param parent: fields of the claim.
    :param name: name of the field.
    :raises hvstack.errors.InputError: the rule is not valid.
    """
    forms = ('at_least', 'at_most', 'between')
    value = parent.raw(name)
    if not isinstance(value, dict) or len(value) != 1:
        raise _error(parent, name, '{at_most: 70}, {between: [190, 230]}')
    fields = Fields(value, parent.source, forms, parent.name(name))
    (form,) = value
    if form == 'between':
        bounds = fields.raw(form)
        if (
            not isinstance(bounds, list)
            or len(bounds) != 2
            or not all(isinstance(bound, int | float) for bound in bounds)
            or not 0 <= bounds[0] < bounds[1] <= _MAX_PERCENT
        ):
            raise fields.error(form, 'is not a range. Use [190, 230]')
        return Rule(form, float(bounds[0]), float(bounds[1]))
    limit = fields.number(form, 0, _MAX_PERCENT)
    if form == 'at_least':
        return Rule(form, limit - _SHARE_MARGIN, None, is_inclusive=True)
    return Rule(form, None, limit + _SHARE_MARGIN, is_inclusive=True)


def parse_rule(parent: Fields, name: str) -> Rule:
    """Return the rule of a claim.

    The forms are ``faster`` and ``slower`` (the direction alone), ``at_least:
    5`` and ``at_most: 5`` (a gain in percent, which can be negative), and
    ``within: 3`` (a change of at most this many percent).

    :param parent: fields of the claim.
    :param name: name of the field.
    :raises hvstack.errors.InputError: the rule is not valid.
    """
    value = parent.raw(name)
    if value in ('faster', 'slower'):
        return _build_rule(str(value), 0.0)
    forms = ', '.join(('faster', 'slower', '{at_least: 5}', '{within: 3}'))
    if not isinstance(value, dict) or len(value) != 1:
        raise _error(parent, name, forms)
    (form,) = value
    if form not in _NAMES[2:]:
        raise _error(parent, name, forms)
    fields = Fields(value, parent.source, _NAMES[2:], parent.name(name))
    low = 0.0 if form == 'within' else -100.0
    return _build_rule(form, fields.number(form, low, _MAX_PERCENT))


def _error(parent: Fields, name: str, forms: str) -> errors.InputError:
    return parent.error(name, f'is not a rule. Use one of {forms}')


def _build_rule(form: str, gain: float) -> Rule:
    limit = 100 + gain
    if form in ('faster', 'at_least'):
        return Rule(form, limit, None)
    if form in ('slower', 'at_most'):
        return Rule(form, None, limit)
    return Rule(form, 100 - gain, limit)
