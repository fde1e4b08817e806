# SPDX-License-Identifier: Apache-2.0
"""The control plane's programs and their configuration files, as data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hvstack import paths
from hvstack.lab import constants, settings, supervisord, venv

ETC = settings.LAB / 'etc'
OVN = settings.LAB / 'ovn'
MYSQL_SOCKET = paths.RUN / 'mysql' / 'mysql.sock'


@dataclass(frozen=True)
class File:
    """A configuration file made from a template.

    :param template: path below ``etc/lab``.
    :param target: where it goes.
    :param mode: permission bits.
    :param group: group that may read it, root otherwise.
    :param owner: who owns it, root otherwise.
    """

    template: str
    target: Path
    mode: int = 0o600
    group: str | None = None
    owner: str | None = None


#: What RabbitMQ's start script reads instead of files below ``/etc``.
RABBIT_ENV = {
    'HOME': str(settings.LAB / 'rabbitmq'),
    'RABBITMQ_NODENAME': 'hvstack@localhost',
    'RABBITMQ_CONF_ENV_FILE': '/dev/null',
    'RABBITMQ_CONFIG_FILE': str(ETC / 'rabbitmq' / 'rabbitmq.conf'),
    'RABBITMQ_ADVANCED_CONFIG_FILE': '/nonexistent',
    'RABBITMQ_ENABLED_PLUGINS_FILE': str(ETC / 'rabbitmq' / 'plugins'),
    'RABBITMQ_MNESIA_BASE': str(settings.LAB / 'rabbitmq' / 'mnesia'),
    'RABBITMQ_LOG_BASE': str(settings.LAB / 'rabbitmq' / 'log'),
    'RABBITMQ_LOGS': '-',
    'RABBITMQ_DIST_PORT': str(constants.LOOPBACK_PORTS['rabbitmq-dist']),
    # Two schedulers that sleep when idle: the cores are the guests'.
    'RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS': (
        '-kernel inet_dist_use_interface {127,0,0,1} +S 2:2 +sbwt none '
        '+sbwtdcpu none +sbwtdio none'
    ),
    'ERL_EPMD_ADDRESS': '127.0.0.1',
    'ERL_EPMD_PORT': str(constants.LOOPBACK_PORTS['epmd']),
}


#: Python runs one thread at a time: with an arena for each of them, glibc only
#: keeps more memory that is free (mallopt, M_ARENA_MAX).
_MALLOC_ENV = {'MALLOC_ARENA_MAX': '1'}


@dataclass(frozen=True)
class Service:
    """A program of the control plane.

    :param program: how to run it.
    :param files: what it reads; a change restarts it.
    :param port: name of its port in :data:`values.PORTS`, if it listens.
    :param path: path of an API that answers without a token.
    """

    program: supervisord.Program
    files: tuple[File, ...] = ()
    port: str | None = None
    path: str | None = None

    @property
    def name(self) -> str:
        """The program's name."""
        return self.program.name


def _ovsdb(database: str) -> Service:
    name = f'ovn-{database}'
    # Only the southbound database is needed on other hosts. Its TCP listener,
    # with a patient probe, is a row in the database.
    is_remote = database == 'sb'
    remotes = [f'--remote=punix:{paths.RUN}/{name}.sock']
    if is_remote:
        remotes.append('--remote=db:OVN_Southbound,SB_Global,connections')
    command = (
        'ovsdb-server',
        '--no-chdir',
        *remotes,
        f'--unixctl={paths.RUN}/{name}.ctl',
        str(OVN / f'{database}.db'),
    )
    return Service(
        supervisord.Program(name, command), port=name if is_remote else None
    )


#: Runs Ceph's daemons, and owns their data.
CEPH_USER = 'ceph'
CEPH_CONF = File('control/ceph.conf.j2', ETC / 'ceph' / 'ceph.conf', 0o644)
#: All keys, for the monitor's first start and for the daemons.
CEPH_KEYS = File(
    'control/ceph.keyring.j2',
    ETC / 'ceph' / 'daemons.keyring',
    owner=CEPH_USER,
)
_CEPH_CLIENTS = tuple(
    File(
        f'control/ceph.client.{name}.keyring.j2',
        ETC / 'ceph' / f'client.{name}.keyring',
    )
    for name in ('admin', 'cinder')
)


