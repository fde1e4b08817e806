# SPDX-License-Identifier: Apache-2.0
"""Profiles from what machines and clouds say; the samples are of a VM."""

import copy
import json
from pathlib import Path
from typing import Any

import testtools

from hvstack import errors, host_profiles
from hvstack.model import host_detection
from hvstack.model.host import from_mapping

SAMPLES = Path(__file__).parent / 'samples'


def sample(name: str) -> Any:
    """Return one of the samples."""
    return json.loads((SAMPLES / f'{name}.json').read_text())


def lscpu(sockets: int, cores: int, threads: int) -> dict[str, Any]:
    """Return the output of lscpu on a machine with a NUMA node per socket."""
    each = sockets * cores
    return {
        'cpus': [
            {
                'cpu': cpu,
                'node': cpu % each // cores,
                'socket': cpu % each // cores,
                'core': cpu % each,
                'online': True,
            }
            for cpu in range(each * threads)
        ]
    }


def disk(name: str, **changes: Any) -> dict[str, Any]:
    """Return the output of lsblk for a blank disk."""
    return {
        'name': name,
        'type': 'disk',
        'size': 600 * 10**9,
        'rota': True,
        'ro': False,
        'rm': False,
        'fstype': None,
        'mountpoints': [None],
        **changes,
    }


SYSTEM = disk(
    'sda',
    mountpoints=[None],
    children=[disk('sda1', type='part', fstype='ext4', mountpoints=['/'])],
)


class Refusals(testtools.TestCase):
    def refused(self, call: Any, *args: Any, **options: Any) -> str:
        exc = self.assertRaises(errors.InputError, call, *args, **options)
        self.assertNotIn('\n', str(exc))
        return str(exc)


class Processors(Refusals):
    """CPUs and memory of this machine."""

    def test_sample(self) -> None:
        memory = host_detection.parse_meminfo(
            (SAMPLES / 'meminfo').read_text()
        )
        self.assertEqual(
            {
                'sockets': 1,
                'cores_per_socket': 2,
                'threads_per_core': 1,
                'memory_mib': 24105,
                'cells': [{'cpus': '0-1', 'memory_mib': 24105}],
            },
            host_detection.parse_lscpu(sample('lscpu'), {0: memory}),
        )

    def test_machines_of_the_papers(self) -> None:
        for name in ('vsphere6', 'vsan'):
            profile = host_profiles.load(name)
            mapping = host_detection.build_profile(
                name,
                host_detection.parse_lscpu(
                    lscpu(2, profile.cores_per_socket, 2),
                    {0: 131072, 1: 131072},
                ),
                None,
            )
            self.assertEqual(profile.cells, from_mapping(mapping, name).cells)

    def test_older_lscpu(self) -> None:
        old = lscpu(2, 4, 2)
        for cpu in old['cpus']:
            cpu |= {key: str(cpu[key]) for key in ('cpu', 'socket', 'core')}
            cpu |= {'online': 'yes', 'node': '-'}
        fields = host_detection.parse_lscpu(old, {0: 4096})
        self.assertEqual([{'cpus': '0-15', 'memory_mib': 4096}],
                         fields['cells'])  # fmt: skip

    def test_what_no_profile_describes(self) -> None:
        off = lscpu(1, 4, 2)
        off['cpus'][5] |= {
            'online': False, 'node': None, 'socket': None, 'core': None,
        }  # fmt: skip
        uneven = lscpu(1, 4, 2)
        del uneven['cpus'][7]
        wide = lscpu(2, 4, 1)
        wide['cpus'][4]['socket'] = 0
        for data, memory, message in (
            (off, {0: 64}, 'CPUs 5 are offline'),
            (uneven, {0: 64}, 'differ'),
            (wide, {0: 64, 1: 64}, 'differ'),
            (lscpu(2, 2, 1), {0: 64}, 'NUMA node 1'),
            (lscpu(1, 2, 1), {0: 64, 2: 64}, 'NUMA node 2'),
            ({'cpus': [{'cpu': 0}]}, {0: 64}, 'util-linux'),
            ({}, {0: 64}, 'util-linux'),
        ):
            self.assertIn(
                message, self.refused(host_detection.parse_lscpu, data, memory)
            )
        self.assertIn(
            'MemTotal', self.refused(host_detection.parse_meminfo, '')
        )

    def test_cpu_list(self) -> None:
        for cpus, text in (
            ([], ''),
            ([3], '3'),
            ([0, 1, 2, 8, 10, 11], '0-2,8,10-11'),
        ):
            self.assertEqual(text, host_detection.format_cpu_list(cpus))


