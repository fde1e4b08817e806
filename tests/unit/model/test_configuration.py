# SPDX-License-Identifier: Apache-2.0
"""Test the names and the limits of configurations."""

import testtools
from hypothesis import given, settings
from hypothesis import strategies as st

from hvstack import errors
from hvstack.model.compute_backends import unsupported_parameter
from hvstack.model.configuration import Configuration, parse

RATIOS = st.decimals('0.1', '40', places=3).map(float)


class Names(testtools.TestCase):
    """A configuration, its name and its label are one and the same."""

    def test_examples(self) -> None:
        pinned = Configuration(4, cpu_policy='dedicated', disk_pinning=True)
        self.assertEqual('i4-c1-m1-local-dedicated-pinned', pinned.name)
        self.assertEqual('i4-dedicated-pinned', pinned.label)
        self.assertEqual('i1', Configuration().label)
        self.assertEqual('i2-c2', Configuration(2, 2.0).label)
        self.assertEqual('i2-m1.2', Configuration(2, ram_ratio=1.20).label)
        self.assertEqual('i10-c0.5', Configuration(10, 0.5).label)

    @settings(max_examples=100)
    @given(
        st.integers(1, 1024),
        RATIOS,
        RATIOS,
        st.sampled_from(['local', 'ceph']),
        st.booleans(),
    )
    def test_round_trip(
        self, count: int, cpu: float, ram: float, storage: str, pin: bool
    ) -> None:
        configuration = Configuration(count, cpu, ram, storage, 'shared', pin)
        self.assertEqual(configuration, parse(configuration.name))
        self.assertEqual(configuration, parse(configuration.label))

    def test_nonsense(self) -> None:
        for text in (
            '',
            'i',
            'i0',
            'i2-',
            'i1.5',
            'i2-i3',
            'i2-c',
            'i2-c-1',
            'i2-c0',
            'i2-local-ceph',
            'i2-x',
            'I2',
            'i99999',
            'i2-dedicated-c2',
        ):
            exc = self.assertRaises(errors.InputError, parse, text)
            self.assertNotIn('\n', str(exc))

    def test_bad_values(self) -> None:
        for values in (
            {'instances': 0},
            {'cpu_ratio': 0},
            {'ram_ratio': float('inf')},
            {'ram_ratio': 1.2345},
            {'storage': 'nfs'},
            {'cpu_policy': 'mixed'},
        ):
            self.assertRaises(errors.InputError, Configuration, **values)


class Backends(testtools.TestCase):
    """What a backend cannot honour is refused."""

    def test_lxc(self) -> None:
        for good in ('i1', 'i2-c2', 'i2-m1.2'):
            self.assertIsNone(unsupported_parameter(parse(good), 'lxc'))
        for bad in ('i2-dedicated', 'i2-ceph', 'i2-pinned'):
            reason = unsupported_parameter(parse(bad), 'lxc')
            self.assertIn(bad, reason or '')

    def test_hypervisors_honour_all(self) -> None:
        every = parse('i4-ceph-dedicated-pinned')
        for backend in ('kvm', 'qemu'):
            self.assertIsNone(unsupported_parameter(every, backend))

    def test_unknown(self) -> None:
        self.assertRaises(
            errors.InputError, unsupported_parameter, parse('i1'), 'xen'
        )
