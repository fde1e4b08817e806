# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Functions that prepare and release a host that ssh reaches. Those of
# end-inside.sh come first; those of host-disks.sh follow.

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

# Fails unless create would succeed.
check_creatable() {
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
}

create() {
    check_creatable "$1"
    ! is_own "$1" || return 0
    mkdir -p "$1" || exit 1
    echo "hvstack directory $(stat -c %i "$1")" >"$1/.hvstack" || exit 1
}

# Prints the file with the changes to this host, which release undoes.
changes() {
    echo "$1/.hvstack-changes"
}

# record ROOT CHANGE: writes a change down, before it is made.
record() {
    is_own "$1" && [ ! -L "$(changes "$1")" ] ||
        fail "Cannot record changes in $1: hvstack did not create it."
    ! grep -qsxF -e "$2" "$(changes "$1")" || return 0
    echo "$2" >>"$(changes "$1")" || exit 1
    sync "$(changes "$1")" 2>/dev/null || sync
}

# Deletes everything in a directory but the stamp, which goes last, and the
# changes that are not undone yet.
empty() {
    is_own "$1" || fail "Cannot empty $1: hvstack did not create it."
    below=$(mounts_below "$1" | tr '\n' ' ')
    [ -z "$below" ] ||
        fail "Cannot empty $1: ${below% } is mounted. Unmount it."
    find "$1" -xdev -mindepth 1 -maxdepth 1 ! -name .hvstack \
        ! -name .hvstack-changes ! -name .hvstack-holder -exec rm -rf --one-file-system {} + || exit 1
}

setting_file() {
    case $1 in
    sysctl.*) echo "/proc/sys/$(echo "${1#sysctl.}" | tr . /)" ;;
    thp.*) echo "/sys/kernel/mm/transparent_hugepage/${1#thp.}" ;;
    esac
}

# Succeeds if a change is that of a setting of the kernel.
is_setting() {
    case $1 in
    sysctl.* | thp.*) return 0 ;;
    *) return 1 ;;
    esac
}

# Prints the settings of the kernel that exist, as NAME=VALUE.
read_settings() {
    for name; do
        file=$(setting_file "$name")
        [ -e "$file" ] || continue
        value=$(cat "$file") || exit 1
        case $value in
        *\[*\]*) value=${value#*\[} value=${value%%\]*} ;;
        esac
        # The kernel knows one of both values, and the other one is 0.
        case $name=$value in
        sysctl.vm.dirty_*_ratio=0 | sysctl.vm.dirty_ratio=0)
            bytes=$(cat "$(setting_file "${name%ratio}bytes")") || exit 1
            [ "$bytes" = 0 ] || name=${name%ratio}bytes value=$bytes
            ;;
        esac
        echo "$name=$(squeeze "$value")"
    done
}

# settings ROOT [NAME|CHANGE...]: prints the settings of the kernel, and
# records them, and the other changes, before anything is set.
settings() {
    root=$1
    shift
    # Values of an earlier boot are not in force any more.
    record "$root" "boot.$(boot_id)"
    for name; do
        case $name in
        *=*)
            record "$root" "$name"
            continue
            ;;
        esac
        setting=$(read_settings "$name") || exit 1
        [ -n "$setting" ] || continue
        record "$root" "$setting"
        echo "$setting"
    done
}

# A value that is in force already is not written: a host may refuse to have
# it written at all, and then nothing changed it either.
restore() {
    file=$(setting_file "$1")
    [ -e "$file" ] && [ "$(read_settings "$1")" != "$1=$2" ] || return 0
    { echo "$2" >"$file"; } 2>/dev/null ||
        fail "Cannot restore $1 to $2: the kernel refuses it. Set it by hand."
}

# undo CHANGE AFTER
undo() {
    case $1 in
    used.*)
        uuid=${1%%=*}
        release_disk "${1#*=}" "${uuid#used.}" "$2"
        ;;
    disk.* | boot.*) ;;
    firewall.*) close_firewall "${1%%=*}" "${1#*=}" ;;
    *) restore "${1%%=*}" "${1#*=}" ;;
    esac
}

# delete_directory DIRECTORY: with all files, if hvstack created it, and the run
# of another holder does not use it.
delete_directory() {
    is_own "$1" || return 0
    ! is_of_other "$1" || return 0
    empty "$1"
    rm -f "$1/.hvstack-holder"
    rm -f "$1/.hvstack"
    rmdir "$1" || exit 1
}

