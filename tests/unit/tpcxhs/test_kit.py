# SPDX-License-Identifier: Apache-2.0
"""TPC's kit: what we ask of it, and what we read from its log.

The kit may not be handed on. This test makes a substitute:
its program prints lines of the same form, with figures that are none.
"""

import itertools
import json
import re
import stat
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import fixtures
import testtools

from hvstack import errors, processutils
from hvstack.cluster.command_node import CommandNode
from hvstack.model.target import BARE_METAL, BareMetal
from hvstack.results import record, record_data, run_clock, selfcheck
from hvstack.results.file_run_store import FileRunStore
from hvstack.results.run_id import RunId
from hvstack.tpcxhs import kit, kit_evidence, kit_memory
from hvstack.tpcxhs.deadlines import StallWatch
from hvstack.tpcxhs.result import RunResult, RunSpec
from hvstack.tpcxhs.workload import Workload
from tests.unit.cluster.lab_tree import LabTree
from tests.unit.results import factory
from tests.unit.tpcxhs.test_job_memory import Manager
from tests.unit.tpcxhs.test_run import Hadoop, Some

SIZE = 10**12
SORTED = (
    f'{kit.OUTPUT}/part-r-00000 {SIZE} bytes, replicated: replication=2, '
    '1 block(s):  OK\n'
    f'0. BP-1:blk_1_2 len={SIZE} Live_repl=2  [x]\nStatus: HEALTHY\n'
)


def run_log(
    run_number: int,
    seconds: int,
    failed: str = '',
    zero: int = 1_760_000_000,
) -> str:
    lines = [
        ' Running BigData TPCx-HS Benchmark Suite (MapReduce) - '
        f'Run {run_number}'
        f' - Epoch {zero + 10_000 * run_number} \x1b[0m',
        '\x1b[0;32m======== Time taken by HSGen = 10m1.500s====\x1b[0m',
        '======== Time taken by HSSort = 20m0.000s====',
        '======== Time taken by HSValidate = 0m59.000s====',
    ]
    if failed:
        lines.append(f'\x1b[0;31m======== {failed} Result FAILURE ========')
    else:
        lines += [
            f'Test Run {run_number} details: Total Time = {seconds} ',
            f'TPCx-HS Performance Metric (HSph@SF): {3600 / seconds:.4f} ',
        ]
    return '\n'.join(lines) + '\n'


class KitNode(Hadoop):
    """A controller with a kit that writes a log of the test."""

    log_text = run_log(1, 2000) + run_log(2, 1900)
    job_count = 3
    #: Start of each job in seconds from that of the run, and duration.
    job_starts = (1.0, 603.0, 1804.0)
    job_seconds = (0.9, 0.9, 0.9)
    #: Seconds by which its clock is ahead.
    lead = 0

    def put(self, text: str, path: str, mode: int = 0o644) -> None:
        self.commands.append(f'put {path}')

    def answer(self, command: str) -> str:
        if command.startswith('cat '):
            return self.log_text
        if command.startswith('date '):
            return f'{run_clock.now() + self.lead}\n'
        if 'fsck' in command:
            return SORTED
        if 'startedTimeBegin=' in command:
            begin = int(command.partition('startedTimeBegin=')[2][:13])
            # The server lists the newest job first.
            jobs = [
                {'id': f'job_{begin}_000{n}', 'startTime': begin + n}
                for n in range(self.job_count, 0, -1)
            ]
            return json.dumps({'jobs': {'job': jobs}})
        job = re.search(r"/jobs/job_(\d+)_000(\d)'?$", command)
        if job:
            index = int(job[2]) - 1
            # The list begins two seconds before the run.
            begin = int(job[1]) + 2000 + int(1000 * self.job_starts[index])
            end = begin + int(1000 * self.job_seconds[index])
            summary = {
                'id': job[0].removeprefix('/jobs/').rstrip("'"),
                'state': 'SUCCEEDED',
                'startTime': begin,
            }
            totals = {'finishTime': end, 'mapsTotal': 6}
            return json.dumps({'job': summary | totals | {'reducesTotal': 6}})
        if 'command -v' in command or kit.KIT_DIR in command:
            return ''
        return super().answer(command)


class KitTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.top = Path(self.useFixture(fixtures.TempDir()).path)
        self.path = self.top / 'kit'
        self.path.mkdir()
        for name in kit.FILES:
            (self.path / name).write_text(f'{name}\n')
        self.gateway = KitNode(remaining=10**15)
        self.workload = Workload(SIZE, 2, 6, 6)

    def measure(self, **options: Any) -> list[record_data.RunRecord]:
        spec = RunSpec(
            RunId('mine', BareMetal(), 4),
            self.workload,
            FileRunStore(self.top / 'records'),
            self.path,
            **options,
        )
        return kit.measure_runs(Some(self.gateway), spec)

    def test_a_pair_is_two_records(self) -> None:
        slow, fast = self.measure()
        self.assertEqual((True, True), (slow.valid, fast.valid))
        self.assertEqual((4, 5), (slow.index, fast.index))
        self.assertFalse(slow.derived)
        self.assertEqual(2000, slow.total_seconds)
        self.assertAlmostEqual(1.8, slow.rate)
        self.assertEqual(601.5, slow.phase_seconds()['HSGen'])
        self.assertEqual('performance', slow.observations.kit.role)
        self.assertEqual('repeatability', fast.observations.kit.role)
        self.assertEqual(2, len(record.load_all(self.top / 'records')))
        self.assertTrue(
            any('-m -g 2 ' in command for command in self.gateway.commands)
        )

    def test_baseline_of_the_task(self) -> None:
        for run_record in self.measure(baseline='auto'):
            self.assertEqual('auto', run_record.observations.compared_with)

    def test_counters(self) -> None:
        slow, fast = self.measure()
        for run_record in (slow, fast):
            self.assertEqual(255, run_record.counters('HSSort')['CHECKSUM'])
            self.assertNotIn('without_counters', run_record.observations.facts)
        jobs = [
            [phase.job.job_id for phase in run_record.phases]
            for run_record in (slow, fast)
        ]
        self.assertEqual(
            [
                [f'job_{start}_000{n}' for n in (1, 2, 3)]
                for start in (1_760_009_998_000, 1_760_019_998_000)
            ],
            jobs,
        )
        self.assertEqual(
            [1_760_010_000.0, 1_760_010_601.5, 1_760_011_801.5],
            [phase.started_at for phase in slow.phases],
        )

    def list_starts(self, run_record: record_data.RunRecord) -> list[Any]:
        """Return the start times of the phases of a consistent record."""
        self.assertTrue(run_record.valid, run_record.reason)
        self.assertIsNone(selfcheck.first_contradiction(run_record))
        return [phase.started_at for phase in run_record.phases]

    def test_jobs_start_long_after_their_clients(self) -> None:
        """The client of large data lists its files before the job starts."""
        self.gateway.log_text = run_log(1, 1862) + run_log(2, 1861)
        self.gateway.job_starts = (20, 621.5, 1821.5)
        self.gateway.job_seconds = (580, 1175, 35)
        for run_record in self.measure():
            start = 1_760_010_000 + 10_000 * (run_record.index - 4)
            self.assertEqual(
                [start, start + 601.5, start + 1801.5],
                self.list_starts(run_record),
            )

    def test_a_node_with_another_clock(self) -> None:
        """Its job would be in the phase before, or after the run."""
        for job_starts in ((1, 500, 1804), (1, 603, 2050)):
            self.gateway.job_starts = job_starts
            for run_record in self.measure():
                self.assertEqual([None] * 3, self.list_starts(run_record))
                self.assertEqual(
                    255, run_record.counters('HSSort')['CHECKSUM']
                )

    def test_controller_with_another_clock(self) -> None:
        """The second run ended 100 s ago, or at a time in the future."""
        zero = int(time.time()) - 22_000
        self.gateway.lead = 600
        self.gateway.log_text = run_log(1, 2000, zero=zero + 600)
        self.gateway.log_text += run_log(2, 1900, zero=zero + 600)
        for run_record in self.measure():
            start = zero + 10_000 * (run_record.index - 3)
            self.assertEqual(
                [start, start + 601.5, start + 1801.5],
                self.list_starts(run_record),
            )
            started = datetime.fromisoformat(run_record.started)
            self.assertEqual(start, started.timestamp())
            job = run_record.phases[0].job
            # The JobHistory server was asked for times of its own clock.
            self.assertEqual(
                (f'job_{start + 598}000_0001', start + 1.0),
                (job.job_id, job.started_at),
            )

    def test_clock_that_is_set_back_between_pairs(self) -> None:
        """The records of both pairs counted as forged."""
        system_time = time.time
        now = datetime.now(UTC)
        started = (now - timedelta(hours=1)).strftime(factory.TIME)
        first = FileRunStore(self.top / 'records').append(
            factory.run(BARE_METAL, 0, 3600, sweep='mine', started=started)
        )
        answer = KitNode.answer

        def tell_time(node: KitNode, command: str) -> str:
            if command.startswith('date '):
                return f'{system_time()}\n'
            return answer(node, command)

        for name, value in (
            (f'{__name__}.KitNode.answer', tell_time),
            ('time.time', lambda: system_time() - 60),
        ):
            self.useFixture(fixtures.MonkeyPatch(name, value))
        zero = int(now.timestamp()) - 10_000
        self.gateway.log_text = run_log(1, 2000, zero=zero)
        self.gateway.log_text += run_log(2, 1900, zero=zero)
        second, _ = self.measure()
        self.assertLessEqual(
            datetime.fromisoformat(first.ended) - timedelta(seconds=2),
            datetime.fromisoformat(second.started),
        )

    def test_controller_without_a_clock(self) -> None:
        self.gateway.broken['date '] = processutils.Result(0, 'x\n', '')
        for run_record in self.measure():
            self.assertIn("'date +%s.%N' exited", run_record.reason)

    def test_another_phase_in_the_log(self) -> None:
        sort = '======== Time taken by HSSort'
        check = 'Time taken by HSDataCheck = 0m3.000s\n'
        self.gateway.log_text = self.gateway.log_text.replace(
            sort, check + sort
        )
        for run_record in self.measure():
            self.assertEqual([None] * 4, self.list_starts(run_record))

    def test_the_second_job_is_not_known(self) -> None:
        self.gateway.broken['_0002/counters'] = processutils.Result(
            7, '', 'connection refused'
        )
        for run_record in self.measure():
            self.assertEqual([None] * 3, self.list_starts(run_record))
            self.assertIn('without_counters', run_record.observations.facts)

    def test_time_to_load_a_large_job(self) -> None:
        """HSSort has a map task for each of 3726 blocks: 5 ms each."""
        timeouts: list[float] = []
        run_command = KitNode.run

        def run(node: KitNode, command: str, **kwargs: Any) -> Any:
            if '/jobs/job_' in command:
                timeouts.append(kwargs['timeout'])
            return run_command(node, command, **kwargs)

        self.useFixture(fixtures.MonkeyPatch(f'{__name__}.KitNode.run', run))
        self.measure()
        self.assertEqual({60 + (3726 + 6) * 0.005}, set(timeouts))

    def test_the_check_of_the_output_takes_too_long(self) -> None:
        run_command = KitNode.run

        def run(node: KitNode, command: str, **kwargs: Any) -> Any:
            if 'hdfs fsck' in command:
                raise errors.DeadlineExceededError('fsck did not end')
            return run_command(node, command, **kwargs)

        self.useFixture(fixtures.MonkeyPatch(f'{__name__}.KitNode.run', run))
        first, second = self.measure()
        self.assertEqual((True, False), (first.valid, second.valid))
        self.assertIn('fsck did not end', second.reason)

    def test_the_job_history_server_does_not_answer(self) -> None:
        self.gateway.broken['startedTimeBegin='] = processutils.Result(
            7, '', 'connection refused'
        )
        for run_record in self.measure():
            self.assertTrue(run_record.valid)
            reason = str(run_record.observations.facts['without_counters'])
            self.assertTrue(reason.startswith('no counters: '), reason)
            self.assertIn('connection refused', reason)

    def test_without_samples_there_are_none_of_a_run(self) -> None:
        result = RunResult(self.workload)
        self.assertIsNone(kit_evidence.cut_telemetry(result, result, []))

    def test_other_jobs_in_the_run(self) -> None:
        self.gateway.job_count = 4
        for run_record in self.measure():
            self.assertTrue(run_record.valid)
            self.assertEqual({}, run_record.counters('HSSort'))
            self.assertEqual(
                'no counters: the JobHistory server has 4 jobs of the run '
                'instead of 3',
                run_record.observations.facts['without_counters'],
            )

    def test_telemetry(self) -> None:
        """The node of this cluster runs no sampler: both runs have gaps."""
        for run_record in self.measure():
            summary = run_record.observations.telemetry
            assert summary is not None
            self.assertIn(
                'counters of the network cover both runs of the kit',
                summary.gaps,
            )

    def test_compute_hosts(self) -> None:
        """The samples of both runs are in the record of each run."""
        lab = self.useFixture(LabTree(2, 'hv-host2'))
        moments = itertools.count(1_760_000_000, 30_000)
        usages = itertools.count(0, 100)
        run_command = KitNode.run

        def use_cpu(node: KitNode, command: str, **kwargs: Any) -> Any:
            lab.set_usage('hv-host2', next(usages))
            return run_command(node, command, **kwargs)

        for name, value in (
            (
                'hvstack.cluster.host_readers.run_clock',
                SimpleNamespace(now=moments.__next__),
            ),
            (f'{__name__}.KitNode.run', use_cpu),
            (f'{__name__}.Some.environment', lambda _: {'backend': 'lxc'}),
            (
                f'{__name__}.Some.observe',
                lambda _: {'inventory': {'hv-host2': {}}},
            ),
        ):
            self.useFixture(fixtures.MonkeyPatch(name, value))
        for run_record in self.measure():
            hosts = run_record.observations.compute_hosts
            assert hosts
            self.assertEqual(('cgroup', ()), (hosts.method, hosts.reasons))
            phases = hosts.hosts['hv-host2'].phases
            generate, sort = phases['HSGen'], phases['HSSort']
            assert generate.busy and sort.busy
            self.assertEqual((601.5, 1200), (generate.seconds, sort.seconds))
            self.assertAlmostEqual(1200 / 601.5, sort.busy / generate.busy, 2)

    def test_one_that_is_known_is_not_recorded_again(self) -> None:
        (run_record,) = self.measure(run_numbers=(2,))
        self.assertEqual(5, run_record.index)

    def test_failed_run(self) -> None:
        self.gateway.log_text = run_log(1, 2000) + run_log(2, 0, 'HSsort')
        good, bad = self.measure()
        self.assertEqual((True, False), (good.valid, bad.valid))
        self.assertIn('HSsort failed', bad.reason)
        self.assertIn('not whole', good.observations.kit.role)

    def test_the_kit_does_not_start(self) -> None:
        self.gateway.log_text = 'sudo: not found'
        for run_record in self.measure():
            self.assertIn('sudo: not found', run_record.reason)

    def test_output_with_too_few_replicas(self) -> None:
        self.workload = Workload(SIZE, 3, 6, 6)
        good, bad = self.measure()
        self.assertEqual((True, False), (good.valid, bad.valid))
        self.assertIn('replication', bad.reason)

    def test_what_is_no_kit(self) -> None:
        (self.path / 'VERSION.txt').unlink()
        error = self.assertRaises(
            errors.InputError, kit.check_kit, self.path, SIZE
        )
        self.assertIn('VERSION.txt', str(error))

    def test_version_that_no_record_can_contain(self) -> None:
        """It is checked before the runs, not hours later."""
        for content in (b' \n', '© 2.0.3\n'.encode('latin-1')):
            (self.path / 'VERSION.txt').write_bytes(content)
            error = self.assertRaises(
                errors.InputError, kit.check_kit, self.path, SIZE
            )
            self.assertIn('VERSION.txt', str(error))

    def test_second_pair_on_a_cluster(self) -> None:
        """The data of the pair before does not need its place."""
        answer = KitNode.answer
        capacity, stored = 6 * SIZE, 4 * SIZE

        def store(node: KitNode, command: str) -> str:
            if kit.PROGRAM in command:
                node.remaining = capacity - stored
            elif 'DELETE' in command and kit.DATA in command:
                node.remaining = capacity
            return answer(node, command)

        self.useFixture(
            fixtures.MonkeyPatch(f'{__name__}.KitNode.answer', store)
        )
        self.gateway.remaining = capacity
        for _ in range(2):
            self.assertEqual([True, True], [r.valid for r in self.measure()])

    def test_kit_that_is_gone_after_the_runs(self) -> None:
        """The directory may be on another machine, such as with NFS."""
        answer = KitNode.answer

        def lose(node: KitNode, command: str) -> str:
            if 'TPCx-HS-result' in command:
                (self.path / 'VERSION.txt').unlink(missing_ok=True)
            return answer(node, command)

        self.useFixture(
            fixtures.MonkeyPatch(f'{__name__}.KitNode.answer', lose)
        )
        self.assertEqual([True, True], [r.valid for r in self.measure()])

    def test_a_size_that_it_cannot_make(self) -> None:
        error = self.assertRaises(
            errors.InputError, kit.check_kit, self.path, 5 * 10**8
        )
        self.assertIn('100GB', str(error))

    def test_programs_that_it_needs(self) -> None:
        self.gateway.broken['command -v'] = processutils.Result(0, 'bc\n', '')
        for run_record in self.measure():
            self.assertIn('needs bc', run_record.reason)


