# SPDX-License-Identifier: Apache-2.0
"""What cannot work is refused in one line, with the remedy."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import testtools

from hvstack import errors, host_profiles
from hvstack.cloud.volumes import Volumes
from hvstack.cluster import node_counts, validation
from hvstack.cluster.plan import ClusterDisks, ClusterFlavors, ClusterPlan
from hvstack.model.configuration import Configuration, parse
from hvstack.model.flavor import Flavor, derive_flavor
from tests.unit.cluster.test_heat_environment import (
    PLAN,
    change_nodes,
    change_spec,
)

DEDICATED = {'hw:cpu_policy': 'dedicated'}


class RefusalTest(testtools.TestCase):
    def refused(self, check: Callable[..., Any], *args: Any) -> str:
        """Return the only line that a refusal says."""
        error = str(self.assertRaises(errors.InputError, check, *args))
        self.assertNotIn('\n', error)
        return error

    def test_more_workers_than_slots(self) -> None:
        validation.workers(30, 30, parse('i4'), 8)
        message = self.refused(validation.workers, 31, 30, parse('i4'), 8)
        self.assertIn('31 workers: 8 hosts with 4 slots', message)
        self.assertIn('Use 1 to 30 workers', message)
        self.refused(validation.workers, 0, 30, parse('i4'), 8)

    def test_no_slot_at_all(self) -> None:
        message = self.refused(validation.workers, 1, 0, parse('i1'), 2)
        self.assertIn('more hosts', message)

    def test_more_resources_than_heat_takes(self) -> None:
        """The largest cluster of vsphere6, 636 workers, needs more."""
        plan = change_nodes(PLAN, workers=636, workers_per_host=20)
        message = self.refused(validation.stack, plan, 1000)
        self.assertIn('max_resources_per_stack in heat.conf', message)
        self.assertIn('3857', message)
        validation.stack(plan, 3857)
        validation.stack(plan, -1)
        # Two of a worker's resources are for its host key.
        without_keys = replace(
            change_nodes(PLAN, workers=200),
            stack=replace(PLAN.stack, host_keys=False),
        )
        validation.stack(without_keys, 1000)
        validation.stack(change_nodes(PLAN, workers=159), 1000)
        self.refused(validation.stack, change_nodes(PLAN, workers=160), 1000)
        with_volumes = replace(
            change_nodes(PLAN, workers=200),
            disks=ClusterDisks((('ceph', 'ceph'),)),
        )
        message = self.refused(validation.stack, with_volumes, 1000)
        self.assertIn(' has 2841 resources', message)

    def test_separate_controllers_on_one_host(self) -> None:
        vsan = host_profiles.load('vsan')
        validation.controllers('combined', 1, vsan)
        validation.controllers('separate', 2, vsan)
        message = self.refused(validation.controllers, 'separate', 1, vsan)
        self.assertIn("1 host of 'vsan' is up", message)

    def test_more_replicas_than_hosts(self) -> None:
        validation.replication(3, 3)
        message = self.refused(validation.replication, 4, 3)
        self.assertIn('Use 1 to 3', message)
        self.refused(validation.replication, 0, 3)
        validation.replication(4, 3, False)

    def test_disks_that_do_not_divide(self) -> None:
        profile = host_profiles.load('vsphere6')
        assert profile.disks
        count = profile.disks.count
        validation.disks(profile, parse('i2-pinned'))
        validation.disks(profile, parse('i7'))
        message = self.refused(validation.disks, profile, parse('i7-pinned'))
        self.assertIn(f'the {count} data disks', message)
        self.assertIn(f'1, 2, {"3, " if not count % 3 else ""}', message)

    def test_volumes_without_room_for_a_block(self) -> None:
        def plan(size_gb: int, tuning: str, *types: str) -> ClusterPlan:
            return replace(
                change_spec(PLAN, tuning=tuning),
                disks=ClusterDisks((types,), size_gb),
            )

        message = self.refused(
            validation.disk_size, plan(1, 'hvstack', 'ceph')
        )
        self.assertEqual(
            "Cannot use volumes of 1 GB (tuning profile 'hvstack'): HDFS "
            'leaves 1 GiB of each disk free. Use 2 GB or more.',
            message,
        )
        validation.disk_size(plan(2, 'hvstack', 'ceph'))
        validation.disk_size(plan(1, 'lab', 'ceph'))
        validation.disk_size(plan(1, 'hvstack'))
        # Compute workers on the HDFS of another stack have no volumes.
        validation.disk_size(
            change_nodes(plan(1, 'hvstack', 'ceph'), workers=0)
        )

    def test_volumes_of_a_configuration_without_them(self) -> None:
        validation.volumes(parse('i1'), None)
        validation.volumes(parse('i1-ceph'), Volumes(count=2))
        for label, requested in (
            ('i1', Volumes(count=2)),
            ('i1-pinned', Volumes('fast', 2)),
            ('i1-ceph-pinned', Volumes(copies=1)),
        ):
            message = self.refused(validation.volumes, parse(label), requested)
            self.assertIn(
                f'{label}: Cannot choose the type and the number', message
            )

    def test_a_number_of_pinned_disks(self) -> None:
        for label in ('i1-pinned', 'i1-ceph-pinned'):
            validation.volumes(parse(label), Volumes(count=2))

    def test_an_unknown_storage_mode(self) -> None:
        message = self.refused(lambda: Configuration(storage='nfs'))
        self.assertIn("'storage' is 'nfs'", message)

    def test_a_flavor_that_is_not_dedicated(self) -> None:
        configuration = parse('i2-dedicated')
        validation.flavor('f', DEDICATED, configuration)
        message = self.refused(validation.flavor, 'f', {}, configuration)
        self.assertIn("flavor 'f' for dedicated CPUs", message)
        self.refused(validation.flavor, 'f', DEDICATED, parse('i2'))
        # Some clouds do not show them.
        validation.flavor('f', None, configuration)


class NeedTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        vsan = host_profiles.load('vsan')
        self.worker = derive_flavor(vsan, parse('i4'))
        self.plan = replace(
            PLAN, flavors=ClusterFlavors(self.worker, self.worker)
        )

    def test_what_a_cluster_takes(self) -> None:
        need = validation.needs(self.plan)
        self.assertEqual(7, need.instances)
        self.assertEqual(7 * self.worker.vcpus, need.cores)
        self.assertEqual(7 * self.worker.ram, need.ram)
        self.assertEqual((1, 6), self.groups(need))
        self.assertEqual((0, 0), (need.volumes, need.gigabytes))

    def test_a_gateway_is_a_worker_in_no_group(self) -> None:
        need = validation.needs(change_nodes(self.plan, gateway=True))
        self.assertEqual(
            (8, 8 * self.worker.vcpus, 8 * self.worker.ram),
            (need.instances, need.cores, need.ram),
        )
        self.assertEqual((1, 6), self.groups(need))

    def test_compute_workers_have_their_own_flavor(self) -> None:
        small = Flavor('small', 'compute', 1, 1000, 20)
        for flavor in (None, small):
            plan = replace(
                change_nodes(self.plan, compute_workers=10),
                flavors=ClusterFlavors(self.worker, self.worker, flavor),
            )
            need = validation.needs(plan)
            size = flavor or self.worker
            self.assertEqual(17, need.instances)
            self.assertEqual(
                7 * self.worker.vcpus + 10 * size.vcpus, need.cores
            )
            self.assertEqual((2, 10), self.groups(need))

    def groups(self, need: validation.Need) -> tuple[int, int]:
        return need.server_groups, need.server_group_members

    def test_slots_with_groups_and_volumes_of_their_own(self) -> None:
        chosen = parse('i2-ceph-pinned')
        need = validation.needs(
            replace(
                change_spec(
                    change_nodes(self.plan, workers=5),
                    configuration=chosen,
                    controllers='separate',
                ),
                disks=ClusterDisks(node_counts.get_disk_types(chosen, 3), 7),
            )
        )
        self.assertEqual(7, need.instances)
        # Two of workers, one of controllers; three workers in the fuller.
        self.assertEqual((3, 3), self.groups(need))
        self.assertEqual((15, 105), (need.volumes, need.gigabytes))
