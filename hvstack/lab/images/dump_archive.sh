# SPDX-License-Identifier: Apache-2.0
# Runs in the image's tree, in namespaces of its own: makes
# /opt/hadoop/hadoop.jsa of the list of classes in the standard input.
set -eu

for directory in /tmp /run; do
    mount -t tmpfs tmpfs $directory
done
. /usr/lib/hvstack/hadoop-env
archive=$HADOOP_HOME/hadoop.jsa
rm -f "$archive"

fail() {
    tail -n 5 "$1" >&2
    exit 1
}

cat >/tmp/classes
java -Xshare:dump -XX:SharedClassListFile=/tmp/classes \
    -XX:SharedArchiveFile="$archive" -cp "$HADOOP_HOME/hadoop.jar" \
    >/tmp/dump.log 2>&1 || fail /tmp/dump.log
# It is of use only if Java takes it, which without "on" would say nothing.
java -Xshare:on -XX:SharedArchiveFile="$archive" -XX:+UseSerialGC \
    -cp "$HADOOP_HOME/hadoop.jar:$classpath" \
    org.apache.hadoop.util.VersionInfo >/tmp/use.log 2>&1 || fail /tmp/use.log