class InstallTest(testtools.TestCase):
    """On this machine, by a shell, with the program of the substitute."""

    def test_runs_with_our_parameters(self) -> None:
        top = Path(self.useFixture(fixtures.TempDir()).path)
        kit_dir = top / 'there'
        self.useFixture(
            fixtures.MonkeyPatch('hvstack.tpcxhs.kit.KIT_DIR', str(kit_dir))
        )
        path = top / 'kit'
        path.mkdir()
        (path / kit.PARAMETERS).write_text('export NUM_MAPS=99\n')
        (path / kit.PROGRAM).write_text(
            '. ./Benchmark_Parameters.sh\n'
            'sudo -u $HDFS_USER echo "{\\"maps\\": $NUM_MAPS, '
            '\\"words\\": \\"$*\\"}" >TPCx-HS-result-1TB.log\n'
        )
        node = CommandNode('n', '10.0.0.1', 'controller', 'h', ('env',))
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.tpcxhs.kit._REQUIRED_PROGRAMS', ('bash', 'md5sum')
            )
        )
        (path / 'manual.pdf').symlink_to('/mnt/tpc/manual.pdf')
        # Of a user with the umask 077; the user of Hadoop reads the copy.
        path.chmod(0o700)
        (path / kit.PROGRAM).chmod(0o600)
        kit.install_kit(node, path, Workload(SIZE, 2, 6, 7))
        watch = StallWatch(node, 60, lambda: None)
        log = kit.execute_kit(node, SIZE, 60, watch)
        self.assertEqual({'maps': 6, 'words': '-m -g 2'}, json.loads(log))
        modes = [
            stat.S_IMODE(installed.stat().st_mode)
            for installed in (kit_dir, kit_dir / kit.PROGRAM)
        ]
        self.assertEqual([0o755, 0o644], modes)

    def test_memory_of_large_jobs(self) -> None:
        """As the runs without the kit have it; small ones need none."""
        top = Path(self.useFixture(fixtures.TempDir()).path)
        (top / 'conf').mkdir()
        (top / 'conf/mapred-site.xml').write_text(
            '<configuration>\n<property><name>a</name><value>1</value>'
            '</property>\n</configuration>\n'
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'hvstack.tpcxhs.kit_memory._CONF_DIR', str(top / 'conf')
            )
        )
        cluster: Any = SimpleNamespace(
            tuning='hvstack',
            processors=40,
            manager=Manager(66_000),
            gateway=CommandNode('n', '10.0.0.1', 'controller', 'h', ('env',)),
        )
        copied = top / 'copied'
        workload = Workload(10**12, 3, 620, 620)
        self.assertEqual(
            {}, kit_memory.prepare(cluster, workload, str(copied))
        )
        self.assertFalse(copied.exists())
        workload = Workload(30 * 10**12, 3, 620, 620)
        for _ in range(2):
            variables = kit_memory.prepare(cluster, workload, str(copied))
            self.assertEqual(str(copied), variables['HADOOP_CONF_DIR'])
            self.assertRegex(variables['HADOOP_CLIENT_OPTS'], r'^-Xmx\d+m$')
            properties = {
                element.findtext('name'): element.findtext('value')
                for element in ElementTree.parse(
                    copied / 'mapred-site.xml'
                ).iter('property')
            }
            self.assertEqual('1', properties.pop('a'))
            self.assertEqual(
                {
                    'yarn.app.mapreduce.am.resource.mb',
                    'yarn.app.mapreduce.am.command-opts',
                    'mapreduce.job.split.metainfo.maxsize',
                },
                set(properties),
            )

    def test_variables(self) -> None:
        top = self.use_directory()
        (top / kit.PROGRAM).write_text(
            'echo "$HADOOP_CLIENT_OPTS" >TPCx-HS-result-1TB.log\n'
        )
        node = CommandNode('n', '10.0.0.1', 'controller', 'h', ('env',))
        watch = StallWatch(node, 60, lambda: None)
        log = kit.execute_kit(
            node, SIZE, 60, watch, {'HADOOP_CLIENT_OPTS': '-Xmx1m -Da=b'}
        )
        self.assertEqual('-Xmx1m -Da=b\n', log)

    def use_directory(self) -> Path:
        """Use a new directory for the kit, which needs no programs."""
        top = Path(self.useFixture(fixtures.TempDir()).path)
        for name, value in (('KIT_DIR', str(top)), ('_REQUIRED_PROGRAMS', ())):
            self.useFixture(
                fixtures.MonkeyPatch(f'hvstack.tpcxhs.kit.{name}', value)
            )
        return top

    def install_endless(self) -> Path:
        """Install a program that starts its next job if a job fails."""
        top = self.use_directory()
        (top / kit.PROGRAM).write_text(
            f'echo $$ >{top}/own; while sleep 0.1; do :; done\n'
        )
        return top

    def wait_for_end(self, pid: int) -> None:
        """Wait until a process that was killed has ended."""
        command = Path(f'/proc/{pid}/cmdline')
        processutils.wait_for(
            # That of a process without a parent that waits is empty.
            lambda: not (command.exists() and command.read_bytes()),
            f'the end of process {pid}',
            timeout=30,
            interval=0.02,
        )

    def test_lost_connection(self) -> None:
        """Ssh exits with 255, and the program of the kit continues."""
        top = self.install_endless()
        start = (
            'case $3 in *"exec env"*)\n'
            'setsid "$@" </dev/null >/dev/null 2>&1 &\n'
            f'until [ -s {top}/own ]; do sleep 0.05; done; exit 255 ;; esac\n'
            'exec "$@"'
        )
        node = CommandNode(
            *('n', '127.0.0.1', 'controller', 'h'), ('sh', '-c', start, 'sh')
        )
        watch = StallWatch(node, 60, lambda: None)
        exc = self.assertRaises(
            errors.RunFailedError, kit.execute_kit, node, SIZE, 60, watch
        )
        self.assertIn('The connection to n was lost', str(exc))
        pid = int((top / 'own').read_text())
        self.addCleanup(node.run, f'kill -KILL {pid}', check=False)
        self.wait_for_end(pid)

    def test_no_progress(self) -> None:
        top = self.install_endless()
        reported: list[int] = []
        # No ResourceManager answers on a port of this machine. As a program
        # that ssh started, one of this node does not end with its client.
        start = 'setsid "$@" </dev/null >/dev/null 2>&1 & wait $!'
        node = CommandNode(
            *('n', '127.0.0.1', 'controller', 'h'), ('sh', '-c', start, 'sh')
        )
        watch = StallWatch(node, 0.05, lambda: reported.append(1))
        exc = self.assertRaises(
            errors.RunFailedError, kit.execute_kit, node, SIZE, 0.5, watch
        )
        self.assertIn("TPC's kit was stopped: the deadline was", str(exc))
        self.assertEqual([1], reported)
        pid = int((top / 'own').read_text())
        self.addCleanup(node.run, f'kill -KILL {pid}', check=False)
        self.wait_for_end(pid)
