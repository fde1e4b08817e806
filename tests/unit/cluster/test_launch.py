# SPDX-License-Identifier: Apache-2.0
"""What is written down of a cloud while a cluster is there."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fixtures
import testtools
import yaml

from hvstack import errors, host_profiles
from hvstack.cloud import host_keys, hypervisors
from hvstack.cloud.stack_outputs import StackOutputs
from hvstack.cloud.volumes import Volumes, VolumeType
from hvstack.cluster import (
    baseline_hosts,
    heat_environment,
    launch,
    node_counts,
    observation,
    planner,
    probe,
    worker_hosts,
)
from hvstack.cluster.plan import (
    ClusterFlavors,
    ClusterHosts,
    ClusterPlan,
    ClusterSpec,
    NodeCounts,
    StackResources,
)
from hvstack.hadoop import os_profiles, site_files
from hvstack.hadoop.sizing import size_node
from hvstack.model.configuration import parse
from hvstack.model.flavor import Flavor, derive_flavor
from hvstack.model.host import (
    HostCaps,
    HostDisks,
    HostPolicy,
    HostProfile,
    NumaCell,
)
from hvstack.results.typed_json import Json
from tests.unit.cloud import fake
from tests.unit.cloud.test_volumes import kind
from tests.unit.lab.written import LabProfiles


def cloud_options(**options: Any) -> SimpleNamespace:
    """Return options of group cloud."""
    defaults = {
        'controller_profile': None,
        'image': 'i',
        'network': 'n',
        'host_key_source': 'heat',
        'stack_timeout': 900,
        'availability_zone': None,
    }
    return SimpleNamespace(**defaults | options)


def vsan_plan(spec: ClusterSpec, worker: Flavor | None = None) -> ClusterPlan:
    """Return the plan of a cluster on hosts of profile vsan."""
    vsan = host_profiles.load('vsan')
    worker = worker or derive_flavor(vsan, spec.configuration)
    return ClusterPlan(
        spec,
        NodeCounts(workers=2, workers_per_host=4, replication=2),
        ClusterFlavors(
            worker, derive_flavor(vsan, spec.configuration, 'controller')
        ),
        size_node(14, 49152, tuning=spec.tuning),
        StackResources('i', 'n', 'k'),
        node_counts.plan_disks(
            spec.configuration, worker, spec.volumes or Volumes()
        ),
        ClusterHosts({'one': 'p1'}, 'kvm'),
        node_setup=os_profiles.fragment(spec.os_profile),
    )


class Parameters(testtools.TestCase):
    def render_parameters(self, **fields: Any) -> dict[str, Any]:
        return heat_environment.parameters(
            vsan_plan(ClusterSpec(parse('i4'), **fields))
        )

    def test_default_tuning(self) -> None:
        parameters = self.render_parameters()
        files = site_files.render_site_files(
            size_node(14, 49152), replication=2
        )
        self.assertEqual(files['mapred-site.xml'], parameters['mapred_site'])
        self.assertIn(
            'JAVA_OPTS=-XX:+TieredCompilation\n', parameters['hadoop_env']
        )
        self.assertIn('HEAP_namenode=1024\n', parameters['hadoop_env'])
        self.assertIn('os_profile=vsphere6\n', parameters['node_setup'])

    def test_chosen_profiles(self) -> None:
        parameters = self.render_parameters(
            tuning='vsphere6', os_profile='amd'
        )
        self.assertIn('<value>268435456</value>', parameters['hdfs_site'])
        self.assertIn('HEAP_datanode=1300\n', parameters['hadoop_env'])
        self.assertIn('os_profile=amd\n', parameters['node_setup'])

    def test_chosen_volumes(self) -> None:
        chosen = parse('i4-ceph')
        worker = derive_flavor(host_profiles.load('vsan'), chosen)
        self.assertEqual((4, 400), (worker.disks, worker.disk_size_gb))
        default, other = (
            heat_environment.parameters(
                vsan_plan(ClusterSpec(chosen, volumes=volumes))
            )
            for volumes in (None, Volumes('fast', 8))
        )
        self.assertEqual([['ceph'] * 4], default['volume_types'])
        self.assertEqual(400, default['disk_gb'])
        # As much room, on twice as many.
        self.assertEqual([['fast'] * 8], other['volume_types'])
        self.assertEqual(200, other['disk_gb'])

    def test_hosts_with_the_trait_of_a_storage(self) -> None:
        """The ratios of other hosts are not those of the cluster."""
        cloud = self.useFixture(fake.FakeCloud())
        cloud.hosts(3)
        cloud.give_trait('CUSTOM_L', 'h1')
        conn = cloud.connect()
        hosts_up = worker_hosts.list_up(conn, '')
        profile = replace(
            host_profiles.load('vsphere6'), traits={'local': 'CUSTOM_L'}
        )
        for label, names in (('i2', {'h1'}), ('i2-ceph', {'h0', 'h1', 'h2'})):
            self.assertEqual(
                names,
                set(
                    worker_hosts.find_workers(
                        conn, profile, parse(label), hosts_up
                    )
                ),
            )
        cloud.give_trait('CUSTOM_L')
        error = self.assertRaises(
            errors.CloudError,
            worker_hosts.find_workers,
            *(conn, profile, parse('i2'), hosts_up),
        )
        self.assertIn('trait CUSTOM_L): no host has the trait.', str(error))

    def test_record_of_some_pinned_disks(self) -> None:
        """Two workers on a host use two disks each."""
        cloud = self.useFixture(fake.FakeCloud())
        facts = worker_hosts.describe_disks(
            cloud.connect(),
            (),
            host_profiles.load('vsphere6'),
            parse('i2-pinned'),
            Volumes(count=2),
        )
        disks: Any = facts['host_disks']
        self.assertEqual(4, disks['count'])

    def test_record_of_hosts_that_take_raw_images_only(self) -> None:
        """Their ephemeral disks can be on Ceph."""
        cloud = self.useFixture(fake.FakeCloud())
        cloud.hosts(1)
        conn = cloud.connect()
        profile = host_profiles.load('vsphere6')
        for names, access in (
            ((), 'local ephemeral'),
            (('h0',), 'ephemeral on LVM or Ceph'),
        ):
            cloud.take_raw_images_only(*names)
            facts = worker_hosts.describe_disks(
                conn,
                hypervisors.hypervisors(conn),
                profile,
                parse('i2'),
                Volumes(),
            )
            self.assertEqual(access, facts['disk_access'])

    def test_some_pinned_disks(self) -> None:
        """The disks that are used are whole, and those of their slot."""
        parameters = heat_environment.parameters(
            vsan_plan(
                ClusterSpec(parse('i2-pinned'), volumes=Volumes(count=2))
            )
        )
        self.assertEqual(
            [
                ['disk-slot-1', 'disk-slot-2'],
                ['disk-slot-8', 'disk-slot-9'],
            ],
            parameters['volume_types'],
        )
        whole = heat_environment.parameters(
            vsan_plan(ClusterSpec(parse('i2-pinned')))
        )
        self.assertEqual(7, len(whole['volume_types'][0]))
        self.assertEqual(whole['disk_gb'], parameters['disk_gb'])
        self.assertTrue(parameters['local_volumes'])
        error = self.assertRaises(
            errors.InputError,
            vsan_plan,
            ClusterSpec(parse('i2-pinned'), volumes=Volumes(count=8)),
        )
        self.assertIn('a worker has 7 pinned disks', str(error))


class PlanTest(testtools.TestCase):
    """Hosts as Nova and Placement list them, of profile vsphere6."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.options = cloud_options(host_profile='vsphere6', backend='kvm')

    def hosts(self, count: int, down: int = 0) -> None:
        self.cloud.hosts(count, down)

    def plan(self, label: str, **kwargs: Any) -> ClusterPlan:
        return planner.plan_cluster(
            self.cloud.connect(),
            ClusterSpec(parse(label), **kwargs),
            self.options,
        )

    def refused(self, *args: Any, **kwargs: Any) -> str:
        error = str(
            self.assertRaises(errors.InputError, self.plan, *args, **kwargs)
        )
        self.assertNotIn('\n', error)
        return error

    def test_controllers(self) -> None:
        """Eight hosts of four slots, as vsphere6's Table 1 counts them."""
        self.hosts(8)
        combined = self.plan('i4')
        self.assertEqual(31, combined.nodes.workers)
        self.assertFalse(combined.nodes.controllers_first)
        separate = self.plan('i4', controllers='separate')
        self.assertEqual(30, separate.nodes.workers)

        self.assertEqual('separate', separate.spec.controllers)
        self.assertTrue(
            heat_environment.environment(separate)['parameters'][
                'controllers_first'
            ]
        )
        message = self.refused('i4', controllers='separate', workers=31)
        self.assertIn('Use 1 to 30', message)
        # Each has its whole host.
        self.assertEqual(
            6, self.plan('i1', controllers='separate').nodes.workers
        )

    def test_no_host_has_the_trait(self) -> None:
        """Placement knows a custom trait only once a host reports it."""
        self.hosts(2)
        profile = replace(
            host_profiles.load('vsphere6'), traits={'worker': 'CUSTOM_W'}
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.host_profiles.load', lambda _: profile
            )
        )
        for answer in (
            {'status_code': 400},
            {'json': {'resource_providers': []}},
        ):
            self.cloud.http.get(
                f'{fake.PLACEMENT}/resource_providers'
                '?required=COMPUTE_NODE,CUSTOM_W',
                **answer,
            )
            error = self.assertRaises(errors.CloudError, self.plan, 'i4')
            message = str(error)
            self.assertIn("'vsphere6', trait CUSTOM_W): no host", message)
            self.assertIn('hvstack.yaml: {meta:', message)
            self.assertNotIn('is up', message)

    def test_a_controller_of_several_slots_comes_first(self) -> None:
        """It would else find single slots on many hosts (vsphere6, i20)."""
        self.hosts(4)
        for label, workers, first in (('i10', 39, False), ('i20', 78, True)):
            plan = self.plan(label)
            self.assertEqual(workers, plan.nodes.workers)
            parameters = heat_environment.environment(plan)['parameters']
            self.assertEqual('combined', parameters['controllers'])
            self.assertEqual(first, parameters.get('controllers_first', False))

    def test_a_controller_with_a_host_of_its_own_comes_last(self) -> None:
        """Workers have a trait in the lab, and a controller its host."""
        self.small(traits={'worker': 'CUSTOM_WORKER'})
        self.hosts(2)
        plan = self.plan('i2')
        self.assertEqual(
            (4, 0), (plan.nodes.workers, plan.nodes.controller_slots)
        )
        self.assertFalse(heat_environment.controllers_first(plan))

    def test_controllers_of_large_clusters_come_first(self) -> None:
        """Table 1 of vsphere6: all its places are too much user data."""
        self.hosts(32)
        for label, controllers, workers in (
            ('i4', 'combined', 127),
            ('i10', 'combined', 319),
            ('i10', 'separate', 318),
            ('i20', 'separate', 636),
        ):
            plan = self.plan(label, controllers=controllers)
            self.assertEqual(workers, plan.nodes.workers)
            self.assertEqual(
                label != 'i4',
                heat_environment.controllers_first(plan),
            )

    def small(self, **fields: Any) -> None:
        """Take hosts of four CPUs: a controller fills one."""
        profile = HostProfile(
            name='small',
            sockets=1,
            cores_per_socket=4,
            threads_per_core=1,
            memory_mib=16384,
            cells=(NumaCell(0, (0, 1, 2, 3), 16384),),
            **fields,
        )
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'small.yaml'
        path.write_text(yaml.safe_dump(profile.to_mapping()))
        self.options.host_profile = str(path)

    def test_pinned_disks_of_lab_hosts(self) -> None:
        """No volume is local there; other hosts and Ceph have pinned disks."""
        self.hosts(2)
        for lab in (False, True):
            self.small(policy=HostPolicy(lab=lab), disks=HostDisks(2, 100))
            self.assertFalse(self.plan('i2-ceph-pinned').disks.local)
            if lab:
                self.assertIn('iSCSI', self.refused('i2-pinned'))
            else:
                disks = self.plan('i2-pinned').disks
                self.assertEqual((True, 93), (disks.local, disks.size_gb))

    def test_hosts_that_carry_workers(self) -> None:
        """A controller's whole host has no place for a replica."""
        self.small()
        self.hosts(4)
        plan = self.plan('i2', controllers='separate')
        self.assertEqual((4, 2), (plan.nodes.workers, plan.nodes.replication))
        self.assertEqual(3, self.plan('i2').nodes.replication)
        message = self.refused('i2', controllers='separate', replication=3)
        self.assertIn('Use 1 to 2', message)

    def test_gateway(self) -> None:
        """A slot of no worker's; the workers have all that are left."""
        self.hosts(8)
        plan = self.plan('i4', gateway=True)
        self.assertEqual((30, True), (plan.nodes.workers, plan.nodes.gateway))
        self.assertTrue(
            heat_environment.environment(plan)['parameters']['gateway']
        )
        self.assertIn(
            'Use 1 to 30', self.refused('i4', gateway=True, workers=31)
        )
        self.assertEqual('controller', self.plan('i4').to_mapping()['gateway'])
        # It takes a whole host, where a worker does.
        plan = self.plan('i1', gateway=True, workers=2)
        self.assertEqual((2, 2), (plan.nodes.workers, plan.nodes.replication))

    def test_secondary_namenode(self) -> None:
        """On a worker, but on the lab; never by itself where is measured."""
        self.useFixture(LabProfiles())
        self.hosts(3)
        for profile, default in (('vsphere6', True), ('lab-worker', False)):
            self.options.host_profile = profile
            for requested, expected in (
                (None, default),
                (True, True),
                (False, False),
            ):
                plan = self.plan('i1', secondary_namenode=requested)
                self.assertIs(
                    expected,
                    heat_environment.parameters(plan)['secondary_namenode'],
                )
            self.assertFalse(self.plan('i1').secondary_namenode)

    def test_a_cap_alone_is_no_lab(self) -> None:
        self.small(caps=HostCaps(2.0, 8192))
        self.hosts(4)
        plan = self.plan('i2', gateway=True, secondary_namenode=None)
        self.assertTrue(plan.nodes.gateway)
        self.assertTrue(plan.secondary_namenode)
        self.assertNotIn('quota:cpu_shares', plan.flavors.worker.extra_specs)

    def test_gateway_on_the_lab(self) -> None:
        """Workers come first; the controller serves where none is left."""
        self.useFixture(LabProfiles())
        self.options.host_profile = 'lab-worker'
        self.hosts(3)
        for workers, gateway in ((None, False), (3, False), (2, True)):
            plan = self.plan('i1', gateway=True, workers=workers)
            self.assertEqual(
                (workers or 3, gateway),
                (plan.nodes.workers, plan.nodes.gateway),
            )

    def test_readiness(self) -> None:
        self.hosts(8)
        for requested in (True, False):
            plan = self.plan('i4', readiness=requested)
            environment = heat_environment.environment(plan)
            self.assertIs(requested, environment['parameters']['readiness'])
        for options in ({'controllers': 'separate'}, {'deployment': 3}):
            message = self.refused('i4', readiness=True, **options)
            self.assertIn('Omit --readiness', message)

    def test_too_few_hosts_for_controllers(self) -> None:
        self.hosts(2, down=1)
        message = self.refused('i4', controllers='separate')
        self.assertIn('they need 2 hosts, and 1 host of', message)
        self.assertIn('combined controllers', message)
        self.hosts(2)
        message = self.refused('i1', controllers='separate')
        self.assertIn('more hosts', message)

    def test_deployments(self) -> None:
        self.hosts(8)
        for deployment, label, workers, compute in (
            (None, 'i4', (31, 4), (0, 0)),
            (1, 'i1', (7, 1), (0, 0)),
            (2, 'i4', (31, 4), (0, 0)),
            (3, 'i4', (7, 1), (21, 3)),
            (4, 'i4', (14, 2), (14, 2)),
        ):
            plan = self.plan(label, deployment=deployment)
            parameters = heat_environment.environment(plan)['parameters']
            self.assertEqual(
                (*workers, deployment or 2),
                (
                    parameters['worker_count'],
                    parameters['workers_per_host'],
                    parameters['deployment'],
                ),
            )
            self.assertEqual(compute[0], parameters['compute_count'])
            self.assertEqual(
                (workers[1], compute[1]),
                (
                    plan.to_mapping()['workers_per_host'],
                    plan.to_mapping()['compute_per_host'],
                ),
            )
            # Only then is there room for the controller for sure.
            self.assertEqual(compute[0] > 0, parameters['controllers_first'])
            if compute[0]:
                self.assertEqual(compute[1], parameters['compute_per_host'])
                self.assertEqual(
                    plan.flavors.worker.name, parameters['compute_flavor']
                )
                self.assertEqual('datanode', parameters['worker_roles'])

    def test_deployments_that_cannot_be(self) -> None:
        self.hosts(8)
        for label, deployment, word in (
            ('i4', 1, 'Use instances 1, or deployment 2'),
            ('i1', 2, 'Use instances 2 or more'),
            ('i1', 3, 'Use instances 2 or more'),
            ('i2', 4, 'Use instances 4 or more'),
            ('i2-pinned', 3, 'Use deployment 1 or 2'),
        ):
            self.assertIn(word, self.refused(label, deployment=deployment))

    def test_handlers(self) -> None:
        self.hosts(8)
        for count in (None, 1):
            environment = heat_environment.environment(
                self.plan('i4', namenode_handlers=count)
            )
            self.assertEqual(
                count is not None,
                '<name>dfs.namenode.handler.count</name><value>1</value>'
                in environment['parameters']['hdfs_site'],
            )


