# SPDX-License-Identifier: Apache-2.0
"""Read the values of the checklist from services, hosts and guests.

Nothing is changed. A value that cannot be read makes its items "not checked".
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from openstack.connection import Connection

from hvstack import errors, shell_scripts
from hvstack.accept import (
    first_run_checks,
    first_run_host_checks,
    guest_hardware,
    host_inspection,
)
from hvstack.accept.check_result import check_equal
from hvstack.accept.first_run_results import Checklist
from hvstack.accept.guest_hardware import GuestHardware
from hvstack.accept.host_inspection import Access
from hvstack.cloud.connection import refused
from hvstack.cluster.base import Cluster, Node
from hvstack.cluster.plan import ClusterPlan
from hvstack.hadoop import os_profiles
from hvstack.model.compute_backends import is_emulated
from hvstack.model.host_settings import HostSettings
from hvstack.tpcxhs import run
from hvstack.tpcxhs.workload import Workload

#: Items that need access to the compute hosts.
HOST_ITEMS = (
    *('host-physical', 'host-kvm', 'host-nova-conf', 'host-ovs-datapath'),
    *('image-rng', 'image-disk-bus', 'domain-type', 'domain-machine'),
    *('domain-cpu', 'domain-interfaces', 'domain-disk-cache'),
    'guest-cpu-model',
)
#: Those of them that also need guests with dedicated CPUs.
DEDICATED_ITEMS = (
    *('host-cpu-set', 'domain-vcpupin', 'domain-own-cpus'),
    *('domain-emulatorpin', 'domain-numatune', 'domain-iothreads'),
)
#: Those that also need guests with huge pages.
PAGE_ITEMS = ('host-huge-pages', 'host-huge-pages-used', 'domain-huge-pages')
#: Items that need a guest.
GUEST_ITEMS = (
    *('host-huge-pages-used', 'host-volumes', 'image-rng', 'image-disk-bus'),
    *('image-multiqueue', 'image-os-distro', 'domain-type', 'domain-machine'),
    *('domain-cpu', 'domain-huge-pages', 'domain-vcpupin', 'domain-own-cpus'),
    *('domain-emulatorpin', 'domain-numatune', 'domain-iothreads'),
    *('domain-interfaces', 'domain-disk-cache', 'guest-cpu-model'),
    *('guest-thp', 'guest-clocksource', 'guest-sort'),
)
_NO_ACCESS = 'no access to the compute hosts (--host-access none)'
_ACCESS_NEED = (
    'Use --host-access ssh with --host-ssh-key, or --host-access command with '
    '--host-command.'
)
_HOST_NEED = (
    'Let root run virsh, ovs-vsctl and a shell on the hosts (--host-access).'
)
_SERVICE_NEED = 'Use a cloud with the credentials of an administrator.'
_GUEST_NEED = 'Let this machine reach the nodes of the cluster with ssh.'
_JOB_NEED = 'Check HDFS and YARN of the cluster, as the message says.'
#: Seconds for a short program in a guest.
_GUEST_SECONDS = 60
#: Size of the data set in bytes: whether it is sorted is checked, not how
#: fast.
_RUN_BYTES = 1_000_000


@dataclass(frozen=True)
class GuestServer:
    """A server of the cluster, as an administrator sees it.

    :param name: name of the server.
    :param server_id: ID of the server.
    :param host: host of the server in Nova.
    :param instance: Nova's instance name, the name of the domain.
    :param vcpus: number of its vCPUs.
    :param specs: extra specs of its flavor.
    """

    name: str
    server_id: str
    host: str
    instance: str
    vcpus: int
    specs: Mapping[str, str]

    @property
    def is_dedicated(self) -> bool:
        """Whether the server has dedicated CPUs."""
        return self.specs.get('hw:cpu_policy') == 'dedicated'


@dataclass(frozen=True)
class GuestReading:
    """What libvirt reports about a server.

    :param server: server.
    :param xml: XML of its domain.
    :param hardware: its virtual hardware.
    """

    server: GuestServer
    xml: str
    hardware: GuestHardware


@dataclass
class FirstRun:
    """The checks of a first run.

    :param admin: connection of an administrator.
    :param access: access to the compute hosts.
    :param plan: plan of the small cluster.
    :param settings: settings of the hosts of the workers by their profile.
    :param checklist: receives the checks.
    """

    admin: Connection
    access: Access
    plan: ClusterPlan
    settings: HostSettings
    checklist: Checklist = field(default_factory=Checklist)
    _facts: dict[str, dict[str, str]] = field(default_factory=dict)
    _options: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def has_access(self) -> bool:
        """Whether there is access to the compute hosts."""
        return self.access.host_access != 'none'

    @contextmanager
    def reading(
        self, item_ids: Sequence[str], subject: str, need: str
    ) -> Iterator[None]:
        """Make items "not checked" if a value cannot be read in the block.

        :param item_ids: items that need the value.
        :param subject: value that is read.
        :param need: what is needed to read it.
        """
        try:
            yield
        except errors.HVStackError as exc:
            reason = ' '.join(str(exc).split()).removesuffix('.')
            self.checklist.add_missing(item_ids, f'{subject}: {reason}', need)

    def skip_impossible_items(self) -> None:
        """Make the items "not checked" that this run cannot check."""
        missing = self.checklist.add_missing
        configuration = self.plan.spec.configuration.name
        if not self.has_access:
            missing(
                (*HOST_ITEMS, *DEDICATED_ITEMS, *PAGE_ITEMS),
                _NO_ACCESS,
                _ACCESS_NEED,
            )
        if self.plan.is_shared:
            missing(
                (*DEDICATED_ITEMS, *PAGE_ITEMS),
                f'configuration {configuration} has shared CPUs',
                'Use --configuration with dedicated CPUs, such as '
                'i2-dedicated.',
            )
        elif not self.settings.pages:
            missing(
                PAGE_ITEMS,
                'the host profile has large_pages: false',
                'Use a host profile with large_pages: true.',
            )
        if not self.plan.disks.local:
            missing(
                ('host-volumes',),
                f'configuration {configuration} has no pinned local volumes',
                'Use --configuration with disk pinning and local storage, '
                'such as i2-dedicated-pinned.',
            )

    def check_hosts(self, hosts: Sequence[str]) -> None:
        """Check the hosts of the workers before the cluster is created.

        :param hosts: names of the hosts in Nova.
        """
        for host in hosts if self.has_access else ():
            self._check_host(host)

    def _check_host(self, host: str) -> None:
        checks, add = first_run_host_checks, self.checklist.add
        cpu_items = () if self.plan.is_shared else ('host-cpu-set',)
        page_items = ('host-huge-pages',) if self.settings.pages else ()
        facts: dict[str, str] = {}
        with self.reading(
            ('host-physical', 'host-kvm', *page_items, *cpu_items),
            f'facts of host {host}',
            _HOST_NEED,
        ):
            facts = self._read_facts(host)
            add('host-physical', checks.check_physical(host, facts))
            add('host-kvm', *checks.check_kvm(host, facts))
        options: dict[str, str] | None = None
        with self.reading(
            ('host-nova-conf', *cpu_items),
            f'nova.conf of host {host}',
            _HOST_NEED,
        ):
            options = self.read_options(host)
            add('host-nova-conf', *checks.check_nova_conf(host, options))
        with self.reading(
            ('host-ovs-datapath',), f'bridges of host {host}', _HOST_NEED
        ):
            bridges = host_inspection.read_bridges(self.access, host)
            add('host-ovs-datapath', *checks.check_data_paths(host, bridges))
        for item in page_items if facts else ():
            with self.reading((item,), f'guests of host {host}', _HOST_NEED):
                guests = self._list_hardware(host)
                pools = checks.check_page_pools(
                    host, facts, self.settings, guests
                )
                add(item, *pools)
        for item in cpu_items if facts and options is not None else ():
            assert options is not None
            with self.reading((item,), f'CPU sets of {host}', _HOST_NEED):
                cpu_sets = checks.check_cpu_set(
                    host, options, facts, self.settings
                )
                add(item, *cpu_sets)

    def _read_facts(self, host: str) -> dict[str, str]:
        if host not in self._facts:
            self._facts[host] = host_inspection.read_facts(self.access, host)
        return self._facts[host]

    def read_options(self, host: str) -> dict[str, str]:
        """Return the options of nova-compute on a host, and remember them.

        :raises hvstack.errors.HVStackError: they cannot be read.
        """
        if host not in self._options:
            self._options[host] = host_inspection.read_nova_conf(
                self.access, host
            )
        return self._options[host]

    def _list_hardware(self, host: str) -> list[GuestHardware]:
        """Return the virtual hardware of all guests of a host."""
        return [
            guest_hardware.parse_hardware(xml)
            for xml in host_inspection.list_domain_xml(self.access, host)
        ]

    def read_servers(self, server_ids: Sequence[str]) -> list[GuestServer]:
        """Return the servers of the cluster.

        :raises hvstack.errors.CloudError: Nova refused, or does not show the
            host of a server.
        """
        servers = []
        with refused('Cannot inspect the servers of the cluster'):
            for server_id in server_ids:
                server = self.admin.compute.get_server(server_id)
                servers.append(
                    GuestServer(
                        str(server.name),
                        server_id,
                        str(server.compute_host or ''),
                        str(server.instance_name or ''),
                        int(server.flavor.vcpus or 0),
                        dict(server.flavor.extra_specs or {}),
                    )
                )
        if not all(server.host and server.instance for server in servers):
            raise errors.CloudError(
                'Cannot find the hosts of the servers: Nova does not show '
                'them to this user. Use the credentials of an administrator.'
            )
        return servers

    def read_guests(
        self, servers: Sequence[GuestServer]
    ) -> list[GuestReading]:
        """Return the readings of the servers that libvirt reports."""
        guests = []
        items = [item for item in self._access_items if item in GUEST_ITEMS]
        for server in servers if self.has_access else ():
            with self.reading(items, f'domain of {server.name}', _HOST_NEED):
                xml = host_inspection.read_domain_xml(
                    self.access, server.host, server.instance
                )
                hardware = guest_hardware.parse_hardware(xml)
                guests.append(GuestReading(server, xml, hardware))
        return guests

    @property
    def _access_items(self) -> tuple[str, ...]:
        """Items that this run can check with access to the hosts."""
        items: tuple[str, ...] = HOST_ITEMS
        if not self.plan.is_shared:
            items += DEDICATED_ITEMS
        return items + (PAGE_ITEMS if self.settings.pages else ())

    def check_images(
        self,
        image_id: str,
        servers: Sequence[GuestServer],
        distributions: Mapping[str, str],
    ) -> None:
        """Check the properties of the image of the cluster.

        :param image_id: ID of the image.
        :param servers: servers of the cluster.
        :param distributions: ID in /etc/os-release by guest.
        """
        checks, add = first_run_checks, self.checklist.add
        items = ('image-rng', 'image-disk-bus', 'image-multiqueue')
        with self.reading(
            (*items, 'image-os-distro'),
            'properties of the image',
            _SERVICE_NEED,
        ):
            image = self._read_image(image_id)
            add('image-rng', checks.check_image_rng(image))
            add('image-disk-bus', checks.check_image_bus(image))
            specs = {server.name: server.specs for server in servers}
            add('image-multiqueue', *checks.check_multiqueue(image, specs))
            add(
                'image-os-distro',
                *checks.check_distribution(image, distributions),
            )

    def _read_image(self, image_id: str) -> dict[str, str]:
        """Return the properties of an image as Glance has them.

        :raises hvstack.errors.CloudError: Glance refused.
        """
        with refused('Cannot inspect the image'):
            answer = self.admin.image.get(
                f'/images/{image_id}', raise_exc=True
            ).json()
        return {
            str(name): str(value)
            for name, value in answer.items()
            if isinstance(value, str | bool | int)
        }

    def check_domains(self, guests: Sequence[GuestReading]) -> None:
        """Check the virtual hardware of guests.

        :param guests: guests of the cluster.
        """
        if not guests:
            return
        checks, add = first_run_checks, self.checklist.add
        for guest in guests:
            hardware = guest.hardware
            add('domain-type', checks.check_domain_type(hardware))
            add('domain-interfaces', *checks.check_interfaces(hardware))
            add('domain-disk-cache', *checks.check_disk_caches(hardware))
            add('image-disk-bus', *checks.check_disk_buses(hardware))
            add('image-rng', checks.check_rng(hardware))
        all_hardware = [guest.hardware for guest in guests]
        add('domain-machine', *checks.check_machines(all_hardware))
        with self.reading(
            ('domain-cpu',), 'nova.conf of the hosts', _HOST_NEED
        ):
            cpus = [
                (guest.hardware, self.read_options(guest.server.host))
                for guest in guests
            ]
            add('domain-cpu', *checks.check_cpu_modes(cpus))

    def check_used_pages(self, hosts: Sequence[str]) -> None:
        """Check the huge pages of hosts while guests run.

        :param hosts: hosts with guests of the cluster.
        """
        item = 'host-huge-pages-used'
        if not (self.has_access and self.settings.pages):
            return
        for host in hosts:
            with self.reading((item,), f'huge pages of {host}', _HOST_NEED):
                # Not the facts from before the cluster.
                facts = host_inspection.read_facts(self.access, host)
                guests = self._list_hardware(host)
                self.checklist.add(
                    item,
                    *first_run_host_checks.check_used_pages(
                        host, facts, guests
                    ),
                )

    def check_nodes(
        self, nodes: Sequence[Node], guests: Sequence[GuestReading]
    ) -> dict[str, str]:
        """Check what the guests themselves report.

        :param nodes: nodes of the cluster.
        :param guests: what libvirt reports about them.
        :returns: ID in /etc/os-release by guest.
        """
        checks, add = first_run_checks, self.checklist.add
        hardware = {guest.server.name: guest for guest in guests}
        distributions = {}
        expected_mode = self._expected_huge_page_mode()
        script = shell_scripts.load('hardware')
        script += shell_scripts.load('kvm-guest-facts')
        cpu_items = ('guest-cpu-model',) if self.has_access else ()
        for node in nodes:
            with self.reading(
                (
                    *('guest-thp', 'guest-clocksource', 'image-os-distro'),
                    *cpu_items,
                ),
                f'facts of guest {node.name}',
                _GUEST_NEED,
            ):
                output = node.run(script, timeout=_GUEST_SECONDS).stdout
                facts = host_inspection.parse_facts(output)
                distributions[node.name] = facts.get('os_id', '')
                add(
                    'guest-clocksource',
                    checks.check_clock_source(
                        node.name, facts.get('clock_source', '')
                    ),
                )
                if expected_mode:
                    add(
                        'guest-thp',
                        checks.check_huge_page_mode(
                            node.name, expected_mode, facts.get('thp', '')
                        ),
                    )
                if node.name in hardware:
                    self._check_cpu(hardware[node.name], facts)
        return distributions

    def _check_cpu(
        self, guest: GuestReading, facts: Mapping[str, str]
    ) -> None:
        name, host = guest.server.name, guest.server.host
        with self.reading(
            ('guest-cpu-model',), f'CPU model of host {host}', _HOST_NEED
        ):
            host_model = self._read_facts(host).get('cpu_model', '')
            self.checklist.add(
                'guest-cpu-model',
                first_run_checks.check_guest_cpu(
                    *(name, guest.hardware),
                    facts.get('cpu_model', ''),
                    host_model,
                ),
            )

    def _expected_huge_page_mode(self) -> str:
        """Return the mode of the OS profile; empty if it sets none."""
        profile = self.plan.spec.os_profile
        for setting in os_profiles.settings(profile):
            if (setting.kind, setting.name) == (
                os_profiles.Kind.THP,
                'enabled',
            ):
                return setting.value
        self.checklist.add_missing(
            ('guest-thp',),
            f'the OS profile {profile} does not set transparent huge pages',
            'Set os_profile in hvstack.conf to a profile that sets them, '
            'such as vsphere6.',
        )
        return ''

    def check_sort(self, cluster: Cluster) -> None:
        """Run a small benchmark, and check that its output is valid.

        :param cluster: the cluster.
        """
        with self.reading(('guest-sort',), 'run of 1 MB', _JOB_NEED):
            result = run.run(
                cluster,
                Workload(
                    _RUN_BYTES,
                    self.plan.nodes.replication,
                    maps=2,
                    reduces=2,
                    one_jvm=is_emulated(self.plan.hosts.backend),
                ),
            )
            self.checklist.add(
                'guest-sort',
                check_equal(
                    'run of 1 MB and its data checks',
                    'valid',
                    'valid' if result.is_valid else result.reason,
                ),
            )
