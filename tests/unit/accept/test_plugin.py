# SPDX-License-Identifier: Apache-2.0
"""A missing option is named in one line, and nothing is inspected."""

import unittest
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import fixtures
import testtools

from hvstack import processutils
from hvstack.tempest_plugin.plugin import HVStackTempestPlugin

# Modules, not their tests: those would be collected here as well.
from hvstack.tempest_plugin.tests.host import test_host_stop, test_hosts
from hvstack.tempest_plugin.tests.operator import (
    test_flavors,
    test_full_cluster,
    test_volumes,
)
from hvstack.tempest_plugin.tests.tenant import test_disk, test_stack
from tests.unit.accept.tempestconf import configure

#: A tempest.conf in which nothing is missing.
WHOLE: dict[str, Any] = {
    'catalogues': ['/a.yaml'],
    'stack_request': '/stack.json',
    'full_cluster': True,
    'volume_backends': ['disk-slot-1:slot1'],
    'host_access': 'local',
    'power_off_command': 'off {host}',
    'power_on_command': 'on {host}',
}
#: What is missing, who misses it, and what the report says.
MISSING: tuple[tuple[dict[str, Any], Any, str], ...] = (
    ({'catalogues': []}, test_flavors.FlavorsTest, 'set [hvstack] catalogues'),
    (
        {'stack_request': None},
        test_stack.StackTest,
        'set [hvstack] stack_request',
    ),
    (
        {'stack_request': None, 'no_cluster': 'Cannot create a cluster: x.'},
        test_stack.StackTest,
        'Cannot create a cluster: x.',
    ),
    (
        {'full_cluster': False},
        test_full_cluster.FullClusterTest,
        '[hvstack] full_cluster',
    ),
    (
        {'stack': 'mine'},
        test_stack.StackLifeTest,
        'leave [hvstack] stack unset',
    ),
    (
        {'stack': 'mine'},
        test_full_cluster.FullClusterTest,
        'leave [hvstack] stack unset',
    ),
    ({'guests': False}, test_disk.DiskTest, '[hvstack] guests'),
    (
        {'volume_backends': []},
        test_volumes.VolumesTest,
        'set [hvstack] volume_backends',
    ),
    (
        {'host_access': 'none'},
        test_hosts.PinsTest,
        'set [hvstack] host_access',
    ),
    (
        {'power_on_command': None},
        test_host_stop.HostStopTest,
        'power_on_command',
    ),
    (
        {'hadoop': False},
        test_host_stop.HostStopTest,
        'no cluster stores two replicas',
    ),
    (
        {'replication': 1},
        test_host_stop.HostStopTest,
        'no cluster stores two replicas',
    ),
)


