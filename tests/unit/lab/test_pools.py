# SPDX-License-Identifier: Apache-2.0
"""Pools of Ceph for the studies of its layouts."""

import json
import re
from collections import defaultdict
from typing import Any

import testtools

from hvstack import errors
from hvstack.cloud import volumes
from hvstack.lab import ceph, cinder, pools, services, settings, stages
from hvstack.lab.settings import CEPH_LAYOUTS, LabSettings
from hvstack.study import definition
from tests.unit.lab import test_ceph
from tests.unit.lab.cinder_cloud import CinderCloud

#: A lab whose first host has the controllers.
LAB = LabSettings(
    hosts=3, compute='qemu', ceph=True, ceph_layouts=CEPH_LAYOUTS
)
CRUSH_MAP = """# begin crush map
root default {
\titem hv-control
}
# rules
rule replicated_rule {
\tid 0
\tstep take default
\tstep choose firstn 0 type osd
}
"""


STUDIES = (
    *('vsan-copies', 'vsan-disk-groups'),
    *('vsan-host-affinity', 'vsan-stripe-width'),
)


class SettingsTest(testtools.TestCase):
    def refused(self, **values: Any) -> str:
        exc = self.assertRaises(errors.InputError, LabSettings, **values)
        return str(exc)

    def test_unknown_layout(self) -> None:
        text = self.refused(ceph_layouts=('copis',))
        self.assertIn("--ceph-layouts 'copis'", text)
        self.assertIn('copies, groups, affinity', text)

    def test_each_host_with_affinity_needs_a_disk(self) -> None:
        LabSettings(hosts=4, ceph_layouts=('affinity',))
        LabSettings(hosts=5, ceph_layouts=('copies', 'groups'))
        text = self.refused(hosts=5, ceph_layouts=('affinity',))
        self.assertIn('Use --hosts 4', text)


class PoolsTest(testtools.TestCase):
    def test_lab_without_layouts(self) -> None:
        lab_settings = LabSettings(ceph=True)
        self.assertEqual(
            list(test_ceph.POOLS),
            [pool.name for pool in pools.list_pools(lab_settings)],
        )

    def test_copies(self) -> None:
        planned = pools.list_pools(LabSettings(ceph_layouts=('copies',)))[4:]
        self.assertEqual(
            [(f'ceph-copies-{n}', n, str(n)) for n in (1, 2, 3)],
            [
                (pool.name, pool.copies, pool.extra_specs[volumes.COPIES])
                for pool in planned
            ],
        )

    def test_each_host_has_a_pool_of_a_common_volume_type(self) -> None:
        planned = pools.list_pools(LabSettings(ceph_layouts=('affinity',)))[4:]
        hosts = defaultdict(list)
        for pool in planned:
            hosts[pool.volume_type].append(pool.host)
        names = ['hv-host1', 'hv-host2', 'hv-host3']
        self.assertEqual(
            {'ceph-affinity-1': names, 'ceph-affinity-2': names}, hosts
        )
        self.assertEqual(len(planned), len({pool.name for pool in planned}))

    def test_pools_that_a_layout_needs_have_its_rule(self) -> None:
        text = pools.extend_crush_map(CRUSH_MAP)
        commands = ceph.commands(LAB)
        for pool in pools.list_pools(LAB):
            create = f'osd pool create {pool.name} 8 8 replicated {pool.rule}'
            self.assertIn(tuple(create.split()), commands)
            if pool.name not in test_ceph.POOLS and 'copies' not in pool.name:
                self.assertIn(f'rule {pool.rule} {{\n', text)


class CrushMapTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.text = pools.extend_crush_map(CRUSH_MAP)
        self.blocks = {
            (kind, name): lines
            for kind, name, lines in re.findall(
                r'^(root|rule) (\S+) \{\n(.*?)^\}', self.text, re.M | re.S
            )
        }

    def disks(self, root: str) -> list[int]:
        """Return the numbers of the OSDs of a root."""
        items = re.findall(r'item osd\.(\d)', self.blocks['root', root])
        return [int(number) for number in items]

    def steps(self, rule: str) -> list[tuple[list[int], int]]:
        """Return the OSDs of each part of a rule, and its copies."""
        return [
            (self.disks(root), int(copies))
            for root, copies in re.findall(
                r'take (\S+)\n.*firstn (-?\d)', self.blocks['rule', rule]
            )
        ]

    def test_as_many_disks_as_groups(self) -> None:
        for groups in (2, 3, 4):
            self.assertEqual(
                [(list(range(groups)), 0)], self.steps(f'groups-{groups}')
            )

    def test_first_copy_is_on_the_disk_of_the_host(self) -> None:
        self.assertEqual([([1], 1), ([0, 2, 3], -1)], self.steps('affinity-2'))
        self.assertIn(('rule', f'affinity-{settings.OSDS}'), self.blocks)

    def test_each_rule_has_a_number(self) -> None:
        numbers = re.findall(r'^\tid (\d+)', self.text, re.M)
        self.assertEqual(8, len(numbers))
        self.assertEqual(len(numbers), len(set(numbers)))

    def test_a_map_with_the_rules_is_left_alone(self) -> None:
        self.assertEqual(self.text, pools.extend_crush_map(self.text))

    def test_roots_are_in_front_of_rules(self) -> None:
        kinds = re.findall(r'^(root|rule) ', self.text, re.M)
        self.assertEqual(sorted(kinds), kinds)
        added = r'^(root|rule) \S+-\d \{\n(.*?)^\}\n'
        self.assertEqual(
            CRUSH_MAP, re.sub(added, '', self.text, flags=re.M | re.S)
        )


