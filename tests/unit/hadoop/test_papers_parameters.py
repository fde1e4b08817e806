# SPDX-License-Identifier: Apache-2.0
"""The tables hold every parameter of the papers, under names that exist."""

import re
from collections import Counter
from pathlib import Path

import testtools

from hvstack.hadoop import properties, site_files, sizing, tuning_profiles
from hvstack.hadoop.properties import CORE, HDFS, MAPRED, YARN
from tests.unit.hadoop.test_site_files import parse_properties

SITE_FILES = (CORE, HDFS, YARN, MAPRED)
#: Names of hvstack that Hadoop 3.4.2's default files have; the functional test
#: test_hadoop_names holds this list against the jars.
KNOWN = Path(__file__).with_name('known-names.txt')

#: Properties that Hadoop 3.5 reads but that no default file contains, each
#: with a class that defines it.
NOT_IN_DEFAULTS = {
    'mapreduce.input.fileinputformat.split.maxsize': 'mapreduce.lib.input'
    '.FileInputFormat',
    'mapreduce.map.java.opts': 'mapred.JobConf',
    'mapreduce.reduce.java.opts': 'mapred.JobConf',
    'mapreduce.shuffle.manage.os.cache': 'mapred.ShuffleHandler',
    'mapreduce.terasort.output.replication': 'examples.terasort'
    '.TeraSortConfigKeys',
    'mapreduce.terasort.partitions.sample': 'examples.terasort'
    '.TeraSortConfigKeys',
    'mapreduce.terasort.use.terascheduler': 'examples.terasort'
    '.TeraSortConfigKeys',
    **{
        f'yarn.scheduler.capacity.{name}': 'yarn.server.resourcemanager'
        '.scheduler.capacity.CapacitySchedulerConfiguration'
        for name in (
            'per-node-heartbeat.multiple-assignments-enabled',
            'per-node-heartbeat.maximum-container-assignments',
            'per-node-heartbeat.maximum-offswitch-assignments',
            'schedule-asynchronously.enable',
        )
    },
}
#: Class that reads properties whose names contain a queue and a label.
CAPACITIES = (
    'yarn.server.resourcemanager.scheduler.capacity'
    '.CapacitySchedulerConfiguration'
)
#: Names that it composes, with the texts that the class contains.
COMPOSED = {
    f'yarn.scheduler.capacity.{queue}.{".".join(parts)}': parts[::2]
    for queue, *parts in (
        ('root', 'accessible-node-labels', 'am', 'capacity'),
        ('root.default', 'accessible-node-labels'),
        ('root.default', 'accessible-node-labels', 'am', 'capacity'),
        (
            *('root.default', 'accessible-node-labels', 'am'),
            'maximum-am-resource-percent',
        ),
    )
}
#: Values that differ from the papers, by paper and name in the paper.
CHANGED = {
    ('vsphere6', 'mapreduce.framework.name'): 'yarn',
    (
        'amd',
        'mapred.map.output.compression.codec',
    ): 'org.apache.hadoop.io.compress.SnappyCodec',
}

