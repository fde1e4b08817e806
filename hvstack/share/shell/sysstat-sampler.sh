# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Samples a node with sysstat.
# Arguments: seconds between samples, number of samples.

cd "$(dirname "$0")" || exit 1
for one in /usr/lib/sysstat /usr/lib64/sa /usr/lib/sa; do
    [ ! -x "$one/sadc" ] || exec "$one/sadc" -S DISK "$1" "$2" sa
done
echo "Cannot sample: sysstat is not installed. Install sysstat." >&2
exit 1
