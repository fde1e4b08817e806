# SPDX-License-Identifier: Apache-2.0
"""A whole run against a node that answers as Hadoop's programs did."""

import contextlib
import io
import itertools
import json
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import errors, processutils
from hvstack.cluster import cpu_caps, lab_groups
from hvstack.cluster.base import Fact, Node
from hvstack.hadoop.job_history import JobHistory, Task
from hvstack.model.configuration import parse
from hvstack.model.target import BARE_METAL, BareMetal
from hvstack.progress import Progress
from hvstack.results import comparability, record, selfcheck
from hvstack.results.benchmark import PHASES
from hvstack.results.file_run_store import FileRunStore
from hvstack.results.run_id import RunId
from hvstack.results.sql_run_store import SqlRunStore
from hvstack.tpcxhs import preparation, run
from hvstack.tpcxhs.compute_scaling import ComputeScalingSpec
from hvstack.tpcxhs.deadlines import Limits
from hvstack.tpcxhs.result import RunResult, RunSpec
from hvstack.tpcxhs.run_samplers import SamplingSpec
from hvstack.tpcxhs.second_cluster import SecondClusterSpec
from hvstack.tpcxhs.workload import Workload
from tests.unit.cluster.lab_tree import LabTree
from tests.unit.results import factory

FSCK = (Path(__file__).parent / 'fsck' / 'healthy.txt').read_text()
BYTES = 10_000_000
JOBS = {'teragen': 'job_1_0001', 'terasort': 'job_1_0002'}
OOM = (
    '[9.0] oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/hv-host2,'
    'task=java,pid=4\n'
)

#: What removes the data of the run before.
PURGED = '/webhdfs/v1/benchmarks/tpcx-hs?op=DELETE'


@dataclass
class Hadoop:
    """A controller on which commands end as they did on a real one.

    :param broken: a piece of a command, and what it gives instead.
    """

    name: str = 'c'
    address: str = '10.0.0.1'
    role: str = 'controller'
    host: str = 'h'
    broken: dict[str, processutils.Result] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    remaining: int = 10**12
    used: int = 0
    blocks: int = 0
    log: list[str] = field(default_factory=lambda: [''])
    dead: str = ''
    stalled: str = ''
    deadline: float = 0
    os_state: str = 'profile vsan\nset a=1\nnot set b=2: why\n'
    before_sort: Callable[[], None] = lambda: None

    def put(self, text: str, path: str, mode: int = 0o644) -> None:
        raise NotImplementedError

    def run(
        self,
        command: str,
        *,
        timeout: float = 600,
        check: bool = True,
        stdin: str | None = None,
        on_timeout: Callable[[], float] | None = None,
    ) -> processutils.Result:
        self.commands.append(command)
        if self.stalled and self.stalled in command:
            assert on_timeout is not None
            self.deadline = timeout
            while on_timeout():
                pass
            raise errors.DeadlineExceededError(command)
        for piece, result in self.broken.items():
            if piece in command:
                if check and result.returncode:
                    raise errors.CommandError([command], 1, result.stderr)
                return result
        return processutils.Result(0, self.answer(command), '')

    def answer(self, command: str) -> str:
        if command == 'dmesg':
            return self.log[0] if len(self.log) == 1 else self.log.pop(0)
        if 'node status' in command:
            return self.dead
        if 'os-profile' in command:
            return self.os_state
        if 'hadoop jar' in command:
            program = shlex.split(command)[3]
            if program == 'terasort':
                self.before_sort()
            job = JOBS.get(program, 'job_1_0003')
            return f'INFO mapreduce.Job: Running job: {job}\n'
        if 'fsck' in command:
            time.sleep(0.002)
            return FSCK
        if '-cat' in command or 'op=OPEN' in command:
            return 'checksum\tff\n'
        if 'op=LISTSTATUS' in command:
            name = 'root' if '/user?' in command else 'part-r-00000'
            statuses = {'FileStatus': [{'pathSuffix': name}]}
            return json.dumps({'FileStatuses': statuses})
        if 'op=DELETE' in command:
            return '{"boolean": true}'
        if 'bean' in command or 'jmx' in command:
            bean = {
                'CapacityRemaining': self.remaining,
                'CapacityUsed': self.used,
                'PendingDeletionBlocks': 0,
                'BlocksTotal': self.blocks,
                'ClusterId': 'CID-1',
            }
            return json.dumps({'beans': [bean]})
        if 'cluster/apps' in command:
            return json.dumps({'apps': None})
        return self.history(command)

    def configuration(self, command: str) -> str:
        if '/jobs/' in command:
            rows = [
                {'name': 'a', 'value': '1', 'source': ['x-site.xml', 'job']},
                {'name': 'b', 'value': '2', 'source': ['x-default.xml', 'j']},
                {'name': 'c', 'value': '3', 'source': ['programmatically']},
            ]
            return json.dumps({'conf': {'path': 'p', 'property': rows}})
        return json.dumps(
            {
                'properties': [
                    {'key': 'd', 'value': '4', 'resource': 'x-site.xml'},
                    {'key': 'e', 'value': '5', 'resource': 'x-default.xml'},
                ]
            }
        )

    def history(self, command: str) -> str:
        if '/tasks' in command:
            return json.dumps({'tasks': {'task': []}})
        if command.endswith("/conf'") or command.endswith('/conf'):
            return self.configuration(command)
        if '/counters' in command:
            records = BYTES // 100
            names = {
                'MAP_INPUT_RECORDS': records,
                'MAP_OUTPUT_RECORDS': records,
                'REDUCE_OUTPUT_RECORDS': records,
                'CHECKSUM': 255,
            }
            counters = [
                {
                    'name': name,
                    'totalCounterValue': value,
                    'mapCounterValue': value,
                }
                for name, value in names.items()
            ]
            group = {'counterGroupName': 'x.TaskCounter', 'counter': counters}
            return json.dumps({'jobCounters': {'counterGroup': [group]}})
        if '/jobs/' in command:
            job_id = command.rpartition('/jobs/')[2].strip("'")
            job = {'id': job_id, 'state': 'SUCCEEDED', 'startTime': 0}
            totals = {'finishTime': 9, 'mapsTotal': 6, 'reducesTotal': 6}
            return json.dumps({'job': {**job, **totals}})
        return ''


