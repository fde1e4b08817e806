# SPDX-License-Identifier: Apache-2.0
"""The control plane's databases: making, filling, recording."""

import shutil
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from hvstack import paths, processutils
from hvstack.lab import (
    child_process,
    constants,
    services,
    settings,
    stages,
    supervisord,
    venv,
)

_DATA = settings.LAB / 'mysql'


def initialise() -> None:
    """Make MariaDB's data directory and OVN's databases.

    An interrupted try is thrown away: its data is not whole.
    """
    done = _DATA / '.initialised'
    if not done.exists():
        shutil.rmtree(_DATA, ignore_errors=True)
        _DATA.mkdir(parents=True)
        shutil.chown(_DATA, 'mysql', 'mysql')
        child_process.run(
            [
                'mariadb-install-db',
                f'--defaults-file={services.ETC / "mysql" / "my.cnf"}',
                f'--datadir={_DATA}',
                '--user=mysql',
                '--auth-root-authentication-method=socket',
                '--skip-test-db',
            ]
        )
        done.touch()
    services.OVN.mkdir(parents=True, exist_ok=True)
    for name in ('nb', 'sb'):
        target = services.OVN / f'{name}.db'
        if not target.exists():
            fresh = target.with_suffix('.new')
            fresh.unlink(missing_ok=True)
            schema = f'/usr/share/ovn/ovn-{name}.ovsschema'
            processutils.run(['ovsdb-tool', 'create', fresh, schema])
            fresh.rename(target)


def ovn_listen() -> None:
    """Let OVN's southbound database listen on the management bridge.

    The inactivity probe is long: a busy machine is no dead client.
    """
    target = f'ptcp:{constants.PORTS["ovn-sb"]}:{constants.MGMT}'
    # The user's shell may name the daemon of another OVN.
    command = [
        *('env', '-u', 'OVN_SB_DAEMON'),
        *('ovn-sbctl', f'--db=unix:{paths.RUN}/ovn-sb.sock'),
    ]
    connections = processutils.run(
        [*command, 'get-connection'], timeout=30
    ).stdout
    if target in connections:
        return
    processutils.run(
        [
            *command,
            *('set-connection', target, '--'),
            *('set', 'connection', '.', 'inactivity_probe=120000'),
        ],
        timeout=30,
    )


def sql(text: str) -> str:
    """Run SQL as MariaDB's root and return the output."""
    return processutils.run(
        [
            'mariadb',
            '--no-defaults',
            # MYSQL_HOST of the user's shell would name another server.
            *('--host=localhost', '--protocol=socket'),
            f'--socket={services.MYSQL_SOCKET}',
            '-N',
        ],
        stdin=text,
        timeout=60,
        display_argv=['mariadb'],
    ).stdout


def answers() -> bool:
    """Tell whether MariaDB answers."""
    return sql('SELECT 1;').strip() == '1'


def create(names: Iterable[str], *, afresh: bool = False) -> None:
    """Make databases and their users; harmless if they are there.

    :param afresh: drop them first. MariaDB cannot undo half a migration,
        so a first one that was interrupted must begin with nothing.
    """
    lines = []
    for name in names:
        if afresh:
            lines.append(f'DROP DATABASE IF EXISTS `{name}`;')
        user = constants.database_user(name)
        password = settings.secret(f'db_{user}')
        lines += [
            f'CREATE DATABASE IF NOT EXISTS `{name}`;',
            f"CREATE USER IF NOT EXISTS '{user}'@'localhost';",
            f"ALTER USER '{user}'@'localhost' IDENTIFIED BY '{password}';",
            f"GRANT ALL ON `{name}`.* TO '{user}'@'localhost';",
        ]
    sql('\n'.join(lines))


def _manage(program: str, config: services.File, *args: str) -> None:
    child_process.run(
        [venv.program(program), '--config-file', str(config.target), *args],
        env=supervisord.environment(),
        timeout=600,
    )


def _keystone() -> None:
    _manage('keystone-manage', services.KEYSTONE, 'db_sync')


