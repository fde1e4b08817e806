# SPDX-License-Identifier: Apache-2.0
"""Single properties of Hadoop that a run sets for its jobs.

They are options of the jobs, so that a running cluster need not change.
Properties of daemons belong to a tuning profile.
"""

import difflib
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from hvstack import errors, share, textfile, yamlfile
from hvstack.model.strict_mapping import to_dataclass

_LIST = share.HADOOP / 'job-properties.yaml'
#: Properties that the files of defaults do not contain, with a value of their
#: type, and where Hadoop reads them.
_OTHERS = {
    # hadoop-mapreduce-examples, TeraSortConfigKeys.
    'mapreduce.terasort.partitions.sample': '100000',
    # mapred-default.xml names them in descriptions alone.
    'mapreduce.map.java.opts': '',
    'mapreduce.reduce.java.opts': '',
    # MRJobConfig: options in addition to those of the tuning profile.
    'mapreduce.admin.map.child.java.opts': '',
    'mapreduce.admin.reduce.child.java.opts': '',
}
#: Properties whose values hvstack computes, and what determines them.
_COMPUTED = {
    'mapreduce.job.maps': 'the number of tasks follows from the hosts',
    'mapreduce.job.reduces': 'the number of tasks follows from the hosts',
    'dfs.blocksize': 'each file of a run is one block, or has blocks of '
    'the size of the tuning profile',
    'dfs.replication': "it is the workload's 'replication'",
    'mapreduce.terasort.output.replication': 'it is the replication of the '
    'input',
    # TeraGen sets it to its argument.
    'mapreduce.terasort.num-rows': "it follows from 'size'",
    'yarn.app.mapreduce.am.resource.mb': 'it follows from the number of tasks',
    'yarn.app.mapreduce.am.command-opts': 'its heap follows from the number '
    'of tasks',
    **dict.fromkeys(
        (
            'mapreduce.job.am.node-label-expression',
            'mapreduce.job.node-label-expression',
            'mapreduce.map.node-label-expression',
            'mapreduce.reduce.node-label-expression',
        ),
        'ApplicationMasters run on the controller, and tasks on workers',
    ),
}
_TYPES = (
    ('true or false', re.compile(r'true|false')),
    ('a whole number', re.compile(r'-?[0-9]{1,18}')),
    ('a number', re.compile(r'-?[0-9]{1,18}(\.[0-9]{1,18})?f?')),
)
_MAX_LENGTH = 1000


@dataclass(frozen=True)
class _List:
    """Properties of a release.

    :param release: release of Hadoop.
    :param defaults: default of each property.
    """

    release: str
    defaults: dict[str, str]


@functools.cache
def _load() -> _List:
    document = yamlfile.load(_LIST, packaged=True)
    return to_dataclass(_List, document.data, document.source_location())


def check(settings: Mapping[str, object]) -> dict[str, str]:
    """Return the values of properties as Hadoop reads them.

    :param settings: value of each property, as a task contains it.
    :raises hvstack.errors.InputError: a property is unknown, belongs to a
        daemon or is computed by hvstack, or its value has another type than
        its default.
    """
    return {
        name: _check_value(name, value) for name, value in settings.items()
    }


def _check_value(name: str, value: object) -> str:
    if name in _COMPUTED:
        raise _error(name, f'hvstack computes it: {_COMPUTED[name]}. Omit it')
    defaults = _load().defaults | _OTHERS
    if name not in defaults:
        close = difflib.get_close_matches(name, defaults, 1)
        raise _error(
            name,
            f'it is not a property of jobs in Hadoop {_load().release}. '
            + (f"Use '{close[0]}'" if close else 'Correct the name')
            + ', or a tuning profile for a property of daemons',
        )
    if not isinstance(value, bool | int | float | str):
        raise _error(
            name,
            'it is not a single value. Use a text, a number, true or false',
        )
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if len(text) > _MAX_LENGTH or not text.isprintable():
        raise _error(
            name,
            f'the value has more than {_MAX_LENGTH} characters or a control '
            'character. Correct it',
        )
    for description, pattern in _TYPES:
        if not pattern.fullmatch(defaults[name]):
            continue
        # The default 0.0 also accepts a whole number, and not the reverse.
        if not pattern.fullmatch(text):
            raise _error(
                name,
                f"'{text[:60]}' is not {description}, and the default "
                f'{defaults[name]} is. Correct the value',
            )
        break
    return text


def _error(name: str, reason: str) -> errors.InputError:
    return errors.InputError(
        f"Cannot set the property '{textfile.printable(name[:100])}' of "
        f'Hadoop: {reason}.'
    )