class DataDisks(Refusals):
    """Disks of this machine."""

    def select(
        self,
        *disks: Any,
        requested: str | None = None,
        spin: bool | None = None,
    ) -> Any:
        return host_detection.select_data_disks(
            {'blockdevices': list(disks)}, requested, spin
        )

    def refusal(self, *disks: Any, **options: Any) -> str:
        return self.refused(self.select, *disks, **options)

    def test_sample_has_none(self) -> None:
        self.assertIsNone(
            host_detection.select_data_disks(sample('lsblk'), None, None)
        )

    def test_unused_ones(self) -> None:
        data = [disk(f'sd{letter}') for letter in 'bcdef']
        others = [
            disk('loop0', type='loop'),
            disk('zram0', size=10**9),
            disk('sdx', size=0),
            disk('sdy', rm=True),
            disk('sdz', ro=True),
        ]
        self.assertEqual(
            {'count': 5, 'size_gb': 600, 'rotational': True},
            self.select(SYSTEM, *data, *others),
        )

    def test_older_lsblk(self) -> None:
        """That of Debian 11 has one mount, that of RHEL 8 no flags."""

        def change(item: dict[str, Any]) -> dict[str, Any]:
            old = {
                key: str(int(value)) if key in ('ro', 'rm', 'rota') else value
                for key, value in item.items()
            }
            old['size'] = str(item['size'])
            old['mountpoint'] = old.pop('mountpoints')[0]
            if 'children' in item:
                old['children'] = [change(child) for child in item['children']]
            return old

        disks = (
            *(SYSTEM, disk('nvme0n1', rota=False)),
            *(disk('sdy', rm=True), disk('sdz', ro=True)),
        )
        self.assertEqual(
            {'count': 1, 'size_gb': 600, 'rotational': False},
            self.select(*map(change, disks)),
        )
        data = change(disk('sdb', mountpoints=['/data1']))
        self.assertIn('disks sdb contain', self.refusal(data))

    def test_one_that_may_be_either(self) -> None:
        for change in (
            {'mountpoints': ['/data1']},
            {'fstype': 'xfs'},
            {'children': [disk('sdc1', type='part')]},
        ):
            disks = SYSTEM, disk('sdb'), disk('sdc', **change)
            self.assertIn('disks sdc contain', self.refusal(*disks))
            data_disks = self.select(*disks, requested='/dev/sdb,sdc,sdb')
            self.assertEqual(2, data_disks['count'])
            self.assertIsNone(self.select(*disks, requested='none'))

    def test_unknown_or_different(self) -> None:
        small, flash = disk('sdc', size=10**9), disk('nvme0n1', rota=False)
        self.assertIn('differ', self.refusal(SYSTEM, disk('sdb'), small))
        self.assertIn('differ', self.refusal(SYSTEM, disk('sdb'), flash))
        self.assertFalse(self.select(flash)['rotational'])
        self.assertIn('no such disk', self.refusal(SYSTEM, requested='sdq'))

    def test_a_virtual_machine_does_not_know_whether_disks_spin(self) -> None:
        self.assertIn('--rotational', self.refusal(disk('vdb')))
        self.assertFalse(self.select(disk('vdb'), spin=False)['rotational'])

    def test_given(self) -> None:
        self.assertEqual(
            {'count': 20, 'size_gb': 600, 'rotational': True},
            host_detection.parse_disks_option('20x600', True),
        )
        self.assertEqual(2, self.select(requested='2x9', spin=True)['count'])
        for text in ('20', 'sdb', '', '2x', '20x600GB', '99999x1'):
            self.refused(host_detection.parse_disks_option, text, True)
        self.refused(host_detection.parse_disks_option, '20x600', None)


