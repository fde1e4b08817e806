# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Prints facts of a host that its guests do not know; follows hardware.sh.

put libvirt "$(PATH=$PATH:/usr/sbin libvirtd --version 2>/dev/null |
    sed 's/.* //')"
