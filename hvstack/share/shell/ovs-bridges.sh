# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Prints each bridge of Open vSwitch with the type of its data path, which is
# empty for the default. ovs-vsctl runs in the container of Open vSwitch
# (kolla) if the host has one, otherwise on the host, or with the files of
# ovs-vswitchd's process if the host has no ovs-vsctl; follows
# find-namespace.sh.

vsctl() { ovs-vsctl "$@"; }
command -v ovs-vsctl >/dev/null || {
    namespace=$(find_namespace ovs-vswitchd)
    [ -z "$namespace" ] ||
        vsctl() { nsenter --mount="$namespace" ovs-vsctl "$@"; }
}
for engine in podman docker; do
    command -v "$engine" >/dev/null || continue
    for name in openvswitch_vswitchd openvswitch_db; do
        running=$("$engine" inspect -f '{{.State.Running}}' "$name" \
            2>/dev/null) || continue
        [ "$running" = true ] || continue
        vsctl() { "$engine" exec "$name" ovs-vsctl "$@"; }
        break 2
    done
done
bridges=$(vsctl --timeout=10 list-br) || exit
for bridge in $bridges; do
    kind=$(vsctl --timeout=10 get bridge "$bridge" datapath_type) || exit
    printf '%s %s\n' "$bridge" "$(printf '%s' "$kind" | tr -d '"')"
done
