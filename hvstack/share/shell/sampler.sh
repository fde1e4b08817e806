# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Functions that start and end the sampler of a node; calls follow.

# Prints counters of the node's own network: TCP's of its network namespace as
# the kernel names them, and the packets that its interface dropped.
print_counters() {
    grep -h -e '^Tcp:' -e '^TcpExt:' /proc/net/snmp /proc/net/netstat
    net=$(ip -4 -o addr |
        awk -v a="$1" 'index($4, a "/") == 1 { print $2; exit }')
    echo "Link: RxDropped TxDropped"
    echo "Link: $(cat "/sys/class/net/$net/statistics/rx_dropped" \
        "/sys/class/net/$net/statistics/tx_dropped" | tr '\n' ' ')"
}

# Ends the sampler; a number may belong to another process by now.
stop_sampler() {
    if [ -s pid ] && tr '\0' ' ' <"/proc/$(cat pid)/cmdline" 2>/dev/null |
        grep -q -e "$1/sampler" -e 'sadc '; then
        kill "$(cat pid)"
        for _ in 1 2 3 4 5 6 7 8 9 10; do
            [ -d "/proc/$(cat pid)" ] || break
            sleep 0.1
        done
    fi
    rm -f pid
}

# start DIRECTORY ADDRESS INTERVAL COUNT: the input is the sampler.
start() {
    mkdir -p "$1" && cd "$1" || exit 1
    stop_sampler "$1"
    print_counters "$2"
    rm -f samples records/sa error
    cat >sampler
    setsid sh "$1/sampler" "$3" "$4" "$2" \
        >samples 2>error </dev/null &
    echo $! >pid
    sleep 0.5
    kill -0 $! 2>/dev/null || { cat error >&2; exit 1; }
    date +%s.%N
}

# collect DIRECTORY ADDRESS INTERVAL: prints the samples and deletes them.
collect() {
    cd "$1" || exit 1
    # sysstat's collector does not write when it is told to end.
    [ ! -e records/sa ] || sleep "$3"
    stop_sampler "$1"
    print_counters "$2"
    if [ -e records/sa ]; then
        ip -4 -o addr |
            awk -v a="$2" 'index($4, a "/") == 1 { print $2; exit }'
        # sysstat counts CPUs that are offline, too.
        grep -c '^cpu[0-9]' /proc/stat
        LC_ALL=C sadf -j records/sa -- -u -d -n DEV -W
    else
        cat samples
    fi
    cd / || exit 1
    # Control groups that the sampler mounted are those of the kernel.
    for mounted in cpu cpuacct unified records; do
        ! mountpoint -q "$1/$mounted" || umount "$1/$mounted" || exit 1
    done
    rm -r "$1"
}
