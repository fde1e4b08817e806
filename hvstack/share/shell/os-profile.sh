# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Functions that apply an OS profile to a node (hvstack/hadoop/os_profiles.py).
# Calls of these functions follow.
# shellcheck source=/dev/null
os_profile=

os_root=${HVSTACK_ROOT:-}
os_failed=
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
        config-2 | CONFIG-2) continue ;;
        esac
        case $(blkid -p -o value -s TYPE "/dev/$os_name" 2>/dev/null) in
        swap) continue ;;
        esac
        echo "/dev/$os_name"
    done
}

# Sets $DATA_DISKS if the disk table does not exist, as soon as the node has the
# number of volumes in $DISKS: they are attached while the machine boots, one
# after the other. Each new one prolongs the wait. An ephemeral disk is no
# volume: it exists from the start, with a file system of Nova.
os_wait() {
    if [ -n "${DISK_TABLE:-}${SHARED_KERNEL:-}" ] || os_container; then
        return 0
    fi
    os_left=${DISK_SECONDS:-300} os_seen=0
    while :; do
        DATA_DISKS=$(os_find | tr '\n' ' ')
        os_count=0
        for os_disk in $DATA_DISKS; do
            case $(blkid -p -o value -s LABEL "$os_disk" 2>/dev/null) in
            ephemeral[0-9]*) ;;
            *) os_count=$((os_count + 1)) ;;
            esac
        done
        [ "$os_count" -le "$os_seen" ] || os_left=${DISK_SECONDS:-300}
        os_seen=$os_count
        [ "$os_count" -lt "${DISKS:-0}" ] && [ "$os_left" -gt 0 ] || break
        os_left=$((os_left - 2))
        sleep 2
    done
    [ "$os_count" -ge "${DISKS:-0}" ] ||
        os_not_set disks "$DISKS" "only $os_count there"
}

# os_disks FILE-SYSTEM OPTIONS MOUNT-OPTIONS, for the disks in $DATA_DISKS.
# One that holds anything keeps it, since this runs at every boot; the label
# names the profile that made a file system. It begins with hp- for a plain one
# without the options, which mkfs.xfs can refuse: an allocation group has at
# most 1 TiB. An ephemeral disk comes with a file system of Nova, which contains
# no data yet.
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

# One directory on every data disk that is there, for HDFS and for YARN. A host
# whose data disks were named must not write to its root disk instead, nor must
# a server with volumes that come later: status 9. Blocks that are on the root
# disk already stay in use.
os_directories() {
    os_hdfs='' os_yarn='' os_blocks=$os_root/srv/hdfs/data
    [ -e "$os_blocks/current" ] || os_blocks=
    for os_directory in "$os_root@DATA@"/*; do
        mountpoint -q "$os_directory" 2>/dev/null || continue
        mkdir -p "$os_directory/hdfs" "$os_directory/yarn"
        os_hdfs=$os_hdfs${os_hdfs:+,}file://$os_directory/hdfs
        os_yarn=$os_yarn${os_yarn:+,}$os_directory/yarn
    done
    if [ -n "${DISK_TABLE:-}" ] && [ -n "$os_failed" ]; then
        echo "os profile $os_profile: no file system on$os_failed" >&2
        exit 1
    fi
    if [ -z "$os_hdfs" ] && [ "${DISKS:-0}" -gt 0 ] && [ -z "$os_blocks" ] &&
        [ -z "${DISK_TABLE:-}${SHARED_KERNEL:-}" ] && ! os_container; then
        echo "os profile $os_profile: none of $DISKS volumes is mounted" >&2
        exit 9
    fi
    [ -n "$os_hdfs" ] || return 0
    [ -n "${DISK_TABLE:-}" ] || [ -z "$os_blocks" ] ||
        os_hdfs=$os_hdfs,file://$os_blocks
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
        elif [ -n "$2" ] && [ "$os_label" = "hp-$os_profile" ]; then
            os_not_set "mkfs.$2" "$3" "refused for $1: plain $os_found"
        elif [ -n "$2" ]; then
            os_not_set "mkfs.$2" "$3" "$1 holds ${os_found:-data} already"
        fi
    elif [ -n "$2" ] && os_format "$2" "-L hv-$os_profile $3" "$1"; then
        os_set "mkfs.$2" "$3 on $1"
    elif [ -n "$2" ] && os_format "$2" "-L hp-$os_profile" "$1"; then
        os_not_set "mkfs.$2" "$3" "refused for $1: plain $2"
    elif [ -n "$2" ]; then
        os_not_set "mkfs.$2" "$3" "failed on $1: plain ext4"
        os_format ext4 "-L hp-$os_profile" "$1" || true
    else
        os_format ext4 '' "$1" || true
    fi
}

os_format() {
    os_uuid=$(sed -n "s:^$3 ::p" "${DISK_TABLE:-/dev/null}")
    case $1-$os_uuid in
    *-) ;;
    xfs-*) os_uuid="-m uuid=$os_uuid${os_xfs:-}" ;;
    ext4-*) os_uuid="-U $os_uuid" ;;
    esac
    # shellcheck disable=SC2086 # Both are lists of options.
    mkfs."$1" $2 $os_uuid "$3" </dev/null >/dev/null 2>&1
}

os_fail() {
    echo "os profile $os_profile: no file system on $1"
    os_failed="$os_failed $1"
}

os_mount() {
    mkdir -p "$2"
    mountpoint -q "$2" ||
        { [ -n "$3" ] && mount -o "$3" "$1" "$2" 2>/dev/null; } ||
        mount "$1" "$2" ||
        os_fail "$1"
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
