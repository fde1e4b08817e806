# SPDX-License-Identifier: Apache-2.0
"""A cluster with pinned local volumes: before its stack, and after boot."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import fixtures
import testtools

from hvstack import errors, host_profiles
from hvstack.cloud.volumes import Volumes
from hvstack.cluster import (
    heat_environment,
    launch,
    local_volumes,
    observation,
)
from hvstack.cluster.plan import ClusterHosts, ClusterPlan, ClusterSpec
from hvstack.model.configuration import parse
from hvstack.model.flavor import derive_flavor
from tests.unit.cloud import fake
from tests.unit.cloud.test_doctor import volume_service
from tests.unit.cloud.test_volume_locality import volume
from tests.unit.cluster.test_launch import vsan_plan

OUTPUTS = {'workers': [{'name': 'a', 'address': '', 'server_id': 's0'}]}


def plan(label: str = 'i1-pinned') -> ClusterPlan:
    """Return a plan for workers on the host h0, with two disks."""
    planned = vsan_plan(ClusterSpec(parse(label)))
    return replace(
        planned,
        hosts=ClusterHosts({'h0': 'p0'}, 'kvm'),
        disks=replace(planned.disks, types=(('disk-slot-1', 'disk-slot-2'),)),
    )


class LocalVolumesTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.cloud.hosts(2)
        self.conn = self.cloud.connect()

    def services(self, *hosts: str) -> None:
        """List volume services by host and backend."""
        self.cloud.http.get(
            f'{fake.CINDER}/os-services',
            json={'services': [volume_service(host) for host in hosts]},
        )

    def boot(self, *hosts: str, protocol: str = 'iscsi') -> None:
        """List a server on h0 with volumes on hosts."""
        http = self.cloud.http
        http.get(
            f'{fake.NOVA}/servers/detail',
            json={'servers': [{'id': 's0', 'OS-EXT-SRV-ATTR:host': 'h0'}]},
        )
        http.get(
            f'{fake.CINDER}/volumes/detail',
            json={
                'volumes': [
                    volume(f'v{number}', 's0', host)
                    for number, host in enumerate(hosts)
                ]
            },
        )
        http.get(
            f'{fake.CINDER}/attachments/detail',
            json={
                'attachments': [
                    {
                        'id': 'a0',
                        'instance': 's0',
                        'connection_info': {'driver_volume_type': protocol},
                    }
                ]
            },
        )

    def test_hosts(self) -> None:
        """Only the workers' host needs a backend for each of their disks."""
        self.services('h0@disk-slot-1', 'h0@disk-slot-2')
        local_volumes.check_hosts(self.conn, plan())
        self.services('h0@disk-slot-1', 'h1@disk-slot-2')
        error = self.assertRaises(
            errors.InputError, local_volumes.check_hosts, self.conn, plan()
        )
        self.assertIn('h0 has 1 of 2 backends up', str(error))
        self.assertIn('runs on: h0, h1', str(error))
        self.assertNotIn('\n', str(error))

    def test_other_disks_are_not_checked(self) -> None:
        """Nothing is asked of Cinder, which would not answer."""
        for label in ('i1', 'i1-ceph', 'i1-ceph-pinned'):
            local_volumes.check_hosts(self.conn, plan(label))
            self.assertEqual(
                {}, local_volumes.observe(self.conn, plan(label), OUTPUTS)
            )

    def test_host_affinity(self) -> None:
        """A single backend of a host has all volumes of its workers."""
        spec = ClusterSpec(
            parse('i1-ceph'), volumes=Volumes('near', 2, host_affinity=True)
        )
        affine = replace(
            vsan_plan(spec), hosts=ClusterHosts({'h0': 'p0'}, 'kvm')
        )
        self.assertEqual((('near', 'near'),), affine.disks.types)
        self.services('h1@near')
        error = self.assertRaises(
            errors.InputError, local_volumes.check_hosts, self.conn, affine
        )
        self.assertIn('h0 has no cinder-volume', str(error))
        self.services('h0@near')
        local_volumes.check_hosts(self.conn, affine)
        parameters: Any = heat_environment.parameters(affine)
        self.assertTrue(parameters['local_volumes'])
        self.boot('h0@near#p', 'h0@near#p', protocol='rbd')
        observed = local_volumes.observe(self.conn, affine, OUTPUTS)
        self.assertEqual(
            {'storage': 'same host, by ceph'},
            observation.storage(affine, observed),
        )
        self.boot('h0@near#p', 'h1@near#p', protocol='rbd')
        error = self.assertRaises(
            errors.CloudError,
            *(local_volumes.observe, self.conn, affine, OUTPUTS),
        )
        self.assertIn('v1 is on host h1', str(error))

    def observe(self) -> dict[str, Any]:
        return local_volumes.observe(self.conn, plan(), OUTPUTS)

    def test_same_host(self) -> None:
        self.boot('h0@disk-slot-1#p', 'h0@disk-slot-2#p')
        observed = self.observe()
        self.assertEqual(
            {'local_volumes': {'host': 'same host', 'protocol': 'iSCSI'}},
            observed,
        )
        self.assertEqual(
            {'storage': 'same host, by iSCSI'},
            observation.storage(plan(), observed),
        )

    def test_another_host(self) -> None:
        self.boot('h0@disk-slot-1#p', 'h1@disk-slot-2#p')
        error = self.assertRaises(errors.CloudError, self.observe)
        self.assertIn('v1 is on host h1', str(error))

    def test_protocol_of_the_backend(self) -> None:
        """It counts where attachments are not visible."""
        self.boot('h0@disk-slot-1#p', 'h0@disk-slot-2#p')
        self.cloud.http.get(
            f'{fake.CINDER}/attachments/detail', status_code=403
        )
        observed = self.observe()
        self.assertEqual({'local_volumes': {'host': 'same host'}}, observed)
        observed['volume_backends'] = [{'protocol': 'iSCSI'}]
        self.assertEqual(
            {'storage': 'same host, by iSCSI'},
            observation.storage(plan(), observed),
        )

    def test_not_checked(self) -> None:
        self.boot('', '')
        observed = self.observe()
        self.assertEqual('not checked', observed['local_volumes']['host'])
        self.assertEqual(
            {'storage': 'iSCSI'}, observation.storage(plan(), observed)
        )


