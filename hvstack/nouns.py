# SPDX-License-Identifier: Apache-2.0
"""Nouns with their numbers."""


def format_noun(count: int, noun: str) -> str:
    """Return a number with its noun, such as ``1 cluster``.

    :param noun: singular, whose plural ends in ``s``.
    """
    return f'{count} {noun}' if count == 1 else f'{count} {noun}s'
