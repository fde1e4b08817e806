# SPDX-License-Identifier: Apache-2.0
"""Ceph for production: ceph-ansible's inventory and cephadm's specs."""

import os
import shutil
from pathlib import Path
from typing import Any

import fixtures
import testtools
import yaml

from hvstack import errors, processutils, share

ANSIBLE = share.ROOT / 'ceph-ansible'
CEPHADM = share.ROOT / 'cephadm'
#: Disk groups of a host and capacity disks of each: the vsan paper, Table 7.
TABLE_7 = {2: 7, 3: 4, 4: 3}
VARIABLES = {
    line
    for line in Path(__file__)
    .with_name('ceph-ansible-variables.txt')
    .read_text()
    .splitlines()
    if not line.startswith('#')
}
#: What combines with hosts.yml: disks, and pools.
DISKS = [f'disk-groups-{groups}.yml' for groups in TABLE_7]
POOLS = [
    *(f'storage-ceph-{copies}.yml' for copies in (1, 2, 3)),
    *('disk-slots-12.yml', 'disk-slots-14.yml'),
]


def load(path: Path) -> Any:
    """Return the content of a YAML file."""
    return yaml.safe_load(path.read_text(encoding='utf-8'))


def group_vars(name: str) -> dict[str, Any]:
    """Return the variables of an inventory group."""
    variables: dict[str, Any] = load(ANSIBLE / 'group_vars' / f'{name}.yml')
    return variables


def members(group: str) -> set[str]:
    """Return the hosts of a group of hosts.yml, ranges written out."""
    hosts = set()
    for name in load(ANSIBLE / 'hosts.yml')['all']['children'][group]['hosts']:
        head, mark, host_range = name.partition('[')
        if not mark:
            hosts.add(name)
            continue
        first, _, last = host_range.rstrip(']').partition(':')
        hosts |= {f'{head}{n}' for n in range(int(first), int(last) + 1)}
    return hosts


def ansible_layout(groups: int) -> dict[str, Any]:
    """Return the layout of ceph-ansible for a comparison."""
    hosts = load(ANSIBLE / 'hosts.yml')['all']['hosts']
    return {
        'mon': members('mons'),
        'mgr': members('mgrs'),
        'address': {
            name: hosts[name]['ansible_host']
            for name in members('mons') | members('osds')
        },
        'osd': {
            (
                host,
                disk['data'],
                '/dev/' + disk['db_vg'].removeprefix('db-'),
                disk['crush_device_class'],
            )
            for host in members('osds')
            for disk in group_vars(f'disk_groups_{groups}')['lvm_volumes']
        },
    }


def cephadm_layout(groups: int) -> dict[str, Any]:
    """Return the layout of cephadm for a comparison."""
    text = (CEPHADM / f'disk-groups-{groups}.yml').read_text()
    documents = list(yaml.safe_load_all(text))
    hosts = [
        document
        for document in documents
        if document['service_type'] == 'host'
    ]

    def placed(document: dict[str, Any]) -> set[str]:
        label = document['placement']['label']
        return {host['hostname'] for host in hosts if label in host['labels']}

    layout: dict[str, Any] = {
        'address': {host['hostname']: host['addr'] for host in hosts},
        'osd': set(),
    }
    for document in documents:
        service_type = document['service_type']
        if service_type in ('mon', 'mgr'):
            layout[service_type] = placed(document)
        elif service_type == 'osd':
            (database,) = document['spec']['db_devices']['paths']
            layout['osd'] |= {
                (host, disk['path'], database, disk['crush_device_class'])
                for host in placed(document)
                for disk in document['spec']['data_devices']['paths']
            }
    return layout