#: As the papers write them, in their order. vsphere6 has
#: dfs.datanode.max.transfer.threads twice.
VSPHERE6 = """
HADOOP_HEAPSIZE
io.file.buffer.size terasort.partitions.sample topology.script.file.name
dfs.datanode.max.transfer.threads dfs.replication dfs.blocksize
dfs.datanode.max.transfer.threads dfs.datanode.readahead.bytes
dfs.datanode.drop.cache.behind.writes dfs.datanode.sync.behind.writes
dfs.datanode.drop.cache.behind.reads dfs.permissions.enabled
dfs.namenode.handler.count dfs.heartbeat.interval
dfs.namenode.replication.interval dfs.blockreport.intervalMsec
mapreduce.framework.name mapred.local.dir mapred.system.dir
mapred.{map,reduce}.tasks mapred.tasktracker.{map,reduce}.tasks.maximum
mapred.map.child.java.opts mapred.reduce.child.java.opts mapred.child.ulimit
mapred.jobtracker.taskScheduler mapred.fairscheduler.locality.delay
mapred.{map,reduce}.tasks.speculative.execution mapred.job.reuse.jvm.num.tasks
mapred.reduce.parallel.copies mapred.reduce.slowstart.completed.maps
mapred.job.tracker.handler.count io.sort.factor io.sort.mb
io.sort.record.percent mapred.task.timeout mapred.tasktracker.shuffle.fadvise
mapreduce.ifile.readahead.bytes tasktracker.http.threads
mapred.inmem.merge.threshold mapred.job.shuffle.merge.percent
mapred.job.shuffle.input.buffer.percent
mapreduce.tasktracker.outofband.heartbeat mapred.task.cache.levels
mapred.job.reduce.input.buffer.percent mapred.compress.map.output
mapred.map.output.compression.codec mapred.jobtracker.completeuserjobs.maximum
"""
VSAN = """
dfs.blocksize dfs.client.use.datanode.hostname mapreduce.task.io.sort.mb
yarn.scheduler.minimum-allocation-mb mapreduce.map.memory.mb
mapreduce.reduce.memory.mb mapreduce.map.cpu.vcores
mapreduce.reduce.cpu.vcores mapreduce.job.heap.memory-mb.ratio
"""
AMD = """
mapred.task.timeout dfs.socket.timeout dfs.datanode.socket.write.timeout
mapred.map.tasks mapred.tasktracker.map.tasks.maximum mapred.reduce.tasks
mapred.tasktracker.reduce.tasks.maximum mapred.map.child.java.opts
mapred.reduce.child.java.opts
mapred.local.dir dfs.name.dir dfs.data.dir
mapred.compress.map.output mapred.map.output.compression.codec
mapred.output.compress mapred.output.compression.type
mapred.output.compression.codec
mapred.job.reuse.jvm.num.tasks
mapred.min.split.size dfs.block.size mapred.max.split.size
io.sort.mb io.sort.record.percent io.sort.spill.percent
mapred.reduce.parallel.copies tasktracker.http.threads
dfs.datanode.handler.count dfs.namenode.handler.count
mapred.job.tracker.handler.count
mapred.job.shuffle.input.buffer.percent mapred.job.shuffle.merge.percent
mapred.job.reduce.input.buffer.percent
mapred.max.tracker.failures
AggressiveOpts UseCompressedOops UseBiasedLocking
"""


def names(text: str) -> set[str]:
    """Return the names of a list, with {map,reduce} written out."""
    property_names = set()
    for word in text.split():
        match = re.search(r'\{(.*)\}', word)
        for alternative in match[1].split(',') if match else ['']:
            property_names.add(re.sub(r'\{.*\}', alternative, word))
    return property_names


def written() -> set[str]:
    """Return every name that any tuning writes or could write."""
    property_names = {
        row.name
        for tuning in tuning_profiles.list_names()
        for row in tuning_profiles.load(tuning).all_properties
        if row.site in SITE_FILES
    }
    for tuning in tuning_profiles.list_names():
        sizing_ = sizing.size_node(8, 16384, tuning=tuning)
        for location_properties in (
            site_files.TOPOLOGY_PROPERTIES,
            site_files.SHARED_HDFS_PROPERTIES,
        ):
            for text in site_files.render_site_files(
                sizing_,
                tuning=tuning,
                namenode_handlers=1,
                location_properties=location_properties,
            ).values():
                property_names |= set(parse_properties(text))
    return property_names


