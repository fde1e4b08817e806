# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Prints the file system of each path.
# Arguments: the paths.

for path; do
    if [ -b "$path" ]; then
        kind=device
    else
        real=$(readlink -f "$path") || exit
        kind=$(findmnt -n -o FSTYPE -T "$real" 2>/dev/null | tail -n 1)
        [ "$kind" ] || kind=$(stat -f -c %T "$real") || exit
    fi
    printf '%s\t%s\n' "$kind" "$path"
done
