# SPDX-License-Identifier: Apache-2.0
"""Progress of running applications, as YARN and MapReduce report it."""

import shlex
from collections.abc import Mapping
from typing import Any

from hvstack import errors
from hvstack.hadoop import daemon_http
from hvstack.hadoop.daemon_http import Runner

#: State, fraction and counters of each application, by its ID.
Progress = Mapping[str, tuple[str, float, Mapping[str, int]]]
_ACTIVE = 'NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING'
#: Parts of the names of counters that only change when data moves. Others,
#: such as CPU_MILLISECONDS, also change in a task that waits for ever.
_DATA_COUNTERS = ('RECORDS', 'BYTES')
#: Parts of the names of counters of memory, which has nothing to do with data.
_MEMORY_COUNTERS = ('MEMORY', 'HEAP')


def load_progress(manager: Runner) -> Progress:
    """Return the progress of all applications that have not ended.

    YARN reports a state and a fraction. The ApplicationMaster of a MapReduce
    job also reports counters, which change in smaller steps.

    :param manager: controller with the ResourceManager.
    :raises hvstack.errors.CommandError: the ResourceManager does not answer.
    """
    return {
        str(app['id']): (
            str(app.get('state')),
            float(app.get('progress') or 0),
            _load_counters(manager, str(app['id'])),
        )
        for app in _list_active(manager)
    }


def kill_applications(manager: Runner) -> list[str]:
    """Stop all applications that have not ended, and return their IDs.

    :param manager: controller with the ResourceManager.
    :raises hvstack.errors.CommandError: the ResourceManager does not answer.
    """
    names = [str(app['id']) for app in _list_active(manager)]
    if names:
        command = ['yarn', 'application', '-kill', *names]
        # An application may end meanwhile.
        manager.run(shlex.join(command), timeout=120, check=False)
    return names


def _list_active(manager: Runner) -> list[dict[str, Any]]:
    answer = daemon_http.get_json(
        manager, 'resourcemanager', f'/ws/v1/cluster/apps?states={_ACTIVE}'
    )
    apps = answer.get('apps') or {}
    return [dict(app) for app in daemon_http.list_elements(apps.get('app'))]


def _load_counters(manager: Runner, application: str) -> dict[str, int]:
    """Return the counters of data of a job; none if no process reports them.

    The ApplicationMaster answers through the ResourceManager's proxy (Hadoop,
    "MapReduce Application Master REST APIs").
    """
    job = application.replace('application', 'job', 1)
    path = f'/proxy/{application}/ws/v1/mapreduce/jobs/{job}/counters'
    try:
        answer = daemon_http.get_json(manager, 'resourcemanager', path)
        groups = answer['jobCounters'].get('counterGroup')
        return {
            str(counter['name']): int(counter['totalCounterValue'])
            for group in daemon_http.list_elements(groups)
            for counter in daemon_http.list_elements(group['counter'])
            if _counts_data(str(counter['name']))
        }
    except (errors.HVStackError, KeyError, TypeError, ValueError):
        # The ApplicationMaster has not started, or has just ended.
        return {}


def _counts_data(name: str) -> bool:
    return any(part in name for part in _DATA_COUNTERS) and not any(
        part in name for part in _MEMORY_COUNTERS
    )
