# SPDX-License-Identifier: Apache-2.0
"""The control plane's databases: making, filling, recording."""

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from hvstack import paths, shell
from hvstack.lab import services, settings, supervise, values, venv

_DATA = settings.LAB / 'mysql'


def initialise() -> None:
    """Make MariaDB's data folder and OVN's databases.

    An interrupted try is thrown away: its data is not whole.
    """
    done = _DATA / '.initialised'
    if not done.exists():
        shutil.rmtree(_DATA, ignore_errors=True)
        _DATA.mkdir(parents=True)
        shutil.chown(_DATA, 'mysql', 'mysql')
        shell.run(
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
    for kind in ('nb', 'sb'):
        target = services.OVN / f'{kind}.db'
        if not target.exists():
            fresh = target.with_suffix('.new')
            fresh.unlink(missing_ok=True)
            schema = f'/usr/share/ovn/ovn-{kind}.ovsschema'
            shell.run(['ovsdb-tool', 'create', fresh, schema])
            fresh.rename(target)


def ovn_listen() -> None:
    """Let OVN's databases listen on the management bridge.

    The inactivity probe is long: a busy machine is no dead client.
    """
    for kind, tool in (('nb', 'ovn-nbctl'), ('sb', 'ovn-sbctl')):
        port = values.PORTS[f'ovn-{kind}']
        target = f'ptcp:{port}:{values.MGMT}'
        command = [tool, f'--db=unix:{paths.RUN}/ovn-{kind}.sock']
        shown = shell.run([*command, 'get-connection'], timeout=30).stdout
        if target in shown:
            continue
        shell.run(
            [
                *command,
                *('set-connection', target, '--'),
                *('set', 'connection', '.', 'inactivity_probe=120000'),
            ],
            timeout=30,
        )


def sql(text: str) -> str:
    """Run SQL as MariaDB's root and return what it prints."""
    return shell.run(
        [
            'mariadb',
            '--no-defaults',
            f'--socket={services.MYSQL_SOCKET}',
            '-N',
        ],
        stdin=text,
        timeout=60,
        shown=['mariadb'],
    ).stdout


def answers() -> bool:
    """Tell whether MariaDB answers."""
    return sql('SELECT 1;').strip() == '1'


def create() -> None:
    """Make the databases and their users; harmless if they are there."""
    lines = []
    for name in values.DATABASES:
        password = settings.secret(f'db_{name}')
        lines += [
            f'CREATE DATABASE IF NOT EXISTS `{name}`;',
            f"CREATE USER IF NOT EXISTS '{name}'@'localhost';",
            f"ALTER USER '{name}'@'localhost' IDENTIFIED BY '{password}';",
            f"GRANT ALL ON `{name}`.* TO '{name}'@'localhost';",
        ]
    sql('\n'.join(lines))


def _manage(program: str, config: services.File, *words: str) -> None:
    shell.run(
        [venv.program(program), '--config-file', str(config.target), *words],
        env=supervise.environment(),
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
    _manage(
        'nova-manage',
        services.NOVA,
        *('cell_v2', 'map_cell0', '--database_connection'),
        values.database_url('nova_cell0'),
    )
    if 'cell1' not in sql('SELECT name FROM nova_api.cell_mappings;'):
        _manage(
            'nova-manage',
            services.NOVA,
            'cell_v2',
            'create_cell',
            '--name=cell1',
        )
    _manage('nova-manage', services.NOVA, 'db', 'sync')


def _neutron() -> None:
    shell.run(
        [
            venv.program('neutron-db-manage'),
            *('--config-file', str(services.NEUTRON.target)),
            *('--config-file', str(services.ML2.target)),
            *('upgrade', 'heads'),
        ],
        env=supervise.environment(),
        timeout=600,
    )


def _heat() -> None:
    _manage('heat-manage', services.HEAT, 'db_sync')


#: Services whose databases have a schema to bring up to date.
SYNCS: dict[str, Callable[[], None]] = {
    'neutron': _neutron,
    'nova': _nova,
    'heat': _heat,
    'keystone': _keystone,
    'glance': _glance,
    'placement': _placement,
}


def sync(wanted: list[str], done: Callable[[str], None]) -> None:
    """Bring schemas up to date, two at a time.

    :param wanted: keys of :data:`SYNCS`.
    :param done: called with each as it ends, so that an interrupted run
        need not repeat it.
    :raises hvstack.errors.CommandFailed: one failed.
    """

    def one(name: str) -> None:
        SYNCS[name]()
        done(name)

    with ThreadPoolExecutor(max_workers=2) as pool:
        for future in [pool.submit(one, name) for name in wanted]:
            future.result()
