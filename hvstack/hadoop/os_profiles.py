# SPDX-License-Identifier: Apache-2.0
"""OS profiles: operating system settings of the papers, as a shell fragment.

The papers contradict each other (large pages are on in vsphere6, off in amd
and vsan), so only a whole profile can be chosen. Paths in the fragment begin
with ``$HVSTACK_ROOT``, which only tests set.
"""

import shlex
from dataclasses import dataclass
from enum import Enum

from hvstack import errors

DEFAULT = 'vsphere6'
#: File of a node that lists the settings that were applied or not.
STATE = '/etc/hvstack/os-profile.state'
#: File of a node with the fragment, which runs before the daemons start.
SETUP = '/etc/hvstack/node-setup'
#: File of a bare-metal host with the blank data disks that hvstack checked:
#: each line has a device and the UUID of the file system to create.
DISKS = '/etc/hvstack/disks'
#: Directory below which data disks are mounted, with a number from 0 each.
DATA = '/srv/data'


class Kind(Enum):
    """Way in which a setting is applied."""

    #: ``/proc/sys``, by its dotted name.
    SYSCTL = 'sysctl'
    #: A file of ``/sys/kernel/mm/transparent_hugepage``.
    THP = 'thp'
    #: A resource limit of the daemons and of later logins.
    LIMIT = 'limit'
    #: mkfs of the data disks: the name is the file system.
    MKFS = 'mkfs'
    #: Mount options of the data disks.
    MOUNT = 'mount'
    #: A setting that the node does not apply itself.
    ELSEWHERE = 'elsewhere'


@dataclass(frozen=True)
class Setting:
    """A setting of an OS profile.

    :param kind: way in which the setting is applied.
    :param name: name of the setting.
    :param value: value of the setting.
    :param source: section or table of the paper.
    :param reason: why the node does not apply the setting itself.
    """

    kind: Kind
    name: str
    value: str
    source: str
    reason: str = ''


_MTU = "the network's MTU is Neutron's to say, by DHCP"
_QUEUES = "one queue is the flavor's and the image's default"


def _sysctls(source: str, values: dict[str, str]) -> tuple[Setting, ...]:
    return tuple(
        Setting(Kind.SYSCTL, name, value, source)
        for name, value in values.items()
    )


def _limits(source: str, value: str) -> tuple[Setting, ...]:
    return tuple(
        Setting(Kind.LIMIT, name, value, source)
        for name in ('nofile', 'nproc')
    )