# check_holder DIRECTORY HOLDER: fails while the run of another user, or of
# another machine, uses the directory. A holder is an ID, a space and a
# description; the file also has the boot of this host, and exists until the
# release. After another boot, processes alone show a run. Each directory has
# such a file, since two runs can have different roots and the same data.
check_holder() {
    is_own "$1" && [ -f "$1/.hvstack-holder" ] &&
        [ ! -L "$1/.hvstack-holder" ] || return 0
    holder=$(head -n 1 "$1/.hvstack-holder")
    [ "${holder%% *}" != "${2%% *}" ] || return 0
    [ "$(tail -n 1 "$1/.hvstack-holder")" = "$(boot_id)" ] ||
        [ -n "$(inside "$1")" ] || return 0
    fail "Cannot use $1: a run of ${holder#* } measures there. Wait until it" \
        "ends. If it was lost, run 'hvstack baseline release'."
}

# hold DIRECTORY HOLDER
hold() {
    check_holder "$1" "$2"
    rm -f "$1/.hvstack-holder"
    printf '%s\n%s\n' "$2" "$(boot_id)" >"$1/.hvstack-holder" || exit 1
}

# Succeeds while the run of another holder than $run_holder uses the directory.
is_of_other() {
    [ -n "${run_holder:-}" ] &&
        ! (check_holder "$1" "$run_holder") 2>/dev/null
}

boot_id() {
    cat /proc/sys/kernel/random/boot_id
}

# release_own HOLDER ROOT DATA AFTER [CHANGE...]: as release, but never ends
# the run of another holder.
release_own() {
    run_holder=$1
    check_holder "$2" "$1"
    [ -z "$3" ] || check_holder "$3" "$1"
    shift
    release "$@"
}

# release_mine HOLDER ROOT DATA AFTER [CHANGE...]: as release, but does nothing
# during the run of another holder, who had to release the host first.
release_mine() {
    run_holder=$1
    ! is_of_other "$2" || return 0
    shift
    release "$@"
}

# release ROOT DATA AFTER [CHANGE...]: undoes the changes that the journal and
# this host have recorded.
release() {
    root=$1 data=$2 after=$3
    shift 3
    if is_own "$root"; then
        end_inside "$root"
        rm -rf --one-file-system "$root/srv/hdfs" "$root/srv/yarn" \
            "$root/srv/data" "$root/.hvstack-holder" || exit 1
    fi
    [ -z "$data" ] || delete_directory "$data"
    status=0
    # In subshells: a change that cannot be undone does not keep the others.
    for change; do
        # This host has recorded its settings, unless they are restored.
        ! is_own "$root" || ! is_setting "$change" || continue
        (undo "$change" "$after") || status=1
    done
    recorded=$(changes "$root")
    is_own "$root" && [ -f "$recorded" ] && [ ! -L "$recorded" ] ||
        return $status
    boot='' absent=''
    while IFS= read -r change <&3; do
        case $change in boot.*) boot=${change#boot.} ;; esac
        # The operator may have changed them after that boot.
        if is_setting "$change" &&
            [ "${boot:-$(boot_id)}" != "$(boot_id)" ]; then
            continue
        fi
        (undo "$change" "$after") || status=1
        ! is_absent "$change" || absent="$absent$change
"
    done 3<"$recorded"
    [ $status = 0 ] || return $status
    # File systems that stay on their disks are hvstack's in the next run, too.
    awk -v after="$after" '
    /^used\./ { used[substr($0, 6)] }
    /^disk\./ { disks[substr($0, 6)] }
    END {
        for (disk in disks)
            if (after == "keep" || !(disk in used)) print "disk." disk
    }' "$recorded" >"$recorded.new" || exit 1
    printf '%s' "$absent" >>"$recorded.new" || exit 1
    if [ -s "$recorded.new" ]; then
        mv "$recorded.new" "$recorded"
    else
        rm -f "$recorded" "$recorded.new"
    fi
}

