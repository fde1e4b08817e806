# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Functions that prepare and release a host that ssh reaches. Those of
# end-inside.sh come first.

fail() {
    echo "$*" >&2
    exit 1
}

# Prints a text on one line, with single spaces.
squeeze() {
    printf '%s' "$1" | tr -s ' \t\n' ' '
}

# A copy of a directory has another inode, so its stamp is not valid.
is_own() {
    [ -d "$1" ] && [ ! -L "$1" ] && [ -f "$1/.hvstack" ] &&
        [ ! -L "$1/.hvstack" ] &&
        [ "$(stat -c %u "$1/.hvstack")" = "$(id -u)" ] &&
        [ "$(cat "$1/.hvstack")" = "hvstack directory $(stat -c %i "$1")" ]
}

create() {
    [ "$(readlink -m "$1")" = "$1" ] ||
        fail "Cannot use $1: it contains a symbolic link. Use the real path."
    ! is_own "$1" || return 0
    if [ -e "$1" ]; then
        [ -d "$1" ] && [ -z "$(ls -A "$1")" ] ||
            fail "Cannot use $1: hvstack did not create it, and it is not" \
                "empty. Use a new directory."
        [ -z "$(mounts_below "$1")" ] ||
            fail "Cannot use $1: it is a mount point. Use a directory in it."
    fi
    mkdir -p "$1" || exit 1
    echo "hvstack directory $(stat -c %i "$1")" >"$1/.hvstack" || exit 1
}

# Deletes everything in a directory but the stamp, which goes last.
empty() {
    is_own "$1" || fail "Cannot empty $1: hvstack did not create it."
    below=$(mounts_below "$1" | tr '\n' ' ')
    [ -z "$below" ] ||
        fail "Cannot empty $1: ${below% } is mounted. Unmount it."
    find "$1" -xdev -mindepth 1 -maxdepth 1 ! -name .hvstack \
        -exec rm -rf --one-file-system {} + || exit 1
}

# Prints the device of a disk: a link of /dev/disk, or the file of a loop
# device.
device() {
    case $1 in
    /dev/disk/*)
        [ -b "$1" ] || fail "Cannot use the disk $1: it does not exist."
        readlink -f "$1"
        ;;
    *)
        loop=$(losetup -n -O NAME -j "$1" 2>/dev/null | tr -d ' ')
        [ -b "$loop" ] ||
            fail "Cannot use $1: it must be the file of one loop device, and" \
                "losetup -j lists '$loop'. Run losetup -f $1, or name a" \
                "disk by its link in /dev/disk/by-id or by-path."
        echo "$loop"
        ;;
    esac
}

# check_blank DISK DEVICE: fails unless nothing uses it and nothing is on it.
check_blank() {
    kernel=/sys/block/${2##*/}
    [ -d "$kernel" ] ||
        fail "Cannot use the disk $1: it is a partition. Name a whole disk."
    [ "$(cat "$kernel/ro")" = 0 ] ||
        fail "Cannot use the disk $1: it is read-only. Name another disk."
    number=$(cat "$kernel/dev")
    for part in "$kernel/${2##*/}"* "$kernel"/holders/*; do
        [ ! -e "$part" ] ||
            fail "Cannot use the disk $1: it has ${part##*/} (partition or" \
                "holder). Name a disk without data."
    done
    ! grep -qs "^[0-9]* [0-9]* $number " /proc/[0-9]*/mountinfo ||
        fail "Cannot use the disk $1: it is mounted. Name another disk."
    ! grep -q "^$2 " /proc/swaps ||
        fail "Cannot use the disk $1: it is swap space. Name another disk."
    status=0
    content=$(blkid -p -o value -s TYPE -s PTTYPE "$2" 2>&1) || status=$?
    [ $status = 2 ] ||
        fail "Cannot use the disk $1: it contains data" \
            "($(squeeze "$content")). Name a blank disk, or erase it with wipefs."
    content=$(wipefs "$2" 2>&1) || fail "Cannot use the disk $1: $content"
    [ -z "$content" ] ||
        fail "Cannot use the disk $1: it has signatures. Name a blank disk."
}

# erase DISK UUID: erases the file system that hvstack created, no other.
erase() {
    device=$(device "$1") || exit 1
    [ "$(blkid -p -o value -s UUID "$device")" = "$2" ] || return 0
    number=$(cat "/sys/block/${device##*/}/dev")
    ! grep -qs "^[0-9]* [0-9]* $number " /proc/[0-9]*/mountinfo ||
        fail "Cannot erase the disk $1: it is mounted. Unmount it."
    wipefs -qa "$device" || exit 1
}

setting_file() {
    case $1 in
    sysctl.*) echo "/proc/sys/$(echo "${1#sysctl.}" | tr . /)" ;;
    thp.*) echo "/sys/kernel/mm/transparent_hugepage/${1#thp.}" ;;
    esac
}

# Prints the settings of the kernel that there are, as NAME=VALUE.
settings() {
    for name; do
        file=$(setting_file "$name")
        [ -e "$file" ] || continue
        value=$(cat "$file") || exit 1
        case $value in
        *\[*\]*) value=${value#*\[} value=${value%%\]*} ;;
        esac
        echo "$name=$(squeeze "$value")"
    done
}

# A value that is in force already is not written: a host may refuse to have
# it written at all, and then nothing changed it either.
restore() {
    file=$(setting_file "$1")
    [ -e "$file" ] && [ "$(settings "$1")" != "$1=$2" ] || return 0
    { echo "$2" >"$file"; } 2>/dev/null ||
        fail "Cannot restore $1 to $2: the kernel refuses it. Set it by hand."
}

