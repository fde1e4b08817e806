# SPDX-License-Identifier: Apache-2.0
"""How large the lab's hosts are, from what the machine has left."""

import dataclasses
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hvstack import errors, paths, yamlfile
from hvstack.lab import constants, settings
from hvstack.lab.hosts import numa
from hvstack.lab.settings import LabSettings
from hvstack.model import catalogue
from hvstack.model.configuration import Configuration
from hvstack.model.flavor import derive_flavor
from hvstack.model.host import (
    HostCaps,
    HostDisks,
    HostPolicy,
    HostProfile,
)

#: Profiles of the two kinds of lab host, as flavors name them.
PROFILES = settings.LAB / 'hosts.yaml'
#: Directory of the catalogues for them.
CATALOGUES = settings.LAB / 'flavors'
#: Percent of bare metal that approves a flavor of the lab.
MIN_PERCENT = 75
_INSTANCES = (1, 2, 4)
WORKER_TRAIT = 'CUSTOM_HVSTACK_LAB_WORKER'
CONTROLLER_TRAIT = 'CUSTOM_HVSTACK_LAB_CONTROLLER'

#: MiB of the machine for the control plane, and for page cache outside the
#: hosts' caps: with few hosts a run's data should not press on them.
_CONTROL_MIB = 4096
_CACHE_MIB = 4608
_CACHE_MANY_MIB = 2048
#: MiB of a host for its agents: 290 to 330 PSS were measured, with guests;
#: the remainder is for what the kernel charges to the host otherwise (page
#: tables, sockets' and Open vSwitch's buffers, images on their way to disks).
RESERVED_MIB = 768
#: Enough for tiny guests; one with five JVMs threw 64 MiB away every seven
#: seconds (QEMU's monitor, 'info jit').
_TB_CACHE_MIB = 64
#: For Hadoop's; and of the host for each such guest, with QEMU's own.
_HADOOP_TB_CACHE_MIB = 512
_EMULATED_GUEST_MIB = 768
#: Least memory of a guest with Hadoop.
_GUEST_MIB = 1152
#: Most guests of a worker's host where all are emulated.
_EMULATED_GUESTS = 2
#: Whole disks of a worker's host: those of Ceph's that its guests can have
#: volumes on, which are two at least for I = 2.
_DISKS = HostDisks(count=2, size_gb=2, rotational=False)
#: The same where they are volume groups on the host. A volume fills one: it
#: has 2 GiB, and LVM needs a part of the remainder.
LOCAL_DISKS = HostDisks(
    count=len(constants.LOCAL_SLOTS), size_gb=3, rotational=False
)
#: Of a host with volume groups, for cinder-volume with a process for each.
_VOLUMES_MIB = 256
#: Room for four guests with Hadoop and for the agents.
_LARGEST_MIB = RESERVED_MIB + 4 * _GUEST_MIB
_SMALLEST_MIB = 1536
_STEP_MIB = 256
#: Share of the machine's cores for hosts, and for the controllers' one.
_SHARE = 0.9
_CONTROLLER_SHARE = 0.25
#: Of the controllers' host in addition, for a NodeManager and the
#: ApplicationMaster of a job: cores of the hosts' share, so that it starts no
#: slower than on a worker, and memory: 207 and 226 MiB (RSS) were measured
#: with six map tasks.
_MASTER_CORES = 0.2
_MASTER_MIB = 512
#: GB of a guest's root disk in the lab: sparse files on the machine.
_ROOT_GB = 12


