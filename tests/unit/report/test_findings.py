# SPDX-License-Identifier: Apache-2.0
"""Test the findings of a report and their evidence."""

import math
import statistics
from typing import Any

import testtools

from hvstack.report import findings, job_checks, sweep_report
from hvstack.results.record_data import RunRecord
from tests.unit.report.test_page import counted
from tests.unit.results import factory

SMALL = {'hv-host2': {'memory_mib': 4864}}


def run(configuration: str, *args: Any, **fields: Any) -> RunRecord:
    """Return a record without the memory of its hosts."""
    record = factory.run(configuration, *args, **fields)
    if record.kind == 'baseline':
        return record
    return factory.edit(record, 'seen/inventory', {})


def tasked(record: RunRecord, slow: float = 1, last: float = 11) -> RunRecord:
    """Give a record's jobs tasks on three nodes.

    :param slow: how many times longer the first node's take.
    :param last: seconds of the last task.
    """
    phases = factory.stored_phases(record)
    for phase in phases:
        if phase['name'] not in ('HSGen', 'HSSort'):
            continue
        phase['job_seconds'] = 20
        phase['nodes'] = {
            f'w{n}': {
                'maps': 2,
                'map_seconds': 20 * (slow if n == 0 else 1),
                'map_wall_seconds': 10 * (slow if n == 0 else 1),
                'map_bytes': 20_000_000,
            }
            for n in range(3)
        }
        phase['last'] = {
            'map': {
                'task': 'm_5',
                'node': 'w0',
                'seconds': last,
                'median_seconds': 10,
                'alone_seconds': last - 10,
            }
        }
        phase['reducers'] = {'least': 90, 'median': 100, 'most': 110}
        phase['failures'] = []
    return factory.edit(record, 'phases', phases)


def sampled(
    record: RunRecord, source: str = 'sysstat', **fields: Any
) -> RunRecord:
    """Give a record the digest of clean telemetry, then these of one node."""
    whole = record.size_bytes * record.replication
    node = {
        'role': 'worker',
        'seconds': 100.0,
        'cpus': 4,
        'steal': 0.0,
        'swap': 0.0,
        'disks': {'vdb': {'read': 5e8, 'write': 5e8, 'busy': 10.0}},
    }
    summary = {
        'source': source,
        'gaps': [],
        'phases': {
            'HSGen': {'write': whole, 'rx': whole - record.size_bytes},
            'reduce-merge': {'write': whole},
        },
        'nodes': {'w0': node | fields, 'w1': dict(node), 'w2': dict(node)},
    }
    return factory.tell(record, telemetry=summary)


#: Sums of telemetry in HSGen.
_SUMS = 'seen/telemetry/phases/HSGen'


def _sums(record: RunRecord) -> dict[str, float]:
    assert record.observations.telemetry
    return dict(record.observations.telemetry.phases['HSGen'])


class CountedSpeed(float):
    """A number that counts comparisons."""

    comparisons = 0

    def __lt__(self, other: float) -> bool:
        CountedSpeed.comparisons += 1
        return super().__lt__(other)


class CountedNode(dict[str, float]):
    """Sums of the tasks of a node, which count how often they are read."""

    reads = 0

    def __getitem__(self, name: str) -> float:
        CountedNode.reads += 1
        return super().__getitem__(name)


