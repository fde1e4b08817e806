# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Prints facts of a guest that depend on its hypervisor; follows hardware.sh.
# shellcheck source=/dev/null

put clock_source "$(first \
    /sys/devices/system/clocksource/clocksource0/current_clocksource)"
put os_id "$(. /etc/os-release; echo "$ID")"
