# SPDX-License-Identifier: Apache-2.0
"""What a cloud cannot do is refused before a study starts."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import fixtures
import testtools
import yaml

from hvstack import conf, host_profiles, paths
from hvstack.study import definition, study_run
from tests.unit.cloud import fake
from tests.unit.cloud.test_doctor import volume_service
from tests.unit.cloud.test_volumes import kind
from tests.unit.study.test_definition import CONTENT

CLAIM = {**CONTENT['claims'][0], 'variant': 'a', 'against': 'b'}


class ImpossibleTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.host = 'vsphere6'
        self.local_hosts: tuple[str, ...] = ()

    def explain(self, hosts: int, first: Any, second: Any) -> dict[str, str]:
        """Return the impossible ones of the variants a and b."""
        study = definition.parse_study(
            'mine',
            {
                'question': 'Which one is faster?',
                'variants': {'a': first, 'b': second},
                'claims': [CLAIM],
            },
            'mine.yaml',
        )
        self.cloud.hosts(hosts)
        self.cloud.give_trait('CUSTOM_L', *self.local_hosts)
        self.useFixture(
            fixtures.EnvironmentVariable(
                'OS_SWEEP__BASELINE_HOSTS', str(self.directory / 'hosts.yaml')
            )
        )
        reasons = study_run.find_impossible(
            self.cloud.connect(), study, self.host, 'kvm', conf.load()
        )
        # The claim needs both variants.
        return {
            name: reason
            for name, reason in reasons.items()
            if not reason.startswith('its claims need')
        }

    def give_controllers_a_trait(self) -> None:
        """Have a host profile of controllers with the trait CUSTOM_L."""
        controllers = replace(
            host_profiles.load('vsphere6'),
            name='c',
            traits={'controller': 'CUSTOM_L'},
        )
        path = self.directory / 'c.yaml'
        paths.write_output(path, yaml.safe_dump(controllers.to_mapping()))
        self.useFixture(
            fixtures.EnvironmentVariable(
                'OS_CLOUD__CONTROLLER_PROFILE', str(path)
            )
        )

    def test_more_replicas_than_hosts(self) -> None:
        for setting in ('replication', 'output_replication'):
            two, three = {setting: 2}, {setting: 3}
            reasons = self.explain(3, two, three)
            self.assertEqual(['b'], list(reasons))
            self.assertIn('Cannot use replication 3', reasons['b'])
            self.assertEqual({}, self.explain(4, two, three))
        # Without node groups, replicas share a host.
        shared = {'replication': 4, 'configuration': 'i2'}
        off = {**shared, 'node_groups': False}
        self.assertEqual(['a'], list(self.explain(3, shared, off)))

    def test_hosts_with_the_trait_of_a_storage(self) -> None:
        """Only two of five hosts can have the data of workers."""
        profile = replace(
            host_profiles.load('vsphere6'), traits={'local': 'CUSTOM_L'}
        )
        self.host = str(self.directory / 'x.yaml')
        paths.write_output(
            Path(self.host), yaml.safe_dump(profile.to_mapping())
        )
        self.local_hosts = ('h0', 'h1')
        local = {'configuration': 'i2', 'replication': 3}
        reasons = self.explain(5, local, {'configuration': 'i2'})
        self.assertEqual(['a'], list(reasons))
        self.assertIn('Cannot use replication 3', reasons['a'])

    def test_bare_metal(self) -> None:
        variants = {'configuration': 'bare-metal', 'replication': 2}, {}
        reasons = self.explain(4, *variants)
        self.assertEqual(['a'], list(reasons))
        self.assertIn(f'{self.directory}/hosts.yaml', reasons['a'])
        host = {'address': '192.0.2.1', 'vcpus': 40, 'memory_mib': 262144}
        for name in ('key', 'rootfs.tar'):
            (self.directory / name).touch()
        inventory = {
            'key': str(self.directory / 'key'),
            'first_contact': 'accept',
            'rootfs': str(self.directory / 'rootfs.tar'),
            'hosts': [
                {'name': 'c', 'role': 'controller', **host},
                {'name': 'w', 'role': 'worker', **host},
            ],
        }
        path = self.directory / 'hosts.yaml'
        path.write_text(yaml.safe_dump(inventory), encoding='utf-8')
        reasons = self.explain(4, *variants)
        self.assertIn('Cannot use replication 2', reasons['a'])
        bare_metal = {'configuration': 'bare-metal'}
        self.assertEqual({}, self.explain(4, bare_metal, {}))

    def test_volumes_of_local_storage(self) -> None:
        """They would be refused when the first cluster is planned."""
        reasons = self.explain(4, {'disks': 2}, {})
        self.assertEqual(['a'], list(reasons))
        self.assertIn('Cannot choose the type and the number', reasons['a'])

    def test_pinned_disks(self) -> None:
        """A worker may use some of its disks; vsphere6 has twenty."""
        pinned = {'configuration': 'i1-pinned'}
        study = definition.parse_study(
            'mine',
            {
                'question': 'Which one is faster?',
                'variants': {
                    'a': {**pinned, 'disks': 20},
                    'b': {**pinned, 'disks': 21},
                    'c': {**pinned, 'disks': 2, 'copies': 1},
                    'd': {'configuration': 'i3-pinned'},
                },
                'claims': [CLAIM],
            },
            'mine.yaml',
        )
        reasons = study_run.find_impossible(
            *(None, study, 'vsphere6', 'kvm', conf.load())
        )
        self.assertEqual(['b', 'c', 'd'], list(reasons))
        self.assertIn('a worker has 20 pinned disks', reasons['b'])
        self.assertIn('Cannot choose the type', reasons['c'])
        self.assertIn('Cannot divide the 20 data disks', reasons['d'])

    def test_host_affinity(self) -> None:
        """Each host of workers needs a backend of its own."""
        self.cloud.http.get(
            f'{fake.CINDER}/types',
            json={'volume_types': [kind('ceph', host_affinity='true')]},
        )
        variants = {'configuration': 'i1-ceph', 'host_affinity': True}, {}
        for hosts, expected in (
            (range(3), []),
            (range(2), ['a']),
        ):
            self.cloud.http.get(
                f'{fake.CINDER}/os-services',
                json={
                    'services': [
                        volume_service(f'h{number}@near') for number in hosts
                    ]
                },
            )
            reasons = self.explain(3, *variants)
            self.assertEqual(expected, list(reasons))
        self.assertIn('h2 has no cinder-volume', reasons['a'])

    def test_compute_workers(self) -> None:
        settings = {'configuration': 'i2', 'deployment': 3}
        # Two hosts besides that of the controller have one each.
        variants = (
            {**settings, 'scaled_compute': 1},
            {**settings, 'scaled_compute': 2},
        )
        reasons = self.explain(3, *variants)
        self.assertEqual(['b'], list(reasons))
        self.assertIn('has 2 compute workers', reasons['b'])
        reasons = self.explain(4, settings, {**settings, 'deployment': 4})
        self.assertEqual(['b'], list(reasons))
        self.assertIn('needs at least 4 slots', reasons['b'])

    def test_lost_hosts(self) -> None:
        reasons = self.explain(3, {'lost_hosts': 1}, {'lost_hosts': 2})
        self.assertEqual(['b'], list(reasons))
        self.assertIn('3 are needed to lose 2', reasons['b'])

    def test_lost_hosts_have_workers(self) -> None:
        """Other hosts have no blocks that a loss could destroy."""
        profile = replace(
            host_profiles.load('vsphere6'), traits={'worker': 'CUSTOM_L'}
        )
        self.host = str(self.directory / 'x.yaml')
        paths.write_output(
            Path(self.host), yaml.safe_dump(profile.to_mapping())
        )
        self.local_hosts = ('h0', 'h1')
        reasons = self.explain(9, {'lost_hosts': 1}, {'lost_hosts': 2})
        self.assertEqual(['b'], list(reasons))
        self.assertIn('2 hosts can have workers', reasons['b'])

    def test_separate_controllers(self) -> None:
        """They need two hosts, which a profile of their own may not have."""
        self.give_controllers_a_trait()
        separate = {'configuration': 'i2', 'controllers': 'separate'}
        self.local_hosts = ('h0',)
        reasons = self.explain(4, separate, {'configuration': 'i2'})
        self.assertEqual(['a'], list(reasons))
        self.assertIn('1 host of', reasons['a'])
        self.local_hosts = ('h0', 'h1')
        self.assertEqual({}, self.explain(4, separate, {}))

    def test_second_clusters(self) -> None:
        """The controller of the second one needs a host, too."""
        settings = {'configuration': 'i2', 'deployment': 3}
        second = {**settings, 'second_cluster': 1}
        # Controllers and workers have the same hosts.
        self.assertEqual({}, self.explain(3, second, settings))
        reasons = self.explain(3, {**settings, 'second_cluster': 2}, settings)
        self.assertIn('has 2 compute workers', reasons['a'])
        self.give_controllers_a_trait()
        self.local_hosts = ('h0',)
        reasons = self.explain(4, second, settings)
        self.assertEqual(
            {
                'a': '1 host with the trait CUSTOM_L can have controllers, '
                'and 2 are needed: a second compute cluster has a controller '
                'of its own'
            },
            reasons,
        )
        self.local_hosts = ('h0', 'h1')
        self.assertEqual({}, self.explain(4, second, settings))

    def test_availability_zone(self) -> None:
        """Only the hosts of the zone can have nodes."""
        self.useFixture(
            fixtures.EnvironmentVariable('OS_CLOUD__AVAILABILITY_ZONE', 'az1')
        )
        self.cloud.http.get(
            f'{fake.NOVA}/os-availability-zone',
            json={
                'availabilityZoneInfo': [
                    {'zoneName': 'az1', 'zoneState': {'available': True}}
                ]
            },
        )
        self.cloud.http.get(
            f'{fake.NOVA}/os-services?binary=nova-compute',
            json={
                'services': [
                    {'id': name, 'host': name, 'zone': zone}
                    for name, zone in (
                        *(('h0', 'az1'), ('h1', 'az1'), ('h2', 'az1')),
                        *(('h3', 'az2'), ('h4', 'az2')),
                    )
                ]
            },
        )
        reasons = self.explain(5, {'replication': 2}, {'replication': 3})
        self.assertEqual(['b'], list(reasons))
        self.assertIn('Cannot use replication 3', reasons['b'])

    def test_security_group_past_the_switches(self) -> None:
        settings = {'vnic': 'macvtap', 'stateless_security_group': True}
        reasons = self.explain(4, settings, {})
        self.assertEqual(['a'], list(reasons))
        self.assertIn('no security group is in force', reasons['a'])


class UselessTest(testtools.TestCase):
    """A variant whose claims cannot be tested is not measured."""

    def find(self, **changes: Any) -> dict[str, str]:
        study = definition.parse_study(
            'mine',
            {
                'question': 'Which one is faster?',
                'variants': {
                    'first': {'configuration': 'bare-metal'},
                    'a': {},
                    'ceph': {'configuration': 'i1-ceph'},
                    'b': {'replication': 1},
                    'c': {'replication': 1, 'maps': 2},
                },
                'claims': [
                    {**CLAIM, 'variant': 'ceph', 'against': 'b'},
                    {**CLAIM, 'variant': 'ceph', 'against': 'a'},
                    {**CLAIM, 'variant': 'ceph', 'against': 'first'},
                    {**CLAIM, 'variant': 'a', 'against': 'c'},
                ],
                **changes,
            },
            'mine.yaml',
        )
        return study_run.find_impossible(
            *(None, study, 'vsphere6', 'lxc', conf.load())
        )

    def test_claims_with_a_variant_that_is_not_possible(self) -> None:
        """The first variant is the reference of all others."""
        reasons = self.find()
        self.assertEqual(['ceph', 'b'], list(reasons))
        self.assertEqual(
            "its claims need 'ceph', and the cloud cannot have that",
            reasons['b'],
        )

    def test_a_table_compares_all(self) -> None:
        table = {'source': 'Table 2', 'columns': ['TeraSort']}
        reasons = self.find(paper='vsphere6', table=table)
        self.assertEqual(['ceph'], list(reasons))
