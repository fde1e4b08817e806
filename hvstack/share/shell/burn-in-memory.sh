# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Runs the stressor "stream" of stress-ng, and prints its number of processes
# and what it reports.
# Arguments: NUMA cell, or "all" for no binding; number of processes; seconds;
# number of cells of the node.

cd /tmp || exit
cpus=/sys/devices/system/cpu
[ "$1" = all ] || cpus=/sys/devices/system/node/node$1
# A cache has an entry for each of the processors that share it.
cache=$(for entry in "$cpus"/cpu[0-9]*/cache/index3; do
    read -r shared <"$entry/shared_cpu_list" &&
        read -r size <"$entry/size" && echo "$shared $size"
done 2>/dev/null | sort -u | awk '{ total += $2 } END { print total + 0 }')
# A guest can see a smaller cache than that of its host.
[ "$cache" -ge 262144 ] || cache=262144
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
