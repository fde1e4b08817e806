# SPDX-License-Identifier: Apache-2.0
"""Variants of the studies of the package differ in what they compare."""

from pathlib import Path
from typing import Any

import fixtures
import testtools

from hvstack import conf, errors, host_profiles
from hvstack.hadoop import sizing, tuning_profiles
from hvstack.results.file_run_store import FileRunStore
from hvstack.study import (
    claim_results,
    definition,
    study_plan,
    study_run,
)
from hvstack.study.definition import Study
from hvstack.study.study_store import StartedStudy
from hvstack.study.variants import Variant
from hvstack.tpcxhs.workload import MIB, Workload

#: CPUs and MiB of small and of large workers.
WORKERS = ((1, 4096), (4, 8192), (40, 246_784))

#: Host of a lab, see hvstack.lab.hosts.sizes.
PROFILE = """\
name: small
sockets: 1
cores_per_socket: 2
threads_per_core: 1
memory_mib: 5376
cells: [{cpus: '0,1', memory_mib: 5376}]
root_gb: 12
reserved_memory_mib: 768
cpu_cap: 0.55
memory_cap_mib: 5376
large_pages: false
"""


def build_workload(study: Study, variant: Variant, tasks: int) -> Workload:
    """Return the workload of a run.

    :param tasks: number of tasks that fill the containers.
    """
    size = study.get_size(variant)
    return Workload(
        *(size, variant.replication or 2),
        variant.count_maps(size) or tasks,
        variant.reduces or tasks,
    )


