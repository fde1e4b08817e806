# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Starts the server of iperf3 in the background, and waits until it listens.
# Arguments: port, number of seconds after which the server ends.

log=$(mktemp)
trap 'rm -f "$log"' EXIT
timeout "$2" iperf3 --server --port "$1" </dev/null >"$log" 2>&1 &
server=$!
# As the kernel prints a port; 0A is a socket that listens.
port=$(printf '%04X' "$1")
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    sleep 0.3
    kill -0 $server 2>/dev/null || {
        cat "$log" >&2
        exit 1
    }
    ! grep -qs "^ *[0-9]*: [0-9A-F]*:$port [0-9A-F:]* 0A " /proc/net/tcp \
        /proc/net/tcp6 || exit 0
done
echo "iperf3 does not listen on port $1" >&2
exit 1
