# SPDX-License-Identifier: Apache-2.0
"""What cannot work is refused in one line, with the remedy."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import testtools

from hvstack import errors, host_profiles
from hvstack.cloud.volumes import Volumes
from hvstack.cluster import heat_environment, validation
from hvstack.model.configuration import Configuration, parse
from hvstack.model.flavor import derive_flavor
from tests.unit.cluster.test_environments import LAYOUT

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
        self.assertEqual(
            '31 workers cannot be: 8 hosts of 4 slots leave 30 for workers, '
            'take 1 to 30, or more hosts or instances',
            message,
        )
        self.refused(validation.workers, 0, 30, parse('i4'), 8)

    def test_no_slot_at_all(self) -> None:
        message = self.refused(validation.workers, 1, 0, parse('i1'), 2)
        self.assertIn('take more hosts', message)

    def test_more_resources_than_heat_takes(self) -> None:
        """The largest cluster of vsphere6, 636 workers, needs more."""
        layout = replace(LAYOUT, workers=636, workers_per_host=20)
        message = self.refused(validation.stack, layout, 1000)
        self.assertIn('max_resources_per_stack in heat.conf to 3857', message)
        validation.stack(layout, 3857)
        validation.stack(layout, -1)
        # Two of a worker's resources are for its host key.
        validation.stack(replace(LAYOUT, workers=200, host_keys=False), 1000)
        validation.stack(replace(LAYOUT, workers=159), 1000)
        self.refused(validation.stack, replace(LAYOUT, workers=160), 1000)
        with_volumes = replace(
            LAYOUT, workers=200, disk_types=[['ceph', 'ceph']]
        )
        message = self.refused(validation.stack, with_volumes, 1000)
        self.assertIn(' has 2641 resources ', message)

    def test_separate_controllers_on_one_host(self) -> None:
        vsan = host_profiles.load('vsan')
        validation.controllers('combined', 1, vsan)
        validation.controllers('separate', 2, vsan)
        message = self.refused(validation.controllers, 'separate', 1, vsan)
        self.assertIn("1 of 'vsan' is up: take combined ones", message)

    def test_more_replicas_than_hosts(self) -> None:
        validation.replication(3, 3)
        message = self.refused(validation.replication, 4, 3)
        self.assertIn('take 1 to 3', message)
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

    def test_volumes_of_a_configuration_without_them(self) -> None:
        validation.volumes(parse('i1'), None)
        validation.volumes(parse('i1-ceph'), Volumes(count=2))
        for label in ('i1', 'i1-pinned', 'i1-ceph-pinned'):
            message = self.refused(
                validation.volumes, parse(label), Volumes(count=2)
            )
            self.assertIn('number of volumes cannot be chosen', message)

    def test_an_unknown_storage_mode(self) -> None:
        message = self.refused(lambda: Configuration(storage='nfs'))
        self.assertIn('take one of local, ceph', message)

    def test_a_flavor_that_is_not_dedicated(self) -> None:
        configuration = parse('i2-dedicated')
        validation.flavor('f', DEDICATED, configuration)
        message = self.refused(validation.flavor, 'f', {}, configuration)
        self.assertIn('take one with hw:cpu_policy=dedicated', message)
        self.refused(validation.flavor, 'f', DEDICATED, parse('i2'))
        # Some clouds do not show them.
        validation.flavor('f', None, configuration)


class NeedTest(testtools.TestCase):
    def test_what_a_cluster_takes(self) -> None:
        vsan, chosen = host_profiles.load('vsan'), parse('i4')
        worker = derive_flavor(vsan, chosen)
        need = validation.needs(LAYOUT, worker, worker)
        self.assertEqual(7, need.instances)
        self.assertEqual(7 * worker.vcpus, need.cores)
        self.assertEqual(7 * worker.ram, need.ram)
        self.assertEqual((1, 6), self.groups(need))
        self.assertEqual((0, 0), (need.volumes, need.gigabytes))

    def test_a_gateway_is_a_worker_in_no_group(self) -> None:
        worker = derive_flavor(host_profiles.load('vsan'), parse('i4'))
        need = validation.needs(replace(LAYOUT, gateway=True), worker, worker)
        self.assertEqual(
            (8, 8 * worker.vcpus, 8 * worker.ram),
            (need.instances, need.cores, need.ram),
        )
        self.assertEqual((1, 6), self.groups(need))

    def groups(self, need: validation.Need) -> tuple[int, int]:
        return need.server_groups, need.server_group_members

    def test_slots_with_groups_and_volumes_of_their_own(self) -> None:
        chosen = parse('i2-ceph-pinned')
        worker = derive_flavor(host_profiles.load('vsan'), parse('i2'))
        need = validation.needs(
            replace(
                LAYOUT,
                configuration=chosen,
                controllers='separate',
                workers=5,
                disk_types=heat_environment.disk_types(chosen, 3),
                disk_gb=7,
            ),
            worker,
            worker,
        )
        self.assertEqual(7, need.instances)
        # Two of workers, one of controllers; three workers in the fuller.
        self.assertEqual((3, 3), self.groups(need))
        self.assertEqual((15, 105), (need.volumes, need.gigabytes))