class PluginTest(testtools.TestCase):
    """Reads tempest.conf as Tempest does."""

    def configure(self, **group: Any) -> None:
        """Use a tempest.conf with these options of hvstack."""
        services = {'cinder': group.pop('cinder', True)}
        configure(self, {'hvstack': group, 'service_available': services})

    def skip_reason(self, test: Any) -> str:
        """Return why a class is skipped; nothing if it is not."""
        try:
            test.skip_checks()
        except unittest.SkipTest as exc:
            return str(exc)
        return ''

    def test_missing_options(self) -> None:
        for change, test, expected in MISSING:
            self.configure(**WHOLE)
            self.assertEqual('', self.skip_reason(test), test)
            self.configure(**{**WHOLE, **change})
            reason = self.skip_reason(test)
            self.assertIn(expected, reason)
            self.assertTrue(reason.startswith('not checked: '), reason)
            self.assertNotIn('\n', reason)

    def test_one_replica(self) -> None:
        self.configure(**{**WHOLE, 'replication': 1})
        skip = self.assertRaises(
            unittest.SkipTest,
            test_stack.StackTest('test_replicas').test_replicas,
        )
        self.assertIn('not checked: a block has one replica', str(skip))

    def use_cluster(self, answer: Callable[[str], str]) -> list[str]:
        """Give the tests a cluster without workers whose Hadoop is whole.

        :param answer: function of a command that returns its output.
        :returns: commands that the controller executes, which grows.
        """
        commands: list[str] = []

        def run(command: str, **_: Any) -> processutils.Result:
            commands.append(command)
            return processutils.Result(0, answer(command), '')

        node = SimpleNamespace(address='10.0.0.1', name='c', run=run)
        for name, value in (
            ('trouble', ''),
            ('check_results', []),
            (
                'nodes',
                SimpleNamespace(
                    gateway=node, manager=node, nodes=[node], workers=[]
                ),
            ),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(
                    'hvstack.tempest_plugin.tests.tenant.test_stack.'
                    f'StackTest.{name}',
                    value,
                )
            )
        return commands

    def test_no_run_on_an_existing_cluster(self) -> None:
        """It killed the jobs of all users, and deleted their trash."""
        self.configure(**{**WHOLE, 'stack': 'mine'})
        commands = self.use_cluster(lambda _: '{}')
        skip = self.assertRaises(
            unittest.SkipTest,
            test_stack.StackTest('test_small_run').test_small_run,
        )
        self.assertIn('not checked: a run ends all jobs', str(skip))
        self.assertEqual([], commands)

    def test_no_files_stay_on_an_existing_cluster(self) -> None:
        self.configure(**{**WHOLE, 'stack': 'mine'})
        answers = {'curl': '{"boolean": true}', 'site_value': '3'}
        commands = self.use_cluster(
            lambda command: next(
                (text for name, text in answers.items() if name in command),
                'Status: HEALTHY',
            )
        )
        test = test_stack.StackTest('test_replicas')
        # fsck lists no file.
        self.assertRaises(AssertionError, test.test_replicas)
        self.assertIn('site_value hdfs-site.xml dfs.replication', commands[0])
        self.assertIn('hdfs dfs -put', commands[1])
        # The number of replicas is that of the cluster.
        self.assertIn(
            'blocks with less than 3 replicas',
            [check.subject for check in test.check_results],
        )
        test.doCleanups()
        self.assertIn('-X DELETE', commands[-1])
        self.assertIn('/webhdfs/v1/hvaccept?', commands[-1])

    def test_existing_cluster_needs_no_request(self) -> None:
        self.configure(**{**WHOLE, 'stack': 'mine', 'stack_request': None})
        self.assertEqual('', self.skip_reason(test_stack.StackTest))
        self.configure(**WHOLE, stack='mine', no_cluster='No Heat.')
        self.assertIn('No Heat.', self.skip_reason(test_stack.StackTest))

    def test_one_replica_of_an_existing_cluster(self) -> None:
        self.configure(**{**WHOLE, 'stack': 'mine'})
        commands = self.use_cluster(lambda _: '1')
        skip = self.assertRaises(
            unittest.SkipTest,
            test_stack.StackTest('test_replicas').test_replicas,
        )
        self.assertIn('not checked: a block has one replica', str(skip))
        self.assertEqual(1, len(commands))

    def test_cloud_without_cinder(self) -> None:
        self.configure(**WHOLE, cinder=False)
        self.assertIn(
            'has no Cinder', self.skip_reason(test_volumes.VolumesTest)
        )

    def test_whole_clouds_tests_are_alone(self) -> None:
        """Whoever takes a host's room waits for all others."""
        directory, top = HVStackTempestPlugin().load_tests()
        loaded = unittest.TestLoader().discover(directory, top_level_dir=top)
        classes = {type(test) for test in testtools.iterate_tests(loaded)}
        shared = {
            test_class.__name__
            for test_class in classes
            if not test_class.is_serial_execution_requested()
        }
        self.assertEqual(
            {'FlavorsTest', 'RatiosTest', 'VolumesTest', 'ConfigurationTest'},
            shared,
        )
