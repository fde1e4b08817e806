# SPDX-License-Identifier: Apache-2.0
"""Approving: each condition refuses, and says what to do."""

import copy
from collections import Counter
from dataclasses import replace
from typing import Any

import testtools

from hvstack import errors
from hvstack.model import catalogue
from hvstack.model.configuration import parse
from hvstack.model.host import HostProfile, from_mapping
from hvstack.model.target import BARE_METAL
from hvstack.report import approval, sweep_report
from hvstack.results import evidence, signing
from hvstack.results.decision import SearchDecision
from hvstack.results.record_data import RunRecord
from tests.unit.results import factory
from tests.unit.results.factory import run

LAB = {
    'name': 'lab-worker',
    'sockets': 1,
    'cores_per_socket': 2,
    'threads_per_core': 1,
    'memory_mib': 4864,
    'reserved_memory_mib': 768,
    'controllers': 'host',
    'cpu_cap': 0.65,
    'memory_cap_mib': 4864,
    'policy': {'lab': True},
}


def lab(**changes: Any) -> HostProfile:
    """Return the profile of a lab's hosts, with changes."""
    return from_mapping(LAB | changes, 'lab')


class Sweep:
    """A catalogue of one configuration, and a sweep that measured it.

    Tests spoil one thing of it.
    """

    def __init__(
        self,
        configuration: str = 'i2',
        seconds: tuple[float, ...] = (101, 102, 100),
        profile: HostProfile | None = None,
    ) -> None:
        self.profile = profile or lab()
        data = catalogue.build_catalogue(self.profile, [parse(configuration)])
        self.catalogue = catalogue.from_mapping(data, lambda at: f'f:{at}')
        self.flavor = self.catalogue.entries[0].flavor
        self.observations: dict[str, Any] = {
            'hvstack': '0.1',
            'flavor': {
                'worker': {
                    'name': self.flavor.name,
                    'vcpus': self.flavor.vcpus,
                    'ram': self.flavor.ram,
                    'disk': self.flavor.disk,
                    'ephemeral': self.flavor.ephemeral,
                    'extra_specs': dict(self.flavor.extra_specs),
                }
            },
            'host_profile': {
                'worker': {
                    'name': self.profile.name,
                    'digest': self.profile.digest,
                }
            },
            'inventory': {
                'hv-host2': {
                    'VCPU': {'total': 2, 'allocation_ratio': 1.0},
                    'MEMORY_MB': {'total': 4864, 'allocation_ratio': 1.0},
                }
            },
        }
        self.records = [
            self.build_record(configuration, n, time)
            for n, time in enumerate(seconds)
        ] + [self.build_record(BARE_METAL, n, 99 + n) for n in range(3)]

    def build_record(
        self, configuration: str, index: int, seconds: float
    ) -> RunRecord:
        is_baseline = configuration == BARE_METAL
        observations = {} if is_baseline else copy.deepcopy(self.observations)
        record = run(
            configuration,
            index,
            seconds,
            observations=observations,
            hadoop='3.4.3',
        )
        return self.sealed(record)

    @staticmethod
    def sealed(record: RunRecord) -> RunRecord:
        return factory.with_digest(record)

    def edit(self, index: int, path: str, value: Any) -> None:
        """Change a run of the configuration."""
        record = factory.edit(self.measured[index], path, value)
        position = self.records.index(self.measured[index])
        self.records[position] = factory.with_digest(record)

    def edit_all(self, path: str, value: Any) -> None:
        """Change all runs of the configuration."""
        for index in range(len(self.measured)):
            self.edit(index, path, value)

    @property
    def measured(self) -> list[RunRecord]:
        """The configuration's runs."""
        return [record for record in self.records if record.kind != 'baseline']

    def approve(self, min_percent: float | None = None) -> dict[str, Any]:
        (approved_flavor,) = approval.approve(
            self.catalogue,
            [self.flavor.name],
            self.profile,
            self.records,
            min_percent,
        )
        return approved_flavor.evidence

    def refusal(self, min_percent: float | None = None) -> str:
        try:
            self.approve(min_percent)
        except errors.InputError as exc:
            return str(exc)
        return ''


