# SPDX-License-Identifier: Apache-2.0
"""Spaces, strategies, and the way a sweep goes over crashes."""

import dataclasses
import hashlib
import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import fixtures
import testtools
import yaml

from hvstack import errors
from hvstack.cli.sweep import SIZE_BYTES
from hvstack.model.configuration import parse
from hvstack.model.host import (
    HostCaps,
    HostDisks,
    HostPolicy,
    HostProfile,
    NumaCell,
)
from hvstack.model.target import BARE_METAL
from hvstack.report import improvements
from hvstack.results import percentages
from hvstack.results.record_data import RunRecord
from hvstack.sweep import forecast, schedule, search_space, strategies
from hvstack.sweep.rate_search import SearchSettings
from hvstack.sweep.run_order import Step
from hvstack.sweep.search_space import Space
from hvstack.sweep.strategies import MeasuredRates
from tests.unit.call_count import count_calls
from tests.unit.cli.runner import run_command
from tests.unit.results import factory

SIZE = 10**9
#: As the lab sizes its workers' hosts on a machine of two cores.
HOST = HostProfile(
    name='lab-like',
    sockets=1,
    cores_per_socket=2,
    threads_per_core=1,
    memory_mib=5376,
    cells=(NumaCell(0, (0, 1), 5376),),
    root_gb=12,
    reserved_memory_mib=768,
    controllers_rule='host',
    caps=HostCaps(0.65, 5376),
)
#: A host on which all that is asked for can exist.
LARGE = HostProfile(
    name='large',
    sockets=1,
    cores_per_socket=16,
    threads_per_core=1,
    memory_mib=65536,
    cells=(NumaCell(0, tuple(range(16)), 65536),),
    reserved_memory_mib=32768,
)
WORDS = ('instances=1,2,4', 'cpu_ratio=1,2', 'ram_ratio=1.0,1.2')


def explored(*parameters: str, host: HostProfile = LARGE) -> Space:
    return search_space.explore_space(
        search_space.parse_space(parameters), host, 'kvm'
    )


