# SPDX-License-Identifier: Apache-2.0
"""Nodes in the outputs of a cluster's stack.

An output is a node, or a list of nodes. An output whose condition does not
hold has no value, or does not exist.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from hvstack.results.typed_json import Json

#: Outputs of a stack by name.
StackOutputs = Mapping[str, Json]


@dataclass(frozen=True)
class OutputNode:
    """Node in an output of a stack.

    :param name: host name.
    :param address: IP address in the network of the cluster.
    :param server_id: ID of the server.
    :param host_id: ``hostId`` of the server; empty if Nova does not report
        it.
    :param host_key: public SSH host key, as the node sent it; empty if Heat
        does not have it.
    """

    name: str
    address: str
    server_id: str = ''
    host_id: str = ''
    host_key: str = ''


def read_nodes(outputs: StackOutputs, name: str) -> list[OutputNode]:
    """Return the nodes of an output.

    :param outputs: outputs of the stack.
    :param name: name of the output.
    :returns: an empty list if the output has no value or does not exist.
    :raises KeyError: a node has no name or no address.
    """
    output = outputs.get(name)
    return [
        OutputNode(
            name=str(item['name']),
            address=str(item['address']),
            server_id=str(item.get('server_id') or ''),
            host_id=str(item.get('host_id') or ''),
            host_key=str(item.get('host_key') or ''),
        )
        for item in (output if isinstance(output, list) else [output])
        if isinstance(item, Mapping)
    ]


def require_nodes(outputs: StackOutputs, name: str) -> list[OutputNode]:
    """Return the nodes of an output that every cluster has.

    :param outputs: outputs of the stack.
    :param name: name of the output, ``controller`` or ``workers``.
    :raises KeyError: the output does not exist, or has no node.
    """
    nodes = read_nodes(outputs, name)
    if not nodes:
        raise KeyError(name)
    return nodes
