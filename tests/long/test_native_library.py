# SPDX-License-Identifier: Apache-2.0
"""Hadoop's native library on a cluster. The lab is up.

``HVSTACK_HADOOP_TARBALL`` is the path of a Hadoop release for this processor,
with ``lib/native/libhadoop.so``. Its image is built in ``hvstack-images`` next
to the release, and stays there for the next run.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import fixtures

from hvstack import processutils
from hvstack.cloud import undo
from hvstack.cluster import launch, planner, probe
from hvstack.cluster.base import Node
from hvstack.cluster.plan import ClusterSpec
from hvstack.cluster.stack import StackCluster
from hvstack.hadoop.site_files import CONF
from hvstack.hadoop.sizing import LAB
from hvstack.lab import identity, images
from hvstack.lab.images import store
from hvstack.model.configuration import parse
from hvstack.progress import Progress
from hvstack.tpcxhs import run as tpcxhs
from hvstack.tpcxhs.workload import Workload
from tests.functional.test_cluster import LabTest

TARBALL = os.environ.get('HVSTACK_HADOOP_TARBALL', '')
#: The cluster, and its image in Glance.
NAME = 'hv-test-native'
#: Size of the file that is written and read, in MiB and in pages of 4 KiB.
FILE_MIB = 200
PAGES = FILE_MIB * 256
MIB = 1024**2
#: Bytes of ``dfs.datanode.readahead.bytes`` in vsphere6.
READ_AHEAD = 4 * MIB
#: Prints the path of the newest block of this size: that of a deleted file
#: stays for some seconds.
BLOCK = (
    f"find /srv/hdfs -name 'blk_*' -size +{FILE_MIB // 2}M "
    "-printf '%T@ %p\\n' | sort -n | tail -n 1 | cut -d ' ' -f 2"
)
#: Prints the number of its pages in the page cache.
COUNT = f'fincore -b -n -o PAGES "$({BLOCK})"'
#: Removes its pages from the page cache.
FORGET = (
    f'dd of="$({BLOCK})" oflag=nocache conv=notrunc,fdatasync count=0 '
    'status=none'
)


class NativeLibraryTest(LabTest):
    def setUp(self) -> None:
        super().setUp()
        if not TARBALL:
            self.skipTest('needs HVSTACK_HADOOP_TARBALL')
        if shutil.which('strace') is None:
            self.skipTest('needs strace')
        cloud = identity.connect()
        image_id = images.upload(cloud, self.build(), 'lxc', title=NAME)
        self.addCleanup(cloud.image.delete_image, image_id)
        # Before the image, the cluster is deleted.
        self.addCleanup(undo.undo_own, [self.conn])

    def build(self) -> images.Image:
        """Build the image; that of the lab keeps its source of Hadoop."""
        bases = store.root() / 'bases'
        cache = Path(TARBALL).resolve().parent / 'hvstack-images'
        with fixtures.MonkeyPatch('hvstack.paths.CACHE', cache):
            target = store.root() / 'bases'
            if bases.is_dir() and not target.exists():
                shutil.copytree(bases, target)
            return images.build('hadoop', Progress(), tarball=Path(TARBALL))

    def create(self) -> StackCluster:
        """Create the cluster from the image."""
        plan = planner.plan_cluster(
            self.conn, ClusterSpec(parse('i1'), tuning=LAB), self.options
        )
        plan = replace(plan, stack=replace(plan.stack, image=NAME))
        project = str(self.conn.current_project_id)
        cluster, _ = launch.launch(
            self.conn,
            self.conn,
            plan,
            launch.publish(self.conn, plan, [project]),
            NAME,
            self.options,
        )
        self.addCleanup(cluster.close)
        return cluster

    def configure(self, **settings: str) -> None:
        """Restart the DataNode of the worker with other settings.

        :param settings: properties; their names have ``_`` instead of ``.``
            and begin after ``dfs.datanode.``.
        """
        properties = ''.join(
            f'<property><name>dfs.datanode.{name.replace("_", ".")}</name>'
            f'<value>{value}</value></property>'
            for name, value in settings.items()
        )
        self.worker.run(
            f'cd {CONF} && {{ [ -e saved ] || cp hdfs-site.xml saved; }} && '
            f"sed 's:</configuration>:{properties}&:' saved >hdfs-site.xml && "
            '/usr/lib/hvstack/node stop datanode && '
            '/usr/lib/hvstack/node start datanode'
        )
        info = (
            f'http://{self.worker.address}:9864/jmx?'
            'qry=Hadoop:service=DataNode,name=DataNodeInfo'
        )
        processutils.wait_for(
            lambda: 'RUNNING' in self.say(f"wget -q -O - '{info}' || true"),
            'the DataNode',
            timeout=120,
            interval=2,
        )

    def say(self, command: str) -> str:
        """Return the output of a command on the worker."""
        return self.worker.run(command).stdout.strip()

    def count_pages(self) -> int:
        """Return the number of pages of the block in the page cache."""
        return int(self.say(COUNT))

    def digest(self) -> str:
        """Return the digest of the library of the release."""
        with tarfile.open(TARBALL) as archive:
            member = next(
                member
                for member in archive
                if member.name.endswith('/lib/native/libhadoop.so')
            )
            stream = archive.extractfile(member)
            assert stream is not None
            return hashlib.file_digest(stream, 'sha256').hexdigest()[:12]

    def test_library_is_in_force(self) -> None:
        cluster = self.create()
        self.worker: Node = cluster.workers[0]
        output = self.say('hadoop checknative 2>&1')
        print(output)
        self.assertRegex(
            output, r'hadoop: +true /opt/hadoop/native/libhadoop\.so'
        )
        digest = self.digest()
        self.assertEqual(digest, probe.facts(self.worker)['libhadoop'])
        run_result = tpcxhs.run(cluster, Workload(10_000_000, 2, 2, 2))
        self.assertEqual('', run_result.reason)
        self.assertEqual(digest, run_result.sut['libhadoop'])
        self.check_tasks()
        self.check_page_cache()
        self.check_read_ahead()

    def check_tasks(self) -> None:
        """Check the logs of tasks: one without the library warns of it."""
        logs = '/srv/yarn/log/*/*/syslog'
        self.assertGreater(int(self.say(f'ls {logs} | wc -l')), 0)
        text = 'Unable to load native-hadoop library'
        self.assertEqual('', self.say(f'grep -l "{text}" {logs} || true'))

    def check_page_cache(self) -> None:
        """DataNodes drop blocks after writes and reads, if they are told to.

        Reads are dropped in part. ``sendfile`` has pages in use until the
        client has received them. The kernel reads ahead in folios of several
        pages, and ``posix_fadvise`` drops only folios that are whole in its
        range of 1 MiB.
        """
        pages = {}
        for drop in ('false', 'true'):
            self.configure(
                drop_cache_behind_writes=drop,
                drop_cache_behind_reads=drop,
                transferTo_allowed='false',
            )
            self.put_file()
            written = self.count_pages()
            self.worker.run(FORGET)
            self.assertEqual(0, self.count_pages())
            self.say('hdfs dfs -cat /file >/dev/null')
            pages[drop] = (written, self.count_pages())
        print(f'pages of {PAGES} after writing and after reading: {pages}')
        self.assertGreater(min(pages['false']), 0.9 * PAGES)
        written, read = pages['true']
        self.assertLess(written, 0.5 * PAGES)
        self.assertLess(read, 0.9 * PAGES)

    def check_read_ahead(self) -> None:
        """DataNodes ask the kernel for data that a client reads next.

        The page cache does not tell: kernels read several MiB ahead by
        themselves.
        """
        requests = {}
        for size in (0, READ_AHEAD):
            self.configure(readahead_bytes=str(size))
            self.worker.run(FORGET)
            calls = self.trace('hdfs dfs -cat /file >/dev/null')
            requests[size] = sum('WILLNEED' in line for line in calls)
        print(f'requests to read ahead, by bytes: {requests}')
        self.assertEqual(0, requests[0])
        # Each half of the bytes is followed by the next request.
        self.assertGreater(requests[READ_AHEAD], FILE_MIB * MIB / READ_AHEAD)
        self.assertTrue([line for line in calls if f' {READ_AHEAD}, ' in line])

    def trace(self, command: str) -> list[str]:
        """Return the calls of ``fadvise64`` of the DataNode meanwhile.

        :param command: command that runs on the worker.
        """
        namespace = self.say('readlink /proc/self/ns/net')
        pids = []
        for path in Path('/proc').glob('[0-9]*/cmdline'):
            # A process can end meanwhile.
            with contextlib.suppress(OSError):
                if (
                    b'\0-Dproc_datanode\0' in path.read_bytes()
                    and str((path.parent / 'ns/net').readlink()) == namespace
                ):
                    pids.append(path.parent.name)
        (pid,) = pids
        output = Path(self.useFixture(fixtures.TempDir()).path) / 'calls'
        tracer = subprocess.Popen(
            ['strace', '-f', '-e', 'fadvise64', '-o', output, '-p', pid],
            stderr=subprocess.PIPE,
        )
        assert tracer.stderr is not None
        # The first line says that it is attached.
        tracer.stderr.readline()
        try:
            self.say(command)
        finally:
            tracer.terminate()
            tracer.communicate()
        return output.read_text().splitlines()

    def put_file(self) -> None:
        """Write the file as one block, whose first replica is here."""
        self.worker.run(
            'hdfs dfs -rm -f -skipTrash "/file*" && '
            f'head -c {FILE_MIB}m /dev/urandom >/tmp/file && '
            'hdfs dfs -D dfs.replication=1 -D dfs.blocksize=268435456 '
            '-put /tmp/file /file && rm /tmp/file'
        )
