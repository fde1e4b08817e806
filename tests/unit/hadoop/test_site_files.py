# SPDX-License-Identifier: Apache-2.0
"""Test Hadoop's site files."""

import hashlib
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import fixtures
import testtools

from hvstack import errors, shell_scripts
from hvstack.hadoop import properties, site_files, tuning_profiles
from hvstack.hadoop.sizing import size_node
from hvstack.lab.images import recipes

MAP_OPTS = 'mapreduce.map.java.opts'


def parse_properties(text: str) -> dict[str, str]:
    """Read a site file as Hadoop does."""
    root = ElementTree.fromstring(text)
    return {
        element.findtext('name', ''): element.findtext('value', '')
        for element in root.iter('property')
    }


class SitesTest(testtools.TestCase):
    def make(self, **options: object) -> dict[str, dict[str, str]]:
        files_by_name = site_files.render_site_files(
            size_node(2, 4096), **options
        )  # type: ignore
        return {
            name: parse_properties(text)
            for name, text in files_by_name.items()
        }

    def tuned(
        self, tuning: str, vcpus: int, memory: int, **options: object
    ) -> dict[str, dict[str, str]]:
        sizing = size_node(vcpus, memory, tuning=tuning)
        files_by_name = site_files.render_site_files(
            sizing, tuning=tuning, **options
        )  # type: ignore
        return {
            name: parse_properties(text)
            for name, text in files_by_name.items()
        }

    def test_files(self) -> None:
        self.assertEqual(
            {
                'core-site.xml',
                'hdfs-site.xml',
                'yarn-site.xml',
                'mapred-site.xml',
            },
            set(self.make()),
        )

    def test_a_compute_cluster_has_its_own_directories(self) -> None:
        """JobHistory servers would delete each other's files elsewhere."""
        files_by_name = self.make(
            location_properties=site_files.SHARED_HDFS_PROPERTIES
        )
        plain = self.make()
        for name, key in (
            ('mapred-site.xml', 'yarn.app.mapreduce.am.staging-dir'),
            ('yarn-site.xml', 'yarn.nodemanager.remote-app-log-dir'),
        ):
            directory = files_by_name[name].pop(key)
            self.assertTrue(directory.startswith('/compute-clusters/%STACK%/'))
            self.assertNotIn(key, plain[name])
        # The directories of the JobHistory server follow from the first.
        self.assertEqual(plain, files_by_name)
        self.assertNotIn('mapreduce.jobhistory.done-dir', str(plain))

    def test_controller_is_a_placeholder_unless_known(self) -> None:
        for options, expected in (
            ({}, '%CONTROLLER%'),
            ({'controller': '10.0.0.5'}, '10.0.0.5'),
        ):
            files_by_name = self.make(**options)
            self.assertEqual(
                f'hdfs://{expected}:8020',
                files_by_name['core-site.xml']['fs.defaultFS'],
            )
            self.assertEqual(
                expected,
                files_by_name['yarn-site.xml'][
                    'yarn.resourcemanager.hostname'
                ],
            )

    def test_replication_holds_for_output_and_job_files(self) -> None:
        files_by_name = self.make(replication=2)
        self.assertEqual(
            '2', files_by_name['hdfs-site.xml']['dfs.replication']
        )
        mapred = files_by_name['mapred-site.xml']
        self.assertEqual('2', mapred['mapreduce.terasort.output.replication'])
        self.assertEqual(
            '2', mapred['mapreduce.client.submit.file.replication']
        )

    def test_node_groups(self) -> None:
        with_groups = self.make(node_groups=True)
        without = self.make(node_groups=False)
        key = 'dfs.block.replicator.classname'
        self.assertIn('NodeGroup', with_groups['hdfs-site.xml'][key])
        self.assertNotIn(key, without['hdfs-site.xml'])
        self.assertIn('net.topology.impl', with_groups['core-site.xml'])
        self.assertNotIn('net.topology.impl', without['core-site.xml'])
        self.assertEqual(
            'false',
            with_groups['hdfs-site.xml']['dfs.use.dfs.network.topology'],
        )

    def test_places_are_looked_up_by_the_image_s_program(self) -> None:
        core = self.make()['core-site.xml']
        path = core['net.topology.script.file.name']
        self.assertTrue(
            (recipes.FILES / 'hadoop' / path.lstrip('/')).is_file()
        )

    def test_every_jvm_is_told_its_processors(self) -> None:
        mapred = self.make()['mapred-site.xml']
        for name in (
            'mapreduce.map.java.opts',
            'mapreduce.reduce.java.opts',
            'yarn.app.mapreduce.am.command-opts',
        ):
            self.assertIn('-XX:ActiveProcessorCount=2', mapred[name])
        self.assertIn(
            'JAVA_PROCESSORS=2\n',
            site_files.render_node_env(site_files.WORKER_ROLES, 2),
        )

    def test_sizing_arrives(self) -> None:
        sizing = size_node(2, 4096)
        yarn = self.make()['yarn-site.xml']
        self.assertEqual(
            str(sizing.yarn_mib), yarn['yarn.nodemanager.resource.memory-mb']
        )
        mapred = self.make()['mapred-site.xml']
        self.assertEqual(
            str(sizing.container_mib), mapred['mapreduce.map.memory.mb']
        )

    def test_lab_is_what_records_carry(self) -> None:
        """Records of other clusters compare only while these stay."""
        self.assertEqual('2abd656a480b', site_files.digest_settings('lab'))
        for vcpus, memory, expected in (
            (1, 2048, 'f5dbf707d65a'),
            (2, 4096, 'e7779652b8fe'),
            (2, 4864, '2f3b56a37d40'),
            # Its blocks are the papers'; a run sets its own.
            (40, 262144, '8a721ca91479'),
        ):
            files_by_name = site_files.render_site_files(
                size_node(vcpus, memory, tuning='lab'),
                replication=2,
                tuning='lab',
                location_properties={},
            )
            text = ''.join(
                name + files_by_name[name] for name in sorted(files_by_name)
            )
            digest = hashlib.sha256(text.encode()).hexdigest()
            self.assertEqual(expected, digest[:12], (vcpus, memory))

    def test_blocks_of_the_papers_but_on_small_workers(self) -> None:
        """The smallest of vsphere6's, vsan's, and the lab's largest."""
        for vcpus, memory, expected in (
            (2, 12339, 256),
            (14, 48 * 1024, 256),
            (2, 5120, 64),
            (1, 2048, 64),
        ):
            hdfs = self.tuned('hvstack', vcpus, memory)['hdfs-site.xml']
            self.assertEqual(str(expected << 20), hdfs['dfs.blocksize'])

    def test_every_tuning_has_a_profile_of_its_own(self) -> None:
        tunings = tuning_profiles.list_names()
        self.assertEqual(10, len(tunings))
        digests = set(map(site_files.digest_settings, tunings))
        self.assertEqual(len(tunings), len(digests))
        failure = self.assertRaises(
            errors.InputError, site_files.digest_settings, 'x'
        )
        self.assertIn("tuning profile 'x'", str(failure))

    def test_steps_of_amd_add_up(self) -> None:
        names = ['amd-3.1.1', 'amd-3.1.3', 'amd-3.1.5', 'amd-3.1.6', 'amd']
        previous: set[str] = set()
        for name, added in zip(
            names,
            (
                'mapreduce.map.java.opts',
                'mapreduce.map.output.compress',
                'dfs.blocksize',
                'mapreduce.map.sort.spill.percent',
                'mapreduce.reduce.input.buffer.percent',
            ),
            strict=True,
        ):
            files_by_name = self.tuned(name, 16, 65536)
            now = {key for values in files_by_name.values() for key in values}
            self.assertNotIn(added, previous)
            self.assertIn(added, now)
            self.assertLess(previous, now)
            previous = now

    def test_stock_leaves_hadoops_defaults(self) -> None:
        files_by_name = self.tuned('stock', 2, 4096)
        self.assertNotIn(
            'mapreduce.task.io.sort.mb', files_by_name['mapred-site.xml']
        )
        self.assertNotIn(
            'mapreduce.map.memory.mb', files_by_name['mapred-site.xml']
        )
        self.assertNotIn('dfs.blocksize', files_by_name['hdfs-site.xml'])
        self.assertNotIn('-Xmx', files_by_name['mapred-site.xml'][MAP_OPTS])
        self.assertEqual(
            '2048',
            files_by_name['yarn-site.xml'][
                'yarn.nodemanager.resource.memory-mb'
            ],
        )

    def test_stock_master_fits_a_small_worker(self) -> None:
        mapred = self.tuned('stock', 1, 2048)['mapred-site.xml']
        self.assertEqual('1024', mapred['yarn.app.mapreduce.am.resource.mb'])
        self.assertIn('-Xmx819m', mapred['yarn.app.mapreduce.am.command-opts'])

    def test_vsphere6_of_the_papers_worker(self) -> None:
        files_by_name = self.tuned('vsphere6', 10, 61696)
        mapred, hdfs = (
            files_by_name['mapred-site.xml'],
            files_by_name['hdfs-site.xml'],
        )
        self.assertIn('-Xmx800m -Xms800m -Xmn256m', mapred[MAP_OPTS])
        self.assertIn(
            '-Xmx1200m -Xmn256m', mapred['mapreduce.reduce.java.opts']
        )
        self.assertEqual('400', mapred['mapreduce.task.io.sort.mb'])
        copies = 'mapreduce.reduce.shuffle.parallelcopies'
        self.assertEqual('20', mapred[copies])
        self.assertEqual('268435456', hdfs['dfs.blocksize'])
        self.assertNotIn('dfs.namenode.handler.count', hdfs)
        small = self.tuned('vsphere6', 2, 12339)['mapred-site.xml']
        self.assertEqual('5', small[copies])

    def test_vsan_asks_for_what_the_scheduler_gives(self) -> None:
        """The CapacityScheduler rounds up to multiples of its minimum."""
        files_by_name = self.tuned('vsan', 14, 48 * 1024)
        for name in ('mapreduce.map.memory.mb', 'mapreduce.reduce.memory.mb'):
            self.assertEqual('2150', files_by_name['mapred-site.xml'][name])
        minimum = 'yarn.scheduler.minimum-allocation-mb'
        self.assertEqual('2150', files_by_name['yarn-site.xml'][minimum])

    def test_amd_buffer_follows_the_block(self) -> None:
        files_by_name = self.tuned('amd', 32, 128 * 1024)
        mapred = files_by_name['mapred-site.xml']
        self.assertEqual('306', mapred['mapreduce.task.io.sort.mb'])
        self.assertEqual('0.99', mapred['mapreduce.map.sort.spill.percent'])
        sizing = size_node(32, 128 * 1024, tuning='amd')
        for block_mib, expected in ((256, '306'), (64, '77')):
            facts = properties.Facts(sizing, 3, block_mib)
            self.assertEqual(expected, properties.block_buffer_mib(facts))

    def test_jvms_of_large_and_small_nodes(self) -> None:
        for tuning, is_small in (('hvstack', False), ('lab', True)):
            mapred = self.tuned(tuning, 40, 262144)['mapred-site.xml']
            for name in (MAP_OPTS, 'mapreduce.reduce.java.opts'):
                self.assertIn('-XX:+UseSerialGC', mapred[name])
                self.assertEqual(
                    is_small, '-XX:TieredStopAtLevel=1' in mapred[name]
                )
            master = mapred['yarn.app.mapreduce.am.command-opts']
            self.assertEqual(is_small, '-XX:+UseSerialGC' in master)

    def test_largest_container(self) -> None:
        """An ApplicationMaster may have all memory of a NodeManager."""
        for tuning in ('hvstack', 'lab', 'vsphere6', 'vsan', 'amd'):
            yarn = self.tuned(tuning, 14, 48 * 1024)['yarn-site.xml']
            self.assertEqual(
                yarn['yarn.nodemanager.resource.memory-mb'],
                yarn['yarn.scheduler.maximum-allocation-mb'],
                tuning,
            )

    def test_one_handler_is_an_option(self) -> None:
        hdfs = self.make(namenode_handlers=1)['hdfs-site.xml']
        self.assertEqual('1', hdfs['dfs.namenode.handler.count'])

    def test_heaps_of_the_daemons(self) -> None:
        lab = size_node(2, 4096, tuning='lab')
        self.assertEqual('', site_files.render_hadoop_env(lab))
        for tuning, heap in (('hvstack', 1024), ('vsan', 512), ('amd', 512)):
            env = site_files.render_hadoop_env(
                size_node(10, 61696, tuning=tuning)
            )
            self.assertIn(f'HEAP_datanode={heap}\n', env)
            # The guest image's own options are those of small JVMs.
            self.assertIn('JAVA_OPTS=-XX:+TieredCompilation\n', env)
        env = site_files.render_hadoop_env(
            size_node(10, 61696, tuning='vsphere6')
        )
        self.assertIn('HEAP_namenode=1300\n', env)
        self.assertIn('HEAP_nodemanager=1300\n', env)


