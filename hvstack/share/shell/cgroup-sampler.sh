# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Samples a control group and the devices of a node.
# Arguments: seconds between samples, number of samples, address.
# Lines: up time; CPU time and throttled time in ns, or "-"; bytes and packets
# received, sent; pages swapped; then for each device: name, sectors read and
# written, ms.

cd "$(dirname "$0")" || exit 1
# The node's group of a controller; it is mounted where nothing shows it.
group() {
    line=$(awk -F: -v c="$1" '("," $2 ",") ~ ("," c ",")' /proc/self/cgroup)
    own=${line#*:*:} all=${line%:*} all=${all#*:}
    [ -n "$line" ] || return
    # shellcheck disable=SC2046 # It prints two words, or none.
    set -- "$1" $(awk -v c="$1" '
        $(NF - 2) == "cgroup" && ("," $NF ",") ~ ("," c ",") {
            print $5, $4; exit }' /proc/self/mountinfo)
    if [ -z "$2" ]; then
        set -- "$1" "$PWD/$1" /
        mkdir -p "$2" && mount -t cgroup -o "$all" cgroup "$2" || return
    fi
    if [ -d "$2$own" ]; then
        echo "$2${own%/}"
    elif [ "$3" = "$own" ]; then
        echo "$2"
    fi
}
# The node's group under version 2. A mount shows the tree from its root on.
unified() {
    own=$(sed -n 's/^0:://p' /proc/self/cgroup)
    [ -n "$own" ] || return
    # shellcheck disable=SC2046 # It prints two words, or none.
    set -- $(awk '$(NF - 2) == "cgroup2" { print $5, $4; exit }' \
        /proc/self/mountinfo)
    if [ -z "$1" ]; then
        set -- "$PWD/unified" /
        mkdir -p "$1" && mount -t cgroup2 cgroup2 "$1" || return
    fi
    own=${own#"${2%/}"}
    [ ! -d "$1${own%/}" ] || echo "$1${own%/}"
}
# Throttled is the nearest group that has a quota.
if grep -q '^[0-9]*:[^:]*cpuacct' /proc/self/cgroup; then
    cpu=$(group cpuacct)/cpuacct.usage
    quota=$(group cpu)
    while [ -r "$quota/cpu.cfs_quota_us" ]; do
        read -r us <"$quota/cpu.cfs_quota_us"
        [ "$us" -lt 0 ] || break
        quota=${quota%/*}
    done
else
    quota=$(unified)
    cpu=$quota/cpu.stat
    while [ -r "$quota/cpu.max" ]; do
        read -r us _ <"$quota/cpu.max"
        [ "$us" = max ] || break
        quota=${quota%/*}
    done
fi
[ -r "$cpu" ] || { echo "no control group with cpuacct is seen" >&2; exit 1; }
# Microseconds get three zeros, to be nanoseconds.
busy() {
    case $cpu in
    */cpu.stat)
        while read -r key value; do
            [ "$key" != usage_usec ] || busy=${value}000
        done <"$cpu"
        ;;
    *) read -r busy <"$cpu" ;;
    esac
}
net=$(ip -4 -o addr | awk -v a="$3" 'index($4, a "/") == 1 { print $2; exit }')
net=/sys/class/net/$net/statistics
devices=$(for one in / /srv /srv/* /srv/data/*; do
    [ ! -e "$one" ] || findmnt -n -o MAJ:MIN -T "$one"
done | sort -u)
sample() {
    read -r up _ </proc/uptime
    busy
    throttled=-
    if [ -r "$quota/cpu.stat" ]; then
        while read -r key value; do
            case $key in
            throttled_time) throttled=$value ;;
            throttled_usec) throttled=${value}000 ;;
            esac
        done <"$quota/cpu.stat"
    fi
    read -r rx <"$net/rx_bytes"
    read -r rxp <"$net/rx_packets"
    read -r tx <"$net/tx_bytes"
    read -r txp <"$net/tx_packets"
    swap=0
    while read -r key value; do
        case $key in pswpin | pswpout) swap=$((swap + value)) ;; esac
    done </proc/vmstat
    disks=
    for one in $devices; do
        read -r _ _ in _ _ _ out _ _ ms _ <"/sys/dev/block/$one/stat" &&
            disks="$disks $one $in $out $ms"
    done 2>/dev/null
    echo "$up $busy $throttled $rx $rxp $tx $txp $swap$disks"
}
trap 'sample; exit' TERM
echo "$(date +%s.%N) $(cut -d' ' -f1 /proc/uptime)"
n=0
while [ "$n" -lt "$2" ]; do
    n=$((n + 1))
    sample
    sleep "$1" &
    wait $!
done
