# SPDX-License-Identifier: Apache-2.0
"""Readers that no command reaches without a cloud or hosts.

Each reads its file as the command does, and stops before anything outside of
this process would be touched.
"""

import contextlib
import importlib
import json
import operator
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class RefusedError(Exception):
    """A program that is not hvstack refused its input in its own words."""


#: Functions that take a lock, by what the lock protects.
LOCKS = {
    'keys': ('results.signing:_locked',),
    'measurements': (
        'sweep.sweep_store:lock_measurements',
        'sweep.sweep_store:exclusive',
    ),
    'journal': ('cloud.journal:recovering',),
    'hosts': ('cluster.bare_metal:_open_lock',),
    'images': ('lab.images.store:building',),
    'workspace': ('accept.runner:lock_workspace', 'accept.runner:alone'),
    'cloud': ('accept.runner:lock_cloud', 'accept.runner:reserved'),
    'lab': ('lab.lock:exclusive',),
}


def _find(*names: str) -> Any:
    """Return the attribute with the first of several names that exists.

    Names differ between releases, and each case runs on all of them.

    :param names: modules below the package with an attribute, such as
        ``model.topology:Topology.format_table``.
    """
    for name in names:
        module, _, attribute = name.partition(':')
        with contextlib.suppress(ImportError, AttributeError):
            imported = importlib.import_module(f'hvstack.{module}')
            return operator.attrgetter(attribute)(imported)
    raise LookupError(', '.join(names))


def exists(*names: str) -> bool:
    """Return whether this release has one of several names."""
    try:
        _find(*names)
    except LookupError:
        return False
    return True


def hosts(path: str) -> None:
    """Read an inventory, and print what would reach shells and files."""
    from hvstack.cluster import baseline_hosts

    for host in baseline_hosts.read(Path(path)):
        print(host.name, host.role, host.address, host.vcpus, host.memory_mib)
        print(baseline_hosts.environment([host]))


def topology(path: str) -> None:
    """Read a topology map, and print the table that is made of it."""
    from hvstack.cloud import servers
    from hvstack.cluster import topology_refresh

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
    nodes = topology_refresh.nodes(conn, outputs, Path(path))
    format_table = _find(
        'model.topology:Topology.format_table', 'model.topology:Topology.table'
    )
    print(format_table(topology_refresh.of_nodes(nodes)))


def journal() -> None:
    """Read the journal, without undoing anything."""
    from hvstack.cloud import journal

    for entry in journal.entries():
        print(
            entry.kind, entry.owner, entry.alive, entry.created_at, entry.path
        )
    print(journal.holders(), journal.owned('cluster'))


def acquired() -> None:
    """Read the marks of hosts that processes acquired."""
    from hvstack.cluster import acquired_hosts

    print(acquired_hosts.holders())


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
    connect = _find(
        'accept.tempest_conf:connect_users', 'accept.tempest_conf:users'
    )
    print(connect(Path(path), conn))


def power() -> None:
    """Read the note of a host without power; nothing is powered on."""
    restore = _find('accept.power:restore_power', 'accept.power:restore')
    run = _find(
        'accept.host_inspection:run_power_command',
        'accept.host_inspection:power',
    )
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


def lab_id() -> None:
    """Read the ID that marks what the lab creates."""
    from hvstack.lab import settings

    print(settings.lab_id())


def owner() -> None:
    """Read which state directory the lab belongs to."""
    from hvstack.lab import lifecycle

    lifecycle._RUNNING = Path('lab.json')
    print(lifecycle.owner())


def stamp(path: str) -> None:
    """Read the stamp of a directory; one that has none is not deleted."""
    from hvstack import paths
    from tests.fuzz import corpus

    # The real one depends on the machine.
    paths._identity = lambda path: corpus.STAMP  # type: ignore[assignment]
    if not paths.is_owned(Path(path)):
        paths.remove_owned(Path(path))
    print(path)


def host_keys() -> None:
    """Record the keys of a cluster beside those of its file."""
    from hvstack.cloud import host_keys

    node = {'name': 'w', 'address': '10.0.0.1', 'server_id': '1234'}
    print(host_keys.record('cluster', {'workers': [node]}))


def lock(name: str) -> None:
    """Take a lock, and release it."""
    from hvstack import paths
    from hvstack.lab import lock as lab_lock
    from hvstack.lab.images import store

    store.root = Path
    lab_lock._LOCK = Path('lab.lock')
    workspace = SimpleNamespace(directory=Path())
    arguments: dict[str, tuple[Any, ...]] = {
        'workspace': (workspace,),
        'cloud': (workspace, 'http://cloud'),
    }
    if hasattr(paths, 'claim'):
        paths.claim = lambda path: None  # type: ignore[assignment]
    with _find(*LOCKS[name])(*arguments.get(name, ())):
        print(name)


def _rally_tasks() -> Path:
    import hvstack

    root = Path(hvstack.__file__).parent
    directory = root / 'share/rally-tasks'
    return directory if directory.is_dir() else root.parent / 'rally-tasks'


def task(path: str) -> None:
    """Render a Rally task with arguments, and check it as Rally does.

    :raises RefusedError: Rally would not start the task.
    """
    import jinja2
    import jsonschema
    import yaml

    from hvstack.rally_plugins.workload_args import WORKLOAD_SCHEMA

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
        raise RefusedError(f'{path}: {type(exc).__name__}: {exc}') from exc
    print(len(content['subtasks']), 'subtasks')


def steps(values: dict[str, Any]) -> None:
    """Read a workload as the scenario does before anything is started."""
    from hvstack.model.target import parse_target
    from hvstack.sweep.run_order import build_workload
    from hvstack.tpcxhs.workload import Workload

    for step in build_workload(
        parse_target(values['configuration']),
        values.get('first_index', 0),
        values['sizes'],
    ):
        Workload(step.size_bytes, 1, 1, 1)
