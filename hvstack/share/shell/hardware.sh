# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Prints facts of the hardware, a line "key=value" each; what a node does not
# have is not printed.

put() { [ -z "$2" ] || echo "$1=$2"; }
first() { cat "$1" 2>/dev/null | head -n 1; }
put cpu_model "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
put smt "$(first /sys/devices/system/cpu/smt/active)"
put governor "$(first /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor)"
put thp "$(first /sys/kernel/mm/transparent_hugepage/enabled)"
