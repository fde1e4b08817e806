# SPDX-License-Identifier: Apache-2.0
"""ApplicationMasters on the controller, which take nothing from workers.

The node with the ResourceManager has a NodeManager, too. It forms a partition
of its own: its label is exclusive (YARN guide "YARN Node Labels"), so that a
container that asks for no label never runs there. Only ApplicationMasters ask
for it (``mapreduce.job.am.node-label-expression``). Tasks run on workers,
which have no label.

:attr:`hvstack.hadoop.sizing.NodeSizing.has_master_node` decides whether a
cluster is made like this.
"""

import re
from collections.abc import Sequence

from hvstack import shell_scripts
from hvstack.hadoop import daemon_http
from hvstack.hadoop.daemon_http import HadoopNodes, Runner
from hvstack.hadoop.properties import MAPRED
from hvstack.hadoop.site_files import CONF
from hvstack.hadoop.sizing import NodeSizing
from hvstack.results.typed_json import JsonObject

#: Label of the NodeManager, and the directory of the ResourceManager's labels,
#: as in hvstack/share/hadoop/property-groups.yaml.
LABEL = 'am'
STORE = '/srv/yarn/node-labels'
#: Property by which a job asks for the label.
EXPRESSION = 'mapreduce.job.am.node-label-expression'
_VALUE = re.compile(
    rf'<name>{re.escape(EXPRESSION)}</name>\s*<value>([^<]*)</value>'
)


def render_setup(sizing: NodeSizing) -> str:
    """Return shell commands for the node with the ResourceManager.

    They run after its site files have been written, and before its daemons
    start.

    :param sizing: size of the nodes.
    :returns: an empty text if ApplicationMasters run on workers.
    """
    if not sizing.has_master_node:
        return ''
    memory_mib = sizing.master_node_mib or sizing.master_mib
    return shell_scripts.render('master-node', CONF, STORE, LABEL, memory_mib)


def is_used(manager: Runner) -> bool:
    """Return whether jobs of a cluster ask for the label.

    :param manager: controller with the ResourceManager.
    """
    text = manager.run(f'cat {CONF}/{MAPRED}', check=False, timeout=60).stdout
    match = _VALUE.search(text)
    return match is not None and match[1] == LABEL


def locate(cluster: HadoopNodes) -> str:
    """Return where ApplicationMasters run: ``controller`` or ``workers``."""
    return 'controller' if is_used(cluster.manager) else 'workers'


def has_label(node: JsonObject) -> bool:
    """Return whether a NodeManager has the label.

    :param node: answer of the ResourceManager about the NodeManager.
    """
    return LABEL in daemon_http.list_elements(node.get('nodeLabels'))


def is_registered(manager: Runner, nodes: Sequence[JsonObject]) -> bool:
    """Return whether YARN has the NodeManager for ApplicationMasters.

    :param manager: controller with the ResourceManager.
    :param nodes: answers of the ResourceManager about all NodeManagers.
    """
    return any(
        node.get('state') == 'RUNNING'
        and node['nodeHostName'] in (manager.name, manager.address)
        and has_label(node)
        for node in nodes
    )
