# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Runs the stressor "stream" of stress-ng, and prints its number of processes
# and what it reports.
# Arguments: NUMA cell, or "all" for no binding; number of processes; seconds;
# number of cells of the node.

cd /tmp || exit
cache=$(cat /sys/devices/system/cpu/cpu0/cache/index3/size 2>/dev/null)
cache=${cache%K}
case $cache in '' | *[!0-9]*) cache=32768 ;; esac
# The arrays of all processes have 12 times the size of the cache together.
memory=$(sed -n 's/^MemTotal: *\([0-9]*\).*/\1/p' /proc/meminfo)
limit=$((memory / 64 / $4))
[ "$cache" -le "$limit" ] || cache=$limit
cell=$1
echo "processes $2"
set -- stress-ng --stream "$2" --stream-l3-size "${cache}K" --timeout "$3"
# Otherwise the kernel would end a daemon of Hadoop if memory becomes scarce.
if stress-ng --help 2>&1 | grep -q -e --no-oom-adjust; then
    set -- "$@" --no-oom-adjust
fi
[ "$cell" = all ] ||
    set -- numactl --cpunodebind="$cell" --membind="$cell" "$@"
exec "$@" 2>&1
