# SPDX-License-Identifier: Apache-2.0
"""Ceph and Cinder of the lab: files, commands and answers."""

import base64
import configparser
import json
import struct
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors
from hvstack.lab import (
    ceph,
    cinder,
    constants,
    hosts,
    identity,
    packages,
    pools,
    port_conflicts,
    render,
    services,
    settings,
    stages,
)
from hvstack.lab.settings import LabSettings
from tests.unit.lab.cinder_cloud import CinderCloud

POOLS = ('ceph', 'disk-slot-1', 'disk-slot-2', 'disk-slot-3')


class LabFilesTest(testtools.TestCase):
    """A lab with Ceph, its files in a directory of the test's."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        for name in ('SETTINGS', 'SECRETS'):
            self.swap(f'settings._{name}', self.directory / name)
        self.swap('stages._MARKS', self.directory / 'marks.json')
        settings.save(LabSettings(compute='qemu', ceph=True))

    def swap(self, name: str, value: Any) -> None:
        self.useFixture(fixtures.MonkeyPatch(f'hvstack.lab.{name}', value))

    def parsed(self, template: str) -> configparser.ConfigParser:
        parser = configparser.ConfigParser(interpolation=None)
        # Keyrings indent their lines, which configparser would join.
        lines = render.render(template).splitlines()
        parser.read_string('\n'.join(line.strip() for line in lines))
        return parser


class OptionalTest(LabFilesTest):
    def names(self) -> set[str]:
        return {service.name for service in services.everything()}

    def test_only_a_lab_with_ceph_has_it(self) -> None:
        added = {
            *('ceph-mon', 'ceph-mgr'),
            *(f'ceph-osd{number}' for number in range(settings.OSDS)),
            *('cinder', 'cinder-scheduler', 'cinder-volume'),
        }
        names = self.names()
        self.assertIn(identity.CINDER, identity.catalogue())
        settings.save(LabSettings(compute='qemu'))
        self.assertEqual(added, names - self.names())
        self.assertNotIn(identity.CINDER, identity.catalogue())

    def test_ports_and_packages_are_wanted_with_it_only(self) -> None:
        added = set(port_conflicts.needed(ceph=True)) - set(
            port_conflicts.needed()
        )
        self.assertEqual({3300, 6789, 8776}, {port for _, port in added})
        self.assertEqual({constants.MGMT}, {address for address, _ in added})
        self.assertNotIn('ceph-osd', packages.needed(ceph=False))
        self.assertIn('python3-rbd', packages.needed(ceph=True))

    def test_nothing_to_take_away_where_it_never_was(self) -> None:
        without = LabSettings(compute='qemu')
        self.assertEqual([], ceph.plan(without, None))
        stages.mark('ceph')
        self.assertEqual(1, len(ceph.plan(without, None)))


class RefusedTest(testtools.TestCase):
    def test_containers_cannot_attach_volumes(self) -> None:
        lab_settings = LabSettings(compute='lxc', ceph=True)
        exc = self.assertRaises(
            errors.InputError, hosts.planned, lab_settings, probing=False
        )
        self.assertIn('--host-compute hv-host3=qemu', str(exc))
        self.assertNotIn('\n', str(exc))

    def test_one_host_that_can_is_enough(self) -> None:
        lab_settings = LabSettings(
            compute='lxc', ceph=True, host_compute={'hv-host3': 'qemu'}
        )
        self.assertEqual(3, len(hosts.planned(lab_settings, probing=False)))

    def test_copies_fit_the_disks(self) -> None:
        for copies in (0, settings.OSDS + 1):
            exc = self.assertRaises(
                errors.InputError, LabSettings, ceph_copies=copies
            )
            self.assertIn(f'--ceph-copies {copies}', str(exc))


class FilesTest(LabFilesTest):
    def test_key_is_one_of_cephs(self) -> None:
        raw = base64.b64decode(constants.ceph_key('client.cinder'))
        key_type, _, _, length = struct.unpack('<HIIH', raw[:12])
        self.assertEqual((1, 16, 28), (key_type, length, len(raw)))
        self.assertEqual(
            constants.ceph_key('client.cinder'),
            constants.ceph_key('client.cinder'),
        )

    def test_daemons_have_the_clients_keys(self) -> None:
        every = self.parsed('control/ceph.keyring.j2')
        for name in ('admin', 'cinder'):
            entity = f'client.{name}'
            own = self.parsed(f'control/ceph.{entity}.keyring.j2')
            self.assertEqual(dict(own[entity]), dict(every[entity]))
        keys = {section['key'] for section in every.values() if section}
        self.assertEqual(len(every.sections()), len(keys))

    def test_cinder_may_use_its_pools_only(self) -> None:
        client = self.parsed('control/ceph.client.cinder.keyring.j2')
        may = client['client.cinder']['caps osd'].strip('"').split(', ')
        self.assertEqual([f'profile rbd pool={pool}' for pool in POOLS], may)

    def test_each_backend_has_its_pool(self) -> None:
        conf = self.parsed('control/cinder.conf.j2')
        names = conf['DEFAULT']['enabled_backends'].split(',')
        self.assertEqual(list(POOLS), names)
        for name in names:
            self.assertEqual(name, conf[name]['rbd_pool'])
            self.assertEqual(name, conf[name]['volume_backend_name'])

    def test_ceph_listens_on_the_labs_bridge_only(self) -> None:
        conf = self.parsed('control/ceph.conf.j2')['global']
        self.assertEqual(constants.MGMT, conf['public_addr'])
        self.assertEqual(constants.MGMT, conf['cluster_addr'])
        self.assertEqual(
            f'[v2:{constants.MGMT}:3300,v1:{constants.MGMT}:6789]',
            conf['mon_host'],
        )

    def test_what_holds_secrets_is_its_owners(self) -> None:
        for service in (*services.ceph(), *services.cinder()):
            for file in service.files:
                if file != services.CEPH_CONF:
                    self.assertEqual(0o600, file.mode, file.target)
        self.assertNotIn('key =', render.render('control/ceph.conf.j2'))


class LayoutTest(LabFilesTest):
    def test_each_slot_has_a_disk_a_rule_and_a_pool(self) -> None:
        commands = ceph.commands(LabSettings(ceph_copies=2))
        for index, slot in enumerate(pools.SLOTS):
            for command in (
                f'osd crush set-device-class {slot} osd.{index}',
                f'osd crush rule create-replicated {slot} default osd {slot}',
                f'osd pool create {slot} 8 8 replicated {slot}',
            ):
                self.assertIn(tuple(command.split()), commands)

    def test_one_copy_is_said_to_be_meant(self) -> None:
        def sizes(copies: int) -> dict[str, tuple[str, ...]]:
            return {
                command[3]: command[5:]
                for command in ceph.commands(LabSettings(ceph_copies=copies))
                if command[2:3] == ('set',)
            }

        sure = ('1', '--yes-i-really-mean-it')
        self.assertEqual(sure, sizes(2)['disk-slot-1'])
        self.assertEqual(('2',), sizes(2)['ceph'])
        self.assertEqual(sure, sizes(1)['ceph'])

    def answer(self, up: int, states: dict[str, int]) -> bool:
        """Ask a program in Ceph's place."""
        answer = {
            'osdmap': {'num_up_osds': up},
            'pgmap': {
                'num_pgs': 32,
                'pgs_by_state': [
                    {'state_name': name, 'count': count}
                    for name, count in states.items()
                ],
            },
        }
        program = self.directory / 'ceph'
        program.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
        program.chmod(0o755)
        self.useFixture(
            fixtures.EnvironmentVariable('PATH', f'{self.directory}:/bin')
        )
        return ceph.clean()

    def test_clean(self) -> None:
        self.assertTrue(self.answer(settings.OSDS, {'active+clean': 32}))
        self.assertFalse(self.answer(settings.OSDS - 1, {'active+clean': 32}))
        self.assertFalse(
            self.answer(
                settings.OSDS, {'active+clean': 31, 'active+undersized': 1}
            )
        )

    def test_no_answer_is_not_clean(self) -> None:
        self.useFixture(
            fixtures.EnvironmentVariable('PATH', str(self.directory))
        )
        self.assertFalse(ceph.clean())