# check_huge_pages MEMINFO: fails if huge pages take more than a tenth of the
# memory, as on a host for guests with dedicated CPUs. Hadoop cannot use them,
# and its size follows from all memory.
check_huge_pages() {
    pages=$(awk '
    $1 == "MemTotal:" { total = $2 }
    $1 == "HugePages_Total:" { count = $2 }
    $1 == "Hugepagesize:" { size = $2 }
    # All sizes together; Linux before 4.16 does not have it.
    $1 == "Hugetlb:" { all = $2 }
    END {
        if (all < count * size) all = count * size
        if (all * 10 > total)
            printf "%d of %d MiB", all / 1024, total / 1024
    }' "$1")
    [ -z "$pages" ] ||
        fail "Cannot use this host: huge pages take $pages of its memory," \
            "which Hadoop on bare metal cannot use. Write 0 to each" \
            "/sys/kernel/mm/hugepages/hugepages-*/nr_hugepages, and set it" \
            "again for guests with dedicated CPUs."
}

# check_ports ADDRESS PORTS ANY-PORTS FILE...: fails if these files of the
# kernel show a program that listens on one of PORTS, in a list with spaces, on
# this address or on all of them, or on one of ANY-PORTS on any address.
check_ports() {
    address=$1 ports=$2 any_ports=$3
    shift 3
    # The kernel prints an address in the order of bytes of the processor, and
    # an IPv4 address of IPv6 at the end of a longer one. 0A is a socket that
    # listens.
    port=$(cat "$@" 2>/dev/null | awk -v address="$address" \
        -v ports="$ports" -v any_ports="$any_ports" '
    BEGIN {
        split(address, n, ".")
        own = "^0+$|" sprintf("%02X%02X%02X%02X", n[4], n[3], n[2], n[1]) \
            "$|" sprintf("%02X%02X%02X%02X", n[1], n[2], n[3], n[4]) "$"
        count = split(ports, list, " ")
        for (i = 1; i <= count; i++) number[sprintf("%04X", list[i])] = list[i]
        count = split(any_ports, list, " ")
        for (i = 1; i <= count; i++) any[sprintf("%04X", list[i])] = list[i]
    }
    $4 == "0A" {
        split($2, socket, ":")
        if (socket[2] in any) print any[socket[2]]
        else if (socket[2] in number && socket[1] ~ own)
            print number[socket[2]]
    }' | head -n 1)
    [ -z "$port" ] ||
        fail "Cannot use this host: another program listens on TCP port" \
            "$port, which Hadoop needs. Stop the program."
}

# check_size CPUS MEMINFO VCPUS MEMORY-MIB CPU-CAP MEMORY-CAP: fails if a host
# does not have the size in the inventory, by which Hadoop is sized. The kernel
# keeps a part of the memory. A host with a cap reports more than it may use.
check_size() {
    cpus=$1 mib=$(awk '$1 == "MemTotal:" { print int($2 / 1024) }' "$2")
    if [ "$3" -gt "$cpus" ] || { [ -z "$5" ] && [ "$3" -lt "$cpus" ]; }; then
        fail "Cannot use this host: it has $cpus CPUs, and 'vcpus' is $3." \
            "Set 'vcpus' to $cpus, or switch CPUs of the host off."
    fi
    if [ $(($4 * 10)) -gt $((mib * 11)) ] ||
        { [ -z "$6" ] && [ $(($4 * 10)) -lt $((mib * 9)) ]; }; then
        fail "Cannot use this host: it has $mib MiB of memory, and" \
            "'memory_mib' is $4. Set 'memory_mib' to $mib."
    fi
}

# check_host ADDRESS VCPUS MEMORY-MIB CPU-CAP MEMORY-CAP: fails if the host does
# not have this size, or is not free for Hadoop. The ports are those of the
# daemons in hvstack/hadoop/site_files.py and Hadoop's defaults; the shuffle
# service listens on all addresses.
check_host() {
    cpus=$(getconf _NPROCESSORS_ONLN) || exit 1
    check_size "$cpus" /proc/meminfo "$2" "$3" "$4" "$5"
    check_ports "$1" "8020 8030 8031 8032 8033 8040 8042 8088 9864 9866 9867 \
        9870 10020 10033 19888" 13562 /proc/net/tcp /proc/net/tcp6
}

# check ROOT UID LABEL [DISK UUID WIPE...]: the memory, the user of Hadoop's
# processes, and the disks. Nothing is changed before all of them are checked.
check() {
    root=$1 uid=$2
    is_own "$root" || exit 1
    run_holder=$(head -n 1 "$root/.hvstack-holder" 2>/dev/null)
    shift 2
    check_huge_pages /proc/meminfo
    if getent passwd "$uid" >/dev/null || getent group "$uid" >/dev/null; then
        fail "Cannot use the user ID $uid: this host has such a user or" \
            "group. Set 'uid' to another number."
    fi
    process=$(stat -c '%u %n' /proc/[0-9]* 2>/dev/null |
        sed -n "s:^$uid /proc/::p" | head -n 1)
    [ -z "$process" ] ||
        fail "Cannot use the user ID $uid: process $process has it. Set" \
            "'uid' to another number."
    select_disks "$root" "$@"
    use_disks "$root"
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

# claim ROOT DATA HOLDER: prints the stamp of the archive that is unpacked in
# ROOT.
claim() {
    create "$1"
    [ -z "$2" ] || create "$2"
    check_holder "$1" "$3"
    [ -z "$2" ] || hold "$2" "$3"
    hold "$1" "$3"
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
    # A peer group of its own: what is mounted in it is not mounted in the file
    # system below, and services that start during the run with mounts of their
    # own lose these mounts when they are unmounted here.
    mount --make-private "$1"
    mount --make-shared "$1"
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
    # A run under a private umask may have created it.
    chmod 644 "$1/etc/hosts"
}