CLOUD: dict[str, Any] = {
    'host': 'compute1',
    'inventories': {
        'VCPU': {'total': 40},
        'MEMORY_MB': {'total': 262144, 'reserved': 512},
    },
    'traits': ['HW_CPU_HYPERTHREADING'],
    'cpu_info': {
        'topology': {'cells': 2, 'sockets': 1, 'cores': 10, 'threads': 2}
    },
}


class Cloud(Refusals):
    """Hosts of a cloud."""

    def call(self, path: str = '', value: Any = None, **options: Any) -> Any:
        """Detect, with one thing of the cloud's changed."""
        kwargs = copy.deepcopy(CLOUD) | options
        *way, last = path.split('.')
        inner = kwargs
        for name in way:
            inner = inner[name]
        if path:
            inner[last] = value
        return host_detection.parse_inventories(**kwargs)

    def test_all_is_told_or_said(self) -> None:
        expected = {
            'sockets': 2,
            'cores_per_socket': 10,
            'threads_per_core': 2,
            'memory_mib': 262144,
            'cells': 2,
        }
        self.assertEqual(expected, self.call(sockets=2, cells=2))
        pinned = {
            'VCPU': {'total': 8},
            'PCPU': {'total': 32},
            'MEMORY_MB': {'total': 262144},
        }
        # The output of libvirt on a host that is a container.
        empty = dict.fromkeys(('cells', 'sockets', 'cores', 'threads'))
        for cpu_info in ({}, None, {'topology': empty}):
            fields = self.call(
                inventories=pinned,
                cpu_info=cpu_info,
                sockets=2,
                cells=2,
                threads=2,
            )
            self.assertEqual(expected, fields)
        flat = {'cells': 1, 'sockets': 2, 'cores': 10, 'threads': 2}
        fields = self.call('cpu_info.topology', flat)
        self.assertEqual({**expected, 'cells': 1}, fields)

    def test_what_is_not_told_is_asked_for(self) -> None:
        for options, message in (
            ({}, '--cells'),
            ({'cells': 2}, 'of sockets. Set --sockets.'),
            (
                {'cells': 2, 'sockets': 2, 'cpu_info': {}},
                'of threads per core. Set --threads.',
            ),
            (
                {'cells': 2, 'cpu_info': {}},
                'of sockets and of threads per core. Set --sockets and '
                '--threads.',
            ),
            ({'cells': 4, 'sockets': 2}, 'but Nova reports 2'),
            ({'cells': 2, 'sockets': 3}, 'Correct --sockets'),
            ({'cells': 2, 'sockets': 2, 'threads': 1}, 'HYPERTHREADING'),
        ):
            self.assertIn(message, self.refused(self.call, **options))

    def test_what_does_not_fit(self) -> None:
        options = {'cells': 2, 'sockets': 2}
        for path, value, message in (
            ('inventories.VCPU.total', 36, '36 of 40 CPUs'),
            ('inventories', {}, 'no VCPU'),
            ('inventories', {'VCPU': {'total': 40}}, 'no VCPU, PCPU or MEM'),
        ):
            self.assertIn(
                message, self.refused(self.call, path, value, **options)
            )


class Profile(Refusals):
    """The whole profile."""

    def test_reserve_only_above_the_rule(self) -> None:
        fields = self.fields(262144)
        for reserved, expected in ((512, None), (15360, None), (15361, 15361)):
            data = host_detection.build_profile('a', fields, None, reserved)
            self.assertEqual(expected, data.get('reserved_memory_mib'))

    def test_names(self) -> None:
        text = self.refused(
            host_detection.build_profile, 'A b', self.fields(4096), None
        )
        self.assertIn("'name'", text)

    @staticmethod
    def fields(memory: int) -> dict[str, Any]:
        return host_detection.parse_lscpu(lscpu(1, 4, 2), {0: memory})
