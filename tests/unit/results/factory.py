# SPDX-License-Identifier: Apache-2.0
"""Run records as a benchmark would leave them."""

from typing import Any

from hvstack.model.configuration import parse
from hvstack.results.record import BARE_METAL, Record, rate

PHASES = (
    ('HSGen', 0.25),
    ('HSDataCheck', 0.02),
    ('HSSort', 0.5),
    ('HSDataCheck', 0.02),
    ('HSValidate', 0.21),
)


def run(
    configuration: str,
    index: int,
    seconds: float,
    *,
    size: int = 10**9,
    sweep: str = 'quick',
    started: str = '2026-11-21T05:45:00Z',
    reason: str = '',
    seen: dict[str, Any] | None = None,
    **environment: Any,
) -> Record:
    """Return a record; with a reason it is of a failed run.

    :param configuration: name or label, or ``bare-metal``.
    """
    bare = configuration == BARE_METAL
    given: dict[str, Any] = {
        'cpu_model': 'Xeon',
        'hosts': ['hv-host1', 'hv-host2', 'hv-host3'],
        'worker_hosts': 2,
        'scale_model': True,
    }
    if not bare:
        given |= {'backend': 'lxc', 'nova': '34.0.0'}
    return Record(
        sweep=sweep,
        kind='baseline' if bare else 'configuration',
        configuration=configuration if bare else parse(configuration).name,
        index=index,
        started=started,
        ended=started,
        valid=not reason,
        size_bytes=size,
        replication=2,
        maps=6,
        reduces=6,
        reason=reason,
        phases=[
            {'name': name, 'seconds': seconds * part} for name, part in PHASES
        ],
        total_seconds=seconds,
        rate=0.0 if reason else rate(size, seconds),
        environment=given | environment,
        seen=seen or {},
    )