class OfHosts(testtools.TestCase):
    """What only the lab's hosts tell goes into every plan on them."""

    def test_environment(self) -> None:
        cloud = self.useFixture(fake.FakeCloud())
        cloud.hosts(4)
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        data = host_profiles.load('vsphere6').to_mapping() | {
            'policy': {'lab': True}
        }
        (directory / 'lab.yaml').write_text(yaml.safe_dump(data))
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cluster.baseline_hosts.LAB',
                directory / 'baseline.json',
            )
        )
        own = probe.host(baseline_hosts.lab_machine())

        def plan() -> ClusterPlan:
            options = cloud_options(
                host_profile=str(directory / 'lab.yaml'), backend='qemu'
            )
            return planner.plan_cluster(
                cloud.connect(), ClusterSpec(parse('i1')), options
            )

        self.assertNotIn('cpu_model', plan().hosts.environment)
        baseline_hosts.LAB.write_text(
            json.dumps(
                [
                    {
                        'name': role,
                        'role': role,
                        'address': '10.0.0.1',
                        'vcpus': 4,
                        'memory_mib': 8192,
                        'enter': ['env'],
                    }
                    for role in ('controller', 'worker')
                ]
            )
        )
        facts = plan().hosts.environment
        self.assertIn('cpu_model', own)
        self.assertEqual(own, {name: facts[name] for name in own})