class SpaceTest(testtools.TestCase):
    def test_seven_of_twelve_on_two_cpus(self) -> None:
        explored_space = search_space.explore_space(
            search_space.parse_space(WORDS), HOST, 'lxc'
        )
        self.assertEqual(
            ['i1', 'i2', 'i2-m1.2', 'i2-c2', 'i2-c2-m1.2', 'i4-c2',
             'i4-c2-m1.2'],
            [configuration.label for configuration in explored_space.possible],
        )  # fmt: skip
        reasons = {skip.name: skip.reason for skip in explored_space.skipped}
        self.assertEqual(
            {'i1-m1.2', 'i1-c2', 'i1-c2-m1.2', 'i4', 'i4-m1.2'}, set(reasons)
        )
        self.assertIn('5529 MiB', reasons['i1-m1.2'])
        self.assertIn('cpu_ratio of at most 1', reasons['i1-c2'])
        self.assertIn('no CPU or memory for each', reasons['i4'])

    def test_workers_too_small_for_hadoop(self) -> None:
        small = replace(
            HOST,
            memory_mib=4864,
            caps=HostCaps(0.65, 4864),
            cells=(NumaCell(0, (0, 1), 4864),),
        )
        explored_space = search_space.explore_space(
            search_space.parse_space(WORDS), small, 'lxc'
        )
        self.assertNotIn(
            'i4-c2',
            [configuration.label for configuration in explored_space.possible],
        )
        reasons = {skip.name: skip.reason for skip in explored_space.skipped}
        self.assertIn('1152 MiB', reasons['i4-c2'])
        # Another tuning has larger containers.
        explored_space = search_space.explore_space(
            search_space.parse_space(WORDS), HOST, 'lxc', tuning='stock'
        )
        reasons = {skip.name: skip.reason for skip in explored_space.skipped}
        self.assertIn("tuning profile 'stock'", reasons['i4-c2'])

    def test_what_backend_and_cloud_cannot(self) -> None:
        parameters = ('storage=local,ceph', 'cpu_policy=shared,dedicated',
                 'cpu_ratio=1,2', 'instances=2')  # fmt: skip
        explored_space = search_space.explore_space(
            search_space.parse_space(parameters), LARGE, 'lxc'
        )
        self.assertEqual(
            ['i2', 'i2-c2'],
            [configuration.label for configuration in explored_space.possible],
        )
        reasons = {skip.name: skip.reason for skip in explored_space.skipped}
        self.assertIn('cannot attach volumes', reasons['i2-ceph'])
        self.assertIn('backend lxc', reasons['i2-dedicated'])
        odd = 'instances 2, cpu_ratio 2, storage local, cpu_policy dedicated'
        self.assertIn("'cpu_policy' is dedicated", reasons[odd])
        explored_space = search_space.explore_space(
            search_space.parse_space(parameters),
            LARGE,
            'kvm',
            ('ceph', 'dedicated'),
        )
        reasons = {skip.name: skip.reason for skip in explored_space.skipped}
        self.assertEqual('this cloud has no Ceph', reasons['i2-ceph'])
        self.assertIn('shared mode', reasons['i2-dedicated'])

    def test_lab_hosts_have_no_local_volumes(self) -> None:
        parameters = ('storage=local,ceph', 'disk_pinning=off,on')
        lab = replace(LARGE, policy=HostPolicy(lab=True))
        for host, labels in (
            (LARGE, ['i1', 'i1-pinned', 'i1-ceph', 'i1-ceph-pinned']),
            (lab, ['i1', 'i1-ceph', 'i1-ceph-pinned']),
        ):
            explored_space = search_space.explore_space(
                search_space.parse_space(parameters),
                replace(host, disks=HostDisks(2, 100)),
                'qemu',
            )
            self.assertEqual(
                labels,
                [chosen.label for chosen in explored_space.possible],
            )
        (skip,) = explored_space.skipped
        self.assertEqual('i1-pinned', skip.name)
        self.assertIn('iSCSI', skip.reason)

    def test_nonsense_is_one_line(self) -> None:
        for parameters in (
            (),
            ('instances',),
            ('instanses=1',),
            ('instances=1,1',),
            ('instances=',),
            ('instances=one',),
            ('instances=0',),
            ('cpu_ratio=1.00001',),
            ('storage=nfs',),
            ('disk_pinning=maybe',),
            ('instances=1', 'instances=2'),
            ('instances=' + ','.join(map(str, range(1, 1000))),
             'cpu_ratio=' + ','.join(map(str, range(1, 100)))),
        ):  # fmt: skip
            exc = self.assertRaises(
                errors.InputError, search_space.parse_space, parameters
            )
            self.assertNotIn('\n', str(exc))
        for start in ('i3', 'nonsense'):
            self.assertRaises(
                errors.InputError,
                search_space.parse_space,
                ('instances=1,2',),
                start,
            )
        exc = self.assertRaises(errors.InputError, explored, 'instances=64,1')
        self.assertIn("start 'i64'", str(exc))

    def test_file(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        path = directory / 'space.yaml'
        path.write_text(
            'start: i2\nvalues:\n  instances: [1, 2]\n'
            '  ram_ratio: [1.0, 1.2]\n  disk_pinning: [off, on]\n'
        )
        explored_space = search_space.load_space(path)
        self.assertEqual('i2', explored_space.start.label)
        self.assertEqual(
            {'instances': (1, 2), 'ram_ratio': (1.0, 1.2),
             'disk_pinning': (False, True)},
            explored_space.values,
        )  # fmt: skip
        for text, line in (
            ('values: {instances: [1, 2], cpus: [1]}', 1),
            ('values:\n  instances: 1', 2),
            ('values:\n  instances: [1]\n  cpu_ratio: [many]', 3),
            ('starts: i1', 1),
            ('start: i1', 1),
            ('start: [i1]\nvalues: {instances: [1]}', 1),
        ):
            path.write_text(text)
            exc = self.assertRaises(
                errors.InputError, search_space.load_space, path
            )
            self.assertIn(f'{path}:{line}: ', str(exc))


class Played:
    """A sweep whose runs have given rates."""

    def __init__(self, strategy: strategies.Strategy, **rates: float) -> None:
        self.strategy = strategy
        self.rates = rates
        self.records: list[RunRecord] = []
        self.bad: set[str] = set()
        self.bad_once: set[tuple[str, int]] = set()

    def step(self) -> bool:
        """Do one run, as a process would that is killed after it."""
        workloads = schedule.plan_workloads(self.strategy, self.records, SIZE)
        if not workloads:
            return False
        self.run_step(workloads[0][0])
        return True

    def run_task(self) -> bool:
        """Do all planned runs, as Rally does; a failed one ends nothing."""
        workloads = schedule.plan_workloads(self.strategy, self.records, SIZE)
        count = len(self.records)
        for step in itertools.chain(*workloads):
            if not any(
                record.valid
                and (record.configuration, record.index)
                == (step.configuration, step.index)
                for record in self.records
            ):
                self.run_step(step)
        return len(self.records) > count

    def run_step(self, step: Step) -> None:
        """Do a run."""
        name = step.label.replace('-', '_').replace(' ', '_')
        index = len(self.records)
        # Two runs of one never agree, so that there is a variance.
        rate = self.rates.get(name, 1.0) * (1.01 if step.index % 2 else 1)
        failed = (step.label, step.index) in self.bad_once
        self.bad_once.discard((step.label, step.index))
        self.records.append(
            factory.run(
                step.configuration,
                step.index,
                100 / rate,
                size=SIZE,
                started=f'2026-11-21T{index // 60:02d}:{index % 60:02d}:00Z',
                reason='dead' if failed or step.label in self.bad else '',
            )
        )

    def whole(self) -> list[tuple[str, int]]:
        """Run all of it, and return its runs."""
        while self.step():
            assert len(self.records) < 500
        return self.runs

    @property
    def runs(self) -> list[tuple[str, int]]:
        return [
            (
                'bare'
                if record.configuration == BARE_METAL
                else parse(record.configuration).label,
                record.index,
            )
            for record in self.records
        ]

    def count(self, label: str) -> int:
        return sum(name == label for name, _ in self.runs)


class StrategyTest(testtools.TestCase):
    def play(self, name: str, *parameters: str, runs: int = 2, **rates: float):
        return Played(
            strategies.create_strategy(name, explored(*parameters), runs),
            **rates,
        )

    def test_full_factorial(self) -> None:
        simulation = self.play('full-factorial', 'instances=1,2')
        self.assertEqual(
            [('bare', 0), ('i1', 0), ('i2', 0), ('bare', 1), ('i1', 1),
             ('i2', 1), ('bare', 2)],
            simulation.whole(),
        )  # fmt: skip

    def test_passes(self) -> None:
        """Each pass has every configuration once, in another order."""
        names = [f'i{count}' for count in (1, 2, 4, 8)]
        simulation = self.play('full-factorial', 'instances=1,2,4,8', runs=6)
        simulation.whole()
        order = [name for name, _ in simulation.runs if name != 'bare']
        passes = [order[first : first + 4] for first in range(0, 24, 4)]
        self.assertEqual([names] * 6, [sorted(part) for part in passes])
        self.assertGreater(len({tuple(part) for part in passes}), 2)
        # Two in each pass of four, and the last run.
        self.assertEqual(13, simulation.count('bare'))
        self.assertEqual(
            ['bare'] * 13, [name for name, _ in simulation.runs[::3]]
        )

    def test_the_next_run_is_of_the_fewest(self) -> None:
        """Of configurations with equal numbers, the digest decides."""
        names = [f'i{count}' for count in (1, 2, 4, 5, 8)]
        counts = dict.fromkeys(map(parse, names), 0)
        expected = []
        while min(counts.values()) < 3:
            count = min(counts.values())
            rarest = [item for item in counts if counts[item] == count]
            digests = {
                hashlib.sha256(f's:{count}:{item.name}'.encode()).digest(): (
                    item
                )
                for item in rarest
            }
            configuration = digests[min(digests)]
            expected.append((configuration, count))
            counts[configuration] += 1
        strategy = strategies.create_strategy(
            'full-factorial', explored('instances=1,2,4,5,8'), 3
        )
        workloads = schedule.plan_workloads(
            strategy, [], SIZE, sweep='s', measure_baseline=False
        )
        self.assertEqual(
            expected, [(step.target, step.index) for (step,) in workloads]
        )

    def test_the_order_takes_linear_time(self) -> None:
        strategy = strategies.create_strategy(
            'full-factorial', explored('instances=1,2,4,5,8'), 4
        )
        calls = []
        for runs in (10, 80):
            requests = [
                dataclasses.replace(request, runs=runs)
                for request in strategy.request_runs(
                    schedule.collect_rates([], SIZE)
                )
            ]
            calls.append(
                count_calls(
                    lambda requests=requests: schedule._arrange_requests(
                        requests, {}, SIZE, 's', 1
                    )
                )
            )
        self.assertLess(calls[1], 10 * calls[0])

    def test_order_depends_on_the_sweep(self) -> None:
        strategy = strategies.create_strategy(
            'full-factorial', explored('instances=1,2,4,8'), 1
        )
        orders = {
            tuple(
                part[0].label
                for part in schedule.plan_workloads(
                    strategy, [], SIZE, sweep=f'sweep-{index}'
                )
            )
            for index in range(9)
        }
        self.assertGreater(len(orders), 3)

    def test_pairs_of_the_kit_share_a_cluster(self) -> None:
        strategy = strategies.create_strategy(
            'full-factorial', explored('instances=1,2'), 4
        )
        workloads = schedule.plan_workloads(
            strategy, [], SIZE, runs_per_cluster=2
        )
        pairs = [
            [step.index for step in part]
            for part in workloads
            if part[0].configuration != BARE_METAL
        ]
        self.assertEqual([[0, 1], [0, 1], [2, 3], [2, 3]], pairs)
        # Bare metal, too: the kit stores records of both of its runs.
        baselines = [
            [step.index for step in part]
            for part in workloads
            if part[0].configuration == BARE_METAL
        ]
        self.assertEqual([[0, 1], [2, 3]], baselines)
        # After the first run of a pair, the second one comes next.
        done = [factory.run(BARE_METAL, 0, 90, size=SIZE)]
        first = workloads[1][0]
        done.append(factory.run(first.configuration, 0, 100, size=SIZE))
        again = schedule.plan_workloads(
            strategy, done, SIZE, runs_per_cluster=2
        )
        self.assertIn([first.configuration, [1]], [
            [part[0].configuration, [step.index for step in part]]
            for part in again
        ])  # fmt: skip

    def test_one_at_a_time_keeps_the_best(self) -> None:
        simulation = self.play(
            'one-at-a-time',
            'instances=1,2,4',
            'cpu_ratio=1,2',
            'storage=ceph,local',
            runs=1,
            i1_ceph=1.0,
            i2_ceph=1.3,
            i4_ceph=1.1,
            i2_c2_ceph=1.2,
            i2=1.6,
        )
        self.assertEqual(
            ['i1-ceph', 'i2-ceph', 'i4-ceph', 'i2-c2-ceph', 'i2'],
            [name for name, _ in simulation.whole() if name != 'bare'],
        )
        sweep_rates = schedule.collect_rates(simulation.records, SIZE)
        way = simulation.strategy.list_tried_values(sweep_rates)
        rates = {
            target.name: observed_rates
            for target, observed_rates in sweep_rates.rates.items()
        }
        self.assertEqual(
            ['+30 %', '+10 %', '-8 %', '+23 %'],
            [
                gain.text
                for gain in improvements.compute_gains(
                    way, percentages.fit_rates(rates, [])
                )
            ],
        )

    def test_gains_as_in_the_deck(self) -> None:
        way = [strategies.TriedValue('cpu_ratio', '3', 'b', 'a')]
        (gain,) = improvements.compute_gains(
            way,
            percentages.fit_rates({'a': [1.0, 1.02], 'b': [0.87, 0.89]}, []),
        )
        self.assertEqual('-13 %', gain.text)
        (line,) = improvements.format_gains([gain])
        self.assertIn('cpu_ratio 3', line)
        self.assertIn('95 % interval -', line)
        (line,) = improvements.format_gains(
            improvements.compute_gains(
                way, percentages.fit_rates({'a': [1.0], 'b': [0.998]}, [])
            )
        )
        self.assertIn('+0 %  (too few runs for an interval)', line)

    def test_killed_anywhere_the_runs_are_the_same(self) -> None:
        """Played asks again after each run, so each run ends a process.

        The runs of a search are those of tests.unit.sweep.test_rate_search:
        it has ended here.
        """
        for name in strategies.STRATEGIES:
            strategy = strategies.create_strategy(
                name,
                explored('instances=1,2,4', 'cpu_ratio=1,2'),
                3,
                SearchSettings(max_runs=0),
            )
            rates = {'i2': 1.05, 'i4': 1.04, 'i4_c2': 0.7}
            killed = Played(strategy, **rates)
            killed.whole()
            again = Played(strategy, **rates)
            while workloads := schedule.plan_workloads(
                strategy, again.records, SIZE
            ):
                planned = [step for part in workloads for step in part]
                for step in planned:
                    self.assertEqual(
                        step,
                        schedule.plan_workloads(strategy, again.records, SIZE)[
                            0
                        ][0],
                    )
                    again.step()
            self.assertEqual(killed.runs, again.runs)
            self.assertEqual(len(set(killed.runs)), len(killed.runs))
            self.assertEqual('bare', killed.runs[-1][0])

    def test_a_run_is_tried_twice_and_given_up(self) -> None:
        for name in strategies.STRATEGIES:
            simulation = self.play(name, 'instances=1,2,4', i4=1.1)
            simulation.bad = {'i2'}
            simulation.whole()
            self.assertEqual(
                [('i2', 0)] * 2, [r for r in simulation.runs if r[0] == 'i2']
            )
            self.assertLess(0, simulation.count('i4'))
            sweep_rates = schedule.collect_rates(simulation.records, SIZE)
            self.assertEqual({parse('i2')}, sweep_rates.excluded)
            choice = simulation.strategy.choose(sweep_rates)
            assert choice
            self.assertNotEqual('i2', parse(choice.selected).label)

    def test_a_run_that_fails_once(self) -> None:
        """It is tried again, although runs after it were valid."""
        for name in strategies.STRATEGIES:
            for failed in (('i1', 0), ('i2', 0), ('i2', 1)):
                simulation = self.play(name, 'instances=1,2')
                simulation.bad_once = {failed}
                while simulation.run_task():
                    self.assertLess(len(simulation.records), 50)
                self.assertEqual(2, simulation.runs.count(failed))
                sweep_rates = schedule.collect_rates(simulation.records, SIZE)
                self.assertEqual(set(), sweep_rates.excluded)
                self.assertFalse(
                    simulation.strategy.request_runs(sweep_rates), failed
                )

    def test_a_pair_that_fails_once(self) -> None:
        """TPC's kit executes runs in pairs."""
        for valid, index in ((1, 0), (0, 1)):
            records = [
                factory.run(
                    'i1', run, 9, size=SIZE, reason='' if run == valid else 'x'
                )
                for run in (0, 1)
            ]
            ((step,),) = schedule.plan_search(parse('i2'), records, SIZE, 2)
            self.assertEqual(('i1', index), (step.label, step.index))

    def test_everything_fails(self) -> None:
        for name in strategies.STRATEGIES:
            simulation = self.play(name, 'instances=1,2')
            simulation.bad = {'i1', 'i2'}
            simulation.whole()
            self.assertEqual(
                (2, 2), (simulation.count('i1'), simulation.count('i2'))
            )
            sweep_rates = schedule.collect_rates(simulation.records, SIZE)
            self.assertIsNone(simulation.strategy.choose(sweep_rates))

    def test_killed_for_memory_is_not_tried_again(self) -> None:
        bad = factory.run(
            'i1', 0, 9, size=SIZE, reason='OOM', observations={'killed': ['x']}
        )
        sweep_rates = schedule.collect_rates([bad], SIZE)
        self.assertEqual({parse('i1')}, sweep_rates.excluded)

    def test_a_baseline_that_fails_does_not_stop_all(self) -> None:
        simulation = self.play('full-factorial', 'instances=1,2')
        simulation.bad = {'bare metal'}
        simulation.whole()
        self.assertEqual(
            [('bare', 0), ('bare', 0), ('i1', 0), ('i2', 0), ('bare', 1),
             ('bare', 1), ('i1', 1), ('i2', 1), ('bare', 2), ('bare', 2)],
            simulation.runs,
        )  # fmt: skip

    def test_other_sizes_do_not_count(self) -> None:
        large = factory.run(BARE_METAL, 0, 9, size=2 * SIZE)
        self.assertEqual({}, schedule.collect_rates([large], SIZE).rates)

    def test_extent(self) -> None:
        area = explored('instances=1,2,4')
        min_estimate, max_estimate = forecast.estimate_sweep(
            strategies.create_strategy('full-factorial', area, 2)
        )
        self.assertEqual(min_estimate, max_estimate)
        self.assertEqual(
            (3, 10, 10),
            (
                max_estimate.configurations,
                max_estimate.visits,
                max_estimate.runs,
            ),
        )
        self.assertEqual(10 * 60 + 10 * 10, max_estimate.seconds(60, 10))
        # A host without another instance has no second value of cpu_ratio.
        min_estimate, max_estimate = forecast.estimate_sweep(
            strategies.create_strategy(
                *('one-at-a-time', explored('instances=1,2', 'cpu_ratio=1,2')),
                2,
            ),
            measure_baseline=False,
        )
        self.assertEqual((4, 6), (min_estimate.runs, max_estimate.runs))

    def test_nonsense(self) -> None:
        area = explored('instances=1,2')
        self.assertRaises(
            errors.InputError, strategies.create_strategy, 'luck', area, 2
        )
        self.assertRaises(
            errors.InputError,
            *(strategies.create_strategy, 'full-factorial', area, 0),
        )

    def test_nothing_measured_no_choice(self) -> None:
        for name in strategies.STRATEGIES:
            strategy = self.play(name, 'instances=1,2').strategy
            self.assertIsNone(strategy.choose(MeasuredRates({})))

    def test_costs(self) -> None:
        names = ['i1', 'i2', 'i2-pinned', 'i2-dedicated', 'i1-m1.1', 'i2-c2']
        costs = [parse(name).cost for name in names]
        self.assertEqual(sorted(costs), costs)
        self.assertTrue(math.isclose(parse('i1-c0.5').cost[0], 1))


class PlanCommandTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.top = Path(self.useFixture(fixtures.TempDir()).path)
        self.host = self.top / 'host.yaml'
        self.host.write_text(yaml.safe_dump(HOST.to_mapping()))
        (self.top / 'records').mkdir()

    def call(self, *args: str) -> tuple[int, str, str]:
        return run_command(
            *('sweep', 'plan', '--host', str(self.host), '--backend', 'lxc'),
            *('--records', str(self.top / 'records'), *args),
        )

    def test_estimated_time(self) -> None:
        """Without a recorded run, the assumed speeds estimate the time."""
        options = ('--values', 'instances=1,2', '--strategy', 'full-factorial')
        options += ('--hosts', '3', '--size', '100MB')
        _, out, _ = self.call(*options, '--format', 'json')
        plan = json.loads(out)
        run = max(
            sum(cluster['estimates'].values()) for cluster in plan['clusters']
        )
        self.assertGreater(run, 0)
        self.assertIsNone(plan['seconds'])
        _, out, _ = self.call(*options)
        self.assertIn(f'{run:.0f} s a run if a disk has 80 MB/s, a port ', out)
        _, out, _ = self.call(*options, '--run-seconds', '60')
        self.assertNotIn('if a disk has', out)

    def test_table(self) -> None:
        status, out, err = self.call(
            '--values', *WORDS, '--strategy', 'full-factorial'
        )
        self.assertEqual((0, ''), (status, err))
        self.assertIn('7 of 12 configurations can exist: i1, i2, ', out)
        self.assertIn('skipped: i4: 4 instances leave no CPU', out)
        self.assertIn('measures 7 of them in 22 runs', out)
        self.assertIn('those on bare metal included', out)
        self.assertIn('how long is not known', out)
        self.assertIn('or --hosts for an estimate', out)
        _, out, _ = self.call(
            *('--values', *WORDS, '--strategy', 'full-factorial'),
            *('--backend', 'qemu'),
        )
        self.assertIn('measures 7 of them in 14 runs, none on bare', out)

    def test_tuning_says_how_small_a_worker_may_be(self) -> None:
        status, out, err = self.call('--values', *WORDS, '--tuning', 'stock')
        self.assertEqual((0, ''), (status, err))
        self.assertIn('1 vCPUs and 1152 MiB', out)
        self.assertIn("tuning profile 'stock'", out)

    def test_json_with_recorded_times(self) -> None:
        # Runs on emulated CPUs do not tell the times of other guests.
        for configuration, index, minute, seconds, backend in (
            (BARE_METAL, 0, 0, 100, ''),
            ('i1', 0, 2, 120, 'lxc'),
            ('i1', 1, 7, 140, 'lxc'),
            ('i1', 2, 12, 1400, 'qemu'),
            ('i1', 3, 45, 1400, 'qemu'),
        ):
            facts: dict[str, Any] = {'backend': backend} if backend else {}
            factory.save(
                factory.run(
                    configuration,
                    index,
                    seconds,
                    size=SIZE_BYTES,
                    started=f'2026-11-21T05:{minute:02d}:00Z',
                    observations={'cluster': configuration},
                    **facts,
                ),
                self.top / 'records',
            )
        status, out, _ = self.call(
            '--values', *WORDS, '--strategy', 'full-factorial', '-f', 'json'
        )
        self.assertEqual(0, status)
        data = json.loads(out)
        self.assertEqual(
            (7, 5), (len(data['configurations']), len(data['skipped']))
        )
        self.assertEqual([22, 22], data['runs'])
        # From the end of the run on bare metal until the start of the next.
        self.assertEqual(
            (120, 20), (data['run_seconds'], data['setup_seconds'])
        )
        self.assertEqual([22 * 120 + 22 * 20] * 2, data['seconds'])

    def test_given_times(self) -> None:
        status, out, _ = self.call(
            *('--values', 'instances=1,2', '--run-seconds', '600'),
            *('--strategy', 'one-at-a-time'),
        )
        self.assertEqual(0, status)
        self.assertIn('about 1.2 hours: 600 s a run', out)

    def test_bad_input_is_one_line(self) -> None:
        for args in (
            ('--values', 'instances=1,x'),
            ('--values', 'cpus=1'),
            ('--values', 'instances=1', '--runs', '0'),
            ('--values', 'instances=1', '--run-seconds', '-1'),
            ('--values', 'instances=1', '--start', 'i2'),
            ('--space', str(self.top / 'none.yaml')),
            ('--space', str(self.host)),
            ('--space', str(self.host), '--start', 'i1'),
        ):
            status, out, err = self.call(*args)
            self.assertEqual((2, ''), (status, out), args)
            self.assertEqual(1, err.count('\n'), err)
