# SPDX-License-Identifier: Apache-2.0
"""The shell program that prepares and releases a host that ssh reaches.

It runs in the host's own namespaces, outside the root file system that
Hadoop is entered by. What it creates it marks with a stamp, and it changes,
empties or unmounts nothing without one.
"""

import shlex

#: Ends every process that runs in the root file system $1, and unmounts it.
END = r"""
inside() {
    for entry in /proc/[0-9]*; do
        [ "$(readlink "$entry/root")" = "$1" ] && echo "${entry#/proc/}"
    done
}
mounts_below() {
    awk -v d="$1" '$5 == d || index($5, d "/") == 1 {print $5}' \
        /proc/self/mountinfo
}
end_inside() {
    for signal in TERM KILL; do
        pids=$(inside "$1")
        [ -n "$pids" ] || break
        kill -$signal $pids
        for _ in 1 2 3 4 5 6 7 8 9 10; do
            [ -n "$(inside "$1")" ] || break
            sleep 0.5
        done
    done
    for _ in 1 2 3 4 5; do
        [ -n "$(mounts_below "$1")" ] || return 0
        error=$(umount -R "$1" 2>&1) && continue
        sleep 0.2
    done
    echo "Cannot unmount $1: $error. End the processes that use it." >&2
    exit 1
}
"""

_FUNCTIONS = r"""
fail() {
    echo "$*" >&2
    exit 1
}

# A copy of a directory has another inode, so its stamp is not valid.
is_own() {
    [ -d "$1" ] && [ ! -L "$1" ] && [ -f "$1/.hvstack" ] &&
        [ ! -L "$1/.hvstack" ] &&
        [ "$(stat -c %u "$1/.hvstack")" = "$(id -u)" ] &&
        [ "$(cat "$1/.hvstack")" = "hvstack directory $(stat -c %i "$1")" ]
}

create() {
    [ "$(readlink -m "$1")" = "$1" ] ||
        fail "Cannot use $1: it contains a symbolic link. Use the real path."
    ! is_own "$1" || return 0
    if [ -e "$1" ]; then
        [ -d "$1" ] && [ -z "$(ls -A "$1")" ] ||
            fail "Cannot use $1: hvstack did not create it, and it is not" \
                "empty. Use a new directory."
        [ -z "$(mounts_below "$1")" ] ||
            fail "Cannot use $1: it is a mount point. Use a directory in it."
    fi
    mkdir -p "$1" || exit 1
    echo "hvstack directory $(stat -c %i "$1")" >"$1/.hvstack" || exit 1
}

# Deletes everything in a directory but the stamp, which goes last.
empty() {
    is_own "$1" || fail "Cannot empty $1: hvstack did not create it."
    below=$(mounts_below "$1" | tr '\n' ' ')
    [ -z "$below" ] ||
        fail "Cannot empty $1: ${below% } is mounted. Unmount it."
    find "$1" -xdev -mindepth 1 -maxdepth 1 ! -name .hvstack \
        -exec rm -rf --one-file-system {} + || exit 1
}

release() {
    if is_own "$1"; then
        end_inside "$1"
        rm -rf --one-file-system "$1/srv/hdfs" "$1/srv/yarn" "$1/srv/data" ||
            exit 1
    fi
    if [ -n "$2" ] && is_own "$2"; then
        empty "$2"
        rm -f "$2/.hvstack"
        rmdir "$2" || exit 1
    fi
}

# Prints the stamp of the archive that is unpacked in $1.
claim() {
    create "$1"
    [ -z "$2" ] || create "$2"
    cat "$1/.hvstack-archive" 2>/dev/null || true
}

# Unpacks the archive on standard input, whose stamp is $2, in $1.
unpack() {
    empty "$1"
    tar -x -C "$1" || exit 1
    echo "$2" >"$1/.hvstack-archive"
}

# The copies of /dev must not take the host's with them when they go.
mount_root() {
    set -e
    is_own "$1"
    mount --bind "$1" "$1"
    mount --make-private "$1"
    mount -t proc proc "$1/proc"
    mount -t sysfs sysfs "$1/sys"
    mount --rbind /dev "$1/dev"
    mount --make-rslave "$1/dev"
    mount -t tmpfs -o mode=755 tmpfs "$1/run"
    if [ -n "$2" ]; then
        is_own "$2"
        mount --bind "$2" "$1/srv"
    fi
    printf '127.0.0.1 localhost\n%s %s\n' "$3" "$4" >"$1/etc/hosts"
}
"""

_SCRIPT = f'{END}{_FUNCTIONS}\nverb=$1\nshift\n"$verb" "$@"\n'


def command(verb: str, *args: str) -> str:
    """Return the command line for the host's shell.

    :param verb: a function above: ``release``, ``claim``, ``unpack``, ...
    :param args: its arguments.
    """
    return shlex.join(['sh', '-c', _SCRIPT, 'hvstack', verb, *args])


def end(root: str) -> list[str]:
    """Return a program that ends what runs in a root file system.

    :param root: the directory, which is then unmounted.
    """
    return ['sh', '-c', f'{END}\nend_inside "$1"\n', 'end', root]
