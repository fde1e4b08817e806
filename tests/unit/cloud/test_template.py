# SPDX-License-Identifier: Apache-2.0
"""The cluster's template fits what we give it, and what Hadoop needs."""

import shutil
import subprocess
from typing import Any

import testtools
import yaml

from hvstack.cluster import launch
from hvstack.hadoop import sites
from hvstack.hadoop.sizing import size_node
from hvstack.model import topology


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

    def racks(self, awk: str, text: str) -> str:
        """Return what the controller makes of a table in one rack."""
        script = load('hadoop-cluster.yaml')['resources']['controller'][
            'properties'
        ]['user_data']['str_replace']['template']
        start = script.index('racks() {')
        function = script[start : script.index('\n}\n', start) + 3]
        self.assertIn('racks > /etc/hadoop/topology.table', script)
        done = subprocess.run(
            ['/bin/sh', '-eu'],
            input=f'awk() {{ {awk} "$@"; }}\n{function}racks <<\'END\'\n'
            f'{text}\nEND\n',
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(('', 0), (done.stderr, done.returncode))
        return done.stdout

    def test_virtual_racks_are_the_models(self) -> None:
        awks = [
            awk
            for awk in ('mawk', 'gawk', 'busybox awk')
            if shutil.which(awk.split()[0])
        ]
        self.assertTrue(awks)
        for number, counts in enumerate(
            (
                [1, 1, 1, 1, 1],
                [2],
                [2, 2],
                [2, 3],
                [2, 2, 2],
                [2, 2, 2, 2],
                [4, 4, 4, 4, 4, 4, 3],
                [2, 2, 3, 3, 3],
                [1, 2, 3],
                [5, 4, 3, 2, 1],
                [3, 2, 2, 2, 1, 3, 3],
                [4] * 30 + [3] * 2,
                [10] * 15 + [9],
                [20] * 31 + [16],
                [1, 2],
            )
        ):
            # Groups that sort otherwise than they come.
            workers = {
                f'ng-{(7 * host) % 41:x}{host}': count
                for host, count in enumerate(counts)
            }
            groups = {
                f'w{n}': group
                for n, group in enumerate(
                    name
                    for name, count in workers.items()
                    for _ in range(count)
                )
            }
            addresses = {node: f'10.0.0.{n}' for n, node in enumerate(groups)}
            flat = topology.build(
                addresses, groups, dict.fromkeys(workers, 'rack1')
            )
            expected = topology.build(
                addresses, groups, topology.virtual_racks(workers)
            )
            awk = awks[number % len(awks)]
            self.assertEqual(
                expected.table(), self.racks(awk, flat.table()), counts
            )

    def test_without_node_groups_there_are_no_racks(self) -> None:
        table = ''.join(
            f'{key} /default-rack\n' for key in ('10.0.0.1', 'w1', 'w2')
        )
        self.assertEqual(table, self.racks('command awk', table))

    def test_no_file_ends_its_own_heredoc(self) -> None:
        for text in sites.sites(size_node(2, 4096)).values():
            self.assertNotIn('END_OF_FILE', text)
