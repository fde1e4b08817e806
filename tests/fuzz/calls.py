# SPDX-License-Identifier: Apache-2.0
"""Readers that no command reaches without a cloud or hosts.

Each reads its file as the command does, and stops before anything outside of
this process would be touched.
"""

import contextlib
import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class Refused(Exception):
    """A program that is not hvstack refused its input in its own words."""


def _find(*names: str) -> Any:
    """Return what has the first of several names that exists.

    Names differ between releases, and each case runs on all of them.

    :param names: dotted names below the package.
    """
    for name in names:
        module, _, attribute = name.rpartition('.')
        with contextlib.suppress(ImportError, AttributeError):
            imported = importlib.import_module(f'hvstack.{module}')
            return getattr(imported, attribute)
    raise LookupError(', '.join(names))


def hosts(path: str) -> None:
    """Read an inventory, and print what would reach shells and files."""
    from hvstack.cluster import hosts

    for host in hosts.read(Path(path)):
        print(host.name, host.role, host.address, host.vcpus, host.memory_mib)
        print(hosts.environment([host]))


def topology(path: str) -> None:
    """Read a topology map, and print the table that is made of it."""
    from hvstack.cloud import servers
    from hvstack.cluster import topology

    names = ['worker-0', 'worker-1', 'worker-2']
    outputs = {
        'workers': [
            {'name': name, 'address': f'10.0.0.{index}', 'server_id': name}
            for index, name in enumerate(names, 1)
        ],
        'namenode': {
            'name': 'controller-0',
            'address': '10.0.0.9',
            'server_id': 'controller-0',
        },
    }
    # Without a cloud, all that is known of servers is in the map.
    servers.locate_servers = lambda conn: {}  # type: ignore[assignment]
    conn: Any = None
    nodes = topology.nodes(conn, outputs, Path(path))
    print(topology.of_nodes(nodes).format_table())


def journal() -> None:
    """Read the journal, without undoing anything."""
    from hvstack.cloud import journal

    for entry in journal.entries():
        print(entry.kind, entry.owner, entry.alive, entry.made, entry.path)
    print(journal.holders(), journal.owned('cluster'))


def acquired() -> None:
    """Read the marks of hosts that processes acquired."""
    from hvstack.cluster import hosts

    print(hosts.holders())


def conf() -> None:
    """Read the options, and print those that become numbers."""
    from hvstack import conf

    options = conf.load()
    for group, registered in conf.list_opts():
        for option in registered:
            print(group, option.dest, getattr(options[group], option.dest))


def accounts(path: str) -> None:
    """Read Tempest's accounts; no cloud answers."""
    config = SimpleNamespace(
        config={'auth': {'auth_url': 'http://127.0.0.1:9/v3'}},
        get_region_name=lambda: 'RegionOne',
    )
    conn: Any = SimpleNamespace(config=config)
    connect = _find('accept.settings.connect_users', 'accept.settings.users')
    print(connect(Path(path), conn))


def power() -> None:
    """Read the note of a host without power; nothing is powered on."""
    restore = _find('accept.power.restore_power', 'accept.power.restore')
    run = _find('accept.hostlook.run_power_command', 'accept.hostlook.power')
    setattr(sys.modules[run.__module__], run.__name__, print)
    print(list(restore(Path())))


def lab() -> None:
    """Read the settings of the lab, and what is done in it."""
    from hvstack.lab import settings, stages

    print(settings.load(), stages.marked('identity'))


def release() -> None:
    """Read which Hadoop release is chosen for images."""
    from hvstack.lab.images import store

    store.root = Path
    print(store.chosen_tarball())


def _rally_tasks() -> Path:
    import hvstack

    root = Path(hvstack.__file__).parent
    directory = root / 'share/rally-tasks'
    return directory if directory.is_dir() else root.parent / 'rally-tasks'


def task(path: str) -> None:
    """Render a Rally task with arguments, and check it as Rally does.

    :raises Refused: Rally would not start the task.
    """
    import jinja2
    import jsonschema
    import yaml

    from hvstack.rally_plugins.session import WORKLOAD_SCHEMA

    try:
        # Rally itself reads --task-args and --task-args-file.
        arguments = json.loads(Path(path).read_text('utf-8'))
        tasks = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_rally_tasks())
        )
        text = tasks.get_template('quick.yaml').render(**arguments)
        content = yaml.load(text, yaml.CSafeLoader)
        for subtask in content['subtasks']:
            for workload in subtask['workloads']:
                (values,) = workload['scenario'].values()
                jsonschema.validate(values, WORKLOAD_SCHEMA)
                steps(values)
    except (RecursionError, MemoryError):
        raise
    except Exception as exc:
        raise Refused(f'{path}: {type(exc).__name__}: {exc}') from exc
    print(len(content['subtasks']), 'subtasks')


def steps(values: dict[str, Any]) -> None:
    """Read a workload as the scenario does before anything is started."""
    from hvstack.model.configuration import parse
    from hvstack.sweep import plan
    from hvstack.tpcxhs.workload import Workload

    if values['configuration'] != 'bare-metal':
        parse(values['configuration'])
    for step in plan.build_workload(
        values['configuration'], values.get('first_index', 0), values['sizes']
    ):
        Workload(step.size_bytes, 1, 1, 1)
