# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Prints the disks under the file systems for data of a node: name, kind and
# size in units of 10^9 bytes, separated by blanks.
# Argument: directory below which data disks are mounted.

# leaves NAME: prints the disks under a block device, such as those of a RAID
# or of a logical volume. All paths of a multipath device are the same disk.
leaves() {
    block=$(readlink -f "/sys/class/block/$1")
    [ ! -e "$block/partition" ] || block=${block%/*}
    set -- "$block/slaves"/*
    if [ ! -e "$1" ]; then
        echo "${block##*/}"
        return
    fi
    case $(cat "$block/dm/uuid" 2>/dev/null) in
    mpath-*) leaves "${1##*/}" ;;
    *) for slave; do leaves "${slave##*/}"; done ;;
    esac
}

kind() {
    case $1 in
    nvme*) echo nvme ;;
    loop*) echo loop ;;
    vd* | xvd*) echo virtual ;;
    *)
        case $(cat "/sys/block/$1/queue/rotational") in
        1) echo rotational ;;
        *) echo ssd ;;
        esac
        ;;
    esac
}

found=
for directory in "$1"/*; do
    mountpoint -q "$directory" 2>/dev/null || continue
    found="$found $directory"
done
for directory in ${found:-/srv}; do
    device=$(findmnt -n -o MAJ:MIN,SOURCE -T "$directory" | tail -n 1)
    source=${device##* }
    number=$(echo "$device" | awk '{ print $1 }')
    # A file system such as btrfs has a number of its own.
    [ -e "/sys/dev/block/$number" ] || {
        source=${source%%\[*}
        number=$(cat "/sys/class/block/${source##*/}/dev" 2>/dev/null)
    }
    [ -e "/sys/dev/block/${number:-none}" ] || continue
    name=$(readlink -f "/sys/dev/block/$number")
    leaves "${name##*/}"
done | sort -u | while read -r disk; do
    size=$(cat "/sys/block/$disk/size")
    echo "$disk $(kind "$disk") $((size * 512 / 1000000000))"
done