#: Settings of every profile, in the order in which they are applied.
PROFILES: dict[str, tuple[Setting, ...]] = {
    'vsphere6': (
        # "Ensure large pages are used by the hypervisor, guest OS, and
        # Java": the JVMs of the tuning profile ask for them.
        Setting(Kind.THP, 'enabled', 'madvise', 'Best Practices: large pages'),
        *_limits('appendix A, limits.conf', '32768'),
        *_sysctls(
            'appendix A, sysctl.conf',
            {
                'net.ipv4.conf.all.arp_filter': '1',
                'vm.dirty_background_ratio': '1',
                'vm.swappiness': '0',
                'vm.overcommit_memory': '0',
                'net.core.rmem_max': '16777216',
                'net.core.wmem_max': '16777216',
                'net.ipv4.tcp_rmem': '4096 87380 16777216',
                'net.ipv4.tcp_wmem': '4096 65536 16777216',
                'net.ipv4.tcp_mtu_probing': '1',
            },
        ),
        # Since 5.19, mkfs.xfs requires two groups, for a second superblock.
        # Appendix B of the paper uses a single group for a constant
        # throughput. HDFS has replicas on other nodes.
        Setting(
            Kind.MKFS,
            'xfs',
            '--unsupported -d agcount=1',
            'appendix A, Linux',
        ),
        Setting(
            Kind.ELSEWHERE,
            'partition',
            'one, aligned at 8 MiB',
            'appendix A, Hardware',
            'a file system takes the whole disk, which is aligned',
        ),
        Setting(
            Kind.ELSEWHERE,
            'queues',
            'num_tqs=1 num_rqs=1',
            'appendix A, guest OS drivers',
            _QUEUES,
        ),
        Setting(
            Kind.ELSEWHERE,
            'interrupts',
            'one CPU for both NICs with 4 or more VMs a host, else two',
            'Networking',
            'virtio has one interrupt for its one queue',
        ),
        Setting(
            Kind.ELSEWHERE,
            'bonding',
            'mode=2 xmit_hash_policy=layer3+4',
            'appendix A, Network bonding driver',
            'a server has one port; hosts bond their NICs',
        ),
        Setting(
            Kind.ELSEWHERE,
            'mtu',
            '9000',
            'appendix A, Network bonding driver',
            _MTU,
        ),
    ),
    'vsan': (
        Setting(Kind.THP, 'defrag', 'never', 'appendix A'),
        Setting(Kind.THP, 'enabled', 'never', 'appendix A'),
        *_limits('appendix A', '65536'),
        *_sysctls(
            'appendix A',
            {
                'net.core.rmem_max': '16777216',
                'net.core.wmem_max': '16777216',
                'net.ipv4.tcp_rmem': '4096 87380 16777216',
                'net.ipv4.tcp_wmem': '4096 65536 16777216',
                'net.core.netdev_max_backlog': '250000',
                'vm.swappiness': '0',
            },
        ),
        Setting(Kind.MKFS, 'xfs', '-i size=2048', 'appendix A'),
        Setting(
            Kind.MOUNT, 'options', 'noatime,nodiratime,logbufs=8', 'appendix A'
        ),
        Setting(Kind.ELSEWHERE, 'mtu', '9000', 'appendix A', _MTU),
    ),
    'amd': (
        Setting(Kind.THP, 'enabled', 'never', '3.3.1'),
        Setting(Kind.LIMIT, 'nofile', '32768', '2.4.1'),
        *_sysctls('2.4.1', {'net.core.somaxconn': '1024'}),
        Setting(Kind.MKFS, 'ext4', '', '3.3.2'),
        Setting(Kind.MOUNT, 'options', 'noatime', '3.3.2'),
        Setting(
            Kind.ELSEWHERE,
            'scheduler',
            'cfq',
            '3.3.3',
            'Linux has no CFQ since 5.0',
        ),
    ),
    'stock': (),
}
#: Steps of the amd guide: each applies the settings of its section and of the
#: sections before it; with 3.3.2 and 3.3.3 this is the profile ``amd``.
STEPS = {
    f'amd-{step}': tuple(s for s in PROFILES['amd'] if s.source <= step)
    for step in ('2.4.1', '3.3.1')
}
PROFILES |= STEPS