class VolumeTypesTest(LabFilesTest):
    def setUp(self) -> None:
        super().setUp()
        self.cinder = self.useFixture(
            CinderCloud(POOLS, [f'hv-control@{p}' for p in POOLS])
        )
        self.types = self.cinder.types
        self.type_creations = self.cinder.type_creations

    def copies(self) -> list[str]:
        return [
            update.last_request.json()['extra_specs']['hvstack:copies']
            for update in self.cinder.spec_updates.values()
        ]

    def test_made_once_and_says_how_many_copies(self) -> None:
        conn = self.cinder.cloud.connect()
        cinder.fill(conn, LabSettings(ceph=True))
        cinder.fill(conn, LabSettings(ceph=True))
        self.assertEqual(len(POOLS), self.type_creations.call_count)
        for volume_type in self.types:
            self.assertEqual(
                {'volume_backend_name': volume_type['name']},
                volume_type['extra_specs'],
            )
        self.assertEqual(['1', '1', '1', '3'], sorted(self.copies()))
        self.assertEqual(
            {1},
            {
                update.call_count
                for update in self.cinder.spec_updates.values()
            },
        )
        cinder.fill(conn, LabSettings(ceph=True, ceph_copies=1))
        self.assertEqual({'1'}, set(self.copies()))
        self.assertEqual(len(POOLS), self.type_creations.call_count)
        text = self.cinder.updates['ceph'].last_request.json()['volume_type'][
            'description'
        ]
        self.assertIn('one copy, for benchmarks', text)
