# SPDX-License-Identifier: Apache-2.0
"""Verdicts follow from intervals, and from nothing else."""

import dataclasses
import io
import json
from pathlib import Path
from typing import Any, cast

import fixtures
import testtools

from hvstack import errors
from hvstack.model.configuration import parse
from hvstack.model.target import BARE_METAL, parse_target
from hvstack.progress import Progress
from hvstack.results import record
from hvstack.results.estimator import SweepFit
from hvstack.results.stats import Percent
from hvstack.study import (
    claim_results,
    definition,
    paper_comparison,
    study_page,
    study_report,
    study_rows,
    study_run,
    study_store,
    verdicts,
)
from hvstack.study.study_rows import Quantity, VariantRow
from hvstack.study.variants import Variant
from hvstack.sweep import rallytask, sweep_store
from hvstack.sweep.node_setup import NodeSetup
from tests.unit.cli.runner import run_command
from tests.unit.results import factory
from tests.unit.study.test_definition import CONTENT
from tests.unit.sweep.directories import SweepDirectories

PROPERTY = 'mapreduce.job.reduce.slowstart.completedmaps'
MAPS_CLAIM = {
    'text': 'The maps are local.',
    'variant': 1.0,
    'measure': 'local maps',
    'rule': {'at_least': 50},
}
#: Number of vsphere6 that compares two rates.
NUMBER = {
    'source': 'section TeraSort',
    'description': 'TeraSort, 4 VMs: less time than native',
}


class StudyTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.useFixture(SweepDirectories())
        self.started = self.create()
        #: Seconds of a run by the value of the property.
        self.seconds = {'0.05': 100.0, '1.0': 80.0}
        self.reasons: dict[str, str] = {}
        self.facts: dict[str, Any] = {}
        self.losses: list[dict[str, float]] = []
        self.scaling: dict[str, float] = {}
        #: CPU seconds of other programs in 10 s of a phase.
        self.foreign = 0.0
        self.counters = None
        #: Received bytes of HSGen by run, in percent of the data.
        self.received: list[float | None] = []
        #: CPU seconds of the agents of each host, by the property's value.
        self.agents: dict[str, tuple[float | None, ...]] = {}
        self.executed: list[str] = []
        self.second: dict[str, float] = {}
        self.max_runs = 100
        #: Seconds of HSGen that are those of HSValidate instead.
        self.seconds_of_validation: dict[str, float] = {}

    def create(self, **changes: Any) -> study_store.StartedStudy:
        content = {
            name: value
            for name, value in {**CONTENT, **changes}.items()
            if value is not None
        }
        study = definition.parse_study('mine', content, 'm')
        return study_store.create(study, 'lab-worker', 'lxc', {})

    def rally(
        self,
        task: str,
        task_args: dict[str, Any],
        log: str,
        _progress: Progress,
        options: dict[str, dict[str, str]],
        *,
        records_sweep: str,
    ) -> None:
        """Leave the record that Rally would leave."""
        self.options = options
        self.assertEqual('study.yaml', task)
        self.assertEqual(self.started.id, log)
        (workload,) = task_args['workloads']
        self.assertEqual(workload['sweep'], records_sweep)
        value = workload['setup']['hadoop'][PROPERTY]
        self.executed.append(value)
        if self.max_runs == 0:
            return
        self.max_runs -= 1
        number = workload['first_index']
        run = factory.run(
            workload['configuration'],
            number,
            # The passes differ as well.
            self.seconds[value] * (1 + number / 10) + number,
            size=workload['size'],
            sweep=workload['sweep'],
            reason=self.reasons.get(value, ''),
            started=f'2026-11-24T{len(self.executed):02}:00:00Z',
            job_settings={PROPERTY: value},
            **self.facts,
        )
        locality = {'node': 5, 'node_group': 1, 'rack': 0, 'off_rack': 0}
        run = factory.edit(run, 'phases/2/locality', locality)
        if moved := self.seconds_of_validation.get(value):
            for index, sign in ((0, -1), (4, 1)):
                seconds = run.phases[index].seconds + sign * moved
                run = factory.edit(run, f'phases/{index}/seconds', seconds)
        if self.agents:
            hosts = {
                f'h{index}': {'run': {'seconds': 1, 'agents': seconds}}
                for index, seconds in enumerate(self.agents[value])
            }
            observed = {'method': 'proc', 'hosts': hosts}
            run = factory.edit(run, 'seen/compute_hosts', observed)
        if self.losses:
            run = factory.edit(run, 'seen/host_losses', self.losses)
            run = factory.edit(run, 'seen/host_loss_method', 'powered off')
        if self.received:
            share = self.received[number % len(self.received)]
            amount = {} if share is None else {'rx': share * 1e6}
            telemetry = {
                'phases': {'HSGen': amount},
                'nodes': {'w0': {'role': 'worker'}},
            }
            run = factory.edit(run, 'seen/telemetry', telemetry)
        if self.counters is not None:
            for name in ('maps', 'reduces'):
                run = factory.edit(run, f'phases/2/{name}', factory.TASKS)
            for name, count in self.counters.items():
                run = factory.edit(run, f'phases/2/counters/{name}', count)
        if self.foreign:
            run = factory.with_machine(run, self.foreign)
        if self.scaling:
            run = factory.edit(run, 'seen/compute_scaling', self.scaling)
        if self.second:
            run = factory.edit(run, 'seen/second_cluster', self.second)
        record.save(run, sweep_store.RECORDS_DIR)

    def run_study(self) -> study_store.StudyRecords:
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.sweep.rallytask.run_task', self.rally
            )
        )
        self.assertIsNotNone(rallytask)
        return study_run.run_study(
            self.started, Progress(stream=io.StringIO())
        )

    def report(self) -> study_report.StudyReport:
        return study_report.build_report(
            self.started,
            study_store.load_records(self.started, sweep_store.open_store()),
        )

    def test_claim_holds(self) -> None:
        self.run_study()
        # Each pass has every variant, in an order of its own.
        self.assertEqual(8, len(self.executed))
        for number in range(4):
            self.assertEqual(
                {'0.05', '1.0'},
                set(self.executed[2 * number : 2 * number + 2]),
            )
        report = self.report()
        (result,) = report.claims
        self.assertEqual(verdicts.HOLDS, result.verdict)
        assert result.percent is not None
        self.assertTrue(123 < result.percent.percent < 127)
        self.assertEqual('Of 1 claim, 1 holds.', report.headline)
        self.assertIn(
            'so far: 1.0 against 0.05: 124.6 % of the rate',
            study_page.format_progress(result),
        )
        text = study_page.format_text(report)
        self.assertIn('HOLDS: A late start is faster.', text)
        self.assertIn('Replication is 2', text)
        self.assertIn('Scale model', text)
        self.assertIn('backend lxc', text)
        page = study_page.build_page(report)
        self.assertIn('Does a late start of reduces pay off?', page)
        self.assertIn('Rates in percent of 0.05 (2 rows)', page)
        self.assertIn('Intervals of the claims (1 row)', page)
        data = study_report.to_mapping(report)
        self.assertEqual('holds', data['claims'][0]['verdict'])

    def test_a_variant_without_another_one(self) -> None:
        claim = {
            'text': 'No block is lost with a host.',
            'variant': 1.0,
            'measure': 'blocks on one host',
            'rule': 'none',
        }
        self.started = self.create(claims=[claim])
        self.reasons = {'0.05': 'HSSort failed.'}
        self.run_study()
        report = self.report()
        remaining = dataclasses.replace(report, pending=1)
        self.assertIn(' 1 run remains, so the', remaining.headline)
        # Without a second variant nothing is compared.
        text = study_page.format_text(report)
        page = study_page.build_page(report)
        for output in (text, page):
            self.assertNotIn('Rates in percent of', output)

    def test_performance_runs_of_a_phase(self) -> None:
        """They are those of the phase of the claim, not of the run."""
        claim = {**CONTENT['claims'][0], 'phase': 'HSGen'}
        self.started = self.create(claims=[claim])
        self.seconds_of_validation['1.0'] = 10.0
        self.run_study()
        percent = self.report().claims[0].percent
        assert percent is not None
        # The slowest runs: 133 s and 107 s, a quarter of them in HSGen.
        self.assertAlmostEqual(
            100 * (133 / 4) / (107 / 4 - 10), percent.performance_ratio
        )

    def test_cpu_time_of_agents(self) -> None:
        claim = {
            **CONTENT['claims'][0],
            'measure': 'data per CPU second of agents',
        }
        self.started = self.create(claims=[claim])
        self.agents = {'0.05': (6.0, 4.0), '1.0': (3.0, 2.0)}
        self.run_study()
        (result,) = self.report().claims
        assert result.percent is not None
        self.assertAlmostEqual(200, result.percent.percent)
        self.assertEqual(verdicts.HOLDS, result.verdict)
        self.assertIn('data per CPU second of agents', result.claim.condition)

    def test_cpu_time_of_agents_that_was_not_measured(self) -> None:
        claim = {
            **CONTENT['claims'][0],
            'measure': 'data per CPU second of agents',
        }
        self.started = self.create(claims=[claim])
        self.agents = {'0.05': (6.0, None), '1.0': (3.0, 2.0)}
        self.run_study()
        (result,) = self.report().claims
        self.assertEqual(verdicts.UNDECIDED, result.verdict)
        self.assertIn('not measured in 4 of 8 runs', result.reason)

    def test_data_in_memory(self) -> None:
        self.run_study()
        (note,) = [n for n in self.report().notes if 'memory' in n]
        self.assertEqual(
            'The data is smaller than the memory of the hosts, so disks are '
            'not measured: 0.05, 1.0.',
            note,
        )

    def test_runs_beside_other_programs(self) -> None:
        """Both variants have the configuration i1."""
        self.foreign = 2.1
        self.run_study()
        (note,) = [n for n in self.report().notes if 'Programs' in n]
        self.assertIn(
            'in 8 of 8 runs (0.05 run 0, 0.05 run 1, 0.05 run 2, '
            '0.05 run 3, 1.0 run 0, others).',
            note,
        )

    def test_intervals_of_several_claims_are_wider(self) -> None:
        self.run_study()
        single = self.report().claims[0].percent
        self.started = self.create(claims=CONTENT['claims'] * 3)
        self.executed.clear()
        self.run_study()
        joint = self.report().claims[0].percent
        assert single is not None and joint is not None
        self.assertEqual(single.percent, joint.percent)
        assert single.half_width is not None
        assert joint.half_width is not None
        self.assertGreater(joint.half_width, single.half_width)
        self.assertEqual(single.row_half_width, joint.row_half_width)

    def test_blocks_on_one_host(self) -> None:
        claim = {
            'text': 'No block is lost with a host.',
            'variant': 1.0,
            'measure': 'blocks on one host',
            'rule': 'none',
        }
        some = {**claim, 'rule': 'some'}
        self.started = self.create(claims=[claim, some])
        self.run_study()
        first, second = self.report().claims
        self.assertEqual(verdicts.HOLDS, first.verdict)
        self.assertEqual(verdicts.UNDECIDED, second.verdict)
        self.assertIn('0 of ', first.measured)
        rule = first.claim.rule
        self.assertEqual(verdicts.FAILS, verdicts.judge_count(rule, 1))
        rule = second.claim.rule
        self.assertEqual(verdicts.HOLDS, verdicts.judge_count(rule, 1))

    def test_missing_blocks(self) -> None:
        claim = {
            'text': 'No block is missing.',
            'variant': 1.0,
            'measure': 'missing blocks',
            'rule': 'none',
        }
        self.started = self.create(
            base={'lost_hosts': 2}, claims=[claim, {**claim, 'rule': 'some'}]
        )
        loss = {'hosts': 2, 'blocks': 30, 'under_replicated': 7}
        self.losses = [{**loss, 'missing': 0}, {**loss, 'misplaced': 1}]
        self.run_study()
        first, second = self.report().claims
        self.assertEqual(verdicts.HOLDS, first.verdict, first)
        self.assertEqual(verdicts.UNDECIDED, second.verdict)
        self.assertEqual(
            '0 of 240 blocks were missing, 56 under-replicated and 4 '
            'mis-replicated after the loss of 2 hosts (8 losses, 4 clusters, '
            'powered off)',
            first.measured,
        )

    def test_a_missing_block(self) -> None:
        claim = {
            'text': 'No block is missing.',
            'variant': 1.0,
            'measure': 'missing blocks',
            'rule': 'none',
        }
        self.started = self.create(
            base={'lost_hosts': 2}, claims=[claim, {**claim, 'rule': 'some'}]
        )
        self.losses = [{'hosts': 2, 'blocks': 30, 'missing': 1}]
        self.run_study()
        first, second = self.report().claims
        self.assertEqual(verdicts.FAILS, first.verdict)
        self.assertEqual(verdicts.HOLDS, second.verdict)

    def test_a_reason_names_its_variant_once(self) -> None:
        claim = {
            'text': 'No block is missing.',
            'variant': 1.0,
            'measure': 'missing blocks',
            'rule': 'none',
        }
        self.started = self.create(base={'lost_hosts': 2}, claims=[claim])
        (result,) = self.report().claims
        self.assertEqual(
            '1.0: no valid run yet; the claim holds for none in all runs '
            'together.',
            study_page.format_evidence(result),
        )

    def test_blocks_beside_those_of_the_paper(self) -> None:
        claim = {
            'text': 'No block is missing.',
            'variant': '1.0',
            'measure': 'missing blocks',
            'rule': 'none',
        }
        self.started = self.create(
            paper='hve',
            base={'lost_hosts': 2},
            claims=[claim],
            varied=None,
            variants={
                '0.05': {f'hadoop.{PROPERTY}': 0.05, 'row': 'HVE enabled'},
                '1.0': {f'hadoop.{PROPERTY}': 1.0, 'row': 'HVE disabled'},
            },
        )
        loss = {'hosts': 2, 'blocks': 30, 'missing': 1}
        self.losses = [
            {**loss, 'under_replicated': 29},
            {**loss, 'missing': 4, 'under_replicated': 26, 'misplaced': 1},
        ]
        self.run_study()
        report = self.report()
        data: Any = study_report.to_mapping(report)
        # No claim is about the blocks of the other variant.
        measured, paper = data['blocks_after_losses']
        self.assertEqual(8, measured['losses'])
        self.assertEqual('', measured['published'])
        self.assertEqual(
            'hve, section Test Cases and Results', paper['published']
        )
        self.assertEqual(
            {'mean': 27.5, 'min': 26, 'max': 29},
            measured['blocks']['minimally replicated'],
        )
        self.assertEqual(
            {
                'total blocks': 30,
                'minimally replicated': 29,
                'under-replicated': 0,
                'mis-replicated': 1,
            },
            {name: cell['mean'] for name, cell in paper['blocks'].items()},
        )
        self.assertIn(
            '1.0 8 30 27.5 (26 to 29) 27.5 (26 to 29) 0.5 (0 to 1) '
            '1.0 (hve, section Test Cases and Results) 1 30 29 0 1',
            ' '.join(study_page.format_text(report).split()),
        )
        page = study_page.build_page(report)
        self.assertIn('id="blocks"', page)
        self.assertIn('Paper, not measured: hve, section Test Cases', page)

    def test_compute_workers_that_go_and_come(self) -> None:
        claim = {
            'text': 'Added workers get tasks.',
            'variant': 1.0,
            'measure': 'tasks on added workers',
            'rule': 'some',
        }
        missing = {**claim, 'measure': 'missing blocks', 'rule': 'none'}
        self.started = self.create(
            base={
                'configuration': 'i2',
                'deployment': 3,
                'scaled_compute': 1,
            },
            claims=[claim, missing],
        )
        self.scaling = {'removed': 1, 'added': 1, 'sorts': 3}
        self.scaling |= {'tasks_during': 2, 'tasks_after': 4}
        self.run_study()
        first, second = self.report().claims
        self.assertEqual([verdicts.HOLDS] * 2, [first.verdict, second.verdict])
        line = study_page.format_progress(first)
        self.assertTrue(line.startswith('so far: 1.0: 8 tasks of'), line)
        self.assertTrue(line.endswith(', holds'), line)
        self.assertEqual(
            '8 tasks of sorts that ran meanwhile and 16 of the sorts '
            'afterwards were on 1 added compute worker (12 correct sorts, '
            '4 clusters)',
            first.measured,
        )
        self.assertEqual(
            'after the removal of 1 compute worker and the addition of 1, 0 '
            'blocks were missing (4 clusters)',
            second.measured,
        )

    def test_added_workers_without_tasks(self) -> None:
        claim = {
            'text': 'Added workers get tasks.',
            'variant': 1.0,
            'measure': 'tasks on added workers',
            'rule': 'none',
        }
        missing = {**claim, 'measure': 'missing blocks'}
        self.started = self.create(
            base={
                'configuration': 'i2',
                'deployment': 3,
                'scaled_compute': 1,
            },
            claims=[claim, {**claim, 'rule': 'some'}, missing],
        )
        self.scaling = {'removed': 1, 'added': 1, 'missing': 1}
        self.run_study()
        self.assertEqual(
            [verdicts.HOLDS, verdicts.UNDECIDED, verdicts.FAILS],
            [result.verdict for result in self.report().claims],
        )

    def test_two_compute_clusters(self) -> None:
        claim = {
            'text': 'A second cluster gets tasks.',
            'variant': 1.0,
            'measure': 'tasks of a second cluster',
            'rule': 'some',
        }
        missing = {**claim, 'measure': 'missing blocks', 'rule': 'none'}
        self.started = self.create(
            base={
                'configuration': 'i2',
                'deployment': 3,
                'second_cluster': 1,
            },
            claims=[claim, missing],
        )
        self.second = {'workers': 2, 'tasks': 6, 'overlap_seconds': 10.6}
        self.run_study()
        first, second = self.report().claims
        self.assertEqual([verdicts.HOLDS] * 2, [first.verdict, second.verdict])
        self.assertEqual(
            '24 tasks of correct sorts ran on 2 compute workers of a second '
            'cluster, 42 s at the same time as sorts of the first cluster '
            '(4 clusters)',
            first.measured,
        )
        self.assertEqual(
            'after the sorts of two compute clusters at the same time, 0 '
            'blocks were missing (4 clusters)',
            second.measured,
        )

    def judge_bytes(self, *rules: Any) -> list[claim_results.ClaimResult]:
        """Return the results of claims about the received bytes of HSGen."""
        claim = {
            'text': 'The data is received once.',
            'variant': 1.0,
            'measure': 'received bytes',
            'phase': 'HSGen',
        }
        self.started = self.create(
            claims=[{**claim, 'rule': rule} for rule in rules]
        )
        self.run_study()
        return list(self.report().claims)

    def test_received_bytes(self) -> None:
        # The data has 100 MB.
        self.received = [100.0, 101.0, 102.0, 101.0]
        results = self.judge_bytes(
            *({'between': [90, 110]}, {'at_most': 98}, {'at_least': 101}),
        )
        self.assertEqual(
            [verdicts.HOLDS, verdicts.FAILS, verdicts.UNDECIDED],
            [result.verdict for result in results],
        )
        self.assertIn(
            'the received bytes in HSGen are 101.0 % of the data (9',
            results[0].measured,
        )
        text = study_page.format_text(self.report())
        self.assertIn('1.0, received bytes in HSGen; the received', text)
        page = study_page.build_page(self.report())
        self.assertIn('101.0 % of the data', page)
        # No claim is about a difference.
        self.assertNotIn('Intervals of the claims', page)
        data: Any = study_report.to_mapping(self.report())
        self.assertEqual('HSGen', data['claims'][0]['phase'])

    def test_counters_of_the_sort(self) -> None:
        claim = {'text': 'It is so.', 'variant': 1.0}
        spilled = {**claim, 'measure': 'spilled records'}
        uber = {**claim, 'measure': 'tasks in one JVM'}
        claims = [
            {**spilled, 'rule': {'at_most': 100}},
            {**spilled, 'rule': {'at_least': 150}},
            {**uber, 'rule': {'at_least': 100}},
            {**uber, 'rule': {'at_most': 0}},
        ]
        for counters, expected in (
            (
                {
                    'MAP.SPILLED_RECORDS': 10**6,
                    'MAP_OUTPUT_RECORDS': 10**6,
                    'TOTAL_LAUNCHED_UBERTASKS': 2 * factory.TASKS,
                },
                [verdicts.HOLDS, verdicts.FAILS] * 2,
            ),
            (
                {
                    'MAP.SPILLED_RECORDS': 3 * 10**6,
                    'MAP_OUTPUT_RECORDS': 10**6,
                },
                [verdicts.FAILS, verdicts.HOLDS] * 2,
            ),
            (
                {},
                [verdicts.UNDECIDED] * 2 + [verdicts.FAILS, verdicts.HOLDS],
            ),
        ):
            self.counters: dict[str, int] | None = counters
            self.started = self.create(claims=claims)
            self.executed.clear()
            self.run_study()
            results = self.report().claims
            self.assertEqual(expected, [item.verdict for item in results])
        self.assertIn("'spilled records' was not", results[0].reason)

    def test_bytes_that_were_not_measured(self) -> None:
        self.received = [100.0, None]
        (result,) = self.judge_bytes({'between': [90, 110]})
        self.assertEqual(verdicts.UNDECIDED, result.verdict)
        self.assertEqual(
            "'received bytes' was not measured in 2 of 4 runs",
            result.reason,
        )

    def test_local_maps(self) -> None:
        opposite = {**MAPS_CLAIM, 'rule': {'at_most': 5}}
        self.started = self.create(claims=[MAPS_CLAIM, opposite])
        self.run_study()
        first, second = self.report().claims
        self.assertEqual(verdicts.HOLDS, first.verdict, first)
        self.assertEqual(verdicts.FAILS, second.verdict)
        self.assertIn("100.0 % of HSSort's maps", first.measured)
        # Equal shares of few tasks have an interval with a width.
        self.assertNotIn('(100.0 to 100.0', first.measured)
        page = study_page.build_page(self.report())
        self.assertIn('maps are local', page)

    def test_map_tasks_beside_those_of_the_paper(self) -> None:
        published = {'source': 'Table 3', 'description': 'Normal'}
        claim = {**MAPS_CLAIM, 'published': published}
        self.started = self.create(claims=[claim], paper='hve')
        self.run_study()
        report = self.report()
        count = len(report.rows[0].valid)
        data: Any = study_report.to_mapping(report)
        measured, paper = data['map_tasks']
        self.assertEqual('', measured['published'])
        self.assertEqual(5 * count, measured['by_locality']['data-local'])
        self.assertEqual('hve, Table 3', paper['published'])
        # The table has a dash for node groups, and no number.
        self.assertEqual(
            {'data-local': 392, 'rack-local': 8}, paper['by_locality']
        )
        text = study_page.format_text(report)
        self.assertIn('1.0 (hve, Table 3) ', text)
        page = study_page.build_page(report)
        self.assertIn('id="locality"', page)
        self.assertNotIn('This study covers', page)

    def test_every_form_has_the_table_of_the_paper(self) -> None:
        """The rows of the page, of the text and of plain data are equal."""
        self.started = self.create(
            paper='vsphere6',
            table={'source': 'Table 2', 'columns': ['TeraGen', 'TeraSort']},
            varied=None,
            variants={
                '0.05': {f'hadoop.{PROPERTY}': 0.05, 'row': 'Native'},
                '1.0': {f'hadoop.{PROPERTY}': 1.0, 'row': '4 VMs'},
                'other': {f'hadoop.{PROPERTY}': 0.5},
            },
        )
        self.seconds['0.5'] = 100.0
        self.run_study()
        report = self.report()
        data: Any = study_report.to_mapping(report)['comparison']
        self.assertEqual('0.05', data['reference'])
        self.assertEqual('vsphere6, Table 2', data['published'])
        self.assertEqual(['TeraGen', 'TeraSort'], data['columns'])
        reference, item = data['variants']
        self.assertEqual(
            (100.0, None),
            (reference['published_percent'], reference['percent']),
        )
        # Table 2: (1072 + 3825) s to (1072 + 3355) s.
        self.assertAlmostEqual(100 * 4897 / 4427, item['published_percent'])
        percent = report.claims[0].percent
        assert percent is not None
        self.assertAlmostEqual(percent.percent, item['percent']['percent'])
        json.dumps(data)
        text = study_page.format_text(report)
        self.assertIn('percent of 0.05, with vsphere6, Table 2:', text)
        (line,) = [
            line.split()
            for line in text.splitlines()
            if line.split()[:2] == ['1.0', '110.6']
        ]
        self.assertEqual(f'{percent.percent:.1f}', line[2])
        page = study_page.build_page(report)
        self.assertIn('<td>110.6</td>', page)
        self.assertIn('with vsphere6, Table 2', page)

    def test_claims_have_the_rate_of_the_paper(self) -> None:
        (claim,) = CONTENT['claims']
        for change, rate in (('less time', 100 / 0.88), ('', None)):
            published = {**NUMBER, **({'change': change} if change else {})}
            self.started = self.create(
                paper='vsphere6', claims=[{**claim, 'published': published}]
            )
            self.run_study()
            report = self.report()
            (data,) = cast(Any, study_report.to_mapping(report)['claims'])
            self.assertEqual(rate is None, data['published_percent'] is None)
            text = ' '.join(study_page.format_text(report).split())
            self.assertIn('paper: TeraSort, 4 VMs: less time than', text)
            self.assertEqual(
                change != '', 'native: 12 %, that is 113.6 % of the' in text
            )
            page = study_page.build_page(report)
            self.assertIn('less time than native: 12 %', page)
            self.assertEqual(
                change != '', 'diamonds: the paper, not measured' in page
            )
            if rate is not None:
                self.assertAlmostEqual(rate, data['published_percent'])
                self.assertIn('"x":[113.63636363636364]', page)

    def test_rows_of_the_claims_are_in_their_order(self) -> None:
        """The trace of the paper is first, and has the second claim alone."""
        (claim,) = CONTENT['claims']
        published = {**NUMBER, 'change': 'less time'}
        self.started = self.create(
            paper='vsphere6',
            claims=[claim, {**claim, 'published': published}],
        )
        self.run_study()
        self.assertIn(
            '"categoryarray":["1. 1.0 against 0.05","2. 1.0 against 0.05"]',
            study_page.build_page(self.report()),
        )

    def test_system_has_the_profiles_of_all_variants(self) -> None:
        execute = self.rally

        def rally(
            task: str, task_args: dict[str, Any], *args: Any, **kwargs: Any
        ) -> None:
            hadoop = task_args['workloads'][0]['setup']['hadoop']
            self.facts = {'tuning': f'profile-{hadoop[PROPERTY]}'}
            execute(task, task_args, *args, **kwargs)

        self.useFixture(fixtures.MockPatchObject(self, 'rally', rally))
        self.run_study()
        self.assertIn(
            'profile-0.05, profile-1.0', study_page.build_page(self.report())
        )

    def test_why_a_variant_is_not_compared_with_the_paper(self) -> None:
        self.reasons['1.0'] = 'HSSort failed'
        self.run_study()
        data: Any = study_report.to_mapping(self.report())['comparison']
        self.assertEqual('', data['published'])
        self.assertEqual(
            ['', '1.0: HSSort failed'],
            [item['reason'] for item in data['variants']],
        )

    def test_show_has_the_table_of_the_paper(self) -> None:
        status, text = self.call(
            *('study', 'show', 'vsphere6-instances', '-f', 'json')
        )
        self.assertEqual(0, status, text)
        self.assertIn(
            # Table 2: 5594 s to 5122 s.
            'Rates in percent of Native, with vsphere6, Table 2: Native 100, ',
            json.loads(text)['Published'],
        )
        self.assertIn('4 VMs 109.2', json.loads(text)['Published'])
        self.assertIn(
            "of 'Native'. Paper: TeraSort, 4 VMs: less time than native: 12 "
            '%, that is 113.6 % of the rate.',
            json.loads(text)['Claims'],
        )
        status, text = self.call('study', 'show', 'datapath', '-f', 'json')
        self.assertEqual('', json.loads(text)['Published'])

    def test_resume_repeats_no_run(self) -> None:
        self.max_runs = 3
        error = self.assertRaises(errors.RunFailedError, self.run_study)
        self.assertIn(f"'hvstack study resume {self.started.id}'", str(error))
        self.max_runs = 100
        self.started = study_store.load(self.started.id)
        self.run_study()
        # The run without a record is repeated, and no other run.
        self.assertEqual(9, len(self.executed))
        self.assertTrue(study_store.load(self.started.id).finished)

    def test_profiles_remain(self) -> None:
        """Not those of hvstack.conf when the study is resumed."""
        self.run_study()
        # An older release wrote the marker.
        self.assertEqual({}, self.options['hadoop'])
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'arguments'
        with (
            fixtures.EnvironmentVariable('OS_HADOOP__TUNING', 'stock'),
            fixtures.EnvironmentVariable('OS_CLOUD__HOST_PROFILE', 'vsphere6'),
        ):
            status, text = self.call(
                *('study', 'plan', 'amd-spills', '--host', 'vsphere6'),
                *('--backend', 'kvm', '--task-args', str(path)),
            )
        self.assertEqual(0, status, text)
        started = next(
            started
            for started in study_store.list_started()[0]
            if started.study.name == 'amd-spills'
        )
        self.assertEqual(
            {'tuning': 'stock', 'os_profile': 'vsphere6'},
            started.node_settings,
        )
        self.started = study_store.create(
            *(self.started.study, 'lab-worker', 'lxc', {}), tuning='stock'
        )
        self.executed.clear()
        self.run_study()
        self.assertEqual({'tuning': 'stock'}, self.options['hadoop'])

    def test_failed_variant_is_not_decided(self) -> None:
        self.reasons['1.0'] = 'HSSort failed'
        stored = self.run_study()
        self.assertEqual({'1.0': 'HSSort failed'}, stored.failed)
        # Twice, and not in later passes.
        self.assertEqual(2, self.executed.count('1.0'))
        (result,) = self.report().claims
        self.assertEqual(verdicts.UNDECIDED, result.verdict)
        self.assertEqual('1.0: HSSort failed', result.reason)
        self.assertEqual('', study_page.format_progress(result))

    def test_other_facts_must_agree(self) -> None:
        self.run_study()
        before = self.report().claims[0]
        self.assertEqual('', before.reason)
        for variant in self.started.study.variants[1:]:
            for run in sweep_store.load_records(
                self.started.get_sweep(variant)
            ):
                (path,) = sweep_store.RECORDS_DIR.glob(f'*{run.id}.json')
                path.unlink()
        self.facts['kernel'] = '7.0'
        self.run_study()
        (result,) = self.report().claims
        self.assertEqual(verdicts.UNDECIDED, result.verdict)
        self.assertIn('Not comparable: kernel is', result.reason)

    def test_emulated_runs_are_not_compared(self) -> None:
        self.facts['backend'] = 'qemu'
        self.run_study()
        (result,) = self.report().claims
        self.assertEqual(verdicts.UNDECIDED, result.verdict)
        self.assertIn('emulated', result.reason)

    def test_skipped_variant_cannot_be_tested(self) -> None:
        self.started = study_store.create(
            self.started.study, 'lab-worker', 'lxc', {'1.0': 'no Ceph.'}
        )
        self.run_study()
        self.assertEqual(['0.05'] * 4, self.executed)
        report = self.report()
        (result,) = report.claims
        self.assertEqual(verdicts.NOT_TESTABLE, result.verdict)
        self.assertEqual('1.0: no Ceph', result.reason)
        # A report names the only variant of a claim itself.
        alone = dataclasses.replace(result.claim, variant='1.0', against='')
        rows = {row.variant.name: row for row in report.rows}
        result = claim_results.judge_claim(alone, rows, None, self.started)
        self.assertEqual('no Ceph', result.reason)
        self.assertRaises(
            errors.InputError,
            study_run.require_testable,
            self.started.study,
            {'1.0': 'no Ceph'},
        )

    def test_too_few_runs(self) -> None:
        self.started = self.create(passes=1)
        self.run_study()
        (result,) = self.report().claims
        self.assertEqual(verdicts.UNDECIDED, result.verdict)
        self.assertEqual('too few runs for an interval', result.reason)

    def test_an_interval_that_is_too_wide(self) -> None:
        """It is reported only if a verdict follows from it."""
        wide = Percent(110.0, 90.0, 400.0, 3, 3, None, 1, 100.0)
        too_few = 'too few runs for an interval'
        for verdict, interval in (
            (verdicts.UNDECIDED, too_few),
            (verdicts.HOLDS, '90.0 to 400.0'),
        ):
            self.assertIn(
                f'110.0 % of the rate ({interval}, ',
                study_page.format_percent(wide, verdict),
            )
        self.run_study()
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.study.claim_results.compare_variants',
                lambda *_: wide,
            )
        )
        report = self.report()
        self.assertEqual(too_few, report.claims[0].reason)
        self.assertIn(too_few, study_page.format_text(report))
        item = paper_comparison.ComparedVariant('v', wide)
        self.assertEqual(
            ('v', '', '110.0', too_few),
            paper_comparison.list_cells(report.comparison, item),
        )
        self.assertIn('400.0', json.dumps(study_report.to_mapping(report)))

    def test_marker_fixes_the_rules(self) -> None:
        path = study_store.STUDIES_DIR / f'{self.started.id}.json'
        content = json.loads(path.read_text('utf-8'))
        self.assertEqual(CONTENT, content['content'])
        content['content']['claims'][0]['rule'] = 'best'
        path.write_text(json.dumps(content), encoding='utf-8')
        error = self.assertRaises(
            errors.InputError, study_store.load, self.started.id
        )
        self.assertIn('claims.0.rule', str(error))
        self.assertEqual(1, len(study_store.list_started()[1]))

    def call(self, *args: str) -> tuple[int, str]:
        status, output, error = run_command(*args)
        return status, output + error

    def test_commands(self) -> None:
        self.run_study()
        status, text = self.call('study', 'report')
        self.assertEqual(0, status, text)
        self.assertIn('Of 1 claim, 1 holds.', text)
        status, text = self.call('study', 'list', '--started')
        self.assertIn(self.started.id, text)
        status, text = self.call('study', 'list', '--not-covered')
        self.assertIn('CFQ is gone from Linux', text)
        status, text = self.call('study', 'show', 'amd-spills')
        self.assertIn('task.io.sort.mb 50', text)
        status, text = self.call(
            *('study', 'plan', 'vsphere6-instances', '--host', 'vsphere6'),
            *('--backend', 'kvm', '--size', '30TB', '-f', 'json'),
        )
        self.assertEqual(0, status, text)
        plan = json.loads(text)
        self.assertEqual(36, plan['runs'])
        self.assertEqual(
            [''] * 6, [item['skipped'] for item in plan['variants']]
        )
        status, text = self.call('study', 'report', 'study-none')
        self.assertEqual(2, status)
        self.assertIn("Cannot find the study 'study-none'", text)

    def test_duration_of_a_plan(self) -> None:
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'own.yaml'
        path.write_text(json.dumps(CONTENT), encoding='utf-8')
        plan = (
            *('study', 'plan', str(path), '--host', 'vsphere6'),
            *('--backend', 'lxc', '--passes'),
        )
        self.max_runs = 1
        self.seconds = dict.fromkeys(self.seconds, 600.0)
        self.assertRaises(errors.RunFailedError, self.run_study)
        _, text = self.call(*plan, '6')
        self.assertIn('about 120 minutes by the records of runs', text)
        self.assertIn('without the time for clusters', text)
        _, text = self.call(*plan, '7')
        self.assertIn('about 2.3 hours by the records of runs', text)
        self.max_runs = 2
        self.assertRaises(errors.RunFailedError, self.run_study)
        _, text = self.call(*plan, '6')
        self.assertNotIn('without the time for clusters', text)

    def test_plan_skips_what_the_backend_cannot_have(self) -> None:
        status, text = self.call(
            *('study', 'plan', 'vsan-copies', '--host', 'vsphere6'),
            *('--backend', 'lxc'),
        )
        self.assertEqual(2, status, text)
        self.assertIn("Cannot run the study 'vsan-copies'", text)
        # The variants have the same reason.
        self.assertEqual(1, text.count('cannot attach volumes'), text)


