# SPDX-License-Identifier: Apache-2.0
"""The control plane: from an empty machine to an answering OpenStack."""

import hashlib
import shutil
import stat
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import requests

from hvstack import errors, paths, processutils
from hvstack.lab import (
    bridges,
    cinder,
    clouds_yaml,
    constants,
    database,
    identity,
    neighbours,
    neutron_drivers,
    packages,
    port_conflicts,
    render,
    requirements,
    services,
    settings,
    stages,
    supervisord,
    tenant_network,
    venv,
)
from hvstack.lab.hosts import fake
from hvstack.lab.settings import LabSettings
from hvstack.lab.stages import Stage
from hvstack.progress import Progress

#: Directories of services, (path below the lab's state, owner).
_DIRECTORIES = (
    ('log', None),
    ('tmp', None),
    ('etc', None),
    ('glance/images', None),
    ('glance/staging', None),
    ('glance/tasks', None),
    ('nova', None),
    ('neutron', None),
    ('cinder', None),
    ('rabbitmq', 'rabbitmq'),
    ('rabbitmq/mnesia', 'rabbitmq'),
    ('rabbitmq/log', 'rabbitmq'),
)


def plan(
    lab_settings: LabSettings,
    progress: Progress,
    before: Callable[[], None],
    storage: Sequence[Stage] = (),
    after_packages: Callable[[], None] | None = None,
) -> list[Stage]:
    """Return the stages that bring the control plane up.

    :param progress: gets warnings about firewalls.
    :param before: called once the machine was found fit, before anything
        is changed.
    :param storage: done once the databases answer, before the services.
    :param after_packages: called when the packages are installed; None for
        none.
    """

    def check() -> None:
        requirements.check(lab_settings)
        port_conflicts.check(ceph=lab_settings.ceph, lvm=lab_settings.lvm)
        before()

    return [
        Stage('machine', 30, check),
        Stage(
            'packages', 1500, lambda: _packages(lab_settings, after_packages)
        ),
        Stage("services' environment", 900, _environment),
        Stage('bridges', 30, lambda: _bridges(lab_settings, progress)),
        Stage('configuration', 60, configure),
        Stage('databases and queues', 180, _infrastructure),
        *storage,
        Stage('schemas', 600, _schemas),
        Stage('identity', 180, _identity),
        Stage('services', 300, _services),
        Stage('networks and clouds.yaml', 120, _content),
    ]


def _environment() -> None:
    venv.ensure()
    fake.install()
    neutron_drivers.install()
    if settings.has_ceph():
        cinder.link_bindings()
    if settings.has_lvm():
        cinder.install_target()


def _bridges(lab_settings: LabSettings, progress: Progress) -> None:
    bridges.ensure(lab_settings.untested)
    for neighbour in neighbours.firewalls():
        progress.warn(
            f'{neighbour.subject} {neighbour.effect}; {neighbour.remedy}'
        )


def _packages(
    lab_settings: LabSettings, after_packages: Callable[[], None] | None
) -> None:
    packages.install(
        packages.needed(ceph=lab_settings.ceph, lvm=lab_settings.lvm)
    )
    if after_packages is not None:
        after_packages()


def configure() -> None:
    """Write every configuration file that differs from its template."""
    for name, owner in _DIRECTORIES:
        directory = settings.LAB / name
        paths.make_directory(directory)
        if owner:
            shutil.chown(directory, owner, owner)
    (settings.LAB / 'tmp').chmod(0o1777)
    # What is in here is trusted by commands that run as root.
    paths.make_directory(paths.RUN)
    paths.RUN.chmod(0o755)
    sockets = services.MYSQL_SOCKET.parent
    sockets.mkdir(exist_ok=True)
    shutil.chown(sockets, 'mysql', 'mysql')
    for file in {f for s in services.everything() for f in s.files}:
        render.write(file.template, file.target, mode=file.mode)
        if file.group:
            shutil.chown(file.target, group=file.group)
        if file.owner:
            shutil.chown(file.target, file.owner)
    let_users_enter(
        [
            *(settings.LAB / name for name, owner in _DIRECTORIES if owner),
            services.ETC / 'mysql',
            services.ETC / 'rabbitmq',
            services.CEPH_CONF.target.parent,
        ],
        paths.STATE,
    )


def let_users_enter(directories: Iterable[Path], top: Path) -> None:
    """Let all users enter directories that were made under a private umask.

    :param directories: directories; missing ones are left out.
    :param top: directory above them that is included.
    """
    for directory in directories:
        for path in (directory, *directory.parents):
            if not path.is_relative_to(top) or not path.is_dir():
                continue
            mode = stat.S_IMODE(path.stat().st_mode)
            if not mode & stat.S_IXOTH:
                path.chmod(mode | stat.S_IXGRP | stat.S_IXOTH)


