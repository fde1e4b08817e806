# SPDX-License-Identifier: Apache-2.0
"""The tables hold every parameter of the papers, under names that exist."""

import re
from pathlib import Path

import testtools

from hvstack.hadoop import properties, site_files, sizing, tuning_profiles
from hvstack.hadoop.properties import CORE, HDFS, MAPRED, YARN, HadoopProperty
from tests.unit.hadoop.test_sites import parse_properties

SITE_FILES = (CORE, HDFS, YARN, MAPRED)
#: Names of ours that Hadoop 3.4.2's default files have; the functional test
#: test_hadoop_names holds this list against the jars.
KNOWN = Path(__file__).with_name('known-names.txt')

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


def rows(table: properties.Table) -> list[HadoopProperty]:
    """Return all rows of a table."""
    return [row for section in table.values() for row in section]


def written() -> set[str]:
    """Return every name that any tuning writes or could write."""
    property_names = {
        row.name
        for table in tuning_profiles.TUNINGS.values()
        for row in rows(table)
        if row.site in SITE_FILES
    }
    for tuning in tuning_profiles.TUNINGS:
        sizing_ = sizing.size_node(8, 16384, tuning=tuning)
        for text in site_files.render_site_files(
            sizing_, tuning=tuning, namenode_handlers=1
        ).values():
            property_names |= set(parse_properties(text))
    return property_names


class TablesTest(testtools.TestCase):
    papers = (
        (tuning_profiles.VSPHERE6, VSPHERE6, 50),
        (tuning_profiles.VSAN, VSAN, 9),
        (tuning_profiles.AMD, AMD, 36),
    )

    def test_every_parameter_of_the_papers_is_there_once(self) -> None:
        for table, text, count in self.papers:
            olds = [row.paper_name for row in rows(table)]
            self.assertEqual(names(text), set(olds))
            self.assertEqual(count, len(olds))

    def test_sections_of_vsphere6(self) -> None:
        counts = [
            len(section) for section in tuning_profiles.VSPHERE6.values()
        ]
        self.assertEqual([1, 3, 12, 34], counts)

    def test_what_is_gone_not_set_or_changed_says_why(self) -> None:
        for table, _, _ in self.papers:
            for row in rows(table):
                if row.value is None:
                    self.assertTrue(row.reason, row.paper_name)
                if not row.name:
                    self.assertIsNone(row.value, row.paper_name)

    def test_values_are_the_papers_unless_a_reason_says_otherwise(
        self,
    ) -> None:
        for table, _, _ in self.papers:
            for row in rows(table):
                if isinstance(row.value, str) and not row.reason:
                    self.assertIn(
                        row.value.removesuffix('s').lower(),
                        row.paper_value.lower(),
                        row.paper_name,
                    )

    def test_every_name_is_hadoops(self) -> None:
        hadoop_names = set(KNOWN.read_text().split())
        self.assertEqual(set(), hadoop_names & set(properties.NOT_IN_DEFAULTS))
        self.assertEqual(
            set(), written() - hadoop_names - set(properties.NOT_IN_DEFAULTS)
        )
        self.assertEqual(
            set(), hadoop_names - written(), 'names no one writes'
        )

    def test_no_tuning_sets_a_name_twice(self) -> None:
        for tuning, table in tuning_profiles.TUNINGS.items():
            values_by_name: dict[str, set[object]] = {}
            for row in rows(table):
                if row.value is not None:
                    values_by_name.setdefault(row.name, set()).add(row.value)
            twice = {
                name
                for name, values in values_by_name.items()
                if len(values) > 1
            }
            self.assertEqual(set(), twice, tuning)

    def test_every_tuning_has_a_rule_and_a_block_size(self) -> None:
        self.assertEqual(set(tuning_profiles.TUNINGS), set(sizing.RULES))
        self.assertEqual(
            set(tuning_profiles.TUNINGS), set(tuning_profiles.BLOCK_MIB)
        )

    def test_every_formula_says_what_it_is(self) -> None:
        for table in tuning_profiles.TUNINGS.values():
            for row in rows(table):
                if callable(row.value):
                    self.assertTrue(row.display_value, row.name)