class Approve(testtools.TestCase):
    """What is needed, and what the evidence says."""

    def assert_refused(self, sweep: Sweep, *parts: str) -> None:
        text = sweep.refusal()
        self.assertRegex(
            text,
            r"^Cannot approve flavor '[^']+' \(f:flavors\.0\.status\): .*\.$",
        )
        self.assertNotIn('\n', text)
        for word in parts:
            self.assertIn(word, text)

    def test_evidence_is_the_reports(self) -> None:
        sweep = Sweep()
        earned_evidence = sweep.approve()
        rows = sweep_report.build_report(sweep.records).rows
        (percent,) = (row.percent for row in rows if row.percent is not None
                      and row.configuration != BARE_METAL)  # fmt: skip
        assert percent is not None and percent.low is not None
        self.assertEqual(
            (round(percent.percent, 2), round(percent.low, 2), 3, 3),
            (
                earned_evidence['percent'],
                earned_evidence['low'],
                earned_evidence['runs'],
                earned_evidence['baseline_runs'],
            ),
        )
        self.assertEqual(
            ('lxc', 10**9, '2026-11-21', 'quick', 'lab-worker', 90),
            tuple(
                earned_evidence[name]
                for name in (
                    'backend',
                    'size_bytes',
                    'date',
                    'sweep',
                    'host',
                    'min_percent',
                )
            ),
        )
        self.assertEqual(
            {'nova': '34.0.0', 'hadoop': '3.4.3', 'hvstack': '0.1'},
            earned_evidence['releases'],
        )
        self.assertEqual(
            evidence.compute_digest(sweep.records), earned_evidence['digest']
        )

    def test_unknown_flavor(self) -> None:
        sweep = Sweep()
        name = sweep.flavor.name + 'x'
        exc = self.assertRaises(
            errors.InputError,
            approval.approve,
            sweep.catalogue,
            [name],
            sweep.profile,
            sweep.records,
        )
        self.assertIn(f"such as '{sweep.flavor.name}'", str(exc))

    def test_not_measured(self) -> None:
        sweep = Sweep()
        sweep.records = [
            Sweep('i1').measured[0],
            *(record for record in sweep.records if record.kind == 'baseline'),
        ]
        self.assert_refused(sweep, 'no run of', 'Measure it')

    def test_all_or_none(self) -> None:
        sweep = Sweep()
        controller = sweep.catalogue.entries[1].flavor.name
        exc = self.assertRaises(
            errors.InputError,
            approval.approve,
            sweep.catalogue,
            [sweep.flavor.name, controller],
            sweep.profile,
            sweep.records,
        )
        self.assertIn(controller, str(exc))

    def test_the_answer_of_a_search_was_not_confirmed(self) -> None:
        """Without a FLAVOR, the runner-up is no substitute for it."""
        sweep = Sweep()
        decision = SearchDecision(
            *(parse('i4').name, parse('i2').name, 0.004, 9, True)
        )
        others = [
            run('i4', index, 90, hadoop='3.3.6', sweep='quick')
            for index in range(3)
        ]
        for records in (sweep.records, [*sweep.records, *others]):
            error = self.assertRaises(
                errors.InputError,
                approval.approve,
                *(sweep.catalogue, [], sweep.profile, records),
                decision=decision,
            )
            self.assertIn('it has no winner (i2 is best: ', str(error))
        (approved_flavor,) = approval.approve(
            *(sweep.catalogue, [], sweep.profile, sweep.records),
            decision=replace(
                decision, winner=parse('i2').name, runner_up=parse('i4').name
            ),
        )
        self.assertEqual(sweep.flavor.name, approved_flavor.entry.flavor.name)

    def test_one_good_run_is_not_enough(self) -> None:
        self.assert_refused(Sweep(seconds=(100,)), '1 run of i2')
        sweep = Sweep(seconds=(100, 101))
        for path, value in (
            ('valid', False),
            ('rate', 0.0),
            ('reason', 'checksum differs'),
        ):
            sweep.edit(1, path, value)
        self.assert_refused(sweep, '1 run of i2', 'checksum differs')

    def test_a_run_that_failed_for_good(self) -> None:
        """The percentage of the runs that survived is not approved."""
        sweep = Sweep()
        tries = [
            sweep.sealed(run('i2', 3, 9, reason=reason, started=started))
            for reason, started in (
                ('its cluster died', '2026-11-21T05:45:00Z'),
                ('its cluster died again', '2026-11-21T05:46:00Z'),
            )
        ]
        # It may be tried again.
        sweep.records.append(tries[0])
        self.assertEqual(3, sweep.approve()['runs'])
        sweep.records.append(tries[1])
        self.assert_refused(sweep, 'failed for good', 'its cluster died again')

    def test_one_good_run_of_the_baseline_is_not_enough(self) -> None:
        sweep = Sweep()
        del sweep.records[4:]
        self.assert_refused(sweep, '1 run of bare metal')

    def test_comparison_must_be_valid(self) -> None:
        sweep = Sweep()
        sweep.edit(0, 'environment/hadoop', '3.3.6')
        self.assert_refused(sweep, 'hadoop is 3.3.6 here and 3.4.3 there')

    def test_other_host_profile(self) -> None:
        sweep = Sweep()
        sweep.edit(2, 'seen/host_profile/worker/name', 'vsan')
        self.assert_refused(sweep, "on host profile 'vsan'")
        sweep = Sweep()
        sweep.profile = lab(cpu_cap=0.7)
        self.assert_refused(sweep, 'has changed since')
        sweep = Sweep()
        sweep.edit(1, 'seen/host_profile', ...)
        self.assert_refused(sweep, 'do not say on which host profile')

    def test_other_flavor(self) -> None:
        for name, value in (
            ('vcpus', 2),
            ('ram', 2047),
            ('disk', 11),
            ('ephemeral', 1),
            ('extra_specs', {}),
            ('extra_specs', {'quota:cpu_shares': '1'}),
        ):
            sweep = Sweep()
            sweep.edit(1, f'seen/flavor/worker/{name}', value)
            self.assert_refused(sweep, 'that was measured has ')
        sweep = Sweep()
        sweep.edit(0, 'seen/flavor', {})
        self.assert_refused(sweep, 'do not say which flavor')

    def test_published_evidence_is_no_other_flavor(self) -> None:
        sweep = Sweep()
        sweep.edit_all(
            'seen/flavor/worker/extra_specs/hvstack:evidence', 'percent=98'
        )
        self.assertEqual('', sweep.refusal())

    def test_ratio_asked(self) -> None:
        for configuration in ('i2-c2', 'i2-m1.1'):
            self.assert_refused(Sweep(configuration), 'over-subscribes')

    def test_ratio_seen(self) -> None:
        for resource_class in ('VCPU', 'MEMORY_MB'):
            sweep = Sweep()
            host = f'seen/inventory/hv-host2/{resource_class}'
            sweep.edit(2, f'{host}/allocation_ratio', 1.5)
            self.assert_refused(
                sweep, f'ratio 1.5 of {resource_class} on hv-host2'
            )
            sweep.edit(2, host, ...)
            self.assert_refused(sweep, 'no CPUs or memory of hv-host2')
        sweep = Sweep()
        sweep.edit(0, 'seen/inventory', ...)
        self.assert_refused(sweep, "Placement's inventories")

    def test_backends(self) -> None:
        for backend, message in (
            ('qemu', 'says nothing'),
            ('esx', 'Measure it on kvm'),
        ):
            sweep = Sweep()
            sweep.edit_all('environment/backend', backend)
            self.assert_refused(sweep, message)
        sweep.edit_all('environment/backend', 'kvm')
        self.assertEqual('', sweep.refusal())

    def test_lxc_is_for_a_lab(self) -> None:
        for missing in ({'cpu_cap', 'memory_cap_mib'}, {'policy'}):
            plain = from_mapping(
                {name: LAB[name] for name in LAB if name not in missing},
                'lab',
            )
            self.assert_refused(Sweep(profile=plain), 'capped hosts only')

    def test_every_spec_is_honoured(self) -> None:
        sweep = Sweep('i2-dedicated')
        self.assert_refused(sweep, 'lxc does not honour extra_specs.hw:')
        sweep.edit_all('environment/backend', 'kvm')
        self.assertEqual('', sweep.refusal())
        disks = lab(disks={'count': 2, 'size_gb': 10})
        self.assert_refused(Sweep(profile=disks), 'honour ephemeral')

    def test_pool_of_one_copy(self) -> None:
        sweep = Sweep('i2-ceph')
        sweep.edit_all('environment/backend', 'kvm')
        self.assert_refused(sweep, 'how many copies')
        sweep.edit_all('seen/ceph_pools', {'volumes': 3, 'fast': 1})
        self.assert_refused(sweep, "'fast' kept one copy")
        sweep.edit_all('seen/ceph_pools', {'volumes': 3, 'fast': 2})
        self.assertEqual(2, sweep.approve()['pool_size'])

    def test_lower_bound(self) -> None:
        sweep = Sweep(seconds=(110, 110, 110))
        self.assert_refused(sweep, 'may be less than the 90 that are needed')
        # Its mean reaches 90 all the same, and another bar can be set.
        self.assertIn('90.9 % of bare metal', sweep.refusal())
        self.assertEqual(85, sweep.approve(85)['min_percent'])
        self.assertIn('than the 99', Sweep().refusal(99))
        for min_percent in (float('nan'), -1, 1e9):
            self.assertIn("'min_percent' is", sweep.refusal(min_percent))

    def test_a_single_cluster_has_no_interval(self) -> None:
        sweep = Sweep(seconds=(101, 102))
        sweep.edit_all('seen/cluster', 'CID-single')
        self.assertIn('has no interval. Measure it', sweep.refusal())

    def test_records_that_are_not_verified_are_counted(self) -> None:
        sweep = Sweep()
        self.assertNotIn('unverified', sweep.approve())
        sweep.records[0] = replace(
            sweep.records[0], unverified='is not signed'
        )
        self.assertEqual(1, sweep.approve()['unverified'])

    def test_no_change_if_it_says_so_already(self) -> None:
        sweep = Sweep()
        data = catalogue.build_catalogue(sweep.profile, [parse('i2')])
        data['flavors'][0] |= {
            'status': 'approved',
            'evidence': sweep.approve(),
        }
        again = catalogue.from_mapping(data, str)
        names = [sweep.flavor.name]
        for record, changed in ((None, False), (sweep.measured[-1], True)):
            if record is not None:
                sweep.records.remove(record)
            (approved_flavor,) = approval.approve(
                again, names, sweep.profile, sweep.records
            )
            self.assertEqual(changed, approved_flavor.changed)


