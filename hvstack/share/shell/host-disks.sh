# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Functions that check, use and erase the data disks of a host that ssh
# reaches. They call functions of prepare-host.sh.

# Prints the device of a disk: a link of /dev/disk, or the file of a loop
# device.
device() {
    case $1 in
    /dev/disk/*)
        [ -b "$1" ] || fail "Cannot use the disk $1: it does not exist." \
            "Name a link in /dev/disk/by-id or by-path."
        readlink -f "$1"
        ;;
    *)
        loop=$(losetup -n -O NAME -j "$1" 2>/dev/null | tr -d ' ')
        [ -b "$loop" ] ||
            fail "Cannot use $1: it must be a mount point, or the file of" \
                "one loop device, and losetup -j lists '$loop'. Mount a file" \
                "system there, run losetup -f $1, or name a disk by its link" \
                "in /dev/disk/by-id or by-path."
        echo "$loop"
        ;;
    esac
}

# Prints the kernel's names of a block device, of its partitions, and of
# everything that holds them, such as LVM, RAID, bcache and dm-crypt.
list_users() {
    echo "$1"
    for entry in "/sys/class/block/$1/$1"* "/sys/class/block/$1/holders"/*; do
        [ ! -e "$entry" ] || list_users "${entry##*/}"
    done
}

# list_partitions NAME: prints the kernel's names of the partitions of a disk.
list_partitions() {
    for entry in "/sys/class/block/$1/$1"*; do
        [ ! -e "$entry/partition" ] || echo "${entry##*/}"
    done
}

# describe_holder NAME: such as "dm-0 (LVM vg-data)".
describe_holder() {
    mapper=/sys/class/block/$1/dm
    if [ -e "$mapper/name" ]; then
        echo "$1 ($(sed 's/-.*//' "$mapper/uuid") $(cat "$mapper/name"))"
    else
        echo "$1"
    fi
}

# find_mount NUMBER DEVICE FILE...: prints where these mountinfo files have the
# device, and the name of the directory of /proc; / comes first.
find_mount() {
    number=$1 source=$2
    shift 2
    # Each line begins with the file.
    grep -sH '' "$@" | awk -v number="$number" -v source="$source" '
    {
        for (i = 7; i < NF; i++) if ($i == "-") break
        if ($3 != number && $(i + 2) != source) next
        if (target && $5 != "/") next
        target = $5
        split($1, names, "/")
        process = names[3]
    }
    END { if (target) print target, process }'
}

# check_unused DISK DEVICE: fails if anything uses the disk. This holds for a
# disk that is to be erased, too.
check_unused() {
    disk=${2##*/}
    [ -d "/sys/block/$disk" ] ||
        fail "Cannot use the disk $1: it is a partition. Name a whole disk."
    [ "$(cat "/sys/block/$disk/ro")" = 0 ] ||
        fail "Cannot use the disk $1: it is read-only. Name another disk."
    for name in $(list_users "$disk"); do
        number=$(cat "/sys/class/block/$name/dev" 2>/dev/null) || number=none
        target=$(find_mount "$number" "/dev/$name" /proc/self/mountinfo \
            /proc/1/mountinfo)
        [ "${target%% *}" != / ] ||
            fail "Cannot use the disk $1: it is the root disk of this host" \
                "($name is mounted at /). Name another disk."
        [ -z "$target" ] ||
            fail "Cannot use the disk $1: $name is mounted at ${target%% *}." \
                "Unmount it, or name another disk."
        target=$(find_mount "$number" "/dev/$name" /proc/[0-9]*/mountinfo)
        [ -z "$target" ] ||
            fail "Cannot use the disk $1: $name is mounted at ${target%% *}" \
                "in the mount namespace of the process ${target##* }" \
                "($(cat "/proc/${target##* }/comm" 2>/dev/null)). Restart" \
                "its service, or name another disk."
        ! grep -q "^/dev/$name " /proc/swaps ||
            fail "Cannot use the disk $1: $name is swap space in use. Run" \
                "swapoff, or name another disk."
    done
    partitions=$(list_partitions "$disk")
    for name in $(list_users "$disk"); do
        case " $disk $(squeeze "$partitions") " in
        *" $name "*) ;;
        *)
            fail "Cannot use the disk $1: $(describe_holder "$name") holds" \
                "it. Name another disk."
            ;;
        esac
    done
    for name in $disk $partitions; do
        check_closed "$1" "/dev/$name"
    done
    # Opens the device exclusively, as file systems, Ceph, RAID and LVM do. Who
    # holds the disk keeps others from its partitions, and vice versa; wipefs
    # makes the kernel read the partition table of a disk again.
    for name in ${partitions:-$disk}; do
        [ -b "/dev/$name" ] || continue
        error=$(wipefs --no-act -a "/dev/$name" 2>&1 >/dev/null) ||
            fail "Cannot use the disk $1: it is in use" \
                "($(squeeze "$error")). Name another disk."
    done
}

