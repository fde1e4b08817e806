# SPDX-License-Identifier: Apache-2.0
"""Values that the options of ``hvstack.conf`` can have."""

import math
import re
from typing import TypeVar

from oslo_config import cfg, types

#: The longest path of Linux; no option is longer.
_MAX_TEXT = 4096
_Value = TypeVar('_Value')


class LiteralOptions(cfg.ConfigOpts):
    """Options whose values may contain a dollar sign.

    oslo.config replaces $name with the value of the option of this name,
    which would prevent shell commands with variables and many passwords.
    """

    class Template(cfg.ConfigOpts.Template):
        """Text in which nothing is replaced."""

        #: No value contains this control character.
        delimiter = '\0'

    def _substitute(
        self,
        value: _Value,
        group: str | cfg.OptGroup | None = None,
        namespace: 'cfg._Namespace | None' = None,
    ) -> _Value:
        # It would replace a backslash before a dollar sign as well.
        return value


def explain_refusal(option: cfg.Opt, text: str) -> str:
    """Return why an option cannot have a value; empty if it can.

    oslo.config accepts NaN, digits of any script, and no number at all.

    :param option: option of :mod:`hvstack.conf`.
    :param text: its value in a file or an environment variable.
    """
    if len(text) > _MAX_TEXT:
        return f'which has more than {_MAX_TEXT} characters. Shorten it.'
    option_type = option.type
    if isinstance(option_type, types.Integer | types.Float):
        pattern = r'-?[0-9]{1,15}'
        if isinstance(option_type, types.Float):
            pattern += r'(\.[0-9]{1,15})?'
        low = -math.inf if option_type.min is None else option_type.min
        high = math.inf if option_type.max is None else option_type.max
        if re.fullmatch(pattern, text.strip()) and (
            low <= float(text) <= high
        ):
            return ''
        description = 'a number' if '.' in pattern else 'a whole number'
        return (
            f'which is not {description} from {low} to {high}. '
            'Correct the number.'
        )
    choices = getattr(option_type, 'choices', None)
    if choices and text not in choices:
        return f'which is unknown. Use one of {", ".join(choices)}.'
    try:
        option_type(text)
    except (TypeError, ValueError):
        return 'which is not valid. See hvstack.conf.sample.'
    return ''
