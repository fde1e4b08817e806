# SPDX-License-Identifier: Apache-2.0
"""Test which measurements are comparable."""

import testtools

from hvstack import errors
from hvstack.results.comparability import (
    check_fact_names,
    list_allowed_differences,
    list_differences,
    list_record_differences,
    list_swept_facts,
    list_unknown_facts,
    require_comparable,
)
from tests.unit.results import factory
from tests.unit.results.factory import run


class Comparable(testtools.TestCase):
    """Only what was swept may differ."""

    def test_same(self) -> None:
        require_comparable(run('i1', 0, 90), run('i2', 0, 100))

    def test_bare_metal_has_no_nova(self) -> None:
        require_comparable(run('i1', 0, 90), run('bare-metal', 0, 100))

    def test_two_releases_of_nova_differ(self) -> None:
        exc = self.assertRaises(
            errors.NotComparableError,
            require_comparable,
            run('i1', 0, 90, nova='33.0.0'),
            run('i2', 0, 90),
        )
        self.assertEqual(
            ['nova is 33.0.0 here and 34.0.0 there'], exc.differences
        )

    def test_each_difference_has_a_line(self) -> None:
        exc = self.assertRaises(
            errors.NotComparableError,
            require_comparable,
            run('i1', 0, 90, cpu_model='Opteron', smt=1),
            run('bare-metal', 0, 90, size=2 * 10**9),
        )
        self.assertEqual(
            [
                'size_bytes is 1000000000 here and 2000000000 there',
                'cpu_model is Opteron here and Xeon there',
                'smt is 1 here and missing there',
            ],
            exc.differences,
        )

    def test_kit_and_stand_in_differ(self) -> None:
        kit = factory.edit(run('i1', 0, 90), 'derived', False)
        self.assertRaises(
            errors.NotComparableError,
            require_comparable,
            kit,
            run('i1', 0, 90),
        )

    def test_swept_fields_may_differ(self) -> None:
        self.assertEqual([], list_differences({'a': 1}, {'a': 2}, {'a'}))
        self.assertEqual(
            ['a is 1 here and missing there'], list_differences({'a': 1}, {})
        )

    def test_only_entries_that_differ_are_told(self) -> None:
        hosts = {
            f'hv-host{n}': {'cpu': 0.65, 'memory_mib': 4864} for n in 'ab'
        }
        other = {**hosts, 'hv-hostb': {'cpu': 0.455, 'memory_mib': 4864}}
        self.assertEqual(
            [
                "caps is {'hv-hostb': {'cpu': 0.65}} here and "
                "{'hv-hostb': {'cpu': 0.455}} there"
            ],
            list_differences({'caps': hosts}, {'caps': other}),
        )

    def test_a_long_value_ends_at_a_word(self) -> None:
        (line,) = list_differences({'a': 'word ' * 100}, {})
        self.assertIn('word word ... here and missing there', line)
        self.assertTrue(len(line) < 300, line)

    def test_replication_is_refused_by_name(self) -> None:
        record, other = run('i1', 0, 90), run('bare-metal', 0, 90)
        other = factory.edit(other, 'replication', 3)
        exc = self.assertRaises(
            errors.NotComparableError, require_comparable, record, other
        )
        self.assertIn('replication is 2 here and 3 there', str(exc))
        other = factory.edit(other, 'replication', 2)
        require_comparable(record, other)

    def test_the_baseline_has_its_own_kernel(self) -> None:
        guest = run('i1', 0, 90, kernel='6.1', mtu='1450', disk='xfs')
        host = run('bare-metal', 0, 90, kernel='6.12', mtu='9000', disk='ext4')
        require_comparable(guest, host)
        other = run('i2', 0, 90, kernel='6.12', mtu='9000', disk='ext4')
        exc = self.assertRaises(
            errors.NotComparableError, require_comparable, guest, other
        )
        self.assertEqual(
            ['disk', 'kernel', 'mtu'],
            [line.split()[0] for line in exc.differences],
        )

    def test_worker_hosts_are_shown_not_compared(self) -> None:
        require_comparable(
            run('i2', 0, 90, worker_hosts=31.5),
            run('bare-metal', 0, 90, worker_hosts=31),
        )

    def test_allowed(self) -> None:
        record = run('i1', 0, 90, caps={'h': {'cpu': 0.7}}, jre='17')
        other = run('bare-metal', 0, 90, caps={'h': {'cpu': 1.0}}, jre='21')
        self.assertEqual(
            ['jre is 17 here and 21 there'],
            list_record_differences(record, other, ['caps']),
        )
        self.assertEqual(
            ["caps is {'h': {'cpu': 0.7}} here and {'h': {'cpu': 1.0}} there"],
            list_allowed_differences(record, other, ['caps']),
        )
        self.assertEqual(
            ['caps'], check_fact_names(['caps', 'caps'], [record])
        )
        exc = self.assertRaises(
            errors.InputError, check_fact_names, ['cap'], [record]
        )
        self.assertIn("--allow 'cap'", str(exc))

    def test_a_fact_of_any_record_may_be_allowed(self) -> None:
        records = [run('i1', n, 90, **{f'fact{n}': 1}) for n in range(4)]
        iterator = iter(records)
        self.assertEqual(
            ['fact1', 'caps'], check_fact_names(['fact1', 'caps'], iterator)
        )
        # No more records are read than are needed.
        self.assertEqual(records[2:], list(iterator))
        self.assertRaises(
            errors.InputError, check_fact_names, ['fact1'], records[2:]
        )

    def test_bare_metal_sweeps_nothing(self) -> None:
        self.assertEqual(
            frozenset(), list_swept_facts(run('bare-metal', 0, 90))
        )

    def test_facts_that_nobody_recorded(self) -> None:
        record = run('i1', 0, 90, governor=None, smt='0')
        self.assertIn('governor', list_unknown_facts([record]))
        self.assertNotIn('smt', list_unknown_facts([record]))

    def test_facts_of_hosts_that_guests_cannot_see(self) -> None:
        baseline = run('bare-metal', 0, 90, smt='0')
        kvm = run('i1', 0, 90, backend='kvm', cpu_model=None)
        require_comparable(kvm, baseline)
        self.assertIn('cpu_model', list_unknown_facts([kvm, baseline]))
        # The lab's hosts are seen, and containers see them.
        for other in (
            run('i1', 0, 90, backend='kvm', cpu_model='Opteron', smt='0'),
            run('i1', 0, 90, backend='lxc', cpu_model=None, smt='0'),
        ):
            exc = self.assertRaises(
                errors.NotComparableError, require_comparable, other, baseline
            )
            self.assertIn('cpu_model', str(exc))
            self.assertEqual(1, len(exc.differences))

    def test_releases_that_are_not_known(self) -> None:
        facts = list_unknown_facts(
            [run('i1', 0, 90, backend='kvm', nova='API 2.104')]
        )
        self.assertEqual(
            [
                "Nova's release (its API reports a microversion alone)",
                'qemu',
                'libvirt',
            ],
            facts[-3:],
        )
        lxc = run('i1', 0, 90, libvirt='9.0.0')
        self.assertNotIn('qemu', list_unknown_facts([lxc]))
        self.assertNotIn('libvirt', list_unknown_facts([lxc]))
        self.assertNotIn(
            'nova', list_unknown_facts([run('bare-metal', 0, 90)])
        )

    def test_facts_that_older_records_lack(self) -> None:
        old = run('i1', 0, 90)
        new = run('bare-metal', 0, 90, data_disks='1')
        require_comparable(old, new)
        self.assertIn('data_disks', list_unknown_facts([old, new]))
        self.assertNotIn('data_disks', list_unknown_facts([new]))
        self.assertRaises(
            errors.NotComparableError,
            require_comparable,
            run('i1', 0, 90, data_disks='5'),
            new,
        )

    def test_disks_of_the_host(self) -> None:
        twenty = {'count': 20, 'kind': 'rotational', 'size_gb': 600}
        bare_metal = run(
            'bare-metal',
            0,
            90,
            data_disks='20',
            host_disks=twenty,
            disk_access='bare metal',
        )
        local = {'disk_access': 'local ephemeral', 'data_disks': '1'}
        # 20 disks in one volume, whatever the number of workers.
        for name in ('i1', 'i4'):
            guests = run(name, 0, 90, host_disks=twenty, **local)
            require_comparable(guests, bare_metal)
        guests = run('i1', 0, 90, host_disks={'count': 1}, **local)
        self.assertEqual(
            [
                'host_disks is 1 disk (local ephemeral) here and 20 '
                'rotational disks of 600 GB (bare metal) there'
            ],
            list_record_differences(guests, bare_metal),
        )
        self.assertEqual(
            [], list_record_differences(guests, bare_metal, {'host_disks'})
        )
        # Disk pinning is swept, but other disks than bare metal's are not.
        for count, expected in ((20, []), (1, ['host_disks'])):
            pinned = run(
                'i1-pinned',
                0,
                90,
                data_disks='5',
                host_disks={**twenty, 'count': count},
                disk_access='pinned volume',
            )
            lines = list_record_differences(
                pinned, bare_metal, list_swept_facts(pinned)
            )
            self.assertEqual(expected, [line.split()[0] for line in lines])
        # Which disks Ceph has is not known, and the report says so.
        ceph = run(*('i1-ceph', 0, 90), data_disks='5', disk_access='Ceph')
        require_comparable(ceph, bare_metal, list_swept_facts(ceph))
        self.assertIn('host_disks', list_unknown_facts([ceph, bare_metal]))
        self.assertNotIn('host_disks', list_unknown_facts([bare_metal]))
        # Without this fact, file systems are compared as before.
        old = run('i1', 0, 90, data_disks='1')
        self.assertEqual(
            ['data_disks'],
            [
                line.split()[0]
                for line in list_record_differences(old, bare_metal)
            ],
        )

    def test_caches_of_one_side(self) -> None:
        message = 'caches were not dropped (Read-only file system)'
        baseline = run('bare-metal', 0, 90, caches_dropped=True)
        guests = run(
            'i1',
            0,
            90,
            caches_dropped=False,
            observations={'before_run': ['disks of w1 were busy', message]},
        )
        self.assertEqual(
            [f'caches_dropped is False here and True there: {message}'],
            list_record_differences(guests, baseline),
        )
        self.assertEqual(
            [], list_record_differences(guests, baseline, {'caches_dropped'})
        )
        for value in (True, False):
            require_comparable(
                run('i1', 0, 90, caches_dropped=value),
                run('bare-metal', 0, 90, caches_dropped=value),
            )
        old = run('i1', 0, 90)
        require_comparable(old, baseline)
        self.assertIn('caches_dropped', list_unknown_facts([old, baseline]))

    def test_how_volumes_are_reached(self) -> None:
        old, rbd, iscsi = (
            run('i1-pinned', 0, 90, storage=storage)
            for storage in (None, 'ceph', 'iSCSI')
        )
        require_comparable(old, rbd)
        require_comparable(iscsi, run('bare-metal', 0, 90))
        self.assertEqual(
            ['storage is ceph here and iSCSI there'],
            list_record_differences(rbd, iscsi),
        )
