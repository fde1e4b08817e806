# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Prints each thread of a guest's QEMU with its allowed CPUs.
# Argument: name of the guest.

name=$1
for p in /proc/[0-9]*; do
    tr '\0' '\n' <"$p/cmdline" 2>/dev/null |
        grep -qF -e "guest=$name," || continue
    for t in "$p"/task/*; do
        printf '%s\t' "$(cat "$t/comm")"
        sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "$t/status"
    done
    exit
done
echo 'no QEMU of that name runs here' >&2
exit 3
