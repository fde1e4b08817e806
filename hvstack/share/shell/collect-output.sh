# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Waits for a program that run-later has started, prints its output, deletes
# the output, and exits with the status of the program.
# Arguments: directory of the output, maximum number of seconds.

for _ in $(seq $(($2 * 5))); do
    [ ! -e "$1/status" ] || break
    sleep 0.2
done
status=$(cat "$1/status") || exit 124
cat "$1/out"
cat "$1/err" >&2
rm -rf "$1"
exit "$status"
