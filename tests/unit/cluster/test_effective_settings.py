# SPDX-License-Identifier: Apache-2.0
"""What nodes say of their OS profile, put together."""

from pathlib import Path

import fixtures
import testtools

from hvstack.cluster import effective_settings
from hvstack.cluster.command_node import CommandNode


class OsStateTest(testtools.TestCase):
    def node(self, name: str, state: str | None) -> CommandNode:
        """Return a node whose file of that name holds this."""
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        path = directory / 'state'
        if state is not None:
            path.write_text(state)
        # Here the file is elsewhere.
        script = 'c=$(echo "$3" | sed "s:/[^ ]*state:$0:g"); exec sh -c "$c"'
        return CommandNode(
            name=name,
            address='',
            role='worker',
            host='h',
            enter=('sh', '-c', script, str(path)),
        )

    def test_what_all_could_not_set_is_there_once(self) -> None:
        alike = 'profile vsan\nset x=0\nnot set a=1: why\n'
        os_state = effective_settings.os_state(
            [
                self.node('one', alike),
                self.node('two', f'{alike}not set b=2: refused\n'),
            ]
        )
        self.assertEqual('vsan', os_state.profile)
        self.assertEqual(('a=1: why', 'b=2: refused (two)'), os_state.not_set)

    def test_nodes_that_differ_or_have_none(self) -> None:
        node = self.node('one', None)
        self.assertEqual('none', effective_settings.os_state([node]).profile)
        other = self.node('two', 'profile amd\n')
        self.assertEqual(
            'amd and none', effective_settings.os_state([node, other]).profile
        )


class JobTest(testtools.TestCase):
    def test_values_and_sources_of_hadoop_3_5(self) -> None:
        rows = [
            {'name': 'a', 'value': False, 'source': 'job.xml'},
            {'name': 'b', 'value': 1000, 'source': ['mapred-site.xml']},
            {'name': 'c', 'value': 'x', 'source': ['hdfs-default.xml', 'j']},
            {'name': 'd', 'value': 'y', 'source': 'yarn-default.xml'},
        ]
        self.assertEqual(
            {'a': 'false', 'b': '1000'},
            effective_settings._of_job({'conf': {'property': rows}}),
        )
