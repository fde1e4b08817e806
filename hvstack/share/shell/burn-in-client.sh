# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Measures TCP to the server of iperf3 and back, and prints what iperf3
# reports of each direction.
# Arguments: address and port of the server, seconds.

# run_iperf3 ADDRESS PORT SECONDS [OPTION]
run_iperf3() {
    address=$1 port=$2 seconds=$3
    shift 3
    # The server rejects a client while it finishes the test before.
    for _ in 1 2 3 4 5; do
        result=$(iperf3 --client "$address" --port "$port" \
            --time "$seconds" --omit 1 --json "$@") && break
        sleep 1
    done
    printf '%s\n' "$result"
}

run_iperf3 "$@"
run_iperf3 "$@" --reverse
