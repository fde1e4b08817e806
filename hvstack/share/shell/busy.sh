# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Prints the bytes that busy children have hashed, and their CPU seconds, user
# and system, when they ended. The kernel ends a child that nothing else ends.
# Arguments: number of children, seconds.

cat /proc/uptime
pids=
for _ in $(seq "$1"); do
    # shellcheck disable=SC3045 # dash, bash and BusyBox have this limit.
    # shellcheck disable=SC3045 # dash and busybox have it.
    (ulimit -t $(($2 + 5)) && exec sha256sum /dev/zero) &
    pids="$pids $!"
done
sleep "$2"
for pid in $pids; do
    sed -n 's/^rchar:/hashed/p' "/proc/$pid/io" 2>/dev/null
done
# shellcheck disable=SC2086 # They are separate words.
kill $pids
wait
cat /proc/uptime
times
