# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Waits for a program that run-later has started, prints its output, and exits
# with the status of the program, or with 124 if the program has not ended. It
# deletes the output in any case, also if the connection ends.
# Arguments: directory of the output, maximum number of seconds.

trap 'rm -rf "$1"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
for _ in $(seq $(($2 * 5))); do
    [ ! -e "$1/status" ] || break
    sleep 0.2
done
status=$(cat "$1/status") || exit 124
cat "$1/out"
cat "$1/err" >&2
exit "$status"