@dataclass(frozen=True)
class HostSize:
    """What one lab host is.

    :param name: host name, also the hypervisor's.
    :param number: 1 for the first.
    :param role: ``controller`` or ``worker``.
    :param cpu_cap: cores that everything in it shares.
    :param memory_mib: memory that everything in it shares, and that it
        reports.
    :param cpus: CPUs that it reports; more than its cap has cores make it
        a scale model.
    :param reserved_mib: memory that stays with its agents.
    :param backend: compute backend, ``lxc``, ``qemu`` or ``kvm``.
    :param zone: availability zone, or an empty string for Nova's own.
    :param tb_cache_mib: MiB of translated code that QEMU keeps for each
        guest of emulated CPUs, in addition to the guest's memory (Nova's
        ``[libvirt] tb_cache_size``).
    """

    name: str
    number: int
    role: str
    cpu_cap: float
    memory_mib: int
    cpus: int
    reserved_mib: int
    backend: str
    zone: str = ''
    tb_cache_mib: int = _TB_CACHE_MIB

    @property
    def mgmt(self) -> str:
        """Address on the management bridge."""
        return management_address(self.number)

    @property
    def data(self) -> str:
        """Address on the data network of bare metal."""
        return f'10.253.0.{10 + self.number}'

    @property
    def tunnel(self) -> str:
        """Address that tunnels of tenant networks end on."""
        return f'10.254.0.{10 + self.number}'

    @property
    def trait(self) -> str:
        """Custom trait of its resource provider."""
        return WORKER_TRAIT if self.role == 'worker' else CONTROLLER_TRAIT


def management_address(number: int) -> str:
    """Return the address of the n-th host on the management bridge."""
    return f'10.251.0.{10 + number}'


def name_of(index: int) -> str:
    """Return the name of the n-th host."""
    return f'hv-host{index}'


def machine_mib() -> int:
    """Return the machine's memory in MiB."""
    line = Path('/proc/meminfo').read_text(encoding='utf-8').splitlines()[0]
    return int(line.split()[1]) // 1024


def minimum_mib(count: int, controllers: int = 1) -> int:
    """Return the least memory of a machine for a number of hosts, in MiB.

    :param count: number of hosts.
    :param controllers: number of these that carry controllers.
    """
    masters_mib = controllers * _masters_mib(count)
    return _control_mib(count) + masters_mib + count * _SMALLEST_MIB


def largest_count(memory: int) -> int:
    """Return how many hosts fit into a machine, 3 at most; 0 for none.

    :param memory: the machine's MiB.
    """
    return max(
        (count for count in (1, 2, 3) if minimum_mib(count) <= memory),
        default=0,
    )


def _control_mib(count: int) -> int:
    """Return the memory of a machine that hosts do not get, in MiB."""
    return _CONTROL_MIB + (_CACHE_MIB if count <= 3 else _CACHE_MANY_MIB)


def _masters_mib(count: int) -> int:
    """Return the memory of a controller's host for ApplicationMasters."""
    return _MASTER_MIB if count > 1 else 0