class LaunchTest(testtools.TestCase):
    """What of a launch depends on local volumes; the cloud has no other."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud = self.useFixture(fake.FakeCloud())
        self.cloud.hosts(1)
        self.created: list[str] = []
        for name, result in (
            ('planner.check', None),
            ('stacks.wait', OUTPUTS),
            ('allocation_ratios.check', None),
            ('observation.observe_cloud', {}),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'hvstack.cluster.launch.{name}',
                    lambda *_, result=result, **__: result,
                )
            )
        for name in ('keypairs.create', 'stacks.create'):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'hvstack.cluster.launch.{name}',
                    lambda *_, name=name, **__: self.created.append(name),
                )
            )

    def launch(self, error: type[Exception], *backends: str) -> str:
        """Return the error of a launch with volume services on hosts."""
        self.cloud.http.get(
            f'{fake.CINDER}/os-services',
            json={'services': [volume_service(host) for host in backends]},
        )
        conn = self.cloud.connect()
        options = SimpleNamespace(
            stack_timeout=1, ready_timeout=1, ssh_config=None
        )
        return str(
            self.assertRaises(
                error,
                launch.launch,
                *(conn, conn, plan(), {}, 'name', options),
            )
        )

    def test_no_backends(self) -> None:
        """Nothing is created on hosts that cannot have the volumes."""
        message = self.launch(errors.InputError, 'h0@disk-slot-1')
        self.assertIn('h0 has 1 of 2 backends up', message)
        self.assertEqual([], self.created)

    def test_volumes_on_another_host(self) -> None:
        self.cloud.http.get(
            f'{fake.NOVA}/servers/detail',
            json={'servers': [{'id': 's0', 'OS-EXT-SRV-ATTR:host': 'h0'}]},
        )
        self.cloud.http.get(
            f'{fake.CINDER}/volumes/detail',
            json={
                'volumes': [
                    volume(f'v{host}', 's0', f'{host}@disk#p')
                    for host in ('h0', 'h1')
                ]
            },
        )
        message = self.launch(errors.CloudError, 'h0@one', 'h0@two')
        self.assertIn('vh1 is on host h1', message)
        self.assertEqual(['keypairs.create', 'stacks.create'], self.created)


class EnvironmentTest(testtools.TestCase):
    """What Heat gets."""

    def parameters(self, label: str, **specs: str) -> dict[str, Any]:
        configuration = parse(label)
        profile = host_profiles.load('vsphere6')
        worker = derive_flavor(profile, configuration)
        worker = replace(worker, extra_specs=worker.extra_specs | specs)
        return heat_environment.environment(
            vsan_plan(ClusterSpec(configuration), worker)
        )['parameters']

    def test_local_volumes(self) -> None:
        for label, local in (
            ('i4', None),
            ('i4-ceph', None),
            ('i4-ceph-pinned', None),
            ('i4-pinned', True),
        ):
            self.assertEqual(
                local, self.parameters(label).get('local_volumes'), label
            )
        passed = self.parameters(
            'i4-pinned', **{'pci_passthrough:alias': 'nvme:5'}
        )
        self.assertNotIn('local_volumes', passed)
        self.assertEqual([[]] * 4, passed['volume_types'])

    def test_volumes_fit_their_disks(self) -> None:
        """600 GB are 558.8 GiB; Ceph's pools have no such limit."""
        self.assertEqual(558, self.parameters('i4-pinned')['disk_gb'])
        self.assertEqual(600, self.parameters('i4-ceph-pinned')['disk_gb'])
