# SPDX-License-Identifier: Apache-2.0
"""Bare metal: hosts without Nova, with Hadoop started on them directly."""

import contextlib
import fcntl
import json
import os
import shlex
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Self

from hvstack import (
    errors,
    interrupts,
    jsonfile,
    paths,
    pid_files,
    processutils,
    textfile,
)
from hvstack.cluster import actions, host_inventory, host_script, probe
from hvstack.cluster.base import (
    LOCAL_DROP_CACHES,
    ClusterFacts,
    ClusterNodes,
    Fact,
    Node,
    ShellNode,
)
from hvstack.cluster.command_node import CommandNode
from hvstack.cluster.host_inventory import Host as Host
from hvstack.hadoop import (
    daemons,
    os_profiles,
    site_files,
    sizing,
    tuning_profiles,
)
from hvstack.model.host import HostProfile
from hvstack.model.strict_mapping import Fields
from hvstack.progress import Progress

#: Where the lab says how its hosts are entered without Nova.
LAB = paths.STATE / 'lab' / 'baseline.json'
#: One file per process that has taken hosts, with the actions that release
#: them (:mod:`hvstack.cluster.actions`).
ACQUIRED_HOSTS_DIR = paths.STATE / 'journal' / 'hosts'

#: A host may have to unpack the root file system first, over its network.
_PREPARE_SECONDS = 900
_RELEASE_SECONDS = 300
_LOCK_INTERVAL = 0.5
_READY_SECONDS = 240
#: Where a host that ssh reaches has the settings of its operating system.
#: Hadoop's daemons would run :data:`hvstack.hadoop.os_profiles.SETUP`, and are
#: not root there.
_SETUP = '/etc/hvstack/host-setup'
#: 64 TiB: more is a mistyped unit.
_MAX_MIB = 64 * 1024 * 1024
#: Longest argument of a command.
_MAX_ARGUMENT = 65535


_FIELDS = {
    'name': str,
    'role': str,
    'address': str,
    'vcpus': int,
    'memory_mib': int,
    'enter': list,
}
#: Fields that may be missing, with their types.
_OPTIONAL = {
    'lab': bool,
    'cpu_cap': int | float,
    'memory_cap_mib': int,
    'backend': str,
}


def read(path: Path = LAB) -> list[Host]:
    """Read a baseline file, or the inventory of hosts that ssh reaches.

    :param path: the latter ends in .yaml.
    :raises hvstack.errors.InputError: it is missing, or a field is wrong.
    """
    if path.suffix in ('.yaml', '.yml'):
        return host_inventory.check_roles(path, host_inventory.inventory(path))
    try:
        document = jsonfile.load(path)
    except textfile.MissingFileError as exc:
        raise errors.InputError(
            f"{path}: there is none; 'hvstack lab up' writes the lab's, for "
            'other hosts give a file with --hosts'
        ) from exc
    data = document.data
    if not isinstance(data, list):
        raise errors.InputError(f'{path}: must be a list of hosts')
    hosts = []
    for host_index, item in enumerate(data):
        if not isinstance(item, dict):
            raise errors.InputError(f'{path}: host {host_index} is no mapping')
        for name, field_type in _FIELDS.items():
            if not isinstance(item.get(name), field_type):
                raise errors.InputError(
                    f"{path}: host {host_index} '{name}' must be a "
                    f'{field_type.__name__}'
                )
        for name in sorted(set(item) - set(_FIELDS) - set(_OPTIONAL)):
            raise errors.InputError(
                f"{path}: host {host_index} '{name}' is unknown. Delete the "
                'field; hosts outside a lab need an inventory (.yaml), see '
                "'The benchmark' in the user guide."
            )
        for name, types in _OPTIONAL.items():
            if not isinstance(item.get(name), types | None):
                raise errors.InputError(
                    f"{path}: host {host_index} '{name}' is {item[name]!r:.60}"
                )
        fields = Fields(
            item, document.source_location(), list(item), str(host_index)
        )
        fields.choice('role', ('controller', 'worker'))
        fields.address('address')
        fields.integer('vcpus', 1, 4096)
        fields.integer('memory_mib', 1, _MAX_MIB)
        if fields.has('memory_cap_mib'):
            fields.integer('memory_cap_mib', 1, _MAX_MIB)
        if fields.has('cpu_cap'):
            fields.number('cpu_cap', 0.001, 4096)
        if item.get('backend'):
            fields.identifier('backend')
        for index, argument in enumerate(item['enter']):
            if not isinstance(argument, str) or len(argument) > _MAX_ARGUMENT:
                raise fields.error(
                    f'enter.{index}',
                    f'is not a text of at most {_MAX_ARGUMENT} characters',
                )
        if not actions.NAME.fullmatch(item['name']):
            raise errors.InputError(
                f"{path}: host {host_index} 'name' is no host name"
            )
        hosts.append(_lab_host(item))
    return host_inventory.check_roles(path, hosts)