class ReserveSpaceTest(testtools.TestCase):
    """File systems of bare-metal hosts that contain other files."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.useFixture(fixtures.TempDir()).path)
        self.node_env = self.directory / 'node.env'
        self.node_env.write_text('ROLES="datanode nodemanager"\n')

    def reserve(self, data: str, stat: str) -> tuple[dict[str, str], str, str]:
        """Return the properties of HDFS, YARN's limit, and the error.

        :param data: directories of the DataNode.
        :param stat: output of stat.
        """
        files = site_files.render_site_files(size_node(2, 4096), bind=True)
        for name, text in files.items():
            default = 'file:///srv/hdfs/data'
            (self.directory / name).write_text(text.replace(default, data))
        program = shell_scripts.render(
            'reserve-space', self.directory, self.node_env
        )
        stat_function = f'stat() {{ echo {stat}; }}\n'
        for _ in range(2):
            done = subprocess.run(
                ['sh', '-c', stat_function + program],
                capture_output=True,
                text=True,
                check=False,
            )
        self.assertEqual(bool(done.stderr), done.returncode == 1)
        hdfs, yarn = (
            parse_properties((self.directory / name).read_text())
            for name in ('hdfs-site.xml', 'yarn-site.xml')
        )
        prefix = 'dfs.datanode.du.reserved.'
        reserved = {
            name.removeprefix(prefix): value
            for name, value in hdfs.items()
            if name.startswith(prefix)
        }
        (limit,) = (
            value for name, value in yarn.items() if 'per-disk-perc' in name
        )
        return reserved, limit, done.stderr

    def test_other_files(self) -> None:
        """HDFS filled the file system, also that of the root disk."""
        stat = '4096 1000000 400000 350000'
        # 600000 blocks of other files, and a twentieth.
        expected = str(650_000 * 4096)
        for data, directories in (
            ('file:///srv/hdfs/data', ['/srv/hdfs/data']),
            (
                'file:///srv/data/0/hdfs,file:///srv/data/mount-0/hdfs,'
                'file:///srv/data/mount-1/hdfs',
                ['/srv/data/mount-0/hdfs', '/srv/data/mount-1/hdfs'],
            ),
        ):
            self.assertEqual(
                (dict.fromkeys(directories, expected), '95', ''),
                self.reserve(data, stat),
            )

    def test_disks_of_hvstack(self) -> None:
        """As in guests, whose disks contain nothing else."""
        self.assertEqual(
            ({}, '99', ''),
            self.reserve('file:///srv/data/0/hdfs', '1 100 0 0'),
        )
        self.node_env.write_text('ROLES="namenode resourcemanager"\n')
        self.assertEqual(
            ({}, '99', ''), self.reserve('file:///srv/hdfs/data', '1 100 0 0')
        )

    def test_full(self) -> None:
        _, _, error = self.reserve('file:///srv/hdfs/data', '4096 100 9 4')
        self.assertEqual(
            'Cannot use the file system of /srv/hdfs/data: less than 5 % of '
            'it are free. Delete files, or name another disk.\n',
            error,
        )

    def test_start_of_a_host(self) -> None:
        """It is a part of a file that other programs source."""
        text = site_files.render_user_switch(7, '/setup')
        done = subprocess.run(
            ['sh', '-n', '-c', text], capture_output=True, text=True
        )
        self.assertEqual((0, ''), (done.returncode, done.stderr))
        self.assertIn('        (\nset -- /etc/hadoop /etc/hvstack/node', text)
