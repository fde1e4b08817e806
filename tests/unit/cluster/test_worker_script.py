# SPDX-License-Identifier: Apache-2.0
"""The script of the workers is in a stack once, and nodes get it whole."""

import itertools
import json
import re
from dataclasses import replace
from typing import Any

import testtools

from hvstack.cluster import heat_environment
from hvstack.hadoop import os_profiles, tuning_profiles
from tests.unit.cloud.test_template import load, walk
from tests.unit.cluster.test_heat_environment import PLAN, change_spec
from tests.unit.cluster.worker_script import (
    SCRIPTS,
    TEMPLATE,
    get_config,
    list_sources,
    list_texts,
    unpack,
)

#: Parameters that 'hvstack cluster scale' changes.
SCALED = {
    *('worker_count', 'removed_workers'),
    *('compute_count', 'removed_compute', 'readiness'),
}


def make_parameters(tuning: str, os_profile: str) -> dict[str, Any]:
    """Return the parameters of a cluster with these profiles."""
    plan = replace(
        change_spec(PLAN, tuning=tuning),
        node_setup=os_profiles.fragment(os_profile),
    )
    return dict(heat_environment.parameters(plan))


class TextTest(testtools.TestCase):
    def test_nodes_get_what_is_between_the_marks(self) -> None:
        for group in SCRIPTS:
            text = get_config(group)
            mark, *lines, last = text.splitlines(keepends=True)
            self.assertEqual('%SCRIPT%\n', mark)
            self.assertEqual(mark, last)
            self.assertEqual('%FILES%\n', lines[0])
            self.assertEqual(''.join(lines), unpack(text))

    def test_nodes_get_a_script(self) -> None:
        """Guests without cloud-init run nothing that begins otherwise."""
        files = TEMPLATE['resources']['files']['properties']['value']
        text = files['str_replace']['template']
        self.assertEqual('#!/bin/bash', text.splitlines()[0])

    def test_lines_stay_as_they_are(self) -> None:
        values = make_parameters('vsphere6', 'vsphere6')
        text = ''.join(str(values.get(name, '')) for name in list_texts())
        # Lines that programs for mail change.
        text += f'\nFrom here\n.\n{2000 * "x"}\n\ttab \n\n'
        self.assertEqual(text, unpack(f'%SCRIPT%\n{text}%SCRIPT%\n'))

    def test_only_ascii_is_accepted(self) -> None:
        """Heat writes other texts in base64, without the marks."""
        self.assertRaises(IndexError, unpack, '%SCRIPT%\n\u00df\n%SCRIPT%\n')
        self.assertEqual(
            {
                *('core_site', 'hdfs_site', 'yarn_site', 'mapred_site'),
                *('hadoop_env', 'worker_env', 'compute_env', 'node_setup'),
            },
            list_texts(),
        )
        patterns = {}
        for name in list_texts():
            (constraint,) = TEMPLATE['parameters'][name]['constraints']
            pattern = re.compile(constraint['allowed_pattern'])
            self.assertIsNone(pattern.fullmatch('<!-- \u00df -->'), name)
            patterns[name] = pattern
        for profiles in itertools.product(
            tuning_profiles.list_names(), os_profiles.list_names()
        ):
            values = make_parameters(*profiles)
            for name in patterns.keys() & values.keys():
                match = patterns[name].fullmatch(values[name])
                self.assertIsNotNone(match, f'{name} of {profiles}')


class OnceTest(testtools.TestCase):
    def test_members_have_an_id_instead_of_the_text(self) -> None:
        """Heat repeats what a member has for every member of its group."""
        for group, script in SCRIPTS.items():
            resource = TEMPLATE['resources'][group]
            member = resource['properties']['resource_def']['properties']
            self.assertEqual({'get_resource': script}, member['script_config'])
            self.assertEqual(
                resource['condition'],
                TEMPLATE['resources'][script]['condition'],
            )
            references = {
                json.dumps(node[function])
                for node in walk(member)
                for function in ('get_attr', 'get_param')
                if function in node
            }
            self.assertNotIn('["files", "value"]', references)
            self.assertEqual(
                set(),
                references & {json.dumps(name) for name in list_texts()},
            )

    def test_scaling_changes_no_script(self) -> None:
        """A config cannot change: another text makes another config.

        The members would get another ID with every number of workers.
        """
        self.assertLess(SCALED, set(TEMPLATE['parameters']))
        for script in SCRIPTS.values():
            parameters, resources = list_sources(script)
            self.assertLessEqual({'core_site', 'node_setup'}, parameters)
            self.assertIn('controller_port', resources)
            self.assertEqual(set(), SCALED & parameters, script)
            self.assertEqual(set(), {*SCRIPTS, 'ready'} & resources, script)

    def test_all_sources_are_searched(self) -> None:
        """The topology of the controllers comes from the workers."""
        parameters, resources = list_sources('controller_files')
        self.assertLessEqual({*SCRIPTS, 'server_groups'}, resources)
        self.assertLessEqual(SCALED, parameters)
        # Through a condition only.
        self.assertIn('controllers', parameters)

    def test_a_script_has_no_signed_url(self) -> None:
        """Whoever may see a stack sees its software configs."""
        for script in SCRIPTS.values():
            _, resources = list_sources(script)
            self.assertEqual(
                [], [name for name in resources if name.endswith('handle')]
            )
        node = load('hadoop-node.yaml')['resources']['script']
        self.assertEqual(
            {'parts': [{'config': {'get_param': 'script_config'}}]},
            node['properties'],
        )
