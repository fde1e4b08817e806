# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Writes ten files of random data to HDFS.
# Argument: directory in HDFS.

hdfs dfs -mkdir -p "$1" || exit
for n in 0 1 2 3 4 5 6 7 8 9; do
    head -c 1000000 /dev/urandom >/tmp/part-m-0000$n || exit
done
hdfs dfs -put -f /tmp/part-m-0000? "$1" && rm /tmp/part-m-0000?
