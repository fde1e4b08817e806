# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Adds the file with the excluded nodes to site files that do not contain it.
# Both daemons read their files again at every -refreshNodes.
# Arguments: the file, directory of the site files.

set -e
touch "$1"
for pair in hdfs-site.xml:dfs.hosts.exclude \
        yarn-site.xml:yarn.resourcemanager.nodes.exclude-path; do
    file=$2/${pair%%:*} name=${pair#*:}
    grep -q "<name>$name</name>" "$file" || sed -i "s:</configuration>:\
<property><name>$name</name><value>$1</value></property>\n&:" "$file"
done
