# SPDX-License-Identifier: Apache-2.0
"""Telemetry's file, its digest in the record, and its sums."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

import fixtures
import testtools

from hvstack import errors
from hvstack.results import observations, record, telemetry, telemetry_files
from hvstack.results.file_run_store import FileRunStore
from hvstack.results.telemetry import NodeTelemetry, Telemetry
from tests.unit.call_count import count_calls
from tests.unit.results import factory
from tests.unit.results.factory import run

DISK = {'read': [0.0, 10.0], 'write': [5.0, 5.0], 'busy': [0.5, 1.0]}


def node(
    name: str = 'w0', cpu: float = 0.5, role: str = 'worker'
) -> NodeTelemetry:
    """Return a node with two spans of 10 s."""
    return NodeTelemetry(
        name,
        role,
        'h',
        [0.0, 10.0, 20.0],
        {
            'cpu': [cpu, 2 * cpu],
            'rx': [1000.0, 1000.0],
            'rx_packets': [10.0, 0.0],
            'tx': [0.0, 0.0],
            'tx_packets': [0.0, 0.0],
            'swap': [0.0, 0.0],
        },
        {'7:0': {name: [*map(float, v)] for name, v in DISK.items()}},
    )


def make_telemetry(
    *nodes: NodeTelemetry, gaps: tuple[str, ...] = ()
) -> Telemetry:
    return Telemetry(
        'cgroup', 10, [('HSGen', 0.0, 10.0)], list(nodes), list(gaps)
    )


class CutTest(testtools.TestCase):
    """A part of a run has the samples of its time."""

    def test_second_half(self) -> None:
        whole = make_telemetry(node(), gaps=('w1: no samples',))
        part = telemetry.cut(
            whole, 12.0, 20.0, {'HSSort': (13.0, 19.0)}, ['other']
        )
        self.assertEqual([('HSSort', 1.0, 7.0)], part.phases)
        (only,) = part.nodes
        self.assertEqual([-2.0, 8.0], only.times)
        self.assertEqual([1.0], only.rates['cpu'])
        self.assertEqual([10.0], only.disks['7:0']['read'])
        self.assertEqual(['w1: no samples', 'other'], part.gaps)
        phases = telemetry.summarize(part)['phases']
        self.assertEqual(6.0, phases['HSSort']['cpu'])

    def test_both_halves_are_the_whole(self) -> None:
        whole = make_telemetry(node())
        seconds = [
            telemetry.summarize(
                telemetry.cut(whole, begin, end, {'HSGen': (begin, end)})
            )['phases']['HSGen']['cpu']
            for begin, end in ((0.0, 10.0), (10.0, 20.0))
        ]
        self.assertEqual([5.0, 10.0], seconds)

    def test_no_sample(self) -> None:
        part = telemetry.cut(make_telemetry(node()), 30.0, 40.0, {})
        self.assertEqual([], part.nodes[0].times)
        self.assertEqual([], part.nodes[0].rates['cpu'])


class CountingNode(NodeTelemetry):
    """A node that counts how often the disks are added up."""

    count = 0

    def values(self, name: str) -> telemetry.Values | None:
        CountingNode.count += 1
        return super().values(name)


class Sums(testtools.TestCase):
    def test_series_are_computed_once_for_all_phases(self) -> None:
        counts, sums = [], []
        for phase_count in (1, 7):
            whole = replace(
                make_telemetry(CountingNode(**vars(node()))),
                phases=[(f'p{n}', n, n + 10.0) for n in range(phase_count)],
            )
            CountingNode.count = 0
            sums.append(telemetry.summarize(whole)['phases'])
            counts.append(CountingNode.count)
        self.assertEqual(sums[0]['p0'], sums[1]['p0'])
        # Packets of the network are looked up for each phase.
        of_packets = 6 * (len(telemetry.PHASE_SUMS) + len(telemetry.BOUNDED))
        self.assertLess(counts[1] - counts[0], of_packets)

    def test_by_phase(self) -> None:
        two = make_telemetry(node(), node('w1'), node('c', 9, 'controller'))
        phase = telemetry.summarize(two)['phases']['HSGen']
        self.assertEqual(10, phase['cpu'])
        self.assertEqual(2 * 10 * (1000 - 66 * 10), phase['rx'])
        self.assertEqual(100, phase['write'])
        self.assertNotIn('steal', phase)

    def test_busiest_disk_by_phase(self) -> None:
        """Disks that are busy at the same time do not add up."""
        first, second = node(), node('w1')
        first.disks['7:1'] = {**DISK, 'busy': [0.75, 0.0]}
        phase = telemetry.summarize(make_telemetry(first, second))['phases']
        self.assertEqual(7.5 + 5, phase['HSGen']['busy'])

    def test_busy_seconds_that_are_not_known(self) -> None:
        without, unknown = node(), node()
        without.disks.clear()
        unknown.disks['7:1'] = {**DISK, 'busy': [None, 0.0]}
        for worker in (without, unknown):
            summary = telemetry.summarize(make_telemetry(worker, node('w1')))
            self.assertNotIn('busy', summary['phases']['HSGen'])

    def test_by_node(self) -> None:
        worker = telemetry.summarize(make_telemetry(node()))['nodes']['w0']
        self.assertEqual(15, worker['cpu'])
        self.assertEqual(
            {'read': 100, 'write': 100, 'busy': 15}, worker['disks']['7:0']
        )

    def test_a_missing_sample_is_not_guessed(self) -> None:
        worker = node()
        worker.rates['cpu'][0] = None
        summary = telemetry.summarize(make_telemetry(worker, node('w1')))
        self.assertNotIn('cpu', summary['phases']['HSGen'])
        self.assertNotIn('cpu', summary['nodes']['w0'])
        self.assertIn('cpu', summary['nodes']['w1'])

    def test_mean_of_a_part(self) -> None:
        worker = node()
        self.assertEqual(0.75, worker.mean(worker.values('cpu'), 5, 15))
        self.assertIsNone(worker.mean(worker.values('cpu'), 15, 40))

    def test_bounds_of_a_part(self) -> None:
        worker = node()

        def compute(
            name: str, begin: float, end: float
        ) -> tuple[float, float] | None:
            return telemetry.compute_bounds(
                worker, name, worker.values(name), begin, end
            )

        self.assertEqual((50, 50), compute('write', 0, 10))
        self.assertEqual((50, 100), compute('write', 0, 11))
        self.assertEqual((0, 50), compute('write', 2, 9))
        self.assertEqual((3400, 13400), compute('rx', -1, 19))
        phase = telemetry.summarize(make_telemetry(worker, node('w1')))[
            'phases'
        ]['HSGen']
        self.assertEqual(
            (100, 100), (phase['write_least'], phase['write_most'])
        )
        worker.disks['7:0']['write'][0] = None
        self.assertIsNone(compute('write', 0, 11))
        self.assertEqual((50, 50), compute('write', 10, 20))

    def test_stolen(self) -> None:
        record = run('i1', 0, 9)
        self.assertIsNone(telemetry.compute_steal_shares(record))
        worker = node()
        record = factory.tell(
            record, telemetry=telemetry.summarize(make_telemetry(worker))
        )
        self.assertIsNone(telemetry.compute_steal_shares(record))
        worker.rates['steal'] = [0.2, 0.4]
        summary = telemetry.summarize(make_telemetry(replace(worker, cpus=2)))
        record = factory.tell(record, telemetry=summary)
        self.assertEqual({'w0': 0.15}, telemetry.compute_steal_shares(record))
        record = factory.edit(record, 'environment/backend', 'qemu')
        self.assertIsNone(telemetry.compute_steal_shares(record))

    def test_windows(self) -> None:
        phases = [
            {'name': 'HSGen', 'seconds': 5, 'began': 100},
            {'name': 'HSDataCheck', 'seconds': 1},
            {
                'name': 'HSSort',
                'seconds': 20,
                'began': 110,
                'job_began': 112.5,
                'map_shuffle_seconds': 7,
                'reduce_merge_seconds': 8,
            },
        ]
        self.assertEqual(
            {
                'HSGen': (100, 105),
                'HSSort': (110, 130),
                'map-shuffle': (112.5, 119.5),
                'reduce-merge': (119.5, 127.5),
            },
            telemetry.compute_windows(observations.read_phases(phases)),
        )
        # By the clock of the node of the ApplicationMaster.
        for moved, start in ((52.5, 110), (172.5, 114)):
            phases[2] |= {'job_began': moved, 'job_seconds': 16}
            windows = telemetry.compute_windows(
                observations.read_phases(phases)
            )
            self.assertEqual((start, start + 7), windows['map-shuffle'])


class File(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.record = run('i1', 0, 9)
        self.telemetry = make_telemetry(node(), gaps=('w1: no samples',))
        self.save_telemetry(self.telemetry)

    def save_telemetry(self, run_telemetry: Telemetry) -> None:
        summary = telemetry_files.save(
            run_telemetry, FileRunStore(self.directory), self.record.id
        )
        self.record = factory.tell(self.record, telemetry=summary)

    @property
    def path(self) -> Path:
        assert self.record.observations.telemetry
        return self.directory / self.record.observations.telemetry.file

    def test_round_trip(self) -> None:
        record.save(self.record, self.directory)
        (again,) = record.load_all(self.directory)
        self.assertEqual(
            self.telemetry,
            telemetry_files.load(again, FileRunStore(self.directory)),
        )
        assert again.observations.telemetry
        self.assertEqual(
            ('w1: no samples',), again.observations.telemetry.gaps
        )

    def test_edited(self) -> None:
        path = self.path
        path.write_text(path.read_text().replace('0.5', '0.6'))
        failure = self.assertRaises(
            errors.InputError,
            telemetry_files.load,
            self.record,
            FileRunStore(self.directory),
        )
        self.assertIn('edited', str(failure))

    def test_missing(self) -> None:
        failure = self.assertRaises(
            errors.InputError,
            telemetry_files.load,
            self.record,
            FileRunStore(self.directory / 'elsewhere'),
        )
        self.assertIn('Cannot read the telemetry', str(failure))

    def test_copied(self) -> None:
        other = self.directory / 'other'
        source, target = FileRunStore(self.directory), FileRunStore(other)
        texts = telemetry_files.read_if_stored(self.record, source)
        target.add([self.record], texts)
        self.assertEqual(
            self.telemetry, telemetry_files.load(self.record, target)
        )
        self.assertEqual(
            {}, telemetry_files.read_if_stored(run('i1', 1, 9), source)
        )

    def test_a_file_that_cannot_be_written_is_a_gap(self) -> None:
        (self.directory / 'file').touch()
        summary = telemetry_files.save_or_add_gap(
            self.telemetry, FileRunStore(self.directory / 'file'), 'x'
        )
        self.assertNotIn('sha256', summary)
        self.assertIn('its file: Not a directory', summary['gaps'])
        self.assertIn('HSGen', summary['phases'])

    def test_times_before_the_run_and_negative_rates(self) -> None:
        """A sampler starts before the run that it samples."""
        first = replace(node(), times=[-0.46, 9.54, 19.54])
        first.rates['cpu'][0] = -0.002
        self.telemetry = make_telemetry(first)
        self.save_telemetry(self.telemetry)
        self.assertEqual(
            self.telemetry,
            telemetry_files.load(self.record, FileRunStore(self.directory)),
        )

    def test_a_file_that_no_reader_accepts_is_a_gap(self) -> None:
        store = FileRunStore(self.directory)
        size = self.path.stat().st_size
        with mock.patch.object(telemetry_files, '_MAX_FILE_BYTES', size):
            self.assertIn(
                'sha256',
                telemetry_files.save_or_add_gap(self.telemetry, store, 'x'),
            )
        with mock.patch.object(telemetry_files, '_MAX_FILE_BYTES', size - 1):
            summary = telemetry_files.save_or_add_gap(
                self.telemetry, store, 'y'
            )
        self.assertNotIn('sha256', summary)
        self.assertIn('HSGen', summary['phases'])
        self.assertIn('Set a longer interval', summary['gaps'][-1])
        self.assertFalse(store.has_text('telemetry/y.json'))

    def test_samples_are_not_copied_one_by_one(self) -> None:
        """A file of 640 nodes has six million of them."""
        calls = []
        for count in (2, 1000):
            long = replace(
                node(),
                times=[10.0 * n for n in range(count + 1)],
                rates={'cpu': [0.5] * count},
                disks={},
            )
            whole = replace(make_telemetry(long), phases=[])
            calls.append(count_calls(partial(self.save_telemetry, whole)))
        # The sum over the run needs a step for each.
        self.assertLess(calls[1] - calls[0], 2 * 1000)

    def test_newer(self) -> None:
        newer = replace(self.telemetry, schema=telemetry.SCHEMA + 1)
        self.save_telemetry(newer)
        failure = self.assertRaises(
            errors.InputError,
            telemetry_files.load,
            self.record,
            FileRunStore(self.directory),
        )
        self.assertIn(f'schema is {telemetry.SCHEMA + 1}', str(failure))
