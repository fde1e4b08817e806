# SPDX-License-Identifier: Apache-2.0
"""The workers' script, on its way through the templates to a node."""

from collections.abc import Iterator
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from typing import Any

from hvstack.cluster import heat_environment
from tests.unit.cloud.test_template import load, walk

TEMPLATE = load(heat_environment.TEMPLATE)
#: Groups of workers, and the software config of each.
SCRIPTS = {'workers': 'worker_script', 'compute': 'compute_script'}


def get_config(group: str = 'workers') -> str:
    """Return the text of a group's software config, unfilled."""
    resource = TEMPLATE['resources'][SCRIPTS[group]]
    return str(resource['properties']['config']['str_replace']['template'])


def unpack(text: str) -> str:
    """Return the user data that a member makes of a config, unfilled.

    :param text: text of the config. This function makes a message of it as
        ``OS::Heat::MultipartMime`` does (Heat, ``multi_part.py``).
    :raises IndexError: the message does not contain the marks.
    """
    charset = 'us-ascii' if text.isascii() else 'utf-8'
    part = MIMEText(text, _charset=charset)
    message = MIMEMultipart(_subparts=[part]).as_string()
    server = load('hadoop-node.yaml')['resources']['server']
    template = server['properties']['user_data']['str_replace']['template']
    delimiter, attribute, index = template['list_join'][1][0]['str_split']
    if attribute != {'get_attr': ['script', 'config']}:
        raise ValueError(attribute)
    return str(message.split(delimiter)[index])


def list_texts() -> set[str]:
    """Return the parameters whose texts are in the scripts of workers."""
    declared = TEMPLATE['parameters']
    names = {
        node['get_param']
        for name in ('files', *SCRIPTS.values())
        for node in walk(TEMPLATE['resources'][name]['properties'])
        if 'get_param' in node
    }
    return {
        name
        for name in names & set(declared)
        if declared[name]['type'] == 'string' and name != 'hdfs_address'
    }


def list_sources(resource: str) -> tuple[set[str], set[str]]:
    """Return the sources of a resource's properties.

    :returns: parameters and resources, with those of the resources.
    """
    parameters: set[str] = set()
    resources: set[str] = set()
    nodes = [*walk(TEMPLATE['resources'][resource]['properties'])]
    while nodes:
        node = nodes.pop()
        reference = node.get('get_param', [])
        parameters |= {
            reference if isinstance(reference, str) else name
            for name in reference[:1]
        }
        if isinstance(node.get('if'), list):
            nodes += _list_condition(node['if'][0])
        name = node.get('get_resource') or node.get('get_attr', [''])[0]
        if name and name not in resources:
            resources.add(name)
            nodes += walk(TEMPLATE['resources'][name].get('properties', {}))
    return parameters, resources


def _list_condition(condition: Any) -> Iterator[Any]:
    """Yield the mappings of a condition, and of those that it names."""
    if isinstance(condition, str):
        yield from _list_condition(TEMPLATE['conditions'][condition])
    elif isinstance(condition, list):
        for item in condition:
            yield from _list_condition(item)
    elif isinstance(condition, dict):
        yield condition
        for key in ('and', 'or', 'not'):
            if key in condition:
                yield from _list_condition(condition[key])
        for item in condition.get('equals', []):
            yield from walk(item)
