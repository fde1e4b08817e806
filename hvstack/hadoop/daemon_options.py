# SPDX-License-Identifier: Apache-2.0
"""Options of the JVMs of Hadoop's daemons, besides those of a tuning profile.

They belong to the nodes, so that a cluster has them from its creation. A wrong
option would end the JVM, and with it the daemon, minutes after the nodes were
created: only options that hvstack knows are accepted.
"""

import re
import shlex
from collections.abc import Mapping

from hvstack import errors, textfile
from hvstack.model.plain_data import Json

#: Daemons whose options can be set.
ROLES = ('namenode', 'datanode', 'resourcemanager', 'nodemanager')
#: Options of each daemon, sorted by daemon.
DaemonOptions = tuple[tuple[str, str], ...]
#: Name of the fact of a record that contains them.
DAEMON_FACT = 'daemon_options'
_COLLECTORS = (
    *('UseSerialGC', 'UseParallelGC', 'UseG1GC', 'UseShenandoahGC', 'UseZGC'),
)
#: Flags of Java 17. Other releases have them as well, except UseBiasedLocking,
#: which Java ignores from 18 on.
_FLAGS = (
    *_COLLECTORS,
    *('AlwaysPreTouch', 'TieredCompilation', 'UseBiasedLocking'),
    *('UseCompressedOops', 'UseLargePages', 'UseNUMA'),
    *('UseStringDeduplication', 'UseTransparentHugePages'),
)
#: Numbers of Java 17 with their minimum and maximum.
_NUMBERS = {
    'InitiatingHeapOccupancyPercent': (0, 100),
    'MaxGCPauseMillis': (1, 60_000),
    'MaxTenuringThreshold': (0, 15),
    'NewRatio': (1, 100),
    'ParallelGCThreads': (1, 1024),
    'SurvivorRatio': (1, 32),
    'TieredStopAtLevel': (0, 4),
}
_FLAG = re.compile(r'-XX:[+-]([A-Za-z0-9]+)')
_NUMBER = re.compile(r'-XX:([A-Za-z0-9]+)=([0-9]{1,9})')
_HEAP = re.compile(r'-Xm[sx]|-XX:(Max|Initial|Min)HeapSize=|-XX:\w+RAM\w+=')


def check(settings: Mapping[str, Json]) -> DaemonOptions:
    """Return the options of daemons, sorted by daemon.

    :param settings: options of each daemon, separated by spaces.
    :raises hvstack.errors.InputError: a daemon or an option is unknown, or an
        option is not valid.
    """
    return tuple(
        (role, _check_options(role, settings[role]))
        for role in sorted(settings)
    )


def _check_options(role: str, value: Json) -> str:
    if role not in ROLES:
        raise _error(
            role, f'hvstack sets options of other daemons: {", ".join(ROLES)}'
        )
    options = value.split() if isinstance(value, str) else []
    if not options:
        raise _error(
            role, "it is not a text with options. Use '-XX:+UseParallelGC'"
        )
    for option in options:
        _check_option(role, option)
    chosen = _list_collectors(options)
    if len(chosen) > 1:
        raise _error(
            role, f'{" and ".join(chosen)} exclude each other. Use one'
        )
    return ' '.join(options)


def _check_option(role: str, option: str) -> None:
    text = textfile.printable(option[:60])
    if _HEAP.match(option):
        raise _error(
            role,
            f"'{text}' sets the heap, which follows from the tuning profile. "
            'Omit it',
        )
    flag, number = _FLAG.fullmatch(option), _NUMBER.fullmatch(option)
    if flag and flag[1] in _FLAGS:
        return
    if number and number[1] in _NUMBERS:
        low, high = _NUMBERS[number[1]]
        if low <= int(number[2]) <= high:
            return
        raise _error(role, f"'{text}' is not {low} to {high}. Correct it")
    raise _error(
        role,
        f"hvstack does not know '{text}'. Use -XX:+ or -XX:- with "
        f'{", ".join(_FLAGS)}, or -XX: with {", ".join(_NUMBERS)}, = and a '
        'number',
    )


def _list_collectors(options: list[str]) -> list[str]:
    """Return the garbage collectors that options select."""
    return [name for name in _COLLECTORS if f'-XX:+{name}' in options]


def render(settings: DaemonOptions) -> str:
    """Return lines of ``hadoop-env.sh`` with the options of daemons.

    :param settings: result of :func:`check`.
    """
    lines = []
    for role, options in settings:
        if _list_collectors(options.split()):
            # The guest image selects this one for small JVMs, and Java refuses
            # two.
            options = f'-XX:-UseSerialGC {options}'
        lines.append(f'JAVA_OPTS_{role}={shlex.quote(options)}\n')
    return ''.join(lines)


def _error(role: str, reason: str) -> errors.InputError:
    return errors.InputError(
        'Cannot set the JVM options of the daemon '
        f"'{textfile.printable(role[:40])}': {reason}."
    )