class SeparateControllersTest(testtools.TestCase):
    """Separate controllers have a host more, and a host may be lost."""

    def find_obstacle(
        self, combined: tuple[int, int], separate: tuple[int, int], *roles: str
    ) -> str:
        """Return why runs with different controllers are not comparable.

        :param combined: number of all hosts, and of those with workers.
        :param separate: these numbers with separate controllers.
        :param roles: roles whose hosts have a profile of their own.
        """
        rows = []
        for controllers, (hosts, worker_hosts) in (
            (None, combined),
            ('separate', separate),
        ):
            setup = NodeSetup(controllers=controllers)
            facts: dict[str, Any] = dict(setup.facts)
            run = factory.run(
                *('i2', 0, 60),
                hosts=hosts,
                worker_hosts=worker_hosts,
                **facts,
            )
            profiles = {role: {'name': role, 'digest': 'd'} for role in roles}
            run = factory.edit(run, 'seen/host_profile', profiles)
            variant = Variant(str(controllers), parse('i2'), setup=setup)
            rows.append(VariantRow(variant, run.size_bytes, (run,)))
        return claim_results.find_obstacle(*rows)

    def test_controllers_with_hosts_of_their_own(self) -> None:
        roles = 'worker', 'controller'
        self.assertEqual('', self.find_obstacle((4, 3), (5, 3), *roles))
        self.assertEqual('', self.find_obstacle((4, 3), (5, 3)))
        for separate in ((4, 2), (3, 1)):
            self.assertIn(
                f'worker_hosts is 3 here and {separate[1]} there',
                self.find_obstacle((4, 3), separate, *roles),
            )

    def test_controllers_on_the_hosts_of_workers(self) -> None:
        self.assertEqual('', self.find_obstacle((4, 3), (4, 4), 'worker'))
        self.assertIn(
            'worker_hosts is 4 here and 3 there',
            self.find_obstacle((4, 4), (3, 3), 'worker'),
        )

    def test_hosts_of_equal_controllers(self) -> None:
        variants = [Variant(name, parse('i2')) for name in 'ab']
        self.assertEqual(set(), claim_results.list_varied_facts(*variants))


