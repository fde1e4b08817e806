# SPDX-License-Identifier: Apache-2.0
"""Bare metal: hosts without Nova, with Hadoop started on them directly."""

import contextlib
import json
import shlex
import threading
import uuid
from collections.abc import Collection
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Self

from hvstack import (
    errors,
    interrupts,
    paths,
    pid_files,
    processutils,
)
from hvstack.cluster import (
    acquired_hosts,
    actions,
    baseline_hosts,
    host_inventory,
    host_script,
    probe,
    probe_gate,
)
from hvstack.cluster.base import (
    LOCAL_DROP_CACHES,
    ClusterFacts,
    ClusterNodes,
    Fact,
    Node,
    read_cpu_caps,
)
from hvstack.cluster.command_node import CommandNode
from hvstack.cluster.command_recorder import CommandRecorder
from hvstack.cluster.host_inventory import Host as Host
from hvstack.hadoop import (
    daemons,
    master_node,
    os_profiles,
    site_files,
    sizing,
    tuning_profiles,
)
from hvstack.hadoop.daemon_options import DAEMON_FACT, DaemonOptions
from hvstack.nouns import format_noun
from hvstack.progress import Progress
from hvstack.results import cloud_identity
from hvstack.results.typed_json import JsonObject

#: A host may have to unpack the root file system first, over its network.
_PREPARE_SECONDS = 900
_READY_SECONDS = 240
#: Where a host that ssh reaches has the settings of its operating system.
#: Hadoop's daemons would run :data:`hvstack.hadoop.os_profiles.SETUP`, and are
#: not root there.
_SETUP = '/etc/hvstack/host-setup'