@dataclass
class Some:
    """A cluster of one such node."""

    gateway: Hadoop
    dropped: int = 0
    name: str = 'some'
    kind: str = 'hosts'
    worker_hosts: int = 2
    processors: int = 1
    tuning: str = 'hvstack'
    count: int = 1
    facts: dict[str, Fact] = field(default_factory=dict)
    moved: list[str] | errors.CloudError = field(default_factory=list)

    @property
    def manager(self) -> Node:
        return self.gateway

    @property
    def workers(self) -> Sequence[Node]:
        return [self.gateway] * self.count

    @property
    def nodes(self) -> Sequence[Node]:
        return [self.gateway]

    def environment(self) -> dict[str, Any]:
        return {'kernel': '6', **self.facts}

    def observe(self) -> dict[str, Any]:
        return {'workers': 2}

    def list_moved(self) -> list[str]:
        if isinstance(self.moved, errors.CloudError):
            raise self.moved
        return self.moved

    def drop_caches(self) -> None:
        self.dropped += 1
        self.gateway.run('drop_caches')


class RunTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.gateway = Hadoop()
        self.cluster = Some(self.gateway)
        self.workload = Workload(BYTES, 2, 6, 6)

    def run_once(self) -> RunResult:
        return run.run(self.cluster, self.workload)

    def jobs(self) -> list[str]:
        return [
            shlex.split(command)[3]
            for command in self.gateway.commands
            if command.startswith('hadoop jar')
        ]

    def test_no_progress(self) -> None:
        self.gateway.stalled = ' terasort '
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.processutils.clock', itertools.count(0, 10).__next__
            )
        )
        run_result = run.run(
            self.cluster, self.workload, limits=Limits(60, 30)
        )
        self.assertEqual(60, self.gateway.deadline)
        self.assertFalse(run_result.is_valid)
        self.assertIn('HSSort was stopped after', run_result.reason)
        self.assertIn('had not changed for 30 s', run_result.reason)
        self.assertEqual('HSSort', run_result.phases[-1].name)
        self.assertEqual(['teragen', 'terasort'], self.jobs())

    def test_cpu_of_the_machine_and_weight_of_its_hosts(self) -> None:
        """From the probe to the end of the last phase, and in each phase."""
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cloud.journal.DIRECTORY', directory)
        )
        lab = self.useFixture(LabTree(1, 'hv-host1'))
        lab.set_cap('hv-host1', 0.5)
        weights: dict[str, str] = {}
        run_command = Hadoop.run

        def watch(node: Hadoop, command: str, **kwargs: Any) -> Any:
            word = command.split(' -')[0][:30]
            weights[word] = lab.weight('hv-host1').read_text().strip()
            return run_command(node, command, **kwargs)

        def observe(_: Some) -> dict[str, Any]:
            weights['probe'] = lab.weight('hv-host1').read_text().strip()
            return {'probe': {'tries': 3, 'passed': False}}

        for name, target in (('Hadoop.run', watch), ('Some.observe', observe)):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'tests.unit.tpcxhs.test_run.{name}', target
                )
            )
        self.cluster.facts = {'caps': {'hv-host1': {'cpu': 0.5}}}
        stream = io.StringIO()
        run_result = run.run(
            self.cluster, self.workload, progress=Progress(stream=stream)
        )
        self.assertEqual('', run_result.reason)
        self.assertIn('the probe was not passed in 3', stream.getvalue())
        self.assertEqual('262144', weights['probe'])
        jobs = {
            word: weight
            for word, weight in weights.items()
            if 'hadoop jar' in word or 'terasort' in word
        }
        self.assertEqual({'262144'}, set(jobs.values()), weights)
        self.assertEqual('1024', lab.weight('hv-host1').read_text().strip())
        for phase in run_result.phases:
            self.assertEqual(
                {
                    *('seconds', 'busy', 'hosts', 'control_plane'),
                    *('hvstack', 'foreign'),
                },
                set(phase.to_mapping()['machine_cpu']),
            )
        cores = {'hv-host1': {'cores': 0.5, 'weight': 262144}}
        for moment in ('before_probe', 'after_run'):
            self.assertEqual(cores, run_result.observations[f'caps_{moment}'])
        # No lab host is known elsewhere.
        self.cluster.facts = {}
        self.assertNotIn('machine_cpu', self.run_once().phases[0].to_mapping())

    def test_caps_are_in_force_from_the_probe_to_the_last_phase(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.cloud.journal.DIRECTORY', directory)
        )
        lab = self.useFixture(LabTree(1, 'hv-host1'))
        groups = lab_groups.find_hosts(lab.names)
        caps: dict[str, float | None] = {}
        run_command = Hadoop.run

        def watch(node: Hadoop, command: str, **kwargs: Any) -> Any:
            caps[command[:40]] = cpu_caps.read_cap(groups[0])
            return run_command(node, command, **kwargs)

        self.useFixture(
            fixtures.MonkeyPatch(
                'tests.unit.tpcxhs.test_run.Hadoop.run', watch
            )
        )
        self.cluster.facts = {'caps': {'hv-host1': {'cpu': 0.65}}}
        with cpu_caps.lifted(groups):
            self.assertEqual('', run.run(self.cluster, self.workload).reason)
            self.assertIsNone(cpu_caps.read_cap(groups[0]))
        jobs = {cap for text, cap in caps.items() if 'hadoop jar' in text}
        self.assertEqual({0.65}, jobs, caps)
        self.assertIn(None, caps.values())
        lab.set_cap('hv-host1', 0.6)
        error = self.assertRaises(
            errors.RunFailedError, run.run, self.cluster, self.workload
        )
        self.assertIn('hv-host1: 0.6 cores instead of 0.65', str(error))

    def test_split_of_the_tasks(self) -> None:
        """By host and by worker, also of a worker without tasks."""
        # The fake has a node; a cluster of two has another on another host.
        worker = Hadoop(name='w', address='10.0.0.2', host='other')
        self.useFixture(
            fixtures.MonkeyPatch(
                'tests.unit.tpcxhs.test_run.Some.workers',
                [self.gateway, worker],
            )
        )
        tasks = [
            Task(f't{n}', 'map', '10.0.0.1', n, n + 4, 1, 1) for n in (0, 4)
        ]
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.hadoop.job_history.load_histories',
                lambda _, ids, __: ({x: JobHistory(tasks) for x in ids}, {}),
            )
        )
        run_result = self.run_once()
        empty = {'workers': 1, 'maps': 0, 'reduces': 0}
        for phase in run_result.phases:
            if phase.job_id:
                self.assertEqual(
                    {'h': {**empty, 'maps': 2}, 'other': empty},
                    phase.to_mapping()['hosts'],
                )
        first, *_ = run_result.observations['uneven_tasks']
        self.assertIn('maps of HSGen: 2 + 0 by host', first)
        self.assertIn('about 4.0 s more', first)

    def test_what_is_in_force_is_written_down(self) -> None:
        run_result = self.run_once()
        self.assertEqual(
            {
                'job': {'a': '1', 'c': '3'},
                **{
                    daemon: {'d': '4'}
                    for daemon in (
                        'namenode',
                        'resourcemanager',
                        'datanode',
                        'nodemanager',
                    )
                },
            },
            run_result.observations['parameters'],
        )
        self.assertEqual('hvstack', run_result.sut['tuning'])
        self.assertEqual('vsan', run_result.sut['os_profile'])
        self.assertEqual(['b=2: why'], run_result.observations['os_not_set'])

    def test_a_daemon_that_does_not_say_is_named(self) -> None:
        self.gateway.broken[':9864/conf'] = processutils.Result(
            0, 'no JSON', ''
        )
        run_result = self.run_once()
        self.assertEqual('', run_result.reason)
        self.assertIn(
            'datanode: ', run_result.observations['parameters']['unread'][0]
        )

    def test_job_settings(self) -> None:
        first = self.run_once()
        self.assertNotIn('job_settings', first.sut)
        settings = (
            ('mapreduce.map.java.opts', '-Xmx800m -Xmn256m'),
            ('mapreduce.task.io.sort.factor', '64'),
        )
        self.workload = Workload(BYTES, 2, 6, 6, settings=settings)
        second = self.run_once()
        self.assertEqual(dict(settings), second.sut['job_settings'])
        jobs = [
            shlex.split(command)
            for command in self.gateway.commands
            if command.startswith('hadoop jar')
        ]
        self.assertEqual(6, len(jobs))
        for arguments in jobs[3:]:
            for name, value in settings:
                self.assertIn(f'-D{name}={value}', arguments)
        runs = [
            run_result.to_record(RunId('s', BareMetal(), index))
            for index, run_result in enumerate((first, second))
        ]
        (line,) = comparability.list_record_differences(*runs)
        self.assertIn('job_settings is missing here', line)

    def test_settings_without_effect(self) -> None:
        """vsphere6, appendix A: six settings need libhadoop."""
        for library, tuning, count in (
            ('none', 'vsphere6', 6),
            ('none', 'hvstack', 0),
            ('0123456789ab', 'vsphere6', 0),
        ):
            self.cluster.tuning = tuning
            self.cluster.facts = {'libhadoop': library}
            settings = self.run_once().observations['without_effect']
            self.assertEqual(count, len(settings), (library, tuning))
        self.cluster.facts = {'libhadoop': 'none'}
        self.cluster.tuning = 'vsphere6'
        self.assertIn(
            'dfs.datanode.readahead.bytes=4194304: no libhadoop on the nodes',
            self.run_once().observations['without_effect'],
        )

    def test_another_number_of_replicas(self) -> None:
        """A study compares the runs: all other settings are the same."""
        first = self.run_once()
        self.workload = Workload(10**9, 1, 6, 6)
        second = self.run_once()
        self.assertEqual(
            first.sut['hadoop_profile'], second.sut['hadoop_profile']
        )

    def test_another_tuning(self) -> None:
        first = self.run_once()
        self.cluster.tuning = 'stock'
        self.workload = Workload(10**9, 2, 6, 6)
        second = self.run_once()
        self.assertEqual('stock', second.sut['tuning'])
        self.assertNotEqual(
            first.sut['hadoop_profile'],
            second.sut['hadoop_profile'],
        )
        # Hadoop's default block, where hvstack's own would be larger.
        jobs = [
            command
            for command in self.gateway.commands
            if 'hadoop jar' in command
        ]
        self.assertIn('-Ddfs.blocksize=134217728 ', jobs[-1])
        self.assertIn('-Ddfs.blocksize=2097152 ', jobs[0])

    def test_tasks_in_one_jvm(self) -> None:
        self.assertFalse(self.run_once().observations['one_jvm'])
        self.assertNotIn('ubertask', ' '.join(self.gateway.commands))
        self.workload = Workload(BYTES, 2, 6, 6, one_jvm=True)
        self.assertTrue(self.run_once().observations['one_jvm'])
        jobs = [
            command
            for command in self.gateway.commands
            if 'hadoop jar' in command
        ]
        for job in jobs[3:]:
            self.assertIn(' -Dmapreduce.job.ubertask.enable=true ', job)
            # No task runs on the controller.
            self.assertIn(' -Dmapreduce.job.am.node-label-expression= ', job)
            # The ApplicationMaster has a smaller container than a task
            # otherwise, and Hadoop then runs no task in its JVM.
            self.assertIn(
                ".am.resource.mb=${mapreduce.reduce.memory.mb}' ", job
            )
        self.assertNotIn('label', ' '.join(jobs[:3]))

    def test_a_study_with_tasks_in_one_jvm(self) -> None:
        name = 'mapreduce.job.ubertask.enable'
        for value, is_uber in (('true', True), ('false', False)):
            self.gateway.commands.clear()
            self.workload = Workload(BYTES, 2, 6, 6, settings=((name, value),))
            self.run_once()
            self.assertEqual(
                is_uber,
                'label-expression= ' in ' '.join(self.gateway.commands),
            )

    def test_place_of_application_masters_is_a_fact(self) -> None:
        sut = self.run_once().sut
        self.assertEqual('workers', sut['application_masters'])
        self.gateway.broken['cat /etc/hadoop/mapred-site.xml'] = (
            processutils.Result(
                0,
                '<name>mapreduce.job.am.node-label-expression</name>'
                '<value>am</value>',
                '',
            )
        )
        sut = self.run_once().sut
        self.assertEqual('controller', sut['application_masters'])

    def test_phases_in_order(self) -> None:
        run_result = self.run_once()
        self.assertEqual('', run_result.reason)
        self.assertEqual(
            list(PHASES), [phase.name for phase in run_result.phases]
        )
        self.assertEqual(['teragen', 'terasort', 'teravalidate'], self.jobs())
        self.assertGreaterEqual(
            run_result.total_seconds,
            sum(phase.seconds for phase in run_result.phases) - 0.01,
        )
        self.assertGreater(run_result.rate, 0)

    def test_purged_and_dropped_before_the_first_phase(self) -> None:
        self.run_once()
        commands = self.gateway.commands
        purge = next(n for n, c in enumerate(commands) if PURGED in c)
        first = next(n for n, c in enumerate(commands) if 'teragen' in c)
        self.assertLess(purge, first)
        self.assertEqual(1, self.cluster.dropped)
        idle = commands.index('cat /proc/diskstats')
        self.assertLess(commands.index('drop_caches'), idle)
        self.assertLess(idle, first)

    def test_what_cannot_be_had_before_a_run_is_said(self) -> None:
        run_result = self.run_once()
        self.assertNotIn('before_run', run_result.observations)
        self.assertIs(True, run_result.sut['caches_dropped'])
        self.gateway.broken['drop_caches'] = processutils.Result(
            1, '', 'Read-only file system'
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.cluster.disk_idle.wait_until_idle',
                lambda _: 'disks of c were',
            )
        )
        run_result = self.run_once()
        self.assertEqual('', run_result.reason)
        caches, busy = run_result.observations['before_run']
        self.assertIn('caches were not dropped', caches)
        self.assertIn('Read-only file system', caches)
        self.assertEqual('disks of c were', busy)
        self.assertIs(False, run_result.sut['caches_dropped'])

    def test_caches_that_a_user_keeps(self) -> None:
        self.useFixture(
            fixtures.EnvironmentVariable('OS_BENCHMARK__DROP_CACHES', 'false')
        )
        run_result = self.run_once()
        self.assertEqual(0, self.cluster.dropped)
        self.assertNotIn('before_run', run_result.observations)
        self.assertIs(False, run_result.sut['caches_dropped'])

    def test_telemetry_never_fails_a_run(self) -> None:
        run_result = run.run(
            self.cluster, self.workload, sampling=SamplingSpec(5)
        )
        self.assertEqual('', run_result.reason)
        assert run_result.telemetry
        self.assertIn('c: no sampler', run_result.telemetry.gaps[0])

    def run_guests(
        self, inventory: Path | None, host: str = 'compute1'
    ) -> RunResult:
        """Return the result of a run of guests of lxc on a host."""
        self.cluster.facts = {'backend': 'lxc'}
        self.useFixture(
            fixtures.MonkeyPatch(
                'tests.unit.tpcxhs.test_run.Some.observe',
                lambda _: {'inventory': {host: {}}},
            )
        )
        stream = io.StringIO()
        run_result = run.run(
            self.cluster,
            self.workload,
            progress=Progress(stream=stream),
            sampling=SamplingSpec(5, inventory),
        )
        self.output = stream.getvalue()
        self.assertEqual('', run_result.reason)
        return run_result

    def test_compute_hosts_of_a_lab(self) -> None:
        lab = self.useFixture(LabTree(2, 'hv-host2'))
        run_command = Hadoop.run

        def use_cpu(node: Hadoop, command: str, **kwargs: Any) -> Any:
            if 'terasort ' in command:
                lab.set_usage('hv-host2', 7)
                lab.set_usage('hv-host2', 6, group='machine')
            return run_command(node, command, **kwargs)

        self.useFixture(
            fixtures.MonkeyPatch(
                'tests.unit.tpcxhs.test_run.Hadoop.run', use_cpu
            )
        )
        run_result = self.run_guests(Path('/none'), 'hv-host2')
        stored = run_result.to_record(RunId('s', parse('i1'), 0))
        hosts = stored.observations.compute_hosts
        assert hosts
        self.assertEqual(('cgroup', ()), (hosts.method, hosts.reasons))
        host = hosts.hosts['hv-host2']
        # All of it was used between two samples, in a part of this time.
        assert host.run.busy and host.run.guests and host.run.agents
        self.assertAlmostEqual(6, host.run.guests / host.run.agents, 0)
        self.assertLessEqual(host.run.busy, 7)
        self.assertIn('HSSort', host.phases)
        self.assertNotIn('not measured', self.output)

    def test_compute_hosts_that_are_not_measured(self) -> None:
        run_result = self.run_guests(Path('/none'))
        assert run_result.compute_hosts
        (reason,) = run_result.compute_hosts.reasons
        self.assertIn('of the backend lxc', reason)
        self.assertIn(f'] {reason}\n', self.output)
        stored = run_result.to_record(RunId('s', parse('i1'), 0))
        assert stored.observations.compute_hosts
        self.assertEqual((reason,), stored.observations.compute_hosts.reasons)

    def test_compute_hosts_are_not_requested(self) -> None:
        run_result = self.run_guests(None)
        self.assertIsNone(run_result.compute_hosts)
        stored = run_result.to_record(RunId('s', parse('i1'), 0))
        self.assertIsNone(stored.observations.compute_hosts)

    def test_bare_metal_has_no_compute_hosts(self) -> None:
        run_result = run.run(
            self.cluster,
            self.workload,
            sampling=SamplingSpec(5, Path('/none')),
        )
        self.assertIsNone(run_result.compute_hosts)

    def test_options_of_the_samplers(self) -> None:
        self.assertIsNotNone(SamplingSpec.load().inventory)
        for name, value in (
            ('OS_TELEMETRY__COMPUTE_HOSTS', 'false'),
            ('OS_TELEMETRY__INTERVAL', '7'),
        ):
            self.useFixture(fixtures.EnvironmentVariable(name, value))
        self.assertEqual(SamplingSpec(7, None), SamplingSpec.load())

    def test_no_telemetry(self) -> None:
        self.assertIsNone(self.run_once().telemetry)
        self.assertNotIn('telemetry', ' '.join(self.gateway.commands))

    def test_replication_is_asked_for_in_all_of_it(self) -> None:
        self.run_once()
        sort = next(c for c in self.gateway.commands if 'terasort ' in c)
        self.assertIn('-Dmapreduce.terasort.output.replication=2', sort)
        self.assertIn('-Ddfs.replication=2', sort)

    def test_output_has_other_replicas(self) -> None:
        self.workload = replace(self.workload, output_replication=1)
        run_result = self.run_once()
        # The output on the fake cluster still has two replicas.
        self.assertEqual('', run_result.reason)
        sort = next(c for c in self.gateway.commands if 'terasort ' in c)
        self.assertIn('-Dmapreduce.terasort.output.replication=1', sort)
        self.assertEqual(1, run_result.sut['output_replication'])
        self.workload = replace(self.workload, output_replication=3)
        self.assertIn('replication 2, not 3', self.run_once().reason)

    def test_does_not_fit(self) -> None:
        self.gateway.remaining = int(self.workload.needed_bytes) - 1
        failure = self.assertRaises(errors.InputError, self.run_once)
        self.assertIn('Use a smaller size', str(failure))
        self.assertEqual([], self.jobs())

    def test_large_size_does_not_fit(self) -> None:
        """Sizes of more than 999 GB are no powers of ten."""
        self.workload = replace(self.workload, size_bytes=30 * 10**12)
        failure = self.assertRaises(errors.InputError, self.run_once)
        self.assertIn('Cannot sort 30000 GB: the run needs', str(failure))

    def test_space_that_is_reported_later(self) -> None:
        """DataNodes report a deletion with a later heartbeat."""
        needed = int(self.workload.needed_bytes)
        self.gateway.remaining, self.gateway.used = needed - 10, 10
        pauses: list[float] = []

        def report(seconds: float) -> None:
            pauses.append(seconds)
            self.gateway.remaining, self.gateway.used = needed, 0

        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.tpcxhs.preparation.time.sleep', report
            )
        )
        preparation.check_fit(self.cluster, self.workload)
        self.assertEqual([1], pauses)
        self.gateway.remaining, self.gateway.used = needed - 11, 10
        self.assertRaises(
            errors.InputError,
            *(preparation.check_fit, self.cluster, self.workload),
        )
        self.assertEqual([1], pauses)

    def test_just_fits(self) -> None:
        self.gateway.remaining = int(self.workload.needed_bytes)
        self.assertTrue(self.run_once().is_valid)

    def test_failed_phase_ends_the_run(self) -> None:
        self.gateway.broken['terasort'] = processutils.Result(
            1, 'Running job: job_1_2', 'Container exited. Exit code is 137\n'
        )
        run_result = self.run_once()
        self.assertFalse(run_result.is_valid)
        self.assertIn('HSSort exited with status 1', run_result.reason)
        self.assertIn('Exit code is 137', run_result.reason)
        self.assertEqual(['teragen', 'terasort'], self.jobs())
        self.assertEqual(0.0, run_result.rate)

    def test_disks_that_fill_up_are_named(self) -> None:
        for cause, line in (
            (
                'disks are full',
                'Error: java.io.IOException: No space left on device',
            ),
            (
                'disks are full',
                'DiskChecker$DiskErrorException: Could not find any valid '
                'local directory for output/spill0.out',
            ),
            (
                'disks are full (by default, HDFS leaves 1 GiB of each free) '
                'or DataNodes are missing',
                'File /x could only be written to 0 of the 1 minReplication '
                'nodes. There are 2 datanode(s) running',
            ),
        ):
            self.gateway.broken['terasort'] = processutils.Result(
                1, f'job_1_0002\n{line}\nException in thread "main"\n', ''
            )
            reason = self.run_once().reason
            self.assertIn(f'{cause}: {line}. Use a smaller size', reason)
            self.assertNotIn('\n', reason)

    def test_data_check_ends_the_run(self) -> None:
        short = FSCK.replace('1666700 bytes', '1666600 bytes', 1)
        self.gateway.broken['fsck'] = processutils.Result(0, short, '')
        run_result = self.run_once()
        self.assertIn('HSDataCheck of', run_result.reason)
        self.assertEqual(['teragen'], self.jobs())

    def test_killed_for_want_of_memory_is_failed(self) -> None:
        self.gateway.log = ['', OOM]
        run_result = self.run_once()
        self.assertFalse(run_result.is_valid)
        self.assertIn('oom_memcg=/hv-host2', run_result.reason)
        self.assertEqual([OOM.strip()], run_result.observations['killed'])

    def test_kill_before_the_run_is_not_its_own(self) -> None:
        self.gateway.log = [OOM, OOM]
        self.assertTrue(self.run_once().is_valid)

    def test_daemon_that_died_is_failed(self) -> None:
        self.gateway.dead = 'namenode running 5\nnodemanager dead -\n'
        self.assertIn('c: nodemanager is dead', self.run_once().reason)

    def test_node_that_does_not_answer_is_failed(self) -> None:
        self.gateway.broken['node status'] = processutils.Result(
            255, '', 'refused'
        )
        self.assertIn('c: every daemon is dead', self.run_once().reason)

    def test_node_that_moved(self) -> None:
        """A run on other hosts than the recorded ones does not count."""
        self.cluster.moved = ['w1']
        self.assertIn('w1 moved to another host', self.run_once().reason)
        self.cluster.moved = errors.CloudError('Nova refused.')
        run_result = self.run_once()
        self.assertTrue(run_result.is_valid)
        self.assertEqual(
            'not checked: Nova refused.',
            run_result.observations['moved_nodes'],
        )

    def test_only_the_kernel_proves_that_memory_ran_out(self) -> None:
        """Other runs that fail are repeated.

        A host that was restarted during the run has no daemons, or does not
        answer yet. The memory had nothing to do with it.
        """
        node = self.gateway
        for log, dead, status, is_killed in (
            ('', 'nodemanager dead -\n', 0, False),
            ('', '', 255, False),
            (OOM, 'nodemanager dead -\n', 0, True),
        ):
            node.log = ['', log]
            node.broken['node status'] = processutils.Result(status, dead, '')
            run_result = self.run_once()
            self.assertIn('is dead', run_result.reason)
            self.assertEqual(is_killed, 'memory' in run_result.reason)
            self.assertEqual(is_killed, 'killed' in run_result.observations)

    def test_log_that_cannot_be_read_after_the_run(self) -> None:
        def refuse(_nodes: object) -> None:
            raise errors.DeadlineExceededError('c: dmesg did not end')

        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.tpcxhs.run.probe.oom_lines',
                lambda nodes: set() if not node.commands else refuse(nodes),
            )
        )
        node = self.gateway
        run_result = self.run_once()
        self.assertIn('c: dmesg did not end', run_result.reason)
        self.assertNotIn('memory', run_result.reason)

    def test_unsorted_output(self) -> None:
        for report, expected in (
            ('misorder\ta b\nchecksum\tff\n', 'not sorted'),
            ('', 'not sorted'),
            ('checksum\tfe\n', 'not that of the input'),
        ):
            self.gateway.broken['op=OPEN'] = processutils.Result(0, report, '')
            self.assertIn(expected, self.run_once().reason)

    def test_checksum_of_more_than_64_bits(self) -> None:
        """TeraGen counts modulo 2**64, TeraValidate has 128 bits.

        The values are those of Hadoop 3.4's Unsigned16. The sum of the CRC32
        of 2**33 records, which have 859 GB, needs more than 64 bits.
        """
        answer = self.gateway.history('/counters').replace(
            '"CHECKSUM", "totalCounterValue": 255',
            '"CHECKSUM", "totalCounterValue": -2305843009213693949',
        )
        self.gateway.broken['/counters'] = processutils.Result(0, answer, '')
        for report, expected in (
            ('checksum\t1e000000000000003\n', ''),
            (
                'checksum\t1e000000000000004\n',
                'HSValidate failed: the checksum of the output is not that '
                'of the input.',
            ),
        ):
            self.gateway.broken['op=OPEN'] = processutils.Result(0, report, '')
            self.assertEqual(expected, self.run_once().reason)

    def test_lost_records(self) -> None:
        self.workload = Workload(BYTES, 2, 6, 6)
        answer = self.gateway.history('/counters').replace(
            '"REDUCE_OUTPUT_RECORDS", "totalCounterValue": 100000',
            '"REDUCE_OUTPUT_RECORDS", "totalCounterValue": 99999',
        )
        self.gateway.broken['/counters'] = processutils.Result(0, answer, '')
        self.assertIn(
            'REDUCE_OUTPUT_RECORDS of HSSort is 99999', self.run_once().reason
        )

    def test_measure_leaves_a_record_either_way(self) -> None:
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        for index, dead in enumerate(('', 'datanode dead -\n')):
            self.gateway.dead = dead
            run_id = RunId('s', BareMetal(), index)
            run.measure(
                self.cluster,
                RunSpec(
                    run_id,
                    self.workload,
                    FileRunStore(directory),
                    baseline='auto',
                ),
            )
        records = sorted(
            record.load_all(directory), key=lambda record_: record_.index
        )
        self.assertEqual([True, False], [record_.valid for record_ in records])
        self.assertEqual('6', records[0].sut.facts['kernel'])
        self.assertIn('hadoop_profile', records[0].sut.facts)
        self.assertIn('datanode is dead', records[1].reason)
        self.assertEqual('auto', records[0].observations.compared_with)

    def test_database_that_goes_away_during_the_run(self) -> None:
        """The run of hours has a record, in a file."""
        directory = Path(self.useFixture(fixtures.TempDir()).path)
        store = SqlRunStore(f'sqlite:///{directory}/db/x', directory / 'spare')

        def lose_database() -> None:
            (directory / 'db').rmdir()
            (directory / 'db').write_text('')

        (directory / 'db').mkdir()
        self.gateway.before_sort = lose_database
        self.assertRaises(
            errors.RecordNotStoredError,
            run.measure,
            self.cluster,
            RunSpec(RunId('s', BareMetal(), 0), self.workload, store),
        )
        (stored,) = FileRunStore(directory / 'spare').load_records('s')
        self.assertTrue(stored.valid)
        self.assertEqual(0, stored.observations.pass_number)

    def test_clock_that_is_set_during_the_run(self) -> None:
        """The records of such runs contradicted themselves."""
        system_time = time.time
        for seconds in (60, -60):

            def set_clock(step: int = seconds) -> None:
                self.useFixture(
                    fixtures.MonkeyPatch(
                        'time.time', lambda: system_time() + step
                    )
                )

            self.gateway.before_sort = set_clock
            run_record = self.run_once().to_record(RunId('s', BareMetal(), 0))
            self.assertTrue(run_record.valid)
            self.assertIsNone(selfcheck.first_contradiction(run_record))

    def test_clock_that_is_set_back_between_runs(self) -> None:
        """The records of both runs counted as forged."""
        system_time = time.time
        now = datetime.now(UTC)
        for step, first_moment in (
            (60, now - timedelta(seconds=1)),
            # Readers would regard a later time as the future.
            (600, now - timedelta(seconds=601)),
        ):
            store = FileRunStore(
                Path(self.useFixture(fixtures.TempDir()).path)
            )
            started = (now - timedelta(hours=1)).strftime(factory.TIME)
            first = store.append(
                factory.run(BARE_METAL, 0, 3600, sweep='s', started=started)
            )
            self.useFixture(
                fixtures.MonkeyPatch(
                    'time.time', lambda step=step: system_time() - step
                )
            )
            second = run.measure(
                self.cluster,
                RunSpec(RunId('s', BareMetal(), 1), self.workload, store),
            )
            second_start = datetime.fromisoformat(second.started)
            self.assertLess(first_moment, second_start)
            self.assertLess(second_start, first_moment + timedelta(seconds=60))
            if step == 60:
                self.assertEqual([first, second], store.load_records('s'))

    def test_compute_workers_that_cannot_go(self) -> None:
        """A run without what its study asks for is not valid."""
        store = FileRunStore(Path(self.useFixture(fixtures.TempDir()).path))
        change: Any = (1, lambda *_: self.cluster, lambda _: None)
        for index, (later, title) in enumerate(
            (
                (
                    {'compute_scaling': ComputeScalingSpec(*change)},
                    'compute workers',
                ),
                (
                    {
                        'second_cluster': SecondClusterSpec(
                            *change, contextlib.nullcontext
                        )
                    },
                    'second cluster',
                ),
            )
        ):
            spec = RunSpec(
                RunId('s', BareMetal(), index), self.workload, store
            )
            run_record = run.measure(self.cluster, replace(spec, **later))
            self.assertFalse(run_record.valid)
            self.assertIn(
                f'{title}: Cannot remove 1 compute workers: the cluster has 0',
                run_record.reason,
            )

    def test_hosts_without_curl(self) -> None:
        missing_curl = processutils.Result(127, '', 'curl: not found')
        self.gateway.broken['curl '] = missing_curl
        self.assertEqual('', self.run_once().reason)
        commands = ' '.join(self.gateway.commands)
        self.assertIn('hdfs dfs -rm -r -f -skipTrash', commands)
        self.assertIn("hdfs dfs -cat '/benchmarks", commands)

    def test_trash_of_every_user_is_purged(self) -> None:
        self.run_once()
        self.assertIn(
            '/user/root/.Trash?op=DELETE', ' '.join(self.gateway.commands)
        )

    def warm_up(self) -> None:
        # The check of these files fails, after all that is inspected here.
        self.assertRaises(
            errors.RunFailedError, run.warm_up, self.cluster, self.workload
        )

    def test_warm_up_purges_only_what_is_there(self) -> None:
        self.warm_up()
        self.assertNotIn(PURGED, ' '.join(self.gateway.commands))
        self.gateway.blocks = 7
        self.warm_up()
        self.assertIn(PURGED, ' '.join(self.gateway.commands))

    def test_warm_up_reaches_every_worker(self) -> None:
        # Blocks of 1 MiB and more would be too few for 12 workers.
        self.workload = Workload(BYTES, 2, 12, 12)
        self.cluster = Some(self.gateway, count=12)
        self.warm_up()
        self.assertEqual(['teragen', 'terasort'], self.jobs())

    def test_warm_up_is_small(self) -> None:
        fsck = FSCK.replace('part-m-00005', '_x')  # five files are not two
        self.gateway.broken['fsck'] = processutils.Result(0, fsck, '')
        failure = self.assertRaises(
            errors.RunFailedError, run.warm_up, self.cluster, self.workload
        )
        self.assertIn('5 files instead of 2', str(failure))
        self.assertEqual(['terasort'], self.jobs())
        put, *_ = (c for c in self.gateway.commands if '-put' in c)
        self.assertIn('head -c 10000000 /dev/urandom | hdfs dfs ', put)
        self.assertIn(f'-Ddfs.blocksize={4 * 2**20} ', put)
        self.assertIn('-Ddfs.replication=2 ', put)
        sort = next(c for c in self.gateway.commands if 'terasort ' in c)
        self.assertIn('-Dmapreduce.job.reduces=2', sort)
