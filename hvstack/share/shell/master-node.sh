# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Prepares the node with the ResourceManager for ApplicationMasters: the label
# exists before the ResourceManager starts, which otherwise rejects it, and the
# NodeManager of this node reports it. All other nodes have no label.
# Arguments: directory of the site files, directory of the ResourceManager's
# labels, label, MiB of the NodeManager.

set -e
master_site=$1/yarn-site.xml
# property NAME VALUE
master_property() {
    echo "<property><name>$1</name><value>$2</value></property>"
}
master_label=yarn.nodemanager.node-labels.provider
grep -q "<name>$master_label</name>" "$master_site" || sed -i \
    -e "s|\(<name>yarn.nodemanager.resource.memory-mb</name><value>\)[^<]*|\1$4|" \
    -e "s|</configuration>|$(master_property $master_label config)\\
$(master_property $master_label.configured-node-partition "$3")\\
&|" "$master_site"
# What FileSystemNodeLabelsStore reads at the start: a message with its length,
# AddToClusterNodeLabelsRequestProto, with one NodeLabelProto: name, exclusive.
mkdir -p "$2"
[ -s "$2/nodelabel.mirror" ] || printf '%b' \
    "\\0$(printf %o $((${#3} + 6)))\\022\\0$(printf %o $((${#3} + 4)))" \
    "\\012\\0$(printf %o ${#3})$3\\020\\001" >"$2/nodelabel.mirror"
