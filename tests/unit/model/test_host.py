# SPDX-License-Identifier: Apache-2.0
"""Test the validation of host profiles."""

import testtools

from hvstack import errors, host_profiles
from hvstack.model.host import HostPolicy, from_mapping

GOOD = {
    'name': 'small',
    'sockets': 2,
    'cores_per_socket': 4,
    'threads_per_core': 2,
    'memory_mib': 16384,
}


class FromMapping(testtools.TestCase):
    """Good profiles are read, all others get one line."""

    def refused(self, **changes: object) -> str:
        exc = self.assertRaises(
            errors.InputError, from_mapping, {**GOOD, **changes}, 'a.yaml'
        )
        text = str(exc)
        self.assertTrue(text.startswith('a.yaml: '), text)
        self.assertNotIn('\n', text)
        return text

    def test_cells_are_numbered_as_linux_does(self) -> None:
        host = from_mapping(GOOD, 'a.yaml')
        self.assertEqual(16, host.cpus)
        self.assertEqual(
            [(0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15)],
            [cell.cpus for cell in host.cells],
        )
        self.assertEqual([8192, 8192], [c.memory_mib for c in host.cells])

    def test_number_of_cells(self) -> None:
        host = from_mapping({**GOOD, 'cells': 4}, 'a.yaml')
        self.assertEqual((2, 3, 10, 11), host.cells[1].cpus)
        self.assertIn("'cells'", self.refused(cells=3))

    def test_mapping_and_back(self) -> None:
        for name in ('vsphere6', 'vsan', 'amd'):
            host = host_profiles.load(name)
            self.assertEqual(host, from_mapping(host.to_mapping(), 'again'))

    def test_every_field_survives(self) -> None:
        host = from_mapping(
            {
                **GOOD,
                'disks': {'count': 2, 'size_gb': 9, 'pci_alias': 'nvme'},
                'volumes': {'count': 1, 'size_gb': 5},
                'root_gb': 6,
                'vm_memory_mib': 1000,
                'reserved_memory_mib': 10,
                'controllers': 'host',
                'traits': {'worker': 'CUSTOM_W', 'local': 'HW_CPU_X86_AVX'},
                'cpu_cap': 0.65,
                'memory_cap_mib': 5000,
                'policy': {'lab': True, 'secondary_namenode': False},
            },
            'a.yaml',
        )
        self.assertEqual(host, from_mapping(host.to_mapping(), 'again'))
        self.assertEqual(
            HostPolicy(lab=True, secondary_namenode=False), host.policy
        )

    def test_no_mapping(self) -> None:
        for data in (None, [], 'text', 3):
            self.assertRaises(errors.InputError, from_mapping, data, 'a.yaml')

    def test_bad_fields(self) -> None:
        bad: list[tuple[str, object]] = [
            ('name', ''),
            ('name', 'Upper'),
            ('name', 'a/b'),
            ('sockets', 0),
            ('sockets', -1),
            ('sockets', True),
            ('sockets', '2'),
            ('sockets', 2.0),
            ('cores_per_socket', 10**6),
            ('threads_per_core', None),
            ('memory_mib', 10**12),
            ('vm_memory_mib', 20000),
            ('reserved_memory_mib', -5),
            ('root_gb', -1),
            ('controllers', 'many'),
            ('cpu_cap', 0),
            ('cpu_cap', 17),
            ('cpu_cap', float('nan')),
            ('colour', 'red'),
            ('policy', {'lab': 'yes'}),
            ('policy', {'kind': True}),
            ('policy', ['lab']),
            ('disks', {'count': 0, 'size_gb': 1}),
            ('disks', {'count': 1}),
            ('disks', {'count': 1, 'size_gb': 1, 'speed': 3}),
            ('disks', {'count': 1, 'size_gb': 1, 'rotational': 'yes'}),
            ('disks', {'count': 1, 'size_gb': 1, 'pci_alias': 'a b'}),
            ('disks', 3),
            ('volumes', {'count': 1}),
            ('traits', {'worker': 'custom_w'}),
            ('traits', {'worker': 'HADOOP_WORKER'}),
            ('traits', {'ceph': 'CUSTOM_'}),
            ('traits', {'ceph': f'CUSTOM_{"W" * 249}'}),
            ('traits', {'guest': 'CUSTOM_W'}),
            ('traits', ['CUSTOM_W']),
            ('cells', []),
            ('cells', 'two'),
        ]
        for field, value in bad:
            self.assertIn(field, self.refused(**{field: value}))

    def test_bad_cells(self) -> None:
        def cells(*pairs: tuple[str, int]) -> list[dict[str, object]]:
            return [{'cpus': c, 'memory_mib': m} for c, m in pairs]

        self.assertIn('once', self.refused(cells=cells(('0-14', 16384))))
        self.assertIn(
            'once', self.refused(cells=cells(('0-8', 8192), ('8-15', 8192)))
        )
        self.assertIn(
            '16000 MiB',
            self.refused(cells=cells(('0-7', 8000), ('8-15', 8000))),
        )
        for text in ('0-16', '7-0', 'a', '', '0-', '1;2'):
            self.assertIn(
                'cells.0.cpus', self.refused(cells=cells((text, 16384)))
            )

    def test_missing_fields(self) -> None:
        for field in GOOD:
            data = {key: value for key, value in GOOD.items() if key != field}
            exc = self.assertRaises(
                errors.InputError, from_mapping, data, 'a.yaml'
            )
            self.assertIn(f"'{field}' is missing", str(exc))