@dataclass
class BareHosts(ClusterNodes):
    """Hosts without Nova; in its context Hadoop runs on them.

    One DataNode and one NodeManager per worker host, as vsphere6's native
    platform. Hadoop is sized by the same function as for guests.

    :param hosts: of the baseline file.
    :param replication: of input and output.
    :param os_profile: of their operating system.
    :param daemon_options: options of the JVMs of daemons.
    :param progress: where to say what is done.
    :param cloud: URL and region of the cloud of the sweep, for the records;
        empty without a cloud.
    """

    hosts: list[Host] = field(default_factory=list)
    replication: int = 2
    os_profile: str = os_profiles.DEFAULT
    daemon_options: DaemonOptions = ()
    progress: Progress | None = None
    cloud: str = ''
    _mark: Path | None = None
    _lock: IO[str] | None = None
    _is_started: bool = False

    kind = 'hosts'

    @classmethod
    def from_file(
        cls,
        path: Path = baseline_hosts.LAB,
        *,
        replication: int | None = None,
        progress: Progress | None = None,
        tuning: str = sizing.DEFAULT,
        os_profile: str = os_profiles.DEFAULT,
        wiped: Collection[str] = (),
        daemon_options: DaemonOptions = (),
    ) -> Self:
        """Make a cluster of a baseline file.

        The lab's hosts share this machine's page cache, others have each
        their own.

        :param replication: min(3, worker hosts) by default.
        :param tuning: profile of Hadoop's settings.
        :param os_profile: of the hosts' operating system; of the lab's
            hosts, which share this machine's kernel, the limits alone.
        :param wiped: disks whose content is to be erased, such as
            ``node2:/dev/disk/by-id/ata-A``.
        :param daemon_options: options of the JVMs of daemons.
        :raises hvstack.errors.InputError: the file is not well formed, or
            a profile does not exist.
        """
        tuning_profiles.load(tuning)
        os_profiles.settings(os_profile)
        hosts = host_inventory.select_wiped(baseline_hosts.read(path), wiped)
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
            processors=host_inventory.find_worker_size(hosts)[0],
            facts=ClusterFacts(
                baseline_hosts.environment(hosts),
                drop_command=LOCAL_DROP_CACHES
                if path == baseline_hosts.LAB
                else None,
            ),
            tuning=tuning,
            os_profile=os_profile,
            daemon_options=daemon_options,
            hosts=hosts,
            replication=replication or min(3, len(workers)),
            progress=progress,
        )

    def _say(self, text: str) -> None:
        if self.progress:
            self.progress.say(text)

    def __enter__(self) -> Self:
        """Take the hosts, start Hadoop, wait until it sees every worker.

        :raises hvstack.errors.BusyError: another process has them.
        :raises hvstack.errors.HVStackError: it could not; the hosts are
            released.
        """
        self._take_lock()
        try:
            acquired_hosts.recover_locked()
        except BaseException:
            self._unlock()
            raise
        self._write_mark()
        try:
            self._say(
                f'bare metal: prepare {format_noun(len(self.hosts), "host")}'
            )
            self._prepare_hosts()
            # With the settings to restore, before anything is set.
            self._write_mark()
            self._say('bare metal: start Hadoop')
            with (self.progress or Progress()).span('start of Hadoop'):
                self._configure()
                daemons.distribute_addresses(self)
                self._is_started = True
                daemons.start(self.nodes, _PREPARE_SECONDS)
                seconds = daemons.wait_ready(self, _READY_SECONDS)
                daemons.check_namenode(self)
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

        :raises hvstack.errors.CommandError: a host cannot be released.
        """
        self._say('bare metal: give the hosts back')
        with interrupts.deferred(
            'hvstack is giving the hosts back', self.progress
        ):
            # Before this start, daemons on the hosts are those of other users.
            if self._is_started:
                self._stop_daemons()
            try:
                acquired_hosts.release(
                    host.release for host in self.hosts if host.release
                )
                for host in self.hosts:
                    if host.reach:
                        host.reach.close()
                if self._mark:
                    self._mark.unlink(missing_ok=True)
                    paths.sync_directory(acquired_hosts.ACQUIRED_HOSTS_DIR)
                    self._mark = None
            finally:
                self._unlock()
        # hvstack does not know the cloud of hosts that ssh reaches.
        if any(host.reach for host in self.hosts):
            self._say(
                'bare metal: hosts released. Nova shows a host as down until '
                'the next report of its nova-compute: start it if you stopped '
                "it, and check with 'hvstack doctor'"
            )

    def _stop_daemons(self) -> None:
        """Stop the daemons of the hosts that this user still holds."""
        daemons.stop(
            self._list_stopped_nodes(),
            host_script.build_holder_test()
            if any(host.reach for host in self.hosts)
            else '',
        )

    def _list_stopped_nodes(self) -> list[Node]:
        """Return the nodes whose daemons are stopped before the release.

        The release of a lab host kills all processes and deletes their file
        system. NodeManagers that lose their ResourceManager would only be
        waited for: they do not end before they are killed.
        """
        lab_hosts = {
            host.name
            for host in self.hosts
            if isinstance(host.release, actions.ReleaseLabHost)
        }
        return [node for node in self.nodes if node.name not in lab_hosts]

    def _unlock(self) -> None:
        if self._lock:
            self._lock.close()
            self._lock = None

    def _prepare_hosts(self) -> None:
        """Prepare all hosts at the same time.

        After Ctrl-C, the commands that run on the hosts end first: what they
        do must not follow the release.
        """
        is_ended = threading.Event()
        pool = ThreadPoolExecutor(max_workers=16)
        try:
            jobs = [
                pool.submit(self._prepare, host, is_ended)
                for host in self.hosts
            ]
            wait(jobs, return_when=FIRST_EXCEPTION)
            is_ended.set()
            self.hosts = [job.result() for job in jobs]
        except BaseException:
            is_ended.set()
            with interrupts.deferred(
                'hvstack is ending the preparation of the hosts', self.progress
            ):
                pool.shutdown(cancel_futures=True)
            raise
        pool.shutdown()

    def _prepare(self, host: Host, is_ended: threading.Event) -> Host:
        """Return the host as it is to be released.

        :param is_ended: set to run no other command on the host.
        """
        if isinstance(host.release, actions.ReleaseSSHHost):
            settings = host_inventory.prepare(
                host,
                self._members(),
                self.os_profile,
                _PREPARE_SECONDS,
                is_ended,
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
            node.name: CommandRecorder(
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
        copy._stop_daemons()
        for host in self.hosts:
            if host.release:
                text = shlex.join(host.release.argv())
                if isinstance(host.release, actions.ReleaseSSHHost):
                    text = host_script.shortened(host.release.command)
                rows.append((host.name, 'Release the host', text))
        return rows

    def _take_lock(self) -> None:
        """Let no other process take hosts; the kernel drops it with us."""
        lock = acquired_hosts.open_lock()
        if not acquired_hosts.try_lock(lock):
            busy = acquired_hosts.get_busy_error(lock)
            lock.close()
            raise busy
        self._lock = lock

    def _write_mark(self) -> None:
        """Write down what is taken before it is."""
        process = pid_files.Process.current()
        self._mark = (
            self._mark
            or acquired_hosts.ACQUIRED_HOSTS_DIR / f'{uuid.uuid4()}.json'
        )
        entry = {
            **vars(process),
            'started': process.start,
            'hosts': [
                actions.dump(host.release)
                for host in self.hosts
                if host.release
            ],
        }
        paths.write_whole(self._mark, json.dumps(entry) + '\n')

    def sized(self, tuning: str) -> sizing.NodeSizing:
        """Return the size of a worker by a tuning.

        Heaps belong to jobs, so that all workers have the size of the
        smallest one.

        :raises hvstack.errors.InputError: it is too small for that.
        """
        controller = next(
            host for host in self.hosts if host.role == 'controller'
        )
        return sizing.size_node(
            *host_inventory.find_worker_size(self.hosts),
            tuning=tuning,
            native=True,
            controller_mib=controller.memory_mib,
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
        files['hadoop-env.sh'] = site_files.render_hadoop_env(
            sized, self.daemon_options
        )
        prepare_masters = master_node.render_setup(sized)
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
            roles = site_files.WORKER_ROLES
            if host.role != 'worker':
                roles = f'namenode {site_files.list_manager_roles(sized)}'
                if prepare_masters:
                    node.run(prepare_masters, timeout=60)
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

    def environment(self) -> dict[str, Fact]:
        """Return the facts that must agree between comparable runs."""
        facts: dict[str, Fact] = dict(probe.facts(self.workers[0]))
        # The lab's hosts have a file on this machine's disk.
        if all(host.reach for host in self.hosts):
            facts |= probe.disks(self.workers).to_facts()
        if self.daemon_options:
            facts[DAEMON_FACT] = dict(self.daemon_options)
        return {**facts, **self.facts.environment}

    def observe(self) -> JsonObject:
        """Return the observed facts, not the requested ones."""
        vcpus, memory_mib = host_inventory.find_worker_size(self.hosts)
        result = probe_gate.measure(
            self.workers,
            self.processors,
            read_cpu_caps(self.facts.environment),
        )
        return {
            'workers': len(self.workers),
            'worker_hosts': self.worker_hosts,
            'host_vcpus': vcpus,
            'host_memory_mib': memory_mib,
            'host_cpu_share': result.shares,
            'probe': result.facts,
            'caps': self.facts.environment.get('caps'),
            **(
                {'cloud': asdict(cloud_identity.parse_cloud(self.cloud))}
                if self.cloud
                else {}
            ),
        }