class Findings(testtools.TestCase):
    """Each is found once it is there, and not before."""

    def list_findings(self, *records: RunRecord) -> dict[str, str]:
        return {
            finding.title: finding.evidence
            for finding in findings.list_findings(
                sweep_report.build_report(records)
            )
        }

    def test_a_clean_run_has_none(self) -> None:
        self.assertEqual({}, self.list_findings(counted(run('i1', 0, 9))))

    def test_page_cache(self) -> None:
        evidence = self.list_findings(counted(run('i1', 0, 9, caps=SMALL)))
        self.assertEqual(['disk not measured'], list(evidence))
        self.assertIn('4.8 GiB', evidence['disk not measured'])

    def test_page_cache_of_hosts_outside_a_lab(self) -> None:
        """Placement and the inventory of bare metal have the memory."""
        hosts = factory.MEMORY_MIB * 2**20
        for size, titles in (
            (2 * hosts, ['disk not measured']),
            (2 * hosts + 100, []),
        ):
            guests = factory.run('i1', 0, 9, size=size)
            bare_metal = factory.run(
                'bare-metal',
                0,
                9,
                size=size,
                observations={'host_memory_mib': factory.MEMORY_MIB},
            )
            # The hosts of two workers of many.
            inventory = guests.document['seen']['inventory']
            crowd = factory.edit(
                guests,
                'seen/inventory',
                {f'host{n}': inventory['hv-host2'] for n in range(32)},
            )
            for record in (guests, bare_metal, crowd):
                evidence = self.list_findings(record)
                self.assertEqual(titles, list(evidence), record.kind)
                if evidence:
                    self.assertIn('256.0 GiB', evidence['disk not measured'])

    def test_data_larger_than_memory(self) -> None:
        self.assertEqual(
            {}, self.list_findings(run('i1', 0, 9, size=10**10, caps=SMALL))
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
            self.list_findings(record),
        )

    def test_spills_by_reduces(self) -> None:
        record = counted(run('i1', 0, 9), SPILLED_RECORDS=300)
        self.assertEqual(
            ['extra spills by reduces'], list(self.list_findings(record))
        )

    def test_bytes_written(self) -> None:
        low, near = (
            counted(run('i1', 0, 9), HDFS_BYTES_WRITTEN=part * 10**7)
            for part in (89, 91)
        )
        self.assertEqual({}, self.list_findings(near))
        record = factory.edit(near, 'environment/output_replication', 1)
        self.assertEqual({}, self.list_findings(record))
        self.assertEqual(
            (1, 2),
            (
                job_checks.count_copies(record, 'reduce-merge'),
                job_checks.count_copies(record, 'HSGen'),
            ),
        )
        text = self.list_findings(low)[
            'bytes written differ from replication x data'
        ]
        self.assertIn('HSGen wrote 1780000000 bytes', text)
        self.assertIn('reduce-merge', text)

    def test_foreign_cpu_time(self) -> None:
        self.assertEqual(
            {}, self.list_findings(factory.with_machine(run('i1', 0, 9), 2.0))
        )
        record = factory.with_machine(run('i1', 0, 9), 2.1)
        text = self.list_findings(record)['foreign CPU time']
        self.assertIn(
            '0.21 cores in HSGen, with 1.60 of the lab hosts, 0.14 of the '
            'control plane and 0.06 of hvstack',
            text,
        )
        report = sweep_report.build_report([run('i2', 0, 9), record])
        self.assertIn(
            'Programs outside the lab used more than 0.2 cores of the '
            'machine in 1 of 2 runs (i1 run 0).',
            report.provenance_notes,
        )
        (unchecked,) = [
            reason
            for subject, reason in findings.list_unchecked(report)
            if subject == 'foreign CPU time of the machine'
        ]
        self.assertTrue(unchecked.startswith('1 of 2 runs'), unchecked)

    def test_foreign_cpu_time_of_a_short_phase_does_not_count(self) -> None:
        """It is a few ticks of the kernel's clock."""
        record = factory.edit(
            factory.with_machine(run('i1', 0, 9)),
            'phases/1/machine_cpu',
            {
                **{'seconds': 0.5, 'busy': 0.9, 'hosts': 0.5},
                **{'control_plane': 0.0, 'hvstack': 0.0, 'foreign': 0.4},
            },
        )
        self.assertEqual({}, self.list_findings(record))

    def test_probe_that_was_not_passed(self) -> None:
        def gated(name: str, index: int, passed: bool) -> RunRecord:
            gate = {
                'tries': 1 if passed else 3,
                'passed': passed,
                'hosts': {'hv-host2': {'cap': 0.65, 'cores': 0.6}},
                'hashed_per_cpu_second': 50e6 + index * 1e6,
            }
            return run(name, index, 9, observations={'probe': gate})

        records = [
            gated('bare-metal', 0, True),
            gated('bare-metal', 1, False),
            gated('i1', 0, True),
            run('i1', 1, 9),
        ]
        report = sweep_report.build_report(records)
        self.assertIn(
            'The probe before a run was not passed on bare metal in 1 of 2 '
            'runs and on configurations in 0 of 1 runs: hosts did not get '
            'their caps.',
            report.provenance_notes,
        )
        self.assertIn(
            'Pace of the machine: 50.0 to 51.0 MB hashed in a CPU second, '
            'before 3 runs. No rate is corrected by it.',
            report.notes,
        )
        evidence = [
            finding.evidence
            for finding in findings.list_findings(report)
            if finding.title == 'probe not passed'
        ]
        self.assertEqual(
            ['run 1: after 3 tries, hv-host2 used 0.600 of 0.65 cores'],
            evidence,
        )
        quiet = sweep_report.build_report([records[0], records[2]])
        self.assertNotIn('probe', ' '.join(quiet.provenance_notes))

    def test_limits_of_the_cloud(self) -> None:
        limit = 'ports: QoS policy gold: egress at most 9 kbit/s'
        record = counted(run('i1', 0, 9, observations={'qos': [limit]}))
        self.assertEqual(
            {'QoS or encryption': f'run 0: {limit}'},
            self.list_findings(record),
        )

    def test_servers_of_others(self) -> None:
        use = {'h2': {'servers': 1, 'VCPU': 4}, 'h1': {'servers': 2}}
        record = run('i1', 0, 9, observations={'other_servers': use})
        self.assertEqual(
            'run 0: 2 servers on h1, 1 server (VCPU 4) on h2',
            self.list_findings(record)['other servers on the hosts'],
        )

    def test_medians_of_others(self) -> None:
        for count in (2, 3, 8, 9):
            values = {f'w{n}': float(n * n % 7) for n in range(count)}
            self.assertEqual(
                {
                    name: statistics.median(
                        value
                        for other, value in values.items()
                        if other != name
                    )
                    for name in values
                },
                job_checks.compute_medians_of_others(values),
            )
        self.assertEqual({}, job_checks.compute_medians_of_others({}))
        self.assertEqual({}, job_checks.compute_medians_of_others({'w': 1.0}))

    def test_values_of_many_nodes_are_sorted_once(self) -> None:
        """Medians of 640 nodes by themselves would be 640 sorts."""
        for count in (64, 512):
            speeds = [CountedSpeed(n * 37 % count) for n in range(count)]
            CountedSpeed.comparisons = 0
            medians = job_checks.compute_medians_of_others(
                {f'w{n}': speed for n, speed in enumerate(speeds)}
            )
            self.assertEqual(count, len(medians))
            self.assertLess(
                CountedSpeed.comparisons, 3 * count * math.log2(count)
            )

    def test_slow_nodes_are_read_as_often_as_there_are_nodes(self) -> None:
        reads = []
        for count in (10, 100):
            nodes = {
                f'w{n}': CountedNode(
                    map_bytes=1e9,
                    **dict.fromkeys(
                        ('map_seconds', 'map_wall_seconds'), 9 if n else 20
                    ),
                )
                for n in range(count)
            }
            CountedNode.reads = 0
            slow_nodes = job_checks._find_slow_nodes(nodes)
            self.assertEqual(['w0'], list(slow_nodes))
            reads.append(CountedNode.reads / count)
        self.assertEqual(reads[0], reads[1])

    def test_uneven_tasks(self) -> None:
        phases = factory.stored_phases(run('i1', 0, 9))
        for phase in phases:
            if phase['name'] == 'HSSort':
                phase['nodes'] = {
                    'w0': {'maps': 4, 'map_wall_seconds': 40},
                    'w1': {'maps': 2, 'map_wall_seconds': 20},
                }
                phase['hosts'] = {
                    'h0': {'workers': 1, 'maps': 4, 'reduces': 3},
                    'h1': {'workers': 1, 'maps': 2, 'reduces': 3},
                }
        record = factory.edit(run('i1', 0, 9), 'phases', phases)
        text = self.list_findings(record)['uneven tasks']
        self.assertIn('maps of HSSort: 4 + 2 by host', text)
        self.assertIn('about 10.0 s more', text)
        report = sweep_report.build_report([record])
        self.assertIn(
            'Tasks were split unevenly in 1 of 1 runs (i1 run 0).',
            report.provenance_notes,
        )
        records = [
            factory.edit(run('i1', n, 9), 'phases', phases) for n in range(7)
        ]
        self.assertIn(
            'Tasks were split unevenly in 7 of 7 runs (i1 run 0, i1 run 1, '
            'i1 run 2, i1 run 3, i1 run 4, others).',
            sweep_report.build_report(records).provenance_notes,
        )
        self.assertIn(
            'Tasks by host: i1: maps of HSSort 4 + 2; i1: reduces of HSSort '
            '3 + 3.',
            report.notes,
        )

    def test_killed(self) -> None:
        line = 'OOM kill of java (pid 12) in hv-host2'
        record = counted(
            run('i1', 0, 9, reason='x', observations={'killed': [line]})
        )
        self.assertEqual(
            {'OOM-killed': f'run 0: {line}'},
            self.list_findings(record),
        )

    def test_killed_without_a_line_of_the_kernel(self) -> None:
        reason = 'HSSort: a task was killed: exit code 137'
        self.assertEqual(
            {'OOM-killed': f'run 0: {reason}'},
            self.list_findings(counted(run('i1', 0, 9, reason=reason))),
        )
        # The client of Hadoop prints this for each job that failed.
        reason = 'failedMaps:1 failedReduces:0 killedMaps:0 killedReduces: 0'
        record = counted(run('i1', 0, 9, reason=reason))
        self.assertEqual({}, self.list_findings(record))

    def test_failed_run_without_all_phases(self) -> None:
        record = run('i1', 0, 9, reason='its cluster died')
        phases = factory.stored_phases(tasked(record, slow=3))[:1]
        record = factory.edit(record, 'phases', phases)
        self.assertNotIn('slow node', self.list_findings(record))

    def test_failed_attempts(self) -> None:
        record = counted(run('i1', 0, 9))
        record = factory.edit(record, 'phases/2/failed_attempts', 2)
        self.assertEqual(
            {
                'task attempts failed': 'run 0: 2 attempts of tasks of HSSort '
                'failed'
            },
            self.list_findings(record),
        )

    def clean(self, index: int = 0) -> RunRecord:
        record = factory.with_machine(
            sampled(tasked(counted(run('i1', index, 9))))
        )
        return factory.tell(record, compute_hosts={'hosts': {'h1': {}}})

    def test_clean_with_telemetry(self) -> None:
        self.assertEqual({}, self.list_findings(self.clean()))
        report = sweep_report.build_report([self.clean()])
        self.assertEqual(
            [
                findings.list_unchecked(
                    sweep_report.build_report([run('i1', 0, 9)])
                )[0]
            ],
            findings.list_unchecked(report),
        )

    def test_each_names_its_limit(self) -> None:
        for title, _ in findings._CHECKS:
            self.assertIn(title, findings.SOURCES)

    def test_slow_node(self) -> None:
        evidence = self.list_findings(tasked(self.clean(), slow=1.6))
        self.assertIn('w0 made 0.62 MB a second', evidence['slow node'])
        self.assertNotIn('w1', evidence['slow node'])
        self.assertEqual(
            {}, self.list_findings(tasked(self.clean(), slow=1.4))
        )

    def test_slow_in_one_phase_is_not_a_slow_node(self) -> None:
        record = tasked(self.clean(), slow=3)
        other = factory.stored_phases(tasked(self.clean()))
        record = factory.edit(record, 'phases/0', other[0])
        self.assertEqual({}, self.list_findings(record))

    def test_tasks_beside_each_other_are_no_slow_node(self) -> None:
        record = tasked(self.clean(), slow=2)
        phases = factory.stored_phases(record)
        for phase in phases:
            for node in phase.get('nodes', {}).values():
                node['map_wall_seconds'] = 10
        record = factory.edit(record, 'phases', phases)
        self.assertEqual({}, self.list_findings(record))

    def test_slow_disk(self) -> None:
        slow = {'vdb': {'read': 0.0, 'write': 4e8, 'busy': 90.0}}
        record = sampled(self.clean(), disks=slow)
        self.assertIn(
            'vdb of w0 moved 4.4', self.list_findings(record)['slow disk']
        )
        shared = sampled(self.clean(), 'cgroup', disks=slow)
        self.assertEqual({}, self.list_findings(shared))

    def test_steal(self) -> None:
        for stolen, expected in ((19.0, []), (21.0, ['steal'])):
            record = sampled(self.clean(), steal=stolen)
            self.assertEqual(expected, list(self.list_findings(record)))
        record = factory.edit(record, 'environment/backend', 'qemu')
        self.assertEqual({}, self.list_findings(record))
        lines = dict(
            findings.list_unchecked(sweep_report.build_report([record]))
        )
        self.assertIn('emulated', lines['steal'])

    def test_retransmissions(self) -> None:
        for retransmitted, titles in (
            (10, []),
            (11, ['TCP segments retransmitted']),
        ):
            counters = {
                'segments': 1000,
                'retransmitted_segments': retransmitted,
                'retransmission_timeouts': 2,
                'dropped_rx_packets': 3,
                'dropped_tx_packets': 1,
            }
            record = sampled(self.clean(), network=counters)
            evidence = self.list_findings(record)
            self.assertEqual(titles, list(evidence))
        self.assertIn(
            'w0 sent 1.1 % of its 1000 TCP segments again, after 2 timeouts; '
            'its interface dropped 4 packets',
            evidence['TCP segments retransmitted'],
        )

    def test_uneven_reducers(self) -> None:
        record = self.clean()
        record = factory.edit(record, 'phases/2/reducers/most', 121)
        self.assertIn(
            '1.21 times', self.list_findings(record)['uneven reducers']
        )

    def test_waited_for_one_task(self) -> None:
        evidence = self.list_findings(tasked(self.clean(), last=16))
        self.assertIn(
            'HSGen waited 6.0 s of 20.0 for map m_5 on w0',
            evidence['a phase waited for one task'],
        )

    def test_swapped(self) -> None:
        evidence = self.list_findings(sampled(self.clean(), swap=12.0))
        self.assertEqual({'memory swapped': 'run 0: 12 pages on w0'}, evidence)

    def test_container_killed(self) -> None:
        record = self.clean()
        error = 'Container killed on request. Exit code is 137'
        record = factory.edit(
            record, 'phases/2/failures', [{'node': 'w1', 'error': error}]
        )
        self.assertIn(
            'HSSort on w1',
            self.list_findings(record)['a container was killed'],
        )

    def test_bytes_on_disks_and_network(self) -> None:
        for part, count in ((0.91, 0), (1.09, 0), (0.89, 2), (1.11, 2)):
            record = self.clean()
            for name, value in _sums(record).items():
                record = factory.edit(record, f'{_SUMS}/{name}', value * part)
            self.assertEqual(count, len(self.list_findings(record)), part)

    def test_bytes_of_nodes_that_store_alone(self) -> None:
        """All replicas come from other nodes."""
        record = self.clean()
        whole = _sums(record)['rx'] + record.size_bytes
        for deployment, received, count in ((3, whole, 0), (2, whole, 1)):
            changed = factory.edit(
                record, 'environment/deployment', deployment
            )
            changed = factory.edit(changed, f'{_SUMS}/rx', received)
            self.assertEqual(count, len(self.list_findings(changed)))

    def test_bytes_without_a_worker(self) -> None:
        record = factory.tell(self.clean(), workers=4)
        for name in _sums(record):
            record = factory.edit(record, f'{_SUMS}/{name}', 1)
        self.assertEqual({}, self.list_findings(record))

    def test_bytes_of_a_phase_that_failed(self) -> None:
        failed = run('i1', 0, 9, reason='No space left')
        record = sampled(
            factory.edit(failed, 'phases', factory.stored_phases(failed)[:1])
        )
        for name in _sums(record):
            record = factory.edit(record, f'{_SUMS}/{name}', 1)
        self.assertEqual({}, self.list_findings(record))

    def test_bytes_at_the_edges_of_a_phase_are_in_doubt(self) -> None:
        for min_share, max_share, count in ((0.7, 0.91, 0), (0.7, 0.89, 1)):
            record = self.clean()
            phase = _sums(record)
            expected = phase['rx']
            phase |= {
                'rx': 0.8 * expected,
                'rx_least': min_share * expected,
                'rx_most': max_share * expected,
            }
            record = factory.edit(record, _SUMS, phase)
            evidence = self.list_findings(record)
            self.assertEqual(count, len(evidence))
        self.assertIn(
            'the workers received 800 MB (by its samples 700 MB to',
            ' '.join(evidence.values()),
        )

    def test_cached_bytes_are_no_disk_bytes(self) -> None:
        record = self.clean()
        record = factory.edit(record, 'environment/caps', SMALL)
        record = factory.edit(record, f'{_SUMS}/write', 1)
        self.assertEqual(
            ['disk not measured'], list(self.list_findings(record))
        )

    def test_gaps_are_told(self) -> None:
        record = self.clean()
        record = factory.edit(
            record, 'seen/telemetry/gaps', ['w1: no samples (refused)']
        )
        lines = findings.list_unchecked(sweep_report.build_report([record]))
        self.assertIn(
            'w1: no samples (refused)', [reason for _, reason in lines]
        )

    def test_what_could_not_be_judged(self) -> None:
        unmeasured = run('i1', 0, 9)
        phases = factory.stored_phases(unmeasured)
        for phase in phases:
            phase.pop('counters', None)
        unmeasured = factory.edit(unmeasured, 'phases', phases)
        lines = dict(
            findings.list_unchecked(sweep_report.build_report([unmeasured]))
        )
        self.assertIn('whether the data fits the page cache', lines)
        self.assertIn('1 of 1 runs', lines['extra spills and bytes written'])
