# SPDX-License-Identifier: Apache-2.0
"""Formats of sizes, intervals and plain data in a report."""

from hvstack.results.stats import TOO_FEW_RUNS, Percent
from hvstack.results.typed_json import Json

#: Replaces the interval of the first percentage of a sweep that still runs.
ONE_RUN = 'one run a side, no interval yet'


def format_size(size: int) -> str:
    """Return a number of bytes as human-readable text, in units of 1000."""
    for unit, factor in (('TB', 10**12), ('GB', 10**9), ('MB', 10**6)):
        if size >= factor:
            return f'{size / factor:g} {unit}'
    return f'{size} bytes'


def format_interval(percent: Percent | None, missing: str = '-') -> str:
    """Return the interval of a percentage as a table cell.

    :param missing: text for an interval that is not reported.
    """
    bounds = percent.reported_bounds if percent else None
    return f'{bounds[0]:.1f} to {bounds[1]:.1f}' if bounds else missing


def describe_interval(percent: Percent) -> str:
    """Return the interval of a percentage as a part of a sentence."""
    if percent.reported_bounds is None:
        return TOO_FEW_RUNS
    return f'95 % interval {format_interval(percent)}'


def describe_interim_interval(percent: Percent) -> str:
    """Return the interval of a percentage in a progress message.

    The first percentage has one run of the configuration and one on bare
    metal. Its interval comes with the next passes.
    """
    has_one_run = percent.runs == percent.baseline_runs == 1
    if has_one_run and percent.reported_bounds is None:
        return ONE_RUN
    return describe_interval(percent)


def format_plain(value: Json) -> str:
    """Return plain data as one line of text."""
    if value is None:
        return ''
    if isinstance(value, dict):
        return ', '.join(
            f'{key} {{{format_plain(item)}}}'
            if isinstance(item, dict)
            else f'{key} {format_plain(item)}'
            for key, item in value.items()
        )
    if isinstance(value, list):
        return ', '.join(format_plain(item) for item in value)
    if isinstance(value, float):
        return f'{value:.4g}'
    return str(value)


def format_count(value: Json) -> str:
    """Return a number, or the length of a collection with its items."""
    if isinstance(value, list | dict):
        return f'{len(value)}: {", ".join(map(str, value))}'
    return format_plain(value)