class BareMetalTest(testtools.TestCase):
    """Hosts scatter less than guests, whose intervals must not shrink."""

    def fit(self, *targets: str) -> SweepFit:
        rows = []
        for number, name in enumerate(targets):
            is_bare = name == BARE_METAL
            runs = [
                factory.run(
                    *(name, index, 100 + (0.01 if is_bare else 10) * extra),
                    sweep=f'study-v{number}',
                )
                for index, extra in enumerate(
                    ((0, 1, 0, 1, 0, 1), (1, 0, 1, 0, 1, 0))[number % 2]
                )
            ]
            variant = Variant(f'v{number}', parse_target(name))
            rows.append(VariantRow(variant, runs[0].size_bytes, tuple(runs)))
        fit = study_rows.fit_rates(rows, Quantity(rows[0].variant.workload))
        assert fit is not None
        return fit

    def test_guests(self) -> None:
        fit = self.fit('i1', 'i2', BARE_METAL)
        self.assertEqual('v2', fit.baseline)
        difference = fit.compare('v0', 'v1')
        alone = self.fit('i1', 'i2').compare('v0', 'v1')
        assert difference.error is not None and alone.error is not None
        self.assertAlmostEqual(alone.error, difference.error)

    def test_no_single_row_of_bare_metal(self) -> None:
        self.assertIsNone(self.fit('i1', 'i2').baseline)
        self.assertIsNone(self.fit(BARE_METAL, 'i1', BARE_METAL).baseline)