class LayoutsTest(testtools.TestCase):
    def test_inventory_and_spec_agree(self) -> None:
        for groups in TABLE_7:
            layout = ansible_layout(groups)
            self.assertEqual(layout, cephadm_layout(groups), groups)
            self.assertEqual(7 * groups * TABLE_7[groups], len(layout['osd']))

    def test_table_7(self) -> None:
        for groups, each in TABLE_7.items():
            disks = group_vars(f'disk_groups_{groups}')['lvm_volumes']
            databases = [disk['db_vg'] for disk in disks]
            self.assertEqual(groups, len(set(databases)))
            for name in set(databases):
                self.assertEqual(each, databases.count(name), name)
            for key in ('data', 'db', 'crush_device_class'):
                self.assertEqual(
                    len(disks), len({disk[key] for disk in disks}), key
                )

    def test_every_variable_is_one_of_the_releases(self) -> None:
        self.assertIn('lvm_volumes', VARIABLES)
        for path in (ANSIBLE / 'group_vars').glob('*.yml'):
            self.assertEqual(set(), set(load(path)) - VARIABLES, path)

    def test_every_group_has_variables_and_every_file_a_group(self) -> None:
        named = {'all', 'clients'}
        for name in (*DISKS, *POOLS):
            named |= set(load(ANSIBLE / name)['all']['children'])
        stems = {path.stem for path in (ANSIBLE / 'group_vars').glob('*.yml')}
        self.assertEqual(named, stems)

    def test_slots_have_a_rule_and_a_class(self) -> None:
        for groups, slots in ((2, 14), (3, 12), (4, 12)):
            classes = {
                disk['crush_device_class']
                for disk in group_vars(f'disk_groups_{groups}')['lvm_volumes']
            }
            variables = group_vars(f'disk_slots_{slots}')
            rules = {rule['name']: rule for rule in variables['crush_rules']}
            self.assertEqual(
                classes, {rule['class'] for rule in rules.values()}
            )
            self.assertEqual(
                classes,
                {rules[p['rule_name']]['class'] for p in variables['pools']},
            )

    def test_copies(self) -> None:
        for copies in (2, 3):
            (pool,) = group_vars(f'storage_ceph_{copies}')['pools']
            self.assertEqual(copies, pool['size'])


class OneCopyTest(testtools.TestCase):
    """Pools of one copy are a step of its own, which asks."""

    def test_no_inventory_makes_them(self) -> None:
        # ceph-ansible would stop there: it never confirms.
        for name in POOLS:
            (group,) = load(ANSIBLE / name)['all']['children']
            for pool in group_vars(group)['pools']:
                self.assertNotEqual(1, pool.get('size'), name)

    def run_script(self, *args: str) -> list[str]:
        """Run the script with a program in Ceph's place; return its calls."""
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        calls = directory / 'calls'
        (directory / 'ceph').write_text(f'#!/bin/sh\necho "$*" >>{calls}\n')
        (directory / 'ceph').chmod(0o755)
        try:
            processutils.run(
                [CEPHADM / 'one-copy', *args],
                env={'PATH': f'{directory}:/usr/bin:/bin'},
            )
        except errors.CommandError as exc:
            self.assertIn('lost disk loses data', str(exc))
        return calls.read_text().splitlines() if calls.exists() else []

    def test_script_asks(self) -> None:
        self.assertEqual([], self.run_script())
        self.assertEqual([], self.run_script('ceph'))
        self.assertEqual([], self.run_script('--accept-data-loss'))
        self.assertEqual(
            [
                'config set global mon_allow_pool_size_one true',
                'osd pool set ceph size 1 --yes-i-really-mean-it',
            ],
            self.run_script('--accept-data-loss', 'ceph'),
        )


class CheckoutTest(testtools.TestCase):
    """The inventory as Ansible reads it, and playbooks as it parses them."""

    def setUp(self) -> None:
        super().setUp()
        checkout = os.environ.get('HVSTACK_CEPH_ANSIBLE')
        if not checkout:
            self.skipTest(
                'HVSTACK_CEPH_ANSIBLE names no checkout of ceph-ansible'
            )
        if shutil.which('ansible-playbook') is None:
            self.skipTest('ansible-playbook is not installed')
        self.checkout = Path(checkout)

    def ansible(self, *args: str | Path) -> str:
        """Run a program of Ansible's with the checkout's settings."""
        log = Path(self.useFixture(fixtures.TempDir()).path) / 'log'
        return processutils.run(
            args,
            cwd=self.checkout,
            env={'ANSIBLE_LOG_PATH': str(log)},
            timeout=120,
        ).stdout

    def files(self, *names: str) -> list[str]:
        """Return the options that name inventory files."""
        return [
            word
            for name in ('hosts.yml', *names)
            for word in ('-i', str(ANSIBLE / name))
        ]

    def test_inventory(self) -> None:
        for disks in DISKS:
            for pools in POOLS:
                out = self.ansible(
                    'ansible-inventory', *self.files(disks, pools), '--list'
                )
                hosts = yaml.safe_load(out)['_meta']['hostvars']
                self.assertIn('lvm_volumes', hosts['node7'])
                self.assertIn('pools', hosts['control1'])

    def test_playbooks_parse(self) -> None:
        for playbook in (
            self.checkout / 'site.yml.sample',
            ANSIBLE / 'db-volumes.yml',
            ANSIBLE / 'one-copy.yml',
        ):
            self.ansible(
                'ansible-playbook',
                *self.files(DISKS[0], POOLS[0]),
                *('--syntax-check', playbook),
            )
