# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Functions that end every process in the root file system $1, and unmount it.
# The signals $2 are sent one after the other; the default is TERM and KILL.

inside() {
    for entry in /proc/[0-9]*; do
        [ "$(readlink "$entry/root")" = "$1" ] && echo "${entry#/proc/}"
    done
}
mounts_below() {
    awk -v d="$1" '$5 == d || index($5, d "/") == 1 {print $5}' \
        /proc/self/mountinfo
}
end_inside() {
    for signal in ${2:-TERM KILL}; do
        pids=$(inside "$1")
        [ -n "$pids" ] || break
        # shellcheck disable=SC2086 # These are several numbers.
        kill -$signal $pids
        for _ in 1 2 3 4 5 6 7 8 9 10; do
            [ -n "$(inside "$1")" ] || break
            sleep 0.5
        done
    done
    for _ in 1 2 3 4 5; do
        [ -n "$(mounts_below "$1")" ] || return 0
        error=$(umount -R "$1" 2>&1) && continue
        sleep 0.2
    done
    echo "Cannot unmount $1: $error. End the processes that use it." >&2
    exit 1
}
