# SPDX-License-Identifier: Apache-2.0
"""Our tables of Hadoop's parameters against Hadoop's own jars."""

import zipfile
from pathlib import Path
from xml.etree import ElementTree

import testtools

from hvstack import paths, processutils
from hvstack.hadoop import tuning_profiles
from tests.unit.hadoop.test_papers_parameters import (
    CAPACITIES,
    COMPOSED,
    KNOWN,
    NOT_IN_DEFAULTS,
    SITE_FILES,
    written,
)

VERSION = '3.5.0'
DEFAULTS = {
    'hadoop-common': 'core-default.xml',
    'hadoop-hdfs': 'hdfs-default.xml',
    'hadoop-yarn-common': 'yarn-default.xml',
    'hadoop-mapreduce-client-core': 'mapred-default.xml',
}
#: Hadoop's own list of deprecated names has these not, or as MapReduce 1's.
OTHERWISE = {
    'mapred.jobtracker.taskScheduler',
    'mapred.local.dir',
    'mapred.tasktracker.shuffle.fadvise',
    'tasktracker.http.threads',
    'terasort.partitions.sample',
}


class HadoopNamesTest(testtools.TestCase):
    def setUp(self) -> None:
        super().setUp()
        jars = sorted(
            (paths.CACHE / 'maven').glob(f'*/hadoop-common-{VERSION}.jar')
        )
        if not jars:
            self.skipTest("needs Hadoop's jars (hvstack image build hadoop)")
        self.jars = jars[0].parent

    def read(self, jar: Path, name: str) -> bytes:
        with zipfile.ZipFile(jar) as archive:
            return archive.read(name)

    def test_names_are_in_the_default_files(self) -> None:
        names: set[str] = set()
        for jar, name in DEFAULTS.items():
            text = self.read(self.jars / f'{jar}-{VERSION}.jar', name)
            names |= {
                element.findtext('name', '').strip()
                for element in ElementTree.fromstring(text).iter('property')
            }
        self.assertEqual(set(), set(KNOWN.read_text().split()) - names)
        self.assertEqual(set(), set(NOT_IN_DEFAULTS) & names)
        others = {*NOT_IN_DEFAULTS, *COMPOSED}
        self.assertEqual(set(), written() - names - others)

    def test_the_others_are_read_by_their_classes(self) -> None:
        classes = {}
        for jar in self.jars.glob('hadoop-*.jar'):
            with zipfile.ZipFile(jar) as archive:
                for name in archive.namelist():
                    classes[name] = jar
        texts = list(NOT_IN_DEFAULTS.items())
        texts += [
            (part, CAPACITIES) for parts in COMPOSED.values() for part in parts
        ]
        for text, holder in texts:
            path = f'org/apache/hadoop/{holder.replace(".", "/")}.class'
            self.assertIn(text.encode(), self.read(classes[path], path))

    def test_new_names_are_those_that_hadoop_itself_gives(self) -> None:
        new: dict[str, str] = {}
        for program in ('mapreduce.util.ConfigUtil', 'hdfs.HdfsConfiguration'):
            answer = processutils.run(
                [
                    'java',
                    '-cp',
                    f'{self.jars}/*',
                    f'org.apache.hadoop.{program}',
                ]
            )
            for line in answer.stdout.splitlines():
                old, _, replacement = line.partition('\t')
                new[old] = replacement.strip()
        for tuning in ('vsphere6', 'vsan', 'amd'):
            for row in tuning_profiles.load(tuning).properties:
                if row.site in SITE_FILES and row.paper_name not in OTHERWISE:
                    expected = new.get(row.paper_name, row.paper_name)
                    self.assertEqual(expected, row.name, row.paper_name)