def _ceph(daemon: str, identifier: str, index: str = '') -> Service:
    return Service(
        supervisord.Program(
            f'ceph-{daemon}{index}',
            (
                f'/usr/bin/ceph-{daemon}',
                '-f',
                *('--id', identifier, '--conf', str(CEPH_CONF.target)),
            ),
            user=CEPH_USER,
            stop_seconds=30,
        ),
        (CEPH_CONF, CEPH_KEYS),
        port='ceph-mon' if daemon == 'mon' else None,
    )


def ceph_monitors() -> tuple[Service, ...]:
    """Return Ceph's monitor and manager."""
    return (_ceph('mon', 'a'), _ceph('mgr', 'a'))


def ceph_osds() -> tuple[Service, ...]:
    """Return Ceph's disks."""
    return tuple(_ceph('osd', str(n), str(n)) for n in range(settings.OSDS))


def ceph() -> tuple[Service, ...]:
    """Return Ceph, which only a lab with it has."""
    return (*ceph_monitors(), *ceph_osds())


#: What everything else needs; started first.
def infrastructure() -> tuple[Service, ...]:
    """Return database, message queue, cache and OVN's databases."""
    mysql = File('control/my.cnf.j2', ETC / 'mysql' / 'my.cnf', 0o644)
    rabbit = (
        File(
            'control/rabbitmq.conf.j2',
            ETC / 'rabbitmq' / 'rabbitmq.conf',
            0o640,
            'rabbitmq',
        ),
        File(
            'control/rabbitmq-plugins.j2', ETC / 'rabbitmq' / 'plugins', 0o644
        ),
    )
    return (
        Service(
            supervisord.Program(
                'mariadb',
                ('/usr/sbin/mariadbd', f'--defaults-file={mysql.target}'),
                user='mysql',
                stop_seconds=60,
            ),
            (mysql,),
        ),
        Service(
            supervisord.Program(
                'epmd',
                (
                    'epmd',
                    '-address',
                    '127.0.0.1',
                    '-port',
                    str(constants.LOOPBACK_PORTS['epmd']),
                ),
                user='rabbitmq',
            )
        ),
        Service(
            supervisord.Program(
                'rabbitmq',
                ('/usr/lib/rabbitmq/bin/rabbitmq-server',),
                env=RABBIT_ENV,
                user='rabbitmq',
                stop_seconds=30,
            ),
            rabbit,
            port='rabbitmq',
        ),
        Service(
            supervisord.Program(
                'memcached',
                (
                    'memcached',
                    *('-l', '127.0.0.1'),
                    *('-p', str(constants.LOOPBACK_PORTS['memcached'])),
                    *('-m', '32', '-U', '0', '-t', '1', '-u', 'memcache'),
                ),
            )
        ),
        _ovsdb('nb'),
        _ovsdb('sb'),
        Service(
            supervisord.Program(
                'ovn-northd',
                (
                    'ovn-northd',
                    f'--ovnnb-db=unix:{paths.RUN}/ovn-nb.sock',
                    f'--ovnsb-db=unix:{paths.RUN}/ovn-sb.sock',
                    f'--unixctl={paths.RUN}/ovn-northd.ctl',
                ),
            )
        ),
    )


def _api(
    name: str,
    module: str,
    files: tuple[File, ...],
    env: Mapping[str, str] | None = None,
    *,
    path: str = '/',
    processes: int = 1,
    threads: int = 4,
    options: Sequence[str] = (),
) -> Service:
    """Return an API under uwsgi.

    ``Connection: close`` because uwsgi's HTTP socket keeps no connection,
    and clients that believe otherwise see resets.
    """
    command = (
        venv.program('uwsgi'),
        *_listen_on(name),
        *options,
        *('--module', f'{module}:application'),
        *('--add-header', 'Connection: close'),
        *('--processes', str(processes), '--threads', str(threads)),
        *('--buffer-size', '65535', '--listen', '100'),
        '--master',
        '--die-on-term',
        '--enable-threads',
        '--lazy-apps',
        '--need-app',
        '--http-chunked-input',
        '--wsgi-disable-file-wrapper',
        '--disable-logging',
        *('--log-4xx', '--log-5xx'),
    )
    return Service(
        supervisord.Program(
            name,
            command,
            env={**_MALLOC_ENV, **(env or {})},
            stop_signal='INT',
            start_seconds=8,
        ),
        files,
        port=name,
        path=path,
    )


