# SPDX-License-Identifier: Apache-2.0
"""Notes on the passes of a sweep and on the variance of its intervals."""

from hvstack.results.stats import CorrectedRates


def list_notes(corrected_rates: CorrectedRates) -> list[str]:
    """Return the notes; none without an interval.

    :param corrected_rates: rates of the sweep.
    """
    fit = corrected_rates.fit
    if fit is None or not fit.own.total.degrees:
        return []
    lines = []
    if fit.is_merged:
        lines.append(
            'Passes are not taken out: bare metal and the configurations '
            'have no pass in common. A difference of the machine between '
            'their times is not in the intervals.'
        )
    elif fit.passes > 1:
        wander = (
            'The machine wandered'
            if fit.wanders
            else 'This cannot be told apart from 0'
        )
        lines.append(
            f'The {fit.passes} passes differ by {fit.pass_deviation:.1%} '
            f'(standard deviation), which is taken out of the rates. {wander}.'
        )
    if fit.is_split:
        lines.append(
            'Bare metal and the configurations scatter differently: each side '
            'has a variance of its own.'
        )
    if fit.history_degrees:
        lines.append(
            f'{fit.history_degrees} of {fit.pooled.degrees} degrees of '
            'freedom come from earlier sweeps of the same workload.'
        )
    elif fit.history.total.degrees:
        lines.append(
            'Earlier sweeps of the same workload do not narrow the intervals: '
            'they scatter less, or an F test shows that they differ.'
        )
    return lines
