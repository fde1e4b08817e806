# SPDX-License-Identifier: Apache-2.0
"""Each finding is provoked once on the lab, and a clean run has none.

Not here: a slow disk (limits on buffered writes do not hold for containers,
see the test of a qemu cluster) and steal (no kvm): both are found in stored
telemetry by the unit tests.
"""

import contextlib
import os
import re
import threading
import unittest
from collections.abc import Iterator
from typing import Any, ClassVar

import testtools

from hvstack import conf
from hvstack.cloud import connection, undo
from hvstack.cluster import cpu_caps, lab_groups, launch, planner
from hvstack.cluster.base import Node
from hvstack.cluster.plan import ClusterSpec
from hvstack.cluster.stack import StackCluster
from hvstack.hadoop.site_files import CONF
from hvstack.hadoop.sizing import LAB
from hvstack.lab import clouds_yaml, lifecycle, settings
from hvstack.lab.hosts import sizes
from hvstack.model.configuration import parse
from hvstack.progress import Progress
from hvstack.report import findings, sweep_report
from hvstack.results import record_data, telemetry
from hvstack.results.run_id import RunId
from hvstack.sweep import recovery
from hvstack.tpcxhs import run as tpcxhs
from hvstack.tpcxhs.run_samplers import SamplingSpec
from hvstack.tpcxhs.workload import Workload

NAME = 'hv-test-findings'
WORK = Workload(60_000_000, 2, 6, 6)
#: True of every figure of a small lab.
ALWAYS = 'disk not measured'
#: Ends the first task of HSSort that it meets; prints its process.
KILL = """
for try in $(seq 300); do
    for file in $(grep -la 'attempt_[0-9]*_{job}_[mr]_' /proc/[0-9]*/cmdline)
    do
        entry=${{file%/cmdline}}
        case $(readlink "$entry/exe") in
        */java)
            kill -9 "${{entry#/proc/}}" && echo "${{entry#/proc/}}" && exit
            ;;
        esac
    done
    sleep 1
done
exit 1
"""


class _ClusterTest(testtools.TestCase):
    """A cluster on the lab, and the findings about a run on it."""

    conn: ClassVar[Any]
    cluster: ClassVar[StackCluster]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        if not os.environ.get('HVSTACK_LAB'):
            return
        cls.conn = connection.connect(clouds_yaml.ADMIN_CLOUD)
        recovery.recover([cls.conn])
        options = conf.load().cloud
        plan = planner.plan_cluster(
            cls.conn, ClusterSpec(parse('i2'), tuning=LAB), options
        )
        groups = lab_groups.find_hosts(lab_groups.list_names())
        try:
            ids = launch.publish(
                cls.conn, plan, [str(cls.conn.current_project_id)]
            )
            # As in a sweep: guests of a slow host would boot for long.
            with cpu_caps.lifted(groups):
                cls.cluster, _ = launch.launch(
                    cls.conn, cls.conn, plan, ids, NAME, options
                )
                tpcxhs.warm_up(cls.cluster, WORK)
        except BaseException:
            undo.undo_own([cls.conn])
            raise

    @classmethod
    def tearDownClass(cls) -> None:
        if os.environ.get('HVSTACK_LAB'):
            cls.cluster.close()
            undo.undo_own([cls.conn])
        super().tearDownClass()

    def setUp(self) -> None:
        super().setUp()
        if not os.environ.get('HVSTACK_LAB'):
            self.skipTest('needs the lab (make test-long)')

    def collect_evidence(self) -> dict[str, str]:
        """Run once, and return the evidence of the findings by title."""
        run_result = tpcxhs.run(self.cluster, WORK, sampling=SamplingSpec(2))
        self.assertEqual('', run_result.reason)
        run_record = run_result.to_record(RunId('s', parse('i2'), 0))
        assert run_result.telemetry
        self.assertEqual([], run_result.telemetry.gaps)
        self.assertEqual(
            len(self.cluster.nodes), len(run_result.telemetry.nodes)
        )
        run_record = record_data.add_observations(
            run_record,
            {'telemetry': telemetry.summarize(run_result.telemetry)},
        )
        sweep = sweep_report.build_report([run_record])
        self.addDetail(
            'seen',
            testtools.content.text_content(
                f'{run_record.observations.telemetry}\n{run_record.phases}'
            ),
        )
        return {
            finding.title: finding.evidence
            for finding in findings.list_findings(sweep)
        }