class Verify(testtools.TestCase):
    """The digest ties an entry to its records."""

    def setUp(self) -> None:
        super().setUp()
        self.sweep = Sweep()
        self.data = catalogue.build_catalogue(
            self.sweep.profile, [parse('i2')]
        )
        self.data['flavors'][0] |= {
            'status': 'approved',
            'evidence': self.sweep.approve(),
        }

    def verify(self, records: list[RunRecord]) -> None:
        parsed_catalogue = catalogue.from_mapping(
            self.data, lambda at: f'f:{at}'
        )
        evidence.verify_evidence(parsed_catalogue.entries[0], records)

    def refused(self, records: list[RunRecord]) -> str:
        exc = self.assertRaises(errors.InputError, self.verify, records)
        text = str(exc)
        pattern = r"(Cannot check the evidence of flavor '[^']*' \()?"
        self.assertRegex(text, f'^{pattern}f:flavors.0.evidence')
        return text

    def test_same_records_in_any_order_beside_others(self) -> None:
        other = run('i2', 5, 90, sweep='another')
        failed = run('i2', 6, 90, reason='killed')
        wider = run(BARE_METAL, 7, 90, size=2 * 10**9)
        others = [other, failed, wider, run('i1', 0, 90)]
        self.verify([*others, *reversed(self.sweep.records)])

    def test_a_drift_is_taken_out_on_both_sides(self) -> None:
        sweep = Sweep(seconds=())
        names = [BARE_METAL, 'i2'] * 4 + [BARE_METAL]
        for hour, name in enumerate(names):
            # Later runs of i2 than of bare metal, and all become slower.
            record = sweep.build_record(
                name, hour // 2, 100 * 1.2**hour + hour % 3
            )
            record = factory.edit(
                record, 'started', f'2026-11-21T{hour:02}:00:00Z'
            )
            sweep.records.append(sweep.sealed(record))
        del sweep.records[:3]
        sweep.records.remove(sweep.measured[0])
        assert sweep_report.build_report(sweep.records).corrected_rates.drift
        self.data['flavors'][0]['evidence'] = sweep.approve(80)
        self.verify(sweep.records)

    def test_other_configurations(self) -> None:
        """They determine the effects of the passes, too."""
        sweep = Sweep(seconds=())
        order = [
            *((BARE_METAL, 0, 100), ('i2', 0, 105), ('i1', 0, 100)),
            *((BARE_METAL, 0, 100), ('i1', 1, 94), ('i2', 1, 105)),
            *((BARE_METAL, 1, 100), ('i2', 2, 108), ('i1', 2, 101)),
        ]
        del sweep.records[:]
        counts = Counter[str]()
        other = ''
        for hour, (name, pass_number, seconds) in enumerate(order):
            record = sweep.build_record(name, counts[name], seconds)
            other = record.configuration if name == 'i1' else other
            counts[name] += 1
            for field, value in (
                ('started', f'2026-11-21T{hour:02}:00:00Z'),
                ('seen/pass', pass_number),
            ):
                record = factory.edit(record, field, value)
            sweep.records.append(sweep.sealed(record))
        written = sweep.approve(50)
        self.data['flavors'][0]['evidence'] = written
        report = sweep_report.build_report(
            [item for item in sweep.records if item.configuration != other]
        )
        (row,) = (row for row in report.rows if row.label == 'i2')
        assert row.percent
        self.assertGreater(abs(row.percent.percent - written['percent']), 0.02)
        self.verify(sweep.records)

    def test_missing_and_added(self) -> None:
        self.assertIn('5 records', self.refused(self.sweep.records[:-1]))
        extra_record = Sweep.sealed(run('i2', 9, 90))
        self.assertIn(
            '7 records', self.refused([*self.sweep.records, extra_record])
        )
        for records in ([], self.sweep.measured, self.sweep.records[3:]):
            self.assertIn(
                'does not contain the runs and the baseline',
                self.refused(records),
            )

    def test_edited_evidence(self) -> None:
        written = self.data['flavors'][0]['evidence']
        for field, value, message in (
            ('percent', 99.9, 'is 99.9, but the records result in'),
            ('runs', 30, 'is 30, but the records result in 3'),
            ('baseline_runs', 30, 'is 30, but the records result in 3'),
            ('digest', '0' * 64, "'digest' of flavor"),
            ('low', 96.0, 'has a signature that does not fit the content'),
            ('high', 96.0, 'has a signature that does not fit the content'),
            ('date', '2026-11-20', 'but the records result in 2026-11-21'),
            ('min_percent', 10, 'has a signature that does not fit'),
            ('backend', 'kvm', 'but the records result in lxc'),
            ('signature', {'key': 'x', 'value': 'y'}, 'was edited'),
        ):
            edited = {**written, field: value}
            self.data['flavors'][0]['evidence'] = edited
            self.assertIn(message, self.refused(self.sweep.records))

    def test_evidence_moved_to_another_flavor(self) -> None:
        for name, value in (('ram', 512), ('name', 'large'), ('vcpus', 64)):
            before = self.data['flavors'][0][name]
            self.data['flavors'][0][name] = value
            self.assertIn('was edited', self.refused(self.sweep.records))
            self.data['flavors'][0][name] = before
        self.verify(self.sweep.records)

    def test_another_machine_and_older_evidence(self) -> None:
        parsed_catalogue = catalogue.from_mapping(
            self.data, lambda at: f'f:{at}'
        )
        verify = (
            evidence.verify_evidence,
            parsed_catalogue.entries[0],
            self.sweep.records,
        )
        no_policy = signing.Policy({}, {})
        exc = self.assertRaises(errors.InputError, *verify, no_policy)
        self.assertIn('which is not trusted', str(exc))
        unsigned_policy = signing.Policy({}, {}, unsigned=True)
        self.assertIn('not trusted', verify[0](*verify[1:], unsigned_policy))
        del self.data['flavors'][0]['evidence']['signature']
        older = catalogue.from_mapping(self.data, str).entries[0]
        self.assertEqual(
            'is not signed',
            verify[0](older, self.sweep.records, unsigned_policy),
        )

    def test_90_is_90(self) -> None:
        written = self.data['flavors'][0]['evidence']
        written['min_percent'] = float(written['min_percent'])
        self.verify(self.sweep.records)

    def test_what_the_signature_covers(self) -> None:
        entry = catalogue.from_mapping(self.data, str).entries[0]
        signed = evidence.format_canonical(entry, {'percent': 90})
        for value, is_equal in ((90.0, True), (90.5, False)):
            text = evidence.format_canonical(entry, {'percent': value})
            self.assertEqual(is_equal, text == signed)
        flavor = replace(entry.flavor, description='for tenants')
        described = replace(entry, flavor=flavor)
        self.assertEqual(
            signed, evidence.format_canonical(described, {'percent': 90})
        )

    def test_candidate(self) -> None:
        self.data['flavors'][0]['status'] = 'candidate'
        self.assertIn('has no evidence', self.refused(self.sweep.records))
