# SPDX-License-Identifier: Apache-2.0
"""The cluster's template fits what we give it, and what Hadoop needs."""

import shutil
import subprocess
from typing import Any

import testtools
import yaml

from hvstack import share
from hvstack.hadoop import site_files
from hvstack.hadoop.sizing import size_node
from hvstack.model import topology


def load(name: str) -> Any:
    """Return a template."""
    return yaml.safe_load((share.HEAT_TEMPLATES / name).read_text())


def names() -> list[str]:
    """Return the names of all templates."""
    return [path.name for path in share.HEAT_TEMPLATES.glob('*.yaml')]


def walk(node: Any) -> Any:
    """Yield every mapping below a node."""
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from walk(value)
    elif isinstance(node, list):
        for value in node:
            yield from walk(value)


def references(resource: Any) -> set[str]:
    """Return the names of the resources that a resource depends on."""
    before = resource.get('depends_on', [])
    names = {before} if isinstance(before, str) else set(before)
    for node in walk(resource):
        if 'get_resource' in node:
            names.add(node['get_resource'])
        if 'get_attr' in node:
            names.add(node['get_attr'][0])
    return names


def closure(resources: Any, name: str) -> set[str]:
    """Return everything that a resource depends on, at any distance."""
    names: set[str] = set()
    pending = [name]
    while pending:
        added = references(resources[pending.pop()]) - names
        names |= added
        pending += added
    return names