_FUNCTIONS = r"""
os_root=${HVSTACK_ROOT:-}
[ ! -e "$os_root/etc/hvstack/node.env" ] || . "$os_root/etc/hvstack/node.env"
os_state=$os_root@STATE@
mkdir -p "${os_state%/*}"
echo "profile $os_profile" >"$os_state"

os_set() {
    echo "set $1=$2" >>"$os_state"
}

os_not_set() {
    echo "not set $1=$2: $3" >>"$os_state"
    echo "os profile $os_profile: not set: $1=$2 ($3)"
}

# What is set in a container holds for the host and all of its guests, and
# most of it cannot be set there.
os_container() {
    [ -n "${SHARED_KERNEL:-}" ] ||
        tr '\0' '\n' <"$os_root/proc/1/environ" 2>/dev/null |
        grep -q '^container='
}

# A network's values are its name space's own; all others are the kernel's.
# Where hosts share one, the name space is not Hadoop's alone either.
os_kernel() {
    case ${SHARED_KERNEL:-}$1 in
    sysctl.net.*) return 1 ;;
    *) os_container ;;
    esac
}

os_write() {
    if os_kernel "$1"; then
        os_not_set "$1" "$2" "the kernel is the host's"
    elif [ ! -e "$3" ]; then
        os_not_set "$1" "$2" 'this kernel or name space does not have it'
    elif (echo "$2" >"$3") 2>/dev/null; then
        os_set "$1" "$2"
    else
        os_not_set "$1" "$2" 'refused'
    fi
}

os_sysctl() {
    os_write "sysctl.$1" "$2" "$os_root/proc/sys/$(echo "$1" | tr . /)"
}

os_thp() {
    os_write "thp.$1" "$2" "$os_root/sys/kernel/mm/transparent_hugepage/$1"
}

# For the shell that starts the daemons, and for later logins.
os_limit() {
    mkdir -p "$os_root/etc/security/limits.d"
    echo "* - $1 $2" >"$os_root/etc/security/limits.d/hvstack-$1.conf"
    if prlimit --pid "${OS_PID:-$$}" "--$1=$2:$2" 2>/dev/null; then
        os_set "limit.$1" "$2"
    else
        os_not_set "limit.$1" "$2" 'refused'
    fi
}

# Prints a virtual machine's disks but those with partitions, such as the
# root disk, those in use for anything else, and the config drive.
os_find() {
    for os_block in "$os_root"/sys/block/*; do
        os_name=${os_block##*/}
        case $os_name in vd* | sd* | xvd* | nvme*) ;; *) continue ;; esac
        [ "$(cat "$os_block/ro" 2>/dev/null)" = 0 ] || continue
        [ "$(cat "$os_block/removable" 2>/dev/null)" = 0 ] || continue
        [ ! -e "$os_block/partition" ] || continue
        ! ls -d "$os_block/$os_name"[p0-9]* >/dev/null 2>&1 || continue
        ! grep "^/dev/$os_name " "$os_root/proc/mounts" |
            grep -qv " $os_root@DATA@/" || continue
        ! grep -q "^/dev/$os_name " "$os_root/proc/swaps" || continue
        case $(blkid -p -o value -s LABEL "/dev/$os_name" 2>/dev/null) in
        config-2) continue ;;
        esac
        case $(blkid -p -o value -s TYPE "/dev/$os_name" 2>/dev/null) in
        swap) continue ;;
        esac
        echo "/dev/$os_name"
    done
}

# Sets $DATA_DISKS where there is no table, once there are as many disks as
# $DISKS says: volumes are attached after the machine has begun to boot.
os_wait() {
    if [ -n "${DISK_TABLE:-}${SHARED_KERNEL:-}" ] || os_container; then
        return 0
    fi
    os_left=${DISK_SECONDS:-300}
    while :; do
        DATA_DISKS=$(os_find | tr '\n' ' ')
        os_count=$(echo "$DATA_DISKS" | wc -w)
        [ "$os_count" -lt "${DISKS:-0}" ] && [ "$os_left" -gt 0 ] || break
        os_left=$((os_left - 2))
        sleep 2
    done
    [ "$os_count" -ge "${DISKS:-0}" ] ||
        os_not_set disks "$DISKS" "only $os_count there"
}

# os_disks FILE-SYSTEM OPTIONS MOUNT-OPTIONS, for the disks in $DATA_DISKS.
# One that holds anything keeps it, since this runs at every boot; the label
# tells of the profile that made a file system. An ephemeral disk comes with
# Nova's file system, which nobody has used yet.
os_disks() {
    if [ -z "${DATA_DISKS:-}" ]; then
        [ -z "$1" ] || os_not_set "mkfs.$1" "$2" 'the node has one root disk'
        [ -z "$3" ] || os_not_set mount "$3" 'the node has one root disk'
    fi
    os_number=0
    for os_disk in ${DATA_DISKS:-}; do
        os_make "$os_disk" "$1" "$2"
        os_mount "$os_disk" "$os_root@DATA@/$os_number" "$3"
        os_number=$((os_number + 1))
    done
}

# One folder on every data disk that is there, for HDFS and for YARN.
os_folders() {
    os_hdfs= os_yarn=
    for os_folder in "$os_root@DATA@"/*; do
        mountpoint -q "$os_folder" 2>/dev/null || continue
        mkdir -p "$os_folder/hdfs" "$os_folder/yarn"
        os_hdfs=$os_hdfs${os_hdfs:+,}file://$os_folder/hdfs
        os_yarn=$os_yarn${os_yarn:+,}$os_folder/yarn
    done
    [ -n "$os_hdfs" ] || return 0
    os_value hdfs-site.xml dfs.datanode.data.dir "$os_hdfs"
    os_value yarn-site.xml yarn.nodemanager.local-dirs "$os_yarn"
}

# os_value FILE NAME VALUE: a property of a site file has this value.
os_value() {
    sed -i "s|\(<name>$2</name><value>\)[^<]*|\1$3|" \
        "$os_root/etc/hadoop/$1"
}

os_make() {
    os_blank=
    os_found=$(blkid -p -o value -s TYPE -s PTTYPE "$1" 2>/dev/null) ||
        [ $? != 2 ] || os_blank=yes # 2: nothing was found on it
    if [ -z "$os_blank" ]; then
        os_label=$(blkid -p -o value -s LABEL "$1" 2>/dev/null || true)
        case $os_label in
        ephemeral[0-9]*)
            mountpoint -q "$os_root@DATA@/$os_number" ||
                ! wipefs -qa "$1" || os_blank=yes
            ;;
        esac
    fi
    if [ -z "$os_blank" ]; then
        if [ -n "$2" ] && [ "$os_label" = "hv-$os_profile" ]; then
            os_set "mkfs.$2" "$3 on $1"
        elif [ -n "$2" ]; then
            os_not_set "mkfs.$2" "$3" "$1 holds ${os_found:-data} already"
        fi
    elif [ -n "$2" ] && os_format "$2" "-L hv-$os_profile $3" "$1"; then
        os_set "mkfs.$2" "$3 on $1"
    elif [ -n "$2" ] && os_format "$2" '' "$1"; then
        os_not_set "mkfs.$2" "$3" "refused for $1: plain $2"
    else
        [ -z "$2" ] || os_not_set "mkfs.$2" "$3" "failed on $1: plain ext4"
        os_format ext4 '' "$1" || true
    fi
}

os_format() {
    os_uuid=$(sed -n "s:^$3 ::p" "${DISK_TABLE:-/dev/null}")
    case $1-$os_uuid in
    *-) ;;
    xfs-*) os_uuid="-m uuid=$os_uuid" ;;
    ext4-*) os_uuid="-U $os_uuid" ;;
    esac
    mkfs."$1" $2 $os_uuid "$3" </dev/null >/dev/null 2>&1
}

os_mount() {
    mkdir -p "$2"
    mountpoint -q "$2" ||
        { [ -n "$3" ] && mount -o "$3" "$1" "$2" 2>/dev/null; } ||
        mount "$1" "$2" ||
        echo "os profile $os_profile: no file system on $1"
    [ -n "$3" ] || return 0
    os_has=,$(sed -n "s:^[^ ]* $2 [^ ]* \([^ ]*\) .*:\1:p" \
        "$os_root/proc/mounts"),
    for os_option in $(echo "$3" | tr , ' '); do
        case $os_has in
        *,"$os_option",*) os_set mount "$os_option on $1" ;;
        *) os_not_set mount "$os_option" "not in force on $1" ;;
        esac
    done
}
"""


