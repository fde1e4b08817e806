# SPDX-License-Identifier: Apache-2.0
"""Nouns with their numbers."""

from collections.abc import Mapping


def format_noun(count: int, noun: str) -> str:
    """Return a number with its noun, such as ``1 cluster``.

    :param noun: singular, whose plural ends in ``s``.
    """
    return f'{count} {noun}' if count == 1 else f'{count} {noun}s'


def format_server_use(use: Mapping[str, float]) -> str:
    """Return the use of a host, such as ``2 servers (VCPU 4)``.

    :param use: number of the ``servers``, and amounts by resource class.
    """
    amounts = ', '.join(
        f'{name} {amount:g}'
        for name, amount in sorted(use.items())
        if name != 'servers'
    )
    servers = format_noun(int(use['servers']), 'server')
    return f'{servers} ({amounts})' if amounts else servers