# check_closed DISK DEVICE: fails if a loop device or a process has opened it.
check_closed() {
    loop=$(losetup -n -O NAME -j "$2" 2>/dev/null | tr -d ' ')
    [ -z "$loop" ] ||
        fail "Cannot use the disk $1: $(squeeze "$loop") holds it. Name" \
            "another disk."
    opened=$(find /proc/[0-9]*/fd -lname "$2" 2>/dev/null | head -n 1)
    opened=${opened#/proc/} opened=${opened%%/*}
    [ -z "$opened" ] ||
        fail "Cannot use the disk $1: the process $opened" \
            "($(cat "/proc/$opened/comm" 2>/dev/null)) has it open. Name" \
            "another disk."
}

# Prints what a device contains: signatures and partitions. A blank one prints
# nothing.
content() {
    status=0
    text=$(blkid -p -o value -s TYPE -s PTTYPE -s LABEL "$1" 2>&1) ||
        status=$?
    case $status in
    0) ;;
    2) text=$(wipefs "$1" 2>&1 | awk 'NR > 1 { print $3 }') ;;
    *) text="$text (blkid: status $status)" ;;
    esac
    squeeze "$text $(list_partitions "${1##*/}")" | sed 's/^ //; s/ $//'
}

# describe [DISK...]: prints what each disk contains.
describe() {
    for disk; do
        if [ -d "$disk" ]; then
            printf '%s\tfile system that is mounted\n' "$disk"
        else
            device=$(device "$disk") || exit 1
            text=$(content "$device")
            printf '%s\t%s\n' "$disk" "${text:-blank}"
        fi
    done
}

# with_mount DEVICE ROOT COMMAND...: runs it in the file system on the device.
with_mount() {
    mounted=$2/run/hvstack-disk source=$1
    shift 2
    mkdir -p "$mounted" || exit 1
    mount "$source" "$mounted" || return 1
    status=0
    (cd "$mounted" && "$@") || status=$?
    umount "$mounted" || exit 1
    return $status
}

# list_others UID: prints the names in a file system that hvstack did not
# create. Its own directories belong to Hadoop's user before Hadoop starts.
list_others() {
    # A node that lost its power in a burn-in still has a directory of root.
    find . -mindepth 1 -maxdepth 1 ! -name lost+found \
        ! \( -name '.hvstack-burn-in-*' -type d -uid 0 \) \
        ! \( \( -name hdfs -o -name yarn \) -type d \
        \( -uid "$1" -o -empty \) \) -printf '%f\n'
}

# check_kept DISK DEVICE ROOT LABEL: fails if hvstack's own file system of an
# earlier run cannot be used again.
check_kept() {
    own_label=$(blkid -p -o value -s LABEL "$2") || own_label=
    # A plain file system, since this host cannot create that of the profile.
    [ "$own_label" = "$4" ] || [ "$own_label" = "hp-${4#hv-}" ] ||
        fail "Cannot use the disk $1: hvstack created its file system for" \
            "another OS profile (label '$own_label' instead of '$4'). Erase" \
            "it with hvstack baseline run --wipe."
    others=$(with_mount "$2" "$3" list_others "${uid:-}") ||
        fail "Cannot use the disk $1: the file system that hvstack created" \
            "cannot be mounted. Erase it with hvstack baseline run --wipe."
    [ -z "$others" ] ||
        fail "Cannot use the disk $1: its file system contains" \
            "$(squeeze "$others"), which hvstack did not create for the user" \
            "ID ${uid:-}. Move this to another disk, or erase the disk with" \
            "hvstack baseline run --wipe."
}

