# SPDX-License-Identifier: Apache-2.0
"""The cluster's template fits what we give it, and what Hadoop needs."""

from typing import Any

import testtools
import yaml

from hvstack.cluster import launch
from hvstack.hadoop import sites
from hvstack.hadoop.sizing import size_node


def load(name: str) -> Any:
    """Return a template."""
    return yaml.safe_load((launch.templates() / name).read_text())


def walk(node: Any) -> Any:
    """Yield every mapping below a node."""
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from walk(value)
    elif isinstance(node, list):
        for value in node:
            yield from walk(value)


class TemplateTest(testtools.TestCase):
    def test_every_parameter_is_declared_and_used(self) -> None:
        for name in ('hadoop-cluster.yaml', 'hadoop-node.yaml'):
            content = load(name)
            used = {
                str(node['get_param'])
                for node in walk(content)
                if 'get_param' in node
            } - {'OS::stack_name'}
            self.assertEqual(set(content['parameters']), used, name)

    def test_members_get_what_they_declare(self) -> None:
        group = load('hadoop-cluster.yaml')['resources']['workers']
        given = group['properties']['resource_def']['properties']
        self.assertEqual(
            set(load('hadoop-node.yaml')['parameters']), set(given)
        )

    def test_the_controller_comes_after_the_workers(self) -> None:
        controller = load('hadoop-cluster.yaml')['resources']['controller']
        wanted = [
            node['get_attr'] for node in walk(controller) if 'get_attr' in node
        ]
        self.assertIn(['workers', 'topology'], wanted)

    def test_placeholders_are_all_replaced(self) -> None:
        for name in ('hadoop-cluster.yaml', 'hadoop-node.yaml'):
            for node in walk(load(name)):
                if 'str_replace' not in node:
                    continue
                template = node['str_replace']['template']
                if isinstance(template, dict):
                    continue
                for key in node['str_replace']['params']:
                    self.assertIn(key, template)

    def test_only_so_many_workers_a_host(self) -> None:
        group = load('hadoop-cluster.yaml')['resources']['server_group']
        self.assertEqual(['anti-affinity'], group['properties']['policies'])
        self.assertEqual(
            {'max_server_per_host': {'get_param': 'workers_per_host'}},
            group['properties']['rules'],
        )

    def test_no_file_ends_its_own_heredoc(self) -> None:
        for text in sites.sites(size_node(2, 4096)).values():
            self.assertNotIn('END_OF_FILE', text)
