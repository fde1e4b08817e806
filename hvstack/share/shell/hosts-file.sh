# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Writes the lines of its input to the beginning of /etc/hosts, because the
# first name of an address is the name that it resolves to. It writes the file
# in place, because /etc/hosts of a container may be a mount.
# Argument: address of the node.

lines=$(cat)
own="$1 $1 $(hostname)"
rest=$(grep -vxF -e "$lines" -e "$own" /etc/hosts)
printf '%s\n' "$lines" "$rest" >/etc/hosts
getent hosts "$(hostname)" >/dev/null || echo "$own" >>/etc/hosts
