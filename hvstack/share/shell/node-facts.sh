# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Prints facts of the software and the data disks of a node; follows
# hardware.sh.
# Argument: address of the node.
# shellcheck source=/dev/null

json() {
    sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" \
        /etc/hvstack/image.json 2>/dev/null | head -n 1
}
put kernel "$(uname -r)"
put os_release "$(. /etc/os-release; echo "$PRETTY_NAME")"
put jre "$(json java)"
put hadoop "$(json hadoop)"
put image_digest "$(json digest)"
# Hadoop reads ahead, and drops pages from the cache, only with this library.
libhadoop=none
for file in /opt/hadoop/native/libhadoop.so*; do
    [ -f "$file" ] || continue
    libhadoop=$(sha256sum <"$file" | cut -c 1-12)
    break
done
put libhadoop "$libhadoop"
dev=$(ip -4 -o addr | sed -n "s:^[0-9]*\: \([^ ]*\) *inet $1/.*:\1:p")
put mtu "$(first "/sys/class/net/$dev/mtu")"
# File systems for data; the root file system counts where it is the only one.
put data_disks "$(df -P / /srv /srv/* /srv/data/* 2>/dev/null | awk '
NR == 2 { root = $1 }
NR > 2 && $1 != root && !seen[$1]++ { n++ }
END { print n ? n : 1 }')"
put disk "$(df -PT /srv | awk 'NR == 2 { print $2 }')"
