# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Runs a program in the background after some seconds, and prints the directory
# of its output, which collect-output deletes. If it is not collected,
# because the connection or hvstack has ended, the shell deletes the directory.
# The shell sleeps until then, and ends at most 2 seconds after the collection.
# Arguments: number of seconds, program, number of seconds after the end of the
# program for which the output is kept.

directory=$(mktemp -d) || exit 1
# shellcheck disable=SC2016 # The background shell expands them.
setsid sh -c '
    sleep "$1"
    sh -c "$2" >"$3/out" 2>"$3/err"
    echo $? >"$3/status.new"
    mv "$3/status.new" "$3/status"
    for _ in $(seq 0 2 "$4"); do
        [ -d "$3" ] || exit 0
        sleep 2
    done
    rm -rf "$3"
' sh "$1" "$2" "$directory" "$3" </dev/null >/dev/null 2>&1 &
echo "$directory"