class FilesTest(test_ceph.LabFilesTest):
    def setUp(self) -> None:
        super().setUp()
        settings.save(LAB)

    def scheduler(self) -> str:
        return next(
            ' '.join(service.program.command)
            for service in services.cinder()
            if service.name == 'cinder-scheduler'
        )

    def test_backends_belong_to_their_hosts(self) -> None:
        conf = self.parsed('control/cinder.conf.j2')
        names = conf['DEFAULT']['enabled_backends'].split(',')
        self.assertEqual([pool.name for pool in pools.list_pools(LAB)], names)
        section = conf['affinity-2-hv-host3']
        self.assertEqual('hv-host3', section['backend_host'])
        self.assertEqual('ceph-affinity-2', section['volume_backend_name'])
        self.assertEqual('affinity-2-hv-host3', section['rbd_pool'])
        self.assertNotIn('backend_host', conf['ceph'])

    def test_cinder_selects_the_host_with_affinity_only(self) -> None:
        def filters() -> str:
            conf = self.parsed('control/cinder.conf.j2')
            return conf['DEFAULT'].get('scheduler_default_filters', '')

        self.assertIn('InstanceLocalityFilter', filters())
        self.assertIn(str(services.CINDER_SCHEDULER.target), self.scheduler())
        settings.save(LAB.change(ceph_layouts=('copies', 'groups')))
        self.assertEqual('', filters())
        self.assertNotIn(
            str(services.CINDER_SCHEDULER.target), self.scheduler()
        )

    def test_cinder_may_use_all_pools(self) -> None:
        client = self.parsed('control/ceph.client.cinder.keyring.j2')
        may = client['client.cinder']['caps osd']
        self.assertIn('pool=affinity-1-hv-host2,', may)

    def test_settings_survive(self) -> None:
        self.assertEqual(LAB, settings.load())


class RemovedPoolsTest(test_ceph.LabFilesTest):
    def setUp(self) -> None:
        super().setUp()
        self.attached = 'v1\nv2\n'
        self.swap('database.sql', lambda _: self.attached)
        stages.mark('schema:cinder')
        stages.mark('ceph-layout', json.dumps(ceph.commands(LAB)))

    def test_servers_have_volumes(self) -> None:
        exc = self.assertRaises(
            errors.BusyError,
            ceph.check_removed_pools,
            LAB.change(ceph_layouts=('copies', 'affinity')),
        )
        self.assertIn('ceph-groups-2, ceph-groups-3, ceph-groups-4', str(exc))
        self.assertIn('volumes (v1, v2)', str(exc))

    def test_nothing_is_removed(self) -> None:
        ceph.check_removed_pools(LAB)
        ceph.check_removed_pools(LAB.change(hosts=4))
        self.attached = ''
        ceph.check_removed_pools(LAB.change(ceph_layouts=()))

    def test_first_start(self) -> None:
        stages.unmark('ceph-layout')
        ceph.check_removed_pools(LAB.change(ceph_layouts=()))


class VolumeTypesTest(test_ceph.LabFilesTest):
    def setUp(self) -> None:
        super().setUp()
        planned = pools.list_pools(LAB)
        cloud = self.useFixture(
            CinderCloud(
                {pool.volume_type for pool in planned},
                [
                    f'{pool.host or "hv-control"}@{pool.name}'
                    for pool in planned
                ],
            )
        )
        self.conn = cloud.cloud.connect()
        cinder.fill(self.conn, LAB)
        self.specs = {
            name: update.last_request.json()['extra_specs']
            for name, update in cloud.spec_updates.items()
        }

    def test_types_say_what_the_studies_ask_for(self) -> None:
        for name in STUDIES:
            for variant in definition.load(name).variants:
                setup = variant.setup
                specs = self.specs[setup.volume_type]
                for key, value in (
                    (volumes.COPIES, setup.copies),
                    (volumes.OSD_GROUPS, setup.osd_groups),
                    (volumes.HOST_AFFINITY, setup.host_affinity),
                ):
                    if value is not None:
                        expected = str(value).lower()
                        self.assertEqual(expected, specs.get(key), variant)
