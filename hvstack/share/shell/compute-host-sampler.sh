# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Prints a sample of a compute host for each line of its input. It reads /proc
# and /sys alone, writes no file, and ends with its input, also if the
# connection is lost.
# Arguments: maximum seconds between two lines of the input, and pattern of
# the processes of guests and agents in /proc/PID/stat.

# Partitions are not in /sys/block.
disks=
for path in /sys/block/*; do
    disks="$disks|${path##*/}"
done
# Bridges, bonds and interfaces of guests have no device of their own.
nics=
for path in /sys/class/net/*/device; do
    path=${path%/device}
    [ "${path##*/}" = '*' ] || nics="$nics|${path##*/}"
done
# Machines without such interfaces are containers.
nics=${nics:-|.*}
sample() {
    read -r up _ </proc/uptime
    read -r cpu </proc/stat
    echo "sample $up"
    echo "$cpu"
    # A process can end while the others are read.
    cat /proc/[0-9]*/stat 2>/dev/null | grep -E "$1"
    grep -E " (${disks#|}) " /proc/diskstats
    grep -E "^ *(${nics#|}):" /proc/net/dev
    echo end
}
echo "host $(getconf CLK_TCK 2>/dev/null || echo 100)" \
    "$(grep -c '^cpu[0-9]' /proc/stat)"
# A lost connection does not end the input at once.
while timeout "$1" sh -c 'read -r _'; do
    sample "$2"
done
