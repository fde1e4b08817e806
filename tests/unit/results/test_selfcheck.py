# SPDX-License-Identifier: Apache-2.0
"""Each contradiction of a run record is named with its field."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import testtools

from hvstack.results import record_data, selfcheck
from hvstack.results.record_data import RunRecord
from tests import tamper
from tests.unit.results import factory

NOW = datetime(2026, 12, 1, tzinfo=UTC)
#: Changes that make a run invalid.
INVALID = {'valid': False, 'reason': 'its cluster died', 'rate': 0.0}
_HOST = 'seen/inventory/hv-host2'
_WORKER = 'seen/flavor/worker'
#: Changes of a field of a run of guests: path, value, and the contradictions
#: as texts with field and message.
GUESTS: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
    ('replication', 0, ('replication is 0, not 1 to 512',)),
    (
        *('replication', 3),
        ('replication is 3, more than 2 workers',),
    ),
    ('reason', 'slow', ('reason is set although the run is valid',)),
    ('seen/killed', ['x'], ('seen.killed is set although the run is valid',)),
    (
        *('valid', False),
        (
            'reason is empty although the run is not valid',
            'rate is 0.036',
        ),
    ),
    (
        *('started', '2999-01-01T00:00:00Z'),
        (
            'started is 2999-01-01 00:00, which is in the future',
            'ended is before the start of the run',
            'total_seconds is 100, but -30676904000 s lie between',
            'phases.0.began does not follow the phase before it',
        ),
    ),
    (
        *('ended', '2026-12-01T00:05:01Z'),
        (
            'ended is 2026-12-01 00:05, which is in the future',
            'total_seconds is 100, but 843601 s lie between',
        ),
    ),
    (
        *('started', '2013-12-31T23:59:59Z'),
        (
            'started is in 2013, before the benchmark existed',
            'total_seconds is 100, but',
        ),
    ),
    (
        *('ended', '2026-11-21T05:46:33Z'),
        (
            "total_seconds is 100, but 93 s lie between 'started'",
            'phases.4.began does not follow the phase before it',
        ),
    ),
    ('phases/2/began', ..., ('phases.2.began is missing',)),
    ('phases/1/began', 0.0, ('phases.1.began does not follow the phase',)),
    ('phases/4/began', 2e9, ('phases.4.began does not follow the phase',)),
    (
        *('phases/2/name', 'HSFast'),
        (
            'phases are HSGen, HSDataCheck, HSFast, HSDataCheck, HSValidate',
            'phases lack HSSort although the run is valid',
        ),
    ),
    (
        *('phases/2/seconds', 52.0),
        ('total_seconds is 100, but the phases took 102 s',),
    ),
    (
        *('phases/0/seconds', 10.0),
        (
            'total_seconds is 100, but the phases took only 85 s',
            'job_seconds of HSGen is 24, but the phase took 10 s',
        ),
    ),
    (
        *('phases/4/seconds', 1e9),
        (
            'phases have a time that is not a number of seconds',
            'phases.4.began does not follow the phase before it',
        ),
    ),
    ('phases/1/bytes', 1, ('phases.HSDataCheck has bytes 1, not 1000000000',)),
    ('phases/3/files', 1, ('phases.HSDataCheck has files 1, not 6',)),
    ('phases/1/blocks', 0, ('phases.HSDataCheck has no blocks',)),
    ('phases/1/blocks', ..., ('phases.HSDataCheck has no blocks',)),
    ('phases/1/blocks', 6.5, ('phases.HSDataCheck has 6.5 blocks, but',)),
    (
        *('phases/1/blocks', 960),
        (
            'phases.HSDataCheck has 960 blocks, but the data set has at '
            'most 959',
        ),
    ),
    (
        *('phases/1/blocks_on_one_host', 99),
        ("phases.HSDataCheck has no valid 'blocks_on_one_host'",),
    ),
    ('seen/blocks', 1, ('seen.blocks is 1, not that of the data check',)),
    (
        *('phases/2/counters/REDUCE_OUTPUT_RECORDS', 1),
        ('counters of HSSort have REDUCE_OUTPUT_RECORDS 1, but',),
    ),
    (
        *('phases/2/counters/REDUCE_INPUT_RECORDS', 1),
        ('counters of HSSort have REDUCE_INPUT_RECORDS 1, but',),
    ),
    (
        *('phases/0/counters/MAP_OUTPUT_RECORDS', ...),
        ('counters of HSGen have MAP_OUTPUT_RECORDS None, but',),
    ),
    (
        *('phases/4/counters/HDFS_BYTES_READ', 1),
        ('counters of HSValidate have HDFS_BYTES_READ 1, less than',),
    ),
    ('phases/4/counters/HDFS_BYTES_READ', ..., ()),
    ('phases/2/job_id', '', ('job_id of HSSort is missing',)),
    ('phases/2/job_id', 'job_1_0', ('job_id is the same in two phases',)),
    ('phases/2/state', 'FAILED', ("state of HSSort is 'FAILED' although",)),
    (
        *('phases/2/job_seconds', 56),
        (
            'job_seconds of HSSort is 56, but the phase took 50 s',
            'job_seconds of HSSort is not the sum of its two parts',
        ),
    ),
    ('phases/2/job_seconds', ..., ()),
    ('phases/2/map_shuffle_seconds', ..., ()),
    (
        *('phases/2/map_shuffle_seconds', 46),
        ('job_seconds of HSSort is not the sum of its two parts',),
    ),
    ('phases/0/maps', 3, ('maps of HSGen is 3, not 6',)),
    ('phases/0/maps', ..., ()),
    ('phases/2/reduces', 3, ('reduces of HSSort is 3, not 6',)),
    (
        *('seen/kit', {'metric': 1.0, 'run': 1}),
        ("derived is true although TPC's kit made the run",),
    ),
    ('seen/host_vcpus', 64, ('seen.host_vcpus is recorded on bare metal',)),
    (
        *('environment/backend', 'magic'),
        ("environment.backend is 'magic', which is unknown",),
    ),
    ('environment/backend', ..., ('environment.backend is None, which',)),
    ('seen/flavor', ..., ('seen.flavor has no vCPUs or memory of a worker',)),
    (
        *(f'{_WORKER}/extra_specs', {'hw:cpu_policy': 'dedicated'}),
        ("seen.flavor has hw:cpu_policy 'dedicated', but",),
    ),
    (
        f'{_WORKER}/name',
        'hv-test-worker-i4-c1-m1-local-shared-unpinned-v16-m32768-d20',
        ("seen.flavor has the name 'hv-test-worker-i4-c1-m1",),
    ),
    (f'{_WORKER}/name', 'another', ()),
    (
        *('seen/allocations', {'w': {'VCPU': 1, 'MEMORY_MB': 5}}),
        ('seen.allocations are of another flavor than the workers had',),
    ),
    ('seen/allocations', {}, ()),
    ('seen/inventory', ..., ('seen.inventory is missing',)),
    (f'{_HOST}/VCPU', ..., ('seen.inventory of hv-host2 has no VCPU',)),
    (
        *(f'{_HOST}/VCPU/allocation_ratio', 4.0),
        ('seen.inventory of hv-host2 has VCPU ratio 4.0, but',),
    ),
    (
        *(f'{_HOST}/MEMORY_MB/total', 131071),
        (
            'seen.flavor is too large: 2 guests with 65536 of MEMORY_MB '
            'exceed 131071 x 1 of hv-host2',
        ),
    ),
    (
        *('environment/hosts', 0),
        (
            'environment.hosts is 0',
            'environment.worker_hosts is 2 of 0',
        ),
    ),
    ('environment/hosts', 1, ('environment.worker_hosts is 2 of 1',)),
    ('environment/hosts', True, ()),
    ('environment/worker_hosts', 0, ('environment.worker_hosts is 0 of',)),
    # Guests may share hosts with controllers.
    ('environment/worker_hosts', 1, ()),
)
#: The same of a run on bare metal.
BARE_METAL: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
    (
        *('environment/backend', 'kvm'),
        ('environment.backend does not exist on bare metal',),
    ),
    ('seen/guest_vcpus', 2, ('seen.guest_vcpus does not exist on bare',)),
    ('seen/host_vcpus', 64, ()),
    (
        *('environment/worker_hosts', 3),
        ('environment.worker_hosts is 3, but 2 were observed',),
    ),
)
#: The same of a run of TPC's kit.
KIT: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
    ('seen/kit', ..., ("derived is false, but no run of TPC's kit",)),
    ('seen/kit/run', 3, ('seen.kit.run is 3, not 1 or 2',)),
    ('seen/kit/version', ..., ('seen.kit.version is missing',)),
    ('seen/kit/metric', ..., ('seen.kit.metric is None, but',)),
    ('seen/kit/metric', 1.9, ('seen.kit.metric is 1.9, but',)),
    (
        *('phases/1/name', 'HSFast'),
        (
            'phases are HSGen, HSFast, HSValidate, not those of the kit',
            'phases lack HSSort although the run is valid',
        ),
    ),
    ('phases/1/seconds', 802.0, ('total_seconds is 2000, but the phases',)),
    # Its log does not have all phases.
    ('phases/1/seconds', 1.0, ()),
)


def edit(record: RunRecord, changes: Mapping[str, Any]) -> RunRecord:
    """Return a record with other values of some fields."""
    for path, value in changes.items():
        record = factory.edit(record, path, value)
    return record


class ContradictionsTest(testtools.TestCase):
    def list_contradictions(self, record: RunRecord) -> list[str]:
        return [
            f'{field} {text}'
            for field, text in selfcheck.contradictions(record, NOW)
        ]

    def test_valid_records_have_none(self) -> None:
        for record in (tamper.guests(), tamper.bare_metal(), tamper.kit()):
            self.assertEqual([], self.list_contradictions(record))

    def test_each_field(self) -> None:
        for record, rows in (
            (tamper.guests(), GUESTS),
            (tamper.bare_metal(), BARE_METAL),
            (tamper.kit(), KIT),
        ):
            for path, value, expected in rows:
                texts = self.list_contradictions(edit(record, {path: value}))
                self.assertEqual(
                    [True] * max(len(expected), len(texts)),
                    [
                        text.startswith(start)
                        for text, start in zip(texts, expected, strict=False)
                    ],
                    (path, value, texts),
                )

    def test_what_a_backend_does_not_support(self) -> None:
        record = factory.run('i2-ceph', 0, 100)
        (text,) = self.list_contradictions(record)
        self.assertTrue(text.startswith('environment.backend is lxc: '), text)

    def test_size_of_whole_data_records(self) -> None:
        record = factory.edit(tamper.guests(), 'size_bytes', 10**9 + 1)
        self.assertIn(
            'size_bytes is 1000000001, not a multiple of 100',
            self.list_contradictions(record),
        )

    def test_an_invalid_run_may_be_incomplete(self) -> None:
        phases = factory.stored_phases(tamper.guests())
        for changes in (
            {'phases': []},
            {'phases': phases[:2]},
            {'ended': '2026-11-21T06:45:00Z'},
            {'phases/2/counters/MAP_INPUT_RECORDS': 1},
            {'seen/flavor': ...},
            {'seen/workers': 1},
        ):
            record = edit(tamper.guests(), INVALID | changes)
            self.assertEqual([], self.list_contradictions(record), changes)
        self.assertEqual(
            [], self.list_contradictions(edit(tamper.kit(), INVALID))
        )

    def test_a_valid_run_without_its_last_phase(self) -> None:
        record = tamper.guests()
        phases = factory.stored_phases(record)[:-1]
        self.assertEqual(
            ['phases lack HSValidate although the run is valid'],
            self.list_contradictions(factory.edit(record, 'phases', phases)),
        )

    def test_older_records_lack_the_starts_of_phases(self) -> None:
        starts = {f'phases/{number}/began': ... for number in range(5)}
        self.assertEqual(
            [], self.list_contradictions(edit(tamper.guests(), starts))
        )

    def test_a_kit_has_sizes_of_its_own(self) -> None:
        record = tamper.kit()
        facts = record.document['seen']
        assert isinstance(facts, dict) and isinstance(facts['kit'], dict)
        record = record_data.change(
            record,
            {
                'size_bytes': 2 * record.size_bytes,
                'rate': 2 * record.rate,
                'seen': {
                    **facts,
                    'kit': {**facts['kit'], 'metric': 2 * record.rate},
                },
            },
        )
        self.assertEqual(
            ["size_bytes is 2000000000000, not a size of TPC's kit"],
            self.list_contradictions(record),
        )

    def test_clocks_may_differ_by_some_minutes(self) -> None:
        record = tamper.guests()
        now = datetime(2026, 11, 21, 5, 42, tzinfo=UTC)
        self.assertIsNone(selfcheck.first_contradiction(record, now))
        earlier = datetime(2026, 11, 21, 5, 39, tzinfo=UTC)
        contradiction = selfcheck.first_contradiction(record, earlier)
        self.assertEqual('started', contradiction and contradiction[0])


class TextTest(testtools.TestCase):
    def test_characters_and_numbers_that_programs_read_differently(
        self,
    ) -> None:
        for canonical, expected in (
            (r'{"a": "\u001b"}', 'control characters'),
            (r'{"a": "\b"}', 'control characters'),
            (r'{"a": "\ud800"}', 'half of a character'),
            ('{"a": 1' + '0' * 30 + '}', '30 digits'),
            ('{"a": -1' + '0' * 30 + '}', '30 digits'),
        ):
            error = self.assertRaises(
                ValueError, selfcheck.check_text, canonical
            )
            self.assertIn(expected, str(error))
        for canonical in (
            r'{"a": "\t\n\\u001b\ud83d\ude00"}',
            '{"a": 1' + '0' * 29 + '}',
            '{"a": "x' + '0' * 40 + '"}',
        ):
            selfcheck.check_text(canonical)