def _lab_host(item: dict[str, Any]) -> Host:
    is_lab = item.get('lab', False)
    name = item['name']
    return Host(
        **{field: item[field] for field in _FIELDS if field != 'enter'},
        enter=tuple(item['enter']),
        prepare=tuple(actions.lab_command('prepare', name)) if is_lab else (),
        release=actions.ReleaseLabHost(name) if is_lab else None,
        cpu_cap=item.get('cpu_cap'),
        memory_cap_mib=item.get('memory_cap_mib'),
        backend=item.get('backend', ''),
    )


def lab_machine() -> Node:
    """Return the machine that the lab's hosts share: its kernel and CPUs."""
    return CommandNode('this machine', '127.0.0.1', 'worker', 'this machine')


def lab_backend(profile: HostProfile) -> str | None:
    """Return the compute backend of the lab's workers.

    Nova's API does not tell kvm from qemu.

    :param profile: host profile of the workers.
    :returns: None where they are not the lab's, or have several.
    :raises hvstack.errors.InputError: the lab's file is wrong.
    """
    if not profile.policy.lab or not os.path.lexists(LAB):
        return None
    backends = {host.backend for host in read(LAB) if host.role == 'worker'}
    if len(backends) != 1:
        return None
    return backends.pop() or None


def environment(hosts: Sequence[Host]) -> dict[str, Fact]:
    """Return the facts that only the hosts' owner knows.

    The same for a cluster of guests on these hosts and for bare metal.
    """
    caps = {
        host.name: {'cpu': host.cpu_cap, 'memory_mib': host.memory_cap_mib}
        for host in hosts
        if host.cpu_cap is not None or host.memory_cap_mib is not None
    }
    facts: dict[str, Fact] = {
        'hosts': len(hosts),
        'worker_hosts': sum(host.role == 'worker' for host in hosts),
    }
    if caps:
        facts['caps'] = caps
        facts['scale_model'] = any(
            host.cpu_cap is not None and host.cpu_cap < host.vcpus
            for host in hosts
        )
    return facts


def recover() -> list[str]:
    """Give back the hosts that dead processes had taken.

    Where a process has hosts, it did so before it took them.

    :returns: names of these hosts.
    :raises hvstack.errors.HVStackError: one cannot be given back; the next
        start tries again.
    """
    deadline = time.monotonic() + _RELEASE_SECONDS
    while True:
        with contextlib.ExitStack() as stack:
            lock = stack.enter_context(_open_lock())
            if _locks(lock):
                return _recover()
            if any(mark.is_alive for mark in _marks()):
                return []
            if time.monotonic() > deadline:
                raise _busy(lock)
        # Another process is giving hosts back, or is about to take some.
        time.sleep(_LOCK_INTERVAL)


def _recover() -> list[str]:
    """Give back hosts, under the lock that taking hosts has."""
    names: list[str] = []
    for mark in _marks():
        if mark.is_alive:
            continue
        releases = [actions.load(data, mark.path) for data in mark.hosts]
        try:
            _release(releases)
        except errors.HVStackError as exc:
            reason = str(getattr(exc, 'tail', '') or exc)
            raise errors.HVStackError(
                f'{", ".join(action.name for action in releases)} cannot be '
                f'given back after bare metal: {" ".join(reason.split())}; '
                'the next start tries again; if they are gone for good, '
                f'delete {mark.path}'
            ) from exc
        names += [action.name for action in releases]
        mark.path.unlink(missing_ok=True)
        paths.sync_directory(ACQUIRED_HOSTS_DIR)
    return names


def _open_lock() -> IO[str]:
    paths.make_directory(ACQUIRED_HOSTS_DIR)
    return paths.open_lock(ACQUIRED_HOSTS_DIR / 'lock')


