# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Forbids that services are started, for as long as a process runs. Status 101
# forbids an action, 0 allows it (invoke-rc.d(8)).
# The variables are set before: the identification of the boot, the process and
# its start time, and the program that was here before.
boot='' pid='' start='' aside=''

# Left behind by a process that was killed, it has no effect.
if [ "$(cat /proc/sys/kernel/random/boot_id)" = "$boot" ] &&
    [ "$(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null |
        cut -d ' ' -f 20)" = "$start" ]; then
    exit 101
fi
if [ -x "$aside" ]; then
    exec "$aside" "$@"
fi
exit 0
