# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Writes a file on a data disk or reads it, past the page cache, and prints
# what fio reports. The file is in a directory of its own, which is deleted.
# Arguments: write or read, directory of the disk, token of the burn-in, size
# in MiB, maximum number of seconds.

set -e
disk=$2 token=$3 mib=$4 seconds=$5
directory=$disk/.hvstack-burn-in-$token
# A node whose power was turned off during a burn-in still has its directory,
# which contains its token. A burn-in that runs has the token in its processes.
for stale in "$disk"/.hvstack-burn-in-*; do
    old=${stale##*/.hvstack-burn-in-}
    [ "$(cat "$stale/token" 2>/dev/null)" = "$old" ] || continue
    grep -qsz "^HVSTACK_BURN_IN=$old\$" /proc/[0-9]*/environ ||
        rm -rf "$stale"
done
trap 'exit 130' HUP INT TERM
trap 'cd /; rm -rf "$directory"' EXIT
mkdir -m 700 "$directory"
cd "$directory"
echo "$token" >token

# run_fio write|read SIZE
run_fio() {
    fio --name=burn-in --filename=data --rw="$1" --size="$2" --bs=1M \
        --direct=1 --ioengine=psync --thread --fallocate=none --end_fsync=1 \
        --runtime="$seconds" --eta=never --output-format=json
}

if [ "$1" = write ]; then
    run_fio write "${mib}M"
    exit
fi
run_fio write "${mib}M" >/dev/null
# A slow disk may not have got all of it in time, and holes are not read from
# the disk.
# shellcheck disable=SC2046 # These are two numbers.
set -- $(stat -c '%b %B' data)
allocated=$(($1 * $2 / 1048576))
[ "$allocated" -ge "$mib" ] || mib=$allocated
[ "$mib" -gt 0 ] || { echo 'the disk took no data' >&2; exit 1; }
run_fio read "${mib}M"
