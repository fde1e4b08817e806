# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Prints the file system of each path, also of one that only the container of
# nova-compute has.
# Arguments: the paths.

# Succeeds if the command line on standard input, an argument on each line, is
# that of nova-compute. Other programs can have this name as an argument, such
# as journalctl.
is_nova_compute() {
    awk '
    NR == 1 && !/(^|\/)(python[0-9.]*|nova-compute)$/ { exit }
    /(^|\/)nova-compute$/ { found = 1; exit }
    NR > 1 && !/^-/ { exit }
    END { exit !found }'
}

container() {
    for p in /proc/[0-9]*; do
        tr '\0' '\n' <"$p/cmdline" 2>/dev/null | is_nova_compute || continue
        [ -e "$p/root$1" ] && printf '%s\n' "$p/root$1" && return
    done
    printf '%s\n' "$1"
}

for path; do
    place=$path
    [ -e "$path" ] || place=$(container "$path")
    if [ -b "$place" ]; then
        kind=device
    elif [ "$place" != "$path" ]; then
        # findmnt would look at the mounts of this namespace.
        kind=$(stat -f -c %T "$place") || exit
    else
        real=$(readlink -f "$path") || exit
        kind=$(findmnt -n -o FSTYPE -T "$real" 2>/dev/null | tail -n 1)
        [ "$kind" ] || kind=$(stat -f -c %T "$real") || exit
    fi
    printf '%s\t%s\n' "$kind" "$path"
done
