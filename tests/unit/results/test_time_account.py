# SPDX-License-Identifier: Apache-2.0
"""Test the accounts of the time of runs."""

import random
from typing import Any

import testtools

from hvstack.results import time_account, time_counters
from hvstack.results.record_data import RunRecord
from hvstack.results.time_account import Cause, Reference
from tests.unit.results import factory
from tests.unit.results.timed_runs import CORES, Model, timed_run

HSGEN = 'seen/telemetry/phases/HSGen'


def record(model: Model | None = None, **arguments: Any) -> RunRecord:
    """Return a record of a run without noise."""
    return timed_run(
        arguments.pop('configuration', 'i1'),
        0,
        model or Model(noise=0.0),
        random.Random(0),
        **arguments,
    )


def account(run: RunRecord, baseline: RunRecord | None = None) -> Any:
    """Return the account of HSGen."""
    bare_metal = baseline or record(configuration='bare-metal')
    reference = time_account.build_reference([run], [bare_metal])
    return time_account.account_run(run, reference)['HSGen']


class Accounts(testtools.TestCase):
    def test_causes_add_up_to_each_phase(self) -> None:
        for model in (
            Model(),
            Model(cpu=2, disk=50, uneven=0.3, timeouts=1000),
            Model(speed=0.5, waiting=30, jvms=0.5),
        ):
            run = record(model)
            reference = time_account.build_reference([run], [run])
            accounts = time_account.account_run(run, reference)
            for name, seconds in run.phase_seconds().items():
                self.assertAlmostEqual(seconds, sum(accounts[name].values()))

    def test_values_of_the_model(self) -> None:
        causes = account(record(Model(noise=0, disk=4)))
        for cause, seconds in (
            (Cause.TASKS, 30 / CORES),
            (Cause.JVMS, 1.5 / CORES),
            (Cause.AGENTS, 1.5 / CORES),
            (Cause.DISK, 4),
            (Cause.STARTS, 5),
            (Cause.REMAINDER, 2),
        ):
            self.assertAlmostEqual(seconds, causes[cause], msg=cause)

    def test_no_second_counts_twice(self) -> None:
        """Counters that show more than the unused seconds share them."""
        run = record(Model(noise=0, disk=4, waiting=0))
        plain = account(run)
        throttled = factory.edit(run, f'{HSGEN}/throttled', 1e6)
        shared = account(throttled)
        self.assertGreater(shared[Cause.THROTTLING], 0)
        self.assertLess(shared[Cause.DISK], plain[Cause.DISK])
        self.assertAlmostEqual(0, shared[Cause.REMAINDER])
        for cause in (Cause.TASKS, Cause.JVMS, Cause.AGENTS):
            self.assertEqual(plain[cause], shared[cause])

    def test_throttling_as_on_bare_metal_is_no_cause(self) -> None:
        self.assertEqual(0, account(record())[Cause.THROTTLING])
        self.assertGreater(
            account(record(Model(noise=0, speed=0.8)))[Cause.THROTTLING], 1
        )

    def test_idle_cores_take_the_cpu_time_of_others(self) -> None:
        """Daemons displace no task where tasks do not use all cores."""
        run = record()
        reference = Reference(100.0, {}, time_account.list_observed(run))
        causes = time_account.account_run(run, reference)['HSGen']
        self.assertEqual(0, causes[Cause.JVMS])
        self.assertEqual(0, causes[Cause.AGENTS])
        # Four tasks run at once.
        self.assertAlmostEqual(30 / 4, causes[Cause.TASKS], places=2)

    def test_unobserved_cause_is_in_the_remainder(self) -> None:
        run = record(Model(noise=0, disk=4))
        base = factory.edit(
            record(configuration='bare-metal'),
            'seen/telemetry/nodes/w0/disks',
            {},
        )
        causes = account(run, base)
        self.assertNotIn(Cause.DISK, causes)
        self.assertAlmostEqual(6, causes[Cause.REMAINDER])

    def test_worker_without_telemetry(self) -> None:
        """The sums over the workers lack its part."""
        run = factory.edit(record(Model(noise=0, disk=4)), 'seen/workers', 3)
        for causes in (
            account(run),
            account(record(), factory.tell(record(), workers=3)),
        ):
            self.assertEqual(
                {Cause.TASKS, Cause.UNEVEN, Cause.STARTS, Cause.REMAINDER},
                set(causes),
            )

    def test_run_of_the_kit_has_no_job(self) -> None:
        run = factory.run('i1', 0, 100.0)
        causes = account(run, factory.run('bare-metal', 0, 100.0))
        self.assertEqual({Cause.REMAINDER: 25.0}, causes)