class FindingsTest(_ClusterTest):
    @contextlib.contextmanager
    def setting(self, name: str, value: str) -> Iterator[None]:
        """Set a property of the jobs that the gateway starts."""
        path = f'{CONF}/mapred-site.xml'
        before = self.cluster.gateway.run(f'cat {path}').stdout
        added = (
            f'<property><name>{name}</name><value>{value}</value></property>'
        )
        others = re.sub(
            rf'<property>\s*<name>{re.escape(name)}</name>.*?</property>',
            '',
            before,
            flags=re.S,
        )
        self.cluster.gateway.put(
            others.replace('</configuration>', f'{added}</configuration>'),
            path,
        )
        try:
            yield
        finally:
            self.cluster.gateway.put(before, path)

    def test_clean(self) -> None:
        self.assertEqual([ALWAYS], list(self.collect_evidence()))

    def test_sampler_of_100_keys(self) -> None:
        with self.setting('mapreduce.terasort.partitions.sample', '100'):
            self.assertIn('uneven reducers', self.collect_evidence())

    def test_tiny_sort_buffer(self) -> None:
        with self.setting('mapreduce.task.io.sort.mb', '1'):
            self.assertIn('extra spills by maps', self.collect_evidence())

    def test_killed_container(self) -> None:
        worker = self.cluster.workers[0]
        job = self.next_job(2)
        killed: list[str] = []
        thread = threading.Thread(target=self.kill, args=(worker, job, killed))
        thread.start()
        evidence = self.collect_evidence()
        thread.join()
        self.assertEqual(1, len(killed))
        self.assertIn('task attempts failed', evidence)
        self.assertIn(f'on {worker.name}', evidence['a container was killed'])

    def next_job(self, ahead: int) -> str:
        """Return the number of a job that is still to come."""
        apps = self.cluster.gateway.run(
            'yarn application -list -appStates ALL 2>/dev/null'
        ).stdout
        last = max(map(int, re.findall(r'application_\d+_(\d+)', apps)))
        return f'{last + ahead:04d}'

    @staticmethod
    def kill(worker: Node, job: str, killed: list[str]) -> None:
        """End one task of a job on a worker."""
        killed += worker.run(KILL.format(job=job), timeout=400).stdout.split()


class SlowHostTest(_ClusterTest):
    """A host of workers has a third of its cores from the start.

    A run refuses to measure under caps that differ from those that the lab's
    file has, so that the size of the host is changed, and not its cgroup.
    """

    #: The last host is another one: the profile of the workers' hosts is that
    #: of the last host, from which the flavors are derived.
    SLOW: ClassVar[str] = sizes.name_of(2)

    @classmethod
    def setUpClass(cls) -> None:
        if os.environ.get('HVSTACK_LAB'):
            before = settings.load() or settings.LabSettings()
            if before.hosts < 3:
                raise unittest.SkipTest(
                    'needs two hosts for workers (hvstack lab up --hosts 3)'
                )
            # A host with servers does not change.
            recovery.recover([connection.connect(clouds_yaml.ADMIN_CLOUD)])
            cls.addClassCleanup(lifecycle.up, lambda _: before, Progress())
            lifecycle.up(cls.slow_down, Progress())
        super().setUpClass()

    @classmethod
    def slow_down(
        cls, lab_settings: settings.LabSettings
    ) -> settings.LabSettings:
        """Return settings of the lab with the slow host."""
        host_sizes = lab_settings.options.get('host_sizes', {})
        (cap,) = (
            size.cpu_cap
            for size in sizes.plan(lab_settings)
            if size.name == cls.SLOW
        )
        slow = {**host_sizes.get(cls.SLOW, {}), 'cpu_cap': round(cap / 3, 3)}
        return lab_settings.change(
            options={
                **lab_settings.options,
                'host_sizes': {**host_sizes, cls.SLOW: slow},
            }
        )

    def test_slow_host(self) -> None:
        """Both workers of the host are slow, and no other one is."""
        evidence = self.collect_evidence()
        named = set(re.findall(r'[\w-]+-worker-\d+', evidence['slow node']))
        self.assertEqual(
            {self.SLOW},
            {
                str(server.compute_host)
                for server in self.conn.compute.servers()
                if server.name in named
            },
        )