class TemplateTest(testtools.TestCase):
    def test_every_parameter_is_declared_and_used(self) -> None:
        for name in names():
            content = load(name)
            used = {
                reference[0] if isinstance(reference, list) else str(reference)
                for node in walk(content)
                if 'get_param' in node
                for reference in [node['get_param']]
            } - {'OS::stack_id', 'OS::stack_name'}
            unused = {
                key
                for key, value in content['parameters'].items()
                if value['description'] == 'Not used'
            }
            self.assertEqual(set(content['parameters']), used | unused, name)

    def test_outputs_have_no_secrets(self) -> None:
        """They tell of nodes and names alone, never of files or signals."""
        for name in names():
            references = [
                node[function][0]
                if isinstance(node[function], list)
                else node[function]
                for node in walk(load(name).get('outputs', {}))
                for function in ('get_attr', 'get_param', 'get_resource')
                if function in node
            ]
            files = {
                key
                for key in load(name)['parameters']
                if key.endswith(('_site', '_env', '_setup'))
            }
            self.assertEqual(
                set(),
                set(references)
                & {
                    *('ready_handle', 'files', 'controller_files'),
                    *('worker_script', 'compute_script', 'script'),
                }
                | set(references) & files
                | {
                    key
                    for key in references
                    if key.endswith('host_key_handle')
                },
                name,
            )

    def test_every_node_sends_its_host_key_to_its_own_handle(self) -> None:
        holders: dict[tuple[str, str], list[str]] = {}
        waiting = set()
        for name in ('hadoop-cluster.yaml', 'hadoop-node.yaml'):
            content = load(name)
            for key, resource in content['resources'].items():
                for node in walk(resource):
                    handle, *attribute = node.get('get_attr', [''])
                    if (
                        handle.endswith('host_key_handle')
                        and attribute == ['signal']
                        and handle in content['resources']
                    ):
                        holders.setdefault((name, handle), []).append(key)
                if resource['type'] == 'OS::Heat::WaitCondition' and (
                    key != 'ready'
                ):
                    handle = resource['properties']['handle']['get_resource']
                    waiting.add((name, handle))
                    # Heat counts the seconds from the server's creation.
                    self.assertEqual(
                        'OS::Nova::Server',
                        content['resources'][resource['depends_on']]['type'],
                    )
        servers = {
            key
            for name in ('hadoop-cluster.yaml', 'hadoop-node.yaml')
            for key, resource in load(name)['resources'].items()
            if resource['type'] == 'OS::Nova::Server'
        }
        self.assertEqual(
            sorted([key] for key in servers), sorted(holders.values())
        )
        self.assertEqual(waiting, set(holders))

    def test_a_node_without_a_key_has_an_empty_key(self) -> None:
        """An error in the output of one worker removed those of all."""
        expected = {'{}': '', '{"host_key": "ssh-ed25519 A"}': 'ssh-ed25519 A'}
        keys = []
        for name in ('hadoop-cluster.yaml', 'hadoop-node.yaml'):
            for node in walk(load(name)['outputs']):
                if 'str_split' not in node:
                    continue
                separator, text, index = node['str_split']
                delimiter, (attribute, *others) = text['list_join']
                resource, path = attribute['get_attr']
                self.assertTrue(resource.endswith('host_key'), name)
                self.assertEqual('data', path)
                keys.append(
                    {
                        data: delimiter.join([data, *others]).split(separator)[
                            index
                        ]
                        for data in expected
                    }
                )
        self.assertEqual(4 * [expected], keys)

    def test_handles_wait_for_what_their_nodes_wait_for(self) -> None:
        """Keystone accepts the signature of a handle for 15 minutes."""
        resources = load('hadoop-cluster.yaml')['resources']
        groups = {'workers', 'compute'}
        for name, resource in resources.items():
            if resource['type'] != 'OS::Nova::Server':
                continue
            [handle] = {
                reference
                for reference in references(resource)
                if reference.endswith('host_key_handle')
            }
            self.assertEqual(groups, groups & closure(resources, name), name)
            self.assertEqual(groups, groups & closure(resources, handle))

    def test_every_parameter_is_described(self) -> None:
        for name in names():
            for key, value in load(name)['parameters'].items():
                self.assertTrue(value.get('description'), f'{name}: {key}')

    def test_every_parameter_is_in_a_group(self) -> None:
        content = load('hadoop-cluster.yaml')
        grouped = [
            name
            for group in content['parameter_groups']
            for name in group['parameters']
        ]
        self.assertEqual(sorted(content['parameters']), sorted(grouped))

    def test_no_resource_has_a_parameters_name(self) -> None:
        for name in names():
            content = load(name)
            both = set(content['parameters']) & set(
                content.get('resources', {})
            )
            self.assertEqual(set(), both, name)

    def test_members_get_what_they_declare(self) -> None:
        declared = load('hadoop-node.yaml')['parameters']
        needed = {
            key for key, value in declared.items() if 'default' not in value
        }
        resources = load('hadoop-cluster.yaml')['resources']
        for group in ('workers', 'compute'):
            properties = set(
                resources[group]['properties']['resource_def']['properties']
            )
            self.assertEqual(set(), properties - set(declared), group)
            self.assertEqual(set(), needed - properties, group)

    def test_the_controller_comes_after_the_workers(self) -> None:
        resources = load('hadoop-cluster.yaml')['resources']
        for name in ('controller', 'resourcemanager'):
            attributes = [
                node['get_attr']
                for node in walk(resources[name])
                if 'get_attr' in node
            ]
            self.assertIn(['controller_files', 'value'], attributes)
        params = resources['controller_files']['properties']['value'][
            'str_replace'
        ]['params']
        self.assertEqual('late', params['%TOPOLOGY%']['if'][0])

    def test_a_compute_cluster_stores_nothing(self) -> None:
        content = load('hadoop-cluster.yaml')
        resources = content['resources']
        for name in ('workers', 'hdfs_namenode_rule'):
            self.assertEqual(
                'own_hdfs' if name == 'workers' else 'shared_hdfs',
                resources[name]['condition'],
            )
        (namenode,) = (
            node['%NAMENODE%']
            for node in walk(resources['controller'])
            if '%NAMENODE%' in node
        )
        self.assertEqual({'if': ['own_hdfs', 'namenode ', '']}, namenode)
        # What only other clusters have is read where they have it.
        for name, output in content['outputs'].items():
            if {'get_attr': ['workers', 'node']} in walk(output):
                self.assertEqual('own_hdfs', output['condition'], name)

    def test_masters_are_where_the_resourcemanager_is(self) -> None:
        """A NameNode on a node of its own has no NodeManager."""
        resources = load('hadoop-cluster.yaml')['resources']
        controller, manager = (
            next(
                node['list_join'][1]
                for node in walk(resources[name])
                if 'list_join' in node and node['list_join'][0] == '\n'
            )
            for name in ('controller', 'resourcemanager')
        )
        setup = {'get_param': 'manager_setup'}
        self.assertEqual({'if': ['separate', '', setup]}, controller[1])
        self.assertEqual(setup, manager[1])
        start = controller[2]['if']
        self.assertEqual(['separate', 'begin namenode'], start[:2])
        for text in (start[2], manager[2]):
            self.assertEqual(
                {'get_param': 'manager_roles'},
                text['str_replace']['params']['%ROLES%'],
            )

    def test_only_nodes_have_an_address(self) -> None:
        """Host keys of a mapping with an address are recorded."""
        outputs = load('hadoop-cluster.yaml')['outputs']
        self.assertEqual(
            {'controller', 'resourcemanager', 'gateway'},
            {
                name
                for name, output in outputs.items()
                if isinstance(output['value'], dict)
                and 'address' in output['value']
            },
        )

    def test_a_compute_cluster_reaches_hdfs(self) -> None:
        """Ports of the NameNode, of its web interface and of DataNodes."""
        resources = load('hadoop-cluster.yaml')['resources']
        ports = {
            name: (
                rule['properties']['port_range_min'],
                rule['properties']['port_range_max'],
            )
            for name, rule in resources.items()
            if rule['type'] == 'OS::Neutron::SecurityGroupRule'
        }
        port = {'get_param': 'hdfs_port'}
        web = site_files.UI_PORTS['namenode']
        self.assertEqual(
            {
                'hdfs_namenode_rule': (port, port),
                'hdfs_web_rule': (web, web),
                'hdfs_datanode_rule': (9864, 9867),
            },
            ports,
        )
        self.assertEqual(
            set(ports), set(resources['controller']['depends_on'])
        )
        parameters = load('hadoop-cluster.yaml')['parameters']
        self.assertEqual(
            site_files.NAMENODE_PORT, parameters['hdfs_port']['default']
        )
        for name in ports:
            properties = resources[name]['properties']
            self.assertEqual(
                [
                    {'get_param': 'hdfs_security_group'},
                    {'get_attr': ['security_group_id', 'value']},
                ],
                [properties['security_group'], properties['remote_group']],
            )

    def test_a_server_stays_when_its_script_changes(self) -> None:
        for name in ('hadoop-cluster.yaml', 'hadoop-node.yaml'):
            for key, resource in load(name)['resources'].items():
                if resource['type'] == 'OS::Nova::Server' and key != 'client':
                    self.assertEqual(
                        'IGNORE',
                        resource['properties']['user_data_update_policy'],
                        key,
                    )

    def test_placeholders_are_all_replaced(self) -> None:
        for name in names():
            for node in walk(load(name)):
                if 'str_replace' not in node:
                    continue
                template = node['str_replace']['template']
                if isinstance(template, dict):
                    continue
                for key in node['str_replace']['params']:
                    self.assertIn(key, template)

    def test_only_so_many_workers_a_host(self) -> None:
        groups = load('hadoop-cluster.yaml')['resources']['server_groups']
        group = groups['properties']['resource_def']['properties']
        per_host = {'get_param': 'workers_per_host'}
        self.assertEqual(
            ['strict', 'anti-affinity', 'soft-anti-affinity'],
            group['policies'][0]['if'],
        )
        self.assertEqual(
            [
                'strict',
                {'max_server_per_host': {'if': ['pinned', 1, per_host]}},
            ],
            group['rules']['if'],
        )
        # As many groups as slots: worker n is in slot n mod slots.
        self.assertEqual(
            ['pinned', per_host, 1], groups['properties']['count']['if']
        )

    def racks(self, awk: str, text: str) -> str:
        """Return the table that the controller writes for one rack."""
        script = load('hadoop-cluster.yaml')['resources']['controller_files'][
            'properties'
        ]['value']['str_replace']['template']
        start = script.index('racks() {')
        function = script[start : script.index('\n}\n', start) + 3]
        self.assertIn('    racks > $places', script)
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
        for index, counts in enumerate(
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
            flat = topology.build_topology(
                addresses, groups, dict.fromkeys(workers, 'rack1')
            )
            expected = topology.build_topology(
                addresses, groups, topology.assign_virtual_racks(workers)
            )
            awk = awks[index % len(awks)]
            self.assertEqual(
                expected.format_table(),
                self.racks(awk, flat.format_table()),
                counts,
            )

    def test_without_node_groups_there_are_no_racks(self) -> None:
        table = ''.join(
            f'{key} /default-rack\n' for key in ('10.0.0.1', 'w1', 'w2')
        )
        self.assertEqual(table, self.racks('command awk', table))

    def test_no_file_ends_its_own_heredoc(self) -> None:
        for text in site_files.render_site_files(size_node(2, 4096)).values():
            self.assertNotIn('END_OF_FILE', text)