def _listen_on(name: str) -> tuple[str, str]:
    return '--http-socket', f'{constants.MGMT}:{constants.PORTS[name]}'


def _apis(
    modules: Mapping[str, str],
    files: tuple[File, ...],
    env: Mapping[str, str] | None = None,
) -> Service:
    """Return several APIs of a service in one process under uwsgi.

    :param modules: modules by the names of their ports, the first of which is
        the name of the service.
    """
    name, *others = modules
    by_port = [
        f'{constants.PORTS[port]}={module}' for port, module in modules.items()
    ]
    return _api(
        name,
        APIS.target.stem,
        (*files, APIS),
        {**(env or {}), 'HVSTACK_APIS': ' '.join(by_port)},
        threads=4 * len(modules),
        options=(
            *(word for port in others for word in _listen_on(port)),
            *('--pythonpath', str(APIS.target.parent)),
        ),
    )


def _daemon(
    name: str,
    config: tuple[File, ...],
    argv: Sequence[str],
    *,
    files: tuple[File, ...] = (),
) -> Service:
    """Return a daemon.

    :param config: configuration files, which become its last arguments.
    :param argv: program with its first arguments.
    :param files: other files that it reads.
    """
    options = [
        word for file in config for word in ('--config-file', str(file.target))
    ]
    return Service(
        supervisord.Program(
            name,
            [*argv, *options],
            env=_MALLOC_ENV,
            start_seconds=2,
            stop_seconds=20,
        ),
        (*config, *files),
    )


#: Releases whose daemons have green threads, which :data:`DAEMON` is not for.
EVENTLET_RELEASES = ('2025.1',)
#: Programs of the daemons that have another name.
_PROGRAMS = {'neutron-ovn-maintenance': 'neutron-ovn-maintenance-worker'}


def _one_process(
    name: str, config: tuple[File, ...], module: str, function: str = 'main'
) -> Service:
    """Return a daemon without a master process.

    :param config: configuration files.
    :param module: module whose function is the daemon.
    :param function: name of the function.
    """
    if settings.get_release() in EVENTLET_RELEASES:
        # With one worker, only Neutron's has a master process.
        return _daemon(name, config, [venv.program(_PROGRAMS.get(name, name))])
    argv = [str(DAEMON.target), name, module, function]
    return _daemon(name, config, argv, files=(DAEMON,))


KEYSTONE = File('control/keystone.conf.j2', ETC / 'keystone' / 'keystone.conf')
PLACEMENT = File(
    'control/placement.conf.j2', ETC / 'placement' / 'placement.conf'
)
GLANCE = File('control/glance-api.conf.j2', ETC / 'glance' / 'glance-api.conf')
NOVA = File('control/nova.conf.j2', ETC / 'nova' / 'nova.conf')
NEUTRON = File('control/neutron.conf.j2', ETC / 'neutron' / 'neutron.conf')
ML2 = File('control/ml2_conf.ini.j2', ETC / 'neutron' / 'ml2_conf.ini')
#: heat's WSGI modules look in ``~/.heat`` and ``/etc/heat`` only.
HEAT = File('control/heat.conf.j2', ETC / 'home' / '.heat' / 'heat.conf')
#: cinder's WSGI module looks in the same places.
CINDER = File(
    'control/cinder.conf.j2', ETC / 'home' / '.cinder' / 'cinder.conf'
)
#: Runs a daemon without a master process.
DAEMON = File('control/daemon.j2', ETC / 'daemon', 0o755)
#: WSGI module of several APIs in one process.
APIS = File('control/apis.j2', ETC / 'wsgi' / 'hvstack_apis.py', 0o644)
#: Starts cinder-scheduler where volumes are on the hosts of their servers.
CINDER_SCHEDULER = File(
    'control/cinder-scheduler.j2', ETC / 'cinder' / 'cinder-scheduler', 0o755
)


