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
#: All verdicts, in the order in which a summary counts them.
VERDICTS = (HOLDS, FAILS, UNDECIDED, NOT_TESTABLE)

#: Maximum of a limit in percent: a hundredfold rate.
_MAX_PERCENT = 10_000.0
_NAMES = ('faster', 'slower', 'at_least', 'at_most', 'within')


@dataclass(frozen=True)
class Rule:
    """Condition for the rate of a variant in percent of another variant.

    :param name: name of the rule in the file.
    :param low: rate in percent that the whole interval must exceed; None for
        no lower limit.
    :param high: rate in percent that the whole interval must stay below; None
        for no upper limit.
    """

    name: str
    low: float | None
    high: float | None

    def describe(self) -> str:
        """Return the condition as human-readable text."""
        if self.low is not None and self.high is not None:
            return f'{self.low:g} to {self.high:g} %'
        if self.low is not None:
            return f'more than {self.low:g} %'
        return f'less than {self.high:g} %'

    def judge(self, percent: Percent) -> str:
        """Return the verdict on a rate.

        :param percent: rate in percent with its interval.
        """
        if percent.low is None or percent.high is None:
            return UNDECIDED
        if (self.low is not None and percent.high <= self.low) or (
            self.high is not None and percent.low >= self.high
        ):
            return FAILS
        if (self.low is None or percent.low > self.low) and (
            self.high is None or percent.high < self.high
        ):
            return HOLDS
        return UNDECIDED


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
