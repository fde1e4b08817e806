# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Prints what a burn-in can measure on a node, a line each: data disks with
# their free KiB, processors, NUMA cells with their processors, and missing
# programs.
# Argument: directory below which data disks are mounted.

disks=
for directory in "$1"/*; do
    mountpoint -q "$directory" 2>/dev/null || continue
    disks="$disks $directory"
done
# A node without data disks has its data on the disk of /srv.
for directory in ${disks:-/srv}; do
    df -P -k "$directory" | awk -v d="$directory" \
        'NR == 2 { print "disk", $4, d }'
done
echo "processors $(nproc)"
cells=$(LC_ALL=C lscpu 2>/dev/null | sed -n 's/^NUMA node(s): *//p')
echo "cells ${cells:-1}"
if command -v numactl >/dev/null 2>&1; then
    bound=$(numactl --show 2>/dev/null | sed -n 's/^nodebind://p')
    # A cell without memory or processors cannot be measured.
    numactl --hardware 2>/dev/null | awk -v bound=" $bound " '
        /^node [0-9]+ cpus:/ { processors[$2] = NF - 3 }
        /^node [0-9]+ size:/ { size[$2] = $4 }
        END {
            for (cell in processors)
                if (processors[cell] > 0 && size[cell] > 0 &&
                    index(bound, " " cell " "))
                    print "cell", cell, processors[cell]
        }'
fi
for program in fio stress-ng numactl iperf3; do
    command -v "$program" >/dev/null 2>&1 || echo "missing $program"
done