class StudiesTest(testtools.TestCase):
    def test_small_jobs_run_in_one_jvm(self) -> None:
        """Hadoop's JobImpl has these limits for a job in one JVM."""
        study = definition.load('amd-small-jobs')
        for variant in study.variants:
            workload = build_workload(study, variant, 24)
            self.assertLessEqual(workload.maps, 9)
            self.assertLessEqual(workload.reduces, 1)
            properties = dict(variant.setup.hadoop.properties)
            self.assertLessEqual(
                workload.size_bytes,
                int(properties['mapreduce.job.ubertask.maxbytes']),
            )
            for vcpus, memory_mib in WORKERS:
                node = sizing.size_node(
                    vcpus, memory_mib, tuning=variant.setup.tuning or ''
                )
                # A profile with ApplicationMasters on the controller gives
                # that of such a job the container of a reduce task.
                self.assertGreaterEqual(
                    node.container_mib
                    if node.has_master_node
                    else node.master_container_mib,
                    max(node.map_mib, node.container_mib),
                )

    def test_one_of_the_buffers_avoids_spills(self) -> None:
        study = definition.load('amd-spills')
        profile = tuning_profiles.load(sizing.DEFAULT)
        (spill,) = [
            float(row.value or 0)
            for row in profile.properties
            if row.name == 'mapreduce.map.sort.spill.percent'
        ]
        for tasks in (4, 24, 620):
            for variant, fits in zip(
                study.variants, (False, True), strict=True
            ):
                workload = build_workload(study, variant, tasks)
                needed = sizing.sort_buffer_mib(
                    -(-workload.size_bytes // workload.maps // MIB), spill
                )
                ((_, buffer_mib),) = variant.setup.hadoop.properties
                self.assertEqual(fits, needed <= int(buffer_mib), variant.name)

    def test_the_step_of_the_block_size(self) -> None:
        """The steps before and after it have other numbers of map tasks."""
        study = definition.load('amd-tuning-steps')
        counts = {}
        for variant in study.variants:
            profile = tuning_profiles.load(variant.setup.tuning or '')
            counts[variant.name] = build_workload(
                study, variant, 24
            ).count_splits(profile.max_block_mib * MIB)
        self.assertEqual(4, counts['compression (3.1.3)'])
        self.assertEqual(2, counts['block size (3.1.5)'])

    def test_the_step_of_the_map_spills(self) -> None:
        """From this step on, a map has buffer for its whole split."""
        study = definition.load('amd-tuning-steps')
        variants = {variant.name: variant for variant in study.variants}
        for name in ('map spills (3.1.6)', 'reduce side (3.1.8)'):
            workload = build_workload(study, variants[name], 24)
            needed = sizing.sort_buffer_mib(
                -(-workload.size_bytes // workload.maps // MIB), 0.99
            )
            for vcpus, memory_mib in WORKERS:
                tuning = variants[name].setup.tuning or ''
                node = sizing.size_node(vcpus, memory_mib, tuning=tuning)
                self.assertLessEqual(needed, node.sort_mib, name)

    def test_block_sizes(self) -> None:
        study = definition.load('amd-block-size')
        for variant, maps in zip(study.variants, (16, 8, 4), strict=True):
            profile = tuning_profiles.load(variant.setup.tuning or '')
            self.assertEqual(
                maps,
                build_workload(study, variant, 24).count_splits(
                    profile.max_block_mib * MIB
                ),
            )

    def test_collectors_are_not_those_of_the_profile(self) -> None:
        """Java does not start with two collectors."""
        for name in ('amd-collectors', 'amd-jvm-flags'):
            for variant in definition.load(name).variants:
                profile = tuning_profiles.load(variant.setup.tuning or '')
                formulas = [
                    row.formula
                    for row in profile.properties
                    if str(row.name).endswith('java.opts')
                ]
                self.assertEqual(['amd_map_jvm', 'amd_reduce_jvm'], formulas)

    def test_volume_types_can_exist(self) -> None:
        """A volume type has one value of each property."""
        for study in definition.list_studies():
            required: dict[tuple[str, str], int | bool] = {}
            for variant in study.variants:
                volumes = variant.setup.volumes
                if volumes is None:
                    continue
                for name, value in (
                    ('copies', volumes.copies),
                    ('osd_groups', volumes.osd_groups),
                    ('host_affinity', volumes.host_affinity or None),
                ):
                    if value is not None:
                        key = volumes.type, name
                        self.assertEqual(
                            required.setdefault(key, value), value, study.name
                        )

    def test_huge_pages_are_asked_for(self) -> None:
        """With madvise, only JVMs that ask for large pages have them."""
        for variant in definition.load('vsphere6-os').variants:
            self.assertEqual('vsphere6', variant.setup.tuning)


class LabTest(testtools.TestCase):
    """Studies on two worker hosts of a lab with 0.55 CPUs each."""

    #: Seconds between runs, of a run without data, and of a megabyte, as
    #: measured with runs of 400 MB.
    CHANGE_SECONDS, START_SECONDS, DATA_SECONDS = 170, 50, 0.43
    #: Studies with more workers or disks than such a host can have.
    LARGE = frozenset(
        {'amd-disks', 'vsphere6-cpu-over-commit', 'vsphere6-single-replica'}
    )

    def setUp(self) -> None:
        super().setUp()
        path = Path(self.useFixture(fixtures.TempDir()).path) / 'small.yaml'
        path.write_text(PROFILE, encoding='utf-8')
        self.profile = str(path)

    def find_impossible(self, study: Study, backend: str) -> dict[str, str]:
        return study_run.find_impossible(
            *(None, study, self.profile, backend, conf.load())
        )

    def test_each_study_decides_something(self) -> None:
        for study in definition.list_studies():
            testable = [
                claim
                for backend in ('lxc', 'qemu')
                for skipped in [self.find_impossible(study, backend)]
                for claim in study.claims
                if not {claim.variant, claim.against} & skipped.keys()
            ]
            self.assertEqual(
                study.name not in self.LARGE, bool(testable), study.name
            )

    def test_intervals_are_narrow(self) -> None:
        """With a deviation of 6 %, as in a lab, they decide 17 %."""
        for study in definition.list_studies():
            started = StartedStudy('', study, '', 'vsphere6', 'kvm')
            plan = study_plan.build_plan(
                started,
                host_profiles.load('vsphere6'),
                FileRunStore(Path(self.profile).parent),
            )
            # A terabyte varies by a percent.
            limit = 3.3 if study.size_bytes >= 10**12 else 2.8
            self.assertLess(plan['interval_factor'] or 0, limit, study.name)

    def test_duration(self) -> None:
        """At most 150 minutes, without what follows the runs."""
        for study in definition.list_studies():
            skipped = self.find_impossible(study, 'lxc')
            seconds = study.passes * sum(
                self.CHANGE_SECONDS
                + self.START_SECONDS
                + self.DATA_SECONDS * study.get_size(variant) / 1e6
                for variant in study.variants
                if variant.name not in skipped
            )
            self.assertLess(seconds / 60, 150, study.name)


class FileSizeTest(testtools.TestCase):
    def parse(self, **base: Any) -> Study:
        return definition.parse_study(
            'mine',
            {
                'question': 'Is it so?',
                'size': '200MB',
                'base': base,
                'variants': {'a': {}, 'b': {'size_factor': 10}},
                'claims': [
                    {
                        'text': 'It is so.',
                        'variant': 'a',
                        'against': 'b',
                        'rule': 'faster',
                    }
                ],
            },
            'mine.yaml',
        )

    def test_number_of_files(self) -> None:
        """It grows with the data."""
        for base in ({}, {'workload': 'testdfsio'}):
            study = self.parse(file_size='60MB', **base)
            self.assertIn('file_size 60 MB', study.variants[0].describe())
            started = StartedStudy('x', study, '', 'h', 'kvm')
            workloads: Any = study_run.build_arguments(
                started, started.list_steps()[:2]
            )['workloads']
            facts = claim_results.list_varied_facts(*study.variants)
            self.assertEqual({'files', 'size_bytes'}, facts)
            self.assertEqual(
                {200_000_000: 3, 2_000_000_000: 33},
                {item['size']: item['maps'] for item in workloads},
            )

    def test_errors(self) -> None:
        for base, expected in (
            ({'file_size': '60MB', 'maps': 3}, "'maps' exclude each other"),
            ({'file_size': '1 potato'}, "'base.file_size' is not valid"),
        ):
            error = self.assertRaises(errors.InputError, self.parse, **base)
            self.assertIn(expected, str(error))
