# SPDX-License-Identifier: Apache-2.0
"""What is in force on a cluster, as its nodes and daemons say themselves."""

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from hvstack import errors
from hvstack.cluster.base import Cluster, Node
from hvstack.hadoop import daemon_http, os_profiles
from hvstack.hadoop.daemon_http import run_on_nodes
from hvstack.results.typed_json import JsonObject

#: What Hadoop's own default files are called.
_DEFAULTS = '-default.xml'

_Reader = Callable[[dict[str, Any]], dict[str, str]]


@dataclass(frozen=True)
class OsState:
    """What became of an OS profile on a cluster's nodes.

    :param profile: its name; ``none`` where no node has one.
    :param not_set: ``name=value: reason``, with the nodes behind it where it
        is not so on all of them.
    """

    profile: str
    not_set: tuple[str, ...]


def os_state(nodes: Sequence[Node]) -> OsState:
    """Return the states of the OS profile that nodes report.

    :raises hvstack.errors.HVStackError: a node does not answer.
    """
    command = f'[ ! -e {os_profiles.STATE} ] || cat {os_profiles.STATE}'
    results = run_on_nodes(nodes, command, timeout=60)
    profile_results = {
        node.name: os_profiles.parse_state(result.stdout)
        for node, result in zip(nodes, results, strict=True)
    }
    names = sorted(
        {
            profile_result.profile or 'none'
            for profile_result in profile_results.values()
        }
    )
    where: dict[str, list[str]] = defaultdict(list)
    for name, profile_result in profile_results.items():
        for setting in profile_result.not_set:
            where[setting].append(name)
    return OsState(
        profile=' and '.join(names),
        not_set=tuple(
            setting
            if len(on) == len(profile_results)
            else f'{setting} ({", ".join(on)})'
            for setting, on in where.items()
        ),
    )


def parameters(cluster: Cluster, job: str) -> JsonObject:
    """Return every parameter that is not Hadoop's default.

    Workers have the same files: the first with a daemon stands for them.

    :param job: whose own parameters are wanted besides.
    :returns: values by name, by daemon and under ``job``; ``unread`` names
        who gave no answer, and why.
    """
    gateway, manager = cluster.gateway, cluster.manager
    storing, computing = (
        daemon_http.nodes_with_daemon(cluster.workers, daemon)[0]
        for daemon in ('datanode', 'nodemanager')
    )
    job_conf = f'/ws/v1/history/mapreduce/jobs/{job}/conf'
    sources: dict[str, tuple[daemon_http.Runner, str, str, _Reader]] = {
        'namenode': (gateway, 'namenode', '/conf', _of_daemon),
        'resourcemanager': (manager, 'resourcemanager', '/conf', _of_daemon),
        'datanode': (storing, 'datanode', '/conf', _of_daemon),
        'nodemanager': (computing, 'nodemanager', '/conf', _of_daemon),
        'job': (manager, 'historyserver', job_conf, _of_job),
    }

    def ask(name: str) -> dict[str, str] | str:
        node, role, path, read = sources[name]
        try:
            return read(daemon_http.get_json(node, role, path))
        except (errors.HVStackError, KeyError, TypeError) as exc:
            return f'{name}: {" ".join(str(exc).split())[:200]}'

    with ThreadPoolExecutor(max_workers=len(sources)) as pool:
        answers = dict(zip(sources, pool.map(ask, sources), strict=True))
    properties: JsonObject = {
        name: answer
        for name, answer in answers.items()
        if isinstance(answer, dict)
    }
    unread = [answer for answer in answers.values() if isinstance(answer, str)]
    return {**properties, 'unread': unread} if unread else properties


def _of_daemon(answer: dict[str, Any]) -> dict[str, str]:
    """Read what its ConfServlet says."""
    return {
        hadoop_property['key']: hadoop_property['value']
        for hadoop_property in answer['properties']
        if not str(hadoop_property['resource']).endswith(_DEFAULTS)
    }


def _of_job(answer: dict[str, Any]) -> dict[str, str]:
    """Read what the JobHistory server has of a job's configuration.

    Each value's sources end with the job's own file. Hadoop 3.5 writes
    values as numbers and booleans where they look like such.
    """
    return {
        item['name']: item['value']
        if isinstance(item['value'], str)
        else json.dumps(item['value'])
        for item in daemon_http.list_elements(answer['conf']['property'])
        if not any(
            source.endswith(_DEFAULTS)
            for source in daemon_http.list_elements(item.get('source'))
        )
    }
