# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Prints the CPU seconds of busy children, user and system, when they ended.
# Arguments: number of children, seconds.

cat /proc/uptime
for _ in $(seq "$1"); do timeout "$2" sha256sum /dev/zero & done
wait
cat /proc/uptime
times