# check_directory DIRECTORY: fails unless it is the mount point of a file
# system of a local disk.
check_directory() {
    [ "$(readlink -m "$1")" = "$1" ] ||
        fail "Cannot use $1: it contains a symbolic link. Use the real path."
    mountpoint -q "$1" ||
        fail "Cannot use $1: no file system is mounted there. Mount one, or" \
            "name the directory with 'data'."
    mounted=$(findmnt -n -o SOURCE,FSTYPE,OPTIONS -M "$1" | tail -n 1)
    case $mounted in
    /dev/* | *' zfs '*) ;;
    *)
        fail "Cannot use $1: it is not on a local disk" \
            "($(squeeze "$mounted")). Name another mount point."
        ;;
    esac
    case ",${mounted##* }," in
    *,ro,*) fail "Cannot use $1: it is read-only. Name another mount point." ;;
    esac
    [ "$(stat -c %d "$1")" != "$(stat -c %d /)" ] ||
        fail "Cannot use $1: it is on the root file system. Name the" \
            "directory with 'data'."
    check_creatable "$1/hvstack-bare"
    check_holder "$1/hvstack-bare" "${run_holder:-}"
}

# select_disks ROOT LABEL [DISK UUID WIPE...]: checks all disks, and sets
# $selected: an action, device, UUID and disk on each line.
select_disks() {
    root=$1 label=$2 selected=
    shift 2
    while [ $# -ge 3 ]; do
        action=format uuid=$2
        if [ -d "$1" ]; then
            [ -z "$3" ] ||
                fail "Cannot erase $1: a file system is mounted there. Do" \
                    "not name it with --wipe."
            check_directory "$1"
            action=bind device=$(stat -c %d "$1")
        else
            device=$(device "$1") || exit 1
            check_unused "$1" "$device"
            select_action "$1" "$3"
        fi
        case $selected in
        *" $device "*) fail "Cannot use the disk $1: it is named twice." ;;
        esac
        selected="$selected$action $device $uuid $1
"
        shift 3
    done
}

# select_action DISK WIPE: sets $action, and $uuid of an own file system.
select_action() {
    found=$(content "$device")
    [ -n "$found" ] || return 0
    if [ -n "$2" ]; then
        action=wipe
        return 0
    fi
    own=$(blkid -p -o value -s UUID "$device") || own=
    if [ -z "$own" ] ||
        ! grep -qsxF -e "disk.$own=$1" "$(changes "$root")"; then
        fail "Cannot use the disk $1: it contains data ($found). Name a" \
            "blank disk, or erase it with hvstack baseline run --wipe."
    fi
    check_kept "$1" "$device" "$root" "$label"
    action=reuse uuid=$own
}

# use_disks ROOT: uses the disks in $selected, each after it is recorded.
use_disks() {
    root=$1 mounts=0
    mkdir -p "$root/etc/hvstack"
    : >"$root/etc/hvstack/disks"
    while read -r action device uuid disk <&4; do
        [ -n "$action" ] || continue
        record "$root" "used.$uuid=$disk"
        case $action in
        bind)
            directory=$root/srv/data/mount-$mounts
            mounts=$((mounts + 1))
            # An earlier release could not delete it if nothing was mounted.
            delete_directory "$disk/hvstack-bare"
            create "$disk/hvstack-bare"
            hold "$disk/hvstack-bare" "${run_holder:-}"
            mkdir -p "$directory" || exit 1
            mount --bind "$disk/hvstack-bare" "$directory" || exit 1
            continue
            ;;
        reuse)
            with_mount "$device" "$root" rm -rf --one-file-system hdfs yarn ||
                exit 1
            ;;
        wipe) wipe "$disk" "$device" ;;
        esac
        record "$root" "disk.$uuid=$disk"
        echo "$device $uuid" >>"$root/etc/hvstack/disks"
    done 4<<END
$selected
END
}

# wipe DISK DEVICE: erases all signatures, those of partitions first.
wipe() {
    for name in $(list_partitions "${2##*/}"); do
        [ ! -b "/dev/$name" ] || wipefs -qa "/dev/$name" || exit 1
    done
    wipefs -qa "$2" || exit 1
    for name in $(list_partitions "${2##*/}"); do
        partx -d "$2" || fail "Cannot erase the disk $1: the kernel still" \
            "has the partition $name. Run partprobe, and try again."
        break
    done
}

# erase DISK UUID: erases the file system that hvstack created, no other.
erase() {
    # A disk that does not exist has none: a wrong name, or it failed.
    device=$(device "$1" 2>/dev/null) || return 0
    [ "$(blkid -p -o value -s UUID "$device")" = "$2" ] || return 0
    check_unused "$1" "$device"
    wipefs -qa "$device" || exit 1
}

# Succeeds if a change uses a mount point that is not mounted now, so that the
# directory in its file system could not be deleted.
is_absent() {
    case $1 in used.*) ;; *) return 1 ;; esac
    [ -d "${1#*=}" ] && ! mountpoint -q "${1#*=}"
}

# release_disk DISK UUID AFTER
release_disk() {
    if [ -d "$1" ]; then
        delete_directory "$1/hvstack-bare"
    elif [ "$3" = clear ]; then
        erase "$1" "$2"
    fi
}