class Uneven(testtools.TestCase):
    def uneven(
        self, task_type: str, walls: list[float], tasks: int, workers: int
    ) -> float:
        """Return the uneven seconds of a job that waits for long anyway."""
        run = record(Model(noise=0, waiting=100))
        phases = factory.stored_phases(run)
        phases[0]['map_shuffle_seconds'] = max(walls)
        phases[0]['nodes'] = {
            f'w{n}': {
                'map_wall_seconds': 0.0,
                f'{task_type}s': tasks / len(walls),
                f'{task_type}_wall_seconds': wall,
            }
            for n, wall in enumerate(walls)
        }
        phases[0]['reduce_merge_seconds'] = 10.0
        run = factory.edit(run, 'phases', phases)
        run = factory.tell(run, workers=workers)
        return float(account(run)[Cause.UNEVEN])

    def test_slowest_worker_beyond_the_mean(self) -> None:
        self.assertAlmostEqual(1, self.uneven('map', [6, 4], 8, 2))

    def test_idle_worker_counts(self) -> None:
        self.assertAlmostEqual(3, self.uneven('map', [6], 8, 2))

    def test_single_task_cannot_be_split(self) -> None:
        self.assertEqual(0, self.uneven('map', [6], 1, 2))

    def test_fewer_tasks_than_workers(self) -> None:
        self.assertEqual(0, self.uneven('map', [6, 6], 2, 4))

    def test_worker_that_gets_no_tasks(self) -> None:
        """The other worker runs all tasks one after another."""
        plain = account(record())
        run = record(Model(noise=0, uneven=0.5))
        (node,) = run.phases[0].job.nodes.values()
        self.assertEqual(8, node['maps'])
        wall = node['map_wall_seconds']
        causes = account(run)
        self.assertAlmostEqual(wall / 2, causes[Cause.UNEVEN])
        for cause in (Cause.TASKS, Cause.JVMS, Cause.STARTS):
            self.assertAlmostEqual(plain[cause], causes[cause], msg=cause)

    def test_reduces_wait_for_maps_before_their_stage(self) -> None:
        self.assertAlmostEqual(1, self.uneven('reduce', [6, 4], 8, 2))


class Counters(testtools.TestCase):
    def test_workers_of_a_host_report_the_same_cap(self) -> None:
        run = factory.edit(record(), f'{HSGEN}/throttled', 80.0)
        self.assertEqual(80, time_counters.get_throttled_seconds(run, 'HSGen'))
        run = factory.tell(run, workers=4)
        nodes = {f'w{number}': {'role': 'worker'} for number in range(4)}
        run = factory.edit(run, 'seen/telemetry/nodes', nodes)
        self.assertEqual(40, time_counters.get_throttled_seconds(run, 'HSGen'))
        run = factory.edit(
            run,
            'seen/flavor/worker/extra_specs',
            {'quota:cpu_quota': '5000'},
        )
        self.assertEqual(80, time_counters.get_throttled_seconds(run, 'HSGen'))

    def test_cores(self) -> None:
        caps = {'a': {'cpu': 0.5}, 'b': {'cpu': 0.7}, 'c': {'cpu': 0.9}}
        run = record(caps=caps)
        self.assertAlmostEqual(1.4, time_counters.count_cores(run))
        phases = factory.stored_phases(run)
        phases[0]['hosts'] = {'b': {'workers': 1}, 'c': {'workers': 1}}
        run = factory.edit(run, 'phases', phases)
        self.assertAlmostEqual(1.6, time_counters.count_cores(run))
        run = factory.tell(
            run, probe={'hosts': {'a': {'cap': 0.5, 'cores': 0.5}}}
        )
        self.assertEqual(0.5, time_counters.count_cores(run))

    def test_cores_without_caps(self) -> None:
        run = factory.edit(record(), 'environment/caps', ...)
        self.assertIsNone(time_counters.count_cores(run))
        for name in ('w0', 'w1'):
            run = factory.edit(run, f'seen/telemetry/nodes/{name}/cpus', 16)
        self.assertEqual(32, time_counters.count_cores(run))

    def test_busiest_disk(self) -> None:
        disks = {'sda': {'busy': 1.0}, 'sdb': {'busy': 7.0}}
        run = factory.edit(record(), 'seen/telemetry/nodes/w0/disks', disks)
        node = time_counters.get_summary(run).nodes['w0']
        self.assertEqual(7, time_counters.get_busy_seconds(node))

    def test_busy_seconds_of_a_phase(self) -> None:
        """The mean of the workers, which the bytes do not change."""
        run = factory.edit(record(), f'{HSGEN}/busy', 30.0)
        run = factory.edit(run, f'{HSGEN}/read', 1.0)
        self.assertEqual(15, time_counters.compute_busy_seconds(run, 'HSGen'))

    def test_busy_seconds_of_older_records(self) -> None:
        """The bytes of the phases split those of the run."""
        run = record(Model(noise=0, disk=4))
        for name in ('HSGen', 'HSSort', 'HSValidate'):
            run = factory.edit(run, f'seen/telemetry/phases/{name}/busy', ...)
        self.assertEqual(4, time_counters.compute_busy_seconds(run, 'HSGen'))
        run = factory.edit(run, f'{HSGEN}/read', 2 * 4e7)
        run = factory.edit(run, f'{HSGEN}/write', 2 * 4e7)
        self.assertEqual(6, time_counters.compute_busy_seconds(run, 'HSGen'))
