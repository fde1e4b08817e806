# SPDX-License-Identifier: Apache-2.0
"""Numbers of a finished job from the JobHistory server's REST interface."""

from collections.abc import Mapping
from typing import Any

from hvstack import errors, shell
from hvstack.hadoop import rest
from hvstack.hadoop.rest import Runner

_JOBS = '/ws/v1/history/mapreduce/jobs'


def job(
    controller: Runner, job_id: str, timeout: float = 60
) -> dict[str, Any]:
    """Return a finished job's times and counters.

    The server knows a job some seconds after its client saw it end.

    :returns: ``job_id``, ``job_seconds``, ``map_shuffle_seconds``,
        ``reduce_merge_seconds``, ``state``, ``maps``, ``reduces``,
        ``failed_attempts``, ``killed_attempts`` and ``counters`` (of the
        whole job by name, and ``MAP.`` those of its map tasks).
    :raises hvstack.errors.DeadlineExceeded: the server does not know it.
    """
    found: dict[str, Any] = {}

    def known() -> bool:
        found.update(
            rest.get(controller, 'historyserver', f'{_JOBS}/{job_id}')['job']
        )
        return True

    shell.wait_for(
        known, f'the history of {job_id}', timeout=timeout, interval=1
    )
    base = f'{_JOBS}/{job_id}'
    return summary(
        found,
        rest.get(controller, 'historyserver', f'{base}/tasks'),
        rest.get(controller, 'historyserver', f'{base}/counters'),
    )


def summary(
    job: Mapping[str, Any],
    tasks: Mapping[str, Any],
    counters: Mapping[str, Any],
) -> dict[str, Any]:
    """Put the server's three answers about one job together.

    map-shuffle lasts from the job's start until its last map task has ended,
    reduce-merge from then to the job's end.

    :raises hvstack.errors.CommandFailed: an answer lacks a field.
    """
    try:
        began, ended = int(job['startTime']), int(job['finishTime'])
        maps_ended = max(
            (
                int(task['finishTime'])
                for task in tasks['tasks']['task']
                if task['type'] == 'MAP'
            ),
            default=began,
        )
        values: dict[str, int] = {}
        for group in counters['jobCounters'].get('counterGroup', []):
            for counter in group['counter']:
                name, total = counter['name'], counter['totalCounterValue']
                values[name] = int(total)
                if group['counterGroupName'].endswith('.TaskCounter'):
                    values[f'MAP.{name}'] = int(counter['mapCounterValue'])
        return {
            'job_id': job['id'],
            'state': job['state'],
            'job_seconds': round((ended - began) / 1000, 3),
            'map_shuffle_seconds': round((maps_ended - began) / 1000, 3),
            'reduce_merge_seconds': round((ended - maps_ended) / 1000, 3),
            'maps': int(job['mapsTotal']),
            'reduces': int(job['reducesTotal']),
            'failed_attempts': int(job.get('failedMapAttempts', 0))
            + int(job.get('failedReduceAttempts', 0)),
            'killed_attempts': int(job.get('killedMapAttempts', 0))
            + int(job.get('killedReduceAttempts', 0)),
            'counters': values,
        }
    except (KeyError, TypeError, ValueError) as exc:
        raise errors.CommandFailed(
            ['JobHistory'], 0, f'its answer lacks {exc}'
        ) from exc
