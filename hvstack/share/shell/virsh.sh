# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Runs virsh where libvirt runs: in its container (kolla, TripleO) if the host
# has one, otherwise on the host, or with the files of libvirt's process if
# the host has no virsh; follows find-namespace.sh.
# Arguments: those of virsh.

for engine in podman docker; do
    command -v "$engine" >/dev/null || continue
    for name in nova_libvirt nova_virtqemud; do
        running=$("$engine" inspect -f '{{.State.Running}}' "$name" \
            2>/dev/null) || continue
        [ "$running" = true ] && exec "$engine" exec "$name" virsh "$@"
    done
done
command -v virsh >/dev/null || {
    namespace=$(find_namespace libvirtd virtqemud)
    [ -z "$namespace" ] || exec nsenter --mount="$namespace" virsh "$@"
}
exec virsh "$@"
