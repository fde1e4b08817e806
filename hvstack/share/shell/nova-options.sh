# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Prints the options of nova-compute that tests need, in the order of
# oslo.config: default files and directories if its command line names none,
# then those on the command line. Its files are those of its own mount
# namespace, such as that of a container (kolla). Its passwords stay on the
# host.

export LC_ALL=C

# Succeeds if the command line on standard input, an argument on each line, is
# that of nova-compute. Other programs can have this name as an argument, such
# as journalctl.
is_nova_compute() {
    awk '
    NR == 1 && !/(^|\/)(python[0-9.]*|nova-compute)$/ { exit }
    /(^|\/)nova-compute$/ { found = 1; exit }
    NR > 1 && !/^-/ { exit }
    END { exit !found }'
}

for p in /proc/[0-9]*; do
    args=$(tr '\0' '\n' <"$p/cmdline" 2>/dev/null) || continue
    printf '%s\n' "$args" | is_nova_compute || continue
    # Other users than root may enter the root of their own processes alone.
    root=$p/root
    [ -e "$root/" ] || root=
    given=$(printf '%s\n' "$args" | sed -n \
        -e 's/^--config-file=/file /p' -e 's/^--config-dir=/dir /p' \
        -e '/^--config-file$/{N;s/.*\n/file /p;}' \
        -e '/^--config-dir$/{N;s/.*\n/dir /p;}')
    text=$(
        for kind in file dir; do
            printf '%s\n' "$given" | grep -q "^$kind " && continue
            end=; [ $kind = dir ] && end=.d
            for name in nova.conf nova-compute.conf; do
                for directory in /etc/nova /etc; do
                    [ -e "$root$directory/$name$end" ] || continue
                    printf '%s\n' "$kind $directory/$name$end"
                    break
                done
            done
        done | {
            cat
            printf '%s\n' "$given"
        } | while read -r kind path; do
            case $path in
                '') continue ;;
                /*) path=$root$path ;;
                *) path=${root:+$p/cwd/}$path ;;
            esac
            if [ "$kind" = dir ]; then
                set -- "$path"/*.conf
                [ -e "$1" ] || continue
            else
                set -- "$path"
            fi
            for one; do
                cat "$one" && echo || exit 4
            done
        done
    ) || exit 4
    printf '%s\n' "$text" |
        grep -E -e '^(\[|(cpu|ram)_allocation_ratio|cpu_(dedicated|shared)_set)' \
            -e '^(virt_type|cpu_mode|cpu_models?) *='
    exit
done
echo 'no nova-compute runs here' >&2
exit 3
