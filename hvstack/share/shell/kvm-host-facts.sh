# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Prints facts of KVM, of the CPUs and of the huge pages of a host; follows
# hardware.sh. A line of huge pages has the number of the NUMA node, the size
# of the pages in KiB, and the numbers of all and of free pages.

if [ -c /dev/kvm ]; then put dev_kvm yes; else put dev_kvm no; fi
for module in kvm_intel kvm_amd; do
    [ -d "/sys/module/$module" ] || continue
    put module "$module"
    put nested "$(first "/sys/module/$module/parameters/nested")"
done
if grep -q '^flags.* hypervisor' /proc/cpuinfo; then
    put hypervisor_flag yes
else
    put hypervisor_flag no
fi
put online "$(first /sys/devices/system/cpu/online)"
put isolated "$(first /sys/devices/system/cpu/isolated)"
for pages in /sys/devices/system/node/node[0-9]*/hugepages/hugepages-*kB; do
    [ -d "$pages" ] || continue
    node=${pages#/sys/devices/system/node/node}
    size=${pages##*-}
    put "pages.${node%%/*}.${size%kB}" \
        "$(first "$pages/nr_hugepages") $(first "$pages/free_hugepages")"
done
