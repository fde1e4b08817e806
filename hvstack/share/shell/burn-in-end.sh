# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Ends the programs of a burn-in on a node, and deletes its files.
# Arguments: token of the burn-in, directories of the data disks.

token=$1
shift
list_programs() {
    grep -lsz "^HVSTACK_BURN_IN=$token\$" /proc/[0-9]*/environ |
        sed 's:^/proc/\([0-9]*\)/.*:\1:'
}
for signal in TERM KILL; do
    pids=$(list_programs)
    [ -n "$pids" ] || break
    # shellcheck disable=SC2086 # These are several numbers.
    kill -$signal $pids 2>/dev/null
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        [ -n "$(list_programs)" ] || break
        sleep 0.5
    done
done
status=0
for disk; do
    rm -rf "$disk/.hvstack-burn-in-$token" || status=1
done
exit $status
