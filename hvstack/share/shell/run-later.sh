# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Runs a program in the background after some seconds, and prints the directory
# of its output, which collect-output deletes.
# Arguments: number of seconds, program.

directory=$(mktemp -d) || exit 1
# shellcheck disable=SC2016 # The background shell expands them.
setsid sh -c '
    sleep "$1"
    sh -c "$2" >"$3/out" 2>"$3/err"
    echo $? >"$3/status.new"
    mv "$3/status.new" "$3/status"
' sh "$1" "$2" "$directory" </dev/null >/dev/null 2>&1 &
echo "$directory"
