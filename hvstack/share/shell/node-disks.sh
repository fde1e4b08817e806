# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Lays out a file on each data disk, or reads or writes these files for some
# seconds, past the page cache and on all disks at the same time. It prints what
# fio reports. The files are in directories of their own, which burn-in-end
# deletes.
# Arguments: lay-out, write or read; token of the directories; size of a file in
# MiB; seconds; directories of the disks.

set -e
verb=$1 token=$2 mib=$3 seconds=$4
shift 4
case $verb in
    lay-out) options='--rw=write --end_fsync=1' ;;
    *) options="--rw=$verb --time_based --runtime=$seconds" ;;
esac
count=$#
for disk; do
    directory=$disk/.hvstack-burn-in-$token
    if [ "$verb" = lay-out ]; then
        mkdir -m 700 "$directory"
        echo "$token" >"$directory/token"
    fi
    set -- "$@" --name=disk "--filename=$directory/data"
done
shift "$count"
# shellcheck disable=SC2086 # These are several options.
exec fio --name=global $options --size="${mib}M" --bs=1M --direct=1 \
    --ioengine=psync --thread --fallocate=none --eta=never \
    --output-format=json "$@"