def _split_memory(
    available_mib: int, count: int, controllers: int
) -> tuple[int, int]:
    """Return the memory of a controller's host and of every other, in MiB.

    :param available_mib: memory of all hosts together, without that for
        ApplicationMasters, which a controller's host has in addition.
    :param count: number of hosts.
    :param controllers: number of these that carry controllers.
    """
    each = min(_LARGEST_MIB, available_mib // count // _STEP_MIB * _STEP_MIB)
    if count == 1:
        return each, each
    first = min(4096, each)
    others = (available_mib - controllers * first) // (count - controllers)
    return first, min(_LARGEST_MIB, others // _STEP_MIB * _STEP_MIB)


def plan(
    lab_settings: LabSettings,
    *,
    cores: int | None = None,
    memory: int | None = None,
) -> list[HostSize]:
    """Size all hosts of a lab.

    The first hosts carry the controllers where there are two or more.
    Where all workers' hosts are emulated, every emulated host may use all
    cores, as no figure of theirs is compared, and has memory for the
    translated code of Hadoop's JVMs. ``options['host_sizes']`` may replace
    fields by host name.

    :param cores: the machine's; asked for if not given.
    :param memory: the machine's MiB; asked for if not given.
    :raises hvstack.errors.MissingPrerequisiteError: the machine is too small.
    """
    cores = cores or os.cpu_count() or 1
    memory = memory or machine_mib()
    count, controllers = lab_settings.hosts, lab_settings.controllers
    first, each = _split_memory(
        memory - _control_mib(count) - controllers * _masters_mib(count),
        *(count, controllers),
    )
    if min(first, each) < _SMALLEST_MIB:
        raise errors.MissingPrerequisiteError(
            f'Cannot place {count} hosts of {_SMALLEST_MIB} MiB: they do not '
            f'fit into {memory} MiB of memory together with the control '
            'plane. Use a smaller number of --hosts or --controllers.'
        )
    control = cores * _CONTROLLER_SHARE + _MASTER_CORES * (count > 1)
    worker_cores = cores * _SHARE - control
    sizes = []
    for index in range(1, count + 1):
        controller = index <= controllers and count > 1
        cap = (
            control / controllers
            if controller
            else worker_cores / max(1, count - controllers)
        )
        worker = index - (controllers if count > 1 else 0)
        size = HostSize(
            name=name_of(index),
            number=index,
            role='controller' if controller else 'worker',
            cpu_cap=round(cap, 3),
            memory_mib=first + _masters_mib(count) if controller else each,
            cpus=cores,
            reserved_mib=RESERVED_MIB,
            backend=lab_settings.host_compute.get(
                name_of(index), lab_settings.compute
            ),
            zone=(
                f'rack{(worker - 1) % lab_settings.racks + 1}'
                if lab_settings.racks and not controller
                else ''
            ),
        )
        sizes.append(size)
    if {size.backend for size in sizes if size.role == 'worker'} == {'qemu'}:
        workers = sum(size.role == 'worker' for size in sizes)
        spare_mib = (_control_mib(count) - _CONTROL_MIB) // 2 // workers
        sizes = [_emulated(size, spare_mib) for size in sizes]
    if lab_settings.lvm:
        sizes = [_with_volumes(size) for size in sizes]
    return [_changed(size, lab_settings.options) for size in sizes]


def _emulated(size: HostSize, spare_mib: int) -> HostSize:
    """Return a host for Hadoop on emulated CPUs.

    If that gives its guests the memory that Hadoop needs, a worker's host has
    some of the page cache: no figure of an emulated host is compared.

    :param spare_mib: page cache in MiB that a worker's host may have.
    """
    if size.backend != 'qemu':
        return size
    guests = 1 if size.role == 'controller' else _EMULATED_GUESTS
    reserved_mib = RESERVED_MIB + guests * _EMULATED_GUEST_MIB
    missing_mib = reserved_mib + guests * _GUEST_MIB - size.memory_mib
    is_helped = size.role == 'worker' and 0 < missing_mib <= spare_mib
    return dataclasses.replace(
        size,
        cpu_cap=float(size.cpus),
        memory_mib=size.memory_mib + missing_mib * is_helped,
        reserved_mib=reserved_mib,
        tb_cache_mib=_HADOOP_TB_CACHE_MIB,
    )


def _with_volumes(size: HostSize) -> HostSize:
    """Return a host with volume groups, which containers cannot use."""
    if size.backend == 'lxc':
        return size
    reserved = size.reserved_mib + _VOLUMES_MIB
    return dataclasses.replace(size, reserved_mib=reserved)


def rest_of(dedicated: str, cpus: int) -> str:
    """Return the CPUs that are not in a set, as Nova writes sets.

    :param dedicated: such as ``1`` or ``0-1,4``; nothing leaves nothing to
        say. All of them leave Nova without an inventory of VCPU.
    :param cpus: how many there are.
    :raises hvstack.errors.InputError: a CPU of the set does not exist.
    """
    if not dedicated:
        return ''
    dedicated_cpus = set()
    for word in dedicated.split(','):
        first, dash, last = word.partition('-')
        try:
            dedicated_cpus |= set(
                range(int(first), int(last if dash else first) + 1)
            )
        except ValueError:
            raise errors.InputError(
                f"Cannot use --dedicated '{dedicated}': it is not a list of "
                "CPUs. Use one such as '1' or '2-3,6'."
            ) from None
    if not dedicated_cpus <= set(range(cpus)):
        raise errors.InputError(
            f"Cannot use --dedicated '{dedicated}': the host has {cpus} CPUs. "
            f'Use CPUs from 0 to {cpus - 1}.'
        )
    return ','.join(
        str(cpu) for cpu in sorted(set(range(cpus)) - dedicated_cpus)
    )


def _changed(size: HostSize, options: dict[str, Any]) -> HostSize:
    changes = options.get('host_sizes', {}).get(size.name, {})
    try:
        return dataclasses.replace(size, **changes)
    except TypeError as exc:
        raise errors.InputError(
            f"Cannot use 'host_sizes' of {size.name}: {exc}. Use fields such "
            "as 'cpu_cap'."
        ) from exc


def profile(
    size: HostSize,
    disks: HostDisks | None = None,
    *,
    local_volumes: bool = False,
) -> HostProfile:
    """Return the host profile that flavors are derived from.

    :param disks: that its guests can have for themselves.
    :param local_volumes: whether these disks are on the host.
    """
    cells = numa.choose_cells(size.backend, size.cpus, size.memory_mib)
    return HostProfile(
        name=f'lab-{size.role}',
        sockets=len(cells),
        cores_per_socket=size.cpus // len(cells),
        threads_per_core=1,
        memory_mib=size.memory_mib,
        cells=cells,
        root_gb=_ROOT_GB,
        reserved_memory_mib=size.reserved_mib,
        controllers_rule='host',
        traits={size.role: size.trait},
        caps=HostCaps(size.cpu_cap, size.memory_mib),
        policy=HostPolicy(
            lab=True,
            shared_kernel=True,
            cpu_shares=True,
            # Memory is short: workers come before other nodes.
            secondary_namenode=False,
            spare_gateway=True,
            local_volumes=local_volumes,
        ),
        # They would be the machine's, outside every cap.
        large_pages=False,
        disks=disks,
    )


def profiles(
    hosts: list[HostSize], *, ceph: bool = False, lvm: bool = False
) -> dict[str, HostProfile]:
    """Return the lab's host profiles by name.

    :param ceph: there is one, whose disks workers can have volumes on.
    :param lvm: the hosts have volume groups.
    """
    backends = {size.backend for size in hosts if size.role == 'worker'}
    disks = None
    if 'lxc' not in backends:
        disks = LOCAL_DISKS if lvm else _DISKS if ceph else None
    return {
        host_profile.name: host_profile
        for size in hosts
        for host_profile in [
            profile(size, disks, local_volumes=disks is LOCAL_DISKS)
            if size.role == 'worker'
            else profile(size)
        ]
    }


def write_profiles(host_profiles: Iterable[HostProfile]) -> None:
    """Write the lab's host profiles for flavors to be derived from."""
    named = {}
    for host_profile in host_profiles:
        data = host_profile.to_mapping()
        named[data.pop('name')] = data
    paths.write_whole(
        PROFILES, yaml.safe_dump({'profiles': named}, sort_keys=False)
    )


def write_catalogues(every: Iterable[HostProfile]) -> None:
    """Write a catalogue for each of the lab's host profiles.

    What a catalogue says of a flavor that is still the same stays, such as
    its evidence; flavors of other sizes go.
    """
    for host_profile in every:
        path = CATALOGUES / f'{host_profile.name}.yaml'
        before = {}
        if path.exists():
            old = yamlfile.load(path).data
            before = {flavor['name']: flavor for flavor in old['flavors']}
        data = catalogue.build_catalogue(host_profile, _fitting(host_profile))
        # The lab's agents share its hosts' small caps with the guests.
        data['min_percent'] = MIN_PERCENT
        data['flavors'] = [
            before.get(flavor['name'], flavor) for flavor in data['flavors']
        ]
        paths.write_whole(path, yaml.safe_dump(data, sort_keys=False))


def _fitting(host_profile: HostProfile) -> list[Configuration]:
    """Return the instances per host that do not oversubscribe the host."""
    good = []
    for count in _INSTANCES:
        try:
            derive_flavor(
                host_profile,
                Configuration(count),
                next(iter(host_profile.traits)),
            )
        except errors.InputError:
            continue
        good.append(Configuration(count))
    return good
