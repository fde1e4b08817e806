# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# A function that finds where a daemon runs whose programs the host does not
# have, such as one of Kubernetes (OpenStack-Helm), where no engine knows the
# container by a name. The calls of the function follow.

# find_namespace NAME...: prints the mount namespace of the first process that
# has one of these names.
find_namespace() {
    for p in /proc/[0-9]*; do
        { read -r comm <"$p/comm"; } 2>/dev/null || continue
        for name; do
            [ "$comm" = "$name" ] || continue
            echo "$p/ns/mnt"
            return
        done
    done
}