def _locks(lock: IO[str]) -> bool:
    """Return whether this process gets the lock, and write its pid there."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    lock.truncate(0)
    lock.write(f'{os.getpid()}\n')
    lock.flush()
    return True


def _busy(lock: IO[str]) -> errors.Busy:
    lock.seek(0)
    holder = lock.read(20).strip() or 'unknown'
    return errors.Busy(
        f'another process measures bare metal (pid {holder}): wait for it, or '
        'end it'
    )


def holders() -> set[int]:
    """Return the other processes that have taken hosts.

    :raises hvstack.errors.InputError: a mark cannot be read.
    """
    return {mark.pid for mark in _marks() if mark.is_alive} - {os.getpid()}


@dataclass(frozen=True)
class _Mark:
    """A file that a process wrote before it took hosts.

    :param pid: the process.
    :param started: its start, in clock ticks since boot.
    :param boot: id of the boot.
    :param namespace: inode of the process' pid namespace.
    :param hosts: actions that release the hosts, as they were read.
    """

    path: Path
    pid: int
    started: int
    hosts: list[Any]
    boot: str
    namespace: int

    @property
    def is_alive(self) -> bool:
        """Whether the process may still run."""
        process = pid_files.Process(
            self.pid, self.started, self.boot, self.namespace
        )
        return process.is_alive() is not False


def _marks() -> Iterator[_Mark]:
    """Yield the marks of all processes.

    :raises hvstack.errors.InputError: a file is not a mark.
    """
    for path in sorted(ACQUIRED_HOSTS_DIR.glob('*.json')):
        try:
            data = jsonfile.load(path).data
            mark = _Mark(
                path,
                data['pid'],
                data['started'],
                data['hosts'],
                # Marks of older releases have neither.
                data.get('boot', pid_files.boot()),
                data.get('namespace', 0),
            )
            if not (
                type(mark.pid) is int
                and 0 < mark.pid <= 2**22
                and type(mark.started) is int
                and mark.started >= 0
                and isinstance(mark.namespace, int)
                and isinstance(mark.boot, str)
                and isinstance(mark.hosts, list)
            ):
                raise TypeError
            for item in mark.hosts:
                actions.check(item, path)
        except textfile.MissingFileError:
            continue
        except (
            errors.InputError,
            TypeError,
            KeyError,
            AttributeError,
        ) as exc:
            reason = (
                str(exc).removesuffix('.')
                if isinstance(exc, errors.InputError)
                else "'pid', 'started' or 'hosts' is missing or not valid"
            )
            raise errors.InputError(
                f'Cannot read which bare-metal hosts to release ({path}): '
                f'{reason}. Check the hosts that the file '
                f'names, then delete {path}.'
            ) from exc
        yield mark


def _release(releases: Iterable[actions.Action]) -> None:
    """Run all actions at once; raise the first error at the end."""

    def run(action: actions.Action) -> None:
        processutils.run(action.argv(), timeout=_RELEASE_SECONDS)

    with ThreadPoolExecutor(max_workers=16) as pool:
        jobs = [pool.submit(run, action) for action in releases]
    for job in jobs:
        job.result()


@dataclass(frozen=True)
class _Recorder(ShellNode):
    """A node that notes commands instead of running them.

    :param node: the node that they are for.
    :param rows: where they are noted: host, reason and command.
    """

    node: Node
    rows: list[tuple[str, str, str]]

    def argv(self, command: str) -> list[str]:
        """Return the command line on the host."""
        if isinstance(self.node, host_inventory.Reach):
            return [*self.node.inside, 'sh', '-c', command]
        if isinstance(self.node, CommandNode):
            return self.node.argv(command)
        return ['sh', '-c', command]

    def run(
        self,
        command: str,
        *,
        timeout: float = 600,
        check: bool = True,
        stdin: str | None = None,
    ) -> processutils.Result:
        """Note a command; it returns as if it had failed in silence."""
        reason = 'Start, configure and stop Hadoop'
        self.rows.append((self.name, reason, shlex.join(self.argv(command))))
        return processutils.Result(1, '', '')


@dataclass
class BareHosts(ClusterNodes):
    """Hosts without Nova; in its context Hadoop runs on them.

    One DataNode and one NodeManager per worker host, as vsphere6's native
    platform. Hadoop is sized by the same function as for guests.

    :param hosts: of the baseline file.
    :param replication: of input and output.
    :param os_profile: of their operating system.
    :param progress: where to say what is done.
    """

    hosts: list[Host] = field(default_factory=list)
    replication: int = 2
    os_profile: str = os_profiles.DEFAULT
    progress: Progress | None = None
    _mark: Path | None = None
    _lock: IO[str] | None = None

    kind = 'hosts'

    @classmethod
    def from_file(
        cls,
        path: Path = LAB,
        *,
        replication: int | None = None,
        progress: Progress | None = None,
        tuning: str = sizing.DEFAULT,
        os_profile: str = os_profiles.DEFAULT,
    ) -> Self:
        """Make a cluster of a baseline file.

        The lab's hosts share this machine's page cache, others have each
        their own.

        :param replication: min(3, worker hosts) by default.
        :param tuning: profile of Hadoop's settings.
        :param os_profile: of the hosts' operating system; of the lab's
            hosts, which share this machine's kernel, the limits alone.
        :raises hvstack.errors.InputError: the file is not well formed, or
            there is no such profile.
        """
        tuning_profiles.load(tuning)
        os_profiles.settings(os_profile)
        hosts = read(path)
        nodes = [
            host.reach
            or CommandNode(
                name=host.name,
                address=host.address,
                role=host.role,
                host=host.name,
                enter=host.enter,
            )
            for host in hosts
        ]
        workers = [node for node in nodes if node.role == 'worker']
        return cls(
            name='bare-metal',
            gateway=next(n for n in nodes if n.role == 'controller'),
            workers=list(workers),
            processors=next(h.vcpus for h in hosts if h.role == 'worker'),
            facts=ClusterFacts(
                environment(hosts),
                drop_command=LOCAL_DROP_CACHES if path == LAB else None,
            ),
            tuning=tuning,
            os_profile=os_profile,
            hosts=hosts,
            replication=replication or min(3, len(workers)),
            progress=progress,
        )

    def _say(self, text: str) -> None:
        if self.progress:
            self.progress.say(text)

    def __enter__(self) -> Self:
        """Take the hosts, start Hadoop, wait until it sees every worker.

        :raises hvstack.errors.Busy: another process has them.
        :raises hvstack.errors.HVStackError: it could not; the hosts are
            given back.
        """
        self._take_lock()
        try:
            _recover()
        except BaseException:
            self._unlock()
            raise
        self._write_mark()
        try:
            self._say(f'bare metal: prepare {len(self.hosts)} hosts')
            with ThreadPoolExecutor(max_workers=16) as pool:
                self.hosts = list(pool.map(self._prepare, self.hosts))
            # With the settings to restore, before anything is set.
            self._write_mark()
            self._say('bare metal: start Hadoop')
            self._configure()
            daemons.distribute_addresses(self)
            daemons.start(self.nodes)
            seconds = daemons.wait_ready(self, _READY_SECONDS)
            self._say(
                f'bare metal: Hadoop sees every worker ({seconds:.0f} s)'
            )
        except BaseException:
            # What failed is the news, not that giving back failed as well:
            # the mark stays then, and the next start tries again.
            with contextlib.suppress(errors.HVStackError):
                self.release()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        """Give the hosts back."""
        self.release()

    def release(self) -> None:
        """End Hadoop and give the hosts back.

        :raises hvstack.errors.CommandFailed: a host cannot be given back.
        """
        self._say('bare metal: give the hosts back')
        with interrupts.deferred(
            'hvstack is giving the hosts back', self.progress
        ):
            daemons.stop(self.nodes)
            try:
                _release(host.release for host in self.hosts if host.release)
                for host in self.hosts:
                    if host.reach:
                        host.reach.close()
                if self._mark:
                    self._mark.unlink(missing_ok=True)
                    paths.sync_directory(ACQUIRED_HOSTS_DIR)
                    self._mark = None
            finally:
                self._unlock()

    def _unlock(self) -> None:
        if self._lock:
            self._lock.close()
            self._lock = None

    def _prepare(self, host: Host) -> Host:
        """Return the host as it is to be released."""
        if isinstance(host.release, actions.ReleaseSSHHost):
            settings = host_inventory.prepare(
                host, self._members(), self.os_profile, _PREPARE_SECONDS
            )
            return replace(
                host, release=replace(host.release, settings=settings)
            )
        if host.prepare:
            processutils.run(host.prepare, timeout=_PREPARE_SECONDS)
        return host

    def _members(self) -> list[str]:
        return [host.address for host in self.hosts]

    def dry_run(self) -> list[tuple[str, str, str]]:
        """Return every command that a baseline runs on the hosts.

        Nothing is run.

        :returns: host, reason and command, in order.
        """
        rows: list[tuple[str, str, str]] = []
        if any(host.rootfs for host in self.hosts):
            rows.append(('all', 'The program $SCRIPT', host_script.program()))
        for host in self.hosts:
            if isinstance(host.release, actions.ReleaseSSHHost):
                rows += [
                    (
                        host.name,
                        command.description,
                        host_script.shortened(command.text),
                    )
                    for command in host_inventory.commands(
                        host, host.release, self._members(), self.os_profile
                    ).values()
                ]
            elif host.prepare:
                text = shlex.join(host.prepare)
                rows.append((host.name, 'Prepare the lab host', text))
        recorders = {
            node.name: _Recorder(
                node.name, node.address, node.role, node.host, node, rows
            )
            for node in self.nodes
        }
        copy = replace(
            self,
            gateway=recorders[self.gateway.name],
            workers=[recorders[node.name] for node in self.workers],
        )
        copy._configure()
        daemons.distribute_addresses(copy)
        daemons.start(copy.nodes)
        rows.append(
            (
                'all',
                'Measure',
                "hadoop, hdfs and yarn commands of the benchmark's phases, "
                'probes of CPU and disks, sampling of /proc, sync, echo 3 '
                '>/proc/sys/vm/drop_caches',
            )
        )
        daemons.stop(copy.nodes)
        for host in self.hosts:
            if host.release:
                text = shlex.join(host.release.argv())
                if isinstance(host.release, actions.ReleaseSSHHost):
                    text = host_script.shortened(host.release.argv()[-1])
                rows.append((host.name, 'Release the host', text))
        return rows

    def _take_lock(self) -> None:
        """Let no other process take hosts; the kernel drops it with us."""
        lock = _open_lock()
        if not _locks(lock):
            busy = _busy(lock)
            lock.close()
            raise busy
        self._lock = lock

    def _write_mark(self) -> None:
        """Write down what is taken before it is."""
        process = pid_files.Process.current()
        self._mark = self._mark or ACQUIRED_HOSTS_DIR / f'{uuid.uuid4()}.json'
        entry = {
            'pid': process.pid,
            'started': process.start,
            'boot': process.boot,
            'namespace': process.namespace,
            'hosts': [
                actions.dump(host.release)
                for host in self.hosts
                if host.release
            ],
        }
        paths.write_whole(self._mark, json.dumps(entry) + '\n')

    def sized(self, tuning: str) -> sizing.NodeSizing:
        """Return the size of a worker by a tuning.

        :raises hvstack.errors.InputError: it is too small for that.
        """
        worker = next(host for host in self.hosts if host.role == 'worker')
        return sizing.size_node(
            worker.vcpus, worker.memory_mib, tuning=tuning, native=True
        )

    def _configure(self) -> None:
        sized = self.sized(self.tuning)
        files = site_files.render_site_files(
            sized,
            controller=self.gateway.address,
            replication=self.replication,
            node_groups=True,
            tuning=self.tuning,
            bind=True,
        )
        files['hadoop-env.sh'] = site_files.render_hadoop_env(sized)
        table = ''.join(
            f'{key} /rack1/ng-{node.host}\n'
            for node in self.nodes
            for key in (node.address, node.name)
        )

        def configure(node: Node) -> None:
            host = by_name[node.name]
            action = host.release
            over_ssh = isinstance(action, actions.ReleaseSSHHost)
            for name, text in files.items():
                if isinstance(action, actions.ReleaseSSHHost):
                    # Hadoop's own user may not fill these in.
                    text = text.replace('%ADDRESS%', host.address)
                    if name == 'hadoop-env.sh':
                        text = (
                            site_files.render_user_switch(action.uid, _SETUP)
                            + text
                        )
                node.put(text, f'{site_files.CONF}/{name}')
            node.put(table, f'{site_files.CONF}/topology.table')
            roles = (
                site_files.WORKER_ROLES
                if host.role == 'worker'
                else site_files.CONTROLLER_ROLES
            )
            setup = os_profiles.fragment(
                self.os_profile,
                disk_table=over_ssh,
                shared_kernel=not over_ssh,
            )
            node.put(setup, _SETUP if over_ssh else os_profiles.SETUP)
            env = site_files.render_node_env(roles, host.vcpus)
            node.put(f'{env}ADDRESS={host.address}\n', '/etc/hvstack/node.env')

        by_name = {host.name: host for host in self.hosts}
        with ThreadPoolExecutor(max_workers=16) as pool:
            list(pool.map(configure, self.nodes))

    def environment(self) -> dict[str, Any]:
        """Return what must agree between comparable runs."""
        return {**probe.facts(self.workers[0]), **self.facts.environment}

    def observe(self) -> dict[str, Any]:
        """Return what is observed, not what was asked for."""
        worker = next(host for host in self.hosts if host.role == 'worker')
        return {
            'workers': len(self.workers),
            'worker_hosts': self.worker_hosts,
            'host_vcpus': worker.vcpus,
            'host_memory_mib': worker.memory_mib,
            'host_cpu_share': probe.cpu_shares(self.workers, self.processors),
            'caps': self.facts.environment.get('caps'),
        }
