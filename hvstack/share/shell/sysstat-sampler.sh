# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Samples a node with sysstat.
# Arguments: seconds between samples, number of samples.

cd "$(dirname "$0")" || exit 1
# A record of 128 CPUs has 16 KB, and /run of the image of hvstack 64 MB: it
# would be full after some hours. Other file systems of a node may be measured.
mkdir -p records
mountpoint -q records || mount -t tmpfs -o mode=700 tmpfs records 2>/dev/null
for one in /usr/lib/sysstat /usr/lib64/sa /usr/lib/sa; do
    [ ! -x "$one/sadc" ] || exec "$one/sadc" -S DISK "$1" "$2" records/sa
done
echo "Cannot sample: sysstat is not installed. Install sysstat." >&2
exit 1
