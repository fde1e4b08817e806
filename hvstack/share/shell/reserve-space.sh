# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Lets HDFS and YARN of a bare-metal host leave a twentieth of each file system
# that contains other files: that of /srv, and those that the host mounted. For
# Hadoop, reserved space contains these files.
# Arguments: directory of the site files, file with the daemons of the node.

grep -qs datanode "$2" || exit 0
site=$1/hdfs-site.xml limited=
# At a later start, files of HDFS itself would be reserved.
! grep -q '<name>dfs.datanode.du.reserved' "$site" || exit 0
data=dfs.datanode.data.dir
for directory in $(sed -n "s|.*<name>$data</name><value>\([^<]*\).*|\1|p" \
    "$site" | tr , ' '); do
    directory=${directory#file://}
    case $directory in
    */srv/data/mount-*/hdfs | */srv/hdfs/data) ;;
    *) continue ;;
    esac
    # Bytes of a block, and blocks: all, free, and free for users.
    bytes=$(stat -f -c '%S %b %f %a' "${directory%/*}" |
        awk '$4 * 20 > $2 { printf "%.0f", $1 * ($2 - $3 + $2 / 20) }')
    [ -n "$bytes" ] || {
        echo "Cannot use the file system of $directory: less than 5 % of it" \
            "are free. Delete files, or name another disk." >&2
        exit 1
    }
    name="<name>dfs.datanode.du.reserved.$directory</name>"
    sed -i "s|</configuration>|<property>$name<value>$bytes</value></property>\\
&|" "$site"
    limited=yes
done
[ -z "$limited" ] || sed -i \
    's|\(-per-disk-percentage</name><value>\)[^<]*|\195|' "$1/yarn-site.xml"