# release ROOT DATA [NAME=VALUE...]: what was changed, as the journal has it.
release() {
    if is_own "$1"; then
        end_inside "$1"
        rm -rf --one-file-system "$1/srv/hdfs" "$1/srv/yarn" "$1/srv/data" ||
            exit 1
    fi
    if [ -n "$2" ] && is_own "$2"; then
        empty "$2"
        rm -f "$2/.hvstack"
        rmdir "$2" || exit 1
    fi
    shift 2
    status=0
    # In subshells: a change that cannot be undone does not keep the others.
    for change; do
        case $change in
        disk.*)
            (erase "${change#*=}" "$(echo "${change%%=*}" | cut -c6-)")
            ;;
        firewall.*) (close_firewall "${change%%=*}" "${change#*=}") ;;
        *) (restore "${change%%=*}" "${change#*=}") ;;
        esac || status=1
    done
    return $status
}

# check ROOT UID [DISK UUID...]: the user of Hadoop's processes, and the disks.
check() {
    root=$1 uid=$2
    is_own "$root" || exit 1
    shift 2
    if getent passwd "$uid" >/dev/null || getent group "$uid" >/dev/null; then
        fail "Cannot use the user ID $uid: this host has such a user or" \
            "group. Set 'uid' to another number."
    fi
    for entry in /proc/[0-9]*; do
        [ "$(stat -c %u "$entry" 2>/dev/null)" != "$uid" ] ||
            fail "Cannot use the user ID $uid: process ${entry#/proc/} has" \
                "it. Set 'uid' to another number."
    done
    table=
    while [ $# -ge 2 ]; do
        device=$(device "$1") || exit 1
        check_blank "$1" "$device"
        case $table in
        *"$device "*) fail "Cannot use the disk $1: it is named twice." ;;
        esac
        table="$table$device $2
"
        shift 2
    done
    mkdir -p "$root/etc/hvstack"
    printf '%s' "$table" >"$root/etc/hvstack/disks"
    for file in passwd group; do
        sed -i '/^hvstack:/d' "$root/etc/$file"
    done
    echo "hvstack:x:$uid:$uid::/srv:/bin/sh" >>"$root/etc/passwd"
    echo "hvstack:x:$uid:" >>"$root/etc/group"
}

# open_firewall NAME UID ADDRESS...: processes of UID reach these addresses
# and their own host, and no other, in both directions: the answer to a
# stranger's SYN is a packet of the listening process.
open_firewall() {
    name=$1 uid=$2
    shift 2
    if command -v nft >/dev/null; then
        {
            echo "table inet $name {"
            echo "chain output {"
            echo "type filter hook output priority 0; policy accept;"
            echo "meta skuid != $uid accept"
            echo 'oifname "lo" accept'
            for address; do echo "ip daddr $address accept"; done
            echo "meta skuid $uid drop"
            echo "}"
            echo "}"
        } | nft -f - || fail "Cannot restrict Hadoop's network: nft failed."
    elif command -v iptables >/dev/null; then
        {
            iptables -w -N "$name" &&
                iptables -w -A "$name" -o lo -j RETURN &&
                for address; do
                    iptables -w -A "$name" -d "$address" -j RETURN || exit 1
                done &&
                iptables -w -A "$name" -j DROP &&
                iptables -w -I OUTPUT -m owner --uid-owner "$uid" -j "$name"
        } || fail "Cannot restrict Hadoop's network: iptables failed."
    else
        fail "Cannot restrict Hadoop's network to the hosts of the" \
            "inventory: neither nft nor iptables is installed. Install" \
            "nftables, or set 'firewall: none' in a network of your own."
    fi
}

# close_firewall firewall.UID NAME
close_firewall() {
    uid=${1#firewall.}
    if command -v nft >/dev/null &&
        nft list table inet "$2" >/dev/null 2>&1; then
        nft delete table inet "$2" || exit 1
    fi
    if command -v iptables >/dev/null &&
        iptables -w -n -L "$2" >/dev/null 2>&1; then
        while iptables -w -D OUTPUT -m owner --uid-owner "$uid" -j "$2" \
            2>/dev/null; do :; done
        iptables -w -F "$2" && iptables -w -X "$2" || exit 1
    fi
}

# Prints the stamp of the archive that is unpacked in $1.
claim() {
    create "$1"
    [ -z "$2" ] || create "$2"
    cat "$1/.hvstack-archive" 2>/dev/null || true
}

# Unpacks the archive on standard input, whose stamp is $2, in $1.
unpack() {
    empty "$1"
    tar -x -C "$1" || exit 1
    echo "$2" >"$1/.hvstack-archive"
}

# The copies of /dev must not take the host's with them when they go.
mount_root() {
    set -e
    is_own "$1"
    mount --bind "$1" "$1"
    mount --make-private "$1"
    mount -t proc proc "$1/proc"
    mount -t sysfs sysfs "$1/sys"
    mount --rbind /dev "$1/dev"
    mount --make-rslave "$1/dev"
    mount -t tmpfs -o mode=755 tmpfs "$1/run"
    if [ -n "$2" ]; then
        is_own "$2"
        mount --bind "$2" "$1/srv"
    fi
    printf '127.0.0.1 localhost\n%s %s\n' "$3" "$4" >"$1/etc/hosts"
}