def digest(service: services.Service) -> str:
    """Return a digest of all that makes a service what it is."""
    parts = [repr(service.program).encode()]
    parts += [file.target.read_bytes() for file in service.files]
    return hashlib.sha256(b'\0'.join(parts)).hexdigest()[:16]


def launch(requested: Iterable[services.Service]) -> None:
    """Start services that do not run, restart those that were changed.

    :raises hvstack.errors.CommandError: one ended at once; with its log.
    """
    supervisord.ensure()
    every = list(requested)
    supervisord.add_all(service.program for service in every)
    states = supervisord.status()
    todo = [
        service
        for service in every
        if states[service.name].state not in ('RUNNING', 'STARTING')
        or stages.marked(f'started:{service.name}') != digest(service)
    ]
    halt([service.name for service in todo])
    for service in todo:
        stages.mark(f'started:{service.name}', digest(service))
        supervisord.start(service.name, wait=False)


def _infrastructure() -> None:
    database.initialise()
    launch(services.infrastructure())
    wait('mariadb', database.answers, 60)
    wait('rabbitmq', _rabbit_answers, 90)
    wait('ovn-sb', _ovn_answers, 30)
    database.ovn_listen()


def _rabbit_answers() -> bool:
    port = constants.PORTS['rabbitmq']
    return any(
        entry.port == port and entry.address == constants.MGMT
        for entry in port_conflicts.listeners()
    )


def _ovn_answers() -> bool:
    return all(
        (paths.RUN / f'ovn-{name}.sock').exists() for name in ('nb', 'sb')
    )


def wait(name: str, condition: Callable[[], bool], seconds: int) -> None:
    """Wait until a program does what it should.

    :param name: the program.
    :param condition: function that returns whether the program runs.
    :param seconds: how long to wait.
    :raises hvstack.errors.CommandError: it did not start after several
        tries; with its log's last lines and path.
    :raises hvstack.errors.DeadlineExceededError: the same for one that hangs.
    """

    def has_failed() -> bool:
        return supervisord.status()[name].state == 'FATAL'

    processutils.wait_for(
        lambda: condition() or has_failed(),
        f'{name} to answer',
        timeout=seconds,
        interval=0.3,
        get_reason=lambda: supervisord.log_tail(name),
    )
    if has_failed():
        raise errors.CommandError([name], 1, supervisord.log_tail(name))


def _schemas() -> None:
    # The environment's digest names the services' versions.
    database.sync(venv.directory().name)


def _identity() -> None:
    identity.keys()
    if stages.marked('bootstrap') is None:
        identity.bootstrap()
        stages.mark('bootstrap')
    launch([services.identity()])
    wait_for_api(services.identity())
    version = hashlib.sha256(repr(identity.catalogue()).encode()).hexdigest()
    if stages.marked('identity') != version:
        identity.fill(identity.connect())
        stages.mark('identity', version)


def _services() -> None:
    for name in services.FORMER:
        supervisord.remove(name)
    launch(services.openstack())
    for service in services.openstack():
        if service.path:
            wait_for_api(service)
        else:
            wait(service.name, partial(_runs, service), 60)


def _runs(service: services.Service) -> bool:
    return supervisord.status()[service.name].state == 'RUNNING'


def api_answers(service: services.Service, timeout: float = 5) -> bool:
    """Tell whether an API answers a request without a token."""
    if service.path is None or service.port is None:
        return True
    session = requests.Session()
    session.trust_env = False
    try:
        answer = session.get(
            constants.url(service.port) + service.path, timeout=timeout
        )
    except requests.RequestException:
        return False
    return answer.status_code < 500


def wait_for_api(service: services.Service, seconds: int = 150) -> None:
    """Wait until an API answers.

    :raises hvstack.errors.DeadlineExceededError: with its log's last lines.
    """
    wait(service.name, lambda: api_answers(service), seconds)


def _content() -> None:
    # Each is made once: an administrator may have deleted it since.
    for mark, fill in (
        ('content', tenant_network.fill),
        ('direct network', tenant_network.create_direct_network),
    ):
        if stages.marked(mark) is None:
            fill(identity.connect())
            stages.mark(mark)
    if settings.has_ceph():
        cinder.fill(identity.connect(), settings.load() or LabSettings())
    clouds_yaml.write()


def stop() -> None:
    """Stop the control plane: services first, what they need afterwards."""
    if supervisord.alive():
        users = (services.identity(), *services.openstack())
        # Ceph's disks before its monitor, to which they say good-bye.
        halt([s.name for s in (*users, *services.ceph_osds())])
    supervisord.shutdown()


def halt(names: list[str]) -> None:
    """Stop programs, all at the same time."""
    for name in names:
        supervisord.stop(name, wait=False)

    def ended() -> bool:
        states = supervisord.status()
        return not any(
            states[name].pid or states[name].state == 'STOPPING'
            for name in names
            if name in states
        )

    if names:
        processutils.wait_for(
            ended, 'programs to end', timeout=90, interval=0.3
        )