#: Programs of a lab of an older version, which occupy ports that others have
#: now.
FORMER = ('nova-metadata', 'heat-cfn')


def identity() -> Service:
    """Return keystone, which the others' set-up needs."""
    return _api(
        'keystone',
        'keystone.wsgi.api',
        (KEYSTONE,),
        {'OS_KEYSTONE_CONFIG_DIR': str(ETC / 'keystone')},
        path='/v3',
        # Its AuthContextMiddleware keeps the token of the request in itself:
        # another thread's request would be judged by it.
        processes=2,
        threads=1,
    )


def openstack() -> tuple[Service, ...]:
    """Return the OpenStack services beside keystone."""
    # Its first file is taken as the paste configuration.
    nova_files = f'{venv.directory()}/etc/nova/api-paste.ini;{NOVA.target}'
    nova = {'OS_NOVA_CONFIG_FILES': nova_files}
    if settings.get_release() in EVENTLET_RELEASES:
        # The threads are those of uwsgi.
        nova['OS_NOVA_DISABLE_EVENTLET_PATCHING'] = '1'
    neutron_files = (NEUTRON, ML2)
    neutron_config = ';'.join(str(file.target) for file in neutron_files)
    return (
        _api(
            'placement',
            'placement.wsgi.api',
            (PLACEMENT,),
            {'OS_PLACEMENT_CONFIG_DIR': str(ETC / 'placement')},
        ),
        _api(
            'glance',
            'glance.wsgi.api',
            (GLANCE,),
            {'OS_GLANCE_CONFIG_DIR': str(ETC / 'glance')},
        ),
        _apis(
            {
                'nova': 'nova.wsgi.osapi_compute',
                'nova-metadata': 'nova.wsgi.metadata',
            },
            (NOVA,),
            nova,
        ),
        _api(
            'neutron',
            'neutron.wsgi.api',
            neutron_files,
            {'OS_NEUTRON_CONFIG_FILES': neutron_config},
        ),
        _apis({'heat': 'heat.wsgi.api', 'heat-cfn': 'heat.wsgi.cfn'}, (HEAT,)),
        _one_process('nova-conductor', (NOVA,), 'nova.cmd.conductor'),
        _one_process('nova-scheduler', (NOVA,), 'nova.cmd.scheduler'),
        _one_process(
            'neutron-ovn-maintenance',
            neutron_files,
            'neutron.cmd.server',
            'main_ovn_maintenance',
        ),
        _one_process('heat-engine', (HEAT,), 'heat.cmd.engine'),
        *(cinder() if settings.has_cinder() else ()),
    )


def cinder() -> tuple[Service, ...]:
    """Return Cinder, which only a lab with Ceph or with LVM has.

    With LVM, each host has a cinder-volume of its own.
    """
    config = (CINDER,)
    if settings.has_lvm() or settings.has_host_affinity():
        scheduler = _daemon(
            'cinder-scheduler',
            config,
            [str(CINDER_SCHEDULER.target)],
            files=(CINDER_SCHEDULER,),
        )
    else:
        scheduler = _daemon(
            'cinder-scheduler', config, [venv.program('cinder-scheduler')]
        )
    if settings.has_lvm():
        return (_api('cinder', 'cinder.wsgi.api', config), scheduler)
    clients = (CEPH_CONF, *_CEPH_CLIENTS)
    return (
        _api('cinder', 'cinder.wsgi.api', (*config, *clients)),
        scheduler,
        _daemon(
            'cinder-volume',
            config,
            [venv.program('cinder-volume')],
            files=clients,
        ),
    )


def everything() -> tuple[Service, ...]:
    """Return all services in the order they start in."""
    return (
        *infrastructure(),
        *(ceph() if settings.has_ceph() else ()),
        identity(),
        *openstack(),
    )