INVENTORY = {'total': 56, 'reserved': 0, 'allocation_ratio': 1.0}


class Seen(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(
            fake.FakeCloud(services={'network': fake.NEUTRON})
        )
        http = self.cloud.http
        self.ports: list[dict[str, str]] = []
        http.get(
            f'{fake.NEUTRON}/ports?device_id=w1',
            json=lambda *_: {'ports': self.ports},
        )
        http.get(
            f'{fake.CINDER}/types',
            json={
                'volume_types': [
                    {'id': 't1', 'name': 'ceph', 'qos_specs_id': 'q1'}
                ]
            },
        )
        http.get(f'{fake.CINDER}/types/t1/encryption', json={})
        http.get(
            f'{fake.CINDER}/qos-specs',
            json={
                'qos_specs': [
                    {
                        'id': 'q1',
                        'name': 'shared',
                        'consumer': 'both',
                        'specs': {'total_iops_sec': '2000'},
                    }
                ]
            },
        )
        nova = {
            'vcpus': 14,
            'ram': 49152,
            'disk': 40,
            'ephemeral': 0,
            'swap': 0,
            'original_name': 'hv-vsan-worker',
            'extra_specs': {'quota:cpu_shares': '1024'},
        }
        for server in ('c1', 'w1'):
            http.get(
                f'{fake.NOVA}/servers/{server}',
                json={'server': {'id': server, 'flavor': nova}},
            )
        for server in ('c1', 'w1', 'w2'):
            http.get(
                f'{fake.PLACEMENT}/allocations/{server}',
                json={'allocations': {'p1': {'resources': {'VCPU': 14}}}},
            )
        http.get(
            f'{fake.PLACEMENT}/resource_providers',
            json={
                'resource_providers': [
                    {
                        'name': 'one',
                        'uuid': 'p1',
                        'parent_provider_uuid': None,
                    }
                ]
            },
        )
        http.get(
            f'{fake.PLACEMENT}/resource_providers/p1/inventories',
            json={'inventories': {'VCPU': INVENTORY}},
        )
        self.consumers = {
            server: {'resources': {'VCPU': 14}} for server in ('w1', 'w2')
        }
        http.get(
            f'{fake.PLACEMENT}/resource_providers/p1/allocations',
            json=lambda *_: {'allocations': self.consumers},
        )
        http.get(
            f'{fake.CINDER}/scheduler-stats/get_pools',
            json={
                'pools': [
                    {
                        'name': 'h@slot#p',
                        'capabilities': {'storage_protocol': 'iSCSI'},
                    }
                ]
            },
        )
        http.get(
            f'{fake.CINDER}/volumes/detail',
            json={
                'volumes': [
                    {
                        'id': 'v1',
                        'volume_type': 'disk-slot-1',
                        'os-vol-host-attr:host': 'h@slot#p',
                        'attachments': [{'server_id': 'w1'}],
                    }
                ]
            },
        )

    def observe(self, label: str, **fields: Any) -> tuple[Any, Any]:
        """Return the facts of a cluster, and those that are compared."""
        plan = vsan_plan(ClusterSpec(parse(label)), fields.pop('worker', None))
        vsan = host_profiles.load('vsan')
        host = {'name': 'vsan', 'digest': vsan.digest}
        plan = replace(
            plan,
            hosts=replace(plan.hosts, profiles={'worker': host}),
            disks=replace(plan.disks, **fields),
        )
        outputs: dict[str, Any] = {
            'controller': {'name': 'c', 'address': '', 'server_id': 'c1'},
            'workers': [
                {'name': 'a', 'address': '', 'server_id': 'w1'},
                {'name': 'b', 'address': '', 'server_id': 'w2'},
            ],
            'resourcemanager': {'name': 'd', 'address': '', 'server_id': 'c1'},
            'compute': [{'name': 'e', 'address': '', 'server_id': 'w1'}],
        }
        observed = observation.observe_cloud(
            self.cloud.connect(), plan, outputs
        )
        return observed, observation.storage(plan, observed)

    def test_volumes_that_are_disks(self) -> None:
        """Cinder says how they are reached, even on the guest's own host."""
        observed, compared = self.observe('i4-pinned')
        self.assertEqual(
            [
                {
                    'type': 'disk-slot-1',
                    'backend': 'slot',
                    'protocol': 'iSCSI',
                    'volumes': 1,
                }
            ],
            observed['volume_backends'],
        )
        self.assertEqual({'storage': 'iSCSI'}, compared)
        observed, compared = self.observe('i4')
        self.assertNotIn('volume_backends', observed)
        self.assertEqual({}, compared)

    def test_disks_that_are_passed_through(self) -> None:
        vsan = host_profiles.load('vsan')
        worker = derive_flavor(vsan, parse('i4-pinned'))
        passed = replace(
            worker,
            extra_specs=worker.extra_specs
            | {'pci_passthrough:alias': 'nvme:1'},
        )
        observed, compared = self.observe('i4-pinned', worker=passed)
        self.assertNotIn('volume_backends', observed)
        self.assertEqual({'storage': 'PCI pass-through'}, compared)

    def test_cloud(self) -> None:
        """A record names it without its URL."""
        identity = self.observe('i4')[0]['cloud']
        self.assertEqual(
            hashlib.sha256(
                fake.KEYSTONE.removesuffix('/v3').encode()
            ).hexdigest(),
            identity['url_sha256'],
        )

    def test_servers_of_others(self) -> None:
        self.assertNotIn('other_servers', self.observe('i4')[0])
        self.consumers['x1'] = {'resources': {'VCPU': 2}}
        self.consumers['x2'] = {'resources': {'VCPU': 1}}
        observed, _ = self.observe('i4')
        self.assertEqual(
            {'one': {'servers': 2, 'VCPU': 3}}, observed['other_servers']
        )

    def test_qos(self) -> None:
        """Limits of the ports and of the volume types, if there are any."""
        self.assertNotIn('qos', self.observe('i4')[0])
        self.ports = [{'qos_network_policy_id': 'q9'}]
        self.cloud.http.get(f'{fake.NEUTRON}/qos/policies/q9', status_code=404)
        observed, _ = self.observe('i4-ceph', types=(('ceph', 'ceph'),))
        self.assertEqual(
            [
                'ports: QoS policy q9, whose rules are not visible',
                'volume type ceph: QoS specs shared (both): total_iops_sec '
                '2000',
            ],
            observed['qos'],
        )

    def test_seen(self) -> None:
        vsan = host_profiles.load('vsan')
        host = {'name': 'vsan', 'digest': vsan.digest}
        observed, compared = self.observe(
            'i4-ceph',
            volume_type=VolumeType('ceph', '', {'hvstack:copies': '2'}),
        )
        self.assertEqual({'storage': 'iSCSI'}, compared)
        self.assertEqual(
            {
                'name': 'hv-vsan-worker',
                'vcpus': 14,
                'ram': 49152,
                'disk': 40,
                'ephemeral': 0,
                'extra_specs': {'quota:cpu_shares': '1024'},
            },
            observed['flavor']['worker'],
        )
        self.assertEqual({'worker', 'controller'}, set(observed['flavor']))
        self.assertEqual({'ceph': 2}, observed['ceph_pools'])
        self.assertEqual(4, observed['volumes']['of_a_worker'])
        self.assertEqual({'worker': host}, observed['host_profile'])
        self.assertEqual({'one': {'VCPU': INVENTORY}}, observed['inventory'])
        self.assertEqual(set('abcde'), set(observed['allocations']))
        self.assertEqual(
            {'during': {'VCPU': 1.0}}, observed['allocation_ratio']
        )
        self.assertTrue(observed['hvstack'])


class ReplacedServerTest(testtools.TestCase):
    """Heat has replaced a server whose guest had sent its host key."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        directory = Path(self.useFixture(fixtures.TempDir()).path) / 'known'
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cloud.host_keys.DIRECTORY', directory
            )
        )

    def serve(self, letter: str) -> StackOutputs:
        """Have Heat show a controller with a key, and return the outputs."""
        controller: Json = {
            'name': 'c',
            'address': '10.0.0.1',
            'server_id': 's1',
            'host_key': f'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{43 * letter}',
        }
        output = {'output_key': 'controller', 'output_value': controller}
        stack = {
            'id': 's1',
            'stack_name': 'mine',
            'stack_status': 'CREATE_COMPLETE',
            'outputs': [output],
        }
        for name in ('mine', 's1'):
            self.cloud.http.get(
                f'{fake.HEAT}/stacks/{name}', json={'stack': stack}
            )
        return {'controller': controller}

    def test_the_key_of_the_other_guest(self) -> None:
        path = host_keys.record('mine', self.serve('a'))
        connection = self.cloud.connect()
        starts: list[str] = []

        def start() -> None:
            starts.append(path.read_text())
            if 43 * 'b' not in starts[-1]:
                raise errors.HostKeyError('Another key.')

        def retry() -> None:
            launch.retry_with_new_host_keys(connection, 'mine', start, 0)

        self.assertRaises(errors.HostKeyError, retry)
        self.assertEqual(1, len(starts))
        self.serve('b')
        retry()
        self.assertEqual(3, len(starts))


class OnCeph(testtools.TestCase):
    """A plan for volumes: what Cinder says of their type counts."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        http = self.cloud.http
        http.get(
            f'{fake.NOVA}/os-hypervisors/detail',
            json={
                'hypervisors': [
                    {
                        'id': f'u{index}',
                        'hypervisor_hostname': f'compute{index}',
                        'hypervisor_type': 'QEMU',
                        'hypervisor_version': 7002000,
                        'state': 'up',
                        'status': 'enabled',
                    }
                    for index in range(3)
                ]
            },
        )
        http.get(
            f'{fake.PLACEMENT}/resource_providers',
            json={
                'resource_providers': [
                    {
                        'name': f'compute{index}',
                        'uuid': f'p{index}',
                        'parent_provider_uuid': None,
                    }
                    for index in range(3)
                ]
            },
        )
        self.types = [kind('ceph', copies='3'), kind('fast', osd_groups='4')]
        http.get(
            f'{fake.CINDER}/types',
            json=lambda *_: {'volume_types': self.types},
        )
        self.options = cloud_options(host_profile='vsan', backend='kvm')

    def plan(
        self, label: str, requested: Volumes | None = None
    ) -> ClusterPlan:
        return planner.plan_cluster(
            self.cloud.connect(),
            ClusterSpec(parse(label), volumes=requested),
            self.options,
        )

    def test_the_type_is_looked_at(self) -> None:
        plan = self.plan('i4-ceph')
        assert plan.disks.volume_type
        self.assertEqual('ceph', plan.disks.volume_type.type)
        self.assertIsNone(self.plan('i4').disks.volume_type)
        plan = self.plan('i4-ceph', Volumes('fast', 2, osd_groups=4))
        self.assertEqual((('fast', 'fast'),), plan.disks.types)

    def test_what_it_lacks_is_refused(self) -> None:
        for requested, word in (
            (Volumes('fast', osd_groups=2), 'osd_groups is 4 instead of 2'),
            (Volumes(copies=2), 'copies is 3 instead of 2'),
            (Volumes('none'), "Cannot find volume type 'none'"),
        ):
            error = self.assertRaises(
                errors.InputError, self.plan, 'i4-ceph', requested
            )
            self.assertIn(word, str(error))
        self.types = []
        self.assertRaises(errors.InputError, self.plan, 'i4-ceph')
        self.plan('i4')
        self.assertRaises(errors.InputError, self.plan, 'i4', Volumes())