def settings(profile: str) -> tuple[Setting, ...]:
    """Return the settings of an OS profile.

    :param profile: name of the OS profile.
    :raises hvstack.errors.InputError: the profile does not exist.
    """
    try:
        return PROFILES[profile]
    except KeyError:
        raise errors.InputError(
            f"Cannot use the OS profile '{profile}': it does not exist. "
            f'Use one of {", ".join(sorted(PROFILES))}.'
        ) from None


def kernel_settings(profile: str) -> list[str]:
    """Return the names of the kernel settings of an OS profile.

    :param profile: name of the OS profile.
    :returns: names such as ``sysctl.vm.swappiness`` and ``thp.enabled``.
    :raises hvstack.errors.InputError: the profile does not exist.
    """
    return [
        f'{setting.kind.value}.{setting.name}'
        for setting in settings(profile)
        if setting.kind in (Kind.SYSCTL, Kind.THP)
    ]


def fragment(
    profile: str = DEFAULT,
    *,
    disk_table: bool = False,
    shared_kernel: bool = False,
) -> str:
    """Return a shell fragment that applies an OS profile to a node.

    The fragment succeeds even if settings cannot be applied, also with
    ``set -eu``. It prints these settings and lists them in :data:`STATE`. The
    limits apply to the shell that runs the fragment, or to the process
    ``$OS_PID``, so this shell must start the daemons. Run the fragment at
    every boot.

    :param profile: name of the OS profile.
    :param disk_table: whether the data disks are those in the file
        :data:`DISKS`; a blank disk gets a file system. Without this file, a
        virtual machine uses all disks that are not in use, and waits until
        their number is that in its node.env (``DISKS``).
    :param shared_kernel: whether the node shares its kernel with other nodes
        but is not a container that the fragment recognizes, such as a lab
        host.
    :raises hvstack.errors.InputError: the profile does not exist.
    """
    chosen = settings(profile)
    lines = [f'os_profile={profile}']
    if disk_table:
        lines += [
            f'DISK_TABLE=${{HVSTACK_ROOT:-}}{DISKS}',
            'DATA_DISKS=$(sed "s/ .*//" "$DISK_TABLE" | tr "\\n" " ")',
        ]
    if shared_kernel:
        lines.append('SHARED_KERNEL=yes')
    lines.append(_FUNCTIONS.replace('@STATE@', STATE).replace('@DATA@', DATA))
    disks = {Kind.MKFS: ('', ''), Kind.MOUNT: ('', '')}
    for setting in chosen:
        if setting.kind in disks:
            disks[setting.kind] = (setting.name, setting.value)
        elif setting.kind is Kind.ELSEWHERE:
            call = _shell_call(
                'os_not_set', setting.name, setting.value, setting.reason
            )
            lines.append(f'{call} # {setting.source}')
        else:
            call = _shell_call(
                f'os_{setting.kind.value}', setting.name, setting.value
            )
            lines.append(f'{call} # {setting.source}')
    lines += [
        'os_wait',
        _shell_call('os_disks', *disks[Kind.MKFS], disks[Kind.MOUNT][1]),
        'os_folders',
    ]
    return '\n'.join(lines) + '\n'


def _shell_call(*args: str) -> str:
    return ' '.join(shlex.quote(arg) for arg in args)


@dataclass(frozen=True)
class OSProfileResult:
    """Settings of an OS profile that a node has applied or not.

    :param profile: name of the profile; empty if the fragment has not run.
    :param applied: settings in force, as ``name=value``.
    :param not_set: settings that could not be applied, as
        ``name=value: reason``.
    """

    profile: str
    applied: tuple[str, ...]
    not_set: tuple[str, ...]


def parse_state(text: str) -> OSProfileResult:
    """Return the result of an OS profile from the content of :data:`STATE`."""
    lines = text.splitlines()
    lines_by_prefix: dict[str, list[str]] = {
        'profile ': [],
        'set ': [],
        'not set ': [],
    }
    for line in lines:
        for start, state_lines in lines_by_prefix.items():
            if line.startswith(start):
                state_lines.append(line.removeprefix(start))
    return OSProfileResult(
        profile=''.join(lines_by_prefix['profile '][-1:]),
        applied=tuple(lines_by_prefix['set ']),
        not_set=tuple(lines_by_prefix['not set ']),
    )