class TablesTest(testtools.TestCase):
    papers = (
        ('vsphere6', VSPHERE6, 50),
        ('vsan', VSAN, 9),
        ('amd', AMD, 36),
    )

    def test_every_parameter_of_the_papers_is_there_once(self) -> None:
        for tuning, text, count in self.papers:
            olds = [
                row.paper_name
                for row in tuning_profiles.load(tuning).properties
            ]
            self.assertEqual(names(text), set(olds))
            self.assertEqual(count, len(olds))

    def test_sections_of_vsphere6(self) -> None:
        counts = Counter(
            row.source for row in tuning_profiles.load('vsphere6').properties
        )
        self.assertEqual([1, 3, 12, 34], list(counts.values()))

    def test_what_is_gone_not_set_or_changed_says_why(self) -> None:
        for tuning in tuning_profiles.list_names():
            for row in tuning_profiles.load(tuning).all_properties:
                self.assertTrue(row.source, row)
                self.assertTrue(row.reason.endswith('.'), row)
                if not row.name:
                    self.assertIsNone(row.value, row.paper_name)
                    self.assertEqual('', row.formula, row.paper_name)

    def test_values_are_the_papers_unless_a_reason_says_otherwise(
        self,
    ) -> None:
        changed = {
            (tuning, row.paper_name): row.value
            for tuning, _, _ in self.papers
            for row in tuning_profiles.load(tuning).properties
            if row.value is not None
            and row.value.removesuffix('s').lower()
            not in row.paper_value.lower()
        }
        self.assertEqual(CHANGED, changed)

    def test_values_of_hvstack_are_those_of_the_papers(self) -> None:
        """The default profile repeats the rows of the papers it uses."""
        repeated = [
            row
            for row in tuning_profiles.load('hvstack').properties
            if row.paper_name
        ]
        self.assertEqual(11, len(repeated))
        for row in repeated:
            paper, _, section = row.source.partition(', ')
            (original,) = (
                other
                for other in tuning_profiles.load(paper).properties
                if other.paper_name == row.paper_name
            )
            self.assertTrue(original.source.startswith(section), row)
            if row.paper_name != 'io.sort.spill.percent':
                self.assertEqual(original.value, row.value)
                self.assertEqual(original.reason, row.reason)
            self.assertEqual(original.paper_value, row.paper_value)
            self.assertEqual(original.name, row.name)
            self.assertEqual(original.site, row.site)

    def test_every_name_is_hadoops(self) -> None:
        hadoop_names = set(KNOWN.read_text().split())
        self.assertEqual(set(), hadoop_names & set(NOT_IN_DEFAULTS))
        others = {*NOT_IN_DEFAULTS, *COMPOSED}
        self.assertEqual(set(), written() - hadoop_names - others)
        self.assertEqual(
            set(), hadoop_names - written(), 'names no one writes'
        )

    def test_no_tuning_sets_a_name_twice(self) -> None:
        for tuning in tuning_profiles.list_names():
            values_by_name: dict[str, set[str]] = {}
            for row in tuning_profiles.load(tuning).all_properties:
                if value := row.formula or row.value:
                    values_by_name.setdefault(row.name, set()).add(value)
            twice = {
                name
                for name, values in values_by_name.items()
                if len(values) > 1
            }
            self.assertEqual(set(), twice, tuning)

    def test_only_the_defaults_leave_all_tasks_to_one_heartbeat(self) -> None:
        limit = 'per-node-heartbeat.maximum-offswitch-assignments'
        self.assertEqual(
            ['stock'],
            [
                name
                for name in tuning_profiles.list_names()
                if not any(
                    row.name.endswith(limit)
                    for row in tuning_profiles.load(name).all_properties
                )
            ],
        )

    def test_papers_assign_tasks_by_heartbeats(self) -> None:
        """Hadoop 3.5 does not by default; others fill all containers."""
        name = 'yarn.scheduler.capacity.schedule-asynchronously.enable'
        values = {
            tuning: [
                row.value
                for row in tuning_profiles.load(tuning).all_properties
                if row.name == name
            ]
            for tuning in tuning_profiles.list_names()
        }
        others = ('hvstack', 'lab', 'stock')
        self.assertEqual(
            {name: [] if name in others else ['false'] for name in values},
            values,
        )

    def test_every_tuning_has_a_rule_and_a_block_size(self) -> None:
        blocks = {}
        for tuning in tuning_profiles.list_names():
            profile = tuning_profiles.load(tuning)
            self.assertGreater(profile.sizing.count_groups(40, False), 0)
            blocks[tuning] = (profile.block_mib, profile.max_block_mib)
        self.assertEqual(
            {
                'amd': (256, 256),
                'amd-3.1.1': (128, 128),
                'amd-3.1.3': (128, 128),
                'amd-3.1.5': (256, 256),
                'amd-3.1.6': (256, 256),
                'hvstack': (64, 256),
                'lab': (64, 256),
                'stock': (128, 128),
                'vsan': (256, 256),
                'vsphere6': (256, 256),
            },
            blocks,
        )

    def test_every_formula_says_what_it_is(self) -> None:
        used = {
            row.formula: row
            for tuning in tuning_profiles.list_names()
            for row in tuning_profiles.load(tuning).all_properties
            if row.formula
        }
        self.assertEqual(set(properties.FORMULAS), set(used))
        for row in used.values():
            self.assertTrue(properties.describe_value(row), row.name)
            self.assertIsNone(row.value, row.name)
