# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Forbids that the packages which a process installs start services, for as long
# as it runs. Installations of others, which may wait for the same lock, start
# theirs. Status 101 forbids an action, 0 allows it (invoke-rc.d(8)).
# The variables are set before: the identification of the boot, the process and
# its start time, and the program that was here before.
boot='' pid='' start='' aside=''

# Left behind by a process that was killed, it has no effect.
if [ "$(cat /proc/sys/kernel/random/boot_id)" = "$boot" ] &&
    [ "$(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null |
        cut -d ' ' -f 20)" = "$start" ]; then
    process=$$
    while [ "${process:-0}" -gt 0 ]; do
        [ "$process" != "$pid" ] || exit 101
        process=$(sed 's/.*) //' "/proc/$process/stat" 2>/dev/null |
            cut -d ' ' -f 2)
    done
fi
if [ -x "$aside" ]; then
    exec "$aside" "$@"
fi
exit 0