def _placement() -> None:
    _manage('placement-manage', services.PLACEMENT, 'db', 'sync')


def _glance() -> None:
    _manage('glance-manage', services.GLANCE, 'db_sync')


def _nova() -> None:
    _manage('nova-manage', services.NOVA, 'api_db', 'sync')
    _cells()
    _manage('nova-manage', services.NOVA, 'db', 'sync')


#: Where Nova finds its cells: filled from nova.conf by whoever reads it, so
#: that a changed password or path reaches them, and none is on a command
#: line.
_DATABASE = '{scheme}://{username}:{password}@{hostname}/'
_CELLS = {
    'cell0': ('none:///', _DATABASE + 'nova_cell0?{query}'),
    'cell1': (
        '{scheme}://{username}:{password}@{hostname}:{port}/{path}',
        _DATABASE + 'nova?{query}',
    ),
}


def _cells() -> None:
    """Make Nova's cells, or correct where they are."""
    output = sql(
        'SELECT name, uuid, transport_url, database_connection '
        'FROM nova_api.cell_mappings;'
    )
    existing_cells = {
        name: (uuid, transport, database)
        for name, uuid, transport, database in (
            line.split('\t') for line in output.splitlines()
        )
    }
    for name, (transport, database) in _CELLS.items():
        uuid, *urls = existing_cells.get(name, ('',))
        if urls == [transport, database]:
            continue
        args = ['--database_connection', database]
        if uuid or name != 'cell0':
            args += ['--transport-url', transport]
        if uuid:
            args = ['update_cell', '--cell_uuid', uuid, *args]
        elif name == 'cell0':
            args = ['map_cell0', *args]
        else:
            args = ['create_cell', '--name', name, *args]
        _manage('nova-manage', services.NOVA, 'cell_v2', *args)


def _neutron() -> None:
    child_process.run(
        [
            venv.program('neutron-db-manage'),
            *('--config-file', str(services.NEUTRON.target)),
            *('--config-file', str(services.ML2.target)),
            *('upgrade', 'heads'),
        ],
        env=supervisord.environment(),
        timeout=600,
    )


def _heat() -> None:
    _manage('heat-manage', services.HEAT, 'db_sync')


def _cinder() -> None:
    _manage('cinder-manage', services.CINDER, 'db', 'sync')


@dataclass(frozen=True)
class Schema:
    """What a service keeps in MariaDB.

    :param databases: names.
    :param sync: brings them up to date.
    """

    databases: tuple[str, ...]
    sync: Callable[[], None]


#: The longest first: they are done two at a time.
SCHEMAS = {
    'neutron': Schema(('neutron',), _neutron),
    'nova': Schema(('nova_api', 'nova_cell0', 'nova'), _nova),
    'heat': Schema(('heat',), _heat),
    'keystone': Schema(('keystone',), _keystone),
    'glance': Schema(('glance',), _glance),
    'placement': Schema(('placement',), _placement),
}
#: The same of a service that only a lab with Ceph or with LVM has.
CINDER = {'cinder': Schema(('cinder',), _cinder)}


def sync(version: str) -> None:
    """Make databases and bring schemas up to date, two at a time.

    What was finished for this version is not done again.

    :param version: names the services' versions.
    :raises hvstack.errors.CommandError: one failed.
    """

    def sync_schema(name: str) -> None:
        schemas[name].sync()
        with marking:
            stages.mark(f'schema:{name}', version)

    marking = threading.Lock()
    schemas = {**SCHEMAS, **(CINDER if settings.has_cinder() else {})}
    todo = []
    for name, schema in schemas.items():
        finished = stages.marked(f'schema:{name}')
        create(schema.databases, afresh=finished is None)
        if finished != version:
            todo.append(name)
        elif name == 'nova':
            _cells()
    with ThreadPoolExecutor(max_workers=2) as pool:
        running = [pool.submit(sync_schema, name) for name in todo]
        try:
            for future in running:
                future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
