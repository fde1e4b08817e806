# SPDX-License-Identifier: Apache-2.0
import testtools

from hvstack.report import answer, findings
from hvstack.results.record import Record
from tests.unit.report.test_page import counted
from tests.unit.results.factory import run

SMALL = {'hv-host2': {'memory_mib': 4864}}


class Findings(testtools.TestCase):
    """Each is found once it is there, and not before."""

    def found(self, *records: Record) -> dict[str, str]:
        return {
            one.title: one.evidence
            for one in findings.find(answer.build(records))
        }

    def test_a_clean_run_has_none(self) -> None:
        self.assertEqual({}, self.found(counted(run('i1', 0, 9))))

    def test_page_cache(self) -> None:
        found = self.found(counted(run('i1', 0, 9, caps=SMALL)))
        self.assertEqual(['disk not measured'], list(found))
        self.assertIn('4.8 GiB', found['disk not measured'])

    def test_data_larger_than_memory(self) -> None:
        self.assertEqual(
            {}, self.found(run('i1', 0, 9, size=10**10, caps=SMALL))
        )

    def test_spills_by_maps(self) -> None:
        record = counted(
            run('i1', 0, 9),
            **{'MAP.SPILLED_RECORDS': 250, 'SPILLED_RECORDS': 350},
        )
        self.assertEqual(
            {
                'extra spills by maps': 'run 0: 250 records spilled by maps '
                'that put out 100 (2.50 times)'
            },
            self.found(record),
        )

    def test_spills_by_reduces(self) -> None:
        record = counted(run('i1', 0, 9), SPILLED_RECORDS=300)
        self.assertEqual(['extra spills by reduces'], list(self.found(record)))

    def test_bytes_written(self) -> None:
        low, near = (
            counted(run('i1', 0, 9), HDFS_BYTES_WRITTEN=part * 10**7)
            for part in (89, 91)
        )
        self.assertEqual({}, self.found(near))
        text = self.found(low)['bytes written differ from replication x data']
        self.assertIn('HSGen wrote 1780000000 bytes', text)
        self.assertIn('reduce-merge', text)

    def test_killed(self) -> None:
        line = 'OOM kill of java (pid 12) in hv-host2'
        record = counted(run('i1', 0, 9, reason='x', seen={'killed': [line]}))
        self.assertEqual(
            {'killed for want of memory': f'run 0: {line}'},
            self.found(record),
        )

    def test_failed_attempts(self) -> None:
        record = counted(run('i1', 0, 9))
        record.phases[2]['failed_attempts'] = 2
        self.assertEqual(
            {
                'task attempts failed': 'run 0: 2 attempts of tasks of HSSort '
                'failed'
            },
            self.found(record),
        )

    def test_what_could_not_be_judged(self) -> None:
        lines = dict(findings.not_judged(answer.build([run('i1', 0, 9)])))
        self.assertIn('whether the data fits the page cache', lines)
        self.assertIn('1 of 1 runs', lines['extra spills and bytes written'])
